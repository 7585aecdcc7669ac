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
from shoal.planning import errors
from shoal.planning.errors import Errors
from shoal.protocols.base import Device, MultiMessageMechanism
from shoal.protocols.registry import calibration, restored
from shoal.randomizers.base import Randomizer, VectorMechanism
from shoal.randomizers.registry import CATEGORIES, by_name, described
from shoal.values import Record, attributes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from shoal.randomizers.vectors import Ball

Family = Callable[..., Randomizer]

FORMAT = 1
MOST_CATEGORIES = 10_000_000  # beyond, predicting the error of every answer takes too long
_SLACK = 1e-6
_ERRORS = tuple(field.name for field in fields(Errors))
LARGEST_VECTOR = 10_000  # answers: beyond, a message with a bit per answer is too long
LARGEST_DECODING = 1e10  # reports times answers: beyond, trying every answer takes hours
MOST_COINS = 1_000_000  # answers: beyond, a coin for each of them takes too long
_HASHED = (256, 1024, 4096, 16384, 65536)
_BUCKETS = (2, 4, 8, 16, 64, 256, 1024, 4096)
_FEW_LEVELS = (16, 11, 8, 6, 4, 3, 2, 1)  # more than that, and a split sum needs fewer messages
_LARGEST_ENVELOPE = 20.0  # levels over epsilon: a thousand slots for each of it
_LEVELS = (1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 256, 512)
_LARGEST_N = 10**12
_ALIKE = 1.02
_STRIDE = 2.0  # in logarithms
_FAR = 20.0  # stands for "impossible" in logarithms


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
        checks.counts(self, n=1)
        checks.fraction(honest_fraction=self.honest_fraction, participation=self.participation)
        if self.local_epsilon_cap is not None:
            checks.positive(local_epsilon_cap=self.local_epsilon_cap)
        cap = self.messages_cap
        expected = "messages_cap >= 1: everybody sends at least one message (None: no limit)"
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
        if self.norm is not None:
            if self.dimension is None:
                raise InvalidArgumentError("norm", self.norm, "a norm beside dimension only")
            _ = self.ball  # which checks them
        if self.bounds is not None:
            checks.bounds(*self.bounds)

    @property
    def ball(self) -> Ball | None:
        """The vectors in question, if they may be shorter than the norm."""
        if self.dimension is None or self.norm is None:
            return None
        from shoal.randomizers.vectors import Ball

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
    def people(self) -> dict[str, Any]:
        """Who takes part, as keywords of the accountant."""
        return attributes(self, "n", "honest_fraction", "participation")


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
            "message_bits": None if made is None else made.message_bits,
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
            None if stored.get("errors") is None else Errors(**stored["errors"]),
            str(stored.get("remark", "")),
        )


@dataclass(frozen=True)
class Plan(Tabular):
    """Options, best first, beside what a trusted curator and what no shuffler would give."""

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
            plan = cls(Question(**question), options, str(stored["reason"]))
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
        missed = self.guarantee.epsilon > self.question.epsilon * (1 + _SLACK)
        expected = f"a plan that keeps its epsilon {self.question.epsilon:g}"
        checks.refuse(missed, expected, epsilon=self.guarantee.epsilon)

    def _suits(self, device: Device) -> bool:
        question = self.question
        if question.categories is not None:
            return getattr(device, "k", None) == question.categories
        if question.bounds is not None:
            return (getattr(device, "low", None), getattr(device, "high", None)) == question.bounds
        if question.ball is not None:
            return question.ball.suits(device)
        bound = getattr(device, "bound", math.inf)
        needed = math.sqrt(question.dimension or 0) * (1 - _SLACK)
        return getattr(device, "dimension", None) == question.dimension and bound >= needed

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
        for name, shown, error in references:
            if error is not None:
                rows.append(Row((name, shown, *cells(error), *[""] * (1 + several)), "weak"))
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

    One of so many ``categories``, a number between ``bounds``, or a vector of ``dimension``
    coordinates: of length 1, or of any length up to ``norm``.

    ``delta`` is min(1e-6, 1/(10 n)) unless it is given. ``messages_cap`` is how many messages one
    person may send on average (None: any number); above 1 it lets in protocols that hide the truth
    among further messages.

    >>> best = plan(epsilon=1, delta=1e-6, n=10**6, categories=100)
    >>> best.recommended.name, best.recommended.errors.l2 < 94
    ('grr', True)
    >>> best = plan(epsilon=1, delta=1e-6, n=10**6, categories=100, messages_cap=2)
    >>> best.recommended.name, best.recommended.errors.l2 < 66
    ('dummies', True)
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


