"""Walks on a graph: where a report is after some rounds.

Each round a report goes to a random neighbour of its holder. The *simple* walk picks one of all
neighbours alike and keeps π proportional to the degree; the *lazy* one stays put with probability
``stay`` first, which cures bipartite graphs and costs a factor 1/(1 - stay) of rounds; the
*Metropolis-Hastings* one refuses some steps so that π is uniform.

Who is offline neither sends nor receives: the neighbour is chosen among ALL neighbours, and the
report stays put if either end is offline. Then each round's kernel is symmetric with respect to π
whoever is there, and π is kept; choosing among those online would not keep it.

Every entry of a kernel is a sum of positive terms: no difference of nearly equal numbers, so that
the relative error of a law after t rounds is at most t times that of one.

>>> from shoal.network.generators import complete
>>> Walk(complete(4)).position(0, rounds=1).tolist()
[0.25, 0.25, 0.25, 0.25]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, diags_array

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.network.graph import Graph, node_numbers
from shoal.randomness import Randomness, secure
from shoal.values import Array

Kind = Literal["simple", "lazy", "metropolis"]
Submit = Literal["all", "single"]  # of the reports that a holder has in the end
Progress = Callable[[int, int], None]  # how much is done, and of how much

UNIT = 2.0**-53  # the relative error of one rounding
_ROUNDINGS = 8  # of an entry of a kernel that is not a sum
_ABSENT = 4  # roundings more: the stay is a sum, a product, and added to what arrives
_METROPOLIS_NOTE = (
    "Metropolis-Hastings makes loads even, not reports more private, and mixes far more "
    "slowly than the simple walk where degrees differ"
)
_ONLINE_NOTE = (
    "with random absences, reports with the same holder wait together: account for them "
    "given who was online (Absences), not with the law of one report averaged over absences"
)


def growth(roundings: float) -> float:
    """(1 + u)^k - 1 for k roundings, rounded up."""
    return float(np.expm1(roundings * UNIT * (1 + 1e-9)) * (1 + 1e-9))


def longest_row(kernel: csr_array) -> int:
    """The largest number of terms in a sum."""
    return int(np.diff(kernel.indptr).max())


def without_diagonal(kernel: csr_array) -> tuple[csr_array, Array]:
    """The steps that lead elsewhere, and the probabilities of staying."""
    rows = np.repeat(np.arange(kernel.shape[0]), np.diff(kernel.indptr))
    moves = kernel.copy()
    moves.data[kernel.indices == rows] = 0.0
    moves.eliminate_zeros()
    return moves, kernel.diagonal()


class Process(ABC):
    """Anything that moves laws of holders on, a round at a time."""

    n: int  # nodes
    longest: int | None = None  # how many rounds it can go, if not any number

    @property
    @abstractmethod
    def stationary(self) -> Array:
        """The law it keeps."""

    @abstractmethod
    def advance(self, laws: Array, at: int) -> Array:
        """Laws in columns, moved on by the round numbered ``at``, from 0."""

    @abstractmethod
    def roundings(self, rounds: int) -> int:
        """How many roundings are in each probability after so many rounds, at most."""

    def rounding(self, rounds: int) -> float:
        """The relative error of every probability after so many rounds, at most.

        A sum of k positive products of a law and a kernel rounds k times, and its entries a few
        times more: t rounds multiply by (1 + u)^(t (k + c)) at most, u = 2^-53.
        """
        return growth(self.roundings(checks.count(0, rounds=rounds)))

    def position(self, origin: int, rounds: int) -> Array:
        """The law of the holder of the report that began at ``origin``."""
        return self.positions([origin], rounds).ravel()

    def positions(
        self, origins: npt.ArrayLike, rounds: int, *, progress: Progress | None = None
    ) -> Array:
        """The laws of several reports' holders, one a row."""
        rounds = round_count(self, rounds)
        starts = node_numbers(origins, self.n, name="origins")
        laws = np.zeros((self.n, len(starts)))
        laws[starts, np.arange(len(starts))] = 1.0
        for done in range(rounds):
            laws = self.advance(laws, done)
            if progress is not None:
                progress(done + 1, rounds)
        return laws.T


