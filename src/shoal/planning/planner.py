"""What a report is planned for, and the options there are: each mechanism at its largest ε₀.

Every applicable randomizer is tried at the largest local epsilon its own law allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from shoal import checks
from shoal.accounting import amplification, search
from shoal.accounting.devices import People
from shoal.accounting.guarantee import Guarantee
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.explain import plots
from shoal.explain.document import Document, Row, Table
from shoal.explain.text import down, plain, up
from shoal.mechanisms import registry
from shoal.mechanisms.base import Candidate, Device, Wanted
from shoal.mechanisms.estimators import Errors
from shoal.planning import errors
from shoal.planning.schemes import Scheme, Whole
from shoal.questions.domains import Domain
from shoal.questions.terms import EVERYBODY, NO_LIMITS, Crowd, Limits
from shoal.values import Record, attributes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_SLACK = 1e-6
_ERRORS = tuple(each.name for each in fields(Errors))
_KINDS = {
    "counts": ("L2 error", "largest", "per answer"),
    "sum": ("error of sum", "of mean"),
    "means": ("error of mean",),
}
_ALIKE = 1.02
_BY_NAME = "it has no ε0 and more noise than the others: it is used only if chosen by name"
_FEW = 16.0  # messages per person that are worth a note
_NOTED = 0.1  # epsilon: below, the calibration takes longer than a note is worth
_UNRIVALLED = "of so few answers in so large a crowd no other message has a smaller error"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What one report of everybody is planned for: which data, how many people, how private.

    Args:
        domain: The data that people have.
        n: People who report.
        epsilon: ε > 0 of the shuffled reports.
        delta: δ in (0, 1).
        crowd: Who takes part.
        limits: What the reports may be.
        chosen: The name of the mechanism to be run, if one was chosen.
        scheme: What the reports are of, if not of these data themselves.

    Raises:
        InvalidArgumentError: A number is out of its range.

    References:
        The targets are kept by the theorems of :func:`shoal.amplify`; :doc:`/theory/solving`.

    Example:
        >>> from shoal.questions.domains import Cells
        >>> print(Setting(domain=Cells(4), n=1000, epsilon=1.0, delta=1e-6))
        1,000 people, one of 4 answers, ε = 1, δ = 1e-6
    """

    domain: Domain
    n: int
    epsilon: float
    delta: float
    crowd: Crowd = EVERYBODY
    limits: Limits = NO_LIMITS
    chosen: str | None = None
    scheme: Scheme = cast("Scheme", None)  # noqa: RUF009 - then that of the data themselves
    messages: float = field(init=False)  # the most that one person may send on average

    def __post_init__(self) -> None:
        checks.target(epsilon=self.epsilon, delta=self.delta)
        checks.counts(self, n=1)
        if self.scheme is None:
            object.__setattr__(self, "scheme", Whole((self.domain,)))
        most = self.limits.most(chosen=self.chosen is not None)
        object.__setattr__(self, "messages", most)

    def __str__(self) -> str:
        """Who is asked for what, and how private it has to be."""
        target = f"ε = {plain(self.epsilon)}, δ = {plain(self.delta)}"
        return f"{self.n:,} people, {self.scheme}, {target}"

    @property
    def reporting(self) -> int:
        """How many of the people report, on average."""
        return max(1, math.floor(self.n * self.crowd.participation))

    @property
    def people(self) -> dict[str, Any]:
        """Who takes part, as keywords of the accountant."""
        return {"n": self.n, "crowd": self.crowd}

    @property
    def dishonest(self) -> int:
        """People who take part and are not counted on."""
        crowd = self.crowd
        taking_part = self.n * crowd.participation * (1 - crowd.honest_fraction)
        return math.ceil(taking_part * (1 - _SLACK))


