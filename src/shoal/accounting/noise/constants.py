"""What the papers prescribe, to be set beside the exact calibrations: never an answer.

Each function gives the mean noise that a published proof asks for, in the unit of its exact
counterpart. The constants with *recalled* in the docstring have not been verified against the
paper.
"""

from __future__ import annotations

import math

from shoal import checks
from shoal.errors import OutOfRegimeError


def zero_sum_mean(*, epsilon: float, delta: float) -> float:
    """nγ = (50/ε²) log(2/δ) for one bin; beside ``n · one_bin_gamma``.

    Balcer and Cheu, "Separating Local & Shuffled Differential Privacy via Histograms", ITC 2020,
    arXiv:1911.06879, for ε <= 1 and n >= (100/ε²) log(2/δ).

    >>> round(zero_sum_mean(epsilon=1.0, delta=1e-6))
    725
    """
    _in_regime("zero_sum_mean", epsilon, delta, instead="one_bin_gamma")
    return 50 * math.log(2 / delta) / epsilon**2


def zero_sum_histogram_mean(*, epsilon: float, delta: float) -> float:
    """nγ per bin of a histogram: the one-bin noise at (ε/2, δ/2); beside ``n · two_bin_gamma``.

    Same paper and conditions.
    """
    _in_regime("zero_sum_histogram_mean", epsilon, delta, instead="two_bin_gamma")
    return zero_sum_mean(epsilon=epsilon / 2, delta=delta / 2)


def dummies_mean(*, epsilon: float, delta: float) -> float:
    """Dummies per bin, nρ/k = (32/ε²) log(2/δ) (recalled); beside ``n · dummies_rho / k``.

    Luo, Wang, Yi, "Frequency Estimation in the Shuffle Model with Almost a Single Message",
    CCS 2022, arXiv:2111.06833.
    """
    _in_regime("dummies_mean", epsilon, delta, instead="dummies_rho")
    return 32 * math.log(2 / delta) / epsilon**2


def coins_mean(*, epsilon: float, delta: float) -> float:
    """λ = (64/ε²) log(4/δ) fair coins (recalled); beside ``binary_lambda``.

    Cheu, Smith, Ullman, Zeber, Zhilyaev, "Distributed Differential Privacy via Shuffling",
    EUROCRYPT 2019, arXiv:1808.01394.
    """
    _in_regime("coins_mean", epsilon, delta, instead="binary_lambda")
    return 64 * math.log(4 / delta) / epsilon**2


def fake_users_variance(*, epsilon: float, delta: float) -> float:
    """m f (1−f) = (33/5) ((e^ε+1)/(e^ε−1))² log(4/δ) of m vectors with flips f (recalled).

    Cheu and Zhilyaev, "Differentially Private Histograms in the Shuffle Model from Fake Users",
    S&P 2022, arXiv:2104.02739; beside ``n · two_bin_gamma``.
    """
    checks.positive(epsilon=epsilon)
    checks.open_probability(delta=delta)
    return 33 / 5 * math.log(4 / delta) / math.tanh(epsilon / 2) ** 2


def _in_regime(bound: str, epsilon: float, delta: float, *, instead: str) -> None:
    checks.positive(epsilon=epsilon)
    checks.open_probability(delta=delta)
    if epsilon > 1:
        raise OutOfRegimeError(bound, "epsilon <= 1", {"epsilon": float(epsilon)}, instead)
