"""Exact evaluators: slow where the fast integral is fast, and independent of it.

Three of them, for three kinds of object, all giving the hockey-stick divergence
``D_x(P||Q) = sum (P - x Q)_+`` at ``x = e^epsilon``:

* :func:`two_atom_delta`, the pair of distributions that every "clones" theorem reduces to;
* :func:`enumerate_law`, any blanket law, by listing all multisets of draws;
* :func:`enumerate_shuffle` and :func:`worst_shuffle`, the truth itself: the shuffled reports of
  a randomizer's table, for some data or for the worst data.

They serve small n, published baselines and cross-checks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import scipy

from shoal import checks
from shoal.errors import InvalidArgumentError

Array = npt.NDArray[np.float64]

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
    checks.refuse(people > LARGEST_N, f"n <= {LARGEST_N}: use the integral for more", n=n)
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
    checks.fraction(clone_probability=clone_probability)
    if epsilon >= local_epsilon:
        return 0.0
    width = _NARROWEST
    while True:
        inside, outside, widest = _near_mean(
            others, clone_probability, width, epsilon=epsilon, local_epsilon=local_epsilon
        )
        if widest or outside <= _NEGLIGIBLE * inside:
            return min(1.0, inside + outside + float(np.finfo(float).tiny))
        width *= 2


def _near_mean(
    others: int, probability: float, width: float, *, epsilon: float, local_epsilon: float
) -> tuple[float, float, bool]:
    """Divergence over the counts near the mean, a bound on the others, and whether to stop here."""
    binomial = scipy.stats.binom(others, probability)
    mean = others * probability
    # Poisson-like tails reach further than the standard deviation says: 45 more on each side.
    reach = width * math.sqrt(mean * (1 - probability)) + 45
    low, high = max(0, math.floor(mean - reach)), min(others, math.ceil(mean + reach))
    counts = np.arange(low, high + 1, dtype=np.float64)
    below, above = float(binomial.cdf(low - 1)), float(binomial.sf(high))
    values, u = _conditional(counts, epsilon, local_epsilon)
    inside = float(binomial.pmf(counts) @ values) * (1 + SPECIAL_ERROR)
    # The conditional divergence is u without clones, and does not grow with their number.
    outside = below * u + above * float(values[-1])
    return inside, outside, below == above == 0.0 or counts.size > _MOST_COUNTS


def _conditional(clones: Array, epsilon: float, local_epsilon: float) -> tuple[Array, float]:
    """P - x Q given the number of clones, rounded up, and without any."""
    scale = 1 + math.exp(-local_epsilon)
    # expm1 keeps u accurate where epsilon is close to local_epsilon.
    u = -math.expm1(epsilon - local_epsilon) / scale
    v = -math.exp(epsilon) * math.expm1(-epsilon - local_epsilon) / scale
    first = np.minimum(np.floor((clones + 1) * (v / (u + v))) + 1, clones + 1)
    point = np.asarray(u * scipy.stats.binom.pmf(first - 1, clones, 0.5))
    tail = np.asarray(math.expm1(epsilon) * scipy.stats.binom.sf(first - 1, clones, 0.5))
    return np.maximum(point - tail, 0.0) + SPECIAL_ERROR * (point + tail), u


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
    size = checks.count(n=n)
    if not len(mass) == len(rho0) == len(rho1) > 0:
        lengths = (len(mass), len(rho0), len(rho1))
        raise InvalidArgumentError("law", lengths, "as many masses as rho0 and rho1, at least one")
    if not all(0 <= value < math.inf for value in (*mass, *rho0, *rho1)):
        raise InvalidArgumentError("law", tuple(mass), "finite numbers >= 0")
    if math.fsum(mass) > 1 + _SUM_TOLERANCE:
        raise InvalidArgumentError("mass", tuple(mass), "masses of sum at most 1")
    many = math.comb(size + len(mass), len(mass)) > MOST_MULTISETS
    checks.refuse(many, f"at most {MOST_MULTISETS} multisets of draws", n=n)
    growth = math.exp(epsilon)
    values = [a - growth * b for a, b in zip(rho0, rho1, strict=True)]
    rest = 1.0 - math.fsum(mass)
    # A blanket that is everything leaves rounding, not mass.
    masses = [*mass, rest] if rest > _ROUNDED_TO_ONE else list(mass)
    return math.fsum(_positive_parts(masses, [*values, 0.0], size)) / size


def _positive_parts(
    masses: Sequence[float], values: Sequence[float], draws: int
) -> Iterator[float]:
    """Pr[multiset] * (its sum)_+ for every multiset of ``draws`` values."""
    last = len(masses) - 1
    powers = [[mass**count for count in range(draws + 1)] for mass in masses]
    pending = [(0, draws, 1.0, 0.0)]
    while pending:
        atom, left, weight, total = pending.pop()
        if atom == last or left == 0:
            final = total + left * values[atom]
            if final > 0:
                yield weight * powers[atom][left] * final
            continue
        for count in range(left + 1):
            probability = weight * math.comb(left, count) * powers[atom][count]
            pending.append((atom + 1, left - count, probability, total + count * values[atom]))


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
    many = math.comb(people + len(rows), len(rows)) > MOST_MULTISETS
    checks.refuse(many, f"at most {MOST_MULTISETS} multisets of inputs", n=n)
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
    expected = f"at most {MOST_CELLS} cells of message counts"
    checks.refuse(people * strides[-1] > MOST_CELLS, expected, n=people)
    return strides


def _checked_table(table: npt.ArrayLike) -> Array:
    rows = np.asarray(table, dtype=np.float64)
    if rows.ndim != 2 or rows.size == 0:
        raise InvalidArgumentError("table", rows.shape, "one row per input, one column per message")
    if not bool(np.all(rows >= 0)) or bool(np.any(np.abs(rows.sum(axis=1) - 1) > _SUM_TOLERANCE)):
        raise InvalidArgumentError(
            "table", rows.sum(axis=1).tolist(), "probabilities, rows of sum 1"
        )
    return rows
