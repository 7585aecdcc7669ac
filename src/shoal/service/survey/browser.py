"""What browsers make of a survey: whether they can answer it, and the epsilon they can prove.

A browser does not believe a survey's promise. It works out a bound of its own, on coarser grids
than the accountant's, and refuses an answer that may cost more than a person allows. So that nobody
is invited to a survey that pages refuse, the same is computed here, step for step
(``clients/browser/src/bound.ts`` and ``composition.ts``, where it is proved); tests compare both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import special

from shoal.accounting.atoms import Array
from shoal.explain.text import plain, up
from shoal.mechanisms.base import Device
from shoal.sealing import SUITES
from shoal.service.survey.document import Survey
from shoal.service.survey.mechanisms import BROWSERS
from shoal.service.survey.promise import Terms

_TOLERANCE = 1.002  # a promise within so much of what is proved counts as proved
_STEPS, _NODES, _FEW = 2000, 600, 100
_LOST = 1e-5
_MOST_PEOPLE = 10**9
_POINTS, _COARSE, _NEAR, _CUT, _TRIMMED, _ROUNDED = 96, 0.3, 0.02, 0.01, 0.01, 1e-12
_NAMED = "sha256:"  # a table that a survey does not hold, but the hash of it

Drawn = Mapping[str, Any]


@dataclass(frozen=True)
class Law:
    """Densities (a, 1) and (1, a) of two answers on mass q each, and (a, a) on mass ``both``."""

    a: float
    q: float
    both: float = 0.0


def _response(drawn: Drawn, _k: int) -> tuple[Law, ...]:
    return (Law(drawn["high"] / drawn["low"], drawn["low"] / drawn["total"]),)


def _hadamard(drawn: Drawn, k: int) -> tuple[Law, ...]:
    (law,), blocks = _response(drawn, k), drawn["blocks"]
    one = (Law(law.a, law.q / 2, law.q / 2),) if k > blocks else ()
    return (*one, law) if blocks > 1 else one


def _projective(drawn: Drawn, k: int) -> tuple[Law, ...]:
    (law,), q, t = _response(drawn, k), drawn["q"], drawn["t"]
    inside, shared = ((q ** (t - i) - 1) // (q - 1) for i in (1, 2))
    return (Law(law.a, (inside - shared) * law.q, shared * law.q),)


def _subset(drawn: Drawn, k: int) -> tuple[Law, ...]:
    size, total = drawn["size"], drawn["total"]
    high, low = drawn["with"] / size, (total - drawn["with"]) / (k - size)
    unit = low / total / (k - 1)
    return (Law(high / low, unit * size * (k - size), unit * size * (size - 1)),)


def _unary(drawn: Drawn, _k: int) -> tuple[Law, ...]:
    p, q = (drawn[name] / 2 ** drawn["bits"] for name in ("true", "false"))
    a = 1 + (p - q) / ((1 - p) * q)
    return (Law(a, q * (1 - p), q * q * (1 - p) / (1 - q)),)


def _hashing(drawn: Drawn, k: int) -> tuple[Law, ...]:
    (law,), buckets = _response(drawn, k), drawn["buckets"]
    return (Law(law.a, law.q * (1 - 1 / buckets), law.q / buckets),)


def _window(drawn: Drawn, k: int) -> tuple[Law, ...]:
    (law,) = _response(drawn, k)
    return (Law(law.a, drawn["width"] * law.q),)


def _coins(drawn: Drawn, _k: int) -> tuple[Law, ...]:
    lie = drawn["coins"] / 2 ** drawn["bits"] / 2
    a = (1 - lie) / lie
    return (Law(a, 1 / (a + 1)),)


# Of the mechanisms that browsers run: what tells two answers apart. Of several messages they prove
# nothing.
_LAWS: dict[str, Callable[[Drawn, int], tuple[Law, ...]]] = {
    "grr": _response,
    "hadamard": _hadamard,
    "projective": _projective,
    "subset": _subset,
    "unary": _unary,
    "hashing": _hashing,
    "duchi": _window,
    "piecewise": _window,
    "rounded": _window,
    "coins": _coins,
}


def refusals(
    survey: Survey, *, allowed: float, instead: Callable[[], float | None] = lambda: None
) -> tuple[str, ...]:
    """Why pages refuse it, as sentences, where ``allowed`` is the largest epsilon they answer for.

    ``instead`` is an epsilon that they would answer for, if one is known. What the survey promises
    beyond a limit is not among the reasons: every client refuses that.
    """
    foreign = {device.name: "run" for device in survey.devices if not _runs(device)}
    foreign |= {} if survey.suite == SUITES[0] else {survey.suite: "seal by"}
    reasons = [
        f"browsers do not {verb} {name}{' as it is here' * (name in BROWSERS)}: the survey page "
        "refuses it, and only shoal submit and the Python client answer it"
        for name, verb in foreign.items()
    ]
    counted = survey.epsilon
    if not reasons and counted <= allowed:
        terms, least = survey.terms, survey.batches.minimum
        counted = counted_epsilon(survey.devices, terms, least, promise=survey.epsilon)
        if counted > allowed:
            epsilon = instead()
            better = "" if epsilon is None else f"; --epsilon {epsilon:g} would do"
            reasons.append(
                f"the survey page refuses it: browsers can prove ε = {up(counted)} and no less, "
                f"but allow at most {plain(allowed)}{better}"
            )
    return tuple(reasons)


def _runs(device: Device) -> bool:
    """Whether browsers know the mechanism, and the survey holds all that they draw by."""
    named = (isinstance(each, str) and each.startswith(_NAMED) for each in device.integers.values())
    return device.name in BROWSERS and not any(named)


def counted_epsilon(
    devices: tuple[Device, ...], terms: Terms, valid: int, *, promise: float
) -> float:
    """What browsers hold against a person's limit: a promise, unless they can only prove more."""
    proved = proved_epsilon(devices, terms, valid)
    return promise if proved <= promise * _TOLERANCE or math.isinf(proved) else proved


