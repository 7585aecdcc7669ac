"""The one integral: a certified enclosure of (1/n) E[(Z_1 + ... + Z_n)_+] at a cost free of n.

With ``phi(s) = E[e^{sZ}]`` and any ``theta > 0``,

    E[(S)_+] = (1/2 pi) int phi(theta + it)^n / (theta + it)^2 dt.

Four steps turn the trapezoid sum of that integral into a certificate (docs/theory/integral.md):

* *Smoothing.* For a standard normal N independent of S, Jensen's inequality gives
  ``E[(S + eta N)_+] >= E[(S)_+]``; the factor ``e^{eta^2 s^2/2}`` it adds truncates the integral.
  Conversely ``E[(S)_+] >= E[(S + eta N)_+] - eta^2 p(0)``, p the density of S + eta N.
* *Aliasing.* By Poisson summation the trapezoid sum exceeds the integral by positive terms only;
  the lower end subtracts a bound on them.
* *Truncation.* The tail of the sum is bounded through ``|phi(s)|`` and added.
* *Rounding.* Errors of the exponent grow like n 2^-53; they are bounded node by node and added.

The event that nobody used the blanket contributes nothing and is removed first:
``phi^n - rest^n``. Atoms so rare that hardly anybody draws them, and so large that the transform
is all theirs, are taken out as well: ``(a + b)_+ <= a_+ + b_+``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import attrgetter

import numpy as np
import numpy.typing as npt
import scipy

from shoal.accounting.atoms import ROUNDING, Array, PairLaw
from shoal.accounting.search import Enclosure, Side, crossing, gaussian_guess, least, log

TOLERANCE = 3e-4
_EPSILON_FRACTION = 3e-5
_FINEST = 2e-5
_UNIT = 2.0**-53
_STEP = 0.25  # of the saddle's width: aliasing is then far below every other error
_DECAY = 34.0  # the sum stops where the bound on its terms has fallen to e^-34
_NEGLIGIBLE = 60.0  # a term below e^-60 is bounded instead of computed
_MOST_REFINEMENTS = 5
_CAUTION = 0.87
_MOST_NODES = 120_000
_FEW_NODES = 256
_NEIGHBOURS = 8  # nodes that are looked at together; BLAS adds up four at a time
_CHUNK = 200_000
_BLOCK = 1 << 13  # sines at a time: more would not stay in the cache
_MOST_TERMS = 60_000  # of a list instead of an integral
_LOG_TAIL = -120 * math.log(10)
_NOTHING = np.zeros(1)
# Sums of at most 700 logarithms and log-gammas, all below 1e4, err by less than this.
_RELATIVE_ERROR = 1e-9
_USELESS = 1.0  # width in logarithms
_CHERNOFF_GAP = 6.0  # Chernoff's bound is hardly ever so much above the truth, in logarithms
_RARE = 1e-3  # draws expected of n people
_RARE_MASSES = tuple(10.0**-power for power in (3, 6, 10, 16, 25, 40, 65, 100))


def enclose(pair: PairLaw, *, n: int, epsilon: float, tolerance: float | None = None) -> Enclosure:
    """Enclosure of delta(epsilon) for n people and one ordered pair of inputs.

    Relative accuracy is kept in the far tail (delta = 1e-100). ``tolerance`` is the relative width
    aimed at: the law's, or 3e-4, and less where delta hardly depends on epsilon. It is valid
    whatever its width.
    """
    if pair.tolerance is not None:
        tolerance = max(tolerance or 0.0, pair.tolerance)
    values = pair.values(epsilon)
    if values.max(initial=-math.inf) <= 0:
        # delta is 0, unless rounding hides a positive value.
        error = ROUNDING * pair.sizes(epsilon)
        doubtful = values > -error
        enclosure = Enclosure.between(0.0, 2 * float(pair.mass[doubtful] @ error[doubtful]))
    elif (listed := draws(pair, n)) is not None:
        enclosure = listed_sum(pair, listed, n=n, epsilon=epsilon)
    else:
        enclosure = contour(pair, n, epsilon, tolerance)
    if pair.lost0.size:
        enclosure = enclosure.plus(pair.lost_divergence(epsilon))
    if pair.dropped:
        # Without the outputs dropped from the blanket both laws move by at most this much.
        growth = math.exp(min(epsilon, 700.0))
        enclosure = enclosure.down_by(n * pair.dropped * (1 + growth))
    return enclosure


def epsilon(
    pair: PairLaw, n: int, delta: float, *, cap: float, side: Side, at_zero: float | None = None
) -> float:
    """The epsilon where the certified upper (or lower) end of one pair's delta passes the target.

    delta is 0 at ``cap``.
    """
    # Rounded to the safe side, as the logarithm's last digit is worth 1e-14 of a tiny delta.
    log_target = math.log(delta) - side.value * math.ulp(math.log(delta))
    guess = gaussian_guess(pair.spread(n) or 1.0, log_target)
    end = attrgetter("log_upper" if side is Side.UPPER else "log_lower")
    return crossing(
        lambda at: end(enclose(pair, n=n, epsilon=at)),
        log_target,
        cap=cap,
        guess=guess,
        side=side,
        at_zero=at_zero,
    )


def contour(
    pair: PairLaw, n: int, epsilon: float, tolerance: float | None = None, *, whole: bool = True
) -> Enclosure:
    """(1/n) E[(Z_1 + ... + Z_n)_+] by the contour integral: some value must be positive.

    Sums with ever less smoothing, until the interval is as narrow as is aimed at. If it does not
    get so narrow and the law is ``whole``, its rare atoms are taken out.
    """
    saddle = Saddle(pair, epsilon, n)
    if tolerance is None and epsilon != 0:
        # A width of log delta worth 3e-5 of epsilon, whose derivative is about that of n K.
        growth = float(saddle.tilted @ (saddle.sizes / saddle.noise - saddle.values)) / 2
        steepness = epsilon * saddle.theta * saddle.n * growth  # growth: of e^eps rho1
        aim = min(TOLERANCE, max(_FINEST, _EPSILON_FRACTION * steepness))
    else:
        aim = tolerance or TOLERANCE
    best = saddle.chernoff()
    # The width of the enclosure is about (eta theta)^2 unless the law is close to a lattice.
    smoothing = _CAUTION * math.sqrt(aim) / 2
    for _ in range(_MOST_REFINEMENTS):
        grid = Grid.of(saddle, smoothing)
        if grid.nodes > _MOST_NODES or saddle.exponent_error > 1:
            break
        best = best.meet(_trapezoid(saddle, grid))
        if best.gap <= aim or best.gap > _USELESS:
            break
        smoothing *= max(1 / 8, min(2 / 3, _CAUTION * math.sqrt(aim / best.gap)))
    if whole and best.gap > 10 * aim and pair.mass.min() * n <= _RARE:
        return best.meet(_without_rare(pair, n, epsilon, tolerance))
    return best


def _without_rare(pair: PairLaw, n: int, epsilon: float, tolerance: float | None) -> Enclosure:
    """The sum without its rarest atoms, which are bounded by their means.

    With a the sum of the others and b that of the rare ones, (a + b)_+ lies between
    a_+ - min(b_-, a_+) and a_+ + b_+, and a_+ <= n max z.
    """
    values, sizes = pair.summands(n, epsilon)
    best, left_out = Enclosure(-math.inf, 0.0), 0
    for threshold in _RARE_MASSES:
        rare = pair.mass < threshold / n
        if not rare.any() or (values[~rare] <= 0).all():
            continue
        mass, errors = pair.mass[rare] * (1 + 1e-9), ROUNDING * sizes[rare]
        gain = Enclosure.between(0.0, float(mass @ np.maximum(values[rare] + errors, 0.0)))
        most = n * float(values[~rare].max())
        loss = float(mass @ np.clip(errors - values[rare], 0.0, most))
        others = pair.without(rare)
        first = Saddle(others, epsilon, n).chernoff()
        if first.plus(gain).log_upper > best.log_upper + _CHERNOFF_GAP:
            break  # leaving out fewer is no longer any better
        if rare.sum() == left_out:
            continue  # the same ones
        left_out = rare.sum()
        rest = contour(others, n, epsilon, tolerance, whole=False)
        best = best.meet(rest.plus(gain).down_by(loss))
    return best


class Saddle:
    """The line Re s = theta through the peak of the integrand, and the law tilted to it.

    n K'(theta) = 2 / theta: any positive theta would be valid, this one is best. Values, and so
    theta, are in units of a power of two near the largest value.
    """

    def __init__(self, pair: PairLaw, epsilon: float, n: int) -> None:
        z, sizes = (np.concatenate((part, _NOTHING)) for part in pair.summands(n, epsilon))
        exponent = math.frexp(float(z.max()))[1]
        self.n, self.log_unit = n, exponent * math.log(2)
        self.values: Array = np.ldexp(z, -exponent)  # z; the last is 0, "not from the blanket"
        self.sizes: Array = np.ldexp(sizes, -exponent)  # each value errs by a few ulps of this
        self.noise = 1 + pair.error / ROUNDING  # masses err by so many times a few ulps
        self.masses = np.append(pair.mass, pair.rest)
        self.theta = theta = _saddle_point(self.values, self.masses, n)
        with np.errstate(over="ignore"):
            grown = np.expm1(theta * self.values)
            growth, size = float(self.masses @ grown), float(self.masses @ np.abs(grown))
        self.log_peak = n * math.log1p(growth)  # n K(theta), accurate for theta z near 0
        # m e^{theta z - K(theta)}, and the standard deviation of S under this law.
        self.tilted = self.masses * np.exp(theta * self.values - self.log_peak / n)
        mean = float(self.tilted @ self.values)
        variance = n * float(self.tilted @ (self.values - mean) ** 2)
        self.deviation = math.sqrt(variance)
        self.scale = math.sqrt(variance + 2 / theta**2)  # 1 / width of the peak
        # rest^n / phi(theta)^n: the part of "nobody used the blanket".
        self.unused = 0.0
        if pair.rest > 0:
            log_unused = n * math.log1p(-math.fsum(pair.mass.tolist())) - self.log_peak
            self.unused = math.exp(min(log_unused, 0.0))
        size *= math.exp(-self.log_peak / n)
        self.doubt = float(self.tilted @ self.sizes)  # of a value, in a few ulps
        change = n * (self.noise * size + theta * self.doubt) * self.values.size
        # A bound on the floating-point error of n K(theta).
        self.exponent_error = ROUNDING * (change + abs(self.log_peak) + abs(self.log_unit))

    def chernoff(self) -> Enclosure:
        """E[(S)_+] <= E[e^{theta S}] / (e theta), and delta <= 1."""
        log_upper = self.log_peak - 1 - math.log(self.theta) + self.exponent_error
        return Enclosure(-math.inf, min(0.0, log_upper + self.log_unit - math.log(self.n)))


@dataclass(frozen=True)
class Grid:
    """Smoothing, step and number of nodes of the sum, and where its terms are known to decay."""

    eta: float
    step: float
    nodes: int
    quiet: float  # up to here |phi| decays like a Gaussian; 0 if that is not used

    @classmethod
    def of(cls, saddle: Saddle, smoothing: float) -> Grid:
        """Stop early where |phi|^n is provably negligible, else where the smoothing makes it so.

        For |t| <= pi / range(z), cos u <= 1 - 2 u^2/pi^2 gives
        |phi(theta + it)/phi(theta)|^n <= exp(-2 variance t^2 / pi^2).
        """
        step = _STEP / saddle.scale
        reach = math.sqrt(2 * _DECAY)
        if saddle.deviation < 1e-9 / saddle.theta:  # the tilted law is all but one point
            return cls(0.0, step, 2 * _MOST_NODES, 0.0)
        finest = smoothing * min(saddle.deviation, 2 / saddle.theta)
        quiet = math.pi / float(saddle.values.max() - saddle.values.min())
        settled = math.pi / 2 * reach / saddle.deviation
        if settled <= quiet and reach / quiet <= finest:
            return cls(reach / quiet, step, math.ceil(settled / step), quiet)
        return cls(finest, step, math.ceil(min(reach / finest / step, 1e12)), 0.0)

    def tails(self, saddle: Saddle) -> tuple[float, float]:
        """Bounds on the omitted terms, with and without the factor 1/s^2, relative to the peak."""
        last = self.nodes * self.step
        smoothed = not self.quiet or last >= self.quiet
        start = last if smoothed else self.quiet
        curvature = (self.eta * start) ** 2
        decay = math.exp(-curvature / 2) / math.pi
        far, far_plain = decay / start * min(1.0, 1 / curvature), decay * start / curvature
        if smoothed:
            return far, far_plain
        rate = 2 * (saddle.deviation / math.pi) ** 2
        decay = math.exp(-rate * last**2) / math.pi
        jump = self.step / math.pi * math.exp(-curvature / 2)
        near = decay * min(1 / last, 0.5 / (rate * last**3)) + saddle.unused / (math.pi * last)
        near_plain = decay * 0.5 / (rate * last) + saddle.unused * self.quiet / math.pi
        return near + far + jump / self.quiet**2, near_plain + far_plain + jump


def _trapezoid(saddle: Saddle, grid: Grid) -> Enclosure:
    """Sum the nodes and widen by every error term; all relative to the peak until the end.

    The sums are those of Re(F/s^2), Re(F) and bounds on their rounding errors, with
    F = (phi(s)^n - rest^n)/phi(theta)^n e^{eta^2 (s^2 - theta^2)/2}. With p = sum q (e^{itz} - 1),
    log |1 + p| = log1p(2 Re p + |p|^2)/2 keeps the digits that a plain logarithm would lose.
    """
    sums = np.zeros(4)
    live = _live_nodes(saddle, grid)
    chunk = max(1, _CHUNK // saddle.values.size)
    for start in range(0, live.size, chunk):
        t = grid.step * live[start : start + chunk]
        real, imaginary = _shifted_transform(saddle, t)
        square = np.maximum(2 * real + real**2 + imaginary**2, -1 + _UNIT)
        log_size = saddle.n / 2 * np.log1p(square) - (grid.eta * t) ** 2 / 2
        large = np.flatnonzero(log_size > -_NEGLIGIBLE)
        angle = saddle.n * np.arctan2(imaginary[large], 1 + real[large])
        sums += _weighted(saddle, grid, t[large], np.exp(log_size[large]), angle)
    if saddle.unused > math.exp(-_NEGLIGIBLE):
        t = grid.step * np.arange(grid.nodes + 1, dtype=np.float64)
        size = saddle.unused * np.exp(-((grid.eta * t) ** 2) / 2)
        nobody = _weighted(saddle, grid, t, size, np.zeros(t.size))
        # The rest errs by a few ulps of all masses together.
        rest = float(saddle.masses[-1])
        doubt = 1 + saddle.n * (1 - rest) / rest * saddle.noise / 8
        sums += nobody * np.array([-1.0, -1.0, doubt, doubt])
    width = grid.step / math.pi
    # What is left out above: at most e^-_NEGLIGIBLE each.
    dropped = 2 * width * (grid.nodes + 1) * math.exp(-_NEGLIGIBLE)
    sums = sums * width + np.array([0.0, 0.0, dropped / saddle.theta**2, dropped])
    total, density, error, error_plain = sums.tolist()
    tail, tail_plain = grid.tails(saddle)
    upper = total + tail + error
    smoothing_cost = grid.eta**2 * (density + tail_plain + error_plain)
    lower = total - tail - error - smoothing_cost - _aliases(saddle, grid, upper)
    log_scale = saddle.log_peak + (grid.eta * saddle.theta) ** 2 / 2
    log_scale += saddle.log_unit - math.log(saddle.n)
    rounding = saddle.exponent_error
    log_lower = math.log(lower) - rounding if lower > 0 else -math.inf
    return Enclosure(log_lower + log_scale, math.log(upper) + rounding + log_scale)


def _shifted_transform(saddle: Saddle, t: Array) -> tuple[Array, Array]:
    """Real and imaginary part of phi(theta + it)/phi(theta) - 1 = sum q (e^{itz} - 1)."""
    values, weights = saddle.values[:-1], saddle.tilted[:-1]  # the last is 0 and adds nothing
    real, imaginary = np.empty(t.size), np.empty(t.size)
    rows = max(4, _BLOCK // values.size // 4 * 4)  # BLAS adds up four at a time
    column = (t / 2)[:, None]
    for start in range(0, t.size, rows):
        part = slice(start, start + rows)
        half = column[part] * values
        sine = np.sin(half)
        half = np.multiply(sine, np.cos(half, out=half), out=half)
        np.matmul(np.square(sine, out=sine), weights, out=real[part])
        np.matmul(half, weights, out=imaginary[part])
    real *= -2
    imaginary *= 2
    return real, imaginary


def _live_nodes(saddle: Saddle, grid: Grid) -> Array:
    """Numbers of the nodes that may matter: the others are in blocks of negligible size.

    |phi(theta + it)/phi(theta)|^2 is a sum of q_i q_j cos(t (z_i - z_j)), so it changes by at most
    sqrt(2 variance of Z) per unit of t: its value in the middle of a block bounds the block. Of the
    blocks that may matter, each few neighbours are looked at again.
    """
    nodes = np.arange(grid.nodes + 1, dtype=np.float64)
    slope = math.sqrt(2 / saddle.n) * saddle.deviation * grid.step * (1 + 1e-9)
    for block in (math.isqrt(grid.nodes), _NEIGHBOURS):
        if nodes.size <= _FEW_NODES:
            return nodes
        first = nodes[::block]
        last = np.concatenate((nodes[block - 1 :: block], nodes[-1:]))[: first.size]
        real, imaginary = _shifted_transform(saddle, grid.step * ((first + last) / 2))
        highest = 2 * real + real**2 + imaginary**2 + slope * ((last - first) / 2)
        highest = np.minimum(np.maximum(highest + 1e-12, -1 + _UNIT), 0.0)
        log_size = saddle.n / 2 * np.log1p(highest)
        live = log_size - (grid.eta * grid.step * first) ** 2 / 2 > -_NEGLIGIBLE
        nodes = nodes[np.repeat(live, block)[: nodes.size]]
    return nodes


def _weighted(saddle: Saddle, grid: Grid, t: Array, size: Array, angle: Array) -> Array:
    """Trapezoid sums of size e^{i angle} e^{i eta^2 theta t}, with and without 1/(theta + it)^2."""
    theta = saddle.theta
    if t.size and t[0] == 0:  # the first node, if it is one of these
        size = np.concatenate((size[:1] / 2, size[1:]))
    angle = angle + grid.eta**2 * theta * t
    cosine, sine = size * np.cos(angle), size * np.sin(angle)
    square = t**2
    modulus = theta**2 + square
    numerator = cosine * (theta**2 - square) + 2 * theta * t * sine
    # d(psi^n) = n psi^{n-1} d(psi), and psi carries a few roundings of each of its terms.
    drift = saddle.n * saddle.doubt * saddle.values.size
    noise = size * (_UNIT * (16 * drift * t + 64))
    return np.array(
        [
            float((numerator / modulus**2).sum()),
            float(cosine.sum()),
            float((noise / modulus).sum()),
            float(noise.sum()),
        ]
    )


def _aliases(saddle: Saddle, grid: Grid, upper: float) -> float:
    """Bound on the sum over m != 0 of e^{theta Y_m} E[(S + eta N - Y_m)_+], Y_m = 2 pi m / step.

    By Chernoff's bound E[e^{tau (S + eta N)}] / (e tau) at some tau below theta for the terms on
    one side, and above it for those on the other.
    """
    period = 2 * math.pi / grid.step
    log_smoothing = (grid.eta * saddle.theta) ** 2 / 2
    log_unit = saddle.log_peak + log_smoothing
    below: list[float] = []
    above: list[float] = []
    ratio = math.exp(-saddle.theta * period)
    log_shift = math.log(period) - saddle.theta * period - log_unit
    if log_shift < 0 and ratio < 0.5:
        below.append((math.exp(log_shift) + upper * ratio) / (1 - ratio) ** 2)
    taus = [
        *(saddle.theta * part for part in (0.3, 0.5, 0.7, 0.9)),
        *(saddle.theta + c / saddle.scale for c in (1.0, 3.0, 6.0)),
    ]
    with np.errstate(over="ignore"):
        growths = [
            float(saddle.masses @ grown)
            for grown in np.expm1(np.array(taus)[:, None] * saddle.values)
        ]
    for tau, growth in zip(taus, growths, strict=True):
        distance = abs(saddle.theta - tau) * 2 * math.pi / grid.step
        log_chernoff = saddle.n * math.log1p(growth) - saddle.log_peak + (grid.eta * tau) ** 2 / 2
        log_first = log_chernoff - 1 - math.log(tau) - log_smoothing - distance
        term = math.exp(min(log_first, 700.0)) / -math.expm1(-distance)
        (below if tau < saddle.theta else above).append(term)
    return min(below) + min(above)


def _saddle_point(z: Array, p: Array, n: int) -> float:
    """Root of theta n K'(theta) = 2, from the root of its Gaussian approximation."""
    mean = float(p @ z)
    variance = float(p @ (z - mean) ** 2)
    mean, variance = n * mean, n * variance
    root = math.hypot(mean, math.sqrt(8 * variance))
    log_theta = math.log(4 / (root + mean) if mean > 0 else (root - mean) / (2 * variance))
    low, high = -math.inf, math.inf
    for _ in range(60):
        theta = math.exp(log_theta)
        exponent = theta * z
        weights = p * np.exp(exponent - np.maximum.reduce(exponent))
        weights /= np.add.reduce(weights)
        slope = float(weights @ z)
        curvature = float(weights @ (z - slope) ** 2)
        miss = theta * n * slope - 2
        low, high = (log_theta, high) if miss < 0 else (low, log_theta)
        gradient = theta * n * (slope + theta * curvature)
        step = -miss / gradient if gradient > 0 else math.inf
        step = math.copysign(min(abs(step), 1.0), -miss)
        if abs(step) < 1e-4:
            break
        proposal = log_theta + step
        inside = low < proposal < high
        log_theta = proposal if inside else (low + high) / 2
    return math.exp(log_theta)


