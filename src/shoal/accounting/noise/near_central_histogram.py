"""A histogram with almost the error of a trusted curator: the exact divergence of the whole.

Everybody sends (bucket of the answer, +). To every bucket all honest people together add Z+
messages + and Z− messages −, both geometric with ratio a = e^−rate, and F pairs {+, −}: the
estimate #+ − #− has a discrete Laplace error, and the pairs hide Z−. After Ghazi, Kumar,
Manurangsi, Pagh, Sinha, arXiv:2109.13158, who count bits; F is negative binomial there, and here
also Poisson.

With G(m) = Pr[F=m] + a² G(m−1) one bucket that nobody chose shows (u, v) = (#+, #−) with
probability J(u, v) = (1−a)² a^|u−v| G(min(u, v)). One answer more shifts u by one: J(u−1, v)
against J(u, v) is

    v <= u−1 :  mass 1/(1+a)          against  a/(1+a),      ratio 1/a,
    v >= u   :  mass (1−a) a G(u−1)   against  (1−a) G(u)    for each u.

Replacing an answer takes it from one bucket and adds it to another; the other buckets have the same
law in both worlds, independent of these. So the divergence is that of two independent shifts, one
of them the other way round: with the atoms (p, q) of the list above, and x = e^epsilon,

    D_x = Σ_i Σ_j (p_i q_j − x q_i p_j)_+ ,

a sum over the pairs with p_i/q_i > x p_j/q_j: one sort and cumulative sums. It is its own mirror
image, and depends neither on the number of buckets nor on that of people.

**Missing people.** If a fraction θ of those who share the noise is honest and present, Z+, Z− and F
have θ times the shape and the mean. Then the atoms are those of
K(u, v) = Σ_m Pr[F=m] Pr[Z=u−m] Pr[Z=v−m] shifted by one in u, for all (u, v).

F and Z are cut off where they hardly ever are. A law is a mixture of what it is given that neither
is beyond and given that one is: by joint convexity the cut adds its probability, for both buckets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from shoal import checks
from shoal.accounting import search
from shoal.accounting.atoms import Array
from shoal.accounting.noise.profile import checked_epsilon

_UNIT = float(np.finfo(np.float64).eps)
_DEPTH = 60.0  # what is below e^-60 of the likeliest count is cut off, and counted
_MISSING_DEPTH = 40.0  # the same, where the list has two dimensions
_MOST_COUNTS = 5_000_000
_MOST_PRODUCTS = 5 * 10**10  # of a list with two dimensions: more take minutes
_MANY = 1_000_000  # atoms that are sorted at once
_ALIKE = 1e-5  # atoms whose log ratios differ by less are merged, where there are very many
_PRECISION = 1e-6  # of the log of the mean number of pairs
_ROUGH = 1e-4  # the same, to compare shapes
_LEAST_DELTA = 1e-20  # far above what is cut off
_GROWTH = 1.5
_LEAST = -7.0  # log of a number of pairs that is next to nothing


@dataclass(frozen=True, kw_only=True)
class CountLaw:
    """A count that a crowd draws in independent shares: negative binomial, or Poisson.

    Pr[F = m+1] / Pr[F = m] = (b + q m)/(m + 1) with q = mean/(mean + shape), b = q shape; a Poisson
    law has an infinite shape, q = 0 and b = mean. Sums of independent counts of one q have that q.
    """

    mean: float
    shape: float = math.inf

    @classmethod
    def geometric(cls, rate: float) -> CountLaw:
        """Pr[Z = z] = (1 − a) a^z with a = e^−rate."""
        return cls(mean=1 / math.expm1(rate), shape=1.0)

    def times(self, factor: float) -> CountLaw:
        """The sum of so many such counts, or a share of one."""
        return CountLaw(mean=self.mean * factor, shape=self.shape * factor)

    @property
    def variance(self) -> float:
        """mean/(1 − q)."""
        return self.mean * (1 + self.mean / self.shape)

    def reach(self, depth: float = _DEPTH) -> float:
        """How far above the mean likely counts are."""
        return math.sqrt(2 * depth * self.variance) + depth * (2 + self.mean / self.shape)

    def window(self, depth: float = _DEPTH) -> Window:
        """The likely counts: all that have e^−depth of the likeliest one's probability, or more."""
        mean, q = self.mean, 1 / (1 + self.shape / self.mean)
        b, reach = mean / (1 + mean / self.shape), self.reach(depth)
        expected = f"noise of at most {_MOST_COUNTS} likely counts"
        checks.refuse(reach > _MOST_COUNTS, expected, noise=mean)
        mode = max(0, math.ceil((b - 1) / (1 - q)))
        first, last = max(0, math.floor(mode - reach)), math.ceil(mean + reach)
        below, above = np.arange(mode, first, -1.0), np.arange(mode, last, dtype=np.float64)
        falling = np.cumprod(below / (b + q * (below - 1)))  # Pr[m−1] / Pr[m], from the mode down
        rising = np.cumprod((b + q * above) / (above + 1))
        weights = np.concatenate([falling[::-1], [1.0], rising])
        likely = np.flatnonzero(weights >= math.exp(-depth))
        start, stop = first + int(likely[0]), first + int(likely[-1])
        weights = weights[likely[0] : likely[-1] + 1]
        # Beyond either end the weights fall at least by these factors: the ratios are monotone.
        right = max((b + q * stop) / (stop + 1), q)
        left = start / (b + q * (start - 1)) if start else 0.0
        outside = weights[-1] * right / (1 - right) + weights[0] * left / (1 - left)
        total = float(weights.sum())
        error = 16 * _UNIT * (last - first + 64)
        return Window(start, weights / total, float(outside) / total * (1 + error), error)


