"""A plan: which randomizer at which local epsilon, and how wrong the result will be."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal import checks
from shoal.accounting.amplification import amplify
from shoal.accounting.devices import Crowd
from shoal.accounting.guarantee import Guarantee
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.explain import plots
from shoal.explain.document import Document, Row, Table
from shoal.explain.text import down, plain, up
from shoal.planning.errors import Errors
from shoal.protocols.base import Device, Protocol
from shoal.protocols.registry import described, restored
from shoal.randomizers.ball import Ball
from shoal.randomizers.base import VectorMechanism

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMAT = 1
MOST_CATEGORIES = 10_000_000  # beyond, predicting the error of every answer takes too long
_SLACK = 1e-6


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is to be collected, from how many, and how private it has to be."""

    epsilon: float
    delta: float
    n: int
    categories: int | None = None
    bounds: tuple[float, float] | None = None
    dimension: int | None = None
    norm: float | None = None  # vectors of this length at most; without it, of length 1
    local_epsilon_cap: float | None = None
    honest_fraction: float = 1.0
    participation: float = 1.0
    messages_cap: float | None = 1.0

    def __post_init__(self) -> None:
        checks.target(epsilon=self.epsilon, delta=self.delta)
        object.__setattr__(self, "n", checks.count(n=self.n))
        checks.share(honest_fraction=self.honest_fraction, participation=self.participation)
        self._check_kind()
        if self.local_epsilon_cap is not None:
            checks.positive(local_epsilon_cap=self.local_epsilon_cap)
        if self.messages_cap is not None and not 1 <= self.messages_cap < math.inf:
            expected = "messages_cap >= 1: everybody sends at least one message (None: no limit)"
            raise InvalidArgumentError("messages_cap", self.messages_cap, expected)

    def _check_kind(self) -> None:
        kinds = {
            "categories": self.categories,
            "bounds": self.bounds,
            "dimension": self.dimension,
        }
        given = [name for name, value in kinds.items() if value is not None]
        if len(given) != 1:
            expected = "exactly one of categories, bounds and dimension"
            raise InvalidArgumentError("given", ", ".join(given) or "none", expected)
        if self.categories is not None:
            object.__setattr__(self, "categories", checks.count(2, categories=self.categories))
            if self.categories > MOST_CATEGORIES:
                expected = (
                    f"categories <= {MOST_CATEGORIES:,} (open answers need no list: heavy_hitters, "
                    "shoal run --open)"
                )
                raise InvalidArgumentError("categories", self.categories, expected)
        if self.dimension is not None:
            object.__setattr__(self, "dimension", checks.count(2, dimension=self.dimension))
        if self.norm is not None:
            checks.positive(norm=self.norm)
            if self.dimension is None:
                raise InvalidArgumentError("norm", self.norm, "a norm beside dimension only")
        if self.bounds is not None:
            checks.bounds(*self.bounds)

    @property
    def ball(self) -> Ball | None:
        """The vectors in question, if they may be shorter than the norm."""
        if self.dimension is None or self.norm is None:
            return None
        return Ball(dimension=self.dimension, norm=self.norm)

    def __str__(self) -> str:
        """Who is asked for what, and how private it has to be."""
        if self.categories is not None:
            kind = f"one of {self.categories:,} answers"
        elif self.bounds is not None:
            kind = "a number from {} to {}".format(*map(plain, self.bounds))
        else:
            long = f"at most {plain(self.norm)} long" if self.norm else "of length 1"
            kind = f"a vector of {self.dimension:,} coordinates, {long}"
        return f"{self.n:,} people, {kind}, ε = {plain(self.epsilon)}, δ = {plain(self.delta)}"

    @property
    def crowd(self) -> Crowd:
        """The people whom a guarantee may count on."""
        return Crowd(self.n, self.honest_fraction, participation=self.participation)


