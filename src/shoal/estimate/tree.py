"""Bins counted on several levels: fewer terms in the totals of many of them.

Everybody reports the bin, and in reports of their own the groups of neighbouring bins that it is
in. Each level is noisier, as all of them share one budget, but a total is made of few nodes. Least
squares make one estimate of all levels (Hay, Rastogi, Miklau, Suciu, "Boosting the Accuracy of
Differentially Private Histograms Through Consistency", VLDB 2010), here with the number of all
people, which is public. For mechanisms whose counts have independent errors of one known law.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shoal import checks
from shoal.mechanisms.base import Codes
from shoal.mechanisms.shares import Difference, magnitudes, weighted_reach
from shoal.values import Array, Estimate, Flags

LARGEST = 2000  # answers: beyond, least squares take long


@dataclass(frozen=True, eq=False)
class Tree:
    """Nodes of every level, and the variance of the errors of their counts.

    ``nodes`` has, for each level, the number of the node that each answer is in; answers of the
    first level are nodes of their own. With A the matrix of a level, v its variance and M the sum
    of AᵀA/v, a total cᵀt of the answers' counts t is estimated with the variance cᵀM⁻¹c, once c is
    made orthogonal to all ones (the number of all people is known).
    """

    nodes: tuple[Codes, ...]
    variances: tuple[float, ...]

    @classmethod
    def of(cls, bins: int, answers: int, groups: Sequence[int], variances: Sequence[float]) -> Tree:
        """Levels of so many bins in each group; answers behind the bins are their own nodes."""
        codes = np.arange(answers)
        levels = (
            np.where(codes < bins, codes // size, -(-bins // size) + codes - bins)
            for size in groups
        )
        return cls(tuple(levels), tuple(variances))

    @cached_property
    def inverse(self) -> Array:
        """M⁻¹."""
        levels = zip(self.nodes, self.variances, strict=True)
        return np.linalg.inv(sum((of[:, None] == of[None, :]) / v for of, v in levels))

    def _across(self, weights: Array) -> Array:
        """M⁻¹ times the weights (rows) that are orthogonal to all ones in its sense."""
        ones = self.inverse.sum(axis=0)
        solved = weights @ self.inverse
        return np.asarray(solved - np.outer(solved.sum(axis=-1) / ones.sum(), ones))

    def variance(self, weights: Array) -> Array:
        """Of the estimated totals of counts with these weights (rows)."""
        return np.asarray(np.einsum("ij,ij->i", self._across(weights), weights))

    def parts(self, weights: Array) -> tuple[Array, ...]:
        """With which weights the errors of each level's nodes (rows) are in those totals."""
        across = self._across(weights).T
        return tuple(
            (np.arange(of.max() + 1)[:, None] == of).astype(np.float64) @ across / variance
            for of, variance in zip(self.nodes, self.variances, strict=True)
        )

    def solve(self, counts: Sequence[Array], n: int) -> Array:
        """The counts of all answers that fit best to those of the nodes, n people in all."""
        levels = zip(self.nodes, self.variances, counts, strict=True)
        seen = sum(own[of] / variance for of, variance, own in levels)
        ones, solved = self.inverse.sum(axis=0), self.inverse @ seen
        return np.asarray(solved + (n - solved.sum()) / ones.sum() * ones)


@dataclass(frozen=True, eq=False, kw_only=True)
class Sums(Estimate):
    """Fractions whose errors are weighted sums of independent ones, each of a known law.

    ``parts`` has, for each of the ``errors``, the weights in people (rows) of all that are of this
    law, in every fraction (columns).
    """

    errors: tuple[Difference, ...]
    parts: tuple[Array, ...]

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Array, Array]:
        """Limits from the law of the error itself; together by Bonferroni."""
        checks.open_probability(level=level)
        reach = self._reach((1 - level) / (2 * self.frequencies.size if simultaneous else 2))
        return self.frequencies - reach, self.frequencies + reach

    def sides(self, value: float, level: float) -> tuple[Flags, Flags]:
        """Which fractions may be at least the value, and which below it, by their limits.

        Limits are solved for where Chebyshev's inequality leaves it open.
        """
        above = self.frequencies >= value
        reach = self.standard_errors / math.sqrt(1 - level)
        near = np.flatnonzero(np.abs(self.frequencies - value) <= reach)
        part = Sums(
            self.frequencies[near],
            self.standard_errors[near],
            self.n,
            errors=self.errors,
            parts=tuple(weights[:, near] for weights in self.parts),
        )
        up, down = above.copy(), ~above
        up[near], down[near] = super(Sums, part).sides(value, level)
        return up, down

    def noise_floor(self, level: float = 0.95) -> Array:
        """What an answer must reach so that, with probability ``level``, no mere noise does."""
        checks.open_probability(level=level)
        return self._reach((1 - level) / self.frequencies.size)

    def _reach(self, tail: float) -> Array:
        """What the error of each fraction reaches with this probability at most."""
        reached = []
        for column in range(self.frequencies.size):
            weights = tuple(
                (error.law, weight, number)
                for error, part in zip(self.errors, self.parts, strict=True)
                for weight, number in magnitudes(part[:, column])
            )
            reached.append(weighted_reach(weights, tail) / self.n)
        return np.array(reached)


@dataclass(frozen=True, eq=False, kw_only=True)
class TreeEstimate(Sums):
    """The fractions of all answers, from the counts on all levels of a tree."""

    tree: Tree

    @classmethod
    def of(
        cls, tree: Tree, counts: Sequence[Array], errors: Sequence[Difference], *, n: int
    ) -> TreeEstimate:
        """From the counts of n people on every level, and the laws of their errors."""
        cells = np.eye(tree.nodes[0].size)
        deviations = np.sqrt(tree.variance(cells)) / n
        return cls(
            tree.solve(counts, n) / n,
            deviations,
            n,
            empty_error=deviations,
            errors=tuple(errors),
            parts=tree.parts(cells),
            tree=tree,
        )

    def totals(self, starts: Codes, stops: Codes, *, last: float = 0.0) -> Estimate:
        """Fractions of people with an answer from a start up to a stop, with their errors.

        ``last`` is the weight of the last answer in totals that stop before it.
        """
        weights = totals(self.frequencies.size, starts, stops, last=last)
        deviations = np.sqrt(np.maximum(self.tree.variance(weights), 0.0)) / self.n
        parts = self.tree.parts(weights)
        return Sums(weights @ self.frequencies, deviations, self.n, errors=self.errors, parts=parts)


def totals(k: int, starts: Codes, stops: Codes, *, last: float = 0.0) -> Array:
    """The weights of k answers in totals (rows) from a start up to a stop."""
    places = np.arange(k)
    weights = ((places >= starts[:, None]) & (places < stops[:, None])).astype(np.float64)
    weights[stops < k, -1] = last
    return weights


def group_sizes(bins: int, levels: int) -> tuple[int, ...]:
    """How many bins are in a node of each level, if all levels branch about alike.

    >>> group_sizes(1000, 3), group_sizes(100, 2), group_sizes(20, 1)
    ((1, 10, 100), (1, 10), (1,))
    """
    branching = math.ceil(round(bins ** (1 / levels), 9))
    return tuple(branching**level for level in range(levels))
