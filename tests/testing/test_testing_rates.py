from __future__ import annotations

import math

import pytest

import shoal
from shoal.testing import rates

EASY = {"k": 256, "distance": 0.1}


def test_rates_are_the_published_formulas():
    assert rates.non_private(**EASY) == pytest.approx(1600)
    assert rates.central(**EASY, epsilon=0.25) == pytest.approx(
        1600 + 320 + 256 ** (1 / 3) / (0.1 ** (4 / 3) * 0.25 ** (2 / 3)) + 40
    )
    log = math.log(1e6)
    assert rates.shuffle_private(**EASY, epsilon=0.25, delta=1e-6) == pytest.approx(
        64 * math.sqrt(log) / 0.025 + 1600
    )
    assert rates.shuffle_public(**EASY, epsilon=0.25, delta=1e-6) == pytest.approx(
        256 ** (2 / 3) * log ** (1 / 3) / (0.1 ** (4 / 3) * 0.25 ** (2 / 3))
        + 16 * math.sqrt(log) / 0.025
        + 1600
    )
    assert rates.local_private(**EASY, epsilon=1.0) == pytest.approx(
        4096 / (0.01 * math.expm1(1) ** 2) + 4096 / (0.01 * math.e) + 1600
    )
    assert rates.local_public(**EASY, epsilon=1.0) == pytest.approx(
        256 / (0.01 * math.expm1(1) ** 2) + 256 / (0.01 * math.exp(0.5)) + 1600
    )


def test_the_order_is_that_of_the_trust():
    """More trust never needs more people, and public coins never more than private ones."""
    for k in (64, 1024, 10**5):
        asked = {"k": k, "distance": 0.05}
        shuffled = {**asked, "epsilon": 0.25, "delta": 1e-6}
        bare = rates.non_private(**asked)
        trusted = rates.central(**asked, epsilon=0.25)
        public, private = rates.shuffle_public(**shuffled), rates.shuffle_private(**shuffled)
        assert bare < trusted < public
        assert private < rates.local_private(**asked, epsilon=0.25)
        assert rates.local_public(**asked, epsilon=0.25) < rates.local_private(
            **asked, epsilon=0.25
        )
    assert public < private


def test_the_number_of_people_stated_is_twice_the_rate():
    asked = {"k": 64, "distance": 0.1, "epsilon": 1.0, "delta": 1e-6}
    assert rates.sample_size(**asked) == math.ceil(2 * rates.shuffle_private(**asked))


@pytest.mark.parametrize(
    "wrong", [{"k": 1}, {"distance": 0.0}, {"distance": 1.0}, {"epsilon": 0.0}, {"delta": 1.0}]
)
def test_what_makes_no_sense_is_refused(wrong):
    asked = {"k": 64, "distance": 0.1, "epsilon": 1.0, "delta": 1e-6, **wrong}
    with pytest.raises(shoal.InvalidArgumentError):
        rates.shuffle_public(**asked)
