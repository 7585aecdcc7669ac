"""From what is wanted to a survey that keeps it: the planner's choice for the least crowd.

The promise of a survey has to hold for the smallest batch that is ever released, for one person's
R reports together and for the people who may be dishonest (see
:mod:`shoal.service.survey.promise`). So a mechanism is planned for the people among whom one report
of the smallest batch hides, and errors are foretold for batches of that size and of the target.

>>> batches = Batches(minimum=500, target=1000, max_age=604_800)
>>> from shoal.service.survey import Invited
>>> class_of_700 = Invited(entitled=700, dishonest=0)
>>> target = {"epsilon": 1.0, "delta": 1e-6}
>>> from shoal import Choice
>>> asked = Choice("way", ["car", "bus", "bike", "foot"], text="How do you come here?")
>>> design = Design(**target, questions=(asked,), batches=batches, admission=class_of_700)
>>> (device,) = design.devices
>>> device.name, round(device.local_epsilon, 3), expected_error(device, 1000) < 0.05
('grr', 2.789, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, cast

from shoal import checks
from shoal.accounting.amplification import required_n
from shoal.accounting.search import doubled, least, root_below
from shoal.checks import LARGEST_COUNT
from shoal.errors import InvalidArgumentError, ShoalError, UnreachableTargetError
from shoal.explain.text import down, up
from shoal.mechanisms import registry
from shoal.mechanisms.base import Device
from shoal.planning import joint, planner
from shoal.planning.planner import Ranking, Setting
from shoal.questions.kinds import Question
from shoal.questions.terms import NO_LIMITS, Limits
from shoal.service.admission import Admission
from shoal.service.survey.browser import counted_epsilon
from shoal.service.survey.document import LARGEST_LOCAL, Batches, Survey
from shoal.service.survey.items import Field, Item
from shoal.service.survey.promise import TERMS, Terms, promised
from shoal.service.survey.texts import check_field, check_shown
from shoal.values import attributes

_TOLERANCE = 1e-3  # of the search for one report's share, in logarithms
_STRIDE = 0.4  # of the search for a bracket, in logarithms
_NEARLY = 0.005  # of the people that are enough for several reports
_IF_CHOSEN = ("near-central-lean", "near-central-robust")  # every slot is opened by itself
_TRIALS = 6  # of designs with another minimum
_MOST_PEOPLE = 10**8
_SMALLEST = 1e-3  # share of epsilon that one report is given at least


@dataclass(frozen=True, kw_only=True)
class Design:
    """What is wanted of a survey; the mechanisms follow, unless one is ``given``.

    The mechanisms of all ``questions`` together keep the promise. Nobody skips the only question.
    """

    questions: tuple[Question, ...]
    epsilon: float
    delta: float
    batches: Batches
    admission: Admission
    reports_per_person: int = 1
    participation: float = 1.0
    limits: Limits = NO_LIMITS
    given: Device | None = None
    fields: tuple[Field, ...] = field(init=False, repr=False, compare=False)  # of a form

    def __post_init__(self) -> None:
        checks.positive(epsilon=self.epsilon)
        checks.open_probability(delta=self.delta)
        checks.fraction(participation=self.participation)
        object.__setattr__(self, "fields", form(self.questions))
        reports = checks.count(reports_per_person=self.reports_per_person)
        object.__setattr__(self, "reports_per_person", reports)
        if self.crowd < 1:
            raise UnreachableTargetError(
                f"any guarantee with minimum={self.batches.minimum}",
                f"nobody can hide {reports} reports of one person",
                "ask for a larger minimum or fewer reports per person",
            )

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
        """The planner's options for one report to the only question, best (or chosen) first.

        Of several reports each is planned for about its share, to choose by; see ``device``.
        """
        (only,) = self.fields
        setting = Setting(
            domain=only.domain,
            n=self.crowd,
            epsilon=self.epsilon / math.sqrt(self.reports_per_person),
            delta=self.terms.delta_taking_part,
            limits=self._limits(self.questions[0]),
        )
        options = planner.rank(setting)
        names = [each.name for each in options.options if each.name not in _IF_CHOSEN]
        best = self.questions[0].choose or names[0]
        return options if best == options.recommended.name else planner.choose(options, best)

    def _limits(self, question: Question) -> Limits:
        most = self.limits.most(chosen=question.choose is not None)
        return replace(self.limits, messages=most)

    def _least_noise(self) -> Device:
        """For the only question: with the least noise that keeps the promise."""
        chosen = self.ranking.randomizer
        if self.reports_per_person == 1:
            if not chosen.several:
                return chosen
            delta = self.terms.delta_taking_part
            made = chosen.surveyed(n=self.crowd, epsilon=self.epsilon, delta=delta)
            most = self._limits(self.questions[0]).messages or math.inf
            if made.messages > most:
                raise UnreachableTargetError(
                    f"messages={most:g} with {chosen.name}",
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
        if self.given is not None:
            return (self.given,)
        if len(self.fields) == 1:
            return (self._least_noise(),)
        most = min(self.limits.local_epsilon or LARGEST_LOCAL, LARGEST_LOCAL)
        delta = self.terms.delta_taking_part
        parts = [
            joint.Part(
                Setting(
                    domain=part.domain,
                    n=self.crowd,
                    epsilon=self.epsilon,
                    delta=delta,
                    limits=replace(self._limits(question), local_epsilon=most),
                    chosen=question.choose,
                ),
                weight=question.weight,
                rounds=self.reports_per_person,
            )
            for part, question in zip(self.fields, self.questions, strict=True)
        ]
        made = joint.plan_together(parts, epsilon=self.epsilon, delta=delta)
        return tuple(each.randomizer for each in made.rankings)

    @property
    def device(self) -> Device:
        """That of the only question."""
        (only,) = self.devices
        return only

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

    def survey(self, **about: Any) -> Survey:  # noqa: ANN401 - the other fields of a survey
        """The survey of this design; it refuses a mechanism that does not keep the promise."""
        check_shown(name=about["name"], purpose=about["purpose"])
        pairs = zip(self.fields, self.devices, strict=True)
        return Survey(
            questions=tuple(Item(each.question, device) for each, device in pairs),
            batches=self.batches,
            epsilon=self.epsilon,
            **attributes(self, *TERMS),
            **about,
        )


def form(questions: Sequence[Question]) -> tuple[Field, ...]:
    """The questions as a form asks them, where nobody skips the only one."""
    if len(questions) == 1:
        (only,) = questions
        if only.none:
            only = replace(only, missing="refuse")
        return (_field(only),)
    fields = []
    for place, question in enumerate(questions, 1):
        try:
            fields.append(_field(question))
        except InvalidArgumentError as error:
            expected = f"{error.expected} in question {place}"
            raise InvalidArgumentError(error.name, error.value, expected) from error
    return tuple(fields)


def _field(question: Question) -> Field:
    """A question whose texts show what they are, and whose mechanism is for a form."""
    field = Field(question)
    check_field(field)
    domain = field.domain  # which checks how far bounds are apart
    if question.choose is not None:
        line = registry.line(question.choose)  # or there is no such name
        takes = f"a mechanism that takes {domain}"
        expected = f"{takes}: one for {domain.takes}, as in {question.name}"
        checks.refuse(not line.fits(domain), expected, choose=question.choose)
        expected = f"a mechanism that devices run, for {question.name} (this is for tables)"
        checks.refuse(line.where == "tables", expected, choose=question.choose)
    return field


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
