"""A survey: one question, everything public about how it is collected, and an id.

A survey never changes. Its id is the hash of its canonical configuration, and every envelope of
the collection is bound to the id, so that whoever answers agrees on all of it: the question, the
purpose, the randomizer, the least crowd, the promised (epsilon, delta), who operates what.

What is promised is for one person over the survey's life. R reports of one person may fall into
one batch or into several. Give each its own part of a batch's honest people at random: showing the
analyzer these parts separately shows more than the batch, so each report is hidden by at least
floor(h/R) honest people, h those of the smallest batch, and R adaptive rounds of that compose.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any, Literal, cast, get_args
from urllib.parse import urlsplit

from shoal import checks
from shoal.accounting.guarantee import Guarantee
from shoal.errors import InvalidArgumentError, ShoalError, UnreachableTargetError
from shoal.protocols.base import Device
from shoal.protocols.registry import restored
from shoal.randomizers.base import AnswerMechanism, NumberMechanism
from shoal.randomizers.grid import Laplace
from shoal.randomizers.registry import described
from shoal.sealing import SUITES, Envelope, MalformedError, Plain, SurveyId, canonical, parsed
from shoal.sealing.envelope import LARGEST_CAPACITY
from shoal.sealing.identity import LARGEST_CONFIGURATION
from shoal.service.admission import Admission, OpenFraction, read_admission
from shoal.service.keyring.key_list import PUBLIC_BYTES, Role, fingerprint
from shoal.service.keyring.keys import INDEX
from shoal.service.survey.promise import TERMS, Terms, promised
from shoal.values import attributes

Small = Literal["carry", "expire"]

VERSION = 2
LONGEST_TEXT = 2000
LONGEST_ANSWER = 200
MOST_BATCH_REPORTS = 10**10  # more people than there are
LEAST_DELTA = 1e-30
MOST_REPORTS = 1000  # of one person: composing more takes long, and promises nothing
MOST_LEVELS = 8  # of Laplace noise in several reports: its law has many atoms of many sizes
LARGEST_LOCAL = 5.0  # of each of several reports, for the same reason; one alone is quick
_LEAST = {"reports_per_person": 1, "not_before": 0, "not_after": 0, "token_bytes": 0}
_TEXTS = ("name", "question", "purpose")
_NUMBERS = ("epsilon", *(name for name in TERMS if name != "admission"))
# The fields that are written as they are.
_PLAIN = (*_TEXTS, *_NUMBERS, "not_before", "not_after", "suite", "token_bytes")
_SLACK = 1e-9  # of the promise, for what is lost in arithmetic
_ANY = SurveyId(bytes(32))  # the length of an envelope does not depend on the survey
_MOST_BITS = 8 * LARGEST_CAPACITY
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_USUAL_PORTS = {"https": 443, "http": 80}
_ESCAPED = set('"<>^`{}')  # in a path, by browsers
LONGEST_URL = 2000
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LONGEST = 253
_FOREIGN = "xn--"
_INSIDE = ("localhost", "local", "internal", "home.arpa")  # names of no public machine
_THIS_MACHINE = {"localhost", "127.0.0.1", "::1"}


class SurveyFileError(ShoalError):
    """A file that is not what it should be, or must not be written over."""


class InconsistentSurveyError(MalformedError):
    """A survey whose numbers do not follow from each other; ``unkept``: its promise does not."""

    def __init__(self, error: Exception) -> None:
        super().__init__("the survey", f"values that belong together ({error})")
        self.unkept = isinstance(error, UnreachableTargetError)


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, AttributeError) as error:
        raise MalformedError("the survey", f"all of its fields ({error})") from None
    except (ShoalError, ArithmeticError) as error:  # the latter for numbers beyond any sense
        raise InconsistentSurveyError(error) from None


def complaint(error: MalformedError, name: str) -> str:
    """What is wrong with the file of this name.

    >>> complaint(MalformedError("the survey", "more"), "x.json").partition(":")[0]
    'x.json is not a survey as it was written'
    """
    if not isinstance(error, InconsistentSurveyError):
        wrong = (
            "is not a survey as it was written: it is another file, or was saved anew by an editor"
        )
    elif error.unkept:
        wrong = "does not keep its promise: it was changed, or badly made"
    else:
        wrong = "contradicts itself: it was changed, or badly made"
    return f"{name} {wrong} ({error})"


@dataclass(frozen=True, kw_only=True)
class Party:
    """Who operates a part of a survey: where it is, and by which key people recognise it.

    ``fingerprint`` is that of the key that signs its list of keys. The key itself is fetched from
    the service; what is in the survey decides whether it is the right one, so that nobody on the
    way can hand out keys of their own.

    The name of the machine is written in one way, so that lists of allowed machines can be compared
    with it: labels of lower-case letters, digits and hyphens (RFC 1123), other letters in their
    ASCII form (RFC 3492), or an address of the Internet Protocol without a zone.
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
            "an https address without query or user (http on this machine only), of a machine "
            "whose name can be one, in lower case"
        )
    segments = {segment.lower().replace("%2e", ".") for segment in parts.path.split("/")}
    otherwise = ""
    if port == _USUAL_PORTS[parts.scheme]:
        otherwise = f"an address without :{port}, which {parts.scheme} has anyway"
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


