"""What takes too long for a page: worked out beside it, and shown by the next one.

How far the open batch is, as its shuffler tells everybody, and epsilon as the crowd grows.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Generic, TypeGuard, TypeVar

import httpx

from shoal.service.analyzer.ledger import guaranteed
from shoal.service.clock import Clock, system_clock
from shoal.service.http.outgoing import NoAnswerError, whole
from shoal.service.survey import Survey
from shoal.service.survey.promise import MADE_UP, MadeUp, if_made_up

Key = TypeVar("Key")
Value = TypeVar("Value")

PAGE_TIMEOUT = 0.1  # seconds that a page waits for what may be there in a moment
EVERY = 600.0  # seconds between two questions to a shuffler
AFTER_FAILURE = 60.0
QUARTERS = 4
POINTS = 12
BEYOND = 10  # times the target
# Of the honest people in the smallest crowd, beyond those that the survey counts on.
FAKE_FRACTIONS = (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10))
_TIMEOUT = 5.0
_LARGEST = 4096
_HOUR = 3600
_LONGEST = 10 * 365 * 24  # hours
_OLDEST = _HOUR  # seconds: what a shuffler looked at before is another batch's, or its clock wrong
_log = logging.getLogger(__name__)


# ------------------------------------------------------------------------ values made in a thread


@dataclass
class _Entry(Generic[Value]):
    done: threading.Event = field(default_factory=threading.Event)
    value: Value | None = None
    since: float = 0.0
    working: bool = False


@dataclass
class Background(Generic[Key, Value]):
    """Values by key, made in a thread; ``lifetime`` says for how many seconds one is good.

    Whoever asks while the next one is made gets the one before. A value of which ``make`` raises
    is missing for ``again`` seconds.
    """

    make: Callable[[Key], Value]
    lifetime: Callable[[Value], float] = lambda _: math.inf
    again: float = 60.0
    timeout: float = PAGE_TIMEOUT
    timer: Callable[[], float] = time.monotonic
    _entries: dict[Key, _Entry[Value]] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def get(self, key: Key) -> Value | None:
        """The value, if there is one in a moment."""
        return self.all([key])[key]

    def all(self, keys: Iterable[Key]) -> dict[Key, Value | None]:
        """The values that are there in a moment, the same one for all of them."""
        entries = {key: self._begin(key) for key in keys}
        until = time.monotonic() + self.timeout
        for entry in entries.values():
            entry.done.wait(max(0.0, until - time.monotonic()))
        return {key: entry.value for key, entry in entries.items()}

    def _begin(self, key: Key) -> _Entry[Value]:
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            good = self.again if entry.value is None else self.lifetime(entry.value)
            stale = not entry.done.is_set() or self.timer() - entry.since >= good
            begin = stale and not entry.working
            entry.working = entry.working or begin
        if begin:
            threading.Thread(target=self._work, args=(key, entry), daemon=True).start()
        return entry

    def _work(self, key: Key, entry: _Entry[Value]) -> None:
        value = None
        try:
            value = self.make(key)
        except Exception:  # noqa: BLE001 - whatever it was, the page goes without
            _log.warning("not_found_out", exc_info=True)
        with self._lock:
            entry.value = value
            entry.since = self.timer()
            entry.working = False
            entry.done.set()


# -------------------------------------------------------------------------------- the open batch


@dataclass(frozen=True)
class Progress:
    """What a shuffler says of its open batch, never finer than quarters and hours.

    ``quarters`` of the smallest crowd are there (None where that is too small to tell parts of it);
    it closes in so many hours at most. The analyzer's process asks for itself, whoever looks at the
    dashboard and however often: at most once in the interval in which the shuffler looks itself.
    So it is old news: ``as_of`` is when the shuffler looked, or else was asked, and ``again`` when
    it is asked again at the earliest.
    """

    reachable: bool
    quarters: int | None = None
    closes_in: int | None = None
    as_of: int = 0
    again: int = 0

    @classmethod
    def of(cls, document: Any, now: int) -> Progress:  # noqa: ANN401 - whatever was sent
        """What an answer says; should it say more than quarters, no more is read.

        >>> said = {"share": 0.317, "minimum": 1000, "closes_in": 4000, "as_of": 1180}
        >>> Progress.of(said, now=1200)
        Progress(reachable=True, quarters=1, closes_in=2, as_of=1180, again=1800)
        """
        if not isinstance(document, dict):
            return UNREACHABLE
        fraction, closes_in = document.get("share"), document.get("closes_in")
        quarters = hours = None
        if _is_number(fraction) and 0 <= fraction <= 1:
            quarters = int(fraction * QUARTERS)
        if quarters and _is_number(closes_in) and 0 <= closes_in <= _LONGEST * _HOUR:
            hours = -int(-closes_in // _HOUR)
        looked = document.get("as_of")
        # Of a clock that is before this one, or of a shuffler that does not say: when it was asked.
        as_of = int(looked) if _is_number(looked) and now - _OLDEST <= looked <= now else now
        again = now + int(EVERY)
        return cls(reachable=True, quarters=quarters, closes_in=hours, as_of=as_of, again=again)

    @property
    def lifetime(self) -> float:
        """For how many seconds nobody is asked again."""
        return EVERY if self.reachable else AFTER_FAILURE


UNREACHABLE = Progress(reachable=False)


def ask_shuffler(
    survey: Survey,
    transport: httpx.AsyncBaseTransport | None = None,
    *,
    clock: Clock = system_clock,
) -> Progress:
    """What the survey's shuffler says now."""
    url = f"{survey.shuffler.url.rstrip('/')}/v1/surveys/{survey.id}/progress"
    try:
        answer = whole(url, seconds=_TIMEOUT, largest=_LARGEST, transport=transport)
        document = json.loads(answer.content) if answer.is_success else None
        return UNREACHABLE if document is None else Progress.of(document, clock())
    except (NoAnswerError, ValueError, RecursionError):
        return UNREACHABLE


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


# ------------------------------------------------------------------------ what a crowd is worth


@dataclass(frozen=True)
class Crowd:
    """Epsilon as the crowd grows, and as others are taken out of it: the survey's own accountant.

    ``curve`` has pairs of valid reports and epsilon; ``fakes`` what is left of the minimum, and
    ``made_up`` of the smallest batch so far, where nobody checks who reports.
    """

    curve: tuple[tuple[int, float], ...]
    fakes: tuple[MadeUp, ...]
    made_up: tuple[MadeUp, ...]

    @classmethod
    def of(cls, survey: Survey, smallest: int) -> Crowd:
        """All of it; takes seconds where one person may send many reports."""
        guarantees = {valid: guaranteed(survey, valid) for valid in sizes(survey)}
        curve = [(valid, each.epsilon) for valid, each in guarantees.items() if each is not None]
        honest = survey.honest(survey.batches.minimum)
        fakes = if_made_up(survey.devices, survey.terms, honest, FAKE_FRACTIONS)
        unchecked = MADE_UP if survey.admission.caveat else ()
        made_up = if_made_up(survey.devices, survey.terms, smallest, unchecked)
        return cls(tuple(curve), tuple(fakes), tuple(made_up))


def sizes(survey: Survey) -> list[int]:
    """Crowds from the minimum to ten times the target, evenly on a logarithmic axis."""
    low, high = survey.batches.minimum, BEYOND * survey.batches.target
    ratio = math.log(high / low) / (POINTS - 1)
    between = {round(low * math.exp(ratio * step)) for step in range(POINTS)}
    return sorted(between | {low, survey.batches.target, high})
