"""What ``shoal sgd`` was asked, and whether it makes sense together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from shoal import checks
from shoal.cli.options import RefusedError
from shoal.errors import InvalidArgumentError, ShoalError, UnreachableTargetError


class Kind(StrEnum):
    """How steps come by their examples; ``all`` is every way."""

    PERMUTATION = "permutation"
    REPLACEMENT = "replacement"
    POISSON = "poisson"
    FIXED = "fixed"
    ALL = "all"


@dataclass(frozen=True, kw_only=True)
class SgdAsked:
    """The options of ``shoal sgd``; None is an option that was not given."""

    n: int | None
    noise: float | None
    epsilon: float | None
    epochs: int
    batch: int
    delta: float
    sampling: Kind
    drop_last: bool
    plot: Path | None

    def check(self) -> None:
        """Refuse what makes no sense together, before anything is computed."""
        if self.n is None:
            raise RefusedError("--n is missing: how many examples there are")
        if (self.noise is None) == (self.epsilon is None):
            raise RefusedError("give --noise to get ε, or --epsilon to get the noise")
        if self.noise is not None:
            checks.positive(noise=self.noise)
        if self.epsilon is not None:
            checks.positive(epsilon=self.epsilon)
        checks.open_probability(delta=self.delta)
        checks.count(n=self.n)
        checks.count(epochs=self.epochs)
        checks.count(batch=self.batch)

    @property
    def size(self) -> int:
        """How many examples."""
        return checks.count(n=self.n or 0)


@contextmanager
def in_options() -> Iterator[None]:
    """What the library refuses is said in terms of the options of this command."""
    try:
        yield
    except (InvalidArgumentError, UnreachableTargetError) as error:
        raise RefusedError(spoken(error)) from error


def spoken(error: ShoalError) -> str:
    """The message of an error with the options that stand for the arguments it names.

    >>> spoken(InvalidArgumentError("batch", 7, "batch to divide n = 9, or drop_last=True"))
    'expected --batch to divide n = 9, or --drop-last, got --batch 7'
    """
    text = str(error)
    if isinstance(error, InvalidArgumentError):
        expected = re.sub(rf"\b{error.name}\b", f"--{error.name}", error.expected)
        text = f"expected {expected}, got --{error.name} {error.value}"
    text = re.sub(r"\bnoise_multiplier=", "--noise ", text)
    return text.replace("noise_multiplier", "--noise").replace("drop_last=True", "--drop-last")