@dataclass(frozen=True, eq=False)
class Window:
    """Counts from ``start`` on, given that the count is one of them; ``outside`` bounds the rest.

    ``error`` bounds the relative error of each probability.
    """

    start: int
    pmf: Array
    outside: float
    error: float


@dataclass(frozen=True, kw_only=True)
class HistogramNoise:
    """What all honest people together add to one bucket.

    Its discrete Laplace error has ratio e^−``rate``; ``pairs`` is the mean number of pairs, and
    ``shape`` that of their negative binomial law, infinite for a Poisson law.
    """

    rate: float
    pairs: float
    shape: float = math.inf

    def __post_init__(self) -> None:
        checks.positive(rate=self.rate, pairs=self.pairs)
        checks.refuse(not self.shape > 0, "a shape > 0", shape=self.shape)
        checked_epsilon(self.rate)
        reach = max(self.single.reach(), self.paired.reach())
        expected = f"noise of at most {_MOST_COUNTS} likely counts"
        checks.refuse(reach > _MOST_COUNTS, expected, pairs=self.pairs)

    @property
    def single(self) -> CountLaw:
        """Messages +, and messages −, that belong to no pair."""
        return CountLaw.geometric(self.rate)

    @property
    def paired(self) -> CountLaw:
        """Pairs."""
        return CountLaw(mean=self.pairs, shape=self.shape)

    @property
    def variance(self) -> float:
        """2a/(1−a)², of the estimated count of a bucket."""
        return 2 * self.single.variance

    @property
    def messages(self) -> float:
        """Expected messages of noise in one bucket: 2a/(1−a) + 2 E[F]."""
        return 2 * self.single.mean + 2 * self.pairs


class _Shift:
    """The atoms (p, q) of one bucket with and without one more answer, sorted by p/q.

    ``error`` bounds the relative error of each mass, ``omitted`` the mass that is left out under
    either law; log ratios differ from the true ones by up to ``merged``.
    """

    def __init__(
        self, p: Array, q: Array, *, error: float, omitted: float, merged: float = 0.0
    ) -> None:
        with np.errstate(divide="ignore"):
            ratios = p / q
        order = np.argsort(ratios, kind="stable")
        self.ratios, self.p, self.q = ratios[order], p[order], q[order]
        self.below_p = np.concatenate([[0.0], np.cumsum(self.p)])
        self.below_q = np.concatenate([[0.0], np.cumsum(self.q)])
        self.error, self.omitted, self.merged = error, omitted, merged

    def delta(self, epsilon: float) -> float:
        """D_x of the product of this shift and its mirror image, from above.

        An error e of each product of two masses is one of the ratio x: with x' = x (1−e)/(1+e),
        p q − x q p <= (1+e) (p' q' − x' q' p') for the masses p', q' computed. So is the merging of
        atoms. Thresholds are a little wide, and gain too little by less than ``gross`` times that.
        """
        e = 2 * self.error + self.error**2
        x = math.exp(epsilon - 2 * self.merged) * (1 - e) / (1 + e)
        cut = np.searchsorted(self.ratios, self.ratios / (x * (1 - 8 * _UNIT)), side="right")
        gained, lost = self.p * self.below_q[cut], x * self.q * self.below_p[cut]
        gross = float(gained.sum() + lost.sum())
        rounding = 4 * _UNIT * (self.p.size + 64) * gross
        net = max(0.0, float((gained - lost).sum()) + rounding)
        return min(1.0, net * (1 + e) + 2 * self.omitted)


