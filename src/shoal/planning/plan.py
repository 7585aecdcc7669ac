"""A plan: which randomizer at which local epsilon, and how wrong the result will be."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
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
from shoal.explain.views import Tabular
from shoal.planning.errors import Errors
from shoal.protocols.base import Device
from shoal.protocols.registry import restored
from shoal.randomizers.base import VectorMechanism
from shoal.randomizers.registry import described
from shoal.randomizers.vectors import Ball
from shoal.values import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMAT = 1
MOST_CATEGORIES = 10_000_000  # beyond, predicting the error of every answer takes too long
_SLACK = 1e-6
_ERRORS = tuple(field.name for field in fields(Errors))


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
        if self.local_epsilon_cap is not None:
            checks.positive(local_epsilon_cap=self.local_epsilon_cap)
        if self.messages_cap is not None and not 1 <= self.messages_cap < math.inf:
            expected = "messages_cap >= 1: everybody sends at least one message (None: no limit)"
            raise InvalidArgumentError("messages_cap", self.messages_cap, expected)
        kinds = ("categories", "bounds", "dimension")
        given = [name for name in kinds if getattr(self, name) is not None]
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
            if self.dimension is None:
                raise InvalidArgumentError("norm", self.norm, "a norm beside dimension only")
            Ball(dimension=self.dimension, norm=self.norm)  # which checks them
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
    randomizer: Device | None = None
    local_epsilon: float | None = None
    errors: Errors | None = None
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
        return getattr(self.randomizer, "influence", None)

    def to_dict(self) -> Record:
        """Plain values."""
        local, made = self.local_epsilon, self.randomizer
        return {
            "name": self.name,
            "randomizer": None if made is None else described(made),
            "local_epsilon": local if local is not None and math.isfinite(local) else None,
            "errors": None if self.errors is None else asdict(self.errors),
            "message_bits": self.message_bits,
            "messages": self.messages,
            "slots": None if made is None else made.slots,
            "influence": self.influence,
            "remark": self.remark,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Option:
        """An option from plain values."""
        made = None if stored.get("randomizer") is None else restored(stored["randomizer"])
        local = stored.get("local_epsilon")
        if local is None and made is not None and math.isinf(made.local_epsilon):
            local = math.inf
        return cls(
            str(stored["name"]),
            made,
            None if local is None else float(local),
            _errors(stored.get("errors")),
            str(stored.get("remark", "")),
        )


@dataclass(frozen=True)
class Plan(Tabular):
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

    def records(self) -> list[Record]:
        """One row per option, best first: what it sends, and the errors to expect."""
        rows = []
        for option in self.options:
            row = option.to_dict()
            del row["randomizer"], row["errors"]
            errors = dict.fromkeys(_ERRORS) if option.errors is None else asdict(option.errors)
            rows.append(row | errors)
        return rows

    def to_dict(self) -> Record:
        """Plain values, enough to load the plan again."""
        return {
            "format": FORMAT,
            "question": asdict(self.question),
            "recommended": self.recommended.name,
            "reason": self.reason,
            "options": [option.to_dict() for option in self.options],
            "central": None if self.central is None else asdict(self.central),
            "local": None if self.local is None else asdict(self.local),
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
        except ValueError:
            stored = None
        if not isinstance(stored, dict):
            raise InvalidArgumentError("plan", str(path), "a file written by Plan.save")
        return cls.from_dict(stored)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Plan:
        """A plan from plain values."""
        if stored.get("format") != FORMAT:
            raise InvalidArgumentError("plan", stored.get("format"), f"a plan of format {FORMAT}")
        try:
            question = dict(stored["question"])
            if question.get("bounds") is not None:
                low, high = question["bounds"]
                question["bounds"] = (float(low), float(high))
            options = tuple(map(Option.from_dict, stored["options"]))
            central, local = _errors(stored.get("central")), _errors(stored.get("local"))
            plan = cls(Question(**question), options, central, local, str(stored["reason"]))
        except InvalidArgumentError:
            raise
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise InvalidArgumentError("plan", str(error), "a complete saved plan") from error
        if not options:
            raise InvalidArgumentError("options", [], "at least one option")
        plan.check()
        return plan

    def check(self) -> None:
        """Every option is what it says: nothing in a file is believed that can be computed."""
        cap, most = self.question.local_epsilon_cap, self.question.messages_cap
        for option in self.options:
            made = option.randomizer
            if made is None:
                continue
            if option.name != made.name or not self._suits(made):
                expected = f"{option.name} for what the plan asks"
                raise InvalidArgumentError("randomizer", described(made), expected)
            limits = (
                ("messages", most, f"the plan's {most or 0:g} messages per person"),
                ("local_epsilon", option.local_epsilon or 0.0, "its stated local epsilon"),
                ("local_epsilon", cap, f"the plan's cap {cap or 0:g}"),
            )
            for name, limit, what in limits:
                value = getattr(made, name)
                if limit is not None and value > limit * (1 + _SLACK):
                    raise InvalidArgumentError(name, value, f"{option.name} within {what}")
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
        bound = getattr(device, "bound", math.inf)
        needed = math.sqrt(asked.dimension or 0) * (1 - _SLACK)
        return getattr(device, "dimension", None) == asked.dimension and bound >= needed

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
        return Document(
            f"Run {best.name} {how}",
            table=self._table(),
            sentences=(*[counts] * (self.question.categories is not None), advice),
            notes=tuple(
                f"not {option.name}: {option.remark}"
                for option in self.options
                if option.errors is None
            ),
            warnings=self.warnings,
        )

    def _table(self) -> Table:
        """One line per option, then what a trusted curator and what no shuffler would give."""
        several = any((option.messages or 1) > 1 for option in self.options)
        counts = self.question.categories is not None
        kind = ("L2 error", "largest", "per answer") if counts else ("error of sum", "of mean")
        heads = ("randomizer", "ε0", *kind, *["msgs"] * several, "bits")

        def cells(errors: Errors) -> tuple[str, ...]:
            if counts:
                return tuple(map(_amount, (errors.l2, errors.linf, errors.cell)))
            return _amount(errors.l2), f"{errors.l2 / self.question.n:.3g}"

        rows: list[Row] = []
        for option in self.options:
            if option.errors is not None:
                local = option.local_epsilon or 0.0
                shown = down(local) if math.isfinite(local) else "none"
                sent = [f"{option.messages or 1.0:,.4g}"] * several
                line = (option.name, shown, *cells(option.errors), *sent, f"{option.bits:,.1f}")
                rows.append(Row(line, "" if rows else "strong"))
        references = (
            ("a trusted curator", "–", self.central),
            ("no shuffler", plain(self.question.epsilon), self.local),
        )
        for name, shown, errors in references:
            if errors is not None:
                rows.append(Row((name, shown, *cells(errors), *[""] * (1 + several)), "weak"))
        return Table(heads, tuple(rows), frozenset(range(1, len(heads))), str(self.question))

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


def _errors(stored: Mapping[str, float] | None) -> Errors | None:
    return None if stored is None else Errors(**stored)
