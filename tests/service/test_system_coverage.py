"""Published intervals hold what they say: real HTTP, real sealing, one batch after the other."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from peers_kit import free_sealing
from service_site import live
from shoal.randomness import simulated
from shoal.service.client import seal_many
from shoal.values import Counts

PEOPLE = 60
# What the people of a batch truly answer: rare answers and common ones.
CROWDS = ((6, 12, 18, 24), (15, 15, 15, 15), (2, 4, 9, 45), (0, 20, 20, 20))
LOCAL_EPSILON = 1.5
TOGETHER = 18  # batches of one crowd between two collections
TAIL = 1e-6


def covered_exactly(device, count):
    """The chance that the interval of an answer covers the share of the people who gave it.

    Its count is the sum of two binomials: those who gave it and kept it, and others who drew it.
    """
    kept, drawn = device.table()[0][:2]
    ones = np.arange(PEOPLE + 1)
    law = np.convolve(
        stats.binom.pmf(np.arange(count + 1), count, kept),
        stats.binom.pmf(np.arange(PEOPLE - count + 1), PEOPLE - count, drawn),
    )
    chance = 0.0
    for seen in ones.tolist():
        rest = np.full(3, (PEOPLE - seen) / 3)
        found = device.estimate(Counts(np.array([seen, *rest]), PEOPLE))
        low, high = found.interval(0.95)
        chance += law[seen] * (low[0] <= count / PEOPLE <= high[0])
    return chance


def collected(service, crowd, batches, seed, shuffler, analyzer):
    """The names of so many published batches of such people."""
    values = np.repeat(np.arange(len(crowd)), crowd)
    keys = service.keys()
    randomness = simulated(seed)
    reports = seal_many(service.survey, np.tile(values, batches), keys, randomness=randomness)
    for start in range(0, len(reports), PEOPLE):
        answer = service.post(reports[start : start + PEOPLE])
        assert answer.json() == {"reports": PEOPLE, "refused": []}
        shuffler.step()
    (passed,) = analyzer.collect().values()
    assert passed.problems == {}
    return passed.published


def coverage(tmp_path, rounds):
    """How often each answer of each crowd was covered, of how many times; and the exact chance."""
    hits, crowd_of = np.zeros((len(CROWDS), 4), dtype=np.int64), {}
    survey = {"local_epsilon": LOCAL_EPSILON, "minimum": PEOPLE, "target": PEOPLE}
    with live(tmp_path, **survey) as service:
        shuffler, analyzer = service.shuffler_worker(), service.analyzer_worker()
        for seed in range(rounds):
            which = seed % len(CROWDS)
            found = collected(service, CROWDS[which], TOGETHER, seed, shuffler, analyzer)
            assert len(found) == TOGETHER
            crowd_of |= dict.fromkeys(found, which)
        for document in service.results():
            assert (document["status"], document["valid"]) == ("published", PEOPLE)
            which = crowd_of.pop(document["batch"])
            hits[which] += [
                row["low"] <= count / PEOPLE <= row["high"]
                for row, count in zip(document["estimates"], CROWDS[which], strict=True)
            ]
        assert not crowd_of
        device = service.survey.device
    exact = np.array([[covered_exactly(device, count) for count in crowd] for crowd in CROWDS])
    return hits, exact


def check(hits, exact, batches):
    """What is counted of an answer, over all crowds, is a sum of binomials of exact chances."""
    tail = TAIL / (2 * len(CROWDS[0]))
    for answer in range(len(CROWDS[0])):
        law = np.ones(1)
        for chance in exact[:, answer]:
            law = np.convolve(law, stats.binom.pmf(np.arange(batches + 1), batches, chance))
        seen = int(hits[:, answer].sum())
        assert law[: seen + 1].sum() > tail, (hits, exact)
        assert law[seen:].sum() > tail, (hits, exact)


def test_intervals_cover_as_often_as_they_should(tmp_path, monkeypatch):
    free_sealing(monkeypatch)
    rounds = 4
    hits, exact = coverage(tmp_path, rounds)
    assert exact.min() >= 0.95
    assert exact.mean() <= 0.98
    check(hits, exact, TOGETHER * rounds // len(CROWDS))


@pytest.mark.slow
def test_intervals_cover_over_three_thousand_batches(tmp_path, monkeypatch):
    free_sealing(monkeypatch)
    rounds = 168
    hits, exact = coverage(tmp_path, rounds)
    batches = TOGETHER * rounds
    assert batches >= 3000
    check(hits, exact, batches // len(CROWDS))
    assert 0.95 <= hits.sum() / (4 * batches) <= 0.98
