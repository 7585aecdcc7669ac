"""The released batch as the output of a mechanism: what it tells about one person is bounded.

Everything between an answer and the bytes that an analyzer is given is the true code: the client's
drawing and sealing, the shuffler's sorting, store and worker. Only the sealing is a double, for
there are many runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

import shoal
from peers_kit import free_sealing
from service_site import Batchwise
from shoal.auditing import audit, coin_bound
from shoal.auditing.subjects import DataSet, Subject, Transcripts
from shoal.randomness import Randomness, secure, simulated
from shoal.service import opening
from shoal.service.client import seal_many
from shoal.service.shuffler import mixing, worker

AT_ONCE = 256
CERTAIN = 1 - 1e-7  # an honest build fails less often than once in a million runs of these tests
CONFIDENCE = 0.999
LIKELY = 0.9  # of a bound that is to tell a broken build from what is claimed


@dataclass(frozen=True)
class Crowd:
    """So many people with one randomizer; the first holds 0 or 1, everybody else 1."""

    people: int
    local_epsilon: float
    delta: float

    @property
    def device(self):
        return shoal.RandomizedResponse(k=2, epsilon=self.local_epsilon)

    @property
    def claimed(self):
        return shoal.amplify(self.device, n=self.people, delta=self.delta).epsilon

    @property
    def told(self):
        """The chances that the first person's message says 0, holding 0 and holding 1."""
        kept = 1 / (1 + np.exp(-self.local_epsilon))
        return kept, 1 - kept

    def told_often(self, least, draws):
        """The chances that so many messages or more say 0 if the first person draws so often."""
        others = stats.binom(self.people - 1, self.told[1])
        counts = np.arange(draws + 1)
        return tuple(
            float((stats.binom(draws, own).pmf(counts) * others.sf(least - 1 - counts)).sum())
            for own in self.told
        )


FEW = Crowd(people=5, local_epsilon=1.0, delta=0.1)
SOME = Crowd(people=60, local_epsilon=3.0, delta=0.2)
MANY = Crowd(people=40, local_epsilon=2.0, delta=0.1)


class Released(Subject):
    """From everybody's answers to the messages of the released file, in its order.

    ``draws`` is how often the first person's client draws: more than once only if it is broken.
    """

    def __init__(self, directory, crowd, *, draws=1):
        self.service = Batchwise(
            directory, crowd.people, k=2, local_epsilon=crowd.local_epsilon, delta=1e-6
        )
        self.draws = draws

    @property
    def name(self):
        return "released batch"

    @property
    def alone(self):
        return False

    @property
    def several(self):
        return True

    def run(self, data, runs, randomness, *, in_order):
        del randomness, in_order  # both are the service's own
        parts = [
            part
            for start in range(0, runs, AT_ONCE)
            for part in self._together(data.array, min(AT_ONCE, runs - start))
        ]
        sizes = np.array([len(part) for part in parts], dtype=np.int64)
        return Transcripts(np.concatenate(parts), sizes)

    def _together(self, values, runs):
        service = self.service
        for crowd in range(runs):
            reports = seal_many(service.survey, values, service.keys(crowd))
            for _ in range(self.draws - 1):
                reports += seal_many(service.survey, values[:1], service.keys(crowd))
            service.receive(reports)
        found = service.batches()
        assert len(found) == runs
        return [np.frombuffer(b"".join(found[crowd]), dtype=np.uint8) for crowd in range(runs)]


@pytest.fixture
def released(monkeypatch, tmp_path):
    free_sealing(monkeypatch)
    made = []

    def make(crowd, **settings):
        made.append(Released(tmp_path / str(len(made)), crowd, **settings))
        return made[-1]

    yield make
    for subject in made:
        subject.service.close()


# Two ways to break a shuffler


class AsTheyCome(Randomness):
    """The order that there is."""

    def words(self, size):
        return np.arange(size, dtype=np.uint64)


def ordered_by(monkeypatch, source):
    """Let all three of the shuffler's mixings draw their order from ``source()``."""
    original = mixing.mix_records

    def mix(*arguments, **named):
        return original(*arguments, **named, randomness=source())

    monkeypatch.setattr(opening, "_mixed", lambda rows: rows[source().permutation(len(rows))])
    monkeypatch.setattr(mixing, "source", lambda _: source())
    monkeypatch.setattr(worker, "mix_records", mix)


def unshuffled(monkeypatch, _people):
    ordered_by(monkeypatch, AsTheyCome)
    return 0


