"""From what is wanted to a survey that keeps it: the planner's choice for the least crowd.

The promise of a survey has to hold for the smallest batch that is ever released, for one person's
R reports together and for the people who may be dishonest (see
:mod:`shoal.service.survey.promise`). So a mechanism is planned for the people among whom one report
of the smallest batch hides, and errors are foretold for batches of that size and of the target.

>>> batches = Batches(minimum=500, target=1000, max_age=604_800)
>>> from shoal.service.survey import Invited
>>> class_of_700 = Invited(entitled=700, dishonest=0)
>>> target = {"epsilon": 1.0, "delta": 1e-6}
>>> design = Design(**target, batches=batches, domain=Cells(4), admission=class_of_700)
>>> device = design.device
>>> device.name, round(device.local_epsilon, 3), expected_error(device, 1000) < 0.05
('grr', 2.789, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, cast

from shoal import checks
from shoal.accounting.amplification import required_n
from shoal.accounting.search import doubled, least, root_below
from shoal.checks import LARGEST_COUNT
from shoal.errors import ShoalError, UnreachableTargetError
from shoal.explain.text import down, up
from shoal.mechanisms import registry
from shoal.mechanisms.base import Device
from shoal.planning import joint, planner
from shoal.planning.planner import Ranking, Setting
from shoal.questions.domains import Cells, Domain, Interval
from shoal.questions.kinds import Question
from shoal.questions.terms import NO_LIMITS, Limits
from shoal.service.admission import Admission
from shoal.service.survey import document
from shoal.service.survey.browser import counted_epsilon
from shoal.service.survey.document import (
    LARGEST_LOCAL,
    LONGEST_TEXT,
    Batches,
    Survey,
    cells,
    check_answers,
    check_name,
    check_text,
)
from shoal.service.survey.promise import TERMS, Terms, promised
from shoal.service.survey.texts import NONE, check_question, check_shown
from shoal.values import attributes

_TOLERANCE = 1e-3  # of the search for one report's share, in logarithms
_STRIDE = 0.4  # of the search for a bracket, in logarithms
_NEARLY = 0.005  # of the people that are enough for several reports
FORMS = ("choice", "number")  # kinds of questions that surveys ask
_IF_CHOSEN = ("near-central-lean", "near-central-robust")  # every slot is opened by itself
_TRIALS = 6  # of designs with another minimum
_MOST_PEOPLE = 10**8
_SMALLEST = 1e-3  # share of epsilon that one report is given at least


@dataclass(frozen=True)
class Field:
    """A question as a form asks it: a choice among answers, or a number between bounds.

    Who skips a choice has an answer of its own, if there are several questions; a number has to be
    given.
    """

    question: Question

    def __post_init__(self) -> None:
        question = self.question
        check_name(question.name)
        check_text("question", question.text, LONGEST_TEXT)
        expected = f"a choice or a number, as surveys ask for {question.name} so far"
        checks.refuse(question.kind not in FORMS, expected, kind=question.kind)
        expected = f"a list of answers for the question {question.name}"
        wrong = question.kind == "choice" and not self.answers
        checks.refuse(wrong, expected, labels=getattr(question, "labels", None))
        expected = f"no other answers to {question.name} than those of the list: add one to it"
        checks.refuse(getattr(question, "other", None), expected, other=True)
        expected = f"{question.usually!r} for {question.name}, as in every survey"
        checks.refuse(question.missing != question.usually, expected, missing=question.missing)
        groups = question.groups
        if groups is not None:
            expected = f"groups with labels and a text, of a choice, for {question.name}"
            wrong = not (self.groups and groups.text and self.answers)
            checks.refuse(wrong, expected, groups=groups.column)
            expected = f"no other groups of {question.name} than those of the list: add one to it"
            checks.refuse(groups.other, expected, other=True)
            expected = f"'cell' for the groups of {question.name}, as in every survey"
            checks.refuse(groups.missing != "cell", expected, missing=groups.missing)
        check_answers(self.answers, self.groups)
        labels = {"answers": self.labels, "groups": self.group_labels}
        check_question(question=question.text, by=self.by, **labels)
        domain = self.domain  # which checks how far bounds are apart
        if question.choose is not None:
            line = registry.line(question.choose)  # or there is no such name
            takes = f"a mechanism that takes {domain}"
            expected = f"{takes}: one for {domain.takes}, as in {question.name}"
            checks.refuse(not line.fits(domain), expected, choose=question.choose)
            expected = f"a mechanism that devices run, for {question.name} (this is for tables)"
            checks.refuse(line.where == "tables", expected, choose=question.choose)

    @property
    def answers(self) -> tuple[str, ...]:
        """What may be chosen, as it is listed."""
        return getattr(self.question, "known", None) or ()

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that answers are counted by, as they are listed."""
        listed = self.question.groups and self.question.groups.labels
        return listed if isinstance(listed, tuple) else ()

    @property
    def by(self) -> str:
        """What people are asked about their group."""
        return "" if self.question.groups is None else self.question.groups.text

    @property
    def labels(self) -> tuple[str, ...]:
        """The answers, and that of those who skip the question."""
        return (*self.answers, NONE) if self.answers else ()

    @property
    def group_labels(self) -> tuple[str, ...]:
        """The groups, and that of those who skip them."""
        return (*self.groups, NONE) if self.groups else ()

    @property
    def domain(self) -> Domain:
        """What devices are given of it, one of several questions."""
        if self.answers:
            return Cells(cells(self.labels, self.group_labels))
        bounds: Any = self.question
        return Interval(bounds.low, bounds.high)

    @property
    def alone(self) -> Domain:
        """The same if it is the only question, which nobody skips."""
        why = f"{self.question.name}, as nobody skips the only one"
        few = len(self.answers) == 1
        checks.refuse(few, f"at least two answers to {why}", labels=",".join(self.answers))
        few = len(self.groups) == 1
        checks.refuse(few, f"at least two groups of {why}", groups=",".join(self.groups))
        return Cells(cells(self.answers, self.groups)) if self.answers else self.domain


