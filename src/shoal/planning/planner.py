"""A plan: which randomizer at which local epsilon, and how wrong the result will be.

Every applicable randomizer is tried at the largest local epsilon its own law allows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache, cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from shoal import checks
from shoal.accounting import amplification, search
from shoal.accounting.amplification import local_epsilon
from shoal.accounting.devices import Crowd
from shoal.accounting.guarantee import Guarantee, default_delta
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.explain import plots
from shoal.explain.document import Document, Row, Table
from shoal.explain.text import down, plain, up
from shoal.explain.views import Tabular
from shoal.mechanisms import registry
from shoal.mechanisms.base import Candidate, Device, Wanted
from shoal.mechanisms.estimators import Errors
from shoal.mechanisms.registry import restored
from shoal.planning import errors
from shoal.questions.domains import Ball, Cells, Domain, Interval, Sphere
from shoal.values import Record, attributes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


FORMAT = 1
MOST_CATEGORIES = 10_000_000  # beyond, predicting the error of every answer takes too long
_SLACK = 1e-6
_ERRORS = tuple(field.name for field in fields(Errors))
_LARGEST_N = 10**12
_ALIKE = 1.02
_STRIDE = 2.0  # in logarithms
_BY_NAME = "it has no ε0 and more noise than the others: it is used only if chosen by name"
_FEW = 16.0  # messages per person that are worth a note
_NOTED = 0.1  # epsilon: below, the calibration takes longer than a note is worth
_FAR = 20.0  # stands for "impossible" in logarithms


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is to be collected, from how many people, and how private it has to be.

    :func:`shoal.plan` makes one of its arguments.

    Args:
        epsilon: ε > 0 of the shuffled reports.
        delta: δ in (0, 1).
        n: People who report.
        categories: How many answers there are. Exactly one of categories, bounds, dimension.
        bounds: (low, high) of a number.
        dimension: Coordinates of a vector.
        norm: The longest vector; without it vectors have length 1.
        local_epsilon_cap: The largest ε₀ that a report may have.
        honest_fraction: Fraction in (0, 1] of the people who follow the protocol, by
            default 1. The guarantee is that of the honest people alone: count only
            those you are sure of.
        participation: Probability in (0, 1] that a person reports, unseen by the analyzer.
        messages_cap: Messages that one person may send on average, default 1; None for
            any number.

    Raises:
        InvalidArgumentError: A number is out of its range, or it is not clear what is asked.

    References:
        The targets are kept by the theorems of :func:`shoal.amplify`; :doc:`/theory/solving`.
    """

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
        checks.counts(self, n=1)
        checks.fraction(honest_fraction=self.honest_fraction, participation=self.participation)
        if self.local_epsilon_cap is not None:
            checks.positive(local_epsilon_cap=self.local_epsilon_cap)
        cap = self.messages_cap
        expected = "messages_cap >= 1: everybody sends at least one message"
        checks.refuse(cap is not None and not 1 <= cap < math.inf, expected, messages_cap=cap)
        kinds = ("categories", "bounds", "dimension")
        chosen = [name for name in kinds if getattr(self, name) is not None]
        expected = "exactly one of categories, bounds and dimension"
        checks.refuse(len(chosen) != 1, expected, given=", ".join(chosen) or "none")
        checks.counts(self, categories=2, dimension=2)
        expected = (
            f"categories <= {MOST_CATEGORIES:,} (open answers need no list: heavy_hitters, "
            "shoal run --open)"
        )
        many = self.categories is not None and self.categories > MOST_CATEGORIES
        checks.refuse(many, expected, categories=self.categories)
        if self.norm is not None and self.dimension is None:
            raise InvalidArgumentError("norm", self.norm, "a norm only with dimension")
        _ = self.domain  # which checks them

    @property
    def domain(self) -> Domain:
        """What people may answer."""
        if self.categories is not None:
            return Cells(self.categories)
        if self.bounds is not None:
            return Interval(*self.bounds)
        d = self.dimension or 0
        return Sphere(d) if self.norm is None else Ball(d, self.norm)

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
    def people(self) -> dict[str, Any]:
        """Who takes part, as keywords of the accountant."""
        return attributes(self, "n", "honest_fraction", "participation")

    @property
    def dishonest(self) -> int:
        """People who take part and are not counted on."""
        return math.ceil(self.n * self.participation * (1 - self.honest_fraction) * (1 - _SLACK))


