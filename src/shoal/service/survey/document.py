"""A survey: its questions, everything public about how it is collected, and an id.

A survey never changes. Its id is the hash of its canonical configuration, and every envelope of
the collection is bound to the id, so that whoever answers agrees on all of it: the question, the
purpose, the randomizer, the least crowd, the promised (epsilon, delta), who operates what.

What is promised is for one person over the survey's life. R reports of one person may fall into
one batch or into several. Give each its own part of a batch's honest people at random: showing the
analyzer these parts separately shows more than the batch, so each report is hidden by at least
floor(h/R) honest people, h those of the smallest batch, and R adaptive rounds of that compose.

Of several questions each is randomized, sealed and mixed by itself: nothing links the answers of a
person. A report is a round for each of them, and all rounds compose. Whoever skips a question sends
``(none)``, so that each question has the same crowd.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any, Literal, cast, get_args
from urllib.parse import urlsplit

from shoal import checks
from shoal.accounting.guarantee import Guarantee
from shoal.errors import InvalidArgumentError, RefusedError, ShoalError, UnreachableTargetError
from shoal.mechanisms.base import Device
from shoal.mechanisms.codec import Uneven
from shoal.questions.kinds import Question
from shoal.questions.terms import NO_LIMITS, Limits
from shoal.sealing import SUITES, Envelope, MalformedError, Plain, SurveyId, canonical, parsed
from shoal.sealing.envelope import LARGEST_CAPACITY
from shoal.sealing.identity import LARGEST_CONFIGURATION
from shoal.service.admission import Admission, read_admission
from shoal.service.clock import DAY, system_clock
from shoal.service.keyring.key_list import PUBLIC_BYTES, Role, fingerprint
from shoal.service.keyring.keys import INDEX
from shoal.service.survey.items import LONGEST_TEXT, Item, check_text
from shoal.service.survey.older import VERSION, present
from shoal.service.survey.promise import TERMS, Terms, promised
from shoal.service.survey.texts import check_texts
from shoal.values import attributes

Small = Literal["carry", "expire"]

MOST_QUESTIONS = 20
MOST_BATCH_REPORTS = 10**10  # more people than there are
LEAST_DELTA = 1e-30
LEAST_COMPOSED_DELTA = 1e-9  # of several questions: below, composing many curves takes long
MOST_REPORTS = 1000  # of one person: composing more takes long, and promises nothing
MOST_LEVELS = 8  # of Laplace noise in several reports: its law has many atoms of many sizes
LARGEST_LOCAL = 5.0  # of each of several reports, for the same reason; one alone is quick
_LEAST = {"reports_per_person": 1, "not_before": 0, "not_after": 0, "token_bytes": 0}
_TEXTS = ("name", "purpose")
_NUMBERS = ("epsilon", *(name for name in TERMS if name != "admission"))
# The fields that are written as they are.
_PLAIN = (*_TEXTS, *_NUMBERS, "not_before", "not_after", "suite", "token_bytes")
_SLACK = 1e-9  # of the promise, for what is lost in arithmetic
_ANY = SurveyId(bytes(32))  # the length of an envelope does not depend on the survey
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_USUAL_PORTS = {"https": 443, "http": 80}
_ESCAPED = set('"<>^`{}')  # in a path, by browsers
LONGEST_URL = 2000
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LONGEST = 253
_FOREIGN = "xn--"
_INSIDE = ("localhost", "local", "internal", "home.arpa")  # names of no public machine
# Whether a host is the machine that asks: what is sent there passes no network.
this_machine = frozenset({"localhost", "127.0.0.1", "::1"}).__contains__


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, AttributeError) as error:
        raise MalformedError("the survey", f"all of its fields ({error})") from None
    except (ShoalError, ArithmeticError) as error:  # the latter for numbers beyond any sense
        expected = f"values that belong together ({error})"
        raise MalformedError("the survey", expected, contradiction=error) from None


def complaint(error: MalformedError, name: str) -> str:
    """What is wrong with the file of this name.

    Args:
        error: What reading it raised.
        name: The file.

    Returns:
        A sentence.

    Example:
        >>> complaint(MalformedError("the survey", "more"), "x.json").partition(":")[0]
        'x.json is not a survey in its original form'
    """
    if error.contradiction is None:
        wrong = (
            "is not a survey in its original form: it is another file, or an editor saved it again"
        )
    elif isinstance(error.contradiction, UnreachableTargetError):
        wrong = "does not keep its promise: it was changed, or badly made"
    else:
        wrong = "contradicts itself: it was changed, or badly made"
    return f"{name} {wrong} ({error})"


@dataclass(frozen=True, kw_only=True)
class Party:
    """Who operates a part of a survey: where it is, and by which key people recognise it.

    The key itself is fetched from the service; what is in the survey decides whether it is the
    right one, so that nobody on the way can hand out keys of their own.

    The name of the machine is written in one way, so that lists of allowed machines can be
    compared with it: labels of lower-case letters, digits and hyphens (RFC 1123), other letters
    in their ASCII form (RFC 3492), or an address of the Internet Protocol without a zone.

    Args:
        url: The address of the service.
        fingerprint: That of the key that signs its list of keys: 64 hexadecimal digits.

    Raises:
        InvalidArgumentError: The address or the fingerprint is not written like that.

    Example:
        >>> Party(url="https://shuffler.example", fingerprint="0" * 64).url
        'https://shuffler.example'
    """

    url: str
    fingerprint: str

    def __post_init__(self) -> None:
        expected = _expected_url(self.url)
        checks.refuse(expected, expected, url=self.url)
        if not _FINGERPRINT.fullmatch(self.fingerprint):
            expected = "a fingerprint of 64 lower-case hexadecimal digits"
            raise InvalidArgumentError("fingerprint", self.fingerprint, expected)


def _expected_url(url: str) -> str:
    """What an address should be instead, if it is none, or browsers would ask another one."""
    plain = url.isascii() and url.isprintable() and not set(" ?#@\\") & set(url)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port  # not a number up to 65535: ValueError
    except ValueError:
        plain = False
    if plain:
        schemes = ("http://", "https://") if this_machine(host) else ("https://",)
        named = f"[{host}]" if ":" in host else host  # as it is written, but for the port
        written = parts.netloc in (named, f"{named}:{port}")
        plain = url.startswith(schemes) and written and reachable(host)
    if not plain:
        return (
            "an https address without query or user (http on this machine only), with a "
            "valid host name in lower case"
        )
    segments = {segment.lower().replace("%2e", ".") for segment in parts.path.split("/")}
    otherwise = ""
    if port == _USUAL_PORTS[parts.scheme]:
        otherwise = f"an address without :{port}, the default of {parts.scheme}"
    elif ":" in host and host != shortest(host):
        otherwise = f"an address of the machine [{shortest(host)}]"
    elif segments & {".", ".."}:
        otherwise = "an address without . or .. between slashes"
    elif _ESCAPED & set(parts.path):
        otherwise = f"an address without any of {' '.join(sorted(_ESCAPED))}"
    if otherwise:
        return f"{otherwise}, as browsers write it"
    if url.endswith("/") or len(url) > LONGEST_URL:
        return f"an address of at most {LONGEST_URL} characters without a slash at its end"
    return ""


def reachable(host: str) -> bool:
    """Whether the name can be one of a machine.

    >>> reachable("shuffler.example"), reachable("Shuffler.example"), reachable("1.2.3.400")
    (True, False, False)
    """
    if _address(host) is not None:
        return True
    labels = host.split(".")
    return (
        len(host) <= _LONGEST
        and not _NUMBER.fullmatch(labels[-1])  # an address, and not a right one
        and all(_LABEL.fullmatch(label) and _decodes(label) for label in labels)
    )


def shortest(host: str) -> str:
    """An IPv6 address as browsers write it.

    >>> shortest("2001:db8:0:0:1::1"), shortest("::ffff:1.2.3.4")
    ('2001:db8::1:0:0:1', '::ffff:102:304')
    """
    address = IPv6Address(host)
    if address.ipv4_mapped is None:
        return address.compressed
    number = int(address.ipv4_mapped)  # some versions of Python write these with dots
    return f"::ffff:{number >> 16:x}:{number & 0xFFFF:x}"


def public(host: str) -> bool:
    """Whether it names a machine of the open network, as far as the name tells.

    >>> public("shuffler.example"), public("169.254.169.254"), public("localhost")
    (True, False, False)
    """
    address = _address(host)
    if address is None:
        inside = any(host == name or host.endswith(f".{name}") for name in _INSIDE)
        return "." in host and not inside
    inner = getattr(address, "ipv4_mapped", None) or address
    return inner.is_global and not inner.is_multicast


def _address(host: str) -> IPv4Address | IPv6Address | None:
    if "%" in host or host != host.lower():
        return None
    try:
        return ip_address(host)
    except ValueError:
        return None


def _decodes(label: str) -> bool:
    """Whether a label in ASCII form stands for letters, digits and marks, written in one way."""
    if not label.startswith(_FOREIGN):
        return True
    try:
        text = label.removeprefix(_FOREIGN).encode("ascii").decode("punycode")
        again = text.encode("punycode").decode("ascii")
    except (UnicodeError, ValueError, OverflowError):
        return False
    plain = unicodedata.normalize("NFC", text) == text == text.lower()
    letters = all(unicodedata.category(letter)[0] in "LMN" or letter in "-·" for letter in text)
    return again == label.removeprefix(_FOREIGN) and not text.isascii() and plain and letters


@dataclass(frozen=True, kw_only=True)
class Batches:
    """When a batch is closed.

    Args:
        minimum: The fewest valid reports of a batch, at least 2.
        target: It is closed at so many.
        max_age: Or so many seconds after its first report, if it has the minimum by then.
        small: One that has fewer is never released as it is: it waits for more ("carry"), or
            its reports are deleted unread ("expire").

    Raises:
        InvalidArgumentError: A number is out of its range, or the target below the minimum.

    Example:
        >>> Batches(minimum=1000, target=5000, max_age=86_400).small
        'carry'
    """

    minimum: int
    target: int
    max_age: int
    small: Small = "carry"

    @classmethod
    def of(cls, minimum: int, admission: Admission, reports_per_person: int = 1) -> Batches:
        """As usual: closed at twice the minimum, or when everybody reported, or after a week."""
        most = admission.most_valid(reports_per_person)
        target = int(max(minimum, min(2 * minimum, most)))
        return cls(minimum=minimum, target=target, max_age=7 * DAY)

    def __post_init__(self) -> None:
        for name, least in (("minimum", 2), ("target", 2), ("max_age", 1)):
            object.__setattr__(self, name, checks.count(least, **{name: getattr(self, name)}))
        for name in ("minimum", "target"):
            reports = getattr(self, name)
            expected = f"at most {MOST_BATCH_REPORTS:,} reports in a batch"
            checks.refuse(reports > MOST_BATCH_REPORTS, expected, **{name: reports})
        expected = f"target >= minimum={self.minimum}"
        checks.refuse(self.target < self.minimum, expected, target=self.target)
        checks.one_of(get_args(Small), small=self.small)


@dataclass(frozen=True, kw_only=True)
class Stated:
    """The numbers and addresses by which a survey may be refused at once.

    Every :class:`shoal.Survey` is one.

    Args:
        questions: What is asked, at least one question.
        batches: When a batch is closed.
        epsilon: ε that is promised to one person, all their reports together.
        delta: δ of the promise.
        reports_per_person: Reports that the survey takes from one person.
        admission: Who may report, and how many of them may follow no protocol.
        participation: Probability in (0, 1] of a coin that the device tosses for every report.
        shuffler: Who takes reports in, and mixes them.
        analyzer: Who opens and counts them.

    Raises:
        InvalidArgumentError: A number is out of its range, or two exclude each other.

    References:
        :doc:`/theory/survey-life`.
    """

    questions: tuple[Item, ...]
    batches: Batches
    epsilon: float
    delta: float
    reports_per_person: int = 1
    admission: Admission
    participation: float = 1.0
    shuffler: Party
    analyzer: Party

    def __post_init__(self) -> None:
        names = [question.name for question in self.questions]
        expected = f"1 to {MOST_QUESTIONS} questions"
        checks.refuse(not 1 <= len(names) <= MOST_QUESTIONS, expected, questions=len(names))
        checks.refuse(len(set(names)) < len(names), "names that differ", questions=names)
        checks.positive(epsilon=self.epsilon)
        checks.open_probability(delta=self.delta)
        checks.fraction(participation=self.participation)
        checks.refuse(self.delta < LEAST_DELTA, f"delta >= {LEAST_DELTA:g}", delta=self.delta)
        expected = f"delta >= {LEAST_COMPOSED_DELTA:g} for several questions"
        checks.refuse(
            self.several and self.delta < LEAST_COMPOSED_DELTA, expected, delta=self.delta
        )
        reports = checks.count(reports_per_person=self.reports_per_person)
        rounds = MOST_REPORTS // len(self.questions)
        to_each = f" to {len(self.questions)} questions each" if self.several else ""
        expected = f"at most {rounds} reports of one person{to_each}"
        checks.refuse(reports > rounds, expected, reports_per_person=reports)
        composed = "several questions" if self.several else "several reports of one person"
        for question in self.questions if reports > 1 or self.several else ():
            each = question.device.local_epsilon
            expected = f"at most {LARGEST_LOCAL:g} for each of {composed}"
            checks.refuse(LARGEST_LOCAL < each < math.inf, expected, local_epsilon=each)
            expected = (
                f"at most {MOST_LEVELS} for {composed} by {question.device.name} "
                "(or take piecewise)"
            )
            levels = question.device.law_levels
            checks.refuse(levels > MOST_LEVELS, expected, levels=levels)
        most, least = self.admission.most_valid(reports), self.batches.minimum
        expected = f"a minimum of at most the {most:,} reports that people invited may send"
        checks.refuse(least > most, expected, minimum=least)
        # The role is in what is hashed: no two parties share one, not even with one key.
        expected = (
            "the analyzer's fingerprint to differ from the shuffler's, as each party has its "
            "own (shoal keys show prints it)"
        )
        theirs = self.analyzer.fingerprint
        checks.refuse(theirs == self.shuffler.fingerprint, expected, fingerprint=theirs)

    @property
    def terms(self) -> Terms:
        """What the promise counts on besides the mechanism."""
        return Terms(**attributes(self, *TERMS))

    @property
    def several(self) -> bool:
        """Whether it asks more than one question."""
        return len(self.questions) > 1

    @property
    def devices(self) -> tuple[Device, ...]:
        """What people run, question by question."""
        return tuple(question.device for question in self.questions)

    @property
    def only(self) -> Item:
        """The question of a survey that asks one."""
        several = len(self.questions)
        checks.refuse(self.several, "a survey with one question", questions=several)
        return self.questions[0]

    @property
    def device(self) -> Device:
        """Of the only question."""
        return self.only.device

    @property
    def local_epsilon(self) -> float:
        """What one person's reports reveal together, whoever colludes."""
        return self.reports_per_person * sum(device.local_epsilon for device in self.devices)

    @classmethod
    def from_bytes(cls, data: bytes) -> Stated:
        """From a survey's bytes: quickly, and without knowing whether the rest makes sense."""
        stored = cast("Mapping[str, Any]", parsed(data))
        with _reading():
            document = _present(stored)
            return Stated(**_parts(document), **{name: document[name] for name in _NUMBERS})


