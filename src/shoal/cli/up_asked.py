"""What ``shoal up`` was asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.cli.options import RefusedError

if TYPE_CHECKING:
    from shoal.service.running.embedded import Wanted

QUESTION = "How often did you feel lonely last week?"
ANSWERS = ("never", "rarely", "sometimes", "often", "all the time")
EPSILON, DELTA = 1.0, 1e-6
PEOPLE = 1000  # of a batch, if nobody is simulated
FEWEST = 10
HIGHEST = 65_534


@dataclass(frozen=True, kw_only=True)
class UpAsked:
    """The options."""

    directory: Path
    simulate: int | None
    question: str | None
    categories: str | None
    epsilon: float | None
    delta: float | None
    port: int | None
    once: bool
    as_json: bool

    def check(self) -> None:
        """Refuse what makes no sense together."""
        if self.as_json and not self.once:
            raise RefusedError("--json prints one result: give --once and --simulate too")
        if self.once and self.simulate is None:
            raise RefusedError("--once ends with a result: say how many people, by --simulate")
        if self.simulate is not None and self.simulate < FEWEST:
            raise RefusedError(f"expected --simulate of at least {FEWEST}, got {self.simulate}")
        if self.port is not None and not 0 <= self.port <= HIGHEST:
            raise RefusedError(
                f"expected --port from 1 to {HIGHEST} (the analyzer's is the next), or 0 for any, "
                f"got {self.port}"
            )
        if self.categories is not None and self.question is None:
            raise RefusedError("--categories are the answers to a question: give --question too")
        if self.question is not None and self.categories is None:
            raise RefusedError("a --question needs answers: give --categories A,B,…")

    def check_again(self) -> None:
        """Refuse to ask something else in a directory that has a survey."""
        given = {
            "--question": self.question,
            "--epsilon": self.epsilon,
            "--delta": self.delta,
            "--port": self.port,
        }
        for name, value in given.items():
            if value is not None:
                raise RefusedError(
                    f"{self.directory} has a survey already, and {name} cannot change it: "
                    "leave it out, or choose another directory"
                )

    def wanted(self) -> Wanted:
        """The survey of a new directory."""
        from shoal.service.running.embedded import Wanted

        answers: tuple[str, ...] = ANSWERS
        if self.categories is not None:
            answers = tuple(answer.strip() for answer in self.categories.split(","))
        return Wanted(
            question=self.question or QUESTION,
            answers=answers,
            people=self.simulate or PEOPLE,
            epsilon=EPSILON if self.epsilon is None else self.epsilon,
            delta=DELTA if self.delta is None else self.delta,
        )
