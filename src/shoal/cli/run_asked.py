"""What ``shoal run`` was asked, and what that is for the library."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.cli import options
from shoal.cli.options import RefusedError


@dataclass(frozen=True, kw_only=True)
class RunAsked:
    """The options that say what is collected and how private."""

    data: Path
    columns: tuple[str, ...]
    vector: str | None
    norm: float | None
    epsilon: float | None
    delta: float | None
    randomizer: str | None
    local_epsilon: float | None
    plan: Path | None
    categories: tuple[str, ...]
    bounds: tuple[str, ...]
    drop_nulls: bool

    def check(self) -> None:
        """Refuse what makes no sense together."""
        self._check_columns()
        ways = {
            "--epsilon": self.epsilon,
            "--randomizer": self.randomizer,
            "--plan": self.plan,
        }
        given = [name for name, value in ways.items() if value is not None]
        if len(given) != 1:
            named = " and ".join(given) or "none of them"
            raise RefusedError(f"give one of --epsilon, --randomizer and --plan, not {named}")
        if (self.randomizer is None) != (self.local_epsilon is None):
            raise RefusedError("--randomizer and --local-epsilon go together")

    def _check_columns(self) -> None:
        if self.vector is None:
            if not self.columns:
                missing = "which column of the file to collect (or --columns for a vector)"
                raise RefusedError(f"--column is missing: {missing}")
            if self.norm is not None:
                raise RefusedError("--norm goes with --columns, the coordinates of a vector")
            return
        kinds = {
            "--column": self.columns,
            "--categories": self.categories,
            "--bounds": self.bounds,
        }
        given = [name for name, value in kinds.items() if value]
        if given:
            raise RefusedError(
                f"--columns are one vector, with --norm: leave out {' and '.join(given)}"
            )
        if len(self.coordinates) < 2:
            one = "one column of numbers is --column NAME --bounds LOW,HIGH"
            raise RefusedError(f"--columns takes two names or more, got {self.vector!r}: {one}")
        if self.norm is None:
            what = "the public length that longer vectors are cut to"
            raise RefusedError(f"--columns needs --norm, {what}")

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The columns of a vector."""
        parts = (self.vector or "").split(",")
        return tuple(part.strip() for part in parts if part.strip())

    @property
    def category_lists(self) -> dict[str, list[str]]:
        """The public list of answers of each column that has one."""
        return {
            name: listed(text)
            for option in self.categories
            for name, text in [self._meant("--categories", option)]
        }

    @property
    def bound_pairs(self) -> dict[str, tuple[float, float]]:
        """The public bounds of each column that has some."""
        return {
            name: options.read_bounds(text)
            for option in self.bounds
            for name, text in [self._meant("--bounds", option)]
        }

    def _meant(self, flag: str, option: str) -> tuple[str, str]:
        """``NAME=TEXT`` is about one of the columns, ``TEXT`` about the only one."""
        for name in self.columns:
            if option.startswith(f"{name}="):
                return name, option.removeprefix(f"{name}=")
        if len(self.columns) > 1:
            names = ", ".join(self.columns)
            raise RefusedError(f"say which column {flag} is for: {flag} NAME=…, one of {names}")
        return self.columns[0], option


def keywords(asked: RunAsked) -> dict[str, Any]:
    """The arguments of :func:`shoal.run`."""
    found: dict[str, Any] = {
        "epsilon": asked.epsilon,
        "delta": asked.delta,
        "drop_nulls": asked.drop_nulls,
    }
    if asked.vector is not None:
        found |= {"columns": list(asked.coordinates), "norm": asked.norm}
    else:
        found |= {
            "column": list(asked.columns),
            "categories": asked.category_lists or None,
            "bounds": asked.bound_pairs or None,
        }
    if asked.plan is not None:
        from shoal.planning import Plan

        found["plan"] = Plan.load(asked.plan)
    if asked.randomizer is not None and asked.vector is not None:
        found["randomizer"] = _of_vectors(asked)
    elif asked.randomizer is not None:
        found["randomizer"] = {name: _randomizer(asked, name) for name in asked.columns}
    return found


def listed(text: str) -> list[str]:
    """A public list of answers: a,b,c or a file with one per line."""
    path = Path(text)
    if "," not in text:
        if not path.is_file():
            raise RefusedError(f"expected --categories to be a list a,b,c or a file, got {text!r}")
        try:
            lines = path.read_text(encoding="utf-8-sig").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise RefusedError(f"cannot read {path}: {error}") from error
        return [line for line in lines if line]
    return [part.strip() for part in text.split(",") if part.strip()]


def _of_vectors(asked: RunAsked) -> object:
    """The named randomizer, for vectors of length 1 with a coordinate more."""
    from shoal.cli.randomizers import check, family
    from shoal.randomizers import registry

    name = asked.randomizer or ""
    check(name)
    if name not in registry.VECTORS:
        known = ", ".join(registry.VECTORS)
        raise RefusedError(f"--randomizer {name} is not for vectors: take one of {known}")
    return family(name, k=len(asked.coordinates) + 1)(epsilon=asked.local_epsilon)


def _randomizer(asked: RunAsked, name: str) -> object:
    """The named randomizer, for as many answers as the column has."""
    from shoal.cli.randomizers import check, family
    from shoal.engines import reading
    from shoal.engines.coding import Choices
    from shoal.randomizers import registry

    check(asked.randomizer or "")
    if asked.randomizer in registry.VECTORS:
        raise RefusedError(f"--randomizer {asked.randomizer} is for vectors: use --columns, --norm")
    bounds = asked.bound_pairs.get(name)
    if asked.randomizer in registry.NUMBERS:
        if bounds is None:
            raise RefusedError(f"--randomizer {asked.randomizer} needs --bounds LOW,HIGH")
        return family(asked.randomizer, k=None, bounds=bounds)(epsilon=asked.local_epsilon)
    column = reading.column(asked.data, name)
    listed = asked.category_lists.get(name)
    if listed is None:
        coded = Choices.found(column, drop_nulls=asked.drop_nulls)
    else:
        coded = Choices.listed(column, listed, drop_nulls=asked.drop_nulls)
    makes = family(asked.randomizer or "", k=len(coded.labels), bounds=bounds)
    return makes(epsilon=asked.local_epsilon)