def _present(stored: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a document says; one of an earlier version in the words of the present one."""
    if stored["version"] != VERSION:
        return present(stored)
    checks.count(0, dishonest=stored["admission"]["dishonest"])  # people, and no fraction
    return stored


def _parts(document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are no plain values."""
    items = document["questions"]
    expected = f"at most {MOST_QUESTIONS} questions"
    checks.refuse(len(items) > MOST_QUESTIONS, expected, questions=len(items))
    return {
        "questions": tuple(map(Item.from_dict, items)),
        "batches": Batches(**document["batches"]),
        "admission": read_admission(document["admission"]),
        "shuffler": Party(**document["shuffler"]),
        "analyzer": Party(**document["analyzer"]),
    }


@dataclass(frozen=True, kw_only=True)
class Survey(Stated):
    """Everything that all parties and people agree on: a configuration that names itself.

    Args:
        questions: What is asked, at least one question.
        batches: When a batch is closed.
        epsilon: ε that is promised to one person, all their reports together.
        delta: δ of the promise.
        reports_per_person: Reports that the survey takes from one person.
        admission: Who may report, and how many of them may follow no protocol.
        participation: Probability in (0, 1] of a coin that the device tosses for every report.
        shuffler: Who takes reports in, and mixes them.
        analyzer: Who opens and counts them.
        name: What it is called.
        purpose: What the answers are for.
        not_before: Seconds since 1970 when it begins.
        not_after: Seconds since 1970 when it ends.
        suite: The cryptography that reports are sealed by.
        token_bytes: Room for anonymous tokens in every report, none unless they are used.

    Raises:
        InvalidArgumentError: A number is out of its range, or two exclude each other.
        UnreachableTargetError: The smallest batch does not keep the promise.

    References:
        The promise is proved by the theorems of :func:`shoal.amplify`; :doc:`/theory/survey-life`.

    Example:
        >>> import shoal
        >>> from shoal.service.survey import Batches, Item, Open, Party
        >>> walked = shoal.Choice("walked", ["yes", "no"], text="Did you walk?", missing="refuse")
        >>> survey = shoal.Survey(
        ...     name="walking",
        ...     purpose="To plan footpaths.",
        ...     questions=(Item(walked, shoal.RandomizedResponse(k=2, epsilon=1.0)),),
        ...     batches=Batches(minimum=1000, target=5000, max_age=86_400),
        ...     epsilon=0.5,
        ...     delta=1e-6,
        ...     admission=Open(dishonest=0),
        ...     not_before=0,
        ...     not_after=4_102_444_800,
        ...     shuffler=Party(url="https://shuffler.example", fingerprint="0" * 64),
        ...     analyzer=Party(url="https://analyzer.example", fingerprint="1" * 64),
        ... )
        >>> round(survey.guarantee(5000).epsilon, 3) < 0.5
        True
        >>> shoal.Survey.from_bytes(survey.to_bytes()).id == survey.id
        True
    """

    name: str
    purpose: str
    not_before: int
    not_after: int
    suite: str = SUITES[0]
    token_bytes: int = 0
    # One of an earlier version keeps its bytes, and so its id.
    _original: bytes = field(default=b"", init=False, repr=False)

    @classmethod
    def new(
        cls,
        questions: Question | Sequence[Question],
        *,
        epsilon: float,
        minimum: int,
        admission: Admission,
        purpose: str,
        shuffler: Party,
        analyzer: Party,
        name: str = "",
        delta: float = 1e-6,
        limits: Limits = NO_LIMITS,
        starts: int | None = None,
        days: int = 30,
    ) -> Survey:
        """A survey of these questions, with the mechanisms that keep the promise with least error.

        Args:
            questions: One or several of :class:`shoal.Choice`, with a list of answers, or
                :class:`shoal.Number`, each with a text. Nobody skips the only one.
            epsilon: ε that is promised to one person.
            minimum: The fewest valid reports of a batch. It closes at twice as many, or when it has
                the minimum after a week.
            admission: Who may report, and how many of them may follow no protocol.
            purpose: What the answers are for.
            shuffler: Who takes reports in, and mixes them.
            analyzer: Who opens and counts them.
            name: What it is called; the text of its only question unless given.
            delta: δ of the promise.
            limits: What the reports of one person may be.
            starts: Seconds since 1970 when it begins; now unless given.
            days: How long it is open.

        Returns:
            The survey, which keeps its promise with the smallest batch.

        Raises:
            InvalidArgumentError: No form can ask that, or a number is out of its range.
            UnreachableTargetError: Nothing keeps the promise among so few people.

        Example:
            >>> import shoal
            >>> from shoal.service.survey import Invited, Party
            >>> survey = shoal.Survey.new(
            ...     shoal.Choice("walked", ["yes", "no"], text="Did you walk?"),
            ...     epsilon=0.5,
            ...     minimum=1000,
            ...     admission=Invited(entitled=5000, dishonest=0),
            ...     purpose="To plan footpaths.",
            ...     shuffler=Party(url="https://shuffler.example", fingerprint="0" * 64),
            ...     analyzer=Party(url="https://analyzer.example", fingerprint="1" * 64),
            ... )
            >>> survey.device.name, survey.batches.target
            ('grr', 2000)
        """
        from shoal.planning.plans import listed
        from shoal.service.survey.design import Design

        asked = listed(questions)
        begins = system_clock() if starts is None else starts
        design = Design(
            questions=asked,
            epsilon=epsilon,
            delta=delta,
            batches=Batches.of(minimum, admission),
            admission=admission,
            limits=limits,
        )
        return design.survey(
            name=name or asked[0].text,
            purpose=purpose,
            not_before=begins,
            not_after=begins + days * DAY,
            shuffler=shuffler,
            analyzer=analyzer,
        )

    def __post_init__(self) -> None:
        for name in _TEXTS:
            check_text(name, getattr(self, name), LONGEST_TEXT)
        for name, least in _LEAST.items():
            object.__setattr__(self, name, checks.count(least, **{name: getattr(self, name)}))
        expected = f"not_after later than not_before={self.not_before}"
        checks.refuse(self.not_after <= self.not_before, expected, not_after=self.not_after)
        super().__post_init__()
        checks.refuse(self.suite not in SUITES, f"one of {', '.join(SUITES)}", suite=self.suite)
        for device in self.devices:
            if device.uneven is not None:
                self._check_sizes(device.name)
        _check_room(self.devices, suite=self.suite, token_bytes=self.token_bytes)
        epsilon = self.guarantee(self.batches.minimum).epsilon
        if not self.allows(epsilon):
            raise UnreachableTargetError(
                f"epsilon={self.epsilon:g} at delta={self.delta:g}",
                f"a batch of minimum={self.batches.minimum} reports gives {epsilon:.6g}",
                "ask for a larger minimum, more noise, fewer reports per person or more epsilon",
            )

    def _check_sizes(self, name: str) -> None:
        """Refuse what a mechanism that leaves slots out is not there for yet."""
        expected = f"{SUITES[0]} for {name}, which seals many slots each by itself"
        checks.refuse(self.suite != SUITES[0], expected, suite=self.suite)
        expected = f"one question in a survey with {name}"
        checks.refuse(self.several, expected, questions=len(self.questions))
        reports, expected = self.reports_per_person, f"1 report of a person with {name}"
        checks.refuse(reports > 1, expected, reports_per_person=reports)

    @property
    def uneven(self) -> Uneven | None:
        """How batches are filled up, if people send so many messages as they need."""
        return self.devices[0].uneven

    @property
    def title(self) -> str:
        """What it is called where people look for it: its question, or the name of several."""
        return self.name if self.several else self.only.text

    @property
    def question(self) -> str:
        """The only one."""
        return self.only.text

    @property
    def answers(self) -> tuple[str, ...]:
        """To the only question."""
        return self.only.answers

    @cached_property
    def id(self) -> SurveyId:
        """The hash of its bytes."""
        return SurveyId(sha256(self.to_bytes()).digest())

    def honest(self, valid: int) -> int:
        """How many of so many valid reports may be counted on: n'."""
        return self.admission.honest(checks.count(0, valid=valid), self.reports_per_person)

    def guarantee(self, valid: int) -> Guarantee:
        """What one person is promised if every batch with their reports has so many valid ones."""
        return promised(self.devices, self.terms, checks.count(0, valid=valid))

    def records(self, reports: int) -> tuple[int, ...]:
        """How many records a batch of so many valid reports has for each question."""
        if self.uneven is not None:
            return (self.uneven.records(reports, honest=self.honest(reports)),)
        return tuple(reports * device.slots for device in self.devices)

    def allows(self, epsilon: float) -> bool:
        """Whether a guarantee with this epsilon is within the promise."""
        return epsilon <= self.epsilon * (1 + _SLACK)

    def configuration(self) -> dict[str, Plain]:
        """All of it as plain values."""
        if self._original:
            return dict(parsed(self._original))
        return {
            "version": VERSION,
            "kind": "survey",
            "questions": [each.to_dict() for each in self.questions],
            "admission": self.admission.to_dict(),
            "batches": asdict(self.batches),
            "shuffler": asdict(self.shuffler),
            "analyzer": asdict(self.analyzer),
            **{name: getattr(self, name) for name in _PLAIN},
        }

    def to_bytes(self) -> bytes:
        """The one way of writing it; its id is the hash of these bytes."""
        return self._original or canonical(self.configuration())

    @classmethod
    def from_bytes(cls, data: bytes) -> Survey:
        """The survey that these bytes are; what does not follow from itself is refused."""
        stored = cast("Mapping[str, Any]", parsed(data))
        with _reading():
            document = _present(stored)
            survey = cls(**_parts(document), **{name: document[name] for name in _PLAIN})
            written = survey.to_bytes()
            again = written == canonical(document)
        if not again:
            # Unknown fields, another version, or parameters that this machine derives otherwise.
            expected = f"a survey of a version from 1 to {VERSION} and nothing more"
            raise MalformedError("the survey", expected)
        if written != data:
            object.__setattr__(survey, "_original", data)
        return survey


def _check_room(devices: tuple[Device, ...], *, suite: str, token_bytes: int) -> None:
    """Refuse mechanisms whose sealed messages, with a token, are too long for an envelope."""
    most = LARGEST_CAPACITY - token_bytes
    for device in devices:
        length = device.message_bytes
        expected = f"messages of at most {LARGEST_CAPACITY} bytes, the token included"
        checks.refuse(length > most, expected, message_bytes=length)
        record = Envelope(survey=_ANY, role="inner", capacity=length, suite=suite).size
        expected = (
            f"at most {max(0, most // record)} messages of a person, sealed into {record} bytes "
            f"each by {suite} (take a mechanism with fewer or shorter messages)"
        )
        checks.refuse(device.slots * record > most, expected, slots=device.slots)
        most -= device.slots * record


def read_survey(path: Path, survey_id: str | None = None) -> Survey:
    """The survey in a file; with an id, only the one that has it."""
    try:
        survey = Survey.from_bytes(_bytes_of(path))
    except MalformedError as error:
        message = f"{complaint(error, str(path))}; ask for the original"
        raise RefusedError(message) from None
    try:
        check_texts(survey)
    except InvalidArgumentError as error:
        raise RefusedError(f"{path} has texts that mislead people: {error}") from None
    if survey_id is not None and SurveyId.from_text(survey_id) != survey.id:
        raise RefusedError(f"{path} is another survey: its id is {survey.id}")
    return survey


def refuse_overwriting(path: Path, survey: Survey) -> None:
    """Refuse to write over another survey: its file is all there is of it."""
    if not path.exists():
        return
    data = _bytes_of(path)
    try:
        stored = parsed(data)
    except MalformedError:
        return
    if stored.get("kind") == "survey" and data != survey.to_bytes():
        raise RefusedError(f"{path} holds another survey: write to another file, or delete it")


def party_fingerprint(role: Role, key: str) -> str:
    """The fingerprint as it is, or from a file: itself, or the list of keys that it names.

    A directory stands for the list in it, or in its directory of keys.
    """
    if _FINGERPRINT.fullmatch(key):
        return key
    given = Path(key)
    path = next((p for p in (given, given / INDEX, given / "keys" / INDEX) if p.is_file()), None)
    if path is None:
        raise RefusedError(
            f"expected --{role}-key to be 64 hexadecimal digits, or a file with them, or "
            f"the {role}'s list of keys or directory of keys, got {key!r}"
        )
    data = _bytes_of(path)
    text = data.decode("ascii", errors="replace").strip()
    if _FINGERPRINT.fullmatch(text):
        return text
    try:
        document = parsed(data)
        public = bytes.fromhex(str(document.get("identity", "")))
    except (MalformedError, ValueError):
        document, public = {}, b""
    if len(public) != PUBLIC_BYTES:
        raise RefusedError(f"{path} has neither a fingerprint nor a list of keys")
    listed = document.get("list")
    whose = listed.get("role", role) if isinstance(listed, Mapping) else role
    if whose != role:
        raise RefusedError(f"--{role}-key {path} has the keys of the {whose}, not of the {role}")
    return fingerprint(role, public)


def _bytes_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_CONFIGURATION + 1)
    except OSError as error:
        raise RefusedError(f"cannot read {path}: {error.strerror or error}") from error
