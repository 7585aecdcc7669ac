"""A whole small collection in a process that may be killed on the way, and in the one after it.

People who use the client, people whose reports are sent by hand, the shuffler, the analyzer: all in
one process, so that one ``kill -9`` takes all of them at any of the named places. The next process
knows what is on the disk, what was acknowledged, and nothing else.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np

from factories import several
from service.simulation.parties import (
    DAY,
    HOUR,
    MAX_AGE,
    START,
    Beginning,
    Place,
    World,
    survey_of,
)
from service_site import Analyzer, Shuffler
from shoal.mechanisms.response import RandomizedResponse
from shoal.sealing import SurveyId
from shoal.service.client import Client, Keys, Policy, Settings, seal_many
from shoal.service.survey import Batches

MINIMUM = 4
CLIENTS = range(5)  # answer through the client
SENDERS = range(5, 10)  # have their reports sent by hand
LATER = range(10, 15)  # come on the second day, so that nobody is left in too small a batch
AT_ONCE = 10_000
EVERYBODY = len(CLIENTS) + len(SENDERS) + len(LATER)


def one_survey(fingerprints):
    """Everybody has another answer, and all but one in 10^11 say the truth."""
    return [
        survey_of("kills", fingerprints, k=EVERYBODY, minimum=MINIMUM, target=1000, epsilon=30.0)
    ]


def two_questions(fingerprints):
    """Everybody answers both, and with so much noise that only how many answered can be told."""
    device = RandomizedResponse(k=EVERYBODY + 1, epsilon=5.0)  # the most of several questions
    return [
        several(
            (device, device),
            name="kills",
            batches=Batches(minimum=MINIMUM, target=1000, max_age=MAX_AGE),
            epsilon=10.01,
            opens=START - 100 * DAY,
            days=220,
            **fingerprints,
        )
    ]


def answers_of(survey, people):
    """Everybody's own answer, to each question."""
    numbers = np.asarray(people, dtype=np.int64)
    if not survey.several:
        return numbers
    names = [question.name for question in survey.questions]
    return np.array([(each,) * len(names) for each in numbers], dtype=[(n, "i8") for n in names])


def begun(directory, admin=None, surveys=one_survey):
    """Both parties before the first day, with the reports that are sent by hand."""
    beginning = Beginning(directory / "beginning", surveys, admin)
    (survey,) = beginning.surveys
    place = beginning.place
    halves = [kind(place.of(kind.role), url=place.urls[kind.role]) for kind in (Analyzer, Shuffler)]
    keys = Keys(*(half.key(survey) for half in halves))
    for half in halves:
        half.close()
    everybody = answers_of(survey, range(EVERYBODY))
    sealed = seal_many(survey, everybody, keys)
    for name in ("reports", "acknowledged"):
        (beginning.place.directory / name).mkdir()
    for name in (*SENDERS, *LATER):
        (beginning.place.directory / "reports" / str(name)).write_bytes(sealed[name])
    return beginning


class Collection:
    """What a process does with a directory: one day of the survey."""

    def __init__(self, place, tokens, now):
        self.world = World(place, {SurveyId.from_text(key): each for key, each in tokens.items()})
        self.world.advance(now - START)
        (self.survey,) = self.world.shuffler.store.surveys.all()
        self.directory = place.directory

    def run(self, senders):
        self._answer()
        for name in senders:
            self._send(name)
        self.world.work()
        self.world.advance(MAX_AGE)
        self.world.work()
        self.world.advance(HOUR)
        self.world.work()

    def _answer(self):
        """People at their devices: a job that goes on wherever it stopped."""
        self.world.shuffler.step()  # has the analyzer's keys from now on
        settings = Settings(tries=1)
        client = Client(
            self.directory / "devices",
            policy=Policy(local_epsilon=35, epsilon=35, total_epsilon=35, minimum=2),
            settings=settings,
            transport=self.world.line,
            clock=self.world.clocks["shuffler"],
        )
        client.report_many(self.survey, answers_of(self.survey, CLIENTS), job="clients")
        client.close()

    def _send(self, name):
        body = (self.directory / "reports" / str(name)).read_bytes()
        answer = self.world.upload(self.survey, body)
        assert answer.status_code == 202
        assert answer.json()["refused"] == []
        # What somebody was told survives: it is in their head.
        (self.directory / "acknowledged" / str(name)).touch()


def fill(place, reports):
    """So many reports that wait to be opened: nobody can, but that is found out later."""
    half = Shuffler(place.of("shuffler"), url=place.urls["shuffler"])
    (half.survey,) = half.store.surveys.all()
    for start in range(0, reports, AT_ONCE):
        assert half.receive(half.forged(AT_ONCE, seed=start)) == AT_ONCE


def collect(directory, urls, tokens, day, senders):
    """One day of the collection in a directory."""
    Collection(Place(Path(directory), urls), tokens, START + day * DAY).run(senders)


def filled(directory, urls, reports):
    """So many reports wait, and the process dies."""
    fill(Place(Path(directory), urls), reports)
    os.kill(os.getpid(), signal.SIGKILL)


def rehearse(directory):
    """Everything once."""
    beginning = begun(directory)
    tokens = {str(name): token for name, token in beginning.tokens.items()}
    collection = Collection(beginning.place, tokens, START)
    collection.run(SENDERS)
    collection.world.close()
