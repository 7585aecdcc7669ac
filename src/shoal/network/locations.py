"""Where everybody's report may be after some rounds, as far as it is known.

Of some people the law of the holder is computed, of the others only moments are known: their
χ² = Σ (P/π - 1)² π, and bounds on P/π. Either way there is a stop-loss function for any group of
people, and so one law that covers them all. There are three ways to find out:

- ``exact``: everybody's law, for up to a few thousand people, and for any process;
- ``leading``: eigenpairs say who is spread worst; these people's laws are computed, the others'
  moments bounded. A walk is reversible, P_u(v)/π_v = P_v(u)/π_u, so that the law of v's report
  also says exactly how little of anybody's is with v;
- ``spectral``: a bound on the eigenvalues alone, for millions of people.

**How well a walk has mixed**: numbers for each origin, rounded to the safe side.

For the law P_u of the holder of u's report and the stationary law π:

- χ²_u = Σ_v P_u(v)²/π_v - 1;
- separation: the largest 1 - P_u(v)/π_v;
- collision: Σ_v P_u(v)², the probability that two reports from u meet;
- the joint minimum μ(v) = min_u P_u(v), what all holders have in common.

Two ways to them: exactly, by moving every origin's law on (small graphs, and any process); and from
a bound λ on the eigenvalues (any size),

    χ²_u <= (1/π_u - 1) λ^(2t),   P_u(v)/π_v >= 1 - λ^t √((1/π_u - 1)(1/π_v - 1)).

Leading eigenpairs (:func:`shoal.network.spectrum.leading`) say far more than λ alone where few
eigenvalues are large. In any case Σ_v P_u(v)² <= (‖π‖_2 + √(max π · χ²_u))²: the form
Σ π_v² + λ^(2t) that has been published for graphs of any degrees holds for regular graphs only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.network import law
from shoal.network.graph import Nodes, node_numbers
from shoal.network.law import Floor, Moments, StopLoss
from shoal.network.spectrum import Leading, SpectralBound, leading, spectral_bound
from shoal.network.walk import Process, Progress, Walk, growth, round_count
from shoal.randomness import Randomness
from shoal.values import Array, attributes

Method = Literal["auto", "exact", "leading", "spectral"]

_MOST_EXACT = 2500
_MOST_LEADING = 60_000  # n² products of a few dozen terms: minutes beyond
_PAIRS = 24
_MORE = 72  # if need be
_LEFT_OPEN, _HOPELESS = 0.25, 1e3  # of P_u(v)/π_v, which should be near 1
_ROW_WORK = 2e9  # products for laws computed exactly
_FEWEST_ROWS, _MOST_ROWS = 16, 96
_BLOCK = 1 << 22  # probabilities computed together
_UNDERFLOW = 1e-290  # below, products round to multiples of a number and not relatively
_MOST_TOGETHER = 64  # columns; more of them leave the cache
_MOST_SPREADS = 3  # remembered
_DENSE_SPEED = 12  # how much faster a dense product is, per term, than a sparse one


@dataclass(frozen=True, eq=False)
class Mixing:
    """Upper bounds for each of ``origins``, and a lower bound on what they have in common."""

    rounds: int
    origins: Nodes
    stationary: Array
    chi_squared: Array
    separation: Array
    minimum: Array  # μ(v) for every node v
    method: str
    failure: float = 0.0  # the probability that a bound does not hold; part of δ

    @property
    def collision(self) -> Array:
        """Σ_v P_u(v)² <= (‖π‖ + √(max π χ²))² and <= max π (1 + χ²), for each origin."""
        largest, chi_squared = float(self.stationary.max()), self.chi_squared
        norm = float(np.linalg.norm(self.stationary))
        either = np.minimum(
            np.square(norm + np.sqrt(largest * chi_squared)), largest * (1 + chi_squared)
        )
        return np.minimum(either * (1 + growth(self.stationary.size + 16)), 1.0)

    @property
    def overlap(self) -> float:
        """Σ_v μ(v): how much the laws of all origins have in common."""
        return float(self.minimum.sum() * (1 - growth(self.minimum.size)))


def lowered(minimum: Array, relative: float) -> Array:
    """What laws with this relative error have in common at least."""
    return np.where(minimum > _UNDERFLOW, minimum * (1 - relative), 0.0)


def exact_mixing(
    process: Process,
    rounds: int,
    *,
    origins: npt.ArrayLike | None = None,
    progress: Progress | None = None,
) -> Mixing:
    """How close everybody's law is to everybody else's after some rounds, exactly.

    Every origin's law is moved on, a block at a time: time n · rounds · edges, memory
    of one block.

    Args:
        process: How reports are passed on.
        rounds: How often, at least 0.
        origins: The people looked at; the minimum too is over them alone. None for
            everybody.
        progress: Called with the origins done and all.

    Returns:
        For each origin, upper bounds on χ² to the stationary law and on the separation,
        and a lower bound ``minimum`` on what all have in common.

    Raises:
        InvalidArgumentError: A number of rounds or an origin that there is not.

    References:
        :doc:`/theory/network`.

    Example:
        >>> from shoal import network
        >>> walk = network.Walk(network.complete(10))
        >>> bool(network.exact_mixing(walk, 1).separation.max() < 1e-12)
        True
    """
    rounds, n = round_count(process, rounds), process.n
    starts = np.arange(n) if origins is None else node_numbers(origins, n, name="origins")
    checks.refuse(not starts.size, "at least one origin", origins=origins)
    law, minimum = process.stationary, np.full(n, np.inf)
    chi_squared, least = np.empty(len(starts)), np.empty(len(starts))
    width = max(1, min(_MOST_TOGETHER, _BLOCK // n))
    for first in range(0, len(starts), width):
        part = slice(first, min(first + width, len(starts)))
        laws = process.positions(starts[part], rounds).T
        ratios = laws / law[:, None]
        least[part] = ratios.min(axis=0)
        np.minimum(minimum, laws.min(axis=1), out=minimum)
        ratios -= 1
        # Σ π (P/π - 1)² keeps its digits when it is small; Σ P²/π - 1 would not.
        chi_squared[part] = np.einsum("v,vu,vu->u", law, ratios, ratios)
        if progress is not None:
            progress(part.stop, len(starts))
    relative = process.rounding(rounds) + growth(8)
    # In the norm of χ, the error is at most ``relative`` times that of P: √(1 + χ²).
    sums = np.sqrt(chi_squared) * (1 + growth(n + 8))
    roots = (sums + 2 * relative) / (1 - 2 * relative)
    chi_squared = np.square(roots) * (1 + growth(4))
    separation = np.clip(1 - least * (1 - relative), 0.0, 1.0)
    known = law, chi_squared, separation, lowered(minimum, relative)
    return Mixing(rounds, starts, *known, "exact")


def spectral_mixing(walk: Walk, bound: SpectralBound, rounds: int) -> Mixing:
    """Like :func:`shoal.network.exact_mixing`, from a bound on the eigenvalues alone.

    Args:
        walk: A walk that is the same every round.
        bound: What :func:`shoal.network.spectral_bound` proved of it.
        rounds: How often reports are passed on, at least 0.

    Returns:
        Upper bounds for everybody, which fail with probability ``bound.failure`` at
        most.

    Raises:
        InvalidArgumentError: ``rounds`` is out of its range.

    References:
        :doc:`/theory/network`.

    Example:
        >>> from shoal import network
        >>> walk = network.Walk(network.random_regular(100, 10))
        >>> bound = network.spectral_bound(walk)
        >>> bool(network.spectral_mixing(walk, bound, 30).separation.max() < 1e-3)
        True
    """
    rounds, law, up = checks.count(0, rounds=rounds), walk.stationary, 1 + growth(8)
    spread = (1 / law - 1) * up
    separation = np.minimum(bound.decay(rounds) * np.sqrt(spread * float(spread.max())) * up, 1.0)
    everybody, chi_squared = np.arange(walk.n), spread * bound.decay(2 * rounds) * up
    known = law, chi_squared, separation, law * (1 - separation) * (1 - growth(8))
    return Mixing(rounds, everybody, *known, "spectral", bound.failure)


@dataclass(frozen=True, eq=False)
class Spread:
    """What is known after some rounds.

    ``laws`` are those of the people in ``known``, one a row, each with a relative error of at most
    ``rounding``. Of everybody, ``chi_squared`` and ``highest`` (of P/π) are upper bounds, unless
    everybody is known. ``minimum`` is at most everybody's P(v). All of it holds but for a
    probability ``failure``.
    """

    minimum: Array
    stationary: Array
    chi_squared: Array
    highest: Array
    known: Nodes
    laws: Array = field(repr=False)
    rounding: float
    failure: float = 0.0

    @classmethod
    def of_laws(cls, laws: Array, minimum: Array, rounding: float) -> Spread:
        """Everybody's law is known."""
        # The average law: there where anybody's report can be, and kept by symmetric walks.
        average = laws.mean(axis=0)
        seen = average > 0
        squares = np.square(laws[:, seen] - average[seen]) / average[seen]
        known, highest = np.arange(len(laws)), np.full(len(laws), np.inf)
        return cls(minimum, average, squares.sum(axis=1), highest, known, laws, rounding)

    @property
    def n(self) -> int:
        """How many people."""
        return len(self.minimum)

    @cached_property
    def order(self) -> Nodes:
        """Everybody, those whose reports are spread best first."""
        return np.argsort(self.chi_squared, kind="stable")

    @cached_property
    def _places(self) -> Nodes:
        """Where somebody's law is in ``laws``; -1 if it is not."""
        rows = np.full(self.n, -1)
        rows[self.known] = np.arange(len(self.known))
        return rows

    @cached_property
    def floor(self) -> Floor:
        """How far the common part is below the stationary law."""
        return Floor(self.minimum, self.stationary)

    def group(self, *, quantile: float = 1.0, user: int | None = None) -> Nodes:
        """One person, or the fraction ``quantile`` of all whose reports are spread best."""
        if user is not None:
            return node_numbers([user], self.n, name="user")
        checks.fraction(quantile=quantile)
        return self.order[: max(1, math.ceil(quantile * self.n * (1 - 1e-12)))]

    def total_variation(self) -> float:
        """Σ_u TV(P_u, π) <= Σ_u √χ²_u / 2, rounded up."""
        return float(np.sqrt(self.chi_squared).sum()) / 2 * (1 + 1e-9)

    def stop_loss(self, users: Nodes, *, count: int) -> StopLoss:
        """Of all these people's reports at once."""
        rows, moments = self._known_of(users)
        heaviest, common = 1.0, self.minimum > 0  # weights P/μ, where they are finite
        if common.any():
            for row in rows:
                heaviest = max(heaviest, float((row[common] / self.minimum[common]).max()))
            if moments is not None:
                heaviest = max(heaviest, moments.highest / max(self.floor.least, 1e-3))
        at = law.points(heaviest, count=count)
        return StopLoss(at, self.losses(users, at))

    def losses(self, users: Nodes, at: Array) -> Array:
        """The largest stop-loss of these people at some points, the first of them 0."""
        rows, moments = self._known_of(users)
        values = law.stop_loss(rows, self.minimum, at) if len(rows) else np.zeros(at.size)
        if moments is not None:
            values = np.maximum(values, self.floor.stop_loss(moments, at))
        values[0] = 1.0
        return np.minimum(values, 1.0)

    def largest_sums(self, users: Nodes) -> Array:
        """At least the sum of the j largest probabilities of anybody among these, for each j.

        On holders of mass a of π, P is at most a + √(χ² a), and at most the highest ratio times a.
        """
        (rows, moments), sums = self._known_of(users), np.zeros(self.n + 1)
        for row in rows:
            sums[1:] = np.maximum(sums[1:], np.cumsum(np.sort(row)[::-1]))
        if moments is not None:
            mass = np.cumsum(np.sort(self.stationary)[::-1])
            spread = np.minimum(mass + np.sqrt(moments.variance * mass), moments.highest * mass)
            sums[1:] = np.maximum(sums[1:], spread * (1 + 1e-9))
        sums[1:] = np.minimum(sums[1:] * (1 + growth(self.n)), 1.0)
        sums[-1] = 1.0
        return sums

    def rounding_of(self, users: Nodes) -> float:
        """The error of the laws behind the answer, if any of these people's are computed."""
        return self.rounding if (self._places[users] >= 0).any() else 0.0

    def _known_of(self, users: Nodes) -> tuple[Array, Moments | None]:
        """The laws of those whose are computed, and moments that cover the others."""
        places = self._places[users]
        rows, others = self.laws[places[places >= 0]], users[places < 0]
        if not others.size:
            return rows, None
        variance, highest = self.chi_squared[others].max(), self.highest[others].max()
        return rows, Moments(float(variance), self.floor.least, float(highest))