def this_machine(host: str) -> bool:
    """Whether it is the machine that asks: what is sent there passes no network."""
    return host in _THIS_MACHINE


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

    At ``target`` valid reports, or ``max_age`` seconds after its first one if it has at least
    ``minimum`` by then. One that has fewer is never released as it is: it waits for more
    (``small="carry"``), or its reports are deleted unread (``small="expire"``).
    """

    minimum: int
    target: int
    max_age: int
    small: Small = "carry"

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

    ``admission`` says who may report, and how many of them may follow no protocol.
    ``participation`` is a coin that the device tosses for every report.
    """

    device: Device
    batches: Batches
    epsilon: float
    delta: float
    reports_per_person: int = 1
    admission: Admission
    participation: float = 1.0
    shuffler: Party
    analyzer: Party

    def __post_init__(self) -> None:
        checks.positive(epsilon=self.epsilon)
        checks.open_probability(delta=self.delta)
        checks.fraction(participation=self.participation)
        checks.refuse(self.delta < LEAST_DELTA, f"delta >= {LEAST_DELTA:g}", delta=self.delta)
        reports = checks.count(reports_per_person=self.reports_per_person)
        expected = f"at most {MOST_REPORTS} reports of one person"
        checks.refuse(reports > MOST_REPORTS, expected, reports_per_person=reports)
        if reports > 1:
            each = self.device.local_epsilon
            expected = f"at most {LARGEST_LOCAL:g} for each of several reports of one person"
            checks.refuse(LARGEST_LOCAL < each < math.inf, expected, local_epsilon=each)
        if reports > 1 and isinstance(self.device, Laplace):
            expected = (
                f"at most {MOST_LEVELS} for several reports of one person by {self.device.name} "
                "(or take piecewise)"
            )
            checks.refuse(self.device.levels > MOST_LEVELS, expected, levels=self.device.levels)
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
    def local_epsilon(self) -> float:
        """What one person's reports reveal together, whoever colludes."""
        return self.reports_per_person * self.device.local_epsilon

    @classmethod
    def from_bytes(cls, data: bytes) -> Stated:
        """From a survey's bytes: quickly, and without knowing whether the rest makes sense."""
        stored = cast("Mapping[str, Any]", parsed(data))
        with _reading():
            return Stated(**_parts(stored), **{name: stored[name] for name in _NUMBERS})