@dataclass(frozen=True)
class Option:
    """One row of a :func:`shoal.plan`: a randomizer at the largest ε₀ that keeps the target.

    Or a protocol with the least noise; its ε₀ is infinite, as one of its messages is the truth.

    Attributes:
        name: What ``choose`` takes.
        randomizer: What each device would run; None if it is out of the question.
        local_epsilon: ε₀ of what one person sends.
        errors: The predicted errors.
        remark: Why it is out of the question, or what to know.
    """

    name: str
    randomizer: Device | None = None
    local_epsilon: float | None = None
    errors: Errors | None = None
    remark: str = ""

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
    def openings(self) -> int | None:
        """Envelopes to be opened for one person: every slot is sealed by itself."""
        return None if self.randomizer is None else self.randomizer.slots

    @property
    def bytes(self) -> int | None:
        """Length of all that one person sends, before it is sealed."""
        sent = self.randomizer
        return None if sent is None else sent.slots * sent.message_bytes

    @property
    def influence(self) -> float | None:
        """What one dishonest person can add to one answer's count, or to the sum, where known."""
        return None if self.randomizer is None else self.randomizer.influence

    def to_dict(self) -> Record:
        """Plain values."""
        local, made = self.local_epsilon, self.randomizer
        return {
            "name": self.name,
            "randomizer": None if made is None else made.described(),
            "local_epsilon": local if local is not None and math.isfinite(local) else None,
            "errors": None if self.errors is None else asdict(self.errors),
            "message_bits": None if made is None else made.message_bits,
            "messages": self.messages,
            "slots": None if made is None else made.slots,
            "bytes": self.bytes,
            "openings": self.openings,
            "influence": self.influence,
            "remark": self.remark,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], domain: Domain) -> Option:
        """An option for these data, from plain values."""
        made: Device | None = None
        if stored.get("randomizer") is not None:
            made = restored(stored["randomizer"], domain)
        local = stored.get("local_epsilon")
        if local is None and made is not None and math.isinf(made.local_epsilon):
            local = math.inf
        return cls(
            str(stored["name"]),
            made,
            None if local is None else float(local),
            None if stored.get("errors") is None else Errors(**stored["errors"]),
            str(stored.get("remark", "")),
        )


