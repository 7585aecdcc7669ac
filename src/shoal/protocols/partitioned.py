"""The truth among uniform dummies, once for each of several public partitions of the answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.compose import ComposedProfile
from shoal.accounting.noise import Divergence, NoiseProfile, dummies_delta, dummies_rho
from shoal.errors import InvalidArgumentError
from shoal.protocols import shares
from shoal.protocols.base import NumberedEnvelopes, ragged
from shoal.protocols.dummies import MOST_DUMMIES
from shoal.randomizers.base import Integers, TakesAnswers, source
from shoal.randomizers.partitioned import Partitions
from shoal.randomness import Randomness
from shoal.values import Envelopes, category_codes

_MOST_TRIES = 24
_WASTED = 0.05  # of delta: so close below the target is close enough
_AIM = 0.02
_SLOPE = 0.65  # of log(1/delta), per relative change of the dummies: measured


@dataclass(frozen=True, kw_only=True)
class PartitionedDummies(NumberedEnvelopes, TakesAnswers):
    """For every partition send the bin of the answer, and ``dummies`` bins on average at random.

    A message (g, y) says that y is a bin of partition g. The messages of a partition are the
    histogram of everybody's bin among uniform dummies, as :class:`shoal.UniformDummies` would send
    it, with dummies of its own; so what all partitions reveal is at most the composition of one
    such histogram for each partition in which two answers lie in different bins.

    Citations: dummies after Luo, Wang, Yi, "Frequency Estimation in the Shuffle Model with Almost
    a Single Message", CCS 2022, arXiv:2111.06833; domain compression after Acharya, Canonne,
    Freitag, Sun, Tyagi, "Inference Under Information Constraints III", 2021, arXiv:2101.07981, and
    Amin, Joseph, Mao, "Pan-Private Uniformity Testing", COLT 2020, arXiv:1911.01452.
    Runtime: one draw per dummy; O(messages) to count.
    Utility: for tests of the whole distribution (:mod:`shoal.testing`).

    >>> made = PartitionedDummies.calibrated(k=1000, n=10_000, epsilon=1.0, delta=1e-6, symbols=32)
    >>> round(made.messages, 3)
    1.136
    """

    name: ClassVar[str] = "partitioned-dummies"

    k: int
    symbols: int
    dummies: float
    partitions: int = 1
    coins: int = 0

    def __post_init__(self) -> None:
        for name in ("k", "symbols", "partitions", "coins"):
            object.__setattr__(self, name, getattr(self.layout, name))
        checks.positive(dummies=self.dummies)
        if self.dummies > MOST_DUMMIES:
            expected = f"at most {MOST_DUMMIES:g} dummies each (more people need fewer each)"
            raise InvalidArgumentError("dummies", self.dummies, expected)
        exact = math.floor(self.dummies) + shares.rounded_up_or_zero(self.dummies % 1.0)
        object.__setattr__(self, "dummies", float(exact))

    @classmethod
    def calibrated(
        cls,
        *,
        k: int,
        n: int,
        epsilon: float,
        delta: float,
        symbols: int,
        partitions: int = 1,
        coins: int = 0,
    ) -> Self:
        """The fewest dummies, to within 5 % of delta, that keep the target among n honest people.

        Among several partitions the first guess is the number for one of them with epsilon divided
        by the root of their number, right for Gaussian noise; a secant of log delta does the rest.
        """
        layout = Partitions(k=k, partitions=partitions, symbols=symbols, coins=coins)
        rounds = _rounds(layout)
        guess = dummies_rho(n=n, k=symbols, epsilon=epsilon / math.sqrt(rounds), delta=delta)

        made = partial(cls, k=k, symbols=symbols, partitions=partitions, coins=coins)

        def excess(dummies: float) -> float:
            reached = made(dummies=dummies).profile(n).divergence(epsilon)
            return math.log(reached / delta) if reached > 0 else -math.inf

        dummies = guess if rounds == 1 else _least(excess, guess, -math.log(delta))
        return made(dummies=dummies).kept(n=n, epsilon=epsilon, delta=delta)

    @cached_property
    def layout(self) -> Partitions:
        """The public partitions."""
        return Partitions(
            k=self.k, partitions=self.partitions, symbols=self.symbols, coins=self.coins
        )

    def far_apart(self) -> tuple[int, ...]:
        """Two answers that share few bins."""
        return self.layout.most_apart

    @property
    def outputs(self) -> int:
        """How many messages there are."""
        return self.partitions * self.symbols

    @property
    def always(self) -> int:
        """So many dummies everybody sends for each partition, and perhaps one more."""
        return math.floor(self.dummies)

    @property
    def sometimes(self) -> float:
        """The chance of one more."""
        return self.dummies - self.always

    @property
    def integers(self) -> Integers:
        """The dummies that everybody sends for a partition, and the chance of one more."""
        more = shares.numerator(self.sometimes)
        return {"always": self.always, "sometimes": more, "bits": shares.BITS}

    @property
    def always_full(self) -> bool:
        """Whether everybody sends the same number of dummies."""
        return not self.sometimes

    @property
    def messages(self) -> float:
        """The truth and the dummies of every partition."""
        return self.partitions * (1 + self.dummies)

    @property
    def slots(self) -> int:
        """The truth and as many dummies as anybody sends, for every partition."""
        return self.partitions * (1 + math.ceil(self.dummies))

    @property
    def influence(self) -> float:
        """All slots filled with bins of one answer, in multiples of what an honest person adds."""
        return self.slots / self.partitions - self.dummies / self.symbols

    def randomize(
        self, values: npt.ArrayLike, *, randomness: Randomness | None = None
    ) -> Envelopes:
        """For each partition the truth first, then its dummies: the shuffler has to mix them."""
        answers = category_codes(values, self.k)
        bits = source(randomness)
        truths = self.layout.places[:, answers].T.ravel()
        added = np.full(truths.size, self.always, dtype=np.int64)
        if self.sometimes:
            added += shares.coins(self.sometimes, truths.size, bits)
        drawn = bits.below(self.symbols, int(added.sum())).astype(np.int64)
        starts = np.tile(self.symbols * np.arange(self.partitions), answers.size)
        sent = ragged(truths, drawn + np.repeat(starts, added), added)
        sizes = sent.sizes.reshape(answers.size, self.partitions).sum(axis=1)
        return Envelopes(sent.messages, sizes)

    def profile(self, n: int) -> NoiseProfile:
        """One partition's exact divergence, composed for as many as may part two answers."""
        rounds = _rounds(self.layout)
        divergence = Divergence.of(
            partitioned_delta, n=n, symbols=self.symbols, rho=self.dummies, rounds=rounds
        )
        composed = ", composed as privacy loss distributions" if rounds > 1 else ""
        return NoiseProfile(
            divergence=divergence,
            n=n,
            theorem=f"uniform dummies, exact divergence{composed}",
            scope="everybody sends the true bins among uniform dummies, each message by itself",
        )


