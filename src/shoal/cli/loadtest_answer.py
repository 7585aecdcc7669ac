"""From what ``shoal loadtest`` was asked to what was measured."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from shoal.cli.loadtest_asked import LoadtestAsked
from shoal.cli.options import RefusedError
from shoal.cli.render import reporting
from shoal.service.client.bulk import people_a_chunk
from shoal.service.clock import system_clock
from shoal.service.loadtest import Load, Measured, Mix, Reports, fetched_keys, run
from shoal.service.loadtest.connection import Target
from shoal.service.loadtest.generator import quick_loop
from shoal.service.processes import executor
from shoal.service.survey import Survey
from shoal.service.survey.files import read_survey
from shoal.service.wire import Wire

T = TypeVar("T")
_MANY = 2000  # reports, from which on sealing has processes of its own


@dataclass(frozen=True)
class Tested:
    """What was asked, of which survey, and what came of it."""

    asked: LoadtestAsked
    survey: Survey
    url: str
    measured: Measured

    @property
    def p99(self) -> float | None:
        """Milliseconds; None if nothing was sent."""
        found = self.measured.milliseconds()
        return None if found is None else found["p99"]

    @property
    def broken(self) -> list[str]:
        """The limits that were not kept, each in a few words."""
        asked, found = self.asked, []
        if asked.p99 is not None and (self.p99 is None or self.p99 > asked.p99):
            told = "nothing was answered" if self.p99 is None else f"p99 is {self.p99:,.1f} ms"
            found.append(f"{told}, above {asked.p99:,g} ms")
        if asked.errors is not None and self.measured.errors > asked.errors:
            found.append(f"{self.measured.errors:.2%} refused or lost, above {asked.errors:.2%}")
        return found

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        asked = asdict(self.asked) | {"survey": str(self.survey.id), "to": self.url}
        del asked["for_testing"]
        return {"asked": asked, **self.measured.to_dict(), "broken": self.broken}


def answer(asked: LoadtestAsked) -> Tested:
    """Seal, send and measure."""
    survey = read_survey(asked.survey)
    _check(asked, survey)
    url = (asked.to or survey.shuffler.url).rstrip("/")
    reports = Reports(survey, fetched_keys(survey, url), asked.bulk)
    target = Target.of(f"{url}/v1/surveys/{survey.id}/reports", reports.body_bytes)
    mix = Mix(requests=asked.requests, forged=asked.forged, replayed=asked.replays)
    bodies = mix.fresh
    processes = asked.sealing if bodies * asked.bulk >= _MANY else 1
    with reporting("sealing reports") as told, executor(processes) as pool:
        fresh = reports.fresh(bodies, pool=pool, progress=told)
    load = Load(rate=asked.rate, connections=asked.connections, patience=asked.patience)
    with reporting("sending") as told:

        def progress(done: int) -> None:
            told(done, mix.requests)

        requests = mix.drawn(fresh, reports.forger())
        measured = _ran(lambda stop: run(target, requests, load, stop=stop, progress=progress))
    return Tested(asked, survey, url, measured)


def _check(asked: LoadtestAsked, survey: Survey) -> None:
    now = system_clock()
    if not survey.not_before <= now <= survey.not_after:
        raise RefusedError("the survey is not open now: everything would be refused")
    most = people_a_chunk(Wire.of(survey))
    if asked.bulk > most:
        raise RefusedError(f"--bulk {asked.bulk}: a shuffler takes at most {most:,} of these")


def _ran(work: Callable[[asyncio.Event], Coroutine[Any, Any, T]]) -> T:
    """Run it in a quick loop, and let Ctrl-C stop it instead of throwing it away."""

    async def stoppable() -> T:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, stop.set)
        try:
            return await work(stop)
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    with asyncio.Runner(loop_factory=quick_loop()) as runner:
        return runner.run(stoppable())
