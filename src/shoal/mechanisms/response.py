"""Responses: a message is the number of one of finitely many outputs, some of them likelier.

An answer raises a set of outputs by e^epsilon: itself (k-ary randomized response), its half of a
block of outputs (Hadamard response), or the points orthogonal to its own (projective geometry
response). The larger sets share outputs between answers, and bring the estimate near the optimum.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.atoms import AtomLike
from shoal.accounting.law import BlanketLaw, Claim
from shoal.accounting.table import witness_pairs
from shoal.intervals.estimates import Estimate
from shoal.mechanisms import words as texts
from shoal.mechanisms.base import (
    LARGEST_EPSILON,
    ByLaw,
    CategoryRandomizer,
    Codes,
    Odds,
    Parts,
    Wanted,
    check_table,
)
from shoal.mechanisms.codec import Numbered
from shoal.mechanisms.estimators import (
    MOST_PAIRED,
    AnswerEstimator,
    Support,
    Supported,
    over_pairs,
)
from shoal.questions.domains import Cells
from shoal.randomness import Randomness, Words
from shoal.values import Array, Counts, Flags, Messages, Span

GOLDEN = 0x9E3779B97F4A7C15
WORD = (1 << 64) - 1
LARGEST_SPACE = 20_000_000  # vectors that the Fourier transform of an estimate runs over
_NEGLIGIBLE = 1e-6  # below this epsilon the best space no longer changes
_RARE = 2.0  # e^epsilon over the number of answers
_CHUNK = 1 << 16  # reports worked on at once, so that they stay in the cache

Scalar = TypeVar("Scalar", np.int64, np.float64)


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse(CategoryRandomizer):
    """Tell the truth with odds e^epsilon : 1 against each other answer.

    Runtime: one draw and one division per report; O(n + k) to estimate.

    Utility: n Var = (e + k - 2)/(e - 1)^2 for an answer nobody gave, e = e^epsilon; the
    best single-message choice after shuffling while k is below about n.

    Args:
        k: Number of answers, at least 2; an answer is a number 0, ..., k − 1.
        epsilon: Local ε of one report, in (0, 30]; the sampler keeps at most this.

    Raises:
        InvalidArgumentError: A parameter is out of its range.

    References:
        Warner 1965 for two answers; Kairouz, Bonawitz, Ramage 2016 (arXiv 1602.07387) for k;
        :doc:`/theory/blanket`.

    Example:
        >>> RandomizedResponse(k=3, epsilon=1.0).table().round(3)[0].tolist()
        [0.576, 0.212, 0.212]
    """

    name: ClassVar[str] = "grr"
    words = texts.ONE_ANSWER

    @classmethod
    def unrivalled(cls, wanted: Wanted, local_epsilon: float) -> bool:
        """Where a lie is rare: to support more answers than one then only adds noise."""
        return local_epsilon >= math.log(_RARE * wanted.domain.arguments["k"])

    @cached_property
    def parts(self) -> Parts[Estimate]:
        """By symmetry one list of atoms serves all pairs of answers."""
        odds = Odds.of(self.epsilon, highs=1, lows=self.k - 1)
        support = Support(odds.high / odds.total, odds.low / odds.total)
        return Parts(
            domain=Cells(self.k),
            privacy=ByLaw(
                odds.epsilon,
                lambda: BlanketLaw.randomized_response(k=self.k, epsilon=odds.epsilon),
            ),
            codec=Numbered(self.k),
            estimator=Supported(self.k, support, joint=(0.0, 0.0)),
            odds=odds,
        )

    def draw(self, data: Codes, bits: Randomness) -> Messages:
        """One answer's number per value.

        A draw below high - low keeps the truth; the rest is k equal slices of size low.
        """
        odds, excess = self.odds, self.odds.high - self.odds.low
        messages = np.empty(data.size, dtype=np.int64)
        for start in range(0, data.size, _CHUNK):  # so that a chunk stays in the cache
            truth = data[start : start + _CHUNK]
            drawn = bits.below(odds.total, truth.size)
            slices = (drawn - np.uint64(excess)) // np.uint64(odds.low)
            sent = np.where(drawn < excess, truth, slices.view(np.int64))
            messages[start : start + _CHUNK] = sent
        return messages

    def table(self) -> Array:
        """Pr[report y | answer x], one row per answer."""
        check_table(self.k, k=self.k)
        weights = np.full((self.k, self.k), self.odds.low / self.odds.total)
        np.fill_diagonal(weights, self.odds.high / self.odds.total)
        return weights


@dataclass(frozen=True)
class Layout:
    """``blocks`` blocks of ``width`` outputs, a power of two; answers spread evenly over them.

    Output ``j`` of a block belongs to the answer with pattern ``1 <= t < width`` if ``j & t`` has
    an even number of ones: half of the block, and a quarter of it for two answers at once.
    """

    blocks: int
    width: int

    def total_variance(self, k: int, ratio: float) -> float:
        """(e + 2B - 1)(2k + s (e - 1)) up to a factor, s answers being in the fullest block."""
        fullest = -(-k // self.blocks)
        return (ratio + 2 * self.blocks - 1) * (2 * k + fullest * (ratio - 1))


@dataclass(frozen=True, kw_only=True)
class HadamardResponse(CategoryRandomizer):
    """Send an output of the answer's half block with odds e^epsilon : 1 against any other output.

    The outputs are B blocks of b. An answer lives in one block, and half of that block is its set,
    given by a row of the Hadamard matrix; b is chosen for the least total variance. Which answer
    lives where is a pseudo-random order that depends on k and b alone: it is public, the same on
    every machine, and protects no one. It keeps an answer given by many from being, for reasons
    that lie in the numbering, in the block of others given by many.

    Runtime: two draws per report; O(n + K log b) to estimate, K = bB outputs.

    Utility: n Var = (e + 2B - 1)/(e - 1)^2 [2 + (e - 1) F] - f with e = e^epsilon, f the
    answer's fraction and F that of its block: about twice the optimum 4e/(e - 1)^2 of one
    local report at moderate epsilon and many answers.

    Args:
        k: Number of answers, at least 2; an answer is a number 0, ..., k − 1.
        epsilon: Local ε of one report, in (0, 30]; the sampler keeps at most this.

    Raises:
        InvalidArgumentError: A parameter is out of its range.

    References:
        Acharya, Sun, Zhang, "Hadamard Response: Estimating Distributions Privately,
        Efficiently, and with Little Communication", AISTATS 2019 (arXiv 1802.04705);
        :doc:`/theory/blanket`.

    Example:
        >>> HadamardResponse(k=3, epsilon=1.0).table().round(3)[0].tolist()
        [0.366, 0.134, 0.366, 0.134]
    """

    name: ClassVar[str] = "hadamard"
    words = texts.BY_TABLE
    most_answers: ClassVar[int] = 1 << 24

    @cached_property
    def layout(self) -> Layout:
        """Number and width of the blocks: the least bound on the total variance of k estimates."""
        k, ratio = self.k, math.exp(min(self.epsilon, LARGEST_EPSILON))
        widths = [1 << i for i in range(1, k.bit_length() + 1)]
        layouts = [Layout(-(-k // (width - 1)), width) for width in widths]
        return min(layouts, key=lambda it: (it.total_variance(k, ratio), it.blocks * it.width))

    @cached_property
    def parts(self) -> Parts[Estimate]:
        """The outputs are those of all blocks, and a message is for or against answers of one.

        The law has one list of atoms per kind of pair: in one block, and in different blocks. The
        blanket gives every output its low weight, except that with a single block its first output
        belongs to every answer and has its high weight.
        """
        blocks, width = self.layout.blocks, self.layout.width
        odds = Odds.of(self.epsilon, highs=1, lows=2 * blocks - 1)
        e = odds.high / odds.low
        z = e + 2 * blocks - 1
        pairs: list[list[AtomLike]] = []
        if self.k > blocks:
            everybody = 2 / (width * z) if blocks == 1 else 0.0
            lone: list[AtomLike] = [(0.5 / z, e, 1.0), (0.5 / z, 1.0, e)]
            both = (0.5 / z - everybody, e, e)
            neither = ((2 * blocks - 1.5) / z + e * everybody, 1.0, 1.0)
            pairs.append([*lone, both, neither])
        if blocks > 1:
            rest = (2 * blocks - 2) / z
            pairs.append([(1 / z, e, 1.0), (1 / z, 1.0, e), (rest, 1.0, 1.0)])
        scale = odds.total / (odds.high - odds.low)
        least = 2 * scale * odds.low / (odds.high - odds.low)
        return Parts(
            domain=Cells(self.k),
            privacy=ByLaw(
                odds.epsilon,
                lambda: BlanketLaw(
                    pairs,
                    witnesses=lambda: witness_pairs(self._telling_rows()),
                    claim=Claim(local_epsilon=odds.epsilon),
                ),
            ),
            codec=Numbered(blocks * width),
            estimator=InBlocks(self.k, self, scale=scale, least=least, reach=(-scale, scale)),
            odds=odds,
            sizes={"blocks": blocks, "width": width},
        )

    @cached_property
    def homes(self) -> tuple[Codes, Codes]:
        """Block and pattern of each answer.

        The answers' public order is that of a hash of their numbers, of k and of the width, in
        which no two tie.
        """
        start = np.uint64((self.k * GOLDEN ^ self.layout.width) * GOLDEN & WORD)
        words = (np.arange(self.k, dtype=np.uint64) + start) * np.uint64(GOLDEN)
        slots = np.empty(self.k, dtype=np.int64)
        slots[np.argsort(mixed(words))] = np.arange(self.k)
        return slots % self.layout.blocks, 1 + slots // self.layout.blocks

    def draw(self, data: Codes, bits: Randomness) -> Messages:
        """One output's number, block * b + j, per value.

        A draw below high - low keeps the answer's set; the rest is B equal slices of size 2 low,
        one per block. Place j is uniform in the block; if it has to be in the answer's set and is
        not, flipping a bit of the pattern moves it there, each member being met twice.
        """
        blocks, patterns = (home[data] for home in self.homes)
        excess = self.odds.high - self.odds.low
        drawn = bits.below(self.odds.total, data.size).view(np.int64)
        places = bits.below(self.layout.width, data.size).view(np.int64)
        truthful = drawn < excess
        outside = (np.bitwise_count(places & patterns) & 1).astype(bool)
        places ^= np.where(truthful & outside, patterns & -patterns, 0)
        slices = (drawn - excess) // (2 * self.odds.low)
        return np.where(truthful, blocks, slices) * self.layout.width + places

    def _telling_rows(self) -> Array:
        """A table of up to four answers in each of up to three blocks, alike outputs joined.

        Patterns 1, 2, 3 and 4 are a dependent and an independent triple, and read three bits of j
        only; all other blocks look the same to these answers.
        """
        layout = self.layout
        near = min(layout.blocks, 3)
        kinds = min(layout.width, 8)
        homes = [(i, t) for i in range(near) for t in (1, 2, 3, 4)]
        homes = [(i, t) for i, t in homes if i + layout.blocks * (t - 1) < self.k]
        weights = np.full((len(homes), near, kinds), float(self.odds.low))
        for row, (i, t) in enumerate(homes):
            weights[row, i, _members(t, kinds)] = self.odds.high
        alike = 2 / (kinds * self.odds.total)
        far = 2 * (layout.blocks - near) * self.odds.low / self.odds.total
        rows = weights.reshape(len(homes), -1) * alike
        return np.column_stack([rows, np.full(len(homes), far)])

    def table(self) -> Array:
        """Pr[output y | answer x], one row per answer."""
        blocks, width = self.layout.blocks, self.layout.width
        check_table(blocks * width, k=self.k)
        each = self.odds.total * width / 2
        rows = np.full((self.k, blocks, width), self.odds.low / each)
        for x, (block, pattern) in enumerate(zip(*self.homes, strict=True)):
            rows[x, block, _members(int(pattern), width)] = self.odds.high / each
        return rows.reshape(self.k, -1)


@dataclass(frozen=True, eq=False)
class InBlocks(AnswerEstimator):
    """From messages in an answer's set, less those in the rest of its block.

    ``scale`` is what a message in the answer's set adds to its estimated count, as much as one in
    the rest takes away; ``least`` is n times the variance for an answer in a block nobody is in.
    """

    k: int
    response: HadamardResponse
    scale: float
    least: float
    reach: Span

    def estimate(self, counts: Counts) -> Estimate:
        """Unbiased estimates of the fraction of each answer."""
        layout = self.response.layout
        cells = counts.cells.reshape(layout.blocks, layout.width)
        homes, scale, least = self.response.homes, self.scale, self.least
        fractions = scale * walsh(cells)[homes] / counts.n
        # Only messages of the block count, each with the square of the scale: this is the variance
        # with unbiased estimates of the fractions of the answer and of its block. Given the
        # messages of the block, it is as much less as the fraction is more.
        squares = scale**2 * cells.sum(axis=1)[homes[0]] / counts.n
        variances = np.maximum(squares - fractions, least / 2) / counts.n
        step = scale / counts.n
        return Estimate(
            fractions,
            np.sqrt(variances),
            counts.n,
            variance_slope=-1 / counts.n,
            step=step,
            # A message of the block is for the answer or against it: fractions move by two steps.
            granularity=step,
            # An empty answer's own fluctuation must not lower its error.
            empty_error=np.sqrt(np.maximum(squares, least) / counts.n),
        )

    def total_spread(self, own: Array, total: Array, squares: Array) -> Array:  # noqa: ARG002
        """Of the weights of the answers in one block, signed by their patterns.

        A message in a block counts with the squares of the block's weights, and with the products
        of two of them whose patterns together are the person's own; neither exceeds the number of
        answers in a block, as no weight exceeds 1.
        """
        shared = np.minimum(squares, -(-self.k // self.response.layout.blocks))
        return np.asarray(self.least * squares + 2 * self.scale * shared - own**2)

    signed = True

    def spread(self, weights: Array) -> Array:
        """By the scores H of all messages, which are transforms of the weights in each block.

        A message is any of a block, or more often one of the person's own half: of that the mean of
        H² is half of two places of its transform.
        """
        layout, odds = self.response.layout, self.response.odds
        blocks, patterns = self.response.homes
        placed = np.zeros((len(weights), layout.blocks, layout.width))
        placed[:, blocks, patterns] = weights
        squares = walsh(walsh(placed) ** 2)
        everywhere = odds.low * squares[:, :, 0].sum(axis=1, keepdims=True)
        own = (squares[:, blocks, 0] + squares[:, blocks, patterns]) * (odds.high - odds.low) / 2
        second = (everywhere + own) / (odds.total * layout.width / 2)
        return np.asarray(np.maximum(self.scale**2 * second - weights**2, 0.0))

    def variance(self, frequencies: npt.ArrayLike | None = None, *, n: int) -> Array:
        """Variance of each estimated fraction, given the true ones of all k answers."""
        f = np.asarray([] if frequencies is None else frequencies, dtype=np.float64)
        checks.refuse(f.shape != (self.k,), f"{self.k} fractions", frequencies=f.shape)
        blocks = self.response.homes[0]
        shared = np.bincount(blocks, weights=f, minlength=self.response.layout.blocks)[blocks]
        return (self.least + self.scale * shared - f) / n


def _members(pattern: int, width: int) -> Flags:
    """Which outputs of a block belong to the answer with this pattern."""
    return np.asarray(np.bitwise_count(np.arange(width) & pattern) % 2 == 0)


def walsh(values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """Walsh-Hadamard transform over the last axis: Σ_j (-1)^(ones of j & t) values[j].

    >>> walsh(np.array([1.0, 2.0, 3.0, 4.0])).tolist()
    [10.0, -2.0, -4.0, 0.0]
    """
    width = values.shape[-1]
    sums, stride = values.copy(), 1
    while stride < width:
        halves = sums.reshape(*values.shape[:-1], -1, 2, stride)
        first, second = halves[..., 0, :], halves[..., 1, :]
        first += second
        second *= -2
        second += first
        stride *= 2
    return sums


def mixed(words: Words) -> Words:
    """A public mixture of words: the finalizer of SplitMix64.

    It is a bijection of 64-bit words (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
    Generators", OOPSLA 2014), the same on every machine: it spreads public things evenly, and
    protects nobody.

    >>> hex(int(mixed(np.array([GOLDEN], dtype=np.uint64))[0]))
    '0xe220a8397b1dcdaf'
    """
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


@dataclass(frozen=True)
class Space:
    """The points of the projective space of F_q^t: vectors up to a factor, q being prime.

    A vector is the number whose base-q digits are its coordinates, most significant first; a point
    is the vector whose first digit that is not 0 is 1. Points are numbered in the order of their
    vectors, so that point 0 is (0, ..., 0, 1), the next q are (0, ..., 1, a), and so on.
    """

    q: int
    t: int

    def points(self, dimension: int | None = None) -> int:
        """(q^dimension - 1)/(q - 1), the points of a subspace, or of the space itself."""
        dimension = self.t if dimension is None else dimension
        return (self.q**dimension - 1) // (self.q - 1) if dimension > 0 else 0

    def support(self, high: float, low: float) -> Support:
        """How often a message is orthogonal to the true point, and to another one."""
        inside, shared = self.points(self.t - 1), self.points(self.t - 2)
        total = high * inside + low * (self.points() - inside)
        return Support(high * inside / total, (high * shared + low * (inside - shared)) / total)

    @cached_property
    def _starts(self) -> Codes:
        """Number of the first point whose first digit 1 is at each place."""
        return np.array([self.points(place) for place in range(self.t)], dtype=np.int64)

    @cached_property
    def _powers(self) -> Codes:
        return np.array([self.q**place for place in range(self.t)], dtype=np.int64)

    @cached_property
    def inverses(self) -> Codes:
        """1/a = a^(q - 2) mod q for each a, by squaring; 0 for 0."""
        powers, base = np.ones(self.q, dtype=np.int64), np.arange(self.q, dtype=np.int64)
        exponent = self.q - 2
        while exponent:
            if exponent & 1:
                powers = powers * base % self.q
            base = base * base % self.q
            exponent >>= 1
        powers[0] = 0  # a^0 = 1 if q = 2
        return powers

    def places(self, points: Codes) -> Codes:
        """The place of the first digit of each point; place 0 is the last digit."""
        return np.searchsorted(self._starts, points, side="right") - 1

    def vectors(self, points: Codes) -> Codes:
        """The vector of each point."""
        places = self.places(points)
        return points - self._starts[places] + self._powers[places]

    def digits(self, vectors: Codes) -> Iterator[Codes]:
        """Coordinates of the vectors, the last one first."""
        for _ in range(self.t):
            left = vectors // self.q
            yield vectors - left * self.q
            vectors = left

    def numbers(self, vectors: Codes) -> Codes:
        """The point of each vector, none of which is zero: divide by the first digit."""
        first = np.zeros_like(vectors)
        places = np.zeros_like(vectors)
        digits = list(self.digits(vectors))
        for place, digit in enumerate(digits):
            present = digit != 0
            np.copyto(first, digit, where=present)
            np.copyto(places, place, where=present)
        factor = self.inverses[first]
        scaled = np.zeros_like(vectors)
        for power, digit in zip(self._powers.tolist(), digits, strict=True):
            scaled += digit * factor % self.q * power
        return scaled - self._powers[places] + self._starts[places]

    def orthogonal(self, points: Codes, members: Codes) -> Codes:
        """Member number m of the points orthogonal to each point, and then of all others.

        Let p be the place of the point's first digit, which is 1. Whatever the other t - 1
        coordinates are, exactly one coordinate at p makes the product with the point 0, and
        exactly one makes it 1. Products 0 give the points orthogonal to it, each once for each
        point of F_q^(t-1); products 1 give each other point once, for each vector of F_q^(t-1).
        """
        inside = self.points(self.t - 1)
        outside = members >= inside
        lesser = self.vectors(np.minimum(members, inside - 1))
        rest = np.where(outside, members - inside, lesser)
        places = self.places(points)
        product = np.zeros_like(points)
        for a, b in zip(self.digits(points - self._starts[places]), self.digits(rest), strict=True):
            product += a * b
        power = self._powers[places]
        upper = rest // power
        lead = (outside - product) % self.q
        return self.numbers((upper * self.q + lead) * power + rest - upper * power)

    def orthogonal_counts(self, cells: Codes, k: int) -> Codes:
        """How many of the counted points are orthogonal to each of the first k points.

        Putting each count on all q - 1 multiples of its vector makes a function g whose Fourier
        transform is real, and n + G(x) = q #{orthogonal to x}, since the characters sum to q over
        the multiples of a vector orthogonal to x and to 0 over those of another.
        """
        if self.t == 2:
            return cells[self._only_orthogonal(k)]
        shape = (self.q,) * self.t
        transform = np.fft.rfftn(self._on_multiples(cells).reshape(shape)).real.ravel()
        digits = list(self.digits(self.vectors(np.arange(k))))
        # Half of the last axis is stored: the other half is found at minus the vector.
        stored = self.q // 2 + 1
        sign = np.where(digits[0] < stored, 1, -1)
        places = digits[0] * sign % self.q
        for power, digit in zip(self._powers.tolist(), digits[1:], strict=False):
            places += digit * sign % self.q * power * stored
        return np.asarray(np.rint((cells.sum() + transform[places]) / self.q).astype(np.int64))

    def _only_orthogonal(self, k: int) -> Codes:
        """In the plane the point (1, a) is orthogonal to (1, -1/a) only, and (0, 1) to (1, 0)."""
        last = np.arange(k - 1)
        numbers = 1 + (-self.inverses[last]) % self.q
        return np.concatenate([[1], np.where(last == 0, 0, numbers)])

    def _on_multiples(self, cells: Codes) -> Array:
        """g[a u] = cells[u] for every point u and every a from 1 to q - 1."""
        g = np.zeros(self.q**self.t)
        for a in range(1, self.q):
            divided = np.arange(self.q) * self.inverses[a] % self.q
            lower = np.zeros(1, dtype=np.int64)  # d / a for every vector d of the lower digits
            for start, power in zip(self._starts.tolist(), self._powers.tolist(), strict=True):
                g[a * power : (a + 1) * power] = cells[start + lower]
                if power < self._powers[-1]:
                    lower = (divided[:, None] * power + lower).ravel()
        return g


def _candidates(k: int) -> list[Space]:
    """Each prime with the least dimension that has k points.

    In the least dimension k points span the space, so no message is orthogonal to all of them and
    the blanket is the low weight everywhere. In the plane more points only cost accuracy.
    """
    plane = next(q for q in itertools.count(max(k - 1, 2)) if _is_prime(q))
    spaces = [Space(plane, 2)]
    for q in filter(_is_prime, range(2, min(k - 1, math.ceil(LARGEST_SPACE ** (1 / 3))))):
        t = next(t for t in itertools.count(3) if Space(q, t).points() >= k)
        if q**t <= LARGEST_SPACE:
            spaces.append(Space(q, t))
    return spaces


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % d for d in range(2, math.isqrt(number) + 1))


@dataclass(frozen=True, kw_only=True)
class ProjectiveGeometryResponse(CategoryRandomizer):
    """Send a point orthogonal to the answer's with odds e^epsilon : 1 against any other point.

    Answers and messages are points of the projective space of F_q^t, K = (q^t - 1)/(q - 1) >= k of
    them. Any two answers share the same number of points orthogonal to both, which makes this
    as accurate as reporting a random subset, in log2 K bits. The prime q is near e^epsilon + 1,
    chosen for the least total variance; t = 2 is randomized response among K answers.

    Runtime: one draw and O(t) divisions per report; O(n + q^t log q^t) to estimate, by one
    Fourier transform of at most 2e7 numbers (O(n + k) for t = 2).

    Utility: n Var = r (1 - r)/(s - r)^2 for an answer nobody gave, s and r being the
    probabilities that a message is orthogonal to the true point and to another: near the
    optimum 4e/(e - 1)^2 of one local report, e = e^epsilon.

    Args:
        k: Number of answers, at least 2; an answer is a number 0, ..., k − 1.
        epsilon: Local ε of one report, in (0, 30]; the sampler keeps at most this.

    Raises:
        InvalidArgumentError: A parameter is out of its range.

    References:
        Feldman, Nelson, Nguyen, Talwar, "Private Frequency Estimation via Projective Geometry",
        ICML 2022 (arXiv 2203.00194); :doc:`/theory/blanket`.

    Example:
        >>> ProjectiveGeometryResponse(k=3, epsilon=1.0).table().round(3)[0].tolist()
        [0.212, 0.576, 0.212]
    """

    name: ClassVar[str] = "projective"
    words = texts.BY_RULE
    most_answers: ClassVar[int] = LARGEST_SPACE // 2

    @cached_property
    def space(self) -> Space:
        """The space of the messages: at least k points, the least total variance of k estimates."""
        ratio = math.exp(min(max(self.epsilon, _NEGLIGIBLE), LARGEST_EPSILON))
        answers = [1, self.k - 1]  # the true one, and all others
        return min(
            _candidates(self.k),
            key=lambda it: float(it.support(ratio, 1.0).variance([1.0, 0.0], n=1) @ answers),
        )

    @cached_property
    def parts(self) -> Parts[Estimate]:
        """The odds are of the points orthogonal to an answer against all others."""
        space = self.space
        size, inside, two, three = (space.points(space.t - i) for i in range(4))
        odds = Odds.of(self.epsilon, highs=inside, lows=size - inside)
        support = space.support(odds.high, odds.low)
        expected = "an epsilon that whole-number odds of 52 bits can express"
        checks.refuse(support.true <= support.other, expected, epsilon=self.epsilon)
        # Of two points and the true one, none on the line of the others.
        high, low, total = odds.high, odds.low, odds.total
        joint = (three * high + (two - three) * low) / total, two * high / total
        # By symmetry one list of atoms serves all pairs of answers.
        each = low / total
        masses = ((inside - two) * each, two * each, (size - 2 * inside + two) * each)
        return Parts(
            domain=Cells(self.k),
            privacy=ByLaw(
                odds.epsilon,
                lambda: odds.law(*masses, witnesses=lambda: self._witnesses(*masses)),
            ),
            codec=Numbered(size),
            estimator=Orthogonal(self.k, support, joint, space=space),
            odds=odds,
            sizes={"q": space.q, "t": space.t},
        )

    def draw(self, data: Codes, bits: Randomness) -> Messages:
        """One point's number per value.

        The draw is a slice of size high for each point orthogonal to the answer's, then one of
        size low for each other point.
        """
        drawn = bits.below(self.odds.total, data.size).view(np.int64)
        high, low, edge = self.odds.high, self.odds.low, self.odds.raised
        members = np.where(drawn < edge, drawn // high, edge // high + (drawn - edge) // low)
        messages = np.empty_like(data)
        for start in range(0, data.size, _CHUNK):
            part = slice(start, start + _CHUNK)
            messages[part] = self.space.orthogonal(data[part], members[part])
        return messages

    def _witnesses(self, alone: float, both: float, neither: float) -> list[list[AtomLike]]:
        """All others on one of the two answers, on a third, or on one of a line with the two."""
        e, t = self.odds.high / self.odds.low, self.space.t
        # The blanket's atoms, seen from the mass that the first or the second answer puts there.
        pairs: list[list[AtomLike]] = [
            [(alone * e, 1.0, 1 / e), (alone, 1.0, e), (both * e, 1.0, 1.0), (neither, 1.0, 1.0)],
            [(alone, e, 1.0), (alone * e, 1 / e, 1.0), (both * e, 1.0, 1.0), (neither, 1.0, 1.0)],
        ]
        if self.k > 2:
            # Points 0, 1 and 2 are on a line: what is orthogonal to two is to the third.
            pairs.append(self._third_atoms(self.space.points(t - 2), e))
        if t > 2:
            pairs.append(self._third_atoms(self.space.points(t - 3), e))
        return pairs

    def _third_atoms(self, common: int, e: float) -> list[AtomLike]:
        """Exact atoms if the others hold a third answer, ``common`` points suiting all three."""
        size, inside, shared = (self.space.points(self.space.t - i) for i in range(3))
        alone = inside - 2 * shared + common
        none = size - 3 * inside + 3 * shared - common
        numbers = (none, alone, shared - common, common)  # points that suit so many of the three
        each = self.odds.low / self.odds.total
        return [
            (numbers[a + b + c] * each * e**c, e ** (a - c), e ** (b - c))
            for a, b, c in itertools.product((0, 1), repeat=3)
        ]

    def table(self) -> Array:
        """Pr[point y | answer x], one row per answer."""
        space, odds = self.space, self.odds
        check_table(space.points(), k=self.k)
        coordinates = np.array(list(space.digits(space.vectors(np.arange(space.points())))))
        suits = coordinates[:, : self.k].T @ coordinates % space.q == 0
        return np.where(suits, odds.high / odds.total, odds.low / odds.total)


@dataclass(frozen=True)
class Orthogonal(Supported):
    """From how many messages are orthogonal to each answer's point."""

    space: Space = Space(2, 2)

    def estimate(self, counts: Counts) -> Estimate:
        """Unbiased estimates of the fraction of each answer, from the messages orthogonal to it."""
        suiting = self.space.orthogonal_counts(counts.cells, self.k)
        return super().estimate(Counts(suiting, counts.n))

    def total_spread(self, own: Array, total: Array, squares: Array) -> Array:
        """As if no three points were on a line, and what q - 1 points on each line add at most."""
        apart, on_line = self.joint
        rest, rest_squares = total - own, squares - own**2
        pairs = np.minimum((self.space.q - 1) * rest_squares, rest**2 - rest_squares)
        more = (on_line - apart) * pairs / (self.support.true - self.support.other) ** 2
        return super().total_spread(own, total, squares) + more

    @property
    def signed(self) -> bool:  # type: ignore[override]  # computed
        """If lines through so many points are looked at one by one."""
        return self.space.t == 2 or self.k <= MOST_PAIRED

    def pairs(self, weights: Array) -> Array | float:
        """Two points on a line with the true one: what is orthogonal to two is to the third."""
        if self.space.t == 2:
            return 0.0
        apart, on_line = self.joint
        return (on_line - apart) * over_pairs(weights, self._on_line)

    def _on_line(self, point: int) -> Array:
        """Which two other points are on a line with this one, k rows and columns.

        Lines through it are the points that are left of all others once the digit at the place of
        its first one is taken off with a multiple of it.
        """
        space, others = self.space, np.delete(np.arange(self.k), point)
        place = int(space.places(np.array([point]))[0])
        own, rows = (
            np.stack([*space.digits(space.vectors(points))])  # a row for each digit, last first
            for points in (np.array([point]), others)
        )
        rest = (rows - rows[place] * own) % space.q
        lines = space.numbers(space.q ** np.arange(space.t) @ rest)
        together = np.zeros((self.k, self.k))
        together[np.ix_(others, others)] = lines[:, None] == lines
        np.fill_diagonal(together, 0.0)
        return together
