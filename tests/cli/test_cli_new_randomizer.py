"""A new randomizer is one class and one line of the registry: amplify, plan, run and audit use it.

Nothing else of Shoal knows this class.
"""

from __future__ import annotations

import polars as pl
import pytest

import shoal
from new_mechanisms import Leaking, Mirrored, register
from shoal.mechanisms import registry
from shoal.randomness import simulated


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """What adding ``"mirrored": Line("new", "Mirrored", "answers")`` to the registry does."""
    register(monkeypatch)


def test_amplify_by_name(run):
    guarantee = run("amplify --randomizer mirrored --k 5 --local-epsilon 2 --n 1000 --json").json()
    expected = shoal.amplify(shoal.RandomizedResponse(k=5, epsilon=2.0), n=1000)
    assert guarantee["epsilon"] == expected.epsilon


def test_the_planner_considers_it():
    plan = shoal.plan(shoal.Choice("color", 4), epsilon=0.5, n=20_000)
    by_name = {option.name: option for option in plan.options}
    like = by_name["grr"].randomizer.local_epsilon
    assert by_name["mirrored"].randomizer.local_epsilon == pytest.approx(like, rel=1e-6)
    assert registry.restored(Mirrored(k=4, epsilon=1.0).described()) == Mirrored(k=4, epsilon=1.0)


def test_a_run_with_it():
    answers = pl.DataFrame({"color": ["red"] * 6_000 + ["blue"] * 3_000 + ["green"] * 1_000})
    result = shoal.run(
        answers,
        shoal.Choice("color", ["red", "blue", "green"]),
        mechanism=Mirrored(k=5, epsilon=3.0),  # those, (none) and (other)
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
