"""From what is asked of a training run to its guarantee: the noise is given, or found."""

from __future__ import annotations

from dataclasses import dataclass

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.learning.accountant import account, noise_for
from shoal.learning.guarantee import LearningGuarantee


@dataclass(frozen=True, kw_only=True)
class Passes:
    """How often, and in how large batches, permuted examples are gone through."""

    n: int
    epochs: int
    batch: int
    delta: float
    drop_last: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "epochs", checks.count(epochs=self.epochs))
        object.__setattr__(self, "batch", checks.count(batch=self.batch))

    def guarantee(
        self, *, epsilon: float | None, noise_multiplier: float | None
    ) -> LearningGuarantee:
        """For the noise given, or for the least noise that keeps epsilon."""
        if noise_multiplier is not None and epsilon is None:
            return self._account(noise_multiplier)
        if epsilon is None or noise_multiplier is not None:
            given = (epsilon, noise_multiplier)
            expected = "exactly one of epsilon and noise_multiplier"
            raise InvalidArgumentError("(epsilon, noise_multiplier)", given, expected)
        enough = noise_for(
            epsilon=epsilon,
            n=self.n,
            epochs=self.epochs,
            batch=self.batch,
            delta=self.delta,
            drop_last=self.drop_last,
        )
        return self._account(enough)

    def _account(self, noise_multiplier: float) -> LearningGuarantee:
        return account(
            noise_multiplier=noise_multiplier,
            n=self.n,
            epochs=self.epochs,
            batch=self.batch,
            delta=self.delta,
            drop_last=self.drop_last,
        )
