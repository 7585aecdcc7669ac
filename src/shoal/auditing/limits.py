"""Lower bounds on epsilon from counts: exact limits of Clopper and Pearson, and nothing else.

If a pipeline is (epsilon, delta)-DP, every event S has ``p <= e^epsilon q + delta``, p and q its
probabilities on two neighbouring data sets. So limits of p and q are a limit of epsilon.

*Two samples.* With p at least p_low and q at most q_high,
``epsilon >= log((p_low - delta)/q_high)`` (:func:`lower_bound`; Jagielski, Ullman, Oprea,
"Auditing Differentially Private Machine Learning", NeurIPS 2020, arXiv 2006.07709).

*A coin for every run.* If a fair coin says which data set each run is on, the runs in S are on the
first one with probability ``theta = p/(p + q)``, independently, however many they are. The claim is
``theta <= (e^epsilon + delta/s)/(e^epsilon + 1)`` with s = p + q, hence

    epsilon >= log((theta_low - delta/s_low)/(1 - theta_low)),

where s is known to within almost nothing and theta needs one limit instead of two
(:func:`coin_bound`; docs/theory/auditing.md). The margin is that of one binomial fraction.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import special

from shoal import checks
from shoal.values import Array

_OUTWARDS = 1e-9  # relative; far above the error of the inverse beta function
_OF_THE_SUM = 0.05  # of what may go wrong, the part for the limit of p + q

Counts = npt.NDArray[np.float64] | float


def lower_bound(
    successes_p: int,
    runs_p: int,
    successes_q: int,
    runs_q: int,
    delta: float,
    confidence: float,
) -> float:
    """An ε that the pipeline is above at this δ; right with probability ``confidence``.

    The event has to be fixed before the runs that are counted here.

    Args:
        successes_p: Runs on one data set that are in the event.
        runs_p: Independent runs on it.
        successes_q: Runs on a neighbouring data set that are in the event.
        runs_q: Independent runs on that.
        delta: δ in [0, 1).
        confidence: Probability in (0, 1).

    Returns:
        ε, 0 if nothing is known.

    Raises:
        InvalidArgumentError: A number is out of its range.

    References:
        :doc:`/theory/auditing`.

    Example:
        >>> round(lower_bound(731, 1000, 269, 1000, delta=0.0, confidence=0.95), 3)
        0.859
    """
    _check_sample(successes_p, runs_p, "successes_p", "runs_p")
    _check_sample(successes_q, runs_q, "successes_q", "runs_q")
    tail = _checked_tail(delta, confidence) / 2
    over = lower_limit(successes_p, runs_p, tail) - delta
    under = upper_limit(successes_q, runs_q, tail)
    return float(_floored_log(over, under))


def coin_bound(first: int, second: int, runs: int, *, delta: float, confidence: float) -> float:
    """The same as ``lower_bound`` if a fair coin chose the data set of each run.

    Args:
        first: Runs on the first data set that are in the event.
        second: Runs on the second that are in the event.
        runs: Independent runs on both together.
        delta: δ in [0, 1).
        confidence: Probability in (0, 1).

    Returns:
        ε, 0 if nothing is known.

    Raises:
        InvalidArgumentError: A number is out of its range.

    References:
        :doc:`/theory/auditing`.

    Example:
        >>> round(coin_bound(731, 269, 2000, delta=0.0, confidence=0.95), 3)
        0.881
    """
    checks.count(0, first=first)
    checks.count(0, second=second)
    _check_sample(first + second, runs, "first + second", "runs")
    tail = _checked_tail(delta, confidence)
    return float(coin_bounds(first, second, runs, delta=delta, tail=tail))


def coin_bounds(first: Counts, second: Counts, runs: float, *, delta: float, tail: float) -> Array:
    """:func:`coin_bound` of many events at once, each wrong with its own probability ``tail``."""
    of_sum = _OF_THE_SUM * tail if delta > 0 else 0.0
    inside = np.asarray(first, dtype=np.float64) + second
    fraction = lower_limit(first, inside, tail - of_sum)
    lost = np.zeros_like(fraction)
    if delta > 0:
        whole = 2 * lower_limit(inside, runs, of_sum)
        lost = np.divide(delta, whole, out=np.ones_like(fraction), where=whole > delta)
    return _floored_log(fraction - lost, 1 - fraction)


def lower_limit(successes: Counts, runs: Counts, tail: float) -> Array:
    """The probability below which so many successes, or more, have probability at most ``tail``."""
    hits = np.asarray(successes, dtype=np.float64)
    misses = np.asarray(runs, dtype=np.float64) - hits
    limit = special.betaincinv(np.maximum(hits, 1e-300), misses + 1, tail)
    return np.asarray(np.where(hits > 0, limit * (1 - _OUTWARDS), 0.0))


def upper_limit(successes: Counts, runs: Counts, tail: float) -> Array:
    """The probability above which so few successes have probability at most ``tail``."""
    hits = np.asarray(successes, dtype=np.float64)
    misses = np.asarray(runs, dtype=np.float64) - hits
    limit = special.betainccinv(hits + 1, np.maximum(misses, 1e-300), tail)
    return np.asarray(np.where(misses > 0, np.minimum(limit * (1 + _OUTWARDS), 1.0), 1.0))


def _floored_log(over: Array, under: Array) -> Array:
    """log(over/under) where that is above 0, else 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(over > under, over / under, 1.0)
    return np.asarray(np.log(ratio))


def _check_sample(successes: int, runs: int, name: str, of: str) -> None:
    checks.count(0, **{of: runs})
    checks.count(0, **{name: successes})
    checks.refuse(successes > runs, f"{name} <= {of} = {runs}", **{name: successes})


def _checked_tail(delta: float, confidence: float) -> float:
    checks.closed_probability(delta=delta)
    checks.open_probability(confidence=confidence)
    return 1.0 - confidence
