"""Schemes, by enumeration: everything an analyzer sees of a few people, for all neighbours.

A view is a histogram of messages for every kind of report, all of them jointly. Its law follows
from what devices are given and the tables of these, and no claim may be below what it gives.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest
import scipy.stats

import shoal
from shoal.accounting import amplification
from shoal.accounting.compose import ComposedProfile
from shoal.errors import ShoalError
from shoal.mechanisms.response import HadamardResponse, RandomizedResponse
from shoal.planning import planner
from shoal.planning.joint import Part, plan_together
from shoal.planning.plans import Budget, Task, together
from shoal.planning.schemes import (
    EachLabel,
    EachSlot,
    Levels,
    WholeSet,
    schemes,
    sets,
)
from shoal.questions.kinds import Bins, Choice, Choices, Groups, Number, Scale
from shoal.questions.settled import settle
from shoal.questions.terms import EVERYBODY
from shoal.randomness import simulated
from shoal.values import Counts

ROUNDING = 1e-11  # of sums of probabilities
FALSE_ALARM = 1e-6
RUNS = 20_000  # simulated
EPSILONS = (0.0, 0.2, 0.5, 0.8)  # of what all reports have without a shuffler


# ------------------------------------------------------------------------------------ by force


def one_more(law, row):
    """The law of a histogram with one more message, of these probabilities."""
    made = np.zeros_like(law)
    for cell, probability in enumerate(row):
        inner = [slice(None)] * law.ndim
        outer = list(inner)
        inner[cell], outer[cell] = slice(None, -1), slice(1, None)
        made[tuple(outer)] += probability * law[tuple(inner)]
    return made


@dataclass(frozen=True, eq=False)
class World:
    """n people, whatever each of them has of ``data``: how each kind of their reports is drawn.

    ``rows`` are, for each kind of report and each datum, the probabilities of every message that
    somebody with it sends.
    """

    n: int
    data: tuple[Any, ...]
    rows: tuple[dict[Any, tuple[np.ndarray, ...]], ...]

    @classmethod
    def of(cls, n, data, scheme, devices, given=None):
        """What a scheme gives to devices, by their tables; or what is ``given`` of a datum."""
        rows = []
        for report in scheme.reports(devices):
            own = {}
            for each in data:
                cells = _mixtures(report, each) if given is None else given(each)
                own[each] = tuple(mixture @ report.device.table() for mixture in cells)
                assert len(own[each]) == report.times
            rows.append(own)
        return cls(n, tuple(data), tuple(rows))

    def __mul__(self, other):
        """Two questions: everybody has a datum of each."""
        data = tuple(itertools.product(self.data, other.data))
        first = tuple({(a, b): own[a] for a, b in data} for own in self.rows)
        second = tuple({(a, b): own[b] for a, b in data} for own in other.rows)
        return World(self.n, data, first + second)

    def law(self, people):
        """The law of the view of these people's reports, however they are ordered."""
        joint = np.ones(())
        for own in self.rows:
            sent = [row for each in people for row in own[each]]
            law = np.zeros((len(sent) + 1,) * sent[0].size)
            law[(0,) * law.ndim] = 1.0
            for row in sent:
                law = one_more(law, row)
            joint = np.multiply.outer(joint, law[np.nonzero(law)])
        return joint.ravel()

    @cached_property
    def laws(self):
        """By the multiset of what people have; all views are possible in all of them."""
        made = {
            each: self.law(each)
            for each in itertools.combinations_with_replacement(self.data, self.n)
        }
        assert all(abs(law.sum() - 1) < ROUNDING for law in made.values())
        return made

    def delta(self, epsilons):
        """The largest divergence of two neighbours, one of whose people has something else."""
        worst = np.zeros(len(epsilons))
        for rest in itertools.combinations_with_replacement(self.data, self.n - 1):
            own = [self.laws[self._sorted((*rest, each))] for each in self.data]
            for first, second in itertools.permutations(own, 2):
                for i, epsilon in enumerate(epsilons):
                    excess = np.maximum(first - math.exp(epsilon) * second, 0.0).sum()
                    worst[i] = max(worst[i], excess)
        return worst

    def _sorted(self, people):
        return tuple(sorted(people, key=self.data.index))


