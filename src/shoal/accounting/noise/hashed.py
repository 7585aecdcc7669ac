r"""A true message hidden among uniform dummies, when messages are hash functions with a bucket.

Each of n honest people draws a hash function h into b buckets and sends (h, h(x)), and ρ dummies on
average, each a fresh function with a uniform bucket (Luo, Wang, Yi, "Frequency Estimation in the
Shuffle Model with Almost a Single Message", CCS 2022, arXiv:2111.06833, large domains). Let S_x be
the messages (h, j) with h(x) = j. A dummy is uniform on all messages, a truth uniform on S_x, and
S_x is 1/b of all. With c the chance that h(x) = h(y), a dummy lies in both of S_x and S_y with
probability c/b and in either one alone with (1−c)/b. The functions are no public coin of anybody:
any dummy in S_x \ S_y could be the victim's truth.

Tell the analyzer the other people's truths, and whether the victim's x and y share their bucket. If
they do, which has probability c for both data, the two worlds are the same; if not, the truth adds
one to the messages in S_x \ S_y or in S_y \ S_x, where dummies fall with equal chances. So

    δ <= (1−c) E[ max_a Pr[A >= a | C] − e^ε Pr[A >= a+1 | C] ],    A ~ Bin(C, 1/2),

where C counts dummies that hit either with probability 2 (1−c)/b each. What is told away is that
messages in both sets support either datum: at (1, 1e-6) it asks for a part of 1.6/b more noise.
"""

from __future__ import annotations

from shoal import checks
from shoal.accounting.noise.dummies import either_delta
from shoal.accounting.noise.targets import least_mean
from shoal.accounting.noise.windows import checked_target

_ROUNDING = 1e-15


def hashed_dummies_delta(
    *, n: int, buckets: int, collision: float, rho: float, epsilon: float
) -> float:
    """Upper bound on the divergence of n hashed truths among hashed dummies.

    ``collision`` is the chance that two different answers share their bucket.

    >>> bound = hashed_dummies_delta(n=10_000, buckets=100, collision=0.01, rho=0.4307, epsilon=1.0)
    >>> f"{bound:.1e}"
    '9.9e-07'
    """
    b = checks.count(2, buckets=buckets)
    checks.closed_probability(collision=collision)
    apart = 1 - collision
    share = 2 * apart / b * (1 - _ROUNDING)
    found = either_delta(n=n, rho=rho, share=share, epsilon=epsilon)
    return min(1.0, apart * found * (1 + _ROUNDING))


def hashed_dummies_rho(
    *, n: int, buckets: int, collision: float, epsilon: float, delta: float
) -> float:
    """Return the smallest mean number of dummies per person that keeps (epsilon, delta)."""
    people, b = checks.count(n=n), checks.count(2, buckets=buckets)
    checked_target(epsilon=epsilon, delta=delta)

    def rho_of(mean: float) -> float:
        return b * mean / people

    def reached(mean: float) -> float:
        return hashed_dummies_delta(
            n=people, buckets=b, collision=collision, rho=rho_of(mean), epsilon=epsilon
        )

    return rho_of(least_mean(reached, delta=delta))
