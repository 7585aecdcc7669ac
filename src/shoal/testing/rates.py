"""Published sample complexities of uniformity testing, without their constants.

Each is the number of people, up to a constant factor that the papers leave open, with which the
uniform distribution on k answers can be told from every distribution at total variation
``distance`` (α below) from it. They are rates to compare with, not promises: what a test of this
package needs is :func:`shoal.testing.required_n`.

>>> round(non_private(k=100, distance=0.1))
1000
"""

from __future__ import annotations

import math

from shoal import checks
from shoal.testing.hypothesis import check_noticeable

MEASURED_CONSTANT = 2.0  # times the private-coin rate: power 0.95 and more at level 0.05


def non_private(*, k: int, distance: float) -> float:
    """√k/α². Paninski, IEEE Trans. Inf. Theory 54 (2008)."""
    size, alpha = _checked(k, distance)
    return math.sqrt(size) / alpha**2


def central(*, k: int, distance: float, epsilon: float) -> float:
    """√k/α² + √k/(α√ε) + k^{1/3}/(α^{4/3} ε^{2/3}) + 1/(αε), for a trusted curator.

    Acharya, Sun, Zhang, "Differentially Private Testing of Identity and Closeness of Discrete
    Distributions", NeurIPS 2018, arXiv:1707.05128; Aliakbarpour, Diakonikolas, Rubinfeld,
    "Differentially Private Identity and Equivalence Testing of Discrete Distributions", ICML 2018,
    arXiv:1707.05497.
    """
    size, alpha = _checked(k, distance, epsilon=epsilon)
    middle: float = size ** (1 / 3) / (alpha ** (4 / 3) * epsilon ** (2 / 3))
    return (
        math.sqrt(size) / alpha**2
        + math.sqrt(size) / (alpha * math.sqrt(epsilon))
        + middle
        + 1 / (alpha * epsilon)
    )


def local_private(*, k: int, distance: float, epsilon: float) -> float:
    """k^{3/2}/(α²(e^ε−1)²) + k^{3/2}/(α² e^ε) + √k/α²: no shuffler, private coins.

    Acharya, Canonne, Tyagi, "Inference under Information Constraints: Lower Bounds from Chi-Square
    Contraction", COLT 2019, arXiv:1812.11476; Acharya, Canonne, Freitag, Sun, Tyagi, "Inference
    Under Information Constraints III", 2021, arXiv:2101.07981.
    """
    size, alpha = _checked(k, distance, epsilon=epsilon)
    cost = 1 / math.expm1(epsilon) ** 2 + math.exp(-epsilon)
    return (size * math.sqrt(size) * cost + math.sqrt(size)) / alpha**2


def local_public(*, k: int, distance: float, epsilon: float) -> float:
    """k/(α²(e^ε−1)²) + k/(α² e^{ε/2}) + √k/α²: no shuffler, public coins.

    The same papers as for private coins.
    """
    size, alpha = _checked(k, distance, epsilon=epsilon)
    cost = 1 / math.expm1(epsilon) ** 2 + math.exp(-epsilon / 2)
    return (size * cost + math.sqrt(size)) / alpha**2


def shuffle_private(*, k: int, distance: float, epsilon: float, delta: float) -> float:
    """k^{3/4} √ln(1/δ)/(αε) + √k/α²: shuffled, private coins.

    Canonne, Lyu, "Uniformity Testing in the Shuffle Model: Simpler, Better, Faster", SOSA 2022,
    arXiv:2108.08987; by amplification it follows from the local rate (Canonne, "Privacy Doona: Why
    We Should Hide Among The Clones", DifferentialPrivacy.org, 2021).
    """
    size, alpha = _checked(k, distance, epsilon=epsilon, delta=delta)
    noise: float = size**0.75 * math.sqrt(math.log(1 / delta)) / (alpha * epsilon)
    return noise + math.sqrt(size) / alpha**2


def shuffle_public(*, k: int, distance: float, epsilon: float, delta: float) -> float:
    """k^{2/3} ln^{1/3}(1/δ)/(α^{4/3} ε^{2/3}) + √(k ln(1/δ))/(αε) + √k/α²: public coins.

    The same sources as for private coins.
    """
    size, alpha = _checked(k, distance, epsilon=epsilon, delta=delta)
    log = math.log(1 / delta)
    first: float = size ** (2 / 3) * log ** (1 / 3) / (alpha ** (4 / 3) * epsilon ** (2 / 3))
    return first + math.sqrt(size * log) / (alpha * epsilon) + math.sqrt(size) / alpha**2


def sample_size(*, k: int, distance: float, epsilon: float, delta: float) -> int:
    """Twice the private-coin shuffled rate, rounded up.

    Measured: one message each (k-ary randomized response) then has power 0.95 and more at level
    0.05, for k = 64, 256, 1024, ε = 0.25 and 1, α = 0.1, δ = 1e-6.

    >>> sample_size(k=1024, distance=0.1, epsilon=0.25, delta=1e-6)
    60227
    """
    rate = shuffle_private(k=k, distance=distance, epsilon=epsilon, delta=delta)
    return math.ceil(MEASURED_CONSTANT * rate)


def _checked(
    k: int, distance: float, *, epsilon: float = 1.0, delta: float = 0.5
) -> tuple[float, float]:
    checks.target(epsilon=epsilon, delta=delta)
    check_noticeable(distance)
    return float(checks.count(2, k=k)), distance
