"""Projective geometry response: an answer is a point, its set the points orthogonal to it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.atoms import AtomLike
from shoal.accounting.law import BlanketLaw
from shoal.randomizers.base import (
    CategoryRandomizer,
    Integers,
    NumberedMessages,
    OddsRandomizer,
    check_table,
    source,
)
from shoal.randomizers.weights import LARGEST_EPSILON, Odds, Support
from shoal.randomness import Randomness
from shoal.values import Array, Batch, Counts, Estimate, Messages, category_codes

Codes = npt.NDArray[np.int64]

LARGEST_SPACE = 20_000_000  # vectors that the Fourier transform of an estimate runs over
_NEGLIGIBLE = 1e-6  # below this epsilon the best space no longer changes
_CHUNK = 1 << 16  # reports whose digits are worked on at once


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
        found, base = np.ones(self.q, dtype=np.int64), np.arange(self.q, dtype=np.int64)
        exponent = self.q - 2
        while exponent:
            if exponent & 1:
                found = found * base % self.q
            base = base * base % self.q
            exponent >>= 1
        found[0] = 0  # a^0 = 1 if q = 2
        return found

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
        kept = self.q // 2 + 1
        sign = np.where(digits[0] < kept, 1, -1)
        found = digits[0] * sign % self.q
        for power, digit in zip(self._powers.tolist(), digits[1:], strict=False):
            found += digit * sign % self.q * power * kept
        return np.asarray(np.rint((cells.sum() + transform[found]) / self.q).astype(np.int64))

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
    found = [Space(plane, 2)]
    for q in filter(_is_prime, range(2, min(k - 1, math.ceil(LARGEST_SPACE ** (1 / 3))))):
        t = next(t for t in itertools.count(3) if Space(q, t).points() >= k)
        if q**t <= LARGEST_SPACE:
            found.append(Space(q, t))
    return found


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % d for d in range(2, math.isqrt(number) + 1))


@dataclass(frozen=True, kw_only=True)
class ProjectiveGeometryResponse(OddsRandomizer, NumberedMessages, CategoryRandomizer):
    """Send a point orthogonal to the answer's with odds e^epsilon : 1 against any other point.

    Answers and messages are points of the projective space of F_q^t, K = (q^t - 1)/(q - 1) >= k of
    them. Any two answers share the same number of points orthogonal to both, which makes this
    as accurate as reporting a random subset, in log2 K bits. The prime q is near e^epsilon + 1,
    chosen for the least total variance; t = 2 is randomized response among K answers.

    Citations: Feldman, Nelson, Nguyen, Talwar, "Private Frequency Estimation via Projective
    Geometry", ICML 2022 (arXiv 2203.00194).
    Runtime: one draw and O(t) divisions per report; O(n + q^t log q^t) to estimate, by one
    Fourier transform of at most 2e7 numbers (O(n + k) for t = 2).
    Utility: n Var = r (1 - r)/(s - r)^2 for an answer nobody gave, s and r being the probabilities
    that a message is orthogonal to the true point and to another: near the optimum 4e/(e - 1)^2 of
    one local report, e = e^epsilon.

    >>> ProjectiveGeometryResponse(k=3, epsilon=1.0).table().round(3)[0].tolist()
    [0.212, 0.576, 0.212]
    """

    name: ClassVar[str] = "projective"
    most_answers: ClassVar[int] = LARGEST_SPACE // 2

    k: int
    epsilon: float

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
    def _odds(self) -> Odds:
        """Of the points orthogonal to an answer against all others."""
        inside = self.space.points(self.space.t - 1)
        odds = Odds.of(self.epsilon, highs=inside, lows=self.space.points() - inside)
        support = self.space.support(odds.high, odds.low)
        expected = "an epsilon that whole-number odds of 52 bits can express"
        checks.refuse(support.true <= support.other, expected, epsilon=self.epsilon)
        return odds

    @property
    def integers(self) -> Integers:
        """The space, the odds, and what the draws are below."""
        return {"q": self.space.q, "t": self.space.t, **super().integers}

    @property
    def outputs(self) -> int:
        """How many messages there are."""
        return self.space.points()

    def randomize(self, values: npt.ArrayLike, *, randomness: Randomness | None = None) -> Messages:
        """One point's number per value.

        The draw is a slice of size high for each point orthogonal to the answer's, then one of
        size low for each other point.
        """
        truths = category_codes(values, self.k)
        drawn = source(randomness).below(self._odds.total, truths.size).view(np.int64)
        high, low, edge = self._odds.high, self._odds.low, self._odds.raised
        members = np.where(drawn < edge, drawn // high, edge // high + (drawn - edge) // low)
        messages = np.empty_like(truths)
        for start in range(0, truths.size, _CHUNK):
            part = slice(start, start + _CHUNK)
            messages[part] = self.space.orthogonal(truths[part], members[part])
        return messages

    def law(self) -> BlanketLaw:
        """By symmetry one list of atoms serves all pairs of answers."""
        size, inside, shared = (self.space.points(self.space.t - i) for i in range(3))
        each = self._odds.low / self._odds.total
        masses = ((inside - shared) * each, shared * each, (size - 2 * inside + shared) * each)
        return self._odds.law(*masses, witnesses=lambda: self._witnesses(*masses))

    def _witnesses(self, alone: float, both: float, neither: float) -> list[list[AtomLike]]:
        """All others on one of the two answers, on a third, or on one of a line with the two."""
        e, t = self._odds.high / self._odds.low, self.space.t
        # The blanket's atoms, seen from the mass that the first or the second answer puts there.
        found: list[list[AtomLike]] = [
            [(alone * e, 1.0, 1 / e), (alone, 1.0, e), (both * e, 1.0, 1.0), (neither, 1.0, 1.0)],
            [(alone, e, 1.0), (alone * e, 1 / e, 1.0), (both * e, 1.0, 1.0), (neither, 1.0, 1.0)],
        ]
        if self.k > 2:
            # Points 0, 1 and 2 are on a line: what is orthogonal to two is to the third.
            found.append(self._third_atoms(self.space.points(t - 2), e))
        if t > 2:
            found.append(self._third_atoms(self.space.points(t - 3), e))
        return found

    def _third_atoms(self, common: int, e: float) -> list[AtomLike]:
        """Exact atoms if the others hold a third answer, ``common`` points suiting all three."""
        size, inside, shared = (self.space.points(self.space.t - i) for i in range(3))
        alone = inside - 2 * shared + common
        none = size - 3 * inside + 3 * shared - common
        numbers = (none, alone, shared - common, common)  # points that suit so many of the three
        each = self._odds.low / self._odds.total
        return [
            (numbers[a + b + c] * each * e**c, e ** (a - c), e ** (b - c))
            for a, b, c in itertools.product((0, 1), repeat=3)
        ]

    def table(self) -> Array:
        """Pr[point y | answer x], one row per answer."""
        space, odds = self.space, self._odds
        check_table(space.points(), k=self.k)
        coordinates = np.array(list(space.digits(space.vectors(np.arange(space.points())))))
        suits = coordinates[:, : self.k].T @ coordinates % space.q == 0
        return np.where(suits, odds.high / odds.total, odds.low / odds.total)

    @cached_property
    def _support(self) -> Support:
        return self.space.support(self._odds.high, self._odds.low)

    def estimate(self, batch: Batch | Counts) -> Estimate:
        """Unbiased estimates of the fraction of each answer, from the messages orthogonal to it."""
        counts = self.counted(batch)
        suiting = self.space.orthogonal_counts(counts.cells, self.k)
        return self._support.estimate(Counts(suiting, counts.n))
