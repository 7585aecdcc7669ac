"""Audits: valid where the truth is known, powerful where something is broken, silent otherwise."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

import brute
import shoal
from shoal.accounting.profile import binary_response_delta
from shoal.auditing import WholePipeline, audit
from shoal.auditing.auditor import bin_edges, histogram
from shoal.auditing.subjects import Listed
from shoal.randomness import simulated, simulator, source
from tables import randomizer_tables

TABLE = np.array([[0.60, 0.20, 0.20], [0.10, 0.70, 0.20], [0.15, 0.15, 0.70]])


def response(epsilon, k=2):
    return shoal.RandomizedResponse(k=k, epsilon=epsilon)


def exact_epsilon(local_epsilon, n, delta):
    """Of shuffled binary response, everybody else holding one answer: exact binomial sums."""

    def excess(epsilon):
        found = binary_response_delta(local_epsilon, n=n, epsilon=epsilon, ones=[0, n - 1])
        return found - delta

    return optimize.brentq(excess, 0.0, local_epsilon)


def test_only_the_claim_of_the_crowd_has_a_delta():
    """What the documentation says of δ is what is audited."""
    device = shoal.RandomizedResponse(k=2, epsilon=2.0)
    result = shoal.audit(device, n=20, delta=1e-3, runs=2_000, randomness=simulated(1))
    assert result.delta == result.evidence.delta == 1e-3
    assert result.local_evidence.delta == 0
    assert "δ of the crowd's claim" in shoal.audit.__doc__
    assert "both" not in type(result).delta.__doc__


def test_power_with_few_runs():
    found = audit(response(2.0), n=200, delta=1e-3, runs=60_000, randomness=simulated(3))
    exact, proved = exact_epsilon(2.0, 200, 1e-3), shoal.amplify(response(2.0), n=200, delta=1e-3)
    assert proved.lower * (1 - 1e-6) <= exact <= proved.epsilon
    assert 0.45 * exact < found.lower < exact
    assert 0.98 * 2 < found.local_lower < 2
    assert found.verdict == "consistent"


@pytest.mark.slow
@pytest.mark.parametrize(("local_epsilon", "share"), [(1.0, 0.7), (2.0, 0.8)])
def test_power_with_a_million_runs(local_epsilon, share):
    found = audit(response(local_epsilon), n=200, delta=1e-3, runs=10**6, randomness=simulated(0))
    exact = exact_epsilon(local_epsilon, 200, 1e-3)
    assert share * exact <= found.lower <= exact


# ------------------------------------------------------------------------------------- validity


@settings(max_examples=12)
@given(table=randomizer_tables(inputs=3, outputs=(3, 4)), seed=st.integers(0, 10**6))
def test_lower_bounds_are_below_the_truth(table, seed):
    delta = 0.01
    asked = {"data": (0, 1, [2, 2]), "runs": 4_000, "confidence": 1 - 1e-7}
    found = audit(table, n=3, delta=delta, **asked, randomness=simulated(seed))
    assert found.local_lower <= max(abs(np.log(table[0] / table[1])))
    if found.lower > 0:
        worst = max(
            brute.shuffled_divergence(table, (2, 2), pair, found.lower) for pair in ((0, 1), (1, 0))
        )
        assert worst >= delta


def correct_mechanisms():
    randomizers = [
        response(1.0),
        response(3.0, k=5),
        shoal.HadamardResponse(k=6, epsilon=1.5),
        shoal.SubsetSelection(k=8, epsilon=1.0),
        shoal.UnaryEncoding(k=4, epsilon=2.0),
        shoal.LocalHashing(k=10, epsilon=1.0),
        shoal.LocalHashing(epsilon=2.0),
        shoal.Laplace(low=0, high=1, epsilon=1.0, levels=8),
        shoal.Duchi(low=-1, high=1, epsilon=0.5),
        shoal.Piecewise(low=0, high=1, epsilon=2.0, levels=16),
        shoal.PrivUnitG(dimension=3, epsilon=2.0),
        TABLE,
    ]
    target = {"n": 10, "epsilon": 1.0, "delta": 0.05}
    protocols = [
        shoal.UniformDummies.calibrated(k=3, **target),
        shoal.NearCentralCount.calibrated(**target),
        shoal.LeanHistogram.calibrated(k=3, **target),
        shoal.SplitAndMixSum.calibrated(low=0, high=1, **target),
    ]
    return [*randomizers, *protocols]


@pytest.mark.parametrize("seeds", [2, pytest.param(14, marks=pytest.mark.slow)])
def test_no_false_alarm(seeds):
    found = [
        audit(device, n=10, delta=0.05, runs=1_000, randomness=simulated(seed))
        for seed, device in itertools.product(range(seeds), correct_mechanisms())
    ]
    assert len(found) == 16 * seeds
    assert [str(each) for each in found if each.verdict == "violated"] == []


# --------------------------------------------------------------------------------------- broken


PEOPLE = 40
RESPONSE = response(1.0)
LIE = 1 / (1 + math.e)  # the probability of the response's other answer
ORDER = simulated(8).permutation(PEOPLE)
BITS, CHANCE = simulated(21), simulator(21)


@pytest.fixture(autouse=True)
def the_same_chance_every_time(monkeypatch):
    """What an audit finds most telling is a matter of chance, and here of the same chance."""
    monkeypatch.setitem(globals(), "BITS", simulated(21))
    monkeypatch.setitem(globals(), "CHANCE", simulator(21))


def honest(values):
    reports = RESPONSE.randomize(values, randomness=BITS)
    return shoal.shuffle(reports, randomness=BITS).messages


def unshuffled(values):
    """The response by hand: called as often as it is, the library's takes long."""
    return np.asarray(values) ^ (CHANCE.random(PEOPLE) < LIE)


