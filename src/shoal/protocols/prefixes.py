"""Open answers: texts that nobody listed in advance, found by their prefixes.

A device draws one of its text's levels and one of that level's tables, looks up the cell of its
prefix there (:mod:`shoal.protocols.tree`) and reports that cell as one of k answers: the level is
inside the message, so that everybody is in one crowd. The answer is reported either among uniform
dummies or by randomized response; either way the shuffled messages are as private as that protocol.

*Proof.* Fix everybody's draws: then two neighbouring data sets of texts are two data sets of cells
that differ in one person's cell at most, and the divergence of the messages is at most the
protocol's own. The draws are independent of each other and, person by person, of everybody else's
text; so the two laws of the messages are mixtures with the same weights of pairs of this kind (the
changed person's two draws may be coupled in any way), and the hockey-stick divergence is jointly
convex. Public hash tables do not depend on the data. ∎

The proof holds for any draws that depend on the person's own text only. It does *not* allow less
noise per cell for there being many levels: two texts may differ in the last symbol alone, and then
all that hides the change is the noise in two cells.

After Bassily, Nissim, Stemmer, Thakurta, "Practical Locally Private Heavy Hitters", NeurIPS 2017,
arXiv:1707.04982 (a tree of prefixes), and Luo, Wang, Yi, CCS 2022, arXiv:2111.06833 (dummies).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy.typing as npt

from shoal import checks
from shoal.accounting import amplification
from shoal.accounting.law import BlanketLaw
from shoal.accounting.noise import NoiseProfile
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.protocols.base import NumberedEnvelopes
from shoal.protocols.dummies import UniformDummies
from shoal.protocols.prefix_plan import Prospect, Shape, fewest_cells, planned
from shoal.protocols.strings import Alphabet
from shoal.protocols.tree import PrefixTree
from shoal.randomizers.base import Integers, Mechanism, NumberedMessages, source
from shoal.randomizers.response import RandomizedResponse
from shoal.randomness import Randomness
from shoal.values import Envelopes, Messages

BETA = 1e-3
MESSAGES = 10.0
LENGTH = 32
_LARGEST_LOCAL = 29.0
_ROOM = 0.99  # of the messages: the number of dummies per cell hardly depends on the cells
_CROWDING = (1 / 2, 3 / 4)  # cells of one-message trees, of the most there can be
_PROBE = 1000


class PrefixMechanism(Mechanism):
    """A prefix tree whose cells are reported by some mechanism for k answers."""

    tree: PrefixTree

    @property
    @abstractmethod
    def keep(self) -> float:
        """By how much likelier a person's own cell is counted than any other cell."""

    @abstractmethod
    def noise(self, n: int) -> float:
        """Messages that n people send to each cell whatever they hold, on average."""

    @property
    def outputs(self) -> int:
        """How many messages there are: one for each cell."""
        return self.tree.k

    def prospect(self, n: int, *, beta: float = BETA) -> Prospect:
        """What can be found among n people."""
        shape = Shape(self.tree.alphabet, self.tree.cuts)
        return Prospect(shape, checks.count(n=n), beta, self.keep, self.noise(n), self.tree.k)

    def thresholds(self, n: int, *, beta: float = BETA) -> tuple[float, ...]:
        """From how many of n people on a text is sure to be found, by how many levels it has.

        Whatever people hold, with probability ``1 - beta`` at least :func:`.heavy_hitters` lists
        all texts with so many holders, and none that nobody holds, or says that it is not complete.
        Infinite where not even a text of everybody is sure to be found.
        """
        checks.open_probability(beta=beta)
        prospect = self.prospect(n, beta=beta)
        inner, whole = prospect.ladders(self.tree)
        return prospect.thresholds([each.signal for each in inner], [each.signal for each in whole])

    def threshold(self, n: int, *, beta: float = BETA) -> float:
        """From how many of n people on any text is sure to be found: the one for the longest."""
        return max(self.thresholds(n, beta=beta))