# ------------------------------------------------------------------------ the same number, counted
#
# Only how often each value was drawn matters. One value, the likeliest, is left implicit; the
# numbers of draws of the others are listed up to a total that is reached with probability below
# 1e-120, and that remainder is added to the upper end: as (S)_+ <= sum (Z_i)_+, more than c draws
# of the others contribute at most n E[(Z)_+] Pr[at least c of n - 1]. Used when the list is short:
# few people, or a blanket so thin that few of them use it.


@dataclass(frozen=True)
class Draws:
    """Every way the n draws can fall. Value number ``mass.size`` is "not from the blanket"."""

    implicit: int
    explicit: npt.NDArray[np.intp]
    counts: Array  # (terms, explicit values)
    log_probability: Array  # (terms,)
    log_tail: float  # log Pr[none of the listed terms]

    @cached_property
    def weights(self) -> tuple[float, Array]:
        """The largest log-probability, and all probabilities relative to it: for every epsilon."""
        peak = float(self.log_probability.max())
        return peak, np.exp(self.log_probability - peak)

    @cached_property
    def most(self) -> float:
        """The largest number of draws that are not of the implicit value."""
        return float(self.counts.sum(axis=1).max(initial=0.0))


@lru_cache(maxsize=64)
def draws(pair: PairLaw, n: int) -> Draws | None:
    """The list for n draws of this law, or None if it would be too long."""
    masses = np.append(pair.mass, pair.rest)
    implicit = int(masses.argmax())
    explicit = np.flatnonzero(masses > 0)
    explicit = explicit[explicit != implicit]
    probabilities = masses[explicit]
    together = float(probabilities.sum())
    expected = min(n, math.ceil(n * together))
    if math.comb(expected + explicit.size, expected) > _MOST_TERMS:
        return None
    most = _largest_total(n, together) if probabilities.size else 0
    if math.comb(most + probabilities.size, most) > _MOST_TERMS:
        return None
    counts, log_factorials = _counts_up_to(most, probabilities.size)
    total = counts.sum(axis=1)
    # n (n-1) ... probability^total, kept together: apart, the factors would cost digits.
    steps = np.log(together * (n - np.arange(most, dtype=float)))
    falling = np.concatenate([[0.0], np.cumsum(steps)])
    log_implicit = math.log1p(-together) if together < 0.5 else math.log(masses[implicit])
    log_probability = (
        falling[total.astype(int)]
        - log_factorials
        + counts @ np.log(probabilities / together)
        + (n - total) * log_implicit
    )
    return Draws(implicit, explicit, counts, log_probability, -math.inf if most == n else _LOG_TAIL)