@dataclass(frozen=True)
class Plan(Tabular):
    """The options for a question, best first, beside a trusted curator and no shuffler.

    :func:`shoal.plan` makes it. It prints itself as a table, and saves itself as JSON.

    Attributes:
        question: What is asked.
        options: A :class:`shoal.planning.Option` for each candidate, best first.
        reason: Why the first one is recommended.

    References:
        ``guarantee`` is by the theorems of :func:`shoal.amplify`; :doc:`/theory/solving`.

    Example:
        >>> import shoal
        >>> made = shoal.plan(epsilon=1, n=10_000, categories=4)
        >>> made.recommended.name, made.guarantee.epsilon <= 1
        ('grr', True)
    """

    question: Question
    options: tuple[Option, ...]
    reason: str

    @cached_property
    def central(self) -> Errors | None:
        """What a trusted curator would give, of answers."""
        k = self.question.categories
        return None if k is None else errors.central(k, self.question.epsilon)

    @cached_property
    def local(self) -> Errors | None:
        """What is known without a shuffler, of answers."""
        k, n = self.question.categories, self.question.n
        return None if k is None else errors.local(k, self.question.epsilon, n)

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
        question = self.question
        return amplification.amplify(self.randomizer, delta=question.delta, **question.people)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before relying on it."""
        return self.guarantee.warnings

    def estimate(self, batch: object) -> object:
        """The recommended randomizer's estimate from a batch or its counts."""
        return self.randomizer.estimate(batch)  # type: ignore[arg-type]  # which says if it is none

    def quantile_error(self, quantile: float = 0.5) -> float:
        """Predicted error, in people, of the count up to a quantile of answers that are bins.

        A quantile is off by as many people: by the bins that hold them.

        >>> made = plan(epsilon=1, delta=1e-6, n=10**5, categories=100, messages_cap=None)
        >>> round(made.choose("grr").quantile_error()), round(made.quantile_error())
        (46, 15)
        """
        checks.open_probability(quantile=quantile)
        if self.question.categories is None:
            raise InvalidArgumentError("quantile", quantile, "a plan for answers (bins)")
        return errors.of_total(self.randomizer, self.question, quantile)

    def choose(self, name: str) -> Plan:
        """The same plan with another option first."""
        named = [option for option in self.options if option.name == name]
        if named and named[0].remark == _BY_NAME:
            named = [_options(self.question, name)[name]]
        chosen = [option for option in named if option.randomizer]
        if named and not chosen:
            raise UnreachableTargetError(
                f"the target with {name}", named[0].remark, "choose another, or ask for less"
            )
        if not chosen:
            known = (each for each in self.options if each.randomizer or each.remark == _BY_NAME)
            expected = f"one of {', '.join(option.name for option in known)}"
            cap = self.question.messages_cap
            if cap is not None and _options(replace(self.question, messages_cap=None), name):
                expected += f" (messages_cap / --messages-cap = {cap:g} excludes {name})"
            raise InvalidArgumentError("choose", name, expected)
        others = tuple(option for option in self.options if option.name != name)
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
            asked = Question(**question)
            options = tuple(Option.from_dict(each, asked.domain) for each in stored["options"])
            plan = cls(asked, options, str(stored["reason"]))
        except InvalidArgumentError:
            raise
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise InvalidArgumentError("plan", str(error), "a complete saved plan") from error
        checks.refuse(not options, "at least one option", options=[])
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
                raise InvalidArgumentError("randomizer", made.described(), expected)
            limits = (
                ("messages", most, f"the plan's {most or 0:g} messages per person"),
                ("local_epsilon", option.local_epsilon or 0.0, "its stated local epsilon"),
                ("local_epsilon", cap, f"the plan's cap {cap or 0:g}"),
            )
            for name, limit, what in limits:
                value = getattr(made, name)
                if limit is not None and value > limit * (1 + _SLACK):
                    raise InvalidArgumentError(name, value, f"{option.name} within {what}")
        missed = self.guarantee.epsilon > self.question.epsilon * (1 + _SLACK)
        expected = f"a plan that keeps its epsilon {self.question.epsilon:g}"
        checks.refuse(missed, expected, epsilon=self.guarantee.epsilon)

    def _suits(self, device: Device) -> bool:
        return device.domain.accepts(self.question.domain)

    def document(self) -> Document:
        """The options, best first, the recommendation and what it keeps."""
        best, guarantee = self.recommended, self.guarantee
        if math.isfinite(best.local_epsilon or 0.0):
            how = f"with ε0 = {down(best.local_epsilon or 0.0)}"
            alone = "ε0 of each report needs no trust"
        elif guarantee.local_delta:
            how = f"with σ = {up(getattr(self.randomizer, 'sigma', math.nan))}"
            by_itself = f"ε0 = {up(guarantee.local_epsilon)} at δ0 = {up(guarantee.local_delta)}"
            alone = f"without that trust each report keeps {by_itself}"
        else:
            how = f"with {best.messages or 1.0:.4g} messages per person"
            alone = "without that trust nothing holds: one person's messages reveal the datum"
            alone += f". An envelope has {best.openings:,} slots, {best.bytes:,} bytes in all"
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
            advice += f" One dishonest person can add at most {most} to {what}"
            count = self.question.dishonest
            together = f", {count:,} of them {_amount(count * best.influence)}" * (count > 1)
            advice += f"{together}."
        counts = "Errors of the counts, in people; per answer: of one that nobody gave."
        if self._several:
            counts = (
                "Errors of the counts, in people; adds: what one dishonest person can add to a "
                "count. ε0 is none if shuffler and analyzer collude."
            )
        notes = [f"not {each.name}: {each.remark}" for each in self.options if each.errors is None]
        nearer = self.nearer
        if nearer is not None:
            sent, error = nearer.messages or 1.0, _amount(_error(nearer))
            notes.append(
                f"with {sent:.{2 if sent > _ALIKE else 4}g} messages and no local ε₀: {error} "
                f"(the L2 error of {nearer.name}, which messages_cap / --messages-cap = "
                f"{math.ceil(sent)} allows)"
            )
        return Document(
            f"Run {best.name} {how}",
            table=self._table(),
            sentences=(*[counts] * (self.question.categories is not None), advice),
            notes=tuple(notes),
            warnings=self.warnings,
        )

    @property
    def _several(self) -> bool:
        return any((option.messages or 1) > 1 for option in self.options)

    @cached_property
    def nearer(self) -> Option | None:
        """What a plan of one message for one of several answers leaves out: a curator's chart.

        The near-central histogram (of two answers: count), where it takes few messages. It has no
        local epsilon, so it is never recommended unless several messages are allowed.
        """
        question = self.question
        k, cap = question.categories, question.messages_cap
        if k is None or cap != 1 or question.local_epsilon_cap or question.epsilon < _NOTED:
            return None
        allowed, crowd = replace(question, messages_cap=_FEW), question.dishonest
        name = "near-central" if k == 2 else "near-central-lean"
        made = partial(registry.calibration(name), **({} if k == 2 else {"k": k}))
        option = _option(Candidate(name, calibrated=made), allowed)
        return option if _error(option, crowd) < _error(self.recommended, crowd) else None

    def _table(self) -> Table:
        """One line per option, then what a trusted curator and what no shuffler would give."""
        several, counts = self._several, self.question.categories is not None
        kind = ["L2 error", "largest", "per answer"] if counts else ["error of sum", "of mean"]
        sent = ["msgs"] * several + ["bits"]
        if several and counts:
            kind, sent = kind[:-1], ["msgs", "slots", "adds"]
        heads = ("randomizer", "ε0", *kind, *sent)

        def cells(errors: Errors) -> tuple[str, ...]:
            if counts:
                return tuple(map(_amount, (errors.l2, errors.linf, errors.cell)[: len(kind)]))
            return _amount(errors.l2), f"{errors.l2 / self.question.n:.3g}"

        def sends(option: Option) -> tuple[str, ...]:
            values = {
                "msgs": f"{option.messages or 1.0:,.4g}",
                "slots": f"{option.openings:,}",
                "adds": _amount(option.influence or 0.0),
                "bits": f"{option.bits:,.1f}",
            }
            return tuple(values[name] for name in sent)

        rows: list[Row] = []
        for option in self.options:
            if option.errors is not None:
                local = option.local_epsilon or 0.0
                shown = down(local) if math.isfinite(local) else "none"
                line = (option.name, shown, *cells(option.errors), *sends(option))
                rows.append(Row(line, "" if rows else "strong"))
        references = (
            ("a trusted curator", "–", self.central),
            ("no shuffler", plain(self.question.epsilon), self.local),
        )
        for name, shown, error in references:
            if error is not None:
                rows.append(Row((name, shown, *cells(error), *[""] * len(sent)), "weak"))
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


