"""Hadamard response: an answer is reported as a member of its half of a block."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting import table as tables
from shoal.accounting.atoms import AtomLike
from shoal.accounting.law import BlanketLaw, Claim
from shoal.randomizers.base import (
    CategoryRandomizer,
    Flags,
    Integers,
    NumberedMessages,
    OddsRandomizer,
    check_table,
    source,
)
from shoal.randomizers.weights import LARGEST_EPSILON, Odds
from shoal.randomness import Randomness, Words
from shoal.values import Array, Batch, Counts, Estimate, Messages, category_codes

Codes = npt.NDArray[np.int64]

GOLDEN = 0x9E3779B97F4A7C15
WORD = (1 << 64) - 1


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
class HadamardResponse(OddsRandomizer, NumberedMessages, CategoryRandomizer):
    """Send an output of the answer's half block with odds e^epsilon : 1 against any other output.

    The outputs are B blocks of b. An answer lives in one block, and half of that block is its set,
    given by a row of the Hadamard matrix; b is chosen for the least total variance. Which answer
    lives where is a pseudo-random order that depends on k and b alone: it is public, the same on
    every machine, and protects no one. It keeps an answer given by many from being, for reasons
    that lie in the numbering, in the block of others given by many.

    Citations: Acharya, Sun, Zhang, "Hadamard Response: Estimating Distributions Privately,
    Efficiently, and with Little Communication", AISTATS 2019 (arXiv 1802.04705).
    Runtime: two draws per report; O(n + K log b) to estimate, K = bB outputs.
    Utility: n Var = (e + 2B - 1)/(e - 1)^2 [2 + (e - 1) F] - f with e = e^epsilon, f the answer's
    fraction and F that of its block: about twice the optimum 4e/(e - 1)^2 of one local report at
    moderate epsilon and many answers.

    >>> HadamardResponse(k=3, epsilon=1.0).table().round(3)[0].tolist()
    [0.366, 0.134, 0.366, 0.134]
    """

    name: ClassVar[str] = "hadamard"
    most_answers: ClassVar[int] = 1 << 24

    k: int
    epsilon: float

    @cached_property
    def layout(self) -> Layout:
        """Number and width of the blocks: the least bound on the total variance of k estimates."""
        k, ratio = self.k, math.exp(min(self.epsilon, LARGEST_EPSILON))
        widths = [1 << i for i in range(1, k.bit_length() + 1)]
        layouts = [Layout(-(-k // (width - 1)), width) for width in widths]
        return min(layouts, key=lambda it: (it.total_variance(k, ratio), it.blocks * it.width))

    @cached_property
    def _odds(self) -> Odds:
        return Odds.of(self.epsilon, highs=1, lows=2 * self.layout.blocks - 1)

    @property
    def integers(self) -> Integers:
        """The layout, the odds, and what the draws are below."""
        return {"blocks": self.layout.blocks, "width": self.layout.width, **super().integers}

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

    @property
    def outputs(self) -> int:
        """How many messages there are."""
        return self.layout.blocks * self.layout.width

    def randomize(self, values: npt.ArrayLike, *, randomness: Randomness | None = None) -> Messages:
        """One output's number, block * b + j, per value.

        A draw below high - low keeps the answer's set; the rest is B equal slices of size 2 low,
        one per block. Place j is uniform in the block; if it has to be in the answer's set and is
        not, flipping a bit of the pattern moves it there, each member being met twice.
        """
        truths = category_codes(values, self.k)
        blocks, patterns = (home[truths] for home in self.homes)
        excess = self._odds.high - self._odds.low
        generator = source(randomness)
        drawn = generator.below(self._odds.total, truths.size).view(np.int64)
        places = generator.below(self.layout.width, truths.size).view(np.int64)
        truthful = drawn < excess
        outside = (np.bitwise_count(places & patterns) & 1).astype(bool)
        places ^= np.where(truthful & outside, patterns & -patterns, 0)
        slices = (drawn - excess) // (2 * self._odds.low)
        return np.where(truthful, blocks, slices) * self.layout.width + places

    def law(self) -> BlanketLaw:
        """One list of atoms per kind of pair: in one block, and in different blocks.

        The blanket gives every output its low weight, except that with a single block its first
        output belongs to every answer and has its high weight.
        """
        e, layout = self._odds.high / self._odds.low, self.layout
        z = e + 2 * layout.blocks - 1
        pairs: list[list[AtomLike]] = []
        if self.k > layout.blocks:
            everybody = 2 / (layout.width * z) if layout.blocks == 1 else 0.0
            lone: list[AtomLike] = [(0.5 / z, e, 1.0), (0.5 / z, 1.0, e)]
            both = (0.5 / z - everybody, e, e)
            neither = ((2 * layout.blocks - 1.5) / z + e * everybody, 1.0, 1.0)
            pairs.append([*lone, both, neither])
        if layout.blocks > 1:
            rest = (2 * layout.blocks - 2) / z
            pairs.append([(1 / z, e, 1.0), (1 / z, 1.0, e), (rest, 1.0, 1.0)])
        return BlanketLaw(
            pairs,
            witnesses=lambda: tables.witness_pairs(self._telling_rows()),
            claim=Claim(local_epsilon=self.local_epsilon),
        )

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
        weights = np.full((len(homes), near, kinds), float(self._odds.low))
        for row, (i, t) in enumerate(homes):
            weights[row, i, _members(t, kinds)] = self._odds.high
        alike = 2 / (kinds * self._odds.total)
        far = 2 * (layout.blocks - near) * self._odds.low / self._odds.total
        rows = weights.reshape(len(homes), -1) * alike
        return np.column_stack([rows, np.full(len(homes), far)])

    def table(self) -> Array:
        """Pr[output y | answer x], one row per answer."""
        blocks, width = self.layout.blocks, self.layout.width
        check_table(self.outputs, k=self.k)
        each = self._odds.total * width / 2
        rows = np.full((self.k, blocks, width), self._odds.low / each)
        for x, (block, pattern) in enumerate(zip(*self.homes, strict=True)):
            rows[x, block, _members(int(pattern), width)] = self._odds.high / each
        return rows.reshape(self.k, -1)

    @property
    def _scale(self) -> tuple[float, float]:
        """What a report in the answer's set adds to its estimated count, and the least variance.

        That is n times the variance for an answer in a block nobody is in.
        """
        high, low = self._odds.high, self._odds.low
        scale = self._odds.total / (high - low)
        return scale, 2 * scale * low / (high - low)

    def estimate(self, batch: Batch | Counts) -> Estimate:
        """Unbiased estimates: messages in the answer's set, less those in the rest of its block."""
        counts = self.counted(batch)
        cells = counts.cells.reshape(self.layout.blocks, self.layout.width)
        homes, (scale, least) = self.homes, self._scale
        fractions = scale * _transformed(cells)[homes] / counts.n
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

    def variance(self, frequencies: npt.ArrayLike, *, n: int) -> Array:
        """Variance of each estimated fraction, given the true ones of all k answers."""
        f = np.asarray(frequencies, dtype=np.float64)
        checks.refuse(f.shape != (self.k,), f"{self.k} fractions", frequencies=f.shape)
        blocks, (scale, least) = self.homes[0], self._scale
        shared = np.bincount(blocks, weights=f, minlength=self.layout.blocks)[blocks]
        return (least + scale * shared - f) / n


def _members(pattern: int, width: int) -> Flags:
    """Which outputs of a block belong to the answer with this pattern."""
    return np.asarray(np.bitwise_count(np.arange(width) & pattern) % 2 == 0)


def _transformed(cells: Codes) -> Codes:
    """Walsh-Hadamard transform of each row: entry t is sum_j (-1)^(ones of j & t) cells[j]."""
    blocks, width = cells.shape
    values, stride = cells, 1
    while stride < width:
        halves = values.reshape(blocks, -1, 2, stride)
        first, second = halves[:, :, 0], halves[:, :, 1]
        values = np.stack([first + second, first - second], axis=2).reshape(blocks, width)
        stride *= 2
    return values


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
