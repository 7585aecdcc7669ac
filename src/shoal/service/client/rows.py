"""What the outbox holds: reports on their way, and what was spent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from shoal.explain.text import up
from shoal.sealing import SurveyId

State = Literal["randomized", "sealed", "done"]
Outcome = Literal["", "delivered", "abstained", "refused", "lost", "expired", "forgotten"]


@dataclass(frozen=True)
class Place:
    """Whose report it is: one person's (no job), or those of a chunk of a job's people."""

    survey: SurveyId
    occasion: int
    job: str = ""
    chunk: int = 0

    @property
    def key(self) -> tuple[bytes, str, int, int]:
        """As the outbox finds it."""
        return self.survey.digest, self.job, self.occasion, self.chunk


@dataclass(frozen=True, eq=False)
class Row:
    """Reports that are sent together.

    ``doubt`` counts the tries of which nobody knows whether they arrived. ``proxied``: a proxy was
    asked for, so they do not leave without one. ``over``: since when the survey is over, as far as
    this machine knows, or 0.
    """

    place: Place
    state: State
    outcome: Outcome
    waiting: int
    delivered: int
    messages: bytes
    sealed: bytes
    keys: str
    doubt: int
    tries: int
    due: int
    proxied: int
    over: int


@dataclass(frozen=True, kw_only=True)
class Debit:
    """What one person is promised to lose at most by a survey."""

    name: str
    epsilon: float
    delta: float
    local_epsilon: float
    allowed: int


@dataclass(frozen=True, kw_only=True)
class Totals:
    """What surveys have cost together: sums, by basic composition.

    ``local_epsilon`` is of the surveys that have one; no sum limits the others.
    """

    epsilon: float = 0.0
    delta: float = 0.0
    local_epsilon: float = 0.0

    @classmethod
    def of(cls, prices: Iterable[tuple[float, float, float]]) -> Totals:
        """From epsilon, delta and local epsilon of each."""
        known = list(prices)
        return cls(
            epsilon=math.fsum(price[0] for price in known),
            delta=math.fsum(price[1] for price in known),
            local_epsilon=math.fsum(price[2] for price in known if math.isfinite(price[2])),
        )


@dataclass(frozen=True, kw_only=True)
class Spent:
    """A survey in the ledger: its price in full, due with the first report."""

    survey: str
    name: str
    epsilon: float
    delta: float
    local_epsilon: float
    occasions: int
    allowed: int
    waiting: int

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        local = None if math.isinf(self.local_epsilon) else self.local_epsilon
        return vars(self) | {"local_epsilon": local}


@dataclass(frozen=True)
class Ledger:
    """What was spent on every survey. Totals are sums: basic composition, of one person."""

    rows: tuple[Spent, ...]

    @property
    def epsilon(self) -> float:
        """Over all surveys."""
        return math.fsum(row.epsilon for row in self.rows)

    @property
    def delta(self) -> float:
        """Over all surveys."""
        return math.fsum(row.delta for row in self.rows)

    @property
    def local_epsilon(self) -> float:
        """Over all surveys, whoever colludes."""
        return sum(row.local_epsilon for row in self.rows)

    def __iter__(self) -> Iterator[Spent]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        lines = [("survey", "epsilon", "delta", "eps0", "reports", "waiting")]
        lines += [
            (
                row.name,
                up(row.epsilon),
                up(row.delta),
                up(row.local_epsilon),
                f"{row.occasions} of {row.allowed}",
                str(row.waiting),
            )
            for row in self.rows
        ]
        epsilon, delta = up(self.epsilon), up(self.delta)
        local = up(self.local_epsilon)
        lines.append(("all of them", epsilon, delta, local, "", ""))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        shown = ("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
        return "\n".join(shown)

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        local = None if math.isinf(self.local_epsilon) else self.local_epsilon
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "local_epsilon": local,
            "surveys": [row.to_dict() for row in self.rows],
        }