def proved_epsilon(devices: tuple[Device, ...], terms: Terms, valid: int) -> float:
    """The epsilon of one person among so many valid reports that browsers prove; or infinity."""
    laws = tuple(_laws_of(device) for device in devices)
    if not all(laws):
        return math.inf
    reports = terms.reports_per_person
    crowd = terms.admission.honest(valid, reports) // reports
    return _proved(laws, reports, crowd, terms.delta_taking_part)


def _laws_of(device: Device) -> tuple[Law, ...]:
    if device.name not in _LAWS:
        return ()
    drawn = {
        name: int(value) if isinstance(value, str) and value.isdecimal() else value
        for name, value in device.integers.items()
    }
    return _LAWS[device.name](drawn, getattr(device, "k", 0))


@lru_cache(maxsize=256)
def _proved(laws: tuple[tuple[Law, ...], ...], reports: int, crowd: int, delta: float) -> float:
    if reports * len(laws) > 1:
        return _composed(laws, reports, crowd, delta)
    each = (_solved(_Curve(law, crowd, delta), delta) for law in laws[0])
    return max(each)


# --------------------------------------------------------------------------- the curve of one round


@dataclass(frozen=True)
class _Grid:
    """A law of numbers: ``mass[i]`` at ``first + i * step``."""

    first: float
    step: float
    mass: Array


def _binomial(n: int, p: float, z: float) -> _Grid:
    """Bin(n, p) without its ends, each below e^-z; the rest is scaled up to 1."""
    if p <= 0 or n <= 0:
        return _Grid(0, 1.0, np.ones(1))
    reach = z / 3 + math.sqrt(z * z / 9 + 2 * z * n * p * (1 - p))
    first = max(0, math.floor(n * p - reach))
    last = min(n, math.ceil(n * p + reach))
    if p >= 1:
        return _Grid(n, 1.0, np.ones(1))
    x = np.arange(first, last + 1, dtype=float)
    logs = special.xlogy(x, p) + special.xlog1py(n - x, -p)
    logs -= special.gammaln(x + 1) + special.gammaln(n - x + 1)
    mass = np.exp(logs - logs.max())
    return _Grid(first, 1.0, mass / mass.sum())


_NOTHING = _Grid(0, 1.0, np.ones(1))


