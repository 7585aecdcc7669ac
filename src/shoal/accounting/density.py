"""Continuous noise on a number between public bounds: its blanket law, cut into cells.

A report of x in [low, high] is x plus noise with a *log-concave* density f. Then

* f(y - x) is smallest at an end of the range: the largest blanket is the smaller of the densities
  f(y - low), f(y - high) of the two ends. Left of the point m where they cross it is that of
  ``high``, and the ratio of any input's density to it falls in y; right of m it rises.
* Of all tests with a given blanket mass the best for an input x is the outside of an interval,
  the worst an interval. The probability of an interval is log-concave in x (Prékopa), so that an
  end of the range has at least as good a best test, and at least as bad a worst one.

By the envelope theorem the ends are the worst pair where f is symmetric, and the larger of their
two curves covers every pair where it is not. Proved in docs/theory/beyond-pure.md.

*Cells.* Between two cuts the ratio is replaced by its values at the cuts with its mean kept: a
spread, and so an upper bound. Beyond the last cut outputs are counted as lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.atoms import Array, PairLaw
from shoal.accounting.profile import hull
from shoal.errors import InvalidArgumentError, InvalidTypeError

CELLS = 64  # on either side of the crossing: they cost about 0.1 % of epsilon
TOLERANCE = 2e-3  # of delta: the cells cost more
_TAIL = 1e-20  # probability beyond the last cut, on either side
_STEEPEST = 250.0  # log-ratio: nobody else sends such an output
_FINE = 1025  # points between the last cut and the crossing that cuts are chosen by
_ROUNDING = 1e-14  # relative, of a probability or a density
_FLAT = 1e-12  # relative: ratios that are the same
_SMALLEST = 1e-300  # below, probabilities have lost digits
_AGREEMENT = 1e-7  # of what is checked: far more than rounding explains
_WITNESS_CELLS = 48
_WITNESS_TOLERANCE = 3e-2
_TELLING = 30.0  # log-ratio: outputs that tell more are merged
_FAR = 1e-18  # probability beyond which all reports may be one


class NoiseDensity(Protocol):
    """A density with positive values, and the probabilities below and above a place.

    A frozen distribution of ``scipy.stats`` is one. ``sf`` is 1 - ``cdf``, with all its digits in
    the upper tail.
    """

    def logpdf(self, x: npt.ArrayLike) -> npt.ArrayLike: ...
    def cdf(self, x: npt.ArrayLike) -> npt.ArrayLike: ...
    def sf(self, x: npt.ArrayLike) -> npt.ArrayLike: ...


class _Side:
    """One side of the crossing: what an end of the range weighs there, over the other end.

    ``sign`` is 1 for the left side, where the low end is likelier, and -1 for the right one.
    Places are distances from the end in question, outwards: the side begins at ``last`` and ends
    at the crossing.
    """

    def __init__(
        self, noise: NoiseDensity, *, sign: int, width: float, last: float, crossing: float
    ) -> None:
        self.noise, self.sign, self.width = noise, sign, width
        fine = np.linspace(last, crossing, _FINE)
        with np.errstate(invalid="ignore"):
            own, other = self.logs(fine)
            steep = np.flatnonzero(~(own - other <= _STEEPEST))
        first = fine[min(int(steep.max(initial=-1)) + 1, _FINE - 1)]
        self.fine = np.linspace(first, crossing, _FINE)
        self.check()
        self.cuts = self.chosen()

    def logs(self, places: Array) -> tuple[Array, Array]:
        """Log-densities of the end in question and of the other one."""
        own = np.asarray(self.noise.logpdf(places), dtype=float)
        other = np.asarray(self.noise.logpdf(places - self.sign * self.width), dtype=float)
        return own, other

    def masses(self, places: Array, shift: float) -> Array:
        """What the noise around ``shift`` weighs between neighbouring places."""
        at = places - shift
        below = np.asarray(self.noise.cdf(at), dtype=float)
        above = np.asarray(self.noise.sf(at), dtype=float)
        weights = np.where(below[1:] < 0.5, np.diff(below), -np.diff(above))
        return np.abs(weights)

    def chosen(self) -> Array:
        """Cuts: half of them where the spread costs most variance, half evenly in the log-ratio.

        A cell in which the blanket has the density b and the ratio changes by d adds about b d^2
        to the variance, so cells are as narrow as the cube root of that is large.
        """
        own, other = self.logs(self.fine)
        change = np.abs(np.diff(own - other))
        log_cost = 2 * own - other
        cost = np.cbrt(np.exp(log_cost - log_cost.max()))
        rates = [np.cbrt(change**2) * (cost[1:] + cost[:-1]), change]
        steps = sum(rate / max(float(rate.sum()), 1e-300) for rate in rates)
        place = np.concatenate([[0.0], np.cumsum(steps)])
        cuts = np.interp(np.linspace(0.0, place[-1], CELLS + 1), place, self.fine)
        cuts[0], cuts[-1] = self.fine[0], self.fine[-1]
        return np.unique(cuts)[:: self.sign]

    def check(self) -> None:
        """Refuse a density that is not log-concave, or does not belong to its probabilities."""
        for log_density, shift in zip(
            self.logs(self.fine), (0.0, self.sign * self.width), strict=True
        ):
            if not np.isfinite(log_density).all():
                raise _refused("a positive density", "0 within the range of likely outputs")
            bend = np.diff(log_density, 2)
            if (bend > _AGREEMENT * (1 + np.abs(log_density[1:-1]))).any():
                raise _refused("a log-concave density", "one that is not")
            masses, widths = self.masses(self.fine, shift), np.abs(np.diff(self.fine))
            density = np.exp(log_density)
            # A concave logarithm is above its chords: so is what the cell weighs.
            chords = np.exp((log_density[1:] + log_density[:-1]) / 2)
            least = widths * chords * (1 - _AGREEMENT)
            total = float((widths * (density[1:] + density[:-1])).sum() / 2)
            missing = (masses < least) & (least > _SMALLEST)
            if missing.any() or abs(masses.sum() - total) > max(1e-2 * total, _SMALLEST):
                raise _refused("logpdf and cdf of the same noise", "two that do not agree")

    def atoms(self, local_epsilon: float | None) -> tuple[Array, Array, float]:
        """Masses of the blanket at the cuts, the ratios there, and the relative error of both."""
        own, other = self.logs(self.cuts)
        logs = np.maximum.accumulate((own - other)[::-1])[::-1]
        logs = np.maximum(logs - logs[-1], 0.0)  # at the crossing both are the same
        cuts = self.cuts
        if local_epsilon is not None:
            if logs[0] > local_epsilon * (1 + _AGREEMENT):
                expected = "local_epsilon, a bound of the log-ratio of the densities of both ends"
                raise InvalidArgumentError("local_epsilon", local_epsilon, expected)
            cuts = np.append(-self.sign * math.inf, cuts)
            logs = np.append(local_epsilon, np.minimum(logs, local_epsilon))
        ratios = np.exp(logs)
        blanket, mass = self.masses(cuts, self.sign * self.width), self.masses(cuts, 0.0)
        high, low = ratios[:-1], ratios[1:]
        # What is too rare to be told has the larger ratio.
        exact = blanket > _SMALLEST
        mean = np.divide(mass, blanket, out=high.copy(), where=exact)
        # Where floats cannot tell the ends apart, the mean is either.
        apart = high - low > _FLAT * high
        inside = (mean > low * (1 - _AGREEMENT)) & (mean < high * (1 + _AGREEMENT))
        if not inside[exact].all():
            raise _refused("logpdf and cdf of the same noise", "two that do not agree")
        part = np.divide(mean - low, high - low, out=np.ones_like(mean), where=apart)
        raised = blanket * np.clip(part, 0.0, 1.0)
        weights = np.append(raised, 0.0) + np.append(0.0, blanket - raised)
        finest = float(np.min(1 - low[apart] / high[apart], initial=1.0))
        return weights, ratios, 10 * _ROUNDING / finest + _FLAT

    @property
    def lost(self) -> float:
        """What the end in question weighs beyond the last cut."""
        tail = self.noise.cdf if self.sign > 0 else self.noise.sf
        return float(np.asarray(tail(self.fine[0])))


def envelope(
    noise: NoiseDensity,
    *,
    low: float,
    high: float,
    local_epsilon: float | None = None,
    step: float | None = None,
) -> tuple[PairLaw, Callable[[], list[PairLaw]]]:
    """One law that covers every pair of numbers in the range, and the laws of explicit data."""
    for name in ("logpdf", "cdf", "sf"):
        if not callable(getattr(noise, name, None)):
            expected = f"noise with a method {name}, as a frozen distribution of scipy.stats has"
            raise InvalidTypeError("noise", type(noise).__name__, expected)
    checks.bounds(low, high)
    width = high - low
    first, last = _ends(noise)
    middle = _crossing(noise, first, last, width)
    left = _Side(noise, sign=1, width=width, last=first, crossing=middle)
    right = _Side(noise, sign=-1, width=width, last=last, crossing=middle - width)
    below, above = left.atoms(local_epsilon), right.atoms(local_epsilon)
    atoms = _covering(below, above)
    error = max(below[2], above[2])
    largest = math.inf if local_epsilon is None else local_epsilon
    rest = max(0.0, 1 - math.fsum(atoms[:, 0] * atoms[:, 1]))
    lost = [] if local_epsilon is not None else [(rest, 0.0), (0.0, rest)]
    pair = PairLaw.of(atoms, lost=lost, log_ratios=(largest, largest))
    if local_epsilon is None:
        # What any input has beyond the cuts, what a test has there, and where the curves begin.
        beyond = min(1.0, 3 * (left.lost + right.lost))
        gone = np.array([0.0, beyond])
        pair = replace(pair, lost0=gone, lost1=gone[::-1])
    pair = replace(pair, error=pair.error + error, tolerance=TOLERANCE)
    return pair, partial(_witnesses, left, right, width, step)


def _covering(first: tuple[Array, Array, float], second: tuple[Array, Array, float]) -> Array:
    """Atoms of the envelope of both ends: of symmetric noise, those of one end.

    With top(s) above both curves and concave, bottom(s) = 1 - top(mass - s) is below both and
    convex: the first half of the atoms and their mirror image.
    """
    (masses, ratios, _), (others, other_ratios, _) = first, second
    ones = np.ones_like(ratios)
    half = masses, ratios, ones
    if masses.shape != others.shape or not np.allclose(
        [masses, ratios], [others, other_ratios], rtol=1e-9, atol=1e-300
    ):
        whole = float(masses.sum() + others.sum())
        place, slope = _majorant(
            [(masses, ratios), (others, other_ratios)], rest=[others.sum(), masses.sum()]
        )
        cuts = np.concatenate([[0.0, whole / 2], place, whole - place])
        cuts = np.unique(cuts[(cuts >= 0) & (cuts <= whole / 2)])
        between = (cuts[1:] + cuts[:-1]) / 2
        top, bottom = (
            slope[np.clip(np.searchsorted(place, at) - 1, 0, slope.size - 1)]
            for at in (between, whole - between)
        )
        half = np.diff(cuts), top, bottom
    weights, top, bottom = half
    return np.concatenate(
        [np.column_stack([weights, top, bottom]), np.column_stack([weights, bottom, top])]
    )


def _majorant(curves: list[tuple[Array, Array]], *, rest: list[float]) -> tuple[Array, Array]:
    """Corners and slopes of the least concave function above curves with these slopes.

    Beyond the masses of a curve its slope is 1, over the ``rest``.
    """
    places = [
        np.append(place := np.cumsum(masses), place[-1] + left)
        for (masses, _), left in zip(curves, rest, strict=True)
    ]
    heights = [
        np.append(height := np.cumsum(masses * ratios), height[-1] + left)
        for (masses, ratios), left in zip(curves, rest, strict=True)
    ]
    # Both end at the same height: that of an end which more is lost of begins above 0.
    whole = max(height[-1] for height in heights)
    raised = [height + (whole - height[-1]) for height in heights]
    start = max(whole - height[-1] for height in heights)
    x, y = np.concatenate([[0.0], *places]), np.concatenate([[start], *raised])
    order = np.lexsort((y, x))
    corner, fall = hull(x[order], -y[order])
    return corner, np.maximum(np.diff(-fall) / np.diff(corner), 1.0)


def _ends(noise: NoiseDensity) -> tuple[float, float]:
    """Places with next to nothing below, and above."""
    scales = 2.0 ** np.arange(-60, 61)
    places = np.concatenate([-scales[::-1], [0.0], scales])
    first, last = places, places
    for _ in range(6):
        with np.errstate(over="ignore"):
            below, above = np.asarray(noise.cdf(first)), np.asarray(noise.sf(last))
        low = int(np.flatnonzero(below <= _TAIL).max(initial=-1))
        high = int(np.flatnonzero(above <= _TAIL).min(initial=last.size))
        if low < 0 or high == last.size:
            raise _refused("a density with light tails", "one with no end within double precision")
        first = np.linspace(first[low], first[low + 1], 33)
        last = np.linspace(last[high - 1], last[high], 33)
    return float(first[0]), float(last[-1])


def _crossing(noise: NoiseDensity, low: float, high: float, width: float) -> float:
    """Where the density of the low end, at 0, falls below that of the high end, at ``width``."""
    high += width
    for _ in range(12):
        places = np.linspace(low, high, 65)
        ahead = np.asarray(noise.logpdf(places)) > np.asarray(noise.logpdf(places - width))
        last = int(np.flatnonzero(ahead).max(initial=0))
        low, high = float(places[last]), float(places[min(last + 1, 64)])
    return (low + high) / 2


def _witnesses(left: _Side, right: _Side, width: float, step: float | None) -> list[PairLaw]:
    """Everybody else at one end, or in the middle; outputs merged into cells, which only hides.

    Of reports that are rounded, cells end between two of them, and far out there are none.
    """
    every = 2 * CELLS // _WITNESS_CELLS
    cuts = [side.cuts[np.subtract(*side.logs(side.cuts)) <= _TELLING] for side in (left, right)]
    edges, half = np.concatenate([cuts[0][::every], cuts[1][::every] + width]), width / 2
    if step is not None:
        half = step * round(half / step)
        edges = step * (np.floor(edges / step) + 0.5)
        noise = left.noise
        near = np.asarray(noise.cdf(edges)) > _FAR, np.asarray(noise.sf(edges - width)) > _FAR
        edges = edges[near[0] & near[1]]
    edges = np.concatenate([[-math.inf], np.unique(edges), [math.inf]])
    # No output is impossible, however rare: beyond an epsilon of some 680 nothing is claimed.
    low, middle, high = (
        np.maximum(left.masses(edges, shift), _SMALLEST) for shift in (0.0, half, width)
    )
    orders = [(low, low, high), (low, high, low), (high, low, high), (high, high, low)]
    laws = (PairLaw.over(*masses) for masses in (*orders, (middle, low, high)))
    return [replace(law, tolerance=_WITNESS_TOLERANCE) for law in laws]


def _refused(expected: str, value: str) -> InvalidArgumentError:
    return InvalidArgumentError("noise", value, f"noise of {expected}")