def _parts(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are no plain values.

    Refuses a mechanism for other answers, or with endless numbers.
    """
    mechanism, answers = stored["mechanism"], len(stored["answers"])
    k = checks.count(0, k=mechanism.get("k", answers))
    checks.refuse(k != answers, f"a mechanism for the {answers} answers listed", k=k)
    bits = checks.count(0, modulus_bits=mechanism.get("modulus_bits", 0))
    checks.refuse(bits > _MOST_BITS, f"at most {_MOST_BITS}", modulus_bits=bits)
    return {
        "device": restored(mechanism),
        "batches": Batches(**stored["batches"]),
        "admission": read_admission(stored["admission"])
        if "admission" in stored
        else OpenFraction(dishonest=stored["dishonest"]),
        "shuffler": Party(**stored["shuffler"]),
        "analyzer": Party(**stored["analyzer"]),
    }


@dataclass(frozen=True, kw_only=True)
class Survey(Stated):
    """Everything that all parties and people agree on.

    ``answers`` are the labels of a mechanism for answers; one for numbers has its bounds.
    ``not_before`` and ``not_after`` are seconds since 1970. ``token_bytes`` is room for anonymous
    tokens in every report, none unless they are used.
    """

    name: str
    question: str
    purpose: str
    answers: tuple[str, ...] = ()
    not_before: int
    not_after: int
    suite: str = SUITES[0]
    token_bytes: int = 0

    def __post_init__(self) -> None:
        for name in _TEXTS:
            _check_text(name, getattr(self, name), LONGEST_TEXT)
        answers, device = self.answers, self.device
        if isinstance(device, NumberMechanism):
            expected = "no list of answers beside a mechanism for numbers"
            checks.refuse(answers, expected, answers=len(answers))
        elif isinstance(device, AnswerMechanism):
            expected = f"{device.k} answers, as the mechanism has"
            checks.refuse(len(answers) != device.k, expected, answers=len(answers))
        else:
            named = getattr(device, "name", device)
            raise InvalidArgumentError("device", named, "a mechanism for answers or for numbers")
        for answer in answers:
            _check_text("answer", answer, LONGEST_ANSWER)
        repeated = len(set(answers)) < len(answers)
        checks.refuse(repeated, "answers that differ", answers="repeated")
        for name, least in _LEAST.items():
            object.__setattr__(self, name, checks.count(least, **{name: getattr(self, name)}))
        expected = f"not_after later than not_before={self.not_before}"
        checks.refuse(self.not_after <= self.not_before, expected, not_after=self.not_after)
        super().__post_init__()
        checks.refuse(self.suite not in SUITES, f"one of {', '.join(SUITES)}", suite=self.suite)
        _check_room(self.device, suite=self.suite, token_bytes=self.token_bytes)
        epsilon = self.guarantee(self.batches.minimum).epsilon
        if not self.allows(epsilon):
            raise UnreachableTargetError(
                f"epsilon={self.epsilon:g} at delta={self.delta:g}",
                f"a batch of minimum={self.batches.minimum} reports gives {epsilon:.6g}",
                "ask for a larger minimum, more noise, fewer reports per person or more epsilon",
            )

    @cached_property
    def id(self) -> SurveyId:
        """The hash of the configuration."""
        return SurveyId.of(self.configuration())

    def honest(self, valid: int) -> int:
        """How many of so many valid reports may be counted on: n'."""
        return self.admission.honest(checks.count(0, valid=valid), self.reports_per_person)

    def guarantee(self, valid: int) -> Guarantee:
        """What one person is promised if every batch with their reports has so many valid ones."""
        return promised(self.device, self.terms, checks.count(0, valid=valid))

    def allows(self, epsilon: float) -> bool:
        """Whether a guarantee with this epsilon is within the promise."""
        return epsilon <= self.epsilon * (1 + _SLACK)

    def configuration(self) -> dict[str, Plain]:
        """All of it as plain values; version 1 has a fraction of dishonest reports."""
        admission: dict[str, Plain] = {"version": VERSION, "admission": self.admission.to_dict()}
        if isinstance(self.admission, OpenFraction):
            admission = {"version": 1, "dishonest": self.admission.dishonest}
        return {
            **admission,
            "kind": "survey",
            "answers": list(self.answers),
            "mechanism": cast("dict[str, Plain]", described(self.device)),
            # What follows from the parameters: a machine that derives other numbers has to refuse,
            # and a client in another language need not derive any.
            "sampler": dict(self.device.integers),
            "message_bytes": self.device.message_bytes,
            "slots": self.device.slots,
            "batches": asdict(self.batches),
            "shuffler": asdict(self.shuffler),
            "analyzer": asdict(self.analyzer),
            **{name: getattr(self, name) for name in _PLAIN},
        }

    def to_bytes(self) -> bytes:
        """The one way of writing it; its id is the hash of these bytes."""
        return canonical(self.configuration())

    @classmethod
    def from_bytes(cls, data: bytes) -> Survey:
        """The survey that these bytes are; what does not follow from itself is refused."""
        stored = cast("Mapping[str, Any]", parsed(data))
        with _reading():
            plain = {name: stored[name] for name in _PLAIN}
            survey = cls(answers=tuple(stored["answers"]), **_parts(stored), **plain)
        if survey.to_bytes() != data:
            # Unknown fields, another version, or parameters that this machine derives otherwise.
            expected = f"a survey of version 1 or {VERSION} and nothing more"
            raise MalformedError("the survey", expected)
        return survey


def _check_text(name: str, text: object, longest: int) -> None:
    # The mark of byte order is a space of no width to browsers.
    fits = isinstance(text, str) and text.replace("\ufeff", "").strip() and len(text) <= longest
    expected = f"{'answers' if name == 'answer' else 'text'} of 1 to {longest} characters"
    checks.refuse(not fits, expected, **{name: text})


def _check_room(device: Device, *, suite: str, token_bytes: int) -> None:
    """Refuse a mechanism whose sealed messages, with a token, are too long for an envelope."""
    most = LARGEST_CAPACITY - token_bytes
    length = device.message_bytes
    expected = f"messages of at most {LARGEST_CAPACITY} bytes, the token included"
    checks.refuse(length > most, expected, message_bytes=length)
    record = Envelope(survey=_ANY, role="inner", capacity=length, suite=suite).size
    expected = (
        f"at most {max(0, most // record)} messages of a person, sealed into {record} bytes each "
        f"by {suite} (take a mechanism with fewer or shorter messages)"
    )
    checks.refuse(device.slots * record > most, expected, slots=device.slots)


def read_survey(path: Path, survey_id: str | None = None) -> Survey:
    """The survey in a file; with an id, only the one that has it."""
    try:
        survey = Survey.from_bytes(_bytes_of(path))
    except MalformedError as error:
        message = f"{complaint(error, str(path))}; ask for the original"
        raise SurveyFileError(message) from None
    if survey_id is not None and SurveyId.from_text(survey_id) != survey.id:
        raise SurveyFileError(f"{path} is another survey: its id is {survey.id}")
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
        raise SurveyFileError(f"{path} holds another survey: write to another file, or delete it")


def party_fingerprint(role: Role, key: str) -> str:
    """The fingerprint as it is, or from a file: itself, or the list of keys that it names.

    A directory stands for the list in it, or in its directory of keys.
    """
    if _FINGERPRINT.fullmatch(key):
        return key
    given = Path(key)
    path = next((p for p in (given, given / INDEX, given / "keys" / INDEX) if p.is_file()), None)
    if path is None:
        raise SurveyFileError(
            f"expected --{role}-key to be 64 hexadecimal digits or a file with them, or the "
            f"{role}'s list of keys (its directory of keys will do), got {key!r}"
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
        raise SurveyFileError(f"{path} holds neither a fingerprint nor a list of keys")
    listed = document.get("list")
    whose = listed.get("role", role) if isinstance(listed, Mapping) else role
    if whose != role:
        raise SurveyFileError(f"--{role}-key {path} has the keys of the {whose}, not of the {role}")
    return fingerprint(role, public)


def _bytes_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_CONFIGURATION + 1)
    except OSError as error:
        raise SurveyFileError(f"cannot read {path}: {error.strerror or error}") from error