def _mixtures(report, datum):
    """For each message, the probabilities of what a device is given: it is not random here."""
    values = np.array([datum])
    cells = values if report.given is None else report.given(values, None)
    return np.eye(report.device.k)[cells]


def stepped(scheme):
    """What is given of a group and a number: the two steps that it is rounded to."""

    def given(datum):
        group, number = datum
        row = np.zeros(scheme.groups * scheme.width)
        first = group * scheme.width
        if math.isnan(number):
            row[first + scheme.steps + 1] = 1.0
            return [row]
        place = (number - scheme.low) / (scheme.high - scheme.low) * scheme.steps
        below = min(math.floor(place), scheme.steps - 1)
        row[first + below], row[first + below + 1] = below + 1 - place, place - below
        return [row]

    return given


# ------------------------------------------------------------------------------------- the cases


@dataclass(frozen=True, eq=False)
class Case:
    """A question of a few people in one scheme, and what runs for it."""

    n: int
    question: Any
    scheme: Any
    devices: tuple[Any, ...]
    data: tuple[Any, ...]
    given: Callable[[Any], Any] | None = None
    asked: Any = None  # as rows of a coding, for a simulation

    @property
    def settled(self):
        return settle(self.question, n=self.n)

    def task(self, delta):
        return Task.of(self.settled, self.scheme, self.devices, delta=delta, crowd=EVERYBODY)

    @cached_property
    def world(self):
        return World.of(self.n, self.data, self.scheme, self.devices, self.given)

    def composed(self, rounds=None):
        """The library's curve, of so many reports of each kind."""
        times = self.scheme.rounds if rounds is None else rounds
        return ComposedProfile.of(
            (amplification.profile(device, n=self.n), times) for device in self.devices
        )


def of_sets(n, kind, k, most, epsilon, makes=RandomizedResponse):
    """Any of k labels."""
    question = Choices("c", [f"l{i}" for i in range(k)], most)
    scheme = kind(k, most)
    (domain,) = scheme.domains
    device = makes(k=domain.k, epsilon=epsilon)
    return Case(n, question, scheme, (device,), tuple(sets(k, most).tolist()))


def of_scale(n, missing, epsilon):
    """Three steps, and perhaps none."""
    question = Scale("c", 1, 3, missing=missing)
    (scheme,) = schemes(settle(question, n=n))
    (domain,) = scheme.domains
    device = RandomizedResponse(k=domain.k, epsilon=epsilon)
    return Case(n, question, scheme, (device,), tuple(range(domain.k)))


def of_levels(n, bins, sizes, epsilons):
    """Bins on some levels of a tree."""
    question = Bins("c", 0, bins - 1, bins=bins, missing="refuse")
    scheme = Levels(bins, bins, sizes)
    levels = zip(scheme.domains, epsilons, strict=True)
    devices = tuple(RandomizedResponse(k=each.k, epsilon=own) for each, own in levels)
    return Case(n, question, scheme, devices, tuple(range(bins)))


def of_numbers(n, groups, steps, epsilon, missing="refuse"):
    """Numbers from 0 to 10 in some groups, or none."""
    by = Groups("g", [f"g{i}" for i in range(groups)], other=False, missing="refuse")
    question = Number("x", 0, 10, missing=missing, groups=by if groups > 1 else None)
    settled = settle(question, n=n)
    (scheme,) = (each for each in schemes(settled) if each.steps == steps)
    (domain,) = scheme.domains
    device = RandomizedResponse(k=domain.k, epsilon=epsilon)
    numbers = (0.0, 3.0, 10.0, *[math.nan] * (missing == "cell"))
    data = tuple(itertools.product(range(groups), numbers))
    return Case(n, question, scheme, (device,), data, stepped(scheme))


