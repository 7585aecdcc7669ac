"""What plans predict against what devices, shuffled and counted, come to; and what intervals hold.

The data are those that a prediction is for: every set of labels, step or number as likely as any
other, nobody without a number. Each measured error is that of so many simulated collections that,
by five of its standard deviations, a prediction that is right within 3 % is not called wrong.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import shoal
from shoal.estimate.means import means
from shoal.planning.plans import Budget, allot
from shoal.planning.schemes import answers_of
from shoal.questions.kinds import Choices, Groups, Number, Scale
from shoal.questions.settled import settle
from shoal.randomness import simulated

NEEDED = 2_600  # errors, of which a mean square is taken
MANY = shoal.Limits(messages=50)

LETTERS = Choices("letters", list("abc"))
PAIRS = Choices("pairs", list("abcdefgh"), 2)
ONE = Choices("one", list("abcd"), 1)
THREE = Choices("three", list("abcde"), 3)
STEPS = Scale("steps", 1, 5)
TENTHS = Scale("tenths", 0, 10)
SKIPPED = Number("skipped", 0, 1, missing="cell")
HALVES = Number("halves", 0, 10, groups=Groups("g", ["a", "b"], other=False, missing="refuse"))
FOURTHS = Number("fourths", -5, 5, groups=Groups("g", list("abcd"), other=False, missing="refuse"))

FEW = [
    (LETTERS, 300, 1.0, {}),
    (PAIRS, 300, 1.0, {}),
    (ONE, 300, 1.0, {}),
    (STEPS, 300, 1.0, {}),
    (SKIPPED, 300, 1.0, {}),
    (HALVES, 300, 1.0, {}),
    (STEPS, 300, 1.0, MANY),
    (THREE, 300, 3.0, MANY),
]
QUESTIONS = [
    (LETTERS, {}),
    (PAIRS, {}),
    (ONE, {}),
    (THREE, MANY),
    (STEPS, {}),
    (TENTHS, MANY),
    (SKIPPED, {}),
    (HALVES, {}),
    (FOURTHS, {}),
]
ALL = [
    *(
        (asked, n, epsilon, limits)
        for asked, limits in QUESTIONS
        for n, epsilon in [
            (300, 1.0),
            (300, 3.0),
            (1_000, 0.5),
            (1_000, 3.0),
            (10_000, 1.0),
        ]
    )
]
# Here an error may be as large as the range itself: then there is none to predict.
SMALL = [(asked, n, 3.0, limits) for asked, limits in QUESTIONS for n in (30, 100)]


def data(asked, scheme, n, rng):
    """What people have, as codings read it, and what is true of it."""
    if asked.kind == "choices":
        k, most = len(asked.labels), asked.at_most or len(asked.labels)
        sets = np.array([each for each in range(1 << k) if each.bit_count() <= most])
        values = rng.choice(sets, n)
        if scheme.name == "slot by slot":  # whose slots are as likely to be empty as any label
            slots = rng.integers(0, k + 1, (n, most))
            values = np.bitwise_or.reduce(np.where(slots < k, 1 << slots, 0), axis=1)
        return values, (values[:, None] >> np.arange(k) & 1).mean(axis=0)
    if asked.kind == "scale":
        values = rng.integers(0, asked.high - asked.low + 1, n)
        return values, np.array([values.mean() + asked.low])
    group = np.arange(n) % scheme.groups
    numbers = rng.uniform(asked.low, asked.high, n)
    truth = [numbers[group == each].mean() for each in range(scheme.groups)]
    return np.column_stack([group, numbers]), np.array(truth)


def collected(asked, n, epsilon, limits, *, times=None):
    """The predicted error, the errors that came out, and whether intervals held the truth."""
    budget = Budget(
        epsilon=epsilon, delta=min(1e-6, 0.1 / n), **({"limits": limits} if limits else {})
    )
    (part,) = allot([settle(asked, None, n=n, epsilon=epsilon)], budget)
    scheme, devices, settled = part.scheme, part.devices, part.settled
    rng, bits = np.random.default_rng(7), simulated(7)
    values, truth = data(asked, scheme, n, rng)
    errors, held = [], []
    for _ in range(times or math.ceil(NEEDED / truth.size)):
        counts = []
        for report in scheme.reports(devices):
            given = values if report.given is None else report.given(values, bits)
            counts.append(report.device.tally(report.device.randomize(given, randomness=bits)))
        estimate = scheme.estimate(devices, counts)
        if asked.kind == "choices":
            low, high = estimate.interval()
            errors.append(n * (estimate.frequencies - truth))
            held.append((low <= truth) & (truth <= high))
            continue
        scored, steps = (scheme, scheme.steps) if asked.kind == "number" else (settled, None)
        cells = scheme.cells if asked.kind == "number" else map(np.array, settled.cells_of_means)
        found = means(
            answers_of(devices[0]),
            estimate,
            list(cells),
            [np.array(scored.scores)] * truth.size,
            labels=["mean"] * truth.size,
            **({} if steps is None else {"steps": steps}),
        )
        both = list(zip(found, truth, strict=True))
        errors.append([math.nan if each.mean is None else each.mean - true for each, true in both])
        held.append([each.low <= true <= each.high for each, true in both])
    predicted = part.errors.l2 if asked.kind == "choices" else part.mean_error
    per_cell = predicted / math.sqrt(truth.size) if asked.kind == "choices" else predicted
    return per_cell, np.array(errors, dtype=float), np.array(held)


def check(errors, held, predicted):
    """The prediction within 10 % (of few errors: what these tell), and intervals that hold."""
    measured = math.sqrt(float(np.mean(errors**2)))
    tolerance = 0.03 + 5 / math.sqrt(2 * errors.size)
    assert measured == pytest.approx(predicted, rel=max(0.1, tolerance))
    check_held(held)


def check_held(held):
    """At least 94 times out of 100."""
    slack = 5 * math.sqrt(0.94 * 0.06 / held.size)
    assert held.mean() >= 0.94 - slack


def named(setting):
    asked, n, epsilon, limits = setting
    return f"{asked.name}-{n}-{epsilon:g}{'-many' if limits else ''}"


@pytest.mark.parametrize("setting", FEW, ids=named)
def test_predicted_errors_are_those_that_come_out(setting):
    few = None if setting[0].kind == "choices" else 200
    predicted, errors, held = collected(*setting, times=few)
    check(errors, held, predicted)


@pytest.mark.slow
@pytest.mark.parametrize("setting", ALL, ids=named)
def test_predicted_errors_of_every_size_are_those_that_come_out(setting):
    predicted, errors, held = collected(*setting)
    check(errors, held, predicted)


@pytest.mark.parametrize("setting", SMALL, ids=named)
def test_intervals_hold_where_there_are_few_people(setting):
    _, errors, held = collected(*setting, times=60 if setting[0].kind == "choices" else 25)
    assert np.isfinite(errors).any()
    check_held(held)