@dataclass(frozen=True)
class Option:
    """One randomizer at the largest local epsilon, or protocol with the least noise, that will do.

    A protocol's local epsilon is infinite: one of its messages is the truth.
    """

    name: str
    randomizer: Device | None
    local_epsilon: float | None
    errors: Errors | None
    remark: str = ""

    @property
    def message_bits(self) -> float | None:
        """Information in one message."""
        return None if self.randomizer is None else self.randomizer.message_bits

    @property
    def messages(self) -> float | None:
        """Messages of one person, on average."""
        return None if self.randomizer is None else self.randomizer.messages

    @property
    def sends(self) -> str:
        """What one person sends: how many messages, and what each reveals by itself."""
        count = f"{self.messages or 1.0:.3g}"
        local = math.inf if self.local_epsilon is None else self.local_epsilon
        alone = f", ε₀ = {local:.2f}" if math.isfinite(local) else ""
        return f"{count} message{'s' * (count != '1')}{alone}"

    @property
    def bits(self) -> float | None:
        """Information in all that one person sends, empty slots included."""
        sent = self.randomizer
        return None if sent is None else sent.slots * sent.message_bits

    @property
    def influence(self) -> float | None:
        """What one dishonest person can add to one answer's count, where that is known."""
        return self.randomizer.influence if isinstance(self.randomizer, Protocol) else None

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return {
            "name": self.name,
            "randomizer": None if self.randomizer is None else described(self.randomizer),
            "local_epsilon": _finite(self.local_epsilon),
            "errors": None if self.errors is None else self.errors.to_dict(),
            "message_bits": self.message_bits,
            "messages": self.messages,
            "slots": None if self.randomizer is None else self.randomizer.slots,
            "influence": self.influence,
            "remark": self.remark,
        }