def flooded(pmf: Array, rate: float) -> Array:
    """G(m) = Σ_i e^(−2 rate i) Pr[F = m−i], for all counts m of the law of F.

    In doubling steps (1 + a² S)(1 + a⁴ S²)(1 + a⁸ S⁴)... with the shift S: only sums of what is
    positive, so that no relative error grows.
    """
    both, step = pmf.copy(), 1
    while step < both.size:
        both[step:] += math.exp(-2 * rate * step) * both[:-step]
        step *= 2
    return both


@lru_cache(maxsize=2)
def _complete(noise: HistogramNoise) -> _Shift:
    """The list in one dimension: for each u, and everything of ratio 1/a."""
    pairs, a = noise.paired.window(), math.exp(-noise.rate)
    both = flooded(pairs.pmf, noise.rate)
    stop = -math.expm1(-noise.rate)
    before = np.concatenate([[0.0], both[:-1]])
    # Beyond the window G falls by a² a step, where the ratio is 1/a as for all v <= u−1.
    certain = (1 + a * float(both[-1])) / (1 + a)
    p = np.append(stop * a * before, certain)
    q = np.append(stop * both, a * certain)
    return _Shift(p, q, error=2 * pairs.error, omitted=pairs.outside)


@lru_cache(maxsize=4)
def _incomplete(noise: HistogramNoise, present: float) -> _Shift:
    """The list in two dimensions: for each v, and each difference d = u − v."""
    single = noise.single.times(present).window(_MISSING_DEPTH)
    paired = noise.paired.times(present).window(_MISSING_DEPTH)
    z, reach = single.pmf, single.pmf.size - 1
    size = paired.pmf.size + reach
    expected = (
        "nearly all people who share the noise: for fewer, so much noise is too much to "
        "compute (calibrate for fewer people)"
    )
    checks.refuse(reach**2 * paired.pmf.size > _MOST_PRODUCTS, expected, present=present)

    def row(d: int) -> Array:
        """K(v + d, v) for each v."""
        cells = np.zeros(size)
        if abs(d) <= reach:
            sums = np.convolve(paired.pmf, z[: z.size - abs(d)] * z[abs(d) :])
            cells[max(0, -d) : max(0, -d) + sums.size] = sums
        return cells

    atoms, sooner = [np.zeros((2, 0))], row(-reach - 1)
    for d in range(-reach, reach + 2):
        later = row(d)
        some = (sooner > 0) | (later > 0)
        atoms.append(np.stack([sooner[some], later[some]]))  # K(u−1, v), K(u, v)
        sooner = later
        if sum(part.shape[1] for part in atoms) > _MANY:
            atoms = [_merged(np.concatenate(atoms, axis=1))]
    p, q = _merged(np.concatenate(atoms, axis=1))
    error = paired.error + 2 * single.error + 4 * _UNIT * (size + 64)
    omitted = paired.outside + 2 * single.outside
    return _Shift(p, q, error=error, omitted=omitted, merged=_ALIKE)