def messages_limit(messages_cap: float | None, choose: str | None) -> float | None:
    """Messages per person: one, unless more are allowed or an option is chosen by name."""
    return 1.0 if messages_cap is None and choose is None else messages_cap


# ------------------------------------------------------------------------- the other way round


def required_n_for(error: float, **question: object) -> int:
    """The smallest crowd whose predicted L2 error, as a fraction of it, is at most ``error``.

    Takes the other arguments of :func:`plan`; without ``delta``, that of each crowd.
    """

    def with_people(log_n: float) -> dict[str, Any]:
        return question | {"n": math.ceil(math.exp(log_n))}

    reason = f"not even {_LARGEST_N:,} people are enough"
    log_n = _smallest(error, with_people, 16, _LARGEST_N, reason, advice="allow more")
    return math.ceil(math.exp(log_n))


def required_epsilon_for(error: float, *, n: int, **question: object) -> float:
    """The smallest epsilon at which n people reach a predicted L2 error of this fraction."""

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


# ------------------------------------------------- the randomizers and protocols worth considering


@dataclass(frozen=True)
class Candidate:
    """What makes a randomizer of ``epsilon=``, or the reason why it is out of question.

    A protocol with several messages is calibrated for so many people instead (``protocol``): it is
    made of ``n=``, ``epsilon=`` and ``delta=``.
    """

    name: str
    family: Family | None = None
    remark: str = ""
    largest_epsilon: float = 25.0
    protocol: Callable[..., MultiMessageMechanism] | None = None


def for_categories(k: int, n: int, *, messages_cap: float | None = 1.0) -> list[Candidate]:
    """One of k answers; local hashing with several numbers of buckets; fewest messages first."""
    limited = dict.fromkeys(("subset", "unary", "hashing"), "")
    if k > LARGEST_VECTOR:
        limited["subset"] = limited["unary"] = f"a message of {k:,} bits is too long"
    if n * k > LARGEST_DECODING:
        limited["hashing"] = f"decoding tries {k:,} answers on each of {n:,} reports"
    tried = []
    for name in CATEGORIES:
        sizes = [{"buckets": buckets} for buckets in _BUCKETS] if name == "hashing" else [{}]
        if limited.get(name):
            tried.append(Candidate(name, remark=limited[name]))
        else:
            tried += [Candidate(name, partial(by_name(name), k=k, **size)) for size in sizes]
    if messages_cap is not None and messages_cap <= 1:
        return tried
    if k == 2:
        tried += [_protocol("near-central"), _protocol("coins")]
    tried.append(_protocol("dummies", k=k))
    if k <= MOST_COINS:
        tried.append(_protocol("sparse", k=k))
        # Everybody sends about a message per answer: worth a look only where that is allowed.
        if k <= (LARGEST_VECTOR if messages_cap is None else messages_cap):
            tried.append(_protocol("zero-sum", k=k))
    if k > n and limited["hashing"]:
        remark = f"decoding tries {k:,} answers on each of {n:,} messages"
        tried.append(Candidate("hashed-dummies", remark=remark))
    elif k > n:
        tried += [_protocol("hashed-dummies", k=k, buckets=b) for b in _HASHED if b < k]
    return tried


def for_numbers(
    low: float, high: float, *, epsilon: float = 1.0, messages_cap: float | None = 1.0
) -> list[Candidate]:
    """A number between bounds; rounding to several numbers of levels; sums by several messages."""
    made = partial(partial, low=low, high=high)
    tried = [Candidate(name, made(by_name(name))) for name in ("duchi", "piecewise")]
    # Beyond, the law of Laplace noise has too many atoms that matter to be searched.
    tried.append(Candidate("laplace", made(by_name("laplace")), largest_epsilon=8.0))
    rounded = by_name("rounded")
    tried += [Candidate("rounded", made(rounded, levels=levels + 1)) for levels in _LEVELS]
    if messages_cap is not None and messages_cap <= 1:
        return tried
    most = math.inf if messages_cap is None else messages_cap
    few = [levels for levels in _FEW_LEVELS if levels <= min(most, _LARGEST_ENVELOPE * epsilon)]
    if few:
        central = partial(_near_central_sum, few, most, low=low, high=high)
        tried.append(Candidate("near-central-sum", protocol=central))
    else:
        tried.append(Candidate("near-central-sum", remark="an envelope would need too many slots"))
    return [*tried, _protocol("split-and-mix", low=low, high=high)]


