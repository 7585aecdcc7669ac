"""What ``shoal run --open`` was asked, and the run itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.cli.options import RefusedError

if TYPE_CHECKING:
    from shoal.engines.timing import Tell
    from shoal.open_results import OpenResult

_HEADS = "--open finds the answers by itself"


@dataclass(frozen=True, kw_only=True)
class OpenAsked:
    """The options of a run without a list of answers; None is an option that was not given."""

    data: Path
    columns: tuple[str, ...]
    epsilon: float | None
    delta: float | None
    top: int | None
    length: int | None
    alphabet: str | None
    messages_cap: float | None
    honest_fraction: float
    compare_truth: bool

    def check(self, **others: object) -> None:
        """Refuse what makes no sense with ``--open``, and what is missing."""
        given = [f"--{name.replace('_', '-')}" for name, value in others.items() if value]
        if given:
            raise RefusedError(f"{_HEADS}: leave out {' and '.join(given)}")
        if len(self.columns) != 1:
            raise RefusedError("--open takes one --column of text")
        if self.epsilon is None:
            raise RefusedError("--epsilon is missing: what the collection may cost each person")

    def run(self, progress: Tell) -> OpenResult:
        """The most frequent answers."""
        import shoal

        chosen = {
            "delta": self.delta,
            "top": self.top,
            "length": self.length,
            "alphabet": self.alphabet,
        }
        single = self.messages_cap == 1
        if self.messages_cap is not None and not single:
            chosen["messages_cap"] = self.messages_cap
        return shoal.heavy_hitters(
            self.data,
            column=self.columns[0],
            epsilon=self.epsilon or 0.0,
            single=single,
            honest_fraction=self.honest_fraction,
            compare_truth=self.compare_truth,
            progress=progress,
            **{name: value for name, value in chosen.items() if value is not None},  # type: ignore[arg-type]
        )


def refuse_without(**options: object) -> None:
    """Refuse options that speak of open answers where there are none."""
    given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None]
    if given:
        raise RefusedError(f"{' and '.join(given)} goes with --open")