def _amount(value: float) -> str:
    """A number of people (or a sum): whole where it is large."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"


# ------------------------------------------------------------------------------ making a plan


def plan(
    *,
    epsilon: float,
    n: int,
    delta: float | None = None,
    categories: int | None = None,
    bounds: tuple[float, float] | None = None,
    dimension: int | None = None,
    norm: float | None = None,
    local_epsilon_cap: float | None = None,
    honest_fraction: float = 1.0,
    participation: float = 1.0,
    messages_cap: float | None = 1.0,
) -> Plan:
    """What each device should run, and how wrong the result will be.

    For one of some categories, a number between bounds, or a vector.

    Args:
        epsilon: ε > 0 of the shuffled reports.
        n: People who report.
        delta: δ; min(1e-6, 1/(10 n)) unless given.
        categories: How many answers there are, at least 2.
        bounds: (low, high) of a number.
        dimension: Coordinates of a vector, of length 1 unless there is a norm.
        norm: The longest vector.
        local_epsilon_cap: The largest ε₀ that a report may have.
        honest_fraction: Fraction in (0, 1] of the people who follow the protocol, by
            default 1. The guarantee is that of the honest people alone: count only
            those you are sure of.
        participation: Probability in (0, 1] that a person reports, unseen by the
            analyzer.
        messages_cap: Messages that one person may send on average, default 1; None for
            any number. Above 1 it offers protocols whose error is near a curator's and
            which have no local ε₀.

    Returns:
        A :class:`shoal.Plan` with options, best first, and their predicted errors.

    Raises:
        InvalidArgumentError: A number is out of its range, or not exactly one of
            categories, bounds and dimension is given.
        UnreachableTargetError: No option keeps (ε, δ) under these limits.

    References:
        Each option keeps the target by the theorem of its page; :doc:`/theory/solving`.

    Example:
        >>> import shoal
        >>> best = shoal.plan(epsilon=1, n=10**6, categories=100)
        >>> best.recommended.name, round(best.recommended.errors.l2)
        ('grr', 102)
        >>> best = shoal.plan(epsilon=1, n=10**6, categories=100, messages_cap=2)
        >>> best.recommended.name, round(best.recommended.errors.l2)
        ('near-central-lean', 29)
    """
    n = checks.count(n=n)
    question = Question(
        epsilon=epsilon,
        delta=default_delta(n) if delta is None else delta,
        n=n,
        categories=categories,
        bounds=bounds,
        dimension=dimension,
        norm=norm,
        local_epsilon_cap=local_epsilon_cap,
        honest_fraction=honest_fraction,
        participation=participation,
        messages_cap=messages_cap,
    )
    options, reason = _ranked(_options(question), question)
    if options[0].errors is None:
        advice = "collect more reports or weaken the target"
        if dimension is not None and dimension >= checks.LARGEST_DIMENSION:
            advice = "ask for fewer coordinates"
        raise UnreachableTargetError(
            f"({epsilon:g}, {question.delta:g})-DP with n={n}",
            "; ".join(f"{option.name}: {option.remark}" for option in options),
            advice,
        )
    return Plan(question, options, reason)


def recalibrated(made: Plan, epsilon: float) -> Plan:
    """A plan with the recommended option only, at another epsilon."""
    question, name = replace(made.question, epsilon=epsilon), made.recommended.name
    local = made.recommended.local_epsilon
    near = local if math.isfinite(local or math.inf) else None
    option = _options(question, name, near=near)[name]
    if option.errors is None:
        raise UnreachableTargetError(
            f"({epsilon:g}, {question.delta:g})-DP with {name}", option.remark, "plan anew"
        )
    return Plan(question, (option,), made.reason)


def messages_limit(messages_cap: float | None, choose: str | None) -> float | None:
    """Messages per person: one, unless more are allowed or an option is chosen by name."""
    return 1.0 if messages_cap is None and choose is None else messages_cap


# ------------------------------------------------------------------------- the other way round


def required_n_for(error: float, **question: object) -> int:
    """The smallest number of people whose predicted L2 error is at most ``error`` of them.

    Args:
        error: The error, as a fraction of the people, > 0.
        **question: The other arguments of :func:`shoal.plan`; without delta, that of
            each n.

    Returns:
        n.

    Raises:
        InvalidArgumentError: A number is out of its range.
        UnreachableTargetError: Not even the largest n that is tried is enough.

    References:
        The theorems of :func:`shoal.plan`.

    Example:
        >>> required_n_for(0.05, epsilon=1, dimension=2)
        430
    """

    def with_people(log_n: float) -> dict[str, Any]:
        return question | {"n": math.ceil(math.exp(log_n))}

    reason = f"not even {_LARGEST_N:,} people are enough"
    log_n = _smallest(error, with_people, 16, _LARGEST_N, reason, advice="allow more")
    return math.ceil(math.exp(log_n))


def required_epsilon_for(error: float, *, n: int, **question: object) -> float:
    """The smallest ε at which the predicted L2 error is at most ``error`` of n people.

    Args:
        error: The error, as a fraction of the people, > 0.
        n: People who report.
        **question: The other arguments of :func:`shoal.plan`.

    Returns:
        ε, from 0.001 to 16.

    Raises:
        InvalidArgumentError: A number is out of its range.
        UnreachableTargetError: So few people do not reach it at any ε.

    References:
        The theorems of :func:`shoal.plan`.

    Example:
        >>> round(required_epsilon_for(0.2, n=1_000, dimension=2), 3)
        0.059
    """

    def with_epsilon(log_epsilon: float) -> dict[str, Any]:
        return question | {"n": n, "epsilon": math.exp(log_epsilon)}

    reason, advice = f"{n:,} people are too few", "collect more reports"
    return math.exp(_smallest(error, with_epsilon, 1e-3, 16, reason, advice=advice))


def _smallest(
    error: float,
    question: Callable[[float], dict[str, Any]],
    low: float,
    high: float,
    reason: str,
    *,
    advice: str,
) -> float:
    """The logarithm from which on a question's plan has at most this error; refused beyond high."""
    checks.positive(error=error)

    @cache
    def excess(logarithm: float) -> float:
        """log of the predicted error, as a fraction of the crowd, over the one allowed."""
        try:
            made = plan(**question(logarithm))
        except UnreachableTargetError:
            return _FAR
        return math.log(cast("Errors", made.recommended.errors).l2 / made.question.n / error)

    end = math.log(high)
    places: list[float] = [*np.arange(math.log(low), end, _STRIDE).tolist(), end]
    if excess(places[0]) <= 0:
        return places[0]
    for start, end in pairwise(places):
        if excess(end) <= 0:
            return search.root_below(excess, start, end, tolerance=1e-4)
    raise UnreachableTargetError(f"an error of {error:g}", reason, advice)


