"""From what ``shoal up`` was asked to services that run, people who answer, and a result."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import typer

from shoal.cli import up_show
from shoal.cli.app import INTERRUPTED
from shoal.cli.options import RefusedError
from shoal.cli.render import print_json, reporting, working
from shoal.service.running import local, people
from shoal.service.running.embedded import Embedded
from shoal.service.running.server import handling

if TYPE_CHECKING:
    from shoal.cli.up_asked import UpAsked
    from shoal.service.running.local import Local
    from shoal.service.running.people import Job

_LOOK_EVERY = 2.0


def answer(asked: UpAsked, began: float) -> None:
    """Start everything, let people answer, show what comes of it, and stay or stop."""
    staying = False
    try:
        with handling(_interrupt), _running(asked) as (services, new):
            _check_enough(asked, services)
            if not asked.as_json:
                up_show.introduce(services, new=new)
            with working("starting"):
                services.wait_until_ready()
            shown = _simulated(asked, services, began)
            if asked.once:
                return
            up_show.invite(services)
            staying = True
            _stay(services, shown)
    except KeyboardInterrupt:
        if not asked.as_json:
            up_show.leave(asked.directory)
        if not staying:
            sys.exit(INTERRUPTED)


@contextmanager
def _running(asked: UpAsked) -> Iterator[tuple[Local, bool]]:
    if Embedded(directory=asked.directory).ports() is not None:
        asked.check_again()
    with local.running(asked.directory, asked.wanted, port=asked.port) as found:
        yield found


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """SIGTERM is as good as Ctrl-C; and Ctrl-C works where a shell has switched it off."""
    del number, frame
    raise KeyboardInterrupt


def _check_enough(asked: UpAsked, services: Local) -> None:
    """Whoever waits for a result should get one."""
    target = services.survey.batches.target
    if asked.once and asked.simulate is not None and asked.simulate < target:
        raise RefusedError(
            f"the survey in {asked.directory} closes a batch at {target:,} reports: give "
            f"--simulate {target} or more, or leave --once out"
        )


def _simulated(asked: UpAsked, services: Local, began: float) -> int:
    """Let people answer, those first who were interrupted; how many results were shown.

    The same command again goes on with the crowd that was interrupted, and makes no second one.
    """
    known = len(services.results().batches)
    crowd = services.crowd
    job = crowd.unfinished()
    if job is not None:
        _send(services, job)
    if asked.simulate is None:
        return known
    if job is None or job.people != asked.simulate:
        job = crowd.begin(asked.simulate, before=known)
        _send(services, job)
    if job.people < services.survey.batches.target:
        typer.echo(f"{job.people:,} people sent a report; the batch closes when it is full.")
        return known
    with working("publishing"):
        services.wait_for_more(job.before)
    truth = people.shares(services.survey, people.invented(services.survey, job.people))
    seconds = time.monotonic() - began
    found = services.results()
    if asked.as_json:
        print_json(up_show.to_dict(services, found, truth, seconds))
    else:
        up_show.show(found, truth, seconds)
    return len(found.batches)


def _send(services: Local, job: Job) -> None:
    with reporting(f"{job.people:,} invented people randomize, seal and send") as told:
        services.crowd.send(job, told)


def _stay(services: Local, shown: int) -> None:
    """Keep everything running, and show what is published meanwhile."""
    while True:
        time.sleep(_LOOK_EVERY)
        services.check()
        if services.published() > shown:
            found = services.results()
            shown = len(found.batches)
            up_show.show(found, None, None)