def normalised(laws: Array) -> Array:
    """Laws in rows whose sums are 1 again, as rounding may have left them."""
    return np.asarray(laws / laws.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Locations:
    """A process of passing reports on, and how it is learned where they are.

    Args:
        process: How reports are passed on.
        method: "exact", "leading", "spectral", or "auto" by the size of the graph.
        randomness: For certificates that are drawn; None is secure.

    Raises:
        InvalidArgumentError: A method that the process does not allow.

    Example:
        >>> from shoal import network
        >>> network.Locations(network.Walk(network.complete(10))).chosen
        'exact'
    """

    process: Process
    method: Method = "auto"
    randomness: Randomness | None = field(default=None, repr=False)
    _computed: dict[int, Leading] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        checks.one_of(get_args(Method), method=self.method)
        if isinstance(self.process, Walk):
            # Reports that wait together are independent only given who was there.
            expected = "online=1 (reports wait together: account given who was there, Absences)"
            checks.refuse(self.process.online < 1, expected, online=self.process.online)
        else:
            expected = "method 'exact' for rounds that differ"
            checks.refuse(self.chosen != "exact", expected, method=self.method)

    @property
    def chosen(self) -> str:
        """The method used."""
        if self.method != "auto":
            return self.method
        if self.process.n <= _MOST_EXACT or not isinstance(self.process, Walk):
            return "exact"
        return "leading" if self.process.n <= _MOST_LEADING else "spectral"

    def after(self, rounds: int) -> Spread:
        """What is known after so many rounds; the last few answers are remembered."""
        return self._spread(round_count(self.process, rounds))

    @cached_property
    def _spread(self) -> Callable[[int], Spread]:
        return lru_cache(_MOST_SPREADS)(getattr(self, self.chosen))

    @property
    def failure(self) -> float:
        """The probability that any certificate drawn so far fails: they are independent draws."""
        drawn = sum(pairs.failure for pairs in self._computed.values())
        return drawn + (self.bound.failure if "bound" in self.__dict__ else 0.0)

    @cached_property
    def bound(self) -> SpectralBound:
        """A bound on the eigenvalues, computed once."""
        return spectral_bound(self._walk, randomness=self.randomness)

    @property
    def _walk(self) -> Walk:
        return cast("Walk", self.process)

    def exact(self, rounds: int) -> Spread:
        """From everybody's law, or from everybody's moments if there are too many laws to keep."""
        if self.process.n > _MOST_EXACT:
            mixed = exact_mixing(self.process, rounds)
            rows = _worst(mixed.chi_squared, self._row_count(rounds))
            # (P(v)/π_v - 1)² π_v is one term of χ².
            highest = 1 + np.sqrt(mixed.chi_squared / mixed.stationary.min()) * (1 + 1e-9)
            return self._with_rows(mixed, highest, rows)
        laws, error = _all_laws(self.process, rounds)
        error += growth(8)
        minimum = lowered(laws.min(axis=0), error)
        return Spread.of_laws(normalised(laws), minimum, 2 * error + growth(self.process.n))

    def leading(self, rounds: int) -> Spread:
        """From eigenpairs, and the laws of those who are spread worst."""
        count = self._row_count(rounds)
        pairs = self._eigenpairs(_PAIRS)
        if _LEFT_OPEN < pairs.allowance(rounds, count) < _HOPELESS:
            pairs = self._eigenpairs(_MORE)  # they would help
        chi_squared = pairs.chi_squared(rounds)
        rows = np.union1d(_worst(chi_squared, count // 2), _worst(pairs.unseen(rounds), count // 2))
        laws = normalised(self.process.positions(rows, rounds))
        law, error = self.process.stationary, self._error(rounds)
        rest = np.setdiff1d(np.arange(self.process.n), rows)
        lowest, highest = _pairwise(pairs, rounds, rest)
        ratios = np.empty(self.process.n)
        ratios[rest] = np.minimum(lowest, (laws[:, rest] / law[rest]).min(axis=0) * (1 - error))
        ratios[rows] = (laws / law).min(axis=1) * (1 - error)
        tops = np.full(self.process.n, np.inf)
        tops[rest] = np.maximum(highest, (laws[:, rest] / law[rest]).max(axis=0) * (1 + error))
        minimum = law * np.clip(ratios, 0.0, 1.0) * (1 - growth(4))
        return Spread(minimum, law, chi_squared, tops, rows, laws, error, pairs.failure)

    def _eigenpairs(self, count: int) -> Leading:
        """So many leading eigenpairs, or as many as there are, computed once."""
        if count not in self._computed:
            fitting = max(1, min(count, (self.process.n - 3) // 2 - 1))
            self._computed[count] = leading(self._walk, pairs=fitting, randomness=self.randomness)
        return self._computed[count]

    def spectral(self, rounds: int) -> Spread:
        """From a bound on the eigenvalues: |P_u(v)/π_v - 1| <= λ^t √((1/π_u - 1)(1/π_v - 1))."""
        mixed = spectral_mixing(self._walk, self.bound, rounds)
        spread = (1 / mixed.stationary - 1) * (1 + growth(8))
        highest = 1 + self.bound.decay(rounds) * np.sqrt(spread * spread.max()) * (1 + 1e-9)
        return self._with_rows(mixed, highest, np.empty(0, dtype=np.int64))

    def _with_rows(self, mixed: Mixing, highest: Array, rows: Nodes) -> Spread:
        laws, rounding = np.empty((0, self.process.n)), 0.0
        if rows.size:
            laws = normalised(self.process.positions(rows, mixed.rounds))
            rounding = self._error(mixed.rounds)
        known = attributes(mixed, "minimum", "stationary", "chi_squared", "failure")
        return Spread(highest=highest, known=rows, laws=laws, rounding=rounding, **known)

    def _error(self, rounds: int) -> float:
        """The relative error of a computed law, after its sum was made 1 again."""
        return 2 * self.process.rounding(rounds) + growth(self.process.n + 16)

    def _row_count(self, rounds: int) -> int:
        walk = self.process
        entries = walk.transitions.nnz if isinstance(walk, Walk) else 16 * self.process.n
        work = _ROW_WORK / (max(rounds, 1) * 2 * entries)
        return int(min(np.clip(work, _FEWEST_ROWS, _MOST_ROWS), self.process.n // 2))


def _worst(chi_squared: Array, count: int) -> Nodes:
    return np.sort(np.argpartition(-chi_squared, count - 1)[:count])


def _all_laws(process: Process, rounds: int) -> tuple[Array, float]:
    """Everybody's law, one a row, and their relative error."""
    n = process.n
    if isinstance(process, Walk) and rounds > 1:
        sparse = float(process.transitions.nnz) * rounds
        if 2.0 * n * n * rounds.bit_length() / _DENSE_SPEED < sparse:
            # A product of sums adds n roundings.
            roundings = process.roundings(rounds) + (rounds - 1) * n
            power = np.linalg.matrix_power(process.transitions.toarray(), rounds)
            return power, growth(roundings)
    return process.positions(np.arange(n), rounds), process.rounding(rounds)


def _pairwise(pairs: Leading, rounds: int, nodes: Nodes) -> tuple[Array, Array]:
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
    down = 1 - growth(8)
    return np.maximum(low, 0.0) * down, (high + 2 * allowance) * (1 + 1e-9)