@dataclass(frozen=True, kw_only=True)
class PrefixDummies(PrefixMechanism, NumberedEnvelopes):
    """A cell of one's text among uniform dummies.

    Citations: see the module. Privacy: that of :class:`UniformDummies` on the cells.
    Runtime: one hash of the text per person, one draw per dummy.
    """

    name: ClassVar[str] = "prefix-dummies"

    tree: PrefixTree
    dummies: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "dummies", self.oracle.dummies)

    @classmethod
    def calibrated(
        cls,
        *,
        n: int,
        epsilon: float,
        delta: float,
        length: int = LENGTH,
        alphabet: str | bytes | None = None,
        messages_cap: float = MESSAGES,
        beta: float = BETA,
        hash_key: int = 0,
    ) -> Self:
        """The tree that finds the rarest texts among n honest people, at this many messages."""
        n = checks.count(n=n)
        _check(messages_cap=messages_cap, beta=beta)
        shape = Shape.of(Alphabet.of(alphabet, length=length))
        probe = UniformDummies.calibrated(k=_PROBE, n=n, epsilon=epsilon, delta=delta)
        noise = n * probe.dummies / _PROBE
        cells = (messages_cap - 1) * _ROOM * n / noise
        if cells < fewest_cells(shape):
            raise _cap_too_low(messages_cap, 1 + fewest_cells(shape) / _ROOM * noise / n)
        prospect = Prospect(shape, n, beta, 1.0, noise, int(cells))
        tree = _found(prospect, cells=cells, hash_key=hash_key)
        oracle = UniformDummies.calibrated(k=tree.k, n=n, epsilon=epsilon, delta=delta)
        return cls(tree=tree, dummies=oracle.dummies)

    @property
    def oracle(self) -> UniformDummies:
        """What reports the cells."""
        return UniformDummies(k=self.tree.k, dummies=self.dummies)

    @property
    def integers(self) -> Integers:
        """Those of what reports the cells."""
        return self.oracle.integers

    @property
    def always_full(self) -> bool:
        """Whether everybody sends the same number of dummies."""
        return self.oracle.always_full

    @property
    def keep(self) -> float:
        """The own cell is always sent."""
        return 1.0

    def noise(self, n: int) -> float:
        """Dummies in each cell."""
        return n * self.dummies / self.tree.k

    @property
    def messages(self) -> float:
        """The truth and the dummies."""
        return self.oracle.messages

    @property
    def slots(self) -> int:
        """The truth and as many dummies as anybody sends."""
        return self.oracle.slots

    @property
    def influence(self) -> float:
        """All slots filled with a text's cell, where people have several levels to send to.

        Half of the tables count at least, which may double it.
        """
        return 2.0 * self.slots * self.tree.levels

    def randomize(
        self, values: npt.ArrayLike, *, randomness: Randomness | None = None
    ) -> Envelopes:
        """Everybody's cell first, then the dummies: the shuffler has to mix them."""
        bits = source(randomness)
        rows = self.tree.alphabet.pack(values)
        return self.oracle.randomize(self.tree.cells(rows, bits), randomness=bits)

    def profile(self, n: int) -> NoiseProfile:
        """The divergence of the dummies: drawing a cell of one's own text adds nothing to it."""
        return replace(
            self.oracle.profile(n),
            theorem="cells of a prefix tree among uniform dummies",
            scope="everybody sends a cell of their text among uniform dummies, each by itself",
        )