def listed_sum(pair: PairLaw, listed: Draws, *, n: int, epsilon: float) -> Enclosure:
    """Certified enclosure of (1/n) E[(Z_1 + ... + Z_n)_+]."""
    values, sizes = (np.append(part, 0.0) for part in pair.summands(n, epsilon))
    base = float(values[listed.implicit])
    steps = values[listed.explicit] - base
    sums = n * base + listed.counts @ steps
    size = float(sizes[listed.implicit])
    noise = 2 * ROUNDING * (n * size + listed.counts @ (sizes[listed.explicit] + size))
    peak, weights = listed.weights
    masses = np.append(pair.mass, pair.rest)
    gain = n * float(masses @ np.maximum(values + 2 * ROUNDING * sizes, 0.0)) * math.exp(-peak)
    # Errors of the logarithms of the probabilities; and of the rest, where that is apart. Every
    # mass errs by a few ulps of itself, and the rest by as much as all masses together.
    rate = ROUNDING * (1 + pair.error / ROUNDING)
    rest_error = rate * min(1.0, math.fsum(pair.mass))
    error = _RELATIVE_ERROR + n * rate
    if listed.implicit == pair.mass.size:
        error = _RELATIVE_ERROR + listed.most * rate + n * rest_error / pair.rest
        rest_error = 0.0
    high = float(weights @ np.maximum(sums + noise, 0.0)) * math.exp(error)
    low = float(weights @ np.maximum(sums - noise, 0.0)) * math.exp(-error)
    if rest_error:
        # The rest r lies within e of the stored one: that is a factor of at most (1 + e/r)^n, and
        # as k draws have E[(S_k)_+] <= k E[(Z)_+], at most ((1 + e)^n - 1) n E[(Z)_+] more.
        added = math.expm1(n * rest_error) * gain
        if pair.rest:
            relative = n * rest_error / pair.rest
            added = min(added, high * math.expm1(min(relative, 700.0)))
            low *= math.exp(-relative)
        high += added
    high += gain * math.exp(listed.log_tail) * (1 + _RELATIVE_ERROR)
    scale = peak - math.log(n)
    return Enclosure(log(low) + scale, log(high) + scale)


