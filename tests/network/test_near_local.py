"""Answers that stop where amplification is hardly worth the name."""

from __future__ import annotations

import pytest

from shoal.errors import InvalidArgumentError
from shoal.network.account import WalkAccountant, user_epsilons
from shoal.network.generators import random_regular, ring
from shoal.network.profile import ALONE
from shoal.network.walk import Walk


@pytest.fixture(scope="module")
def accountant():
    return WalkAccountant(Walk(random_regular(100, 16)), local_epsilon=1.0)


@pytest.mark.parametrize("rounds", [3, 4])
def test_what_amplifies_is_answered_as_ever(accountant, rounds):
    profile = accountant.profile(rounds)
    epsilon, theorem = profile.answer(1e-4, near_local=False)
    expected, by = profile.answer(1e-4)
    assert epsilon == pytest.approx(expected, rel=1e-6)
    assert theorem == by
    kept = accountant.guarantee(rounds, delta=1e-4, near_local=False)
    known = accountant.guarantee(rounds, delta=1e-4)
    assert kept.epsilon == pytest.approx(known.epsilon, rel=1e-6)
    assert kept.to_dict() | {"epsilon": 0} == known.to_dict() | {"epsilon": 0}


def test_what_does_not_is_each_report_by_itself():
    accountant = WalkAccountant(Walk(ring(51)), local_epsilon=1.0)
    assert accountant.profile(3).answer(1e-6, near_local=False) == (1.0, ALONE)
    kept = accountant.guarantee(3, delta=1e-6, near_local=False)
    assert (kept.epsilon, kept.delta, kept.theorem) == (1.0, 1e-6, ALONE)


def test_a_larger_share_has_no_smaller_epsilon(accountant):
    fractions = (0.5, 1.0, 0.9)
    found = user_epsilons(accountant, 3, delta=1e-4, fractions=fractions, near_local=False)
    assert found.at(0.5) <= found.at(0.9) <= found.at(1.0)
    assert found.worst == pytest.approx(accountant.profile(3).epsilon(1e-4), rel=1e-6)


def test_delta_is_checked(accountant):
    with pytest.raises(InvalidArgumentError, match="delta"):
        accountant.profile(3).answer(0.0, near_local=False)