def _merged(atoms: Array) -> Array:
    """Atoms (p, q), as columns, with those added up whose log p/q is in one interval of a grid.

    Let the true ratios of two groups g, h be within factors e^s of those r_g, r_h of the sums. For
    i in g and j in h, p_i q_j − x q_i p_j <= p_i q_j (1 − x e^(−2s) r_h/r_g): the divergence of the
    sums at x e^(−2s) is at least the true one at x.
    """
    with np.errstate(divide="ignore"):
        places = np.floor(np.log(atoms[0] / atoms[1]) / _ALIKE)
    order = np.argsort(places, kind="stable")
    places = places[order]
    first = np.flatnonzero(np.append(True, places[1:] != places[:-1]))
    return np.asarray(np.add.reduceat(atoms[:, order], first, axis=1))


def histogram_delta(
    *, rate: float, pairs: float, epsilon: float, shape: float = math.inf, present: float = 1.0
) -> float:
    """Upper bound, tight up to rounding, on the divergence between histograms of replaced answers.

    A fraction ``present`` of the noise described is there.

    >>> f"{histogram_delta(rate=0.4772, shape=16, pairs=550, epsilon=1.0):.1e}"
    '1.0e-06'
    >>> f"{histogram_delta(rate=0.4772, shape=16, pairs=550, epsilon=1.0, present=0.9):.1e}"
    '2.3e-02'
    """
    noise = HistogramNoise(rate=rate, pairs=pairs, shape=shape)
    checks.fraction(present=present)
    shift = _complete(noise) if present == 1 else _incomplete(noise, present)
    return shift.delta(checked_epsilon(epsilon))


def curator_rate(epsilon: float, inflation: float = 1.0) -> float:
    """The rate of discrete Laplace noise with this multiple of the curator's variance per bucket.

    A trusted curator adds noise of rate ε/2, as replacing an answer changes two counts by one.
    """
    return 2 * math.asinh(math.sinh(checked_epsilon(epsilon) / 4) / math.sqrt(inflation))


@lru_cache(maxsize=256)
def histogram_calibration(
    *, epsilon: float, delta: float, inflation: float, robust: bool = False
) -> HistogramNoise:
    """The fewest pairs that keep (epsilon, delta) under replacement of an answer.

    ``inflation`` is the variance paid, as a multiple of the curator's. Over all whole shapes of the
    negative binomial law of the pairs; ``robust``: for a Poisson law, whose shares are all small.

    >>> noise = histogram_calibration(epsilon=1.0, delta=1e-6, inflation=1.1)
    >>> round(noise.rate, 4), round(noise.pairs), noise.shape
    (0.4772, 548, 14.0)
    """
    checks.target(epsilon=epsilon, delta=delta)
    checks.above_one(inflation=inflation)
    checks.refuse(delta < _LEAST_DELTA, f"delta >= {_LEAST_DELTA:g}", delta=delta)
    rate, depth = curator_rate(epsilon, inflation), -math.log(delta)

    def fewest(shape: float, guess: float, tolerance: float = _PRECISION) -> HistogramNoise:
        def noise(log_pairs: float) -> HistogramNoise:
            return HistogramNoise(rate=rate, pairs=math.exp(log_pairs), shape=shape)

        @cache
        def excess(log_pairs: float) -> float:
            return search.log(_complete(noise(log_pairs)).delta(epsilon)) + depth

        low = high = math.log(guess)
        while excess(high) > 0:
            low, high = high, high + math.log(_GROWTH)
        while (low == high or excess(low) <= 0) and low > _LEAST:
            low, high = low - math.log(_GROWTH), low
        if excess(low) <= 0:
            return noise(low)
        return noise(search.root_below(excess, low, high, tolerance=tolerance))

    # The loss beyond 2 rate is that of G, of about the standard deviation of F as noise.
    spread = 0.6 * depth / max(epsilon - 2 * rate, 1e-9) ** 2 + 1
    if robust:
        return fewest(math.inf, spread)
    best = fewest(float(max(1, round(depth))), depth * math.sqrt(1 + spread / depth) / 2, _ROUGH)
    step, most = 1 << max(0, round(math.log2(depth)) - 2), 8 * depth + 16
    while step >= 1:
        for shape in (best.shape - step, best.shape + step):
            rival = fewest(shape, best.pairs, _ROUGH) if 1 <= shape <= most else best
            if rival.pairs < best.pairs:
                best = rival
                break
        else:
            step //= 2
    return fewest(best.shape, best.pairs)
