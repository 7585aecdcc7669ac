"""Probabilities as whole numbers, so that a sampler on random bits keeps epsilon exactly.

A comparison of a float with a float can break a privacy guarantee in its last digits. Here the
odds between "this output" and "that output" are ``high : low`` with whole numbers
``high <= e^epsilon low``, checked in exact arithmetic; draws are uniform integers below their sum.

*Laws that cover every pair of inputs at once.* Let b be the blanket of a randomizer and gamma its
mass. For every input x let ``top_x(s)`` be the largest, and ``bottom_x(s)`` the smallest,
probability that R_x gives to a test A (a function of the output with values in [0, 1]) of blanket
mass b(A) = s. For inputs 0, 1, ``Z = (R_0 - t R_1)/b`` and every real u,

    E_b (Z - u)_+ = max_A [R_0(A) - t R_1(A) - u b(A)] <= max_s [top(s) - t bottom(s) - u s]

as soon as ``top`` is above every top_x and ``bottom`` below every bottom_x. If moreover ``top`` is
concave and ``bottom`` convex, ``Z* = top'(s) - t bottom'(s)`` falls in s, and the right side is the
integral of (Z* - u)_+ over s in [0, gamma]. Both Z and Z* have the integral 1 - t, so Z* is above Z
in the convex order; the bound of a blanket law is the mean of a convex function of each of its
independent terms; hence the atoms ``(ds, top', bottom')`` cover every pair of inputs, for every n.

The least concave majorant of all top_x and the greatest convex minorant of all bottom_x are the
best such choice. It loses nothing where one pair of inputs attains both, as here: two inputs with
disjoint windows, or the two ends of the range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.atoms import AtomLike
from shoal.accounting.law import BlanketLaw, Claim, PairLike
from shoal.accounting.table import witness_pairs
from shoal.values import Array, Counts, Estimate

Weights = npt.NDArray[np.int64]
Point = tuple[int, int]
Corners = tuple[Weights, Weights]  # places and heights

LARGEST_EPSILON = 30.0
EXACT = Context(prec=60)
_TOTAL_BITS = 52
_ENOUGH = 512  # points that are not worth thinning out
_THINNED = 16
_ROUNDING = 2.0**-40


@dataclass(frozen=True)
class Odds:
    """Whole numbers ``high : low`` with ``1 < high / low <= e^epsilon``, as close as they fit.

    ``raised`` is the weight of all likelier outputs together, ``total`` that of all outputs: draws
    are below it. ``epsilon`` is what the sampler really keeps, log(high / low) rounded up, and no
    more than was asked for.
    """

    high: int
    low: int
    raised: int
    total: int
    epsilon: float

    @classmethod
    def of(cls, epsilon: float, *, highs: int, lows: int) -> Odds:
        """The finest odds for which ``highs * high + lows * low`` stays below 2^52."""
        checks.at_most(LARGEST_EPSILON, epsilon=epsilon)
        ratio = EXACT.exp(Decimal(epsilon))
        low = math.floor(2.0**_TOTAL_BITS / (highs * float(ratio) + lows))
        expected = "an epsilon and a number of outputs that fit into 52 bits"
        checks.refuse(low < 1, expected, epsilon=epsilon)
        product = EXACT.multiply(ratio, Decimal(low))
        high = int(product.to_integral_value(rounding=ROUND_FLOOR, context=EXACT))
        expected = "an epsilon large enough for odds of whole numbers below 2^52"
        checks.refuse(high <= low, expected, epsilon=epsilon)
        exact = EXACT.ln(EXACT.divide(Decimal(high), Decimal(low)))
        above = min(math.nextafter(float(exact), math.inf), epsilon)
        return cls(high, low, highs * high, highs * high + lows * low, above)

    def law(
        self,
        alone: float,
        both: float,
        neither: float,
        *,
        witnesses: Callable[[], Iterable[PairLike]],
    ) -> BlanketLaw:
        """The law of inputs that raise some outputs by these odds, if one list serves all pairs.

        The blanket has mass ``alone`` where only the first of two inputs raises the output, and as
        much where only the second does, ``both`` and ``neither``.
        """
        e = self.high / self.low
        atoms = [(alone, e, 1.0), (alone, 1.0, e), (both, e, e), (neither, 1.0, 1.0)]
        return BlanketLaw(atoms, witnesses=witnesses, claim=Claim(local_epsilon=self.epsilon))


@dataclass(frozen=True)
class Support:
    """Estimation from supports: a message supports its own answer more often than any other.

    If a message supports the true answer with probability P and each other answer with probability
    Q < P, then ``(C/n - Q)/(P - Q)`` is an unbiased estimate of an answer's fraction, C being the
    number of messages that support it, with variance

        [f P (1 - P) + (1 - f) Q (1 - Q)] / (n (P - Q)^2)

    given the data (Wang, Blocki, Li, Jha, "Locally Differentially Private Protocols for Frequency
    Estimation", USENIX Security 2017).
    """

    true: float
    other: float

    def estimate(self, counts: Counts) -> Estimate:
        """Fractions from the numbers of supporting messages, errors from these fractions."""
        fractions = (counts.cells / counts.n - self.other) / (self.true - self.other)
        # The variance is linear in the fraction, so unbiased fractions give it without bias; an
        # answer nobody gave still has at least its noise.
        least = min(self.true * (1 - self.true), self.other * (1 - self.other)) / 2
        floor = least / (counts.n * (self.true - self.other) ** 2)
        variances = np.maximum(self.variance(fractions, n=counts.n), floor)
        nobody, everybody = self.variance([0.0, 1.0], n=counts.n).tolist()
        step = 1 / (counts.n * (self.true - self.other))
        # With few messages that lie, counts are far from normal and move in whole steps.
        lies = counts.n * self.other * (1 - self.other)
        return Estimate(
            fractions,
            np.sqrt(variances),
            counts.n,
            variance_slope=everybody - nobody,
            step=step,
            granularity=step / (1 + lies / 3),
            empty_error=math.sqrt(nobody),
        )

    def variance(self, frequencies: npt.ArrayLike, *, n: int) -> Array:
        f = np.asarray(frequencies, dtype=np.float64)
        each = f * self.true * (1 - self.true) + (1 - f) * self.other * (1 - self.other)
        return each / (n * (self.true - self.other) ** 2)


def two_level_law(*, share: float, epsilon: float, disjoint: int = 2) -> BlanketLaw:
    """Each input raises a set of outputs of reference mass ``share`` by e^epsilon over the rest.

    The blanket is the reference times ``1/(share e^epsilon + 1 - share)``. Some ``disjoint`` >= 2
    inputs raise disjoint sets; two of them attain both extremes: ``top`` climbs with slope
    e^epsilon over ``share`` first, ``bottom`` over ``share`` last.
    """
    e = math.exp(epsilon)
    unit = 1 / (share * e + (1 - share))
    own = share * unit
    rest = max(1 - 2 * share, 0.0) * unit

    def witnesses() -> list[list[AtomLike]]:
        same: list[AtomLike] = [(rest, 1.0, 1.0)]
        # Everybody else holds one of the two inputs, or a third one.
        found = [
            [(own * e, 1.0, 1 / e), (own, 1.0, e), *same],
            [(own * e, 1 / e, 1.0), (own, e, 1.0), *same],
        ]
        if disjoint > 2:
            left = max(1 - 3 * share, 0.0) * unit
            third = [(own, e, 1.0), (own, 1.0, e), (own * e, 1 / e, 1 / e), (left, 1.0, 1.0)]
            found.append(third)
        return found

    atoms = [(own, e, 1.0), (own, 1.0, e), (rest, 1.0, 1.0)]
    return BlanketLaw(atoms, witnesses=witnesses, claim=Claim(local_epsilon=epsilon))


def envelope_law(weights: Weights, *, local_epsilon: float) -> BlanketLaw:
    """The covering law of a table of positive whole numbers whose rows have one common sum.

    Partial sums and hulls are in whole numbers; only the order of ratios that agree to 16 digits
    is left to floats.
    """
    total = int(weights[0].sum())
    blanket = weights.min(axis=0)
    rising = np.argsort(weights / blanket, axis=1, kind="stable")
    top = _concave_hull(_corners(blanket, weights, rising[:, ::-1]))
    turned = _concave_hull(_corners(blanket, -weights, rising))
    bottom = [(place, -height) for place, height in turned]
    ends = sorted({0, len(weights) // 2, len(weights) - 1})
    return BlanketLaw(
        list(_slopes(top, bottom, total)),
        witnesses=lambda: witness_pairs(weights[ends] / total),
        claim=Claim(local_epsilon=local_epsilon),
    )


def _corners(blanket: Weights, heights: Weights, order: Weights) -> Corners:
    """Partial sums of the outputs in each input's order, sorted by place, then height."""
    places = np.cumsum(blanket[order], axis=1).ravel()
    sums = np.cumsum(np.take_along_axis(heights, order, axis=1), axis=1).ravel()
    by_place = np.lexsort((sums, places))
    return np.append(0, places[by_place]), np.append(0, sums[by_place])


def _concave_hull(corners: Corners) -> list[Point]:
    """Corners of the least concave function above points sorted by place, then height.

    Few points decide. The hull of every sixteenth of them is below the hull of all, so that what
    lies below it, by more than floats get wrong, is no corner of either.
    """
    places, heights = corners
    if len(places) > _ENOUGH:
        chosen = np.append(np.arange(0, len(places) - 1, _THINNED), len(places) - 1)
        rough = np.array(_concave_hull((places[chosen], heights[chosen])), dtype=np.float64)
        least = np.interp(places, rough[:, 0], rough[:, 1], left=-np.inf, right=-np.inf)
        near = heights >= least - _ROUNDING * max(1.0, float(np.abs(heights).max()))
        places, heights = places[near], heights[near]
    return _exact_hull(zip(places.tolist(), heights.tolist(), strict=True))


def _exact_hull(points: Iterable[Point]) -> list[Point]:
    """The hull in whole numbers."""
    hull: list[Point] = []
    for place, height in points:
        while hull and hull[-1][0] == place:
            hull.pop()
        while len(hull) > 1 and _is_below(hull[-2], hull[-1], (place, height)):
            hull.pop()
        hull.append((place, height))
    return hull


def _is_below(left: Point, middle: Point, right: Point) -> bool:
    return (middle[1] - left[1]) * (right[0] - left[0]) <= (right[1] - left[1]) * (
        middle[0] - left[0]
    )


def _slopes(top: list[Point], bottom: list[Point], total: int) -> Iterator[AtomLike]:
    """Atoms between neighbouring corners of either curve."""
    i = j = 1
    here = 0
    while i < len(top) and j < len(bottom):
        there = min(top[i][0], bottom[j][0])
        if there > here:
            yield (there - here) / total, _slope(top, i), _slope(bottom, j)
        here = there
        i += top[i][0] == there
        j += bottom[j][0] == there


def _slope(corners: list[Point], i: int) -> float:
    (x0, y0), (x1, y1) = corners[i - 1], corners[i]
    return (y1 - y0) / (x1 - x0)
