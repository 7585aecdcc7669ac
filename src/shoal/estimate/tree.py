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
from statistics import NormalDist

import numpy as np

from shoal import checks
from shoal.randomizers.base import Codes
from shoal.values import Array, Estimate

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

    def fourth(self, weights: Array, cumulants: Sequence[float]) -> Array:
        """The fourth cumulants of the same, given those of the errors of each level."""
        total, across = np.zeros(len(weights)), self._across(weights)
        for of, variance, cumulant in zip(self.nodes, self.variances, cumulants, strict=True):
            first = np.zeros((of.max() + 1, len(weights)))
            np.add.at(first, of, across.T)  # of a node: the sum over its answers
            total += cumulant * ((first / variance) ** 4).sum(axis=0)
        return total

    def solve(self, counts: Sequence[Array], n: int) -> Array:
        """The counts of all answers that fit best to those of the nodes, n people in all."""
        levels = zip(self.nodes, self.variances, counts, strict=True)
        seen = sum(own[of] / variance for of, variance, own in levels)
        ones, solved = self.inverse.sum(axis=0), self.inverse @ seen
        return np.asarray(solved + (n - solved.sum()) / ones.sum() * ones)


@dataclass(frozen=True, eq=False, kw_only=True)
class Sums(Estimate):
    """Fractions whose errors are sums of many independent ones, with this excess of kurtosis."""

    kurtosis: Array

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Array, Array]:
        """Normal limits, widened by the kurtosis (Cornish, Fisher 1938); together by Bonferroni."""
        checks.open_probability(level=level)
        outside = (1 - level) / (self.frequencies.size if simultaneous else 1)
        z = NormalDist().inv_cdf(1 - outside / 2)
        wider = z + self.kurtosis * max(0.0, z**3 - 3 * z) / 24
        reach = wider * self.standard_errors
        return self.frequencies - reach, self.frequencies + reach


@dataclass(frozen=True, eq=False, kw_only=True)
class TreeEstimate(Sums):
    """The fractions of all answers, from the counts on all levels of a tree."""

    tree: Tree
    cumulants: tuple[float, ...]  # the fourth ones, of the errors of each level's counts

    @classmethod
    def of(
        cls, tree: Tree, counts: Sequence[Array], cumulants: Sequence[float], *, n: int
    ) -> TreeEstimate:
        """From the counts of n people on every level."""
        cells = np.eye(tree.nodes[0].size)
        variances = tree.variance(cells)
        return cls(
            tree.solve(counts, n) / n,
            np.sqrt(variances) / n,
            n,
            empty_error=np.sqrt(variances) / n,
            kurtosis=tree.fourth(cells, cumulants) / variances**2,
            tree=tree,
            cumulants=tuple(cumulants),
        )

    def totals(self, starts: Codes, stops: Codes, *, last: float = 0.0) -> Estimate:
        """Fractions of people with an answer from a start up to a stop, with their errors.

        ``last`` is the weight of the last answer in totals that stop before it.
        """
        k = self.frequencies.size
        weights = totals(k, starts, stops, last=last)
        variances = np.maximum(self.tree.variance(weights), 0.0)
        fourth = self.tree.fourth(weights, self.cumulants)
        known = variances < 1e-9 * max(self.tree.variances)  # nobody, or everybody
        kurtosis = np.where(known, 0.0, fourth / np.where(known, 1.0, variances) ** 2)
        errors = np.sqrt(variances) / self.n
        return Sums(weights @ self.frequencies, errors, self.n, kurtosis=kurtosis)


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
