"""What ``shoal test`` was asked, and whether it makes sense together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from shoal import checks
from shoal.cli import options
from shoal.cli.options import RefusedError

_FEWEST = 19  # simulations


class Coin(StrEnum):
    """Whose coins choose how answers are told."""

    AUTO = "auto"
    PRIVATE = "private"
    PUBLIC = "public"


@dataclass(frozen=True, kw_only=True)
class AskedTest:
    """The options of ``shoal test``; None is an option that was not given."""

    data: Path | None
    column: str | None
    against: Path | None
    second: Path | None
    by: str | None
    overlap: bool
    categories: str | None
    drop_nulls: bool
    distance: float | None
    level: float
    epsilon: float | None
    delta: float
    honest_fraction: float
    coin: Coin
    randomizer: str | None
    partitions: int | None
    symbols: int | None
    messages_cap: float
    simulations: int | None
    seed: int | None
    power: bool
    sizes: tuple[int, ...]
    trials: int | None
    plot: Path | None

    def check(self) -> None:
        """Refuse what makes no sense together, before anything is read."""
        if self.power:
            self._check_power()
        else:
            self._check_data()
        self._check_wanted()
        self._check_devices()
        self._check_people()
        if self.simulations is not None:
            from shoal.testing import ranks

            checks.count(_FEWEST, simulations=self.simulations)
            ranks.allowed(self.level, self.simulations)
        if self.seed is not None:
            checks.count(0, seed=self.seed)

    def _check_power(self) -> None:
        told = "--power is asked before there are any"
        for name, value in self._of_data():
            if value:
                raise RefusedError(f"{name} is about data, and {told}: leave it out")
        if (self.categories is None) == (self.against is None):
            raise RefusedError(
                "--power needs one of --categories (how many, or a,b,c) and --against"
            )
        if self.randomizer is not None:
            raise RefusedError("--power tries every device: leave out --randomizer")
        if self.trials is not None:
            checks.count(10, trials=self.trials)

    def _of_data(self) -> Iterator[tuple[str, object]]:
        yield "FILE", self.data
        yield "--column", self.column
        yield "--with", self.second
        yield "--by", self.by
        yield "--overlap", self.overlap
        yield "--drop-nulls", self.drop_nulls

    def _check_data(self) -> None:
        if self.data is None:
            raise RefusedError("FILE is missing: a table with an answer per row, or say --power")
        if self.column is None:
            raise RefusedError("--column is missing: which column of the file to test")
        for name, value in (("--n", self.sizes), ("--trials", self.trials)):
            if value:
                raise RefusedError(f"{name} needs --power: with a FILE its rows are the people")
        others = {"--against": self.against, "--with": self.second, "--by": self.by}
        given = [name for name, value in others.items() if value is not None]
        if len(given) > 1:
            raise RefusedError(f"{' and '.join(given)}: give one thing to compare the answers with")
        if self.against is not None and self.categories is not None:
            raise RefusedError("--against has its own list of answers: leave out --categories")
        if self.by == self.column:
            raise RefusedError(f"--by {self.by} is the column that is tested: name another one")

    def _check_people(self) -> None:
        if self.overlap and not self.closeness:
            raise RefusedError(
                "--overlap is about two groups: give --with or --by, or leave it out"
            )
        if self.data is not None and self.second is not None and _same(self.data, self.second):
            raise RefusedError(
                f"--with {self.second} is FILE itself: everybody would be in both groups"
            )

    def _check_wanted(self) -> None:
        if self.distance is None:
            raise RefusedError(
                "--distance is missing: which difference matters, as a share of people (0.1)"
            )
        if self.epsilon is None:
            raise RefusedError("--epsilon is missing: what the test may cost each person")
        checks.open_probability(distance=self.distance)
        checks.open_probability(level=self.level)
        checks.positive(epsilon=self.epsilon)
        checks.open_probability(delta=self.delta)
        checks.share(honest_fraction=self.honest_fraction)

    def _check_devices(self) -> None:
        if self.partitions is not None:
            checks.count(partitions=self.partitions)
        if self.symbols is not None:
            checks.count(2, symbols=self.symbols)
        if self.messages_cap < 1:
            raise RefusedError(f"expected --messages-cap of 1 or more, got {self.messages_cap:g}")
        if self.messages_cap > 1 and self.closeness:
            raise RefusedError(
                "two groups are compared by one message each (several of one person are not "
                "exchangeable): leave out --messages-cap"
            )
        for name, value in (("--partitions", self.partitions), ("--symbols", self.symbols)):
            if value is not None and self.coin is Coin.PRIVATE:
                raise RefusedError(f"{name} is for public coins: leave it out with --coin private")

    @property
    def closeness(self) -> bool:
        """Whether two groups of people are compared."""
        return self.second is not None or self.by is not None


class Sizes(NamedTuple):
    """Numbers of people, ascending."""

    people: tuple[int, ...]


def sizes(text: str) -> Sizes:
    """Numbers of people: 1e4,3e4,1e5.

    >>> sizes("3e4, 1e4")
    Sizes(people=(10000, 30000))
    """
    found = {options.read_whole(part.strip()) for part in text.split(",")}
    for n in found:
        checks.count(2, n=n)
    return Sizes(tuple(sorted(found)))


def _same(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, under whatever names."""
    if one.resolve() == other.resolve():
        return True
    return one.exists() and other.exists() and one.samefile(other)