@dataclass(frozen=True)
class Option:
    """One row of a :func:`shoal.plan`: a mechanism at the largest ε₀ that keeps the target.

    Or one with the least noise; its ε₀ is infinite, if one of its messages is the truth.

    Attributes:
        name: What ``choose`` takes.
        randomizer: What each device would run; None if it is out of the question.
        local_epsilon: ε₀ of what one person sends.
        errors: The predicted errors.
        remark: Why it is out of the question, or what to know.
        by_name: Whether it is considered only if it is chosen by its name.
        scheme: What its reports are of.
    """

    name: str
    randomizer: Device | None = None
    local_epsilon: float | None = None
    errors: Errors | None = None
    remark: str = ""
    by_name: bool = False
    scheme: Scheme | None = field(default=None, repr=False, compare=False)

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
        """What one dishonest person can add to one answer's count, or to the sum, where known."""
        made = self.randomizer
        if made is None or self.scheme is None:
            return None if made is None else made.influence
        return self.scheme.influence(made)

    @property
    def openings(self) -> int | None:
        """Envelopes to be opened for one person: every slot is sealed by itself."""
        return None if self.randomizer is None else self.randomizer.slots

    @property
    def bytes(self) -> int | None:
        """Length of all that one person sends, before it is sealed."""
        sent = self.randomizer
        return None if sent is None else sent.slots * sent.message_bytes

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
            "by_name": self.by_name,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], setting: Setting) -> Option:
        """An option for these data, from plain values."""
        made: Device | None = None
        if stored.get("randomizer") is not None:
            made = registry.restored(stored["randomizer"], setting.domain)
        local = stored.get("local_epsilon")
        if local is None and made is not None and math.isinf(made.local_epsilon):
            local = math.inf
        return cls(
            str(stored["name"]),
            made,
            None if local is None else float(local),
            None if stored.get("errors") is None else Errors(**stored["errors"]),
            str(stored.get("remark", "")),
            bool(stored.get("by_name")),
            setting.scheme,
        )


