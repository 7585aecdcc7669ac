"""Exact evaluators: slow where the fast integral is fast, and independent of it.

Three of them, for three kinds of object, all giving the hockey-stick divergence
``D_x(P||Q) = sum (P - x Q)_+`` at ``x = e^epsilon``:

* :func:`two_atom_delta`, the pair of distributions that every "clones" theorem reduces to;
* :func:`enumerate_law`, any blanket law, by listing all multisets of draws;
* :func:`enumerate_shuffle` and :func:`worst_shuffle`, the truth itself: the shuffled reports of
  a randomizer given as a table, for given data or for the worst data.

They serve small n, published baselines and cross-checks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import scipy

from shoal import checks
from shoal.errors import InvalidArgumentError, InvalidTableError

Array = npt.NDArray[np.float64]
Number = TypeVar("Number", float, Fraction)

LARGEST_N = 10**8
MOST_MULTISETS = 5_000_000
MOST_CELLS = 20_000_000
# SciPy's binomial point and tail probabilities were within 2e-11 of 40-digit arithmetic for up to
# 1e8 trials and 25 standard deviations.
SPECIAL_ERROR = 3e-11
_MOST_COUNTS = 4_000_000
_NARROWEST = 9.0
_NEGLIGIBLE = 1e-12
_SUM_TOLERANCE = 1e-9
_ROUNDED_TO_ONE = 1e-15


def participants(n: float) -> int:
    """``n`` as an int, if binomials of that many people are known accurately enough."""
    people = checks.count(n=n)
    if people > LARGEST_N:
        raise InvalidArgumentError("n", n, f"n <= {LARGEST_N}: use the integral for more")
    return people


# ------------------------------------------------------------------------------ two-atom pairs


def two_atom_delta(
    *, n: float, epsilon: float, local_epsilon: float, clone_probability: float
) -> float:
    """Upper bound, tight up to rounding, on D_x(P||Q) for the clone pair.

    With ``C ~ Bin(n-1, clone_probability)``, ``A ~ Bin(C, 1/2)`` and
    ``S ~ Bernoulli(e^local_epsilon / (e^local_epsilon + 1))`` the pair is

        P = (A + S, C - A + 1 - S),    Q = (A + 1 - S, C - A + S).

    ``clone_probability = e^-local_epsilon`` is Feldman, McMillan, Talwar, "Hiding Among the
    Clones", FOCS 2021, arXiv:2012.12803, Theorem 3.2; ``2 / (e^local_epsilon + 1)`` is optimal
    clones (docs/theory/optimal-clones.md). Both hold for adaptively chosen randomizers.

    C is observed, and given C = c the likelihood ratio grows with the first count a, so that
    P - x Q > 0 exactly when a >= a0 = floor((c+1) v / (u+v)) + 1, where for B ~ Bin(c, 1/2)

        P(a) - x Q(a) = u Pr[B = a-1] - v Pr[B = a],    u - v = 1 - x,

    and the sum over a >= a0 telescopes to u Pr[B = a0-1] - (x-1) Pr[B >= a0]. Counts c far from
    their mean are not summed but bounded: the conditional divergence does not grow with c.

    >>> p = 2 / (math.exp(4) + 1)
    >>> delta = two_atom_delta(n=1e5, epsilon=0.118153, local_epsilon=4, clone_probability=p)
    >>> f"{delta:.3e}"
    '1.000e-06'
    """
    others = participants(n) - 1
    checks.non_negative(epsilon=epsilon, local_epsilon=local_epsilon)
    checks.share(clone_probability=clone_probability)
    if epsilon >= local_epsilon:
        return 0.0
    stick = _Stick.at(epsilon, local_epsilon)
    width = _NARROWEST
    while True:
        window = _Window.around_mean(others, clone_probability, width)
        inside, outside = stick.integrate(window)
        if outside <= _NEGLIGIBLE * inside or window.is_everything or window.is_wide:
            return min(1.0, inside + outside + float(np.finfo(float).tiny))
        width *= 2


def two_atom_epsilon(
    *,
    n: float,
    delta: float,
    local_epsilon: float,
    clone_probability: float,
    iterations: int = 40,
) -> float:
    """Smallest epsilon with ``two_atom_delta <= delta``, by bisection; the upper end is returned.

    >>> p = math.exp(-4)
    >>> round(two_atom_epsilon(n=1e5, delta=1e-6, local_epsilon=4, clone_probability=p), 6)
    0.16977
    """
    checks.open_probability(delta=delta)
    steps = checks.count(iterations=iterations)

    def holds(epsilon: float) -> bool:
        reached = two_atom_delta(
            n=n,
            epsilon=epsilon,
            local_epsilon=local_epsilon,
            clone_probability=clone_probability,
        )
        return reached <= delta

    if holds(0.0):
        return 0.0
    low, high = 0.0, float(local_epsilon)
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@dataclass(frozen=True)
class _Window:
    """Counts of clones near their mean, their probabilities, and the mass on either side."""

    counts: Array
    weights: Array
    below: float
    above: float

    @classmethod
    def around_mean(cls, trials: int, probability: float, width: float) -> _Window:
        binomial = scipy.stats.binom(trials, probability)
        mean = trials * probability
        # Poisson-like tails reach further than the standard deviation says: 45 more on each side.
        reach = width * math.sqrt(mean * (1 - probability)) + 45
        low, high = max(0, math.floor(mean - reach)), min(trials, math.ceil(mean + reach))
        counts = np.arange(low, high + 1, dtype=np.float64)
        below, above = float(binomial.cdf(low - 1)), float(binomial.sf(high))
        return cls(counts, binomial.pmf(counts), below, above)

    @property
    def is_everything(self) -> bool:
        return self.below == self.above == 0.0

    @property
    def is_wide(self) -> bool:
        return self.counts.size > _MOST_COUNTS


@dataclass(frozen=True)
class _Stick:
    """P - x Q given the number of clones: ``u Pr[B = a-1] - v Pr[B = a]``."""

    u: float
    v: float
    excess: float  # x - 1 = v - u

    @classmethod
    def at(cls, epsilon: float, local_epsilon: float) -> _Stick:
        # expm1 keeps u accurate where epsilon is close to local_epsilon.
        scale = 1 + math.exp(-local_epsilon)
        u = -math.expm1(epsilon - local_epsilon) / scale
        v = -math.exp(epsilon) * math.expm1(-epsilon - local_epsilon) / scale
        return cls(u, v, math.expm1(epsilon))

    def integrate(self, window: _Window) -> tuple[float, float]:
        """Divergence within the window, rounding included, and a bound on what lies outside."""
        value, rounding = self.given(window.counts)
        inside = float(window.weights @ (value + rounding)) * (1 + SPECIAL_ERROR)
        # The conditional divergence is u without clones, and does not grow with their number.
        outside = window.below * self.u + window.above * float(value[-1] + rounding[-1])
        return inside, outside

    def given(self, clones: Array) -> tuple[Array, Array]:
        """Conditional divergence for each number of clones, and its rounding error."""
        first = np.floor((clones + 1) * (self.v / (self.u + self.v))) + 1
        first = np.minimum(first, clones + 1)
        point = np.asarray(self.u * scipy.stats.binom.pmf(first - 1, clones, 0.5))
        tail = np.asarray(self.excess * scipy.stats.binom.sf(first - 1, clones, 0.5))
        return np.maximum(point - tail, 0.0), SPECIAL_ERROR * (point + tail)


# -------------------------------------------------------------------------------- blanket laws


def enumerate_law(
    *,
    mass: Sequence[float],
    rho0: Sequence[float],
    rho1: Sequence[float],
    n: float,
    epsilon: float,
) -> float:
    """``(1/n) E[(Z_1 + ... + Z_n)_+]`` of a blanket law, summed over all multisets of draws.

    Z is ``rho0_i - e^epsilon rho1_i`` with probability ``mass_i``, and 0 with what remains.
    If the blanket is what every other person really sends, this is not a bound but the divergence
    itself (Balle, Bell, Gascón, Nissim, CRYPTO 2019, arXiv:1903.02837, Lemma 5.3).

    >>> law = {"mass": [0.25, 0.25], "rho0": [3.0, 1.0], "rho1": [1.0, 3.0]}
    >>> enumerate_law(**law, n=2, epsilon=0.0)
    0.375
    """
    checks.non_negative(epsilon=epsilon)
    size = _checked_law(mass, rho0, rho1, n)
    growth = math.exp(epsilon)
    values = [a - growth * b for a, b in zip(rho0, rho1, strict=True)]
    rest = 1.0 - math.fsum(mass)
    # A blanket that is everything leaves rounding, not mass.
    masses = [*mass, rest] if rest > _ROUNDED_TO_ONE else list(mass)
    return math.fsum(_positive_parts(masses, [*values, 0.0], size)) / size


def enumerate_law_exactly(
    *,
    mass: Sequence[Fraction],
    rho0: Sequence[Fraction],
    rho1: Sequence[Fraction],
    n: float,
    growth: Fraction,
) -> Fraction:
    """:func:`enumerate_law` in rational arithmetic, at a rational ``growth = e^epsilon``.

    >>> law = {"mass": [Fraction(1, 4)] * 2, "rho0": [3, 1], "rho1": [1, 3]}
    >>> enumerate_law_exactly(**law, n=2, growth=Fraction(1))
    Fraction(3, 8)
    """
    size = _checked_law(mass, rho0, rho1, n)
    values = [Fraction(a - growth * b) for a, b in zip(rho0, rho1, strict=True)]
    rest = 1 - sum(mass, Fraction(0))
    masses = [*mass, rest] if rest else list(mass)
    return sum(_positive_parts(masses, [*values, Fraction(0)], size), Fraction(0)) / size


def _positive_parts(
    masses: Sequence[Number], values: Sequence[Number], draws: int
) -> Iterator[Number]:
    """Pr[multiset] * (its sum)_+ for every multiset of ``draws`` values."""
    last = len(masses) - 1
    powers = [[mass**count for count in range(draws + 1)] for mass in masses]
    pending = [(0, draws, powers[0][0], values[0] * 0)]
    while pending:
        atom, left, weight, total = pending.pop()
        if atom == last or left == 0:
            final = total + left * values[atom]
            if final > 0:
                yield weight * powers[atom][left] * final
            continue
        for count in range(left + 1):
            chance = weight * math.comb(left, count) * powers[atom][count]
            pending.append((atom + 1, left - count, chance, total + count * values[atom]))


def _checked_law(
    mass: Sequence[Number], rho0: Sequence[Number], rho1: Sequence[Number], n: float
) -> int:
    size = checks.count(n=n)
    if not len(mass) == len(rho0) == len(rho1) > 0:
        lengths = (len(mass), len(rho0), len(rho1))
        raise InvalidTableError("law", lengths, "as many masses as rho0 and rho1, at least one")
    if not all(0 <= value < math.inf for value in (*mass, *rho0, *rho1)):
        raise InvalidTableError("law", tuple(mass), "finite numbers >= 0")
    if math.fsum(mass) > 1 + _SUM_TOLERANCE:
        raise InvalidTableError("mass", tuple(mass), "masses of sum at most 1")
    if math.comb(size + len(mass), len(mass)) > MOST_MULTISETS:
        raise InvalidArgumentError("n", n, f"at most {MOST_MULTISETS} multisets of draws")
    return size


# ------------------------------------------------------------------------------ shuffled tables


def enumerate_shuffle(
    table: npt.ArrayLike, *, others: Sequence[int], x0: int, x1: int, epsilon: float
) -> float:
    """True divergence ``D_x`` of shuffled reports, one person holding x0 in P and x1 in Q.

    ``table[x, y]`` is the probability that input x sends message y; ``others`` are the inputs of
    everybody else. A shuffler reveals how often each message was sent and nothing more, and the
    generating function of these counts is the product over people of ``sum_y table[x, y] t_y``.
    It is multiplied out after Kronecker's substitution ``t_y = t^((n+1)^(y-1))``, ``t_0 = 1``.

    >>> response = [[0.75, 0.25], [0.25, 0.75]]
    >>> enumerate_shuffle(response, others=[0], x0=0, x1=1, epsilon=0.0)
    0.375
    """
    rows = _checked_table(table)
    checks.non_negative(epsilon=epsilon)
    for name, x in (("x0", x0), ("x1", x1), *(("others", x) for x in others)):
        if not 0 <= x < len(rows):
            raise InvalidArgumentError(name, x, f"an input from 0 to {len(rows) - 1}")
    strides = _strides(rows, len(others) + 1)
    law = np.ones(1)
    for x in others:
        law = _after_report(law, rows[x], strides)
    first, second = (_after_report(law, rows[x], strides) for x in (x0, x1))
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())


def worst_shuffle(table: npt.ArrayLike, *, n: float, epsilon: float) -> float:
    """The largest :func:`enumerate_shuffle` over all ordered pairs x0, x1 and all other inputs.

    >>> response = [[0.75, 0.25], [0.25, 0.75]]
    >>> worst_shuffle(response, n=1, epsilon=0.0)
    0.5
    """
    rows = _checked_table(table)
    people = checks.count(n=n)
    checks.non_negative(epsilon=epsilon)
    if math.comb(people + len(rows), len(rows)) > MOST_MULTISETS:
        raise InvalidArgumentError("n", n, f"at most {MOST_MULTISETS} multisets of inputs")
    strides = _strides(rows, people)
    growth = math.exp(epsilon)
    worst = 0.0
    pending = [(np.ones(1), 0, people - 1)]
    while pending:
        law, smallest, left = pending.pop()
        after = [_after_report(law, row, strides) for row in rows]
        if left:
            pending.extend((after[x], x, left - 1) for x in range(smallest, len(rows)))
        else:
            laws = np.stack(after)
            gains = (np.maximum(one - growth * laws, 0.0).sum(axis=1).max() for one in laws)
            worst = max(worst, *map(float, gains))
    return worst


def _after_report(law: Array, row: Array, strides: Sequence[int]) -> Array:
    """Law of the message counts after one more report, drawn from ``row``."""
    longer = np.zeros(law.size + strides[-1])
    for probability, stride in zip(row, strides, strict=True):
        longer[stride : stride + law.size] += probability * law
    return longer


def _strides(rows: Array, people: int) -> list[int]:
    messages = rows.shape[1]
    strides = [0, *((people + 1) ** power for power in range(messages - 1))]
    if people * strides[-1] > MOST_CELLS:
        raise InvalidArgumentError("n", people, f"at most {MOST_CELLS} cells of message counts")
    return strides


def _checked_table(table: npt.ArrayLike) -> Array:
    rows = np.asarray(table, dtype=np.float64)
    if rows.ndim != 2 or rows.size == 0:
        raise InvalidTableError("table", rows.shape, "one row per input, one column per message")
    if not bool(np.all(rows >= 0)) or bool(np.any(np.abs(rows.sum(axis=1) - 1) > _SUM_TOLERANCE)):
        raise InvalidTableError("table", rows.sum(axis=1).tolist(), "probabilities, rows of sum 1")
    return rows