def _joined(one: _Grid, nodes: float, other: _Grid = _NOTHING, scale: float = 1.0) -> _Grid:
    """One number plus ``scale`` times the other, on few places, with the mean of both."""
    places = one.step * np.arange(one.mass.size)[:, None]
    places = places + scale * other.step * np.arange(other.mass.size)
    length = float(places[-1, -1])
    step = max(1.0, length / nodes)
    below = np.floor(places / step)
    part = (places / step - below).ravel()
    weights, start = np.outer(one.mass, other.mass).ravel(), below.astype(int).ravel()
    size = math.floor(length / step) + 3
    mass: Array = np.bincount(start, weights * (1 - part), size).astype(float)
    mass += np.bincount(start + 1, weights * part, size)
    return _Grid(one.first + scale * other.first, step, mass)


class _Curve:
    """delta(epsilon) of n people, but for what is cut off: 1e-5 of this delta at most."""

    def __init__(self, law: Law, n: int, delta: float, finer: float = 1.0) -> None:
        self.law, self.people = law, min(n, _MOST_PEOPLE)
        a, q, people = law.a, law.q, self.people
        z = math.log(3e6 * a * a / delta)
        whole = _binomial(people, 2 * q, z)
        size = math.ceil(2 * q * people / _STEPS / finer)
        starts = np.arange(0, whole.mass.size, size)
        self.chances = np.add.reduceat(whole.mass, starts)
        self.least = whole.first + starts
        self.most = np.minimum(self.least + size, whole.first + whole.mass.size) - 1
        signs = [_joined(_binomial(int(most), 0.5, z), _NODES * finer) for most in self.most]
        others = [self._others(people - int(most), z) for most in self.most]
        self.sign_first, self.sign_step, sign_mass = _stacked(signs)
        self.other_first, self.other_step, self.other_mass = _stacked(others)
        # From the upper end: how much mass there is, and how far out it lies.
        places = self._places(np.arange(sign_mass.shape[1], dtype=float))
        self.weights = _from_above(sign_mass)
        self.moments = _from_above(sign_mass * places)

    def _others(self, others: int, z: float) -> _Grid:
        a, q, both = self.law.a, self.law.q, self.law.both
        alone, twice = (
            _joined(_binomial(others, min(1.0, p / (1 - 2 * q)), z), _FEW)
            for p in (1 - (a + 1) * q - a * both, both)
        )
        return _joined(alone, _FEW, twice, a)

    def _places(self, index: Array) -> Array:
        """The sum of the signs at these places of each step's grid."""
        first, step, most = (
            each[:, None] for each in (self.sign_first, self.sign_step, self.most.astype(float))
        )
        return np.asarray(2 * (first + index * step) - most)

    def __call__(self, epsilon: float) -> float:
        a, beta = self.law.a, math.expm1(epsilon)
        alpha = (a - 1) * (beta + 2) / 2
        told = (
            self.other_first[:, None]
            + np.arange(self.other_mass.shape[1]) * (self.other_step[:, None])
        )
        needed = beta * (((a + 1) * self.least / 2)[:, None] + told) / alpha
        # The first place of the signs that is above what is needed.
        most, first, step = self.most[:, None], self.sign_first[:, None], self.sign_step[:, None]
        above = np.floor(((needed + most) / 2 - first) / step).astype(int) + 1
        above = np.clip(above, 0, self.weights.shape[1] - 1)
        inner = np.take_along_axis(self.moments, above, 1)
        inner = inner - needed * np.take_along_axis(self.weights, above, 1)
        inner = np.maximum(inner, 0.0)
        each = alpha * (inner * self.other_mass).sum(axis=1)
        return float((self.chances * each).sum()) / self.people


def _stacked(grids: list[_Grid]) -> tuple[Array, Array, Array]:
    """First places, steps and masses of many grids, the latter filled up with 0."""
    longest = max(grid.mass.size for grid in grids)
    masses = np.zeros((len(grids), longest))
    for row, grid in zip(masses, grids, strict=True):
        row[: grid.mass.size] = grid.mass
    first, step = (np.array([getattr(grid, name) for grid in grids]) for name in ("first", "step"))
    return first, step, masses


def _from_above(masses: Array) -> Array:
    """Sums of each row from a place to its end, and 0 beyond."""
    sums = np.cumsum(masses[:, ::-1], axis=1)[:, ::-1]
    return np.hstack([sums, np.zeros((len(masses), 1))])