# --------------------------------------------------------------------------------- their options


def _options(question: Question, *names: str, near: float | None = None) -> dict[str, Option]:
    """The best option of each name, or of these names.

    Local epsilons of different families are alike: a search begins ``near`` the one before.
    """
    most = math.inf if question.messages_cap is None else question.messages_cap
    wanted = Wanted(domain=question.domain, n=question.n, epsilon=question.epsilon, messages=most)
    kinds = registry.fitting(question.domain, several=most > 1)
    tried = [candidate for kind in kinds for candidate in kind.candidates(wanted)]
    best: dict[str, Option] = {}
    for name in names or dict.fromkeys(candidate.name for candidate in tried):
        # The likeliest first: most others are then seen to be worse without a search.
        likely = max((each.local_epsilon or 0.0 for each in best.values()), default=0.0)
        rivals = [candidate for candidate in tried if candidate.name == name]
        if len(rivals) > 1 and rivals[0].family is not None and 0 < likely < math.inf:
            rivals.sort(key=lambda rival: _predicted_error(rival, likely, question))
        for candidate in rivals:
            known = best.get(name)
            if not names and name in registry.BY_SIGMA and _more_noise(candidate, best, question):
                best[name] = Option(name, remark=_BY_NAME)
                continue
            if known is None or not _surely_worse(candidate, known, question):
                option = _option(candidate, question, near)
                if math.isfinite(option.local_epsilon or math.inf):
                    near = option.local_epsilon
                if known is None or _error(option) < _error(known):
                    best[name] = option
    return best


