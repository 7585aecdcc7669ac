"""What ``shoal peers run`` was asked, and whether it makes sense together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from shoal import checks
from shoal.cli.options import RefusedError


@dataclass(frozen=True, kw_only=True)
class PeersAsked:
    """The options; None is an option that was not given."""

    people: int | None
    degree: int
    offline: float
    processes: int
    rounds: int
    mode: Literal["hop", "onion"]
    hops: int | None
    cover: int
    submit: Literal["all", "single"]
    submission_rounds: int
    data: Path | None
    column: str | None
    categories: str | None
    k: int | None
    randomizer: str
    local_epsilon: float
    delta: float
    seed: int

    def check(self) -> None:
        """Refuse what makes no sense together, before anything starts."""
        if (self.data is None) != (self.column is None):
            raise RefusedError("--data and --column go together: a table, and which column of it")
        if self.data is not None and (self.people is not None or self.k is not None):
            raise RefusedError("--data says who takes part and what they say: no --peers, no --k")
        if self.categories is not None and self.k is not None:
            raise RefusedError("give --categories or --k, not both")
        if self.hops is not None and self.mode != "onion":
            raise RefusedError("--hops needs --mode onion: in hop mode every round is a hop")
        checks.closed_probability(offline=self.offline)
        checks.positive(local_epsilon=self.local_epsilon)
        checks.open_probability(delta=self.delta)
        checks.count(1, rounds=self.rounds)
        checks.count(0, seed=self.seed)
        if self.people is not None:
            checks.count(4, peers=self.people)
