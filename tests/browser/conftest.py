"""A browser for the tests of a module, collections with their pages, and people who visit them.

While Playwright is at work, asyncio takes its thread for one with a loop that runs. So the browser
is gone before tests of other modules begin, and what the two parties do is done in other threads.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from playwright.sync_api import expect

import browser_kit
from service_site import live, survey_of
from shoal.sealing import key_number
from shoal.service.client import seal_many
from shoal.service.client.randomize import values_of
from shoal.service.clock import system_clock

QUESTION = "How did you come here today?"
ANSWERS = ("on foot", "by bicycle", "by bus or train", "by car")
PEOPLE = 120  # in a batch: a device allows no fewer than 100
SURVEY = {
    "name": "ways to work",
    "question": QUESTION,
    "purpose": "To plan paths, stops and stands for bicycles.",
    "answers": ANSWERS,
    "local_epsilon": 1.5,
    "minimum": PEOPLE,
    "target": PEOPLE,
}


class Place:
    """Both parties, listening, with the analyzer's pages; and what tests do with them."""

    def __init__(self, service, apart):
        self.service = service
        self._apart = apart
        self.survey = service.survey
        self.analyzer = service.survey.analyzer.url
        self.shuffler = service.survey.shuffler.url
        self.origins = (self.analyzer, self.shuffler)

    @property
    def page(self):
        """Where the survey is answered."""
        return self.page_of(self.survey)

    def page_of(self, survey):
        return f"{self.analyzer}/answer/{survey.id}"

    def add(self, **changes):
        """One more survey of the same parties."""
        parties = self.survey.shuffler, self.survey.analyzer
        found = survey_of(*parties, now=system_clock(), **(SURVEY | changes))
        for half in (self.service.shuffler, self.service.analyzer):
            half.store.surveys.add(found)
        return found

    def others(self, people):
        """So many people who answer with other programs: two of them one by one."""
        self._apart.submit(self._others, people).result()

    def _others(self, people):
        for number in range(min(2, people)):
            with self.service.client(f"person {number}") as client:
                client.report(self.survey, ANSWERS[0])
        self._posted(np.arange(max(0, people - 2)) % len(ANSWERS))

    def send(self, answers):
        """Answers of people who use other programs, all in one request."""
        self._apart.submit(self._posted, values_of(self.survey, answers)).result()

    def _posted(self, rest):
        answer = self.service.post(seal_many(self.survey, rest, self.service.keys()))
        assert answer.json() == {"reports": len(rest), "refused": []}

    def opened(self):
        """How many reports have arrived, could be opened and are new, once all were tried."""
        return self._apart.submit(self._opened).result()

    def _opened(self):
        worker = self.service.shuffler_worker()
        while worker.step():
            pass
        return self.service.shuffler.store.reports.tallies(self.survey.id).get("opened", 0)

    def read(self, report):
        """The messages in a report, opened with the keys of both parties."""
        wire, shuffler, analyzer = self.service.wire, self.service.shuffler, self.service.analyzer
        number, records = wire.open_report(report, shuffler.keyring.pair(key_number(report)))
        pair = analyzer.keyring.pair(number)
        return b"".join(
            section.open_record(record, pair)
            for section in wire.sections
            for record in section.split(records[section.start : section.end])
        )

    def collect(self):
        """What the analyzer publishes of the batches that are closed by now."""
        worker = self.service.analyzer_worker()
        passes = self._apart.submit(worker.collect).result()
        assert all(each.problems == {} for each in passes.values())
        return [batch for each in passes.values() for batch in each.published]

    def token(self, survey=None, label="the analyst"):
        """A token to read results with."""
        name = None if survey is None else survey.id
        return self.service.analyzer.store.tokens.add(label, name, 3600)


@contextmanager
def place(**changes):
    from shoal.web.pages import pages

    with ExitStack() as stack, ThreadPoolExecutor(1) as apart:
        directory = stack.enter_context(TemporaryDirectory())
        made = live(directory, clock=system_clock, pages=pages, **(SURVEY | changes))
        found = apart.submit(made.__enter__).result()
        stack.push(made.__exit__)
        yield Place(found, apart)


@pytest.fixture(scope="module")
def browser():
    browser_kit.built_scripts()
    expect.set_options(timeout=browser_kit.PATIENCE)
    with browser_kit.chromium() as found:
        yield found


@pytest.fixture
def fresh(browser):  # noqa: ARG001 - where no browser is, nothing is started
    """A collection that nobody has answered."""
    with place() as found:
        yield found


@pytest.fixture(scope="module")
def shared(browser):  # noqa: ARG001 - where no browser is, nothing is started
    """A collection for tests that leave no trace in it."""
    with place() as found:
        yield found


@pytest.fixture
def visit(browser):
    """Somebody new who visits a place, as often as it is called."""
    with ExitStack() as stack:

        def visitor(where, *more, **options):
            origins = (*where.origins, *more)
            return stack.enter_context(browser_kit.visitor(browser, *origins, **options))

        yield visitor