def for_vectors(
    dimension: int, norm: float | None = None, *, messages_cap: float | None = 1.0
) -> list[Candidate]:
    """A vector: of length 1, or no longer than ``norm``, which takes a coordinate more."""
    directions = dimension if norm is None else dimension + 1
    tried = [
        Candidate(name, partial(by_name(name), dimension=directions))
        for name in ("privunit", "privunitg")
    ]
    if messages_cap is None or messages_cap > 1:
        # The most that the absolute values of the coordinates add up to.
        bound = math.sqrt(dimension) * (1.0 if norm is None else norm)
        tried.append(_protocol("split-and-mix-vectors", dimension=dimension, bound=bound))
    return tried


def _protocol(name: str, **parameters: float) -> Candidate:
    return Candidate(name, protocol=partial(calibration(name), **parameters))


def _near_central_sum(few: list[int], most: float, **target: float) -> MultiMessageMechanism:
    """With as many levels as the messages allow: the more of them, the less rounding."""
    for levels in few:
        made = calibration("near-central-sum")(levels=levels, **target)
        if made.messages <= most:
            break
    return made


# --------------------------------------------------------------------------------- their options


def _options(question: Question) -> dict[str, Option]:
    """The best option of each name."""
    cap = question.messages_cap
    if question.categories is not None:
        tried = for_categories(question.categories, question.n, messages_cap=cap)
    elif question.bounds is not None:
        tried = for_numbers(*question.bounds, epsilon=question.epsilon, messages_cap=cap)
    else:
        tried = for_vectors(question.dimension or 0, question.norm, messages_cap=cap)
    best: dict[str, Option] = {}
    for name in dict.fromkeys(candidate.name for candidate in tried):
        # The likeliest first: most others are then seen to be worse without a search.
        likely = max((each.local_epsilon or 0.0 for each in best.values()), default=0.0)
        rivals = [candidate for candidate in tried if candidate.name == name]
        if len(rivals) > 1 and rivals[0].family is not None and 0 < likely < math.inf:
            rivals.sort(key=lambda rival: _predicted_error(rival, likely, question))
        for candidate in rivals:
            known = best.get(name)
            if known is None or not _surely_worse(candidate, known, question):
                option = _option(candidate, question)
                if known is None or _error(option) < _error(known):
                    best[name] = option
    return best


def _error(option: Option) -> float:
    return math.inf if option.errors is None else option.errors.l2


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
    family = cast("Family", candidate.family)
    try:
        return errors.predicted(family(epsilon=local), question).l2
    except (InvalidArgumentError, UnreachableTargetError):
        return 0.0


def _option(candidate: Candidate, question: Question) -> Option:
    """The candidate at its largest local epsilon, or with its least noise; or why there is none."""
    name, cap, most = candidate.name, question.local_epsilon_cap, question.messages_cap
    made: Device
    try:
        if candidate.protocol is not None:
            crowd = Crowd(**question.people)
            made = candidate.protocol(
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
        remark = f"one of its messages is the truth: no ε0, let alone one below {cap:g}"
        return Option(name, remark=remark)
    return Option(name, made, local, errors.predicted(made, question))


def _ranked(best: dict[str, Option], question: Question) -> tuple[tuple[Option, ...], str]:
    """Smallest L2 error first, impossible ones last, and why the first is the first.

    Among those within 2 % of the smallest error the one that sends least comes first.
    """
    ordered = sorted(best.values(), key=_error)
    alike = [option for option in ordered if _error(option) <= _ALIKE * _error(ordered[0])]
    simplest = list(best)  # the candidates come simplest first
    first = min(
        alike,
        key=lambda option: (round(option.bits or math.inf, 3), simplest.index(option.name)),
    )
    others = [option for option in ordered if option is not first]
    cap = question.local_epsilon_cap
    if not others or others[0].errors is None:
        return (first, *others), "it is the only one possible"
    second, ratio = others[0].name, _error(others[0]) / _error(first)
    if ratio <= _ALIKE:
        why = f"it sends least of those with the smallest error ({second} ties)"
    else:
        why = f"its error is the smallest: {second}, the next, has {ratio:.2f} times as much"
    if cap is not None and first.local_epsilon is not None and first.local_epsilon >= cap:
        why += f"; the cap on ε0 binds, so that less than ε = {question.epsilon:g} is used"
    return (first, *others), why
