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

from shoal.intervals.estimates import Estimate, KnownErrors
from shoal.intervals.laws import Difference, WeightedSum, magnitudes
from shoal.mechanisms.base import Codes
from shoal.values import Array

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
class TreeEstimate(KnownErrors):
    """The fractions of all answers, from the counts on all levels of a tree.

    The error of a fraction is a weighted sum of those of the nodes, with a ``law`` for each level.
    """

    tree: Tree
    laws: tuple[Difference, ...]

    @classmethod
    def from_levels(
        cls, tree: Tree, counts: Sequence[Array], laws: Sequence[Difference], *, n: int
    ) -> TreeEstimate:
        """From the counts of n people on every level, and the laws of their errors."""
        fractions, cells = tree.solve(counts, n) / n, np.eye(tree.nodes[0].size)
        deviations = np.sqrt(tree.variance(cells)) / n
        return cls(
            fractions,
            deviations,
            n,
            empty_error=deviations,
            people=fractions * n,
            errors=_errors(tree, laws, cells),
            tree=tree,
            laws=tuple(laws),
        )

    def totals(self, starts: Codes, stops: Codes, *, last: float = 0.0) -> Estimate:
        """Fractions of people with an answer from a start up to a stop, with their errors.

        ``last`` is the weight of the last answer in totals that stop before it.
        """
        weights = totals(self.frequencies.size, starts, stops, last=last)
        errors = _errors(self.tree, self.laws, weights)
        return KnownErrors.of(weights @ self.frequencies, errors, n=self.n)


def _errors(tree: Tree, laws: Sequence[Difference], weights: Array) -> tuple[WeightedSum, ...]:
    """Those of totals with these weights (rows), of independent errors of the nodes."""
    levels = list(zip(laws, tree.parts(weights), strict=True))
    return tuple(
        WeightedSum(
            tuple(
                (law.law, weight, number)
                for law, part in levels
                for weight, number in magnitudes(part[:, column])
            )
        )
        for column in range(len(weights))
    )


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
