"""What ``shoal audit`` was asked, and whether it makes sense together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from shoal import checks
from shoal.cli.options import RefusedError

Value = int | float | str


@dataclass(frozen=True)
class Values:
    """Values to try as inputs."""

    listed: tuple[Value, ...]


def values(text: str) -> Values:
    """Values by commas: whole numbers if all are, numbers if all are, else words.

    >>> values("0,1").listed, values("0,0.5").listed, values("yes, no").listed
    ((0, 1), (0.0, 0.5), ('yes', 'no'))
    """
    words = [word.strip() for word in text.split(",")]
    if len(set(words)) < 2 or not all(words):
        raise typer.BadParameter(f"expected two or more different values, got {text!r}")
    for kind in (int, float):
        try:
            return Values(tuple(kind(word) for word in words))
        except ValueError:
            continue
    return Values(tuple(words))


@dataclass(frozen=True, kw_only=True)
class AuditAsked:
    """The options of ``shoal audit``; None is an option that was not given."""

    randomizer: str | None
    k: int | None
    bounds: tuple[float, float] | None
    table: Path | None
    call: str | None
    vectorized: bool
    pipeline: str | None
    command: str | None
    timeout: float | None
    values: tuple[Value, ...] | None
    n: int | None
    epsilon: float | None
    delta: float
    local_epsilon: float | None
    runs: int
    confidence: float
    seed: int | None
    plot: Path | None

    @property
    def yours(self) -> str | None:
        """What runs that is not ours, as its option."""
        given = {"--callable": self.call, "--pipeline": self.pipeline, "--command": self.command}
        return next((name for name, value in given.items() if value is not None), None)

    @property
    def declared(self) -> bool:
        """Whether a mechanism is declared."""
        return self.randomizer is not None or self.table is not None

    def check(self) -> None:
        """Refuse what makes no sense together, before anything is run."""
        self._check_declared()
        self._check_yours()
        if self.n is None:
            raise RefusedError("--n is missing: how many people report")
        checks.count(n=self.n)
        checks.count(runs=self.runs)
        checks.closed_probability(delta=self.delta)
        checks.open_probability(confidence=self.confidence)
        if self.seed is not None:
            checks.count(0, seed=self.seed)

    def _check_declared(self) -> None:
        if self.table is not None and self.randomizer is not None:
            raise RefusedError("give --randomizer or --table, not both")
        if self.randomizer is None and (self.k is not None or self.bounds is not None):
            raise RefusedError("--k and --bounds need --randomizer: what they belong to")
        if not self.declared and self.yours is None:
            raise RefusedError(
                "nothing to audit: give --randomizer, --table, --callable, --pipeline or --command"
            )

    def _check_yours(self) -> None:
        named = [self.call, self.pipeline, self.command]
        if sum(value is not None for value in named) > 1:
            raise RefusedError("give one of --callable, --pipeline and --command")
        if self.vectorized and self.call is None:
            raise RefusedError("--vectorized needs --callable: what takes an array")
        if self.timeout is not None and self.command is None:
            raise RefusedError("--timeout needs --command: what may take so long")
        if self.yours is None:
            if self.values is not None:
                raise RefusedError("--values are for --callable, --pipeline and --command")
            return
        if self.values is None and not self.declared:
            raise RefusedError(f"{self.yours} needs --values: inputs worth trying")
        if self.epsilon is None and self.local_epsilon is None and not self.declared:
            raise RefusedError(f"{self.yours} needs a claim: --epsilon, or --local-epsilon")