def _largest_total(n: int, probability: float) -> int:
    """A total c with log Pr[Bin(n, p) > c] <= _LOG_TAIL, by Chernoff's bound; at most n."""

    def rare(c: int) -> bool:
        parts = scipy.special.rel_entr([c / n, 1 - c / n], [probability, 1 - probability])
        return -n * float(parts[0] + parts[1]) <= _LOG_TAIL

    low = min(n, math.ceil(n * probability))
    return n if low == n or not rare(n) else least(rare, low - 1, n)


@lru_cache(maxsize=4)
def _counts_up_to(most: int, values: int) -> tuple[Array, Array]:
    """All vectors of ``values`` counts with sum at most ``most``, and the logs of their factorials.

    Made once for all laws of so many values: of many values it takes longer than what follows.
    """
    left = np.array([most])
    steps = []
    for _ in range(values):
        repeats = left + 1
        parent = np.repeat(np.arange(left.size), repeats)
        drawn = np.arange(parent.size) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        left = left[parent] - drawn
        steps.append((parent, drawn))
    counts = np.empty((left.size, values))
    row = np.arange(left.size)
    for value in reversed(range(values)):
        parent, drawn = steps[value]
        counts[:, value] = drawn[row]
        row = parent[row]
    return counts, scipy.special.gammaln(counts + 1).sum(axis=1)
