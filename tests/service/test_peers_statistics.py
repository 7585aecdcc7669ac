"""Twenty runs of a hundred peers: how many reports arrive, and whether estimates hold."""

from __future__ import annotations

import numpy as np
import pytest

from peers_kit import counts, free_sealing, telling, walked
from shoal.mechanisms.response import RandomizedResponse
from shoal.service.peers import PeerSurvey

PEOPLE = 100
RUNS = 20
VALUES = np.repeat([0, 1, 2, 3], [40, 30, 20, 10])
RR = RandomizedResponse(k=4, epsilon=2.0)
SURVEY = PeerSurvey(rounds=16, submission_rounds=4)


def run(seed, *, survey=SURVEY, randomizer=RR, values=VALUES):
    who = {"randomizer": randomizer, "values": values}
    return walked(PEOPLE, survey, **who, offline=0.2, seed=seed)


@pytest.fixture(scope="module")
def runs():
    with pytest.MonkeyPatch.context() as monkeypatch:
        free_sealing(monkeypatch)
        return [run(seed) for seed in range(RUNS)]


def test_at_least_99_percent_arrive_with_every_fifth_peer_away(runs):
    """A report is lost when its holder misses all four rounds of submission: 0.2^4 = 0.16 %."""
    arrived = np.array([each.arrived for each in runs])
    assert arrived.mean() >= 99.0
    assert arrived.min() >= 94
    assert arrived.max() == PEOPLE
    assert all(each.duplicates == each.rejected == each.stranded == 0 for each in runs)
    assert all(sum(each.loads) == PEOPLE for each in runs)


def test_reports_move_when_both_ends_are_there(runs):
    """Each of the 100 * 16 moves of a run happens with chance 0.8^2."""
    share = sum(each.moves for each in runs) / (RUNS * PEOPLE * SURVEY.rounds)
    assert abs(share - 0.64) < 0.028  # six deviations, of which a run has 0.02


def test_intervals_hold(runs):
    """Of 20 intervals of level 99 % per answer, at least 15 hold: fewer have a chance of 2e-7."""
    truth = np.bincount(VALUES, minlength=4) / PEOPLE
    intervals = [RR.estimate(each.batch).interval(0.99) for each in runs]
    holds = np.array([(low <= truth) & (truth <= high) for low, high in intervals])
    assert (holds.sum(axis=0) >= 15).all()


def test_estimates_are_not_what_people_said(runs):
    """The reports are randomized, each run anew: messages that differ from the values abound."""
    shares = {tuple(counts(each.batch, 4).tolist()) for each in runs}
    assert len(shares) > 15


def test_genuine_sealing_gives_the_same(runs):
    """Which peer holds how much, and how many arrive, does not depend on the sealing."""
    genuine = run(0)
    assert genuine.loads == runs[0].loads
    assert counts(genuine.batch, 4).tolist() == counts(runs[0].batch, 4).tolist()


def test_an_onion_that_may_wait_arrives(monkeypatch):
    """Eight hops in 24 rounds: Pr[Bin(24, 0.64) < 8] = 0.2 %, and a holder away 0.16 %."""
    free_sealing(monkeypatch)
    survey = PeerSurvey(rounds=24, mode="onion", hops=8)
    some = [
        run(seed, survey=survey, randomizer=telling(PEOPLE), values=np.arange(PEOPLE))
        for seed in range(3)
    ]
    assert sum(each.arrived for each in some) >= 0.98 * 300
    assert all(counts(each.batch, PEOPLE).max() == 1 for each in some)
    assert all(sum(each.loads) + each.stranded == PEOPLE for each in some)