def _solved(curve: _Curve, delta: float, near: float = 1e-6) -> float:
    """Where a curve falls to delta, up to a share that is near enough; never less."""
    target, low, high = delta * (1 - _LOST), 0.0, math.log(curve.law.a)
    if curve(0.0) <= target:
        return 0.0
    while high - low > near * high:
        middle = (low + high) / 2
        low, high = (low, middle) if curve(middle) <= target else (middle, high)
    return high * (1 + 1e-9)


# ---------------------------------------------------------------------------------- several rounds


@dataclass(frozen=True)
class _Losses:
    """Masses of losses, ``mass[i]`` at ``first + i`` steps of a grid, and what counts as lost."""

    first: int
    mass: Array
    lost: float


def _composed(questions: tuple[tuple[Law, ...], ...], times: int, n: int, delta: float) -> float:
    cut = _CUT * delta / times / len(questions)
    known = {laws: _points(laws, n, cut) for laws in questions}
    curves = [known[laws] for laws in questions]
    lasts = [last for last, _ in curves]
    width = math.hypot(*lasts) / math.sqrt(len(curves)) / _POINTS
    whole = _Losses(0, np.ones(1), 0.0)
    for last, heights in curves:
        one, left = _losses(last, heights, width), times
        while left:
            if left & 1:
                whole = _added(whole, one, cut * _TRIMMED)
            if left > 1:
                one = _added(one, one, cut * _TRIMMED)
            left >>= 1
    return min(_epsilon(whole, width, delta), times * sum(lasts))


def _points(laws: tuple[Law, ...], n: int, cut: float) -> tuple[float, Array]:
    """The last point of a question's curve, and bounds of it at equal steps up to there."""
    curves = [_Curve(law, n, cut, _COARSE) for law in laws]
    last = max(1e-9, *(_solved(curve, cut, _NEAR) for curve in curves))
    places = last * np.arange(_POINTS + 1) / _POINTS
    heights = [max(curve(float(each)) for curve in curves) + _LOST * cut for each in places]
    return last, np.array(heights)


def _losses(last: float, heights: Array, width: float) -> _Losses:
    """The losses of a curve below these points, on a grid that need not have them."""
    cells, step = math.ceil(last / width), last / _POINTS
    place = np.minimum(np.arange(cells + 1) * width / step, _POINTS)
    below = np.minimum(np.floor(place), _POINTS - 1).astype(int)
    part = np.expm1((place - below) * step) / math.expm1(step)
    curve = heights[below] * (1 - part) + heights[below + 1] * part
    x = np.exp(np.arange(cells + 1) * width)
    slopes = np.append(np.diff(curve) / (x[:-1] * math.expm1(width)), 0.0)
    before = np.append(-1.0, slopes[:-1])
    change = slopes - before
    change[0] = 1 - curve[0] + 2 * slopes[0]
    q = np.maximum(0.0, change) - _ROUNDED * before
    return _Losses(-cells, np.concatenate([q[:0:-1], x * q]), float(curve[-1]))


def _added(one: _Losses, other: _Losses, spare: float) -> _Losses:
    """The sum of two independent losses, without ends of less than the spare mass."""
    mass = np.convolve(one.mass, other.mass)
    start = int(np.searchsorted(np.cumsum(mass), spare))
    end = mass.size - int(np.searchsorted(np.cumsum(mass[::-1]), spare))
    kept_mass = mass[start:end].copy()
    kept_mass[0] += mass[:start].sum()
    lost = one.lost + other.lost + float(mass[end:].sum())
    return _Losses(one.first + other.first + start, kept_mass, lost)


def _epsilon(losses: _Losses, width: float, delta: float) -> float:
    """Where delta is reached: what is lost, and P - e^epsilon Q of all larger losses."""
    spare = delta * (1 - _LOST) - losses.lost
    p = q = 0.0
    for place in range(losses.first + losses.mass.size - 1, 0, -1):
        mass = float(losses.mass[place - losses.first])
        p, q = p + mass, q + mass * math.exp(-place * width)
        if p > spare and (epsilon := math.log((p - spare) / q)) > (place - 1) * width:
            return epsilon * (1 + 1e-9)
    return 0.0