@dataclass(frozen=True, kw_only=True)
class Design:
    """What is wanted of a survey; the mechanism follows, unless one is ``given``.

    For one question with the data of a ``domain``; or for a list of ``questions``, whose
    mechanisms together keep the promise. ``choose`` names a mechanism; the best one is taken
    otherwise. ``limits`` of more than one message let in protocols with several.
    """

    epsilon: float
    delta: float
    batches: Batches
    admission: Admission
    domain: Domain | None = None
    questions: tuple[Question, ...] = ()
    reports_per_person: int = 1
    participation: float = 1.0
    limits: Limits = NO_LIMITS
    choose: str | None = None
    given: Device | None = None
    fields: tuple[Field, ...] = field(init=False, repr=False, compare=False)  # of a form

    def __post_init__(self) -> None:
        checks.positive(epsilon=self.epsilon)
        checks.open_probability(delta=self.delta)
        checks.fraction(participation=self.participation)
        object.__setattr__(self, "fields", tuple(map(Field, self.questions)))
        reports = checks.count(reports_per_person=self.reports_per_person)
        object.__setattr__(self, "reports_per_person", reports)
        if self.crowd < 1:
            raise UnreachableTargetError(
                f"any guarantee with minimum={self.batches.minimum}",
                f"nobody can hide {reports} reports of one person",
                "ask for a larger minimum or fewer reports per person",
            )

    @property
    def messages(self) -> float:
        """The most that one person may send on average."""
        return self.limits.most(chosen=self.choose is not None)

    @property
    def terms(self) -> Terms:
        """What the promise counts on besides the mechanism."""
        return Terms(**attributes(self, *TERMS))

    @property
    def crowd(self) -> int:
        """People among whom each report hides in the smallest batch."""
        reports = self.reports_per_person
        return self.terms.admission.honest(self.batches.minimum, reports) // reports

    @cached_property
    def ranking(self) -> Ranking:
        """The planner's options for one report of a person, best (or chosen) first.

        Of several reports each is planned for about its share, to choose by; see ``device``.
        """
        setting = Setting(
            domain=cast("Domain", self.domain),
            n=self.crowd,
            epsilon=self.epsilon / math.sqrt(self.reports_per_person),
            delta=self.terms.delta_taking_part,
            limits=replace(self.limits, messages=self.messages),
        )
        options = planner.rank(setting)
        names = [each.name for each in options.options if each.name not in _IF_CHOSEN]
        best = self.choose or names[0]
        return options if best == options.recommended.name else planner.choose(options, best)

    @cached_property
    def device(self) -> Device:
        """What every device runs: with the least noise that keeps the promise."""
        if self.given is not None:
            return self.given
        chosen = self.ranking.randomizer
        if self.reports_per_person == 1:
            if not chosen.several:
                return chosen
            delta = self.terms.delta_taking_part
            made = chosen.surveyed(n=self.crowd, epsilon=self.epsilon, delta=delta)
            if made.messages > self.messages:
                raise UnreachableTargetError(
                    f"messages={self.messages:g} with {chosen.name}",
                    f"in a survey a person sends {made.messages:.4g} messages on average",
                    f"allow more (--messages-cap {up(made.messages, 3)}), or choose another",
                )
            return made
        # The same kind with the least noise with which R reports together keep epsilon.
        if chosen.several:
            about = self.epsilon / math.sqrt(self.reports_per_person)  # for one of the reports
            return self._searched(
                lambda each: planner.recalibrated(self.ranking, each).randomizer,
                about,
                self.epsilon,
            )
        most = min(self.limits.local_epsilon or LARGEST_LOCAL, LARGEST_LOCAL)
        start = min(most, chosen.local_epsilon)
        randomizer = cast("Any", chosen)
        return self._searched(lambda each: replace(randomizer, epsilon=each), start, most)

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """What every device runs for each question: together they spend the whole budget."""
        if not self.questions:
            return (self.device,)
        if len(self.questions) == 1:  # nobody skips that, and it needs no name
            (only,) = self.fields
            choose = only.question.choose or self.choose
            alone = replace(self, questions=(), domain=only.alone, choose=choose)
            return alone.devices
        most = min(self.limits.local_epsilon or LARGEST_LOCAL, LARGEST_LOCAL)
        limits = replace(self.limits, local_epsilon=most, messages=self.messages)
        delta = self.terms.delta_taking_part
        target: dict[str, Any] = {"n": self.crowd, "epsilon": self.epsilon, "delta": delta}
        parts = [
            joint.Part(
                Setting(
                    domain=part.domain,
                    **target,
                    limits=limits,
                    chosen=part.question.choose or self.choose,
                ),
                weight=part.question.weight,
                rounds=self.reports_per_person,
            )
            for part in self.fields
        ]
        made = joint.plan_together(parts, epsilon=self.epsilon, delta=delta)
        return tuple(each.randomizer for each in made.rankings)

    def _searched(self, make: Callable[[float], Device], start: float, most: float) -> Device:
        """What is made of the largest number up to ``most`` that keeps the promise, nearly."""

        @cache
        def excess(logarithm: float) -> float:
            try:
                device = make(math.exp(logarithm))
                epsilon = promised((device,), self.terms, self.batches.minimum).epsilon
            except ShoalError:  # noise that so few people cannot make
                return 1.0
            return math.log(epsilon / self.epsilon)

        low = high = math.log(start)
        while excess(low) > 0:
            low -= _STRIDE
            if low < math.log(_SMALLEST * self.epsilon):
                chosen = self.ranking.recommended.name
                raise UnreachableTargetError(
                    f"epsilon={self.epsilon:g} for {self.reports_per_person} reports of one person",
                    f"{chosen} among {self.crowd} people is not private enough",
                    "ask for a larger minimum or fewer reports per person",
                )
        while excess(high) <= 0:
            if high >= math.log(most):
                return make(math.exp(high))
            low, high = high, min(high + _STRIDE, math.log(most))
        return make(math.exp(root_below(excess, low, high, tolerance=_TOLERANCE)))

    def survey(
        self,
        *,
        question: str = "",
        answers: tuple[str, ...] = (),
        by: str = "",
        groups: tuple[str, ...] = (),
        **about: Any,  # noqa: ANN401 - the other fields of a survey
    ) -> Survey:
        """The survey of this design; it refuses a mechanism that does not keep the promise.

        ``question``, ``answers``, ``by`` and ``groups`` are those of the only question.
        """
        parts = [("", question, answers, by, groups)]
        if len(self.questions) == 1:
            (only,) = self.fields
            parts = [("", only.question.text, only.answers, only.by, only.groups)]
        elif self.questions:
            parts = [
                (part.question.name, part.question.text, part.labels, part.by, part.group_labels)
                for part in self.fields
            ]
        for _, text, labels, heading, listed in parts:
            check_question(question=text, answers=labels, by=heading, groups=listed)
        check_shown(name=about["name"], purpose=about["purpose"])
        questions = (
            document.Question(
                name=name, text=text, answers=labels, by=by, groups=groups, device=device
            )
            for (name, text, labels, by, groups), device in zip(parts, self.devices, strict=True)
        )
        return Survey(
            questions=tuple(questions),
            batches=self.batches,
            epsilon=self.epsilon,
            **attributes(self, *TERMS),
            **about,
        )