@dataclass(frozen=True, eq=False)
class Walk(Process):
    """A walk that is the same every round.

    Args:
        graph: Who is joined to whom: connected, and not bipartite unless reports may stay.
        kind: "simple" (to a uniform neighbour), "lazy" (which sometimes stays), or
            "metropolis" (whose stationary law is uniform).
        stay: Probability in (0, 1) that a lazy walk stays, 1/2 unless given.
        online: Probability that somebody is there in a round, everybody independently: the
            kernel is then the average p² P + (1 − p²) I, the law of ONE report. Reports held
            by the same people wait together, so several reports are independent only given
            the absences (:class:`shoal.network.Absences`).

    Raises:
        InvalidArgumentError: The graph is not connected, or bipartite; a number is out of its
            range.

    Example:
        >>> from shoal import network
        >>> walk = network.Walk(network.ring(5))
        >>> walk.position(0, 1).tolist()
        [0.0, 0.5, 0.0, 0.0, 0.5]
    """

    graph: Graph
    kind: Kind = "simple"
    stay: float | None = None
    online: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", self.graph.n)
        checks.one_of(get_args(Kind), kind=self.kind)
        if self.kind == "lazy":
            object.__setattr__(self, "stay", 0.5 if self.stay is None else self.stay)
            checks.open_probability(stay=self.stay)  # type: ignore[arg-type]
        else:
            checks.refuse(self.stay is not None, f"no stay for kind={self.kind!r}", stay=self.stay)
        checks.fraction(online=self.online)
        isolated = np.flatnonzero(self.graph.degrees == 0)
        if isolated.size:
            cure = f"no isolated node, as node {isolated[0]} is: take graph.largest_component()"
        elif not self.graph.connected:
            cure = f"one component, not {self.graph.components}: take graph.largest_component()"
        elif self.graph.bipartite and not self.transitions.diagonal().any():
            cure = "a graph that is not bipartite for this walk, or the lazy walk kind='lazy'"
        else:
            return
        raise InvalidArgumentError("graph", self.graph, cure)

    def __repr__(self) -> str:
        return f"Walk({self.graph!r}, kind={self.kind!r})"

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know before using it."""
        slow = (_METROPOLIS_NOTE,) if self.kind == "metropolis" and not self.graph.regular else ()
        return slow + ((_ONLINE_NOTE,) if self.online < 1 else ())

    @cached_property
    def stationary(self) -> Array:
        """π: uniform for Metropolis-Hastings, else proportional to the degree."""
        if self.kind == "metropolis":
            return np.full(self.n, 1.0 / self.n)
        return self.graph.stationary

    @cached_property
    def transitions(self) -> csr_array:
        """P, where P(u, v) is the probability of a step from u to v: 1/d_u, slowed."""
        if self.kind == "metropolis":
            return self._slowed(_metropolis(self.graph))
        return self._slowed(self.graph.weighted(1.0 / self.graph.degrees[self.graph.rows]))

    @property
    def symmetric(self) -> csr_array:
        """√π P /√π, which has the eigenvalues of P, as its bits are symmetric: 1/√(d_u d_v)."""
        if self.kind == "metropolis":
            return self.transitions
        own, theirs = _degrees(self.graph)
        return self._slowed(self.graph.weighted(1.0 / np.sqrt(own * theirs)))

    def _slowed(self, kernel: csr_array) -> csr_array:
        stay = self.stay or 0.0
        absent = (1 - self.online) * (1 + self.online)  # no cancellation near online = 1
        for moving, staying in ((1 - stay, stay), (self.online**2, absent)):
            if staying:
                loops = diags_array(np.full(self.n, staying), format="csr")
                kernel = csr_array(moving * kernel + loops)
        return kernel

    @cached_property
    def _incoming(self) -> csr_array:
        return self.transitions.T.tocsr()

    @property
    def entry_roundings(self) -> int:
        """Of an entry of the kernel; the probability that Metropolis-Hastings stays is a sum."""
        return _ROUNDINGS + (int(self.graph.degrees.max()) if self.kind == "metropolis" else 0)

    def roundings(self, rounds: int) -> int:
        return rounds * (longest_row(self.transitions) + self.entry_roundings)

    def advance(self, laws: Array, at: int) -> Array:  # noqa: ARG002 - every round is alike
        return np.asarray(self._incoming @ laws)


def _degrees(graph: Graph) -> tuple[Array, Array]:
    """The degrees of both ends of every edge."""
    degrees = graph.degrees.astype(np.float64)
    return degrees[graph.rows], degrees[graph.neighbours]


def _metropolis(graph: Graph) -> csr_array:
    """P(u, v) = 1/max(d_u, d_v), and what a refused step leaves at u: symmetric.

    A step to v is refused with probability (1 - d_u/d_v)_+, so that u keeps the sum of
    (d_v - d_u)_+/(d_u d_v).
    """
    own, theirs = _degrees(graph)
    moves = graph.weighted(1.0 / np.maximum(own, theirs))
    refused = np.maximum(theirs - own, 0.0) / (own * theirs)
    stays = np.bincount(graph.rows, weights=refused, minlength=graph.n)
    return csr_array(moves + diags_array(stays, format="csr"))


@dataclass(frozen=True, eq=False)
class Absences(Process):
    """A walk with these people online in each round.

    A report stays put unless its holder and the neighbour chosen are both there. Every such
    round is symmetric with respect to the walk's π, so π is kept whatever the pattern. Given
    the pattern the reports' walks are independent.

    Args:
        walk: The walk when everybody is there.
        online: True or false, a row a round and a column a node.

    Raises:
        InvalidArgumentError: The pattern has another shape, or the walk has absences of its own.

    Example:
        >>> from shoal import network
        >>> walk = network.Walk(network.complete(10))
        >>> network.Absences.drawn(walk, 20, online=0.9).online.shape
        (20, 10)
    """

    walk: Walk
    online: npt.NDArray[np.bool_]

    def __post_init__(self) -> None:
        vars(self).update(n=self.walk.n, longest=len(self.online))
        shown = f"{self.online.dtype} of shape {self.online.shape}"
        wrong = self.online.dtype != np.bool_ or self.online.shape[1:] != (self.n,)
        checks.refuse(
            wrong, f"true or false for each of {self.n} nodes, a row a round", online=shown
        )
        expected = "a walk with online=1: the pattern says who is there"
        checks.refuse(self.walk.online < 1, expected, walk=self.walk.online)

    @classmethod
    def drawn(
        cls, walk: Walk, rounds: int, *, online: float, randomness: Randomness | None = None
    ) -> Absences:
        """Everybody online with the same probability, independently in each round.

        The probability is that of the nearest multiple of 2^-32.
        """
        rounds = checks.count(0, rounds=rounds)
        checks.fraction(online=online)
        source = randomness or secure()
        limit = np.uint64(round(online * 2**32))
        words = source.words(rounds * walk.n) >> np.uint64(32)
        return cls(walk, (words < limit).reshape(rounds, walk.n))

    @property
    def stationary(self) -> Array:
        return self.walk.stationary

    @cached_property
    def _parts(self) -> tuple[csr_array, csr_array, Array]:
        moves, stays = without_diagonal(self.walk.transitions)
        return moves, moves.T.tocsr(), stays

    def advance(self, laws: Array, at: int) -> Array:
        outgoing, incoming, stays = self._parts
        here = self.online[at].astype(np.float64)
        # Sums of positive terms alone: 1 - (probability of leaving) would cancel.
        staying = np.where(self.online[at], stays + outgoing @ (1 - here), 1.0)
        arriving = here[:, None] * (incoming @ (here[:, None] * laws))
        return np.asarray(arriving + staying[:, None] * laws)

    def roundings(self, rounds: int) -> int:
        return self.walk.roundings(rounds) + _ABSENT * rounds


@dataclass(frozen=True, eq=False)
class Varying(Process):
    """A walk on a graph that changes: one walk a round, all on the same nodes.

    All of them must keep one law for ``stationary`` to exist; laws of positions and what they
    have in common are there either way.

    Args:
        walks: One for each round.

    Raises:
        InvalidArgumentError: The walks are on different numbers of nodes.

    Example:
        >>> from shoal import network
        >>> walks = [network.Walk(network.random_regular(20, 4, seed=s)) for s in range(3)]
        >>> network.Varying(walks).longest
        3
    """

    walks: Sequence[Walk]

    def __post_init__(self) -> None:
        sizes = sorted({walk.n for walk in self.walks})
        checks.refuse(len(sizes) != 1, "walks on the same nodes", walks=sizes)
        vars(self).update(n=sizes[0], longest=len(self.walks))

    @cached_property
    def stationary(self) -> Array:
        """The law that all rounds keep."""
        law = self.walks[0].stationary
        several = any(not np.array_equal(law, walk.stationary) for walk in self.walks)
        expected = "walks that keep one law, such as on graphs of equal degrees"
        checks.refuse(several, expected, walks="several stationary laws")
        return law

    def advance(self, laws: Array, at: int) -> Array:
        return self.walks[at].advance(laws, at)

    def roundings(self, rounds: int) -> int:
        return sum(walk.roundings(1) for walk in self.walks[:rounds])


def round_count(process: Process, rounds: int) -> int:
    """A number of rounds that the process can go."""
    rounds = checks.count(0, rounds=rounds)
    long = process.longest is not None and rounds > process.longest
    checks.refuse(long, f"at most {process.longest} rounds", rounds=rounds)
    return rounds