def partitioned_delta(*, n: int, symbols: int, rho: float, rounds: int, epsilon: float) -> float:
    """Upper bound on the divergence of so many independent histograms among dummies.

    >>> once = partitioned_delta(n=1000, symbols=8, rho=0.5, rounds=1, epsilon=1.0)
    >>> once < partitioned_delta(n=1000, symbols=8, rho=0.5, rounds=2, epsilon=1.0)
    True
    """
    if rounds == 1:
        return dummies_delta(n=n, k=symbols, rho=rho, epsilon=epsilon)
    return _composition(n, symbols, rho, rounds).delta(epsilon)


@lru_cache(maxsize=16)
def _composition(n: int, symbols: int, rho: float, rounds: int) -> ComposedProfile:
    single = NoiseProfile(
        divergence=Divergence.of(dummies_delta, n=n, k=symbols, rho=rho),
        n=n,
        theorem="uniform dummies, exact divergence",
        scope="one histogram",
    )
    return single * rounds


def _rounds(layout: Partitions) -> int:
    """Partitions that may part two answers: all but those in which any two share their bin."""
    return max(1, layout.partitions - layout.fewest_shared)


def _least(excess: Callable[[float], float], guess: float, depth: float) -> float:
    """The least number with ``excess`` in [-5 %, 0], by secants of a nearly straight line.

    ``excess`` falls by about two thirds of ``depth`` between half the guess and half more.
    """
    slope = -_SLOPE * depth / guess
    here, there = guess, excess(guess)
    for _ in range(_MOST_TRIES):
        if -_WASTED <= there <= 0:
            break
        ahead = max(here / 2, min(2 * here, here - (there + _AIM) / slope))
        found = excess(ahead)
        slope = min((found - there) / (ahead - here), slope / 4)
        here, there = ahead, found
    return here