def expected_error(device: Device, valid: int) -> float:
    """Expected error of so many valid reports, all of them honest.

    Of answers: the standard error of one's share if everybody's answers are spread evenly. Of
    numbers: that of the mean in the worst case, in their own unit.
    """
    valid, domain = checks.count(valid=valid), device.domain
    expected = "a mechanism for answers or for numbers"
    checks.refuse(domain.takes not in {"answers", "numbers"}, expected, device=device.name)
    answers = domain.arguments.get("k", 1)
    return device.estimator.errors(valid).l2 / math.sqrt(answers) / valid


def tells_nothing(devices: tuple[Device, ...], valid: int) -> bool:
    """Whether an expected error is more than a quarter of all there can be: of 1, or the range."""
    return any(_blur(device, valid) > 1 for device in devices)


def telling_minimum(design: Design) -> int | None:
    """A minimum with which a batch tells something, to two digits; None if none was found soon.

    Every trial is a design of its own, as more people need less noise each. The error of what is
    designed for n people falls about as 1/n, so that a few trials are enough; that of a given
    mechanism, or where its local epsilon is capped, as the root of that.
    """
    minimum, devices = design.batches.minimum, design.devices
    for trial in range(_TRIALS):
        blur = max(_blur(device, minimum) for device in devices)
        if blur <= 1:
            return minimum
        power = 1 if trial < _TRIALS / 2 and design.given is None else 2
        minimum = _two_digits(math.ceil(blur**power * minimum))
        if minimum > _MOST_PEOPLE:
            return None
        batches = replace(design.batches, minimum=minimum, target=2 * minimum)
        try:
            devices = replace(design, batches=batches).devices
        except ShoalError:  # a mechanism that exists for few people only
            return None
    return None