@dataclass(frozen=True)
class Ranking:
    """The options for a report, best first, beside a trusted curator and no shuffler.

    Attributes:
        setting: What it is planned for.
        found: Options that are known, best first.
        why: Why the first one is recommended; None if it is so sure to be that no other was tried:
            they are when somebody asks for them.

    References:
        ``guarantee`` is by the theorems of :func:`shoal.amplify`; :doc:`/theory/solving`.

    Example:
        >>> import shoal
        >>> made = shoal.plan(shoal.Choice("color", 4), epsilon=1, n=10_000)
        >>> made.only.ranking.recommended.name
        'grr'
    """

    setting: Setting
    found: tuple[Option, ...]
    why: str | None

    @cached_property
    def _all(self) -> tuple[tuple[Option, ...], str]:
        if self.why is not None:
            return self.found, self.why
        return _ranked(_options(self.setting), self.setting)

    @property
    def options(self) -> tuple[Option, ...]:
        """A :class:`shoal.planning.Option` for each candidate, best first."""
        return self._all[0]

    @property
    def reason(self) -> str:
        """Why the first one is recommended."""
        return self._all[1]

    @cached_property
    def central(self) -> Errors | None:
        """What a trusted curator would give, of answers."""
        counts = self.setting.scheme.counts
        return None if counts is None else errors.central(*counts, self.setting.epsilon)

    @cached_property
    def local(self) -> Errors | None:
        """What is known without a shuffler, of one of several answers."""
        setting, counts = self.setting, self.setting.scheme.counts
        if counts is None or counts[0] != self.cells:
            return None
        return errors.local(counts[0], setting.epsilon, setting.n)

    @property
    def cells(self) -> int | None:
        """How many answers a report may have, if it has answers."""
        return self.setting.domain.arguments.get("k")

    @property
    def recommended(self) -> Option:
        """The first option."""
        return self.found[0]

    @property
    def randomizer(self) -> Device:
        """What each device runs."""
        best = self.found[0]
        if best.randomizer is None:
            raise InvalidArgumentError("option", best.name, "an option that is possible")
        return best.randomizer

    @cached_property
    def guarantee(self) -> Guarantee:
        """The (epsilon, delta) of the recommended randomizer."""
        setting = self.setting
        return amplification.amplify(self.randomizer, delta=setting.delta, **setting.people)

    def quantile_error(self, quantile: float = 0.5) -> float:
        """Predicted error, in people, of the count up to a quantile of answers that are bins.

        A quantile is off by as many people: by the bins that hold them.

        >>> import shoal
        >>> target = {"epsilon": 1, "delta": 1e-6, "n": 10**5}
        >>> any_number = shoal.Limits(messages=float("inf"))
        >>> made = shoal.plan(shoal.Choice("age", 100), **target, limits=any_number)
        >>> round(made.choose("grr").quantile_error()), round(made.quantile_error())
        (46, 15)
        """
        return self.setting.scheme.total_error((self.randomizer,), self.setting, quantile)

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
        """Plain values, enough to load it again."""
        return {
            **attributes(self.setting, "epsilon", "delta"),
            "recommended": self.recommended.name,
            "reason": self.reason,
            "options": [option.to_dict() for option in self.options],
            "central": None if self.central is None else asdict(self.central),
            "local": None if self.local is None else asdict(self.local),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any], setting: Setting) -> Ranking:
        """From plain values; every option is what it says, or it is refused."""
        options = tuple(Option.from_dict(each, setting) for each in stored["options"])
        checks.refuse(not options, "at least one option", options=[])
        made = cls(setting, options, str(stored["reason"]))
        made.check()
        return made

    def check(self) -> None:
        """Every option is what it says: nothing in a file is believed that can be computed."""
        cap, most = self.setting.limits.local_epsilon, self.setting.messages
        for option in self.options:
            made = option.randomizer
            if made is None:
                continue
            if option.name != made.name or not made.domain.accepts(self.setting.domain):
                expected = f"{option.name} for what the plan asks"
                raise InvalidArgumentError("randomizer", made.described(), expected)
            limits = (
                ("messages", most, f"the plan's {most:g} messages per person"),
                ("local_epsilon", option.local_epsilon or 0.0, "its stated local epsilon"),
                ("local_epsilon", cap, f"the plan's cap {cap or 0:g}"),
            )
            for name, limit, what in limits:
                value = getattr(made, name)
                if limit is not None and value > limit * (1 + _SLACK):
                    raise InvalidArgumentError(name, value, f"{option.name} within {what}")

    def document(self, nearer: Option | None = None) -> Document:
        """The options, best first, the recommendation and what it keeps.

        ``nearer`` is what a plan of one message leaves out.
        """
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
            f"δ = {up(guarantee.delta)} among {guarantee.n:,} honest people (replacement; "
            f"{guarantee.theorem}), if {guarantee.trust}; {alone}."
        )
        if best.influence is not None:
            sums = {"answers": "an answer's count", "vectors": "each coordinate of the sum"}
            what = sums.get(self.setting.domain.takes, "the sum")
            most = amount(best.influence)
            advice += f" One dishonest person can add at most {most} to {what}"
            count = self.setting.dishonest
            together = f", {count:,} of them {amount(count * best.influence)}" * (count > 1)
            advice += f"{together}."
        counts = "Errors of the counts, in people; per answer: of one that nobody gave."
        if self._several:
            counts = (
                "Errors of the counts, in people; adds: what one dishonest person can add to a "
                "count. ε0 is none if shuffler and analyzer collude."
            )
        notes = [f"not {each.name}: {each.remark}" for each in self.options if each.errors is None]
        if nearer is not None:
            sent, error, what = nearer.messages or 1.0, error_of(nearer), "the L2 error"
            shown = amount(error)
            if self.setting.scheme.means:
                what, shown = "the error of a mean", f"{error / self.setting.n:.3g}"
            notes.append(
                f"with {sent:.{2 if sent > _ALIKE else 4}g} messages and no local ε₀: {shown} "
                f"({what} of {nearer.name}, which messages / --messages-cap = "
                f"{math.ceil(sent)} allows)"
            )
        return Document(
            f"Run {best.name} {how}",
            table=self._table(),
            sentences=(*[counts] * (self.setting.scheme.of == "counts"), advice),
            notes=tuple(notes),
            warnings=guarantee.warnings,
        )

    @property
    def _several(self) -> bool:
        return any((option.messages or 1) > 1 for option in self.options)

    def _table(self) -> Table:
        """One line per option, then what a trusted curator and what no shuffler would give."""
        several, of = self._several, self.setting.scheme.of
        counts = of == "counts"
        kind = list(_KINDS[of])
        sent = ["msgs"] * several + ["bits"]
        if several and counts:
            kind, sent = kind[:-1], ["msgs", "slots", "adds"]
        heads = ("randomizer", "ε0", *kind, *sent)

        def cells(errors: Errors) -> tuple[str, ...]:
            if counts:
                return tuple(map(amount, (errors.l2, errors.linf, errors.cell)[: len(kind)]))
            mean = f"{errors.l2 / self.setting.n:.3g}"
            return (amount(errors.l2), mean) if of == "sum" else (mean,)

        def sends(option: Option) -> tuple[str, ...]:
            values = {
                "msgs": f"{option.messages or 1.0:,.4g}",
                "slots": f"{option.openings:,}",
                "adds": "–" if option.influence is None else amount(option.influence),
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
            ("no shuffler", up(self.setting.epsilon), self.local),
        )
        for name, shown, error in references:
            if error is not None:
                rows.append(Row((name, shown, *cells(error), *[""] * len(sent)), "weak"))
        return Table(heads, tuple(rows), frozenset(range(1, len(heads))), str(self.setting))

    def plot(self, ax: Axes | None = None) -> Axes:
        """The error of each option, between a trusted curator's and no shuffler's."""
        possible = [option for option in self.options if option.errors is not None]
        rows = [
            (
                f"{option.name}: {option.sends}",
                option.errors.l2 if option.errors else 0.0,
                amount(option.errors.l2 if option.errors else 0.0),
                plots.FAINT if place else plots.BLUE,
            )
            for place, option in enumerate(possible)
        ]
        references = (("trusted curator", self.central), ("no shuffler", self.local))
        counts = self.setting.scheme.of == "counts"
        with plots.on(ax, 1.5 + 0.34 * len(rows)) as axes:
            plots.dots(
                axes,
                rows,
                levels=[(name, errors.l2) for name, errors in references if errors is not None],
                xlabel="expected L2 error of the counts" if counts else "error of the sum",
            )
        return axes


