"""What ``shoal walk`` was asked, and whether it makes sense together."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from shoal import checks
from shoal.cli.options import RefusedError

_LOCAL_EPSILON = 1.0


class Kind(StrEnum):
    """How the next holder is drawn."""

    SIMPLE = "simple"
    LAZY = "lazy"
    METROPOLIS = "metropolis"


class View(StrEnum):
    """What the server sees."""

    FINAL = "final"
    TRAFFIC = "traffic"


class Submit(StrEnum):
    """What holders hand in."""

    ALL = "all"
    SINGLE = "single"


@dataclass(frozen=True, kw_only=True)
class WalkAsked:
    """The options of ``shoal walk``; None is an option that was not given."""

    graph: Path
    rounds: int | None
    epsilon: float | None
    delta: float
    local_epsilon: float | None
    randomizer: str | None
    k: int | None
    bounds: tuple[float, float] | None
    report_bytes: int
    largest_component: bool
    keep_loops: bool
    kind: Kind | None
    lazy: bool
    offline: float
    view: View
    submit: Submit
    collusion: float
    user: int | None
    runs: int
    simulate: bool
    seed: int
    plot: Path | None

    def check(self) -> None:
        """Refuse what makes no sense together, before anything is read."""
        self._check_devices()
        self._check_length()
        self._check_adversary()
        if self.lazy and self.kind not in {None, Kind.LAZY}:
            raise RefusedError(f"give --lazy or --kind {self.kind}, not both")
        checks.open_probability(delta=self.delta)
        checks.closed_probability(offline=self.offline)
        checks.closed_probability(collusion=self.collusion)
        checks.count(runs=self.runs)
        checks.count(report_bytes=self.report_bytes)
        checks.count(0, seed=self.seed)

    def _check_devices(self) -> None:
        if self.randomizer is None and (self.k is not None or self.bounds is not None):
            raise RefusedError("--k and --bounds need --randomizer: what they belong to")
        if self.local_epsilon is not None:
            checks.positive(local_epsilon=self.local_epsilon)

    def _check_length(self) -> None:
        if self.rounds is not None:
            if self.epsilon is not None:
                raise RefusedError("give --rounds to get ε or --epsilon to get rounds, not both")
            checks.count(1, rounds=self.rounds)
        if self.epsilon is not None:
            checks.positive(epsilon=self.epsilon)

    def _check_adversary(self) -> None:
        special = {
            "--view traffic": self.view is View.TRAFFIC,
            "--submit single": self.submit is Submit.SINGLE,
            "--collusion": self.collusion != 0,
        }
        given = [name for name, wanted in special.items() if wanted]
        if len(given) > 1:
            raise RefusedError(f"{' and '.join(given)} are analysed one at a time: leave out one")
        if self.rounds is None and self.epsilon is None and given:
            raise RefusedError(f"--rounds is missing: {given[0]} has no limit to come close to")
        if self.view is View.TRAFFIC:
            self._check_traffic()
        elif self.user is not None:
            raise RefusedError("--user needs --view traffic: other answers are for everybody")

    def _check_traffic(self) -> None:
        if self.epsilon is not None:
            raise RefusedError("--view traffic is simulated at given --rounds: leave out --epsilon")
        if self.offline:
            raise RefusedError("--view traffic needs everybody online: leave out --offline")

    @property
    def walk_kind(self) -> Kind:
        """The kind of walk."""
        return Kind.LAZY if self.lazy else self.kind or Kind.SIMPLE

    @property
    def searched(self) -> bool:
        """Whether the number of rounds is what is looked for."""
        return self.rounds is None

    @property
    def slow(self) -> bool:
        """Whether one number of rounds takes long: every length of a walk, or every holder."""
        return self.collusion != 0 or self.submit is Submit.SINGLE

    def devices(self) -> dict[str, Any]:
        """What the devices run, as keywords of the accountant."""
        local = _LOCAL_EPSILON if self.local_epsilon is None else self.local_epsilon
        if self.randomizer is None:
            return {"local_epsilon": local}
        from shoal.cli.randomizers import family

        return {"randomizer": family(self.randomizer, k=self.k, bounds=self.bounds)(epsilon=local)}