def epsilon_in_browsers(design: Design, *, allowed: float) -> float | None:
    """An epsilon, to three digits, that browsers can prove up to ``allowed``; None if none is near.

    What they prove is about in proportion to what is designed for, so that a few trials are enough.
    """
    if design.given is not None:  # another epsilon would not change it
        return None
    for _ in range(_TRIALS):
        counted = counted_epsilon(
            design.devices, design.terms, design.batches.minimum, promise=design.epsilon
        )
        if counted <= allowed:
            return design.epsilon
        design = replace(design, epsilon=float(down(design.epsilon * allowed / counted, 3)))
    return None


def _blur(device: Device, valid: int) -> float:
    """The expected error, in quarters of all there can be."""
    return 4 * expected_error(device, valid) / device.domain.extent


def _two_digits(number: int) -> int:
    """Rounded up, so that it grows by at least one.

    >>> _two_digits(1201), _two_digits(1300), _two_digits(7)
    (1300, 1400, 8)
    """
    unit: int = 10 ** max(0, len(str(number)) - 2)
    return (number // unit + 1) * unit


def least_minimum(device: Device, *, epsilon: float, terms: Terms) -> int:
    """The fewest valid reports of a batch with which the mechanism keeps epsilon.

    For several reports of one person, where every trial takes a while, up to half a per cent more.
    """
    delta = terms.delta_taking_part
    people = max(2, required_n(device, epsilon=epsilon, delta=delta))
    if terms.reports_per_person > 1:
        people = _enough_for_several(device, people, epsilon, terms)
    reports = terms.reports_per_person
    return terms.admission.least_valid(people * reports, reports)


def _enough_for_several(device: Device, start: int, epsilon: float, terms: Terms) -> int:
    reports, certain = terms.reports_per_person, terms.trusting

    def keeps(people: int) -> bool:
        return promised((device,), certain, people * reports).epsilon <= epsilon

    most = LARGEST_COUNT // reports
    bracket = doubled(keeps, start, most)
    if bracket is None:
        raise UnreachableTargetError(
            f"epsilon={epsilon:g} for {reports} reports of one person",
            f"not even {most:.2g} people are enough",
            "ask for more epsilon or fewer reports per person",
        )
    return least(keeps, *bracket, tolerance=_NEARLY)
