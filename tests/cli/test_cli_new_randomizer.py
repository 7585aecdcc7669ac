"""A new randomizer is one class and one line of the registry: amplify, plan, run and audit use it.

Nothing else of Shoal knows this class.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import polars as pl
import pytest

import shoal
from shoal.accounting.law import BlanketLaw
from shoal.mechanisms import registry
from shoal.mechanisms.base import ByLaw, CategoryRandomizer, Odds, Parts, source
from shoal.mechanisms.codec import Numbered
from shoal.mechanisms.estimators import Support, Supported
from shoal.questions.domains import Cells
from shoal.randomness import simulated
from shoal.values import Counts, category_codes


class Turned(Supported):
    """The last message speaks for the first answer."""

    def estimate(self, counts):
        return super().estimate(Counts(counts.cells[::-1], counts.n))


@dataclass(frozen=True, kw_only=True)
class Mirrored(CategoryRandomizer):
    """Answer x is sent as k - 1 - x, with odds e^epsilon : 1 against each other number."""

    name: ClassVar[str] = "mirrored"

    k: int
    epsilon: float

    @cached_property
    def parts(self):
        odds = Odds.of(self.epsilon, highs=1, lows=self.k - 1)
        support = Support(odds.high / odds.total, odds.low / odds.total)
        return Parts(
            domain=Cells(self.k),
            privacy=ByLaw(
                odds.epsilon, lambda: BlanketLaw.randomized_response(k=self.k, epsilon=odds.epsilon)
            ),
            codec=Numbered(self.k),
            estimator=Turned(self.k, support, joint=(0.0, 0.0)),
            odds=odds,
        )

    def randomize(self, values, *, randomness=None):
        truths = self.k - 1 - category_codes(values, self.k)
        drawn = source(randomness).below(self.odds.total, truths.size).astype(np.int64)
        excess = self.odds.high - self.odds.low
        return np.where(drawn < excess, truths, (drawn - excess) // self.odds.low)

    def table(self):
        weights = np.full((self.k, self.k), self.odds.low / self.odds.total)
        np.fill_diagonal(weights[:, ::-1], self.odds.high / self.odds.total)
        return weights


class Leaking(Mirrored):
    """The same class, careless: a tenth of the reports are the truth."""

    def randomize(self, values, *, randomness=None):
        bits = source(randomness)
        messages = super().randomize(values, randomness=bits)
        careless = bits.below(10, len(messages)) == 0
        return np.where(careless, self.k - 1 - np.asarray(values), messages)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """What adding ``"mirrored": Line("mirrored", "Mirrored", "answers")`` to the registry does."""
    monkeypatch.setitem(sys.modules, "shoal.mechanisms.mirrored", sys.modules[__name__])
    line = registry.Line("mirrored", "Mirrored", "answers")
    monkeypatch.setitem(registry.LINES, "mirrored", line)


def test_amplify_by_name(run):
    guarantee = run("amplify --randomizer mirrored --k 5 --local-epsilon 2 --n 1000 --json").json()
    expected = shoal.amplify(shoal.RandomizedResponse(k=5, epsilon=2.0), n=1000)
    assert guarantee["epsilon"] == expected.epsilon


def test_the_planner_considers_it():
    plan = shoal.plan(epsilon=0.5, n=20_000, categories=4)
    by_name = {option.name: option for option in plan.options}
    like = by_name["grr"].randomizer.local_epsilon
    assert by_name["mirrored"].randomizer.local_epsilon == pytest.approx(like, rel=1e-6)
    assert registry.restored(Mirrored(k=4, epsilon=1.0).described()) == Mirrored(k=4, epsilon=1.0)


def test_a_run_with_it():
    answers = pl.DataFrame({"color": ["red"] * 6_000 + ["blue"] * 3_000 + ["green"] * 1_000})
    result = shoal.run(
        answers,
        column="color",
        categories=["red", "blue", "green"],
        randomizer=Mirrored(k=5, epsilon=3.0),  # those, (none) and (other)
        randomness=simulated(1),
    )
    assert result.estimate.frequencies == pytest.approx([0.6, 0.3, 0.1, 0, 0], abs=0.03)
    assert result.guarantee.epsilon < 1
    assert "mirrored" in result.to_html()


def test_an_audit_by_name(run):
    audited = "audit --randomizer mirrored --k 3 --local-epsilon 1 --n 20 --delta 0.01 --runs 4000"
    result = run(audited, "--seed 1 --json").json()
    assert result["verdict"] == "consistent"
    assert 0.8 < result["local_lower"] <= 1
    assert result["inputs"] == [0, 1, 2]


def test_an_audit_knows_where_to_look():
    """What the class says of its messages is tried, and its careless sister is caught."""
    declared = Mirrored(k=3, epsilon=1.0)
    shown = {"n": 20, "delta": 0.01, "runs": 4_000, "randomness": simulated(2)}
    assert "declared" in shoal.audit(declared, **shown).local_evidence.statistic
    assert shoal.audit(Leaking(k=3, epsilon=1.0), declared=declared, **shown).verdict == "violated"
