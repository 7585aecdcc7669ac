"""The dashboard of a survey with a thousand published batches: server time for each page.

One batch is really collected; the others are copies of its rows under other names and hours. A page
is cold when nothing is remembered of the survey, as after a start of the analyzer, and warm when it
was asked for before. Times are processor time of the whole process, so that what is worked out
beside a page while it is made counts too.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import sqlalchemy as sa
from result import Result
from starlette.applications import Starlette

from shoal.mechanisms.response import RandomizedResponse
from shoal.questions.kinds import Choice
from shoal.randomness import simulated
from shoal.sealing import SurveyId
from shoal.service.analyzer import tables as schema
from shoal.service.analyzer.app import AnalyzerPages
from shoal.service.analyzer.collection import Collection, Offer
from shoal.service.analyzer.decode import Admitted
from shoal.service.analyzer.ledger import release_decision
from shoal.service.analyzer.results import result_document, written
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.clock import system_clock
from shoal.service.db import Database
from shoal.service.http.limits import Limits
from shoal.service.keyring import Keyring, Protection
from shoal.service.survey import Batches, Item, Open, Party, Survey
from shoal.web.background import Crowd, Progress
from shoal.web.dashboard import Dashboard

BATCHES = 1000
ANSWERS = (5, 200)
PEOPLE = 5000
LONGEST = 300.0  # milliseconds of one page
REPETITIONS = 5
_FIRST = "0" * 32
_HOUR, _DAY = 3600, 86_400


def everything() -> Iterator[Result]:
    """A survey with few answers, and one with many."""
    for answers in ANSWERS:
        with tempfile.TemporaryDirectory() as name:
            filled = _Filled(Path(name), answers)
            try:
                yield from _pages(filled)
            finally:
                filled.close()


class _Filled:
    """An analyzer's store with one survey and a thousand batches of it."""

    def __init__(self, directory: Path, answers: int) -> None:
        self.keyring = Keyring.create(
            directory / "keys", role="analyzer", protection=Protection.none()
        )
        self.database = Database(f"sqlite:///{directory / 'store.sqlite'}")
        self.database.migrate("analyzer")
        self.store = AnalyzerStore(self.database, directory, system_clock)
        self.survey = _survey(answers, self.keyring)
        self.store.surveys.add(self.survey)
        self.token = self.store.tokens.add("bench", None, _DAY)
        self._publish()
        self._copy()

    def close(self) -> None:
        self.database.close()

    def _publish(self) -> None:
        """One batch, from the request to its document."""
        device, store, name = self.survey.device, self.store, self.survey.id
        answers = np.arange(PEOPLE) % len(self.survey.only.answers)
        messages = device.randomize(answers, randomness=simulated(1))
        counts = (device.tally(messages),)
        offer = Offer(batch=_FIRST, digest="0" * 64, size=1, key=0)
        held = _there(store.collections.claim(store.collections.request(name, offer)))
        values = {"key": 0, "reports": PEOPLE, "records": PEOPLE}
        held = store.collections.move(held, schema.RECEIVED, **values)
        none = np.empty((0, 16), dtype=np.uint8)
        decision = release_decision(self.survey, PEOPLE, counts, reports=PEOPLE)
        admitted = Admitted(none, {"unopened": 0})
        held = _there(store.collections.opened(held, admitted, counts, valid=PEOPLE, withheld=None))
        held = store.ledger.debit(held, decision)
        document = result_document(self.survey, decision, held, now=self.survey.not_before)
        held = store.results.publish(held, document)
        store.collections.move(held, schema.PUBLISHED, acknowledged=1)

    def _copy(self) -> None:
        names = [f"{number:032x}" for number in range(1, BATCHES)]
        document = json.loads(self.store.results.get(self.survey.id, _FIRST))
        first = document["published"]
        with self.database.write() as connection:
            for table in (schema.collections, schema.ledger):
                row = dict(connection.execute(sa.select(table)).mappings().one())
                connection.execute(sa.insert(table), [{**row, "batch": name} for name in names])
            rows = [
                {
                    "survey": 1,
                    "batch": name,
                    "document": written({**document, "batch": name, "published": first + hours}),
                    "published": first + hours,
                }
                for name, hours in zip(names, range(_HOUR, BATCHES * _HOUR, _HOUR), strict=True)
            ]
            connection.execute(sa.insert(schema.results), rows)

    def app(self) -> Starlette:
        """As after a start: nothing is remembered."""
        pages = AnalyzerPages(store=self.store, keyring=self.keyring, limits=Limits())
        told = Progress(reachable=True, quarters=2, closes_in=3)
        return Starlette(routes=Dashboard(pages, ask=lambda _survey: told).routes())


def _survey(answers: int, keyring: Keyring) -> Survey:
    now = system_clock()
    return Survey(
        name="bench",
        purpose="A benchmark.",
        questions=(
            Item(
                Choice(
                    "answer",
                    [f"answer number {number}" for number in range(answers)],
                    text="Which?",
                    missing="refuse",
                ),
                RandomizedResponse(k=answers, epsilon=3.0),
            ),
        ),
        batches=Batches(minimum=2000, target=PEOPLE, max_age=_DAY),
        epsilon=1.0,
        delta=1e-6,
        admission=Open(dishonest=0),
        not_before=now - 60 * _DAY,
        not_after=now + 30 * _DAY,
        shuffler=Party(url="http://localhost:1", fingerprint="ab" * 32),
        analyzer=Party(url="http://localhost:2", fingerprint=keyring.fingerprint),
    )


def _there(held: Collection | None) -> Collection:
    if held is None:
        raise RuntimeError("somebody else has the batch")
    return held


def _check(answer: httpx.Response, status: int) -> None:
    if answer.status_code != status:
        raise RuntimeError(answer.text)


def _pages(filled: _Filled) -> Iterator[Result]:
    answers = len(filled.survey.answers)
    heading = f"the dashboard: {BATCHES:,} batches, {answers} answers (server time of a page)"
    start = time.process_time()
    Crowd.of(filled.survey, filled.survey.batches.minimum)
    took = 1e3 * (time.process_time() - start)
    yield Result(heading=heading, what="the curve of epsilon, once, beside a page", value=took)
    for what, address in _addresses(filled.survey.id).items():
        cold = statistics.median(
            asyncio.run(_measured(filled, address, before=0)) for _ in range(REPETITIONS)
        )
        warm = asyncio.run(_measured(filled, address, before=1))
        for state, value in (("cold", cold), ("warm", warm)):
            yield Result(heading=heading, what=f"{what}, {state}", value=value, at_most=LONGEST)


def _addresses(survey: SurveyId) -> dict[str, str]:
    here = f"/dashboard/surveys/{survey}"
    return {
        "all surveys": "/dashboard",
        "the survey": here,
        "the survey, oldest batches": f"{here}?page={BATCHES // 50}",
        "one batch": f"{here}/batches/{_FIRST}",
        "is there anything new": f"{here}/version",
    }


async def _measured(filled: _Filled, address: str, *, before: int) -> float:
    """Milliseconds of a page that was asked for so often ``before``; the median if it was."""
    transport = httpx.ASGITransport(app=filled.app())
    async with httpx.AsyncClient(transport=transport, base_url="http://bench") as client:
        entered = await client.post("/dashboard/login", data={"token": filled.token})
        _check(entered, 303)
        times = []
        for _ in range(before + (REPETITIONS if before else 1)):
            start = time.process_time()
            answer = await client.get(address)
            times.append(1e3 * (time.process_time() - start))
            _check(answer, 200)
    return statistics.median(times[before:])
