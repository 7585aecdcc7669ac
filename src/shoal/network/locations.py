"""Where everybody's report may be after some rounds, as far as it is known.

Of some people the law of the holder is computed, of the others only moments are known: their
χ² = Σ (P/π - 1)² π, and bounds on P/π. Either way there is a stop-loss function for any group of
people, and so one law that covers them all. There are three ways to find out:

- ``exact``: everybody's law, for up to a few thousand people, and for any process;
- ``leading``: eigenpairs say who is spread worst; these people's laws are computed, the others'
  moments bounded. A walk is reversible, P_u(v)/π_v = P_v(u)/π_u, so that the law of v's report
  also says exactly how little of anybody's is with v;
- ``spectral``: a bound on the eigenvalues alone, for millions of people.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

import numpy as np

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.network import kernels, law, mixing
from shoal.network.eigenpairs import Refined, leading
from shoal.network.graph import Nodes, node_numbers
from shoal.network.law import Floor, Moments, StopLoss
from shoal.network.spectrum import SpectralBound, spectral_bound
from shoal.network.walk import Process, Walk, moved, round_count
from shoal.randomness import Randomness
from shoal.values import Array

Method = Literal["auto", "exact", "leading", "spectral"]

_MOST_EXACT = 2500
_MOST_LEADING = 60_000  # n² products of a few dozen terms: minutes beyond
_PAIRS = 24
_MORE = 3  # times as many, if need be
_LEFT_OPEN, _HOPELESS = 0.25, 1e3  # of P_u(v)/π_v, which should be near 1
_ROW_WORK = 2e9  # products for laws computed exactly
_FEWEST_ROWS, _MOST_ROWS = 16, 96
_BLOCK = 1 << 22
_UNDERFLOW = 1e-290
_MOST_KEPT = 3
_DENSE_SPEED = 12  # how much faster a dense product is, per term, than a sparse one


@dataclass(frozen=True, eq=False, kw_only=True)
class Spread:
    """What is known after ``rounds`` rounds.

    ``laws`` are those of the people in ``known``, one a row, each with a relative error of at most
    ``rounding``. Of everybody, ``chi_squared`` and ``highest`` (of P/π) are upper bounds, unless
    everybody is known. ``minimum`` is at most everybody's P(v). All of it holds but for a
    probability ``failure``.
    """

    rounds: int
    minimum: Array
    stationary: Array
    chi_squared: Array
    highest: Array
    known: Nodes
    laws: Array = field(repr=False)
    rounding: float
    failure: float
    method: str

    @property
    def n(self) -> int:
        """How many people."""
        return len(self.minimum)

    @cached_property
    def order(self) -> Nodes:
        """Everybody, those whose reports are spread best first."""
        return np.argsort(self.chi_squared, kind="stable")

    @cached_property
    def places(self) -> Nodes:
        """Where somebody's law is in ``laws``; -1 if it is not."""
        rows = np.full(self.n, -1)
        rows[self.known] = np.arange(len(self.known))
        return rows

    @cached_property
    def floor(self) -> Floor:
        """How far the common part is below the stationary law."""
        return Floor.of(self.minimum, self.stationary)

    def group(self, *, quantile: float = 1.0, user: int | None = None) -> Nodes:
        """One person, or the fraction ``quantile`` of all whose reports are spread best."""
        if user is not None:
            return node_numbers([user], self.n, name="user")
        checks.share(quantile=quantile)
        return self.order[: max(1, math.ceil(quantile * self.n * (1 - 1e-12)))]

    def total_variation(self) -> float:
        """Σ_u TV(P_u, π) <= Σ_u √χ²_u / 2, rounded up."""
        return float(np.sqrt(self.chi_squared).sum()) / 2 * (1 + 1e-9)

    def stop_loss(self, users: Nodes, *, count: int) -> StopLoss:
        """Of all these people's reports at once."""
        at = law.points(self.largest(users), count=count)
        return StopLoss(at, self.losses(users, at))

    def losses(self, users: Nodes, at: Array) -> Array:
        """The largest stop-loss of these people at given points, the first of them 0."""
        rows = self._rows(users)
        values = law.stop_loss(rows, self.minimum, at) if len(rows) else np.zeros(at.size)
        known = self._moments(users)
        if known is not None:
            values = np.maximum(values, self.floor.stop_loss(known, at))
        values[0] = 1.0
        return np.minimum(values, 1.0)

    def largest_sums(self, users: Nodes) -> Array:
        """At least the sum of the j largest probabilities of anybody among these, for each j.

        On holders of mass a of π, P is at most a + √(χ² a), and at most the highest ratio times a.
        """
        sums = np.zeros(self.n + 1)
        for row in self._rows(users):
            sums[1:] = np.maximum(sums[1:], np.cumsum(np.sort(row)[::-1]))
        known = self._moments(users)
        if known is not None:
            share = np.cumsum(np.sort(self.stationary)[::-1])
            spread = np.minimum(share + np.sqrt(known.variance * share), known.highest * share)
            sums[1:] = np.maximum(sums[1:], spread * (1 + 1e-9))
        sums[1:] = np.minimum(sums[1:] * (1 + kernels.growth(self.n)), 1.0)
        sums[-1] = 1.0
        return sums

    def largest(self, users: Nodes) -> float:
        """The largest weight P/μ of these people, where it is finite."""
        common = self.minimum > 0
        if not common.any():
            return 1.0
        heaviest = 1.0
        for row in self._rows(users):
            heaviest = max(heaviest, float((row[common] / self.minimum[common]).max()))
        known = self._moments(users)
        if known is not None:
            heaviest = max(heaviest, known.highest / max(self.floor.least, 1e-3))
        return heaviest

    def uses_laws(self, users: Nodes) -> bool:
        """Whether computed laws, with their rounding, are behind the answer."""
        return bool((self.places[users] >= 0).any())

    def _rows(self, users: Nodes) -> Array:
        places = self.places[users]
        return self.laws[places[places >= 0]]

    def _moments(self, users: Nodes) -> Moments | None:
        others = users[self.places[users] < 0]
        if not others.size:
            return None
        highest = float(self.highest[others].max())
        return Moments(float(self.chi_squared[others].max()), self.floor.least, highest)