CASES = {
    "labels of 2, one": of_sets(3, EachLabel, 2, 1, 1.0),
    "labels of 2, any": of_sets(3, EachLabel, 2, 2, 0.7),
    "labels of 3, one": of_sets(2, EachLabel, 3, 1, 1.0),
    "labels of 3, two": of_sets(2, EachLabel, 3, 2, 1.5),
    "slots of 2, one": of_sets(3, EachSlot, 2, 1, 1.0),
    "slots of 3, one": of_sets(3, EachSlot, 3, 1, 2.0),
    "slots of 3, two": of_sets(2, EachSlot, 3, 2, 1.0),
    "slots of 3, two subsets": of_sets(2, EachSlot, 3, 2, 1.0, HadamardResponse),
    "a set of 2": of_sets(3, WholeSet, 2, 2, 1.0),
    "a set of 3, one": of_sets(3, WholeSet, 3, 1, 2.0),
    "a set of 3, two": of_sets(2, WholeSet, 3, 2, 1.0),
    "a scale": of_scale(3, "refuse", 1.0),
    "a scale and none": of_scale(3, "cell", 2.0),
    "two levels": of_levels(3, 4, (1, 2), (1.0, 1.0)),
    "three levels": of_levels(2, 5, (1, 2, 3), (0.5, 1.0, 2.0)),
    "numbers of two groups": of_numbers(2, 2, 1, 1.0),
    "numbers of two groups, finer": of_numbers(2, 2, 2, 2.0),
    "numbers or none": of_numbers(3, 1, 2, 1.0, "cell"),
    "numbers or none of two groups": of_numbers(2, 2, 1, 1.0, "cell"),
}


@pytest.mark.parametrize("name", CASES)
def test_no_view_tells_more_than_is_claimed(name):
    case = CASES[name]
    for delta in (1e-6, 1e-2, 0.1):
        guarantee = case.task(delta).guarantee
        assert guarantee.delta == delta
        (exact,) = case.world.delta([guarantee.epsilon])
        assert exact <= delta + ROUNDING
    # What holds without the shuffler: each report that may differ at its epsilon.
    local = case.scheme.rounds * math.fsum(device.local_epsilon for device in case.devices)
    assert guarantee.local_epsilon == pytest.approx(local)
    assert case.world.delta([local])[0] <= ROUNDING


@pytest.mark.parametrize("name", CASES)
def test_the_composed_curve_is_above_what_views_tell(name):
    case = CASES[name]
    composed = case.composed()
    at = [share * composed.local_epsilon for share in EPSILONS]
    exact = case.world.delta(at)
    assert exact[0] > 0.01  # there is something to be told
    assert np.all(exact <= np.array([composed.delta(each) for each in at]) + ROUNDING)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.scheme.rounds > 1])
def test_a_curve_less_would_be_too_few(name):
    """So many reports of one person are really others: their number is not a mere bound."""
    case = CASES[name]
    fewer = case.composed(case.scheme.rounds - 1)
    (exact,) = case.world.delta([fewer.local_epsilon])
    assert exact > fewer.delta(fewer.local_epsilon) + 1e-4


def test_so_many_reports_of_one_person_differ_at_most():
    for k, most in itertools.product((1, 2, 3, 4), (1, 2, 3, 4)):
        if most > k:
            continue
        data = sets(k, most).tolist()
        pairs = [*itertools.combinations(data, 2)]
        for scheme in (EachLabel(k, most), EachSlot(k, most), WholeSet(k, most)):
            devices = (RandomizedResponse(k=max(2, scheme.domains[0].k), epsilon=1.0),)
            reports = scheme.reports(devices)
            given = {
                each: [
                    sorted(np.atleast_1d(r.given(np.array([each]), None)).tolist()) for r in reports
                ]
                for each in data
            }
            assert len(given[0]) * len(given[0][0]) == scheme.total
            differ = [
                sum(
                    len(own) - sum((Counter(own) & Counter(other)).values())
                    for own, other in zip(given[a], given[b], strict=True)
                )
                for a, b in pairs
            ]
            assert max(differ) == scheme.rounds


def test_nodes_of_levels_hold_neighbouring_bins():
    """Five bins and an answer behind them, which is a node of its own on every level."""
    scheme = Levels(6, 5, (1, 2, 3))
    devices = [RandomizedResponse(k=each.k, epsilon=1.0) for each in scheme.domains]
    given = [report.given(np.arange(6), None).tolist() for report in scheme.reports(devices)]
    assert given == [[0, 1, 2, 3, 4, 5], [0, 0, 1, 1, 2, 3], [0, 0, 0, 1, 1, 2]]
    assert [each.k for each in scheme.domains] == [6, 4, 3]