def always_the_same_order(monkeypatch, people):
    """Of opening, gathering and mixing: the place that the first person always ends up at."""
    ordered_by(monkeypatch, lambda: simulated(0))
    order = simulated(0).permutation(people)
    return int(np.flatnonzero(order[order[order]] == 0)[0])


# What somebody counts who looks for one flaw


def at_place(place):
    return lambda messages: messages[:, place] == 0


def at_least(often):
    return lambda messages: (messages == 0).sum(axis=1) >= often


def bounds(subject, crowd, events, runs, confidence=LIKELY):
    """Lower bounds on epsilon by events that are fixed beforehand; a coin for every run."""
    heads = int(secure().bits(runs).sum())
    inside = []
    for value, size in ((0, heads), (1, runs - heads)):
        data = DataSet((value, *[1] * (crowd.people - 1)))
        found = subject.run(data, size, secure(), in_order=True)
        assert (found.sizes == crowd.people + subject.draws - 1).all()
        messages = found.messages.reshape(size, -1)
        inside.append([int(event(messages).sum()) for event in events])
    return [
        coin_bound(first, second, runs, delta=crowd.delta, confidence=confidence)
        for first, second in zip(*inside, strict=True)
    ]


def chance_to_miss(crowd, chances, runs):
    """The chance that the bound is not above the claim, by the event's chances in both worlds."""
    claim, (p, q) = crowd.claimed, chances
    totals = np.arange(runs + 1)
    law = stats.binom.pmf(totals, runs, (p + q) / 2)
    missed = 0.0
    for total in totals[law > 1e-12].tolist():
        low, high = 0, total + 1  # the fewest on the first data set that refute the claim
        while low < high:
            first = (low + high) // 2
            found = coin_bound(first, total - first, runs, delta=crowd.delta, confidence=LIKELY)
            low, high = (low, first) if found > claim else (first + 1, high)
        missed += law[total] * stats.binom.cdf(low - 1, total, p / (p + q))
    return missed


RUNS = 160
DRAWS, OFTEN = 10, 9  # of a client that draws anew for every retry; what is counted then


def test_a_released_batch_tells_no_more_than_is_stated(released):
    events = [*map(at_place, range(FEW.people)), *map(at_least, range(1, FEW.people + 1))]
    certain = 1 - (1 - CERTAIN) / len(events)
    assert max(bounds(released(FEW), FEW, events, RUNS, certain)) <= FEW.claimed


@pytest.mark.parametrize("broken", [unshuffled, always_the_same_order])
def test_a_shuffler_without_fresh_randomness_is_caught(released, monkeypatch, broken):
    assert chance_to_miss(SOME, SOME.told, RUNS) < 1e-6
    place = broken(monkeypatch, SOME.people)
    (found,) = bounds(released(SOME), SOME, [at_place(place)], RUNS)
    assert found > SOME.claimed


def test_a_client_that_draws_anew_for_every_retry_is_caught(released):
    assert chance_to_miss(SOME, SOME.told_often(OFTEN, DRAWS), RUNS) < 1e-6
    (found,) = bounds(released(SOME, draws=DRAWS), SOME, [at_least(OFTEN)], RUNS)
    assert found > SOME.claimed


# The audit that knows nothing of the flaw


def audited(subject, crowd, runs, confidence=CERTAIN):
    return audit(
        subject,
        declared=crowd.device,
        n=crowd.people,
        delta=crowd.delta,
        runs=runs,
        confidence=confidence,
        data=(0, 1, [1] * (crowd.people - 1)),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("crowd", "runs"), [(FEW, 50_000), (MANY, 5_000)])
def test_an_audit_finds_nothing(released, crowd, runs):
    """A hundred thousand runs, half of them on either data set."""
    found = audited(released(crowd), crowd, runs)
    assert found.verdict == "consistent", str(found)
    assert found.lower <= crowd.claimed


@pytest.mark.slow
@pytest.mark.parametrize("broken", [unshuffled, always_the_same_order])
def test_an_audit_finds_a_broken_shuffler(released, monkeypatch, broken):
    place = broken(monkeypatch, MANY.people)
    found = audited(released(MANY), MANY, 2_000, CONFIDENCE)
    assert found.verdict == "violated", str(found)
    assert found.evidence.statistic == f"privacy loss at place {place + 1}"


@pytest.mark.slow
def test_an_audit_finds_a_client_that_draws_anew(released):
    found = audited(released(MANY, draws=DRAWS), MANY, 2_000, CONFIDENCE)
    assert found.verdict == "violated", str(found)