def normalised(laws: Array) -> Array:
    """Laws in rows whose sums are 1 again, as rounding may have left them."""
    return np.asarray(laws / laws.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Locations:
    """A process of passing reports on, and how to learn where they are."""

    process: Process
    method: Method = "auto"
    pairs: int = _PAIRS
    randomness: Randomness | None = field(default=None, repr=False)
    _kept: dict[int, Spread] = field(default_factory=dict, init=False, repr=False)
    _computed: dict[int, Refined] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            expected = "'auto', 'exact', 'leading' or 'spectral'"
            raise InvalidArgumentError("method", self.method, expected)
        require_independent(self.process)
        if self.chosen != "exact" and not isinstance(self.process, Walk):
            expected = "method 'exact' for rounds that differ"
            raise InvalidArgumentError("method", self.method, expected)

    @property
    def n(self) -> int:
        """How many people."""
        return self.process.n

    @property
    def chosen(self) -> str:
        """The method used."""
        if self.method != "auto":
            return self.method
        if self.n <= _MOST_EXACT or not isinstance(self.process, Walk):
            return "exact"
        return "leading" if self.n <= _MOST_LEADING else "spectral"

    def after(self, rounds: int) -> Spread:
        """What is known after so many rounds; the last few answers are kept."""
        rounds = round_count(self.process, rounds)
        if rounds not in self._kept:
            while len(self._kept) >= _MOST_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[rounds] = getattr(self, self.chosen)(rounds)
        return self._kept[rounds]

    def eigenpairs(self, count: int) -> Refined:
        """So many leading eigenpairs, or as many as there are, computed once."""
        if count not in self._computed:
            fitting = max(1, min(count, (self.n - 3) // 2 - 1))
            pairs = leading(self._walk, pairs=fitting, randomness=self.randomness)
            self._computed[count] = Refined(self._walk, pairs)
        return self._computed[count]

    def _enough(self, rounds: int) -> Refined:
        """Eigenpairs, more of them where these leave too much open and more would help."""
        pairs = self.eigenpairs(self.pairs)
        if _LEFT_OPEN < pairs.allowance(rounds, self._row_count(rounds)) < _HOPELESS:
            pairs = self.eigenpairs(_MORE * self.pairs)
        return pairs

    @cached_property
    def bound(self) -> SpectralBound:
        """A bound on the eigenvalues, computed once."""
        return spectral_bound(self._walk, randomness=self.randomness)

    @property
    def failure(self) -> float:
        """The probability that any certificate drawn so far fails: they are independent draws."""
        drawn = sum(pairs.failure for pairs in self._computed.values())
        return drawn + (self.bound.failure if "bound" in self.__dict__ else 0.0)

    @property
    def _walk(self) -> Walk:
        if not isinstance(self.process, Walk):
            raise InvalidArgumentError("walk", self.process, "a walk that is the same every round")
        return self.process

    def exact(self, rounds: int) -> Spread:
        """From everybody's law, or from everybody's moments if there are too many laws to keep."""
        if self.n > _MOST_EXACT:
            return self._by_moments(rounds)
        laws, error = _all_laws(self.process, rounds)
        error += kernels.growth(8)
        minimum = laws.min(axis=0)
        minimum = np.where(minimum > _UNDERFLOW, minimum * (1 - error), 0.0)
        laws = normalised(laws)
        # The average law: there where anybody's report can be, and kept by symmetric walks.
        average = laws.mean(axis=0)
        seen = average > 0
        squares = np.square(laws[:, seen] - average[seen]) / average[seen]
        return Spread(
            rounds=rounds,
            minimum=minimum,
            stationary=average,
            chi_squared=squares.sum(axis=1),
            highest=np.full(self.n, np.inf),
            known=np.arange(self.n),
            laws=laws,
            rounding=2 * error + kernels.growth(self.n),
            failure=0.0,
            method="exact",
        )

    def _by_moments(self, rounds: int) -> Spread:
        mixed = mixing.exact_mixing(self.process, rounds)
        rows = _worst(mixed.chi_squared, self._row_count(rounds))
        law = mixed.stationary
        # (P(v)/π_v - 1)² π_v is one term of χ².
        highest = 1 + np.sqrt(mixed.chi_squared / law.min()) * (1 + 1e-9)
        return self._with_rows(mixed, highest, rows)

    def leading(self, rounds: int) -> Spread:
        """From eigenpairs, and the laws of those who are spread worst."""
        pairs = self._enough(rounds)
        chi_squared = pairs.chi_squared(rounds)
        count = self._row_count(rounds)
        rows = np.union1d(_worst(chi_squared, count // 2), _worst(pairs.unseen(rounds), count // 2))
        laws = normalised(moved(self.process, rows, rounds).T)
        law, error = self.process.stationary, self._error(rounds)
        rest = np.setdiff1d(np.arange(self.n), rows)
        lowest, highest = _pairwise(pairs, rounds, rest)
        ratios = np.empty(self.n)
        ratios[rest] = np.minimum(lowest, (laws[:, rest] / law[rest]).min(axis=0) * (1 - error))
        ratios[rows] = (laws / law).min(axis=1) * (1 - error)
        tops = np.full(self.n, np.inf)
        tops[rest] = np.maximum(highest, (laws[:, rest] / law[rest]).max(axis=0) * (1 + error))
        return Spread(
            rounds=rounds,
            minimum=law * np.clip(ratios, 0.0, 1.0) * (1 - kernels.growth(4)),
            stationary=law,
            chi_squared=chi_squared,
            highest=tops,
            known=rows,
            laws=laws,
            rounding=error,
            failure=pairs.failure,
            method="leading",
        )

    def spectral(self, rounds: int) -> Spread:
        """From a bound on the eigenvalues: |P_u(v)/π_v - 1| <= λ^t √((1/π_u - 1)(1/π_v - 1))."""
        mixed = mixing.spectral_mixing(self._walk, self.bound, rounds)
        law = mixed.stationary
        spread = (1 / law - 1) * (1 + kernels.growth(8))
        highest = 1 + self.bound.decay(rounds) * np.sqrt(spread * spread.max()) * (1 + 1e-9)
        none = np.empty(0, dtype=np.int64)
        return self._with_rows(mixed, highest, none)

    def _with_rows(self, mixed: mixing.Mixing, highest: Array, rows: Nodes) -> Spread:
        laws = moved(self.process, rows, mixed.rounds).T if rows.size else np.empty((0, self.n))
        return Spread(
            rounds=mixed.rounds,
            minimum=mixed.minimum,
            stationary=mixed.stationary,
            chi_squared=mixed.chi_squared,
            highest=highest,
            known=rows,
            laws=normalised(laws) if rows.size else laws,
            rounding=self._error(mixed.rounds) if rows.size else 0.0,
            failure=mixed.failure,
            method=mixed.method,
        )

    def _error(self, rounds: int) -> float:
        """The relative error of a computed law, after its sum was made 1 again."""
        return 2 * self.process.rounding(rounds) + kernels.growth(self.n + 16)

    def _row_count(self, rounds: int) -> int:
        work = _ROW_WORK / (max(rounds, 1) * 2 * self._entries)
        return int(min(np.clip(work, _FEWEST_ROWS, _MOST_ROWS), self.n // 2))

    @property
    def _entries(self) -> int:
        return self.process.transitions.nnz if isinstance(self.process, Walk) else 16 * self.n


def require_independent(process: Process) -> None:
    """Reports that wait together are independent only given who was there."""
    if isinstance(process, Walk) and process.online < 1:
        expected = "online=1 (reports wait together: account given who was there, Absences)"
        raise InvalidArgumentError("online", process.online, expected)


def _worst(chi_squared: Array, count: int) -> Nodes:
    return np.sort(np.argpartition(-chi_squared, count - 1)[:count])


def _all_laws(process: Process, rounds: int) -> tuple[Array, float]:
    """Everybody's law, one a row, and their relative error."""
    n = process.n
    if isinstance(process, Walk):
        sparse = float(process.transitions.nnz) * rounds
        dense = 2.0 * n * n * max(rounds.bit_length(), 1) / _DENSE_SPEED
        if rounds > 1 and dense < sparse:
            power, roundings = _power(process.transitions.toarray(), rounds, process.roundings)
            return power, kernels.growth(roundings)
    return moved(process, np.arange(n), rounds).T, process.rounding(rounds)


def _power(matrix: Array, exponent: int, roundings: float) -> tuple[Array, float]:
    """A power by squaring, and how many roundings are in each entry: a product of sums adds n."""
    result, counted = None, 0.0
    while True:
        if exponent & 1:
            result, counted = (
                (matrix, roundings)
                if result is None
                else (result @ matrix, counted + roundings + len(matrix))
            )
        exponent >>= 1
        if not exponent:
            break
        matrix, roundings = matrix @ matrix, 2 * roundings + len(matrix)
    return (result if result is not None else np.eye(len(matrix))), counted


def _pairwise(pairs: Refined, rounds: int, nodes: Nodes) -> tuple[Array, Array]:
    """For each of these nodes, bounds on P_u(v)/π_v over all u among them, from both sides.

    The upper bound is the lower one and twice its allowance for what the eigenpairs leave out;
    the two last columns of the factors are that allowance.
    """
    left, right = (np.ascontiguousarray(factor[nodes]) for factor in pairs.factors(rounds))
    allowance = -left[:, -2] * right[:, -2].max() - left[:, -1] * right[:, -1].max()
    low, high = np.empty(len(nodes)), np.empty(len(nodes))
    width = max(1, _BLOCK // len(nodes))
    transposed = np.ascontiguousarray(right.T)
    for first in range(0, len(nodes), width):
        part = slice(first, first + width)
        ratios = left[part] @ transposed
        low[part], high[part] = ratios.min(axis=1), ratios.max(axis=1)
    down = 1 - kernels.growth(8)
    return np.maximum(low, 0.0) * down, (high + 2 * allowance) * (1 + 1e-9)