def amount(value: float) -> str:
    """A number of people (or a sum): whole where it is large."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"


def error_of(option: Option, dishonest: int = 0) -> float:
    """The L2 error, and what so many dishonest people can add to one count."""
    if option.errors is None:
        return math.inf
    return option.errors.l2 + (dishonest * (option.influence or 0.0) if dishonest else 0.0)


# ------------------------------------------------------------------------------ they are made


def rank(setting: Setting) -> Ranking:
    """The options for a report, the best (or the one that was chosen) first."""
    first = _unrivalled(setting)
    if first is not None:
        return Ranking(setting, (first,), None)
    options, reason = _ranked(_options(setting), setting)
    if options[0].errors is None:
        advice = "collect more reports or weaken the target"
        if setting.domain.coordinates >= checks.LARGEST_DIMENSION:
            advice = "ask for fewer coordinates"
        raise UnreachableTargetError(
            f"({setting.epsilon:g}, {setting.delta:g})-DP with n={setting.n}",
            "; ".join(f"{option.name}: {option.remark}" for option in options),
            advice,
        )
    made = Ranking(setting, options, reason)
    return made if setting.chosen is None else choose(made, setting.chosen)


def choose(made: Ranking, name: str) -> Ranking:
    """The same with another option first."""
    named = [option for option in made.options if option.name == name]
    if named and named[0].by_name:
        named = [_options(made.setting, name)[name]]
    chosen = [option for option in named if option.randomizer]
    if named and not chosen:
        raise UnreachableTargetError(
            f"the target with {name}", named[0].remark, "choose another, or ask for less"
        )
    if not chosen:
        known = (each for each in made.options if each.randomizer or each.by_name)
        expected = f"one of {', '.join(option.name for option in known)}"
        cap = made.setting.messages
        any_number = replace(made.setting, limits=replace(made.setting.limits, messages=math.inf))
        if math.isfinite(cap) and _options(any_number, name):
            expected += f" (messages / --messages-cap = {cap:g} excludes {name})"
        raise InvalidArgumentError("choose", name, expected)
    others = tuple(option for option in made.options if option.name != name)
    return Ranking(made.setting, (chosen[0], *others), f"{name} was asked for")


def recalibrated(made: Ranking, epsilon: float) -> Ranking:
    """With the recommended option only, at another epsilon."""
    setting, name = replace(made.setting, epsilon=epsilon), made.recommended.name
    local = made.recommended.local_epsilon
    near = local if math.isfinite(local or math.inf) else None
    option = _options(setting, name, near=near)[name]
    if option.errors is None:
        raise UnreachableTargetError(
            f"({epsilon:g}, {setting.delta:g})-DP with {name}", option.remark, "plan anew"
        )
    return Ranking(setting, (option,), made.why or _UNRIVALLED)


def nearer(made: Ranking) -> Option | None:
    """What a plan of one message for one of several answers leaves out: a curator's chart.

    The near-central histogram (of two answers: count), where it takes few messages. It has no
    local epsilon, so it is never recommended unless several messages are allowed.
    """
    setting, k = made.setting, made.cells
    capped = setting.messages != 1 or setting.limits.local_epsilon
    if k is None or capped or setting.epsilon < _NOTED:
        return None
    allowed, crowd = replace(setting, limits=Limits(messages=_FEW)), setting.dishonest
    name = "near-central" if k == 2 else "near-central-lean"
    calibrated = partial(registry.calibration(name), **({} if k == 2 else {"k": k}))
    option = _option(Candidate(name, calibrated=calibrated), allowed)
    return option if error_of(option, crowd) < error_of(made.recommended, crowd) else None


# --------------------------------------------------------------------------------- their options


def _unrivalled(setting: Setting) -> Option | None:
    """The simplest option, where it is sure to be the best: no other is tried."""
    everybody = setting.crowd == EVERYBODY and setting.limits == NO_LIMITS
    if setting.chosen is not None or not everybody or setting.scheme.name != Whole.name:
        return None
    wanted = Wanted(domain=setting.domain, n=setting.n, epsilon=setting.epsilon)
    kind = next(registry.fitting(setting.domain, several=False))
    # As of a Gaussian: it is worth a try only if it is likely to be enough.
    about = setting.n * setting.epsilon**2 / (4 * (math.log(4) - math.log(setting.delta)))
    if not kind.unrivalled(wanted, math.log(about)):
        return None
    option = _option(kind.candidates(wanted)[0], setting)
    return option if kind.unrivalled(wanted, option.local_epsilon or 0.0) else None


def _options(setting: Setting, *names: str, near: float | None = None) -> dict[str, Option]:
    """The best option of each name, or of these names.

    Local epsilons of different families are alike: a search begins ``near`` the one before.
    """
    most, domain = setting.messages, setting.domain
    wanted = Wanted(domain=domain, n=setting.n, epsilon=setting.epsilon, messages=most)
    tried: list[Candidate] = []
    for kind in registry.fitting(domain, several=most > 1):
        tried += kind.candidates(wanted)
    best: dict[str, Option] = {}
    for name in names or dict.fromkeys(candidate.name for candidate in tried):
        # The likeliest first: most others are then seen to be worse without a search.
        likely = max((each.local_epsilon or 0.0 for each in best.values()), default=0.0)
        rivals = [candidate for candidate in tried if candidate.name == name]
        if len(rivals) > 1 and rivals[0].family is not None and 0 < likely < math.inf:
            rivals.sort(key=lambda rival: _predicted_error(rival, likely, setting))
        for candidate in rivals:
            known = best.get(name)
            if not names and registry.line(name).by_sigma and _more_noise(candidate, best, setting):
                best[name] = Option(name, remark=_BY_NAME, by_name=True)
                continue
            if known is None or not _surely_worse(candidate, known, setting):
                option = _option(candidate, setting, near)
                if math.isfinite(option.local_epsilon or math.inf):
                    near = option.local_epsilon
                if known is None or error_of(option) < error_of(known):
                    best[name] = option
    return best


def _more_noise(candidate: Candidate, best: dict[str, Option], setting: Setting) -> bool:
    """Whether a mechanism without a local epsilon needs more noise than the best so far has."""
    made: Any = cast("partial[Device]", candidate.calibrated)
    least = min((error_of(option) for option in best.values()), default=math.inf)
    people = People(**setting.people)
    if least == math.inf:
        return False
    try:
        return not made.func.__self__.suffices(
            least / math.sqrt(setting.n),
            n=people.present,
            epsilon=setting.epsilon,
            delta=setting.delta - 2 * people.absence,
            **made.keywords,
        )
    except InvalidArgumentError:  # so little noise that its density cannot be followed
        return True


def _surely_worse(candidate: Candidate, known: Option, setting: Setting) -> bool:
    """Whether no local epsilon that keeps the target makes the candidate better than the option.

    The error falls as the local epsilon grows: at the largest one that is no better than what is
    known, one evaluation of the candidate's law tells whether it can go beyond.
    """
    if candidate.family is None or known.errors is None or setting.scheme.means:
        return False  # of means errors take longer than the search
    target = known.errors.l2
    cap = min(setting.limits.local_epsilon or math.inf, candidate.largest_epsilon)
    low = min(setting.epsilon, cap)
    if _predicted_error(candidate, cap, setting) >= target:
        return True
    if _predicted_error(candidate, low, setting) < target:
        return False
    reach = search.largest(
        lambda local: _predicted_error(candidate, local, setting) >= target,
        low,
        cap,
        tolerance=1e-3,
    )
    curve = amplification.profile(candidate.family(epsilon=reach), **setting.people)
    return curve.delta(setting.epsilon) > setting.delta


def _predicted_error(candidate: Candidate, local: float, setting: Setting) -> float:
    """The L2 error of the candidate at this local epsilon; 0 where there is none to predict."""
    family = cast("Callable[..., Device]", candidate.family)
    try:
        return setting.scheme.errors(family(epsilon=local), setting).l2
    except (InvalidArgumentError, UnreachableTargetError):
        return 0.0


def _option(candidate: Candidate, setting: Setting, near: float | None = None) -> Option:
    """The candidate at its largest local epsilon, or with its least noise; or why there is none."""
    name, cap, most = candidate.name, setting.limits.local_epsilon, setting.messages
    made: Device
    try:
        if candidate.calibrated is not None:
            people = People(**setting.people)
            made = candidate.calibrated(
                n=people.present, epsilon=setting.epsilon, delta=setting.delta - 2 * people.absence
            )
            local = made.local_epsilon
        elif candidate.family is not None:
            local = amplification.local_epsilon(
                candidate.family,
                epsilon=setting.epsilon,
                delta=setting.delta,
                **setting.people,
                cap=min(cap or math.inf, candidate.largest_epsilon),
                near=near,
            )
            made = candidate.family(epsilon=local)
        else:
            return Option(name, remark=candidate.remark)
    except (InvalidArgumentError, UnreachableTargetError) as error:
        return Option(name, remark=str(error))
    if made.messages > most:
        sent = f"{made.messages:.4g} messages per person on average"
        return Option(name, remark=f"{sent} are over the cap of {most:g}")
    if cap is not None and local > cap:
        alone = "one of its messages is the truth" if made.messages > 1 else "noise without bounds"
        remark = f"{alone}: no ε0, let alone one below {cap:g}"
        return Option(name, remark=remark)
    return Option(name, made, local, setting.scheme.errors(made, setting), scheme=setting.scheme)


def _ranked(best: dict[str, Option], setting: Setting) -> tuple[tuple[Option, ...], str]:
    """Smallest L2 error first, impossible ones last, and why the first is the first.

    To the error is added what the dishonest people can add to a count, where that is known of all
    options. Among those within 2 % of the smallest the one that sends least comes first. One
    message without a local epsilon is first only if it is chosen by name.
    """
    possible = [option for option in best.values() if option.errors is not None]
    bias = setting.dishonest
    if bias and any(option.influence is None for option in possible):
        bias = 0
    # To five digits: those that differ by rounding only stay in the order of the candidates.
    ordered = sorted(best.values(), key=lambda option: float(f"{error_of(option, bias):.5g}"))
    bounded = [option for option in ordered if not registry.line(option.name).by_sigma] or ordered
    least = error_of(bounded[0], bias)
    alike = [option for option in bounded if error_of(option, bias) <= _ALIKE * least]
    simplest = list(best)  # the candidates come simplest first
    first = min(
        alike,
        key=lambda option: (round(option.bits or math.inf, 3), simplest.index(option.name)),
    )
    others = [option for option in ordered if option is not first]
    cap = setting.limits.local_epsilon
    if not others or others[0].errors is None:
        return (first, *others), "it is the only one possible"
    second, ratio = others[0].name, error_of(others[0], bias) / error_of(first, bias)
    if ratio < 1 and registry.line(second).by_sigma:
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
        why += f"; the cap on ε0 binds, so that less than ε = {setting.epsilon:g} is used"
    return (first, *others), why