@dataclass(frozen=True, kw_only=True)
class PrefixResponse(PrefixMechanism, NumberedMessages):
    """A cell of one's text by randomized response: one message per person.

    Citations: see the module. Privacy: that of :class:`RandomizedResponse` on the cells.
    """

    name: ClassVar[str] = "prefix-grr"

    tree: PrefixTree
    epsilon: float

    def __post_init__(self) -> None:
        _ = self.oracle

    @classmethod
    def calibrated(
        cls,
        *,
        n: int,
        epsilon: float,
        delta: float,
        length: int = LENGTH,
        alphabet: str | bytes | None = None,
        beta: float = BETA,
        hash_key: int = 0,
    ) -> Self:
        """The tree that finds the rarest texts among n honest people, with one message each."""
        n = checks.count(n=n)
        _check(beta=beta)
        shape = Shape.of(Alphabet.of(alphabet, length=length))
        probe = UniformDummies.calibrated(k=_PROBE, n=n, epsilon=epsilon, delta=delta)
        most = _PROBE / probe.dummies  # messages without any truth, so many to a cell
        best: tuple[float, Self] | None = None
        for crowding in _CROWDING:
            cells = crowding * most
            local = _local(max(2, int(cells)), n=n, epsilon=epsilon, delta=delta)
            response = RandomizedResponse(k=max(2, int(cells)), epsilon=local)
            noise = n * _lie(response)
            prospect = Prospect(shape, n, beta, _keep(response), noise, response.k)
            made = planned(prospect, cells=cells, hash_key=hash_key)
            if made is None:
                continue
            tree, found = made
            if math.isfinite(found) and (best is None or found < best[0]):
                exact = _local(tree.k, n=n, epsilon=epsilon, delta=delta)
                best = found, cls(tree=tree, epsilon=exact)
        if best is None:
            raise _too_few(n)
        return best[1]

    @cached_property
    def oracle(self) -> RandomizedResponse:
        """What reports the cells."""
        return RandomizedResponse(k=self.tree.k, epsilon=self.epsilon)

    @property
    def integers(self) -> Integers:
        """Those of what reports the cells."""
        return self.oracle.integers

    @property
    def local_epsilon(self) -> float:
        """The epsilon of the sampler as implemented."""
        return self.oracle.local_epsilon

    @property
    def keep(self) -> float:
        """The chance of the truth, less that of a given lie."""
        return _keep(self.oracle)

    def noise(self, n: int) -> float:
        """Lies in each cell."""
        return n * _lie(self.oracle)

    @property
    def influence(self) -> float:
        """One message that is never a lie, where people have several levels to send to."""
        return 2.0 * self.tree.levels / self.keep

    def randomize(self, values: npt.ArrayLike, *, randomness: Randomness | None = None) -> Messages:
        """One cell per text."""
        bits = source(randomness)
        rows = self.tree.alphabet.pack(values)
        return self.oracle.randomize(self.tree.cells(rows, bits), randomness=bits)

    def law(self) -> BlanketLaw:
        """The law of randomized response: drawing a cell of one's own text adds nothing to it."""
        return self.oracle.law()


PrefixCollector = PrefixDummies | PrefixResponse


def _keep(response: RandomizedResponse) -> float:
    return math.expm1(response.local_epsilon) * _lie(response)


def _lie(response: RandomizedResponse) -> float:
    return 1 / (math.exp(response.local_epsilon) + response.k - 1)


def _local(k: int, *, n: int, epsilon: float, delta: float) -> float:
    def family(*, epsilon: float) -> RandomizedResponse:
        return RandomizedResponse(k=k, epsilon=epsilon)

    return amplification.local_epsilon(
        family, epsilon=epsilon, delta=delta, n=n, cap=_LARGEST_LOCAL
    )


def _check(*, beta: float, messages_cap: float = MESSAGES) -> None:
    checks.open_probability(beta=beta)
    checks.positive(messages_cap=messages_cap)
    if messages_cap <= 1:
        raise InvalidArgumentError("messages_cap", messages_cap, "messages_cap > 1")


def _found(prospect: Prospect, *, cells: float, hash_key: int) -> PrefixTree:
    made = planned(prospect, cells=cells, hash_key=hash_key)
    if made is None or math.isinf(made[1]):
        raise _too_few(prospect.n)
    return made[0]


def _cap_too_low(cap: float, least: float) -> UnreachableTargetError:
    return UnreachableTargetError(
        f"messages_cap={cap:g}",
        "so few messages pay for too few cells",
        f"the smallest cap is {math.ceil(1000 * least) / 1000:g}",
    )


def _too_few(n: int) -> UnreachableTargetError:
    return UnreachableTargetError(
        f"open answers of n={n} people",
        "not even a text that all of them hold would be sure to stand out",
        "it takes more people, a larger epsilon or more messages, or shorter texts",
    )
