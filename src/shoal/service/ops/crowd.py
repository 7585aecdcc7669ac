"""Invented people who answer a survey for real: randomized, sealed and sent over HTTP.

A few answer one by one, each with a client of their own, as devices do; the others are sent many at
a time, as by somebody who collected their answers otherwise. What they send is kept until it has
arrived: whoever is interrupted goes on, and nobody is drawn twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from shoal import randomness
from shoal.errors import ShoalError
from shoal.randomizers.base import AnswerMechanism
from shoal.service.client import Client, Policy, Queued, Settings
from shoal.service.keyring.secrets import write_private
from shoal.service.opening import executor
from shoal.service.survey import Survey

SINGLY = 5
_SEED = 2026
_STATE = "job.json"
_MANY = 50_000  # people, from which on sealing has processes of its own
# Invented people allow everything: the survey was made a moment ago, on their machine.
_POLICY = Policy(
    local_epsilon=float("inf"),
    epsilon=float("inf"),
    delta=1.0,
    minimum=2,
    total_epsilon=float("inf"),
    total_delta=float("inf"),
    total_local_epsilon=float("inf"),
)
_SETTINGS = Settings(tries=8, wait=0.2, longest_wait=5.0)


class UndeliveredError(ShoalError):
    """Reports that did not arrive."""

    def __init__(self, where: str, waiting: int, why: str) -> None:
        self.waiting = waiting
        super().__init__(
            f"{waiting:,} reports did not arrive at {where}: {why}; run the same command again, "
            "they are kept"
        )


def invented(survey: Survey, people: int) -> list[str]:
    """Made-up answers, earlier ones likelier: the same on every run. The reports are not."""
    assert isinstance(survey.device, AnswerMechanism)  # noqa: S101 - of the survey made here
    weights = np.arange(len(survey.answers) + 1, 1, -1)
    steps = np.cumsum(weights)
    drawn = randomness.simulated(_SEED).below(int(steps[-1]), people).astype(np.int64)
    return [survey.answers[i] for i in np.searchsorted(steps, drawn, side="right")]


def fractions(survey: Survey, answers: list[str]) -> dict[str, float]:
    """How many of the invented people truly gave each answer."""
    return {answer: answers.count(answer) / len(answers) for answer in survey.answers}


@dataclass(frozen=True, kw_only=True)
class Job:
    """So many people, the how-manieth such crowd, and whether all of them are through.

    ``before`` results were published when they began.
    """

    number: int
    people: int
    before: int
    finished: bool


@dataclass(frozen=True)
class Crowd:
    """The invented people of a survey, and the directory that their reports are kept in."""

    survey: Survey
    directory: Path

    def unfinished(self) -> Job | None:
        """The crowd that was interrupted, if there is one."""
        job = self._job()
        return None if job.finished else job

    def _job(self) -> Job:
        try:
            stored = json.loads((self.directory / _STATE).read_bytes())
            return Job(**stored)
        except (OSError, ValueError, TypeError):
            return Job(number=0, people=0, before=0, finished=True)

    def begin(self, people: int, *, before: int) -> Job:
        """A new crowd, when so many results were published."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        number = self._job().number + 1
        job = Job(number=number, people=people, before=before, finished=False)
        self._keep(job)
        return job

    def _keep(self, job: Job) -> None:
        write_private(self.directory / _STATE, json.dumps(asdict(job)).encode())

    def send(self, job: Job, progress: Callable[[int, int], None]) -> None:
        """Everybody's report, until the shuffler has all of them."""
        answers = invented(self.survey, job.people)
        alone, many = answers[:SINGLY], answers[SINGLY:]
        for person, answer in enumerate(alone):
            directory = self.directory / f"{job.number}-{person}"
            with Client(directory, policy=_POLICY, settings=_SETTINGS) as client:
                sent = client.report(self.survey, answer)
            if isinstance(sent, Queued):
                raise UndeliveredError(self.survey.shuffler.url, 1, sent.reason)
            progress(person + 1, job.people)
        if many:
            processes = 1 if len(many) < _MANY else os.cpu_count() or 1
            directory = self.directory / str(job.number)
            with (
                Client(directory, policy=_POLICY, settings=_SETTINGS) as client,
                executor(processes) as pool,
            ):
                delivery = client.report_many(
                    self.survey,
                    many,
                    job="simulated",
                    pool=pool,
                    progress=lambda done, _: progress(len(alone) + done, job.people),
                )
            if not delivery.finished:
                raise UndeliveredError(self.survey.shuffler.url, delivery.waiting, delivery.reason)
        self._keep(replace(job, finished=True))
