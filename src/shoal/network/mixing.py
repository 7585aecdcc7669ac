"""How well a walk has mixed after t rounds: numbers for each origin, rounded to the safe side.

For the law P_u of the holder of u's report and the stationary law π:

- χ²_u = Σ_v P_u(v)²/π_v - 1;
- separation: the largest 1 - P_u(v)/π_v;
- collision: Σ_v P_u(v)², the probability that two reports from u meet;
- the joint minimum μ(v) = min_u P_u(v), what all holders have in common.

Three ways to them: exactly, by moving every origin's law on (small graphs, and any process); from
a bound λ on the eigenvalues (any size),

    χ²_u <= (1/π_u - 1) λ^(2t),   P_u(v)/π_v >= 1 - λ^t √((1/π_u - 1)(1/π_v - 1));

and from leading eigenpairs, far better than λ alone where few eigenvalues are large. In all three
Σ_v P_u(v)² <= (‖π‖_2 + √(max π · χ²_u))²: the form Σ π_v² + λ^(2t) that has been published for
graphs of any degrees holds for regular graphs only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.network import kernels
from shoal.network.eigenpairs import Leading
from shoal.network.graph import Nodes, node_numbers
from shoal.network.spectrum import SpectralBound
from shoal.network.walk import Process, Progress, Walk, round_count
from shoal.values import Array

_BLOCK_ENTRIES = 1 << 22  # of the laws moved on together
_UNDERFLOW = 1e-290  # below, products round to multiples of a number and not relatively
_MOST_TOGETHER = 64  # columns; more of them leave the cache


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
        return np.minimum(either * (1 + kernels.growth(self.stationary.size + 16)), 1.0)

    @property
    def overlap(self) -> float:
        """Σ_v μ(v): how much the laws of all origins have in common."""
        return float(self.minimum.sum() * (1 - kernels.growth(self.minimum.size)))

    @property
    def retained(self) -> float:
        """The smallest μ(v)/π_v."""
        return float((self.minimum / self.stationary).min() * (1 - kernels.growth(2)))

    def weights(self, law: Array, *, rounding: float) -> Weights:
        """One origin's law relative to the joint minimum; ``rounding`` is the law's own error."""
        common = self.minimum > 0
        masses = self.minimum[common]
        outside = float(law[~common].sum()) * (1 + rounding + kernels.growth(law.size))
        return Weights(masses, law[common] / masses, outside, rounding + kernels.growth(2))


@dataclass(frozen=True, eq=False)
class Weights:
    """W(v) = P_u(v)/μ(v) where μ(v) > 0, up to the relative error ``rounding``.

    ``lost`` is at least the probability that the report is where some other never comes.
    """

    masses: Array
    values: Array
    lost: float
    rounding: float


def exact_mixing(
    process: Process,
    rounds: int,
    *,
    origins: npt.ArrayLike | None = None,
    progress: Progress | None = None,
) -> Mixing:
    """Every origin's law, moved on a block at a time: time n · t · edges, memory of one block.

    With ``origins`` only these people are looked at, the minimum too is over them alone.
    """
    return exact_mixings(process, [rounds], origins=origins, progress=progress)[0]


def exact_mixings(
    process: Process,
    rounds: Sequence[int],
    *,
    origins: npt.ArrayLike | None = None,
    progress: Progress | None = None,
) -> tuple[Mixing, ...]:
    """The same after several numbers of rounds, in one pass."""
    wanted = sorted({round_count(process, each) for each in rounds})
    if not wanted:
        raise InvalidArgumentError("rounds", list(rounds), "at least one number of rounds")
    starts = _starts(process, origins)
    tallies = {after: _Tally(process, starts, after) for after in wanted}
    for part in _parts(process, starts, progress):
        for after, laws in _stages(process, starts[part], wanted):
            tallies[after].add(part, laws)
    return tuple(tallies[int(each)].result() for each in rounds)


def joint_minimum(
    process: Process,
    rounds: int,
    *,
    origins: npt.ArrayLike | None = None,
    progress: Progress | None = None,
) -> Array:
    """μ(v) = min_u P_u(v), rounded down; also for graphs that change and keep no law."""
    wanted, starts = [round_count(process, rounds)], _starts(process, origins)
    minimum = np.full(process.n, np.inf)
    for part in _parts(process, starts, progress):
        for _, laws in _stages(process, starts[part], wanted):
            np.minimum(minimum, laws.min(axis=1), out=minimum)
    return _lowered(minimum, process.rounding(rounds) + kernels.growth(2))


def _starts(process: Process, origins: npt.ArrayLike | None) -> Nodes:
    if origins is None:
        return np.arange(process.n)
    starts = node_numbers(origins, process.n, name="origins")
    if not starts.size:
        raise InvalidArgumentError("origins", origins, "at least one origin")
    return starts


def _parts(process: Process, starts: Nodes, progress: Progress | None) -> Iterator[slice]:
    """Slices of the origins whose laws are moved on together."""
    width = max(1, min(_MOST_TOGETHER, _BLOCK_ENTRIES // process.n))
    for first in range(0, len(starts), width):
        part = slice(first, min(first + width, len(starts)))
        yield part
        if progress is not None:
            progress(part.stop, len(starts))


def _lowered(minimum: Array, relative: float) -> Array:
    return np.where(minimum > _UNDERFLOW, minimum * (1 - relative), 0.0)


def _stages(process: Process, starts: Nodes, wanted: Sequence[int]) -> Iterator[tuple[int, Array]]:
    laws = np.zeros((process.n, len(starts)))
    laws[starts, np.arange(len(starts))] = 1.0
    done = 0
    for after in wanted:
        while done < after:
            laws = process.advance(laws, done)
            done += 1
        yield after, laws


class _Tally:
    """Collects what is asked about laws after one number of rounds."""

    def __init__(self, process: Process, origins: Nodes, rounds: int) -> None:
        self._rounds, self._origins, self._stationary = rounds, origins, process.stationary
        self._error = process.rounding(rounds)
        self._chi_squared = np.empty(len(origins))
        self._least = np.empty(len(origins))
        self._minimum = np.full(process.n, np.inf)

    def add(self, part: slice, laws: Array) -> None:
        ratios = laws / self._stationary[:, None]
        self._least[part] = ratios.min(axis=0)
        np.minimum(self._minimum, laws.min(axis=1), out=self._minimum)
        ratios -= 1
        # Σ π (P/π - 1)² keeps its digits when it is small; Σ P²/π - 1 would not.
        self._chi_squared[part] = np.einsum("v,vu,vu->u", self._stationary, ratios, ratios)

    def result(self) -> Mixing:
        relative = self._error + kernels.growth(8)
        # In the norm of χ, the error is at most ``relative`` times that of P: √(1 + χ²).
        sums = np.sqrt(self._chi_squared) * (1 + kernels.growth(self._minimum.size + 8))
        roots = (sums + 2 * relative) / (1 - 2 * relative)
        return Mixing(
            rounds=self._rounds,
            origins=self._origins,
            stationary=self._stationary,
            chi_squared=np.square(roots) * (1 + kernels.growth(4)),
            separation=np.clip(1 - self._least * (1 - relative), 0.0, 1.0),
            minimum=_lowered(self._minimum, relative),
            method="exact",
        )


def spectral_mixing(walk: Walk, bound: SpectralBound, rounds: int) -> Mixing:
    """What a bound on the eigenvalues says about everybody."""
    return _from_decay(walk.stationary, bound, checks.count(0, rounds=rounds))


def _from_decay(law: Array, bound: SpectralBound, rounds: int) -> Mixing:
    decay = bound.decay(rounds)
    spread = (1 / law - 1) * (1 + kernels.growth(8))
    worst = float(spread.max())
    up = 1 + kernels.growth(8)
    separation = np.minimum(decay * np.sqrt(spread * worst) * up, 1.0)
    return Mixing(
        rounds=rounds,
        origins=np.arange(len(law)),
        stationary=law,
        chi_squared=spread * bound.decay(2 * rounds) * up,
        separation=separation,
        minimum=law * (1 - separation) * (1 - kernels.growth(8)),
        method="spectral",
        failure=bound.failure,
    )


def leading_mixing(pairs: Leading, rounds: int, *, progress: Progress | None = None) -> Mixing:
    """What leading eigenpairs and a bound on the rest say about everybody: time n² · pairs."""
    left, right = pairs.factors(rounds)
    n, transposed = len(left), np.ascontiguousarray(right.T)
    width = max(1, _BLOCK_ENTRIES // n)
    least, common = np.empty(n), np.full(n, np.inf)
    for first in range(0, n, width):
        ratios = left[first : first + width] @ transposed
        least[first : first + width] = ratios.min(axis=1)
        np.minimum(common, ratios.min(axis=0), out=common)
        if progress is not None:
            progress(min(first + width, n), n)
    down = 1 - kernels.growth(8)
    return Mixing(
        rounds=rounds,
        origins=np.arange(n),
        stationary=pairs.stationary,
        chi_squared=pairs.chi_squared(rounds),
        separation=np.clip(1 - np.maximum(least, 0.0) * down, 0.0, 1.0),
        minimum=pairs.stationary * np.clip(common, 0.0, 1.0) * down,
        method="leading",
        failure=pairs.failure,
    )
