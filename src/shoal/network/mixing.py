"""How well a walk has mixed after t rounds: numbers for each origin, rounded to the safe side.

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

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.network.graph import Nodes, node_numbers
from shoal.network.spectrum import SpectralBound
from shoal.network.walk import Process, Progress, Walk, growth, moved, round_count
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
        return np.minimum(either * (1 + growth(self.stationary.size + 16)), 1.0)

    @property
    def overlap(self) -> float:
        """Σ_v μ(v): how much the laws of all origins have in common."""
        return float(self.minimum.sum() * (1 - growth(self.minimum.size)))

    @property
    def retained(self) -> float:
        """The smallest μ(v)/π_v."""
        return float((self.minimum / self.stationary).min() * (1 - growth(2)))


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
    """Every origin's law, moved on a block at a time: time n · t · edges, memory of one block.

    With ``origins`` only these people are looked at, the minimum too is over them alone.
    """
    rounds, n = round_count(process, rounds), process.n
    starts = np.arange(n) if origins is None else node_numbers(origins, n, name="origins")
    if not starts.size:
        raise InvalidArgumentError("origins", origins, "at least one origin")
    law, minimum = process.stationary, np.full(n, np.inf)
    chi_squared, least = np.empty(len(starts)), np.empty(len(starts))
    width = max(1, min(_MOST_TOGETHER, _BLOCK_ENTRIES // n))
    for first in range(0, len(starts), width):
        part = slice(first, min(first + width, len(starts)))
        laws = moved(process, starts[part], rounds)
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
    return Mixing(
        rounds=rounds,
        origins=starts,
        stationary=law,
        chi_squared=np.square(roots) * (1 + growth(4)),
        separation=np.clip(1 - least * (1 - relative), 0.0, 1.0),
        minimum=lowered(minimum, relative),
        method="exact",
    )


def spectral_mixing(walk: Walk, bound: SpectralBound, rounds: int) -> Mixing:
    """What a bound on the eigenvalues says about everybody."""
    rounds, law, up = checks.count(0, rounds=rounds), walk.stationary, 1 + growth(8)
    spread = (1 / law - 1) * up
    separation = np.minimum(bound.decay(rounds) * np.sqrt(spread * float(spread.max())) * up, 1.0)
    return Mixing(
        rounds=rounds,
        origins=np.arange(walk.n),
        stationary=law,
        chi_squared=spread * bound.decay(2 * rounds) * up,
        separation=separation,
        minimum=law * (1 - separation) * (1 - growth(8)),
        method="spectral",
        failure=bound.failure,
    )
