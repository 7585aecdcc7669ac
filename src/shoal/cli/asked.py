"""What was asked on the command line, and whether it makes sense together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path

from shoal.cli.group import RefusedError


class Unknown(StrEnum):
    """What ``--solve`` may look for."""

    LOCAL_EPSILON = "local-epsilon"
    N = "n"


class Composition(StrEnum):
    """How rounds are put together."""

    PLD = "pld"
    RENYI = "renyi"
    ADVANCED = "advanced"
    BEST = "best"


# One round at one delta: what a comparison of bounds does not speak about.
BEYOND_COMPARISONS = (
    "--solve",
    "--epsilon",
    "--rounds",
    "--composition",
    "--participation",
    "--local-delta",
    "--deletion-epsilon",
)

# An option, those that cannot stand beside it, and why.
_EXCLUDES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("--all", ("--bound", *BEYOND_COMPARISONS), "--all compares bounds for one round at --delta"),
    (
        "--table",
        ("--randomizer", "--k", "--bounds", "--deletion-epsilon", "--local-delta", "--bound"),
        "--table says what the randomizer is",
    ),
    (
        "--randomizer",
        ("--deletion-epsilon", "--local-delta"),
        "--randomizer says what the randomizer is",
    ),
    (
        "--deletion-epsilon",
        ("--local-epsilon", "--k"),
        "--deletion-epsilon says what is known of the randomizers",
    ),
    ("--honest-n", ("--honest-fraction",), "--honest-n says how many are honest"),
    ("--solve", ("--bound", "--composition"), "--solve uses the tightest bound"),
)

_SOLVE_EXCLUDES = {
    Unknown.LOCAL_EPSILON: (
        ("--local-epsilon", "--deletion-epsilon", "--local-delta", "--table"),
        "--solve local-epsilon is for pure randomizers and looks for their epsilon",
    ),
    Unknown.N: (("--n", "--honest-n"), "--solve n looks for the number of people"),
}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of ``shoal amplify``; None is an option that was not given."""

    local_epsilon: float | None
    local_delta: float | None
    deletion_epsilon: float | None
    n: int | None
    delta: float | None
    epsilon: float | None
    randomizer: str | None
    k: int | None
    bounds: tuple[float, float] | None
    table: Path | None
    bound: str | None
    all: bool
    rounds: int | None
    composition: Composition | None
    participation: float | None
    honest_fraction: float | None
    honest_n: int | None
    solve: Unknown | None

    @property
    def given(self) -> frozenset[str]:
        """The names of the options that were given."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return frozenset(
            f"--{name.replace('_', '-')}"
            for name, value in values
            if value is not None and value is not False
        )

    def check(self) -> None:
        """Refuse what makes no sense together, with the one option to leave out or to add."""
        for option, others, why in _EXCLUDES:
            if option in self.given:
                self.refuse(others, why)
        if self.solve is None:
            self._check_question()
        else:
            self.refuse(*_SOLVE_EXCLUDES[self.solve])
            self._need("--solve", ("--epsilon",), "the target (with --delta, 1e-6 if not given)")
        self._check_randomizer()
        if self.solve is not Unknown.N and self.n is None:
            raise RefusedError("--n is missing: how many people report")

    def refuse(self, options: Iterable[str], why: str) -> None:
        """Refuse if any of these options was given."""
        found = [option for option in options if option in self.given]
        if found:
            raise RefusedError(f"{why}: leave out {' and '.join(found)}")

    def _check_question(self) -> None:
        if self.epsilon is None:
            self._need("--composition", ("--rounds",), "the number of rounds to compose")
            return
        if self.delta is not None:
            raise RefusedError(
                "give --delta to get epsilon or --epsilon to get delta, not both "
                "(as a target, both go with --solve)"
            )
        if self.composition not in {None, Composition.PLD}:
            raise RefusedError(
                f"--composition {self.composition} answers with epsilon: give --delta instead"
            )

    def _check_randomizer(self) -> None:
        self._need("--k", ("--randomizer", "--bound"), "what has k answers")
        self._need("--bounds", ("--randomizer",), "what takes numbers between them")
        known = ("--local-epsilon", "--deletion-epsilon", "--table")
        if self.solve is not Unknown.LOCAL_EPSILON and not self.given.intersection(known):
            raise RefusedError(
                "--local-epsilon is missing: what each report guarantees by itself "
                "(or say --deletion-epsilon, or --table)"
            )

    def _need(self, option: str, needed: tuple[str, ...], what: str) -> None:
        if option in self.given and not self.given.intersection(needed):
            raise RefusedError(f"{option} needs {' or '.join(needed)}: {what}")