def _more_noise(candidate: Candidate, best: dict[str, Option], question: Question) -> bool:
    """Whether a mechanism without a local epsilon needs more noise than the best so far has."""
    made: Any = cast("partial[Device]", candidate.calibrated)
    least = min((_error(option) for option in best.values()), default=math.inf)
    crowd = Crowd(**question.people)
    if least == math.inf:
        return False
    try:
        return not made.func.__self__.suffices(
            least / math.sqrt(question.n),
            n=crowd.present,
            epsilon=question.epsilon,
            delta=question.delta - 2 * crowd.absence,
            **made.keywords,
        )
    except InvalidArgumentError:  # so little noise that its density cannot be followed
        return True


def _error(option: Option, dishonest: int = 0) -> float:
    """The L2 error, and what so many dishonest people can add to one count."""
    if option.errors is None:
        return math.inf
    return option.errors.l2 + (dishonest * (option.influence or 0.0) if dishonest else 0.0)


def _surely_worse(candidate: Candidate, known: Option, question: Question) -> bool:
    """Whether no local epsilon that keeps the target makes the candidate better than the option.

    The error falls as the local epsilon grows: at the largest one that is no better than what is
    known, one evaluation of the candidate's law tells whether it can go beyond.
    """
    if candidate.family is None or known.errors is None:
        return False
    target = known.errors.l2
    cap = min(question.local_epsilon_cap or math.inf, candidate.largest_epsilon)
    low = min(question.epsilon, cap)
    if _predicted_error(candidate, cap, question) >= target:
        return True
    if _predicted_error(candidate, low, question) < target:
        return False
    reach = search.largest(
        lambda local: _predicted_error(candidate, local, question) >= target,
        low,
        cap,
        tolerance=1e-3,
    )
    curve = amplification.profile(candidate.family(epsilon=reach), **question.people)
    return curve.delta(question.epsilon) > question.delta