def test_questions_together_tell_no_more_than_is_claimed():
    labels = of_sets(2, EachLabel, 2, 1, 1.0)
    other = replace(of_scale(2, "refuse", 0.5), question=Scale("d", 1, 3, missing="refuse"))
    both = labels.world * other.world
    for delta in (1e-3, 0.1):
        guarantee = together([labels.task(delta), other.task(delta)], delta)
        assert both.delta([guarantee.epsilon])[0] <= delta + ROUNDING
        assert guarantee.local_epsilon == pytest.approx(2.5)
    # Neither of them alone: the other one is told, too.
    assert both.delta([2.0])[0] > 1e-3


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("most", [1, 2])
def test_a_plan_of_a_few_people_keeps_what_it_says(k, most):
    """What is planned for a target that so few people can keep by the reports alone."""
    labels = [f"l{i}" for i in range(k)]
    plan = shoal.plan(shoal.Choices("c", labels, most), n=2, epsilon=2.0, delta=0.05)
    (part,) = plan.parts
    assert plan.guarantee.epsilon <= 2.0
    data = tuple(sets(k, most).tolist())
    rows = []
    for report in part.scheme.reports(part.devices):
        assert hasattr(report.device, "table")
        own = {
            each: tuple(m @ report.device.table() for m in _mixtures(report, each)) for each in data
        }
        rows.append(own)
    world = World(2, data, tuple(rows))
    assert world.delta([2.0])[0] <= 0.05
    assert world.delta([0.0])[0] > 0.2


# ------------------------------------------------------------- that the enumeration is of the code


