"""The shortcut of the planner: where randomized response is surely the best, nothing else is tried.

It has to be what the full ranking recommends, whatever is asked.
"""

from __future__ import annotations

import numpy as np
import pytest

import shoal
from shoal.planning import planner
from shoal.planning.planner import Setting, _options, _ranked, _unrivalled
from shoal.questions.domains import Ball, Cells, Interval
from shoal.questions.terms import Crowd, Limits

ALIKE = 1.02  # errors that differ less count as the same
ANSWERS = (2, 3, 4, 5, 8, 10, 12, 20, 30, 50, 100, 200, 1000, 3000, 10_000)
MANY = (50, 100, 200)


def grid(seed, size):
    """Settings that differ in all that the shortcut looks at; one in four is of few people."""
    drawn = np.random.default_rng(seed)
    for i in range(size):
        few = i % 4 == 0
        yield Setting(
            domain=Cells(int(drawn.choice(MANY if few else ANSWERS))),
            n=int(10 ** drawn.uniform(1.5, 3 if few else 8)),
            epsilon=10 ** drawn.uniform(-2, 0 if few else 1),
            delta=10 ** -drawn.uniform(3, 12),
        )


def compared(seed, size):
    """Of a grid, how often the shortcut was taken, and how often it would have been wrong."""
    taken = other = 0
    for setting in grid(seed, size):
        first = _unrivalled(setting)
        if first is None and setting.domain.k not in MANY:  # to rank them takes long
            continue
        options, _ = _ranked(_options(setting), setting)
        if first is None:
            other += options[0].name != "grr"
            continue
        taken += 1
        assert options[0].name == first.name, setting
        assert options[0].randomizer == first.randomizer, setting
        assert options[0].errors == first.errors
        others = [each.errors.l2 for each in options[1:] if each.errors is not None]
        assert first.errors.l2 <= ALIKE * min(others), setting
    return taken, other


def test_the_shortcut_is_the_full_ranking(calibrated_once):  # noqa: ARG001
    taken, other = compared(1, 60)
    assert (taken >= 15, other >= 3) == (True, True)


@pytest.mark.slow
def test_the_shortcut_is_the_full_ranking_on_a_large_grid():
    taken, other = compared(2, 1_500)
    assert (taken >= 400, other >= 100) == (True, True)


def test_no_shortcut_where_more_is_asked():
    plain = Setting(domain=Cells(4), n=10**6, epsilon=1.0, delta=1e-6)
    assert _unrivalled(plain).name == "grr"
    more = (
        {"crowd": Crowd(honest_fraction=0.9)},
        {"crowd": Crowd(participation=0.5)},
        {"limits": Limits(messages=3)},
        {"limits": Limits(local_epsilon=1.0)},
        {"chosen": "subset"},
        {"domain": Interval(0, 1)},
        {"domain": Ball(3, 1.0)},
        {"scheme": planner.Whole((Cells(4),))},
        {"epsilon": 0.01, "n": 1000},
    )
    fields = {"domain": Cells(4), "n": 10**6, "epsilon": 1.0, "delta": 1e-6}
    other = [_unrivalled(Setting(**fields | each)) is not None for each in more]
    assert other == [False] * 7 + [True, False]


def test_other_options_are_tried_once_somebody_asks_for_them():
    plan = shoal.plan(shoal.Choice("c", 4), n=10**6, epsilon=1.0, delta=1e-6)
    ranking = plan.only.ranking
    assert (len(ranking.found), ranking.why) == (1, None)
    assert len(ranking.options) >= 5
    assert ranking.options[0].name == plan.recommended.name == "grr"
    assert ranking.options[1].name in ranking.reason
    assert ranking.options[0] == plan.recommended
    assert plan.choose("subset").recommended.name == "subset"
