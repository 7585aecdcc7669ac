"""The truth among uniform dummies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.noise import Divergence, NoiseProfile, dummies_delta, dummies_rho
from shoal.errors import InvalidArgumentError
from shoal.protocols import shares
from shoal.protocols.base import AnswerProtocol, NumberedEnvelopes, ragged
from shoal.protocols.counting import noisy_counts
from shoal.randomizers.base import Integers, source
from shoal.randomness import Randomness
from shoal.values import Array, Batch, Counts, Envelopes, Estimate, category_codes

MOST_DUMMIES = 100_000.0


@dataclass(frozen=True, kw_only=True)
class AmongDummies(AnswerProtocol):
    """The truth and ``dummies`` further messages on average, whatever a message is."""

    dummies: float

    def __post_init__(self) -> None:
        checks.positive(dummies=self.dummies)
        if self.dummies > MOST_DUMMIES:
            expected = f"at most {MOST_DUMMIES:g} dummies per person (more people need fewer each)"
            raise InvalidArgumentError("dummies", self.dummies, expected)
        exact = math.floor(self.dummies) + shares.rounded_up_or_zero(self.dummies % 1.0)
        object.__setattr__(self, "dummies", float(exact))

    @property
    def _always(self) -> int:
        return math.floor(self.dummies)

    @property
    def _sometimes(self) -> float:
        return self.dummies - self._always

    @property
    def integers(self) -> Integers:
        """The dummies that everybody sends, and the chance of one more, of 2^52."""
        more = shares.numerator(self._sometimes)
        return {"always": self._always, "sometimes": more, "bits": shares.BITS}

    @property
    def always_full(self) -> bool:
        """Whether everybody sends the same number of dummies."""
        return not self._sometimes

    @property
    def messages(self) -> float:
        """The truth and the dummies."""
        return 1 + self.dummies

    @property
    def slots(self) -> int:
        """The truth and as many dummies as anybody sends."""
        return 1 + math.ceil(self.dummies)

    def _added(self, people: int, randomness: Randomness) -> npt.NDArray[np.int64]:
        """How many dummies each of so many people sends."""
        added = np.full(people, self._always, dtype=np.int64)
        if self._sometimes:
            added += shares.coins(self._sometimes, people, randomness)
        return added


@dataclass(frozen=True, kw_only=True)
class UniformDummies(AmongDummies, NumberedEnvelopes):
    """Send the answer, and ``dummies`` answers on average drawn at random.

    Of ⌊ρ⌋ dummies and one more with probability ρ − ⌊ρ⌋ each is uniform on the k answers.

    Citations: Luo, Wang, Yi, "Frequency Estimation in the Shuffle Model with Almost a Single
    Message", CCS 2022, arXiv:2111.06833 (small domains); calibrated here on the exact divergence.
    Runtime: one draw per person and one per dummy; O(messages + k) to estimate.
    Utility: every count has the same variance, about nρ/k, however many people gave the answer.

    >>> protocol = UniformDummies.calibrated(k=100, n=10**6, epsilon=1.0, delta=1e-6)
    >>> round(protocol.messages, 4), protocol.slots
    (1.0043, 2)
    """

    name: ClassVar[str] = "dummies"

    k: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", checks.count(2, k=self.k))
        super().__post_init__()

    @classmethod
    def calibrated(cls, *, k: int, n: int, epsilon: float, delta: float) -> Self:
        """The fewest dummies that keep (epsilon, delta) among n honest people."""
        dummies = dummies_rho(n=n, k=k, epsilon=epsilon, delta=delta)
        return cls(k=k, dummies=dummies).kept(n=n, epsilon=epsilon, delta=delta)

    @property
    def outputs(self) -> int:
        """How many messages there are."""
        return self.k

    @property
    def influence(self) -> float:
        """All slots filled with one answer, where the estimate expects dummies."""
        return self.slots - self.dummies / self.k

    def randomize(
        self, values: npt.ArrayLike, *, randomness: Randomness | None = None
    ) -> Envelopes:
        """The answer first, then the dummies: the shuffler has to mix them."""
        truths = category_codes(values, self.k)
        bits = source(randomness)
        added = self._added(truths.size, bits)
        drawn = bits.below(self.k, int(added.sum())).astype(np.int64)
        return ragged(truths, drawn, added)

    def profile(self, n: int) -> NoiseProfile:
        """The exact divergence: the sampler is what was analysed."""
        return NoiseProfile(
            divergence=Divergence.of(dummies_delta, n=n, k=self.k, rho=self.dummies),
            n=n,
            theorem="uniform dummies, exact divergence",
            scope="everybody sends the truth among uniform dummies, each message by itself",
        )

    @property
    def _noise(self) -> float:
        """Variance of the dummies that one person adds to one answer."""
        rare = self._sometimes / self.k
        return self._always / self.k * (1 - 1 / self.k) + rare * (1 - rare)

    def estimate(self, batch: Batch | Counts) -> Estimate:
        """Counts less the dummies expected."""
        counts = self.counted(batch)
        always = (counts.n * self._always, 1 / self.k)
        sometimes = (counts.n, self._sometimes / self.k)
        return noisy_counts(counts.cells, (always, sometimes), n=counts.n)

    def variance(self, frequencies: npt.ArrayLike, *, n: int) -> Array:
        """The same for every answer, whatever its share."""
        return np.full(np.shape(frequencies), self._noise / n)