def always_the_same_order(values):
    return unshuffled(values)[ORDER]


def hardly_shuffled(values):
    return unshuffled(values)[np.arange(PEOPLE) - int(CHANCE.integers(3))]


def counted(values):
    """Honest, and the number of messages tells the first person's answer."""
    return [*honest(values), *[0] * int(values[0])]


@pytest.mark.parametrize(
    ("pipeline", "runs", "verdict"),
    [
        (unshuffled, 5_000, "violated"),
        (always_the_same_order, 5_000, "violated"),
        (hardly_shuffled, 20_000, "violated"),
        (counted, 2_000, "violated"),
        (honest, 2_000, "consistent"),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_whole_pipelines(pipeline, runs, verdict):
    asked = {"n": PEOPLE, "delta": 1e-3, "runs": runs, "randomness": simulated(6)}
    found = audit(WholePipeline(pipeline), declared=response(1.0), **asked)
    assert found.verdict == verdict, str(found)
    assert found.local_lower is None
    assert found.evidence.claimed == shoal.amplify(response(1.0), n=PEOPLE, delta=1e-3).epsilon


def test_the_place_is_told():
    pipeline = WholePipeline(always_the_same_order)
    found = audit(pipeline, declared=response(1.0), n=PEOPLE, runs=2_000, delta=0.01)
    place = int(np.flatnonzero(ORDER == 0)[0]) + 1
    assert found.evidence.statistic == f"privacy loss at place {place}"


@pytest.mark.parametrize("local_epsilon", [1.0, 2.0])
def test_a_local_epsilon_off_by_a_fifth(local_epsilon):
    device, declared = response(1.2 * local_epsilon), response(local_epsilon)
    found = audit(device, declared=declared, n=50, delta=1e-3, runs=5_000)
    assert found.verdict == "violated"
    assert local_epsilon < found.local_lower < 1.2 * local_epsilon


class WithDuplicates(shoal.SubsetSelection):
    """Draws the other answers from all k of them: the true one may be drawn twice."""

    def randomize(self, values, *, randomness=None):
        truths, bits = np.asarray(values), source(randomness)
        included = bits.below(self.odds.total, truths.size) < self.odds.raised
        keys = bits.words(truths.size * self.k).reshape(truths.size, self.k)
        ranks = keys.argsort(axis=1).argsort(axis=1)
        chosen = ranks < (self._w - included)[:, None]
        chosen[np.flatnonzero(included), truths[included]] = True
        return np.packbits(chosen, axis=1)


def test_a_subset_with_duplicates():
    found = audit(WithDuplicates(k=8, epsilon=1.0), n=20, delta=1e-3, runs=3_000)
    assert found.verdict == "violated"
    assert found.local_lower > 1.3


def test_a_fifth_fewer_dummies():
    target = {"n": 100, "epsilon": 1.0, "delta": 1e-2}
    protocol = shoal.UniformDummies.calibrated(k=2, **target)
    fewer = dataclasses.replace(protocol, dummies=0.8 * protocol.dummies)
    found = audit(fewer, **target, runs=100_000, randomness=simulated(1))
    assert found.verdict == "violated", str(found)
    assert found.local_lower is None


def test_envelopes_that_are_not_taken_apart():
    target = {"n": 30, "epsilon": 1.0, "delta": 1e-2}
    protocol = shoal.UniformDummies.calibrated(k=3, **target)
    pipeline = WholePipeline(lambda values: protocol.randomize(values).messages)
    found = audit(pipeline, declared=protocol, **target, runs=2_000)
    assert found.verdict == "violated"
    assert "place 1" in found.evidence.statistic


def test_a_table_that_claims_too_little():
    found = audit(TABLE, n=20, delta=1e-2, local_epsilon=1.5, runs=5_000)
    assert found.verdict == "violated"
    assert 1.5 < found.local_lower < math.log(6)


# --------------------------------------------------------------------------------- other details


def test_one_person():
    found = audit(response(1.0), n=1, delta=1e-3, runs=5_000, randomness=simulated(2))
    assert found.verdict == "consistent"
    assert 0.8 < found.lower <= found.claimed <= 1
    assert "nobody else" in found.evidence.data


def test_runs_are_counted_and_shown_and_repeat_for_a_seed():
    calls = []
    asked = {"n": 7, "delta": 0.01, "runs": 3_000}
    found, again = (
        audit(response(1.0), **asked, randomness=simulated(4), progress=lambda *c: calls.append(c))
        for _ in range(2)
    )
    assert found == again
    assert found.to_dict() == again.to_dict()
    once = calls[: len(calls) // 2]
    assert once[-1][0] == once[-1][1]
    assert [done for done, _ in once] == sorted(done for done, _ in once)
    for each in found.evidences:
        assert tuple(int(counts.sum()) for counts in each.histograms) == each.runs
        assert each.edges.size == each.histograms[0].size + 1
    assert 1.5 * 3_000 < sum(found.evidence.runs) < 2 * 3_000
    assert found.to_dict()["local_evidence"]["claimed"] == found.claimed_local
    assert found.words.startswith("consistent: ε of 7 people at δ = 0.01 is at least")
    assert "everybody else" in str(found) or "of the others" in str(found)


def test_a_table_is_drawn_from():
    listed = Listed(TABLE)
    drawn = listed.randomize(np.repeat([0, 1, 2], 40_000), randomness=simulated(1))
    for x in range(3):
        seen = np.bincount(drawn[40_000 * x : 40_000 * (x + 1)], minlength=3) / 40_000
        assert np.abs(seen - TABLE[x]).max() < 0.015


@pytest.mark.parametrize(
    "values", [[0.0, 1.0, 2.0], [0.0, 1e-9, 1.0, 5.0], [3.0, 3.0], [0.0] * 9_999 + [7.0]]
)
def test_bins_hold_everything_and_end_at_the_threshold(values):
    first, threshold = np.array(values), float(np.mean(values))
    edges = bin_edges(first, first, threshold)
    assert (np.diff(edges) > 0).all()
    assert edges.size < 100
    assert histogram(first, edges).sum() == first.size


def test_bins_of_a_continuous_statistic():
    first = simulator(1).normal(size=5_000)
    for threshold in (0.3, -9.0):
        edges = bin_edges(first, first + 1, threshold)
        assert np.abs(edges - threshold).min() < 1e-9
        inside = histogram(first, edges)[edges[:-1] >= threshold - 1e-9].sum()
        assert inside == (first >= threshold).sum()