def _predicted_error(candidate: Candidate, local: float, question: Question) -> float:
    """The L2 error of the candidate at this local epsilon; 0 where there is none to predict."""
    family = cast("Callable[..., Device]", candidate.family)
    try:
        return errors.predicted(family(epsilon=local), question).l2
    except (InvalidArgumentError, UnreachableTargetError):
        return 0.0


def _option(candidate: Candidate, question: Question, near: float | None = None) -> Option:
    """The candidate at its largest local epsilon, or with its least noise; or why there is none."""
    name, cap, most = candidate.name, question.local_epsilon_cap, question.messages_cap
    made: Device
    try:
        if candidate.calibrated is not None:
            crowd = Crowd(**question.people)
            made = candidate.calibrated(
                n=crowd.present, epsilon=question.epsilon, delta=question.delta - 2 * crowd.absence
            )
            local = made.local_epsilon
        elif candidate.family is not None:
            local = local_epsilon(
                candidate.family,
                epsilon=question.epsilon,
                delta=question.delta,
                **question.people,
                cap=min(cap or math.inf, candidate.largest_epsilon),
                near=near,
            )
            made = candidate.family(epsilon=local)
        else:
            return Option(name, remark=candidate.remark)
    except (InvalidArgumentError, UnreachableTargetError) as error:
        return Option(name, remark=str(error))
    if most is not None and made.messages > most:
        sent = f"{made.messages:.4g} messages per person on average"
        return Option(name, remark=f"{sent} are over the cap of {most:g}")
    if cap is not None and local > cap:
        alone = "one of its messages is the truth" if made.messages > 1 else "noise without bounds"
        remark = f"{alone}: no ε0, let alone one below {cap:g}"
        return Option(name, remark=remark)
    return Option(name, made, local, errors.predicted(made, question))


def _ranked(best: dict[str, Option], question: Question) -> tuple[tuple[Option, ...], str]:
    """Smallest L2 error first, impossible ones last, and why the first is the first.

    To the error is added what the dishonest people can add to a count, where that is known of all
    options. Among those within 2 % of the smallest the one that sends least comes first. One
    message without a local epsilon is first only if it is chosen by name.
    """
    possible = [option for option in best.values() if option.errors is not None]
    bias = question.dishonest if question.honest_fraction < 1 else 0
    if bias and any(option.influence is None for option in possible):
        bias = 0
    # To five digits: those that differ by rounding only stay in the order of the candidates.
    ordered = sorted(best.values(), key=lambda option: float(f"{_error(option, bias):.5g}"))
    bounded = [option for option in ordered if option.name not in registry.BY_SIGMA] or ordered
    least = _error(bounded[0], bias)
    alike = [option for option in bounded if _error(option, bias) <= _ALIKE * least]
    simplest = list(best)  # the candidates come simplest first
    first = min(
        alike,
        key=lambda option: (round(option.bits or math.inf, 3), simplest.index(option.name)),
    )
    others = [option for option in ordered if option is not first]
    cap = question.local_epsilon_cap
    if not others or others[0].errors is None:
        return (first, *others), "it is the only one possible"
    second, ratio = others[0].name, _error(others[0], bias) / _error(first, bias)
    if ratio < 1 and second in registry.BY_SIGMA:
        return (
            first,
            *others,
        ), f"{second} has a smaller error, but no ε0: it is used only if chosen by name"
    crowd = f"{bias:,} dishonest {'person' if bias == 1 else 'people'}"
    error = f"error, with what {crowd} can add," if bias else "error"
    if ratio <= _ALIKE:
        why = f"it sends least of those with the smallest {error.rstrip(',')} ({second} ties)"
    else:
        why = f"its {error} is the smallest: {second}, the next, has {ratio:.2f} times as much"
    if cap is not None and first.local_epsilon is not None and first.local_epsilon >= cap:
        why += f"; the cap on ε0 binds, so that less than ε = {question.epsilon:g} is used"
    return (first, *others), why