@pytest.mark.parametrize("name", CASES)
def test_what_is_run_has_the_law_that_was_enumerated(name):
    """The views of simulated runs, against the law, for people who have different data."""
    case = CASES[name]
    people = [case.data[i * (len(case.data) - 1) // (case.n - 1)] for i in range(case.n)]
    bits = simulated(5)
    values = np.array(people * RUNS)
    for report, own in zip(case.scheme.reports(case.devices), case.world.rows, strict=True):
        given = values if report.given is None else report.given(values, bits)
        sent = report.device.randomize(given, randomness=bits)
        seen = np.sort(np.asarray(sent).reshape(RUNS, -1), axis=1)
        views = Counter(map(tuple, seen.tolist()))
        alone = World(case.n, case.data, (own,))
        shape = (case.n * report.times + 1,) * own[people[0]][0].size
        law = np.zeros(shape)
        law[(0,) * len(shape)] = 1.0
        for row in itertools.chain.from_iterable(own[each] for each in people):
            law = one_more(law, row)
        assert np.array_equal(law[np.nonzero(law)], alone.law(people))
        expected = {
            tuple(np.repeat(np.arange(len(shape)), cells).tolist()): RUNS * float(law[tuple(cells)])
            for cells in np.argwhere(law)
        }
        assert set(views) <= set(expected)
        # Views that are rare count together.
        rare = [view for view, count in expected.items() if count < 10]
        bins = [([view], count) for view, count in expected.items() if count >= 10]
        bins += [(rare, math.fsum(expected[view] for view in rare))] * bool(rare)
        bins = [(some, count) for some, count in bins if count > 5]
        square = sum((sum(views[v] for v in some) - c) ** 2 / c for some, c in bins)
        many = FALSE_ALARM / (3 * len(CASES))
        assert square <= scipy.stats.chi2.isf(many, max(len(bins) - 1, 1))


# ---------------------------------------------------------------------------------- what is said


UNBIASED = {
    name: case for name, case in CASES.items() if isinstance(case.question, Choices) and case.n == 2
}


@pytest.mark.parametrize("name", UNBIASED)
def test_fractions_of_labels_are_right_on_average(name):
    """Over all messages, exactly: estimates are linear in how often each message came."""
    case = UNBIASED[name]
    k = len(case.question.labels)
    for people in itertools.combinations_with_replacement(case.data, 2):
        counts = []
        for report, own in zip(case.scheme.reports(case.devices), case.world.rows, strict=True):
            expected = np.sum([row for each in people for row in own[each]], axis=0)
            width = report.device.codec.cells(np.array([0])).size
            assert width == expected.size
            counts.append(Counts(expected, len(people) * report.times))
        found = case.scheme.estimate(case.devices, counts)
        truth = [sum(each >> label & 1 for each in people) / 2 for label in range(k)]
        unbiased = getattr(found, "unbiased", found.frequencies)
        assert unbiased == pytest.approx(truth, abs=1e-9)


GRID = [
    (k, most, n, epsilon)
    for k, most in ((3, 1), (3, 3), (6, 2), (12, 2))
    for n, epsilon in ((200, 2.0), (20_000, 0.5))
]


def of_ways(question, budget, n):
    """The plan of each way to ask it, by itself."""
    settled = settle(question, n=n, epsilon=budget.epsilon)
    for way in schemes(settled):
        (domain,) = way.domains
        setting = budget.setting(settled, way, domain)
        try:
            if way.rounds == 1:
                ranking = planner.rank(setting)
            else:
                target = {"epsilon": budget.epsilon, "delta": budget.delta}
                (ranking,) = plan_together([Part(setting, rounds=way.rounds)], **target).rankings
        except ShoalError:
            continue
        yield way.name, way.errors(ranking.randomizer, ranking.setting).l2


@pytest.mark.parametrize(("k", "most", "n", "epsilon"), GRID)
def test_choices_are_asked_in_the_way_with_the_least_error(k, most, n, epsilon, calibrated_once):  # noqa: ARG001
    question = Choices("c", [f"l{i}" for i in range(k)], most)
    plan = shoal.plan(question, n=n, epsilon=epsilon, delta=1e-6)
    part = plan.only
    errors = dict(of_ways(question, plan.budget, n))
    assert {"label by label", "as a set"} <= set(errors)
    assert part.errors.l2 == pytest.approx(min(errors.values()))
    assert part.scheme.name == min(errors, key=errors.get)
    said = part.note.removeprefix("L2 errors of the ways to ask: ")
    listed = [each.rsplit(" ", 1)[0] for each in said.split(", ")]
    assert listed == sorted(errors, key=errors.get)
    assert f"{part.scheme.name} {planner.amount(part.errors.l2)}" in said
    assert plan.guarantee.epsilon <= epsilon


def test_several_reports_of_a_person_cost_as_many_curves():
    settled = settle(Choice("c", ["a", "b"], other=False, missing="refuse"), n=3_000)
    (way,), device = schemes(settled), RandomizedResponse(k=2, epsilon=2.0)
    task = Task.of(settled, way, [device], delta=1e-6, crowd=EVERYBODY, reports=3)
    curve = amplification.profile(device, n=1_000, crowd=EVERYBODY)
    expected, _ = ComposedProfile.of([(curve, 3)]).tightest(1e-6)
    assert task.guarantee.epsilon == pytest.approx(expected, rel=1e-9)
    assert expected > 1.5 * curve.epsilon(1e-6)
    assert (task.guarantee.n, task.guarantee.reports) == (1_000, 3)


@pytest.mark.parametrize(("n", "epsilon"), [(200, 2.0), (20_000, 0.5)])
def test_numbers_by_group_are_rounded_to_the_steps_with_the_least_error(
    n,
    epsilon,
    calibrated_once,  # noqa: ARG001
):
    question = Number("x", 0, 10).by("g", ["a", "b", "c"])
    plan = shoal.plan(question, n=n, epsilon=epsilon, delta=1e-6)
    settled = settle(question, n=n)
    budget = Budget(epsilon=epsilon, delta=1e-6)
    errors = {}
    for way in schemes(settled):
        (domain,) = way.domains
        ranking = planner.rank(budget.setting(settled, way, domain))
        errors[way.steps] = way.errors(ranking.randomizer, ranking.setting).l2
    assert plan.only.scheme.steps == min(errors, key=errors.get)
    assert plan.only.errors.l2 == pytest.approx(min(errors.values()))
    assert plan.only.mean_error == pytest.approx(plan.only.errors.l2 / n)


@pytest.mark.parametrize(
    "question",
    [
        Choice("c", 8),
        Choices("c", ["a", "b", "d"], 2),
        Scale("c", 1, 5),
        Number("c", 0, 10).by("g", ["a", "b"]),
    ],
)
def test_options_are_in_the_order_of_their_errors(question, calibrated_once):  # noqa: ARG001
    plan = shoal.plan(question, n=3_000, epsilon=1.0, delta=1e-6)
    options = planner.rank(plan.only.ranking.setting).options
    possible = [each.errors.l2 for each in options if each.errors is not None]
    assert len(possible) >= 3
    assert possible[1:] == sorted(possible[1:])
    # The first is the best, or sends less than what is within two in a hundred of it.
    assert possible[0] <= 1.02 * min(possible)
    assert all(each.errors is None for each in options[len(possible) :])