@dataclass(frozen=True)
class Plan:
    """Options, best first, beside what a trusted curator and what no shuffler would give."""

    question: Question
    options: tuple[Option, ...]
    central: Errors | None
    local: Errors | None
    reason: str

    @property
    def recommended(self) -> Option:
        """The first option."""
        return self.options[0]

    @property
    def randomizer(self) -> Device:
        """What each device runs."""
        if self.recommended.randomizer is None:
            raise InvalidArgumentError(
                "option", self.recommended.name, "an option that is possible"
            )
        return self.recommended.randomizer

    @cached_property
    def guarantee(self) -> Guarantee:
        """The (epsilon, delta) of the recommended randomizer."""
        return amplify(
            self.randomizer,
            n=self.question.n,
            delta=self.question.delta,
            honest_fraction=self.question.honest_fraction,
            participation=self.question.participation,
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before relying on it."""
        return self.guarantee.warnings

    def estimate(self, batch: object) -> object:
        """The recommended randomizer's estimate from a batch or its counts.

        For vectors with a norm: of their mean, whatever the devices were given.
        """
        estimate = self.randomizer.estimate(batch)  # type: ignore[union-attr]
        ball, device = self.question.ball, self.randomizer
        if ball is None or not isinstance(device, VectorMechanism):
            return estimate
        return ball.estimated(estimate, device)

    def choose(self, name: str) -> Plan:
        """The same plan with another option first."""
        named = [option for option in self.options if option.name == name]
        chosen = [option for option in named if option.randomizer]
        if named and not chosen:
            raise UnreachableTargetError(
                f"the target with {name}", named[0].remark, "choose another, or ask for less"
            )
        if not chosen:
            possible = ", ".join(option.name for option in self.options if option.randomizer)
            raise InvalidArgumentError("name", name, f"one of {possible}")
        others = tuple(option for option in self.options if option is not chosen[0])
        return replace(self, options=(chosen[0], *others), reason=f"{name} was asked for")

    def to_dict(self) -> dict[str, object]:
        """Plain values, enough to load the plan again."""
        return {
            "format": FORMAT,
            "question": asdict(self.question),
            "recommended": self.recommended.name,
            "reason": self.reason,
            "options": [option.to_dict() for option in self.options],
            "central": None if self.central is None else self.central.to_dict(),
            "local": None if self.local is None else self.local.to_dict(),
            "guarantee": self.guarantee.to_dict(),
            "warnings": list(self.warnings),
        }

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON."""
        Path(path).write_text(json.dumps(self.to_dict(), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a saved plan; its guarantee is computed anew, never believed."""
        try:
            stored = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidArgumentError("plan", str(path), "a file that can be read") from error
        except ValueError as error:
            raise InvalidArgumentError("plan", str(path), "a file written by Plan.save") from error
        if not isinstance(stored, dict):
            raise InvalidArgumentError("plan", str(path), "a file written by Plan.save")
        return cls.from_dict(stored)

    @classmethod
    def from_dict(cls, stored: Mapping[str, object]) -> Plan:
        """A plan from plain values."""
        if stored.get("format") != FORMAT:
            raise InvalidArgumentError("plan", stored.get("format"), f"a plan of format {FORMAT}")
        try:
            loaded = cls._restored(stored)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, InvalidArgumentError):
                raise
            raise InvalidArgumentError("plan", str(error), "a complete saved plan") from error
        loaded.check()
        return loaded

    @classmethod
    def _restored(cls, stored: Mapping[str, Any]) -> Plan:
        question = dict(stored["question"])
        if question.get("bounds") is not None:
            low, high = question["bounds"]
            question["bounds"] = (float(low), float(high))
        options = tuple(_option(option) for option in stored["options"])
        if not options:
            raise InvalidArgumentError("options", [], "at least one option")
        return cls(
            Question(**question),
            options,
            _errors(stored.get("central")),
            _errors(stored.get("local")),
            str(stored["reason"]),
        )

    def check(self) -> None:
        """Every option is what it says: nothing in a file is believed that can be computed."""
        cap = self.question.local_epsilon_cap
        for option in self.options:
            if option.randomizer is None:
                continue
            if option.name != option.randomizer.name or not self._suits(option.randomizer):
                expected = f"{option.name} for what the plan asks"
                raise InvalidArgumentError("randomizer", described(option.randomizer), expected)
            actual = option.randomizer.local_epsilon
            most = self.question.messages_cap
            if most is not None and option.randomizer.messages > most * (1 + _SLACK):
                expected = f"{option.name} within the plan's {most:g} messages per person"
                raise InvalidArgumentError("messages", option.randomizer.messages, expected)
            if option.local_epsilon is None or actual > option.local_epsilon * (1 + _SLACK):
                expected = f"{option.name} within its stated local epsilon"
                raise InvalidArgumentError("local_epsilon", actual, expected)
            if cap is not None and actual > cap * (1 + _SLACK):
                expected = f"{option.name} within the plan's cap {cap:g}"
                raise InvalidArgumentError("local_epsilon", actual, expected)
        if self.guarantee.epsilon > self.question.epsilon * (1 + _SLACK):
            expected = f"a plan that keeps its epsilon {self.question.epsilon:g}"
            raise InvalidArgumentError("epsilon", self.guarantee.epsilon, expected)

    def _suits(self, device: Device) -> bool:
        asked = self.question
        if asked.categories is not None:
            return getattr(device, "k", None) == asked.categories
        if asked.bounds is not None:
            return (getattr(device, "low", None), getattr(device, "high", None)) == asked.bounds
        if asked.ball is not None:
            return asked.ball.suits(device)
        room = getattr(device, "bound", math.inf)
        needed = math.sqrt(asked.dimension or 0) * (1 - _SLACK)
        return getattr(device, "dimension", None) == asked.dimension and room >= needed

    def document(self) -> Document:
        """The options, best first, the recommendation and what it keeps."""
        best, guarantee = self.recommended, self.guarantee
        if math.isfinite(best.local_epsilon or 0.0):
            how = f"with ε0 = {down(best.local_epsilon or 0.0)}"
            alone = "ε0 of each report needs no trust"
        else:
            how = f"with {best.messages or 1.0:.4g} messages per person"
            alone = "without that trust nothing holds: one person's messages give the datum away"
        advice = (
            f"Run {best.name} {how}: {self.reason}. That keeps ε = {up(guarantee.epsilon)} at "
            f"δ = {plain(guarantee.delta)} among {guarantee.n:,} honest people (replacement; "
            f"{guarantee.theorem}), if {guarantee.trust}; {alone}."
        )
        if best.influence is not None:
            what = "an answer's count" if self.question.categories else "the sum"
            if self.question.dimension is not None:
                what = "each coordinate of the sum"
            most = _amount(best.influence)
            advice += f" One dishonest person can add at most {most} to {what}."
        counts = "Errors of the counts, in people; per answer: of one that nobody gave."
        about_errors = [counts] * (self.question.categories is not None)
        impossible = [option for option in self.options if option.errors is None]
        return Document(
            f"Run {best.name} {how}",
            table=self._table(),
            sentences=(*about_errors, advice),
            notes=tuple(f"not {option.name}: {option.remark}" for option in impossible),
            warnings=self.warnings,
        )

    def _table(self) -> Table:
        """One line per option, then what a trusted curator and what no shuffler would give."""
        several = any((option.messages or 1) > 1 for option in self.options)
        kind: tuple[str, ...] = ("error of the sum", "of the mean")
        if self.question.categories is not None:
            kind = ("L2 error", "largest", "per answer")
        heads = ("randomizer", "ε0", *kind, *(["msgs"] if several else []), "bits")
        rows: list[Row] = []
        for option in self.options:
            if option.errors is not None:
                local = option.local_epsilon or 0.0
                cells = (
                    option.name,
                    f"{local:.3f}" if math.isfinite(local) else "none",
                    *self._numbers(option.errors),
                    *([f"{option.messages or 1.0:,.4g}"] if several else []),
                    f"{option.bits or 0.0:,.1f}",
                )
                rows.append(Row(cells, "" if rows else "strong"))
        references = (
            ("a trusted curator", "–", self.central),
            ("no shuffler", plain(self.question.epsilon), self.local),
        )
        for name, local_epsilon, errors in references:
            if errors is not None:
                cells = (name, local_epsilon, *self._numbers(errors), *[""] * (1 + several))
                rows.append(Row(cells, "weak"))
        return Table(heads, tuple(rows), frozenset(range(1, len(heads))), str(self.question))

    def _numbers(self, errors: Errors) -> tuple[str, ...]:
        if self.question.categories is not None:
            return tuple(map(_amount, (errors.l2, errors.linf, errors.cell)))
        return _amount(errors.l2), f"{errors.l2 / self.question.n:.3g}"

    def plot(self, ax: Axes | None = None) -> Axes:
        """The error of each option, between a trusted curator's and no shuffler's."""
        possible = [option for option in self.options if option.errors is not None]
        rows = [
            (
                f"{option.name}: {option.sends}",
                option.errors.l2 if option.errors else 0.0,
                _amount(option.errors.l2 if option.errors else 0.0),
                plots.FAINT if place else plots.BLUE,
            )
            for place, option in enumerate(possible)
        ]
        references = (("trusted curator", self.central), ("no shuffler", self.local))
        counts = self.question.categories is not None
        with plots.on(ax, 1.5 + 0.34 * len(rows)) as axes:
            plots.dots(
                axes,
                rows,
                levels=[(name, errors.l2) for name, errors in references if errors is not None],
                xlabel="expected L2 error of the counts" if counts else "error of the sum",
            )
        return axes

    def _repr_html_(self) -> str:
        return self.document().to_html()

    def __str__(self) -> str:
        """The options, best first, and the recommendation, as text."""
        return str(self.document())


def _amount(value: float) -> str:
    """A number of people (or a sum): whole where it is large."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"


def _option(stored: Mapping[str, object]) -> Option:
    description = stored.get("randomizer")
    made = None if description is None else restored(description)  # type: ignore[arg-type]
    local = stored.get("local_epsilon")
    if local is None and isinstance(made, Protocol):
        local = made.local_epsilon
    return Option(
        str(stored["name"]),
        made,
        None if local is None else float(local),  # type: ignore[arg-type]
        _errors(stored.get("errors")),
        str(stored.get("remark", "")),
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _errors(stored: object) -> Errors | None:
    return None if stored is None else Errors(**stored)  # type: ignore[arg-type]
