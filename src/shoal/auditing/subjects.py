"""What is audited: anything that turns everybody's data into messages in the order they arrive.

A mechanism of Shoal runs as in a real collection: its own ``randomize`` with secure randomness, and
Shoal's shuffle. Somebody's own device, whole pipeline or program runs as it is.
"""

from __future__ import annotations

import inspect
import itertools
import math
import shlex
import subprocess
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting import table as tables
from shoal.accounting.law import BlanketLaw
from shoal.auditing.hints import Hints
from shoal.auditing.messages import Raw, as_messages, joined
from shoal.engines.shuffling import shuffle
from shoal.errors import InvalidArgumentError, ShoalError
from shoal.mechanisms.base import Device, Mechanism
from shoal.questions.domains import Cells, some_answers
from shoal.randomness import Randomness
from shoal.values import Array, Envelopes

MOST_INPUTS = 8
_WEIGHT_BITS = 53
BLOCK = 1 << 19
_LONGEST_MESSAGE = 300
_LONGEST_NAME = 60

Progress = Callable[[int, int], None]


# ------------------------------------------- neighbouring data sets: one person's datum changes


@dataclass(frozen=True, eq=False)
class DataSet:
    """What everybody holds, the person in question first."""

    values: tuple[Hashable, ...]

    @cached_property
    def array(self) -> npt.NDArray[Any]:
        """The same as an array, for code that takes everybody at once."""
        kinds = {len(value) if isinstance(value, tuple) else None for value in set(self.values)}
        if len(kinds) == 1 and all(_numeric(value) for value in set(self.values)):
            return np.array(self.values)
        return np.fromiter(self.values, dtype=object, count=len(self.values))

    def repeated(self, runs: int) -> npt.NDArray[Any]:
        """The array of so many runs, one after the other."""
        return np.tile(self.array, (runs, *[1] * (self.array.ndim - 1)))

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Neighbours:
    """Two data sets for :func:`shoal.audit` that differ in one person.

    Args:
        first: What that person holds in one.
        second: What they hold in the other.
        others: What everybody else holds.

    Example:
        >>> Neighbours(0, 1, (0, 0)).inputs
        (0, 1)
    """

    first: Hashable
    second: Hashable
    others: tuple[Hashable, ...] = field(repr=False)

    @cached_property
    def worlds(self) -> tuple[DataSet, DataSet]:
        """Both data sets."""
        return DataSet((self.first, *self.others)), DataSet((self.second, *self.others))

    @property
    def words(self) -> str:
        """In one phrase."""
        if not self.others:
            others = "nobody else"
        elif len(self._counts) == 1:
            others = f"everybody else {self.others[0]!r}"
        else:
            counts = ", ".join(f"{count:,} {kind!r}" for kind, count in self._counts.items())
            others = f"of the others {counts}"
        return f"{self.first!r} or {self.second!r}, {others}"

    @cached_property
    def _counts(self) -> Counter[Hashable]:
        return Counter(self.others)

    def fractions(self, inputs: Sequence[Hashable]) -> Array:
        """Which fraction of the others holds each input; if there is nobody, of the two data."""
        counts = self._counts or Counter((self.first, self.second))
        return np.array([counts[one] for one in inputs]) / counts.total()

    @property
    def inputs(self) -> tuple[Hashable, ...]:
        """The different data in them."""
        return tuple(dict.fromkeys((self.first, self.second, *self._counts)))


def candidates(inputs: Sequence[Hashable], n: int, *, ends: bool = False) -> list[Neighbours]:
    """Every pair of inputs, among people who all hold one of them or half of each.

    With ``ends`` the first two inputs are the ends of a range: no other pair is farther apart.
    """
    pairs = []
    crowds = [(third,) * (n - 1) for third in inputs] if n > 1 else [()]
    half = (n - 1) // 2
    for first, second in itertools.combinations(inputs[:2] if ends else inputs, 2):
        mixed = [(first,) * half + (second,) * (n - 1 - half)] * bool(half)
        pairs += [Neighbours(first, second, others) for others in [*crowds, *mixed]]
    return pairs


def neighbours(data: object, n: int) -> Neighbours:
    """Data sets that somebody wants to be audited on: (x0, x1, what everybody else holds)."""
    if isinstance(data, Neighbours):
        pair = data
    elif not isinstance(data, Sequence) or len(data) != 3:
        raise InvalidArgumentError("data", data, "(x0, x1, others)")
    else:
        first, second, others = data
        if isinstance(others, np.ndarray):
            others = others.tolist()
        # A vector is a tuple: among vectors one tuple of numbers is what each of the others holds.
        nested = isinstance(others, tuple) and bool(others) and isinstance(others[0], tuple)
        one = isinstance(others, tuple) and isinstance(first, tuple) and not nested
        same = one or not isinstance(others, list | tuple)
        pair = Neighbours(first, second, (others,) * (n - 1) if same else tuple(others))
    for name, value in (("x0", pair.first), ("x1", pair.second), ("others", pair.others)):
        _check_hashable(name, value)
    others, inputs = len(pair.others), len(pair.inputs)
    checks.refuse(others != n - 1, f"the data of n - 1 = {n - 1} others", others=others)
    checks.refuse(pair.first == pair.second, "two different data x0 and x1", data=pair.first)
    checks.refuse(inputs > MOST_INPUTS, f"at most {MOST_INPUTS} different data", others=inputs)
    return pair


def _numeric(value: Hashable) -> bool:
    """A number, or a tuple of numbers."""
    parts = value if isinstance(value, tuple) else (value,)
    return all(isinstance(part, bool | int | float | np.number | np.bool_) for part in parts)


def _check_hashable(name: str, value: object) -> None:
    try:
        hash(value)
    except TypeError:
        expected = "hashable data: tuples instead of lists and arrays"
        raise InvalidArgumentError(name, value, expected) from None


def checked_inputs(inputs: object) -> tuple[Hashable, ...]:
    """Two to eight different data."""
    expected = f"2 to {MOST_INPUTS} different values to try"
    if isinstance(inputs, str) or not isinstance(inputs, Iterable):
        raise InvalidArgumentError("inputs", inputs, expected)
    listed = inputs.tolist() if isinstance(inputs, np.ndarray) else list(inputs)
    for value in listed:
        _check_hashable("inputs", value)
    distinct = tuple(dict.fromkeys(listed))
    checks.refuse(not 2 <= len(distinct) <= MOST_INPUTS, expected, inputs=listed)
    return distinct


# ------------------------------------------------------------------------------- what runs on them


class AuditedCodeError(ShoalError):
    """The audited code failed, so there is no verdict at all.

    Attributes:
        subject: What was audited.
        reason: What it raised, and where.

    Example:
        >>> print(AuditedCodeError("coin", "ZeroDivisionError"))
        coin failed: ZeroDivisionError; nothing was concluded
    """

    def __init__(self, subject: str, reason: str) -> None:
        self.subject, self.reason = subject, reason
        super().__init__(f"{subject} failed: {reason}; nothing was concluded")


@contextmanager
def running(subject: str) -> Iterator[None]:
    """Anything that the audited code raises becomes one line: its type, its words, its place."""
    try:
        yield
    except ShoalError:
        raise
    except (Exception, SystemExit) as error:  # leaving is failing: the status is the auditor's
        words = " ".join(str(error).split())[:_LONGEST_MESSAGE]
        frames = traceback.extract_tb(error.__traceback__)
        where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
        reason = f"{type(error).__name__}{': ' if words else ''}{words}{where}"
        raise AuditedCodeError(subject, reason) from error


@dataclass(frozen=True, eq=False)
class Transcripts:
    """The messages of some runs, one run after the other, in the order in which they arrived."""

    messages: Raw
    sizes: npt.NDArray[np.int64]

    @cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where each run begins."""
        return np.cumsum(self.sizes) - self.sizes


class Subject(ABC):
    """Something to audit."""

    name: str  # what the audit calls it
    alone = True  # whether one device can be run by itself
    several = False  # whether a person may send several messages
    block = BLOCK  # how many messages are made at once

    @abstractmethod
    def run(
        self, data: DataSet, runs: int, randomness: Randomness, *, in_order: bool
    ) -> Transcripts:
        """So many independent runs on one data set; the order matters only if it is looked at."""


class _Devices(Subject):
    """Devices for everybody in every run, then Shoal's shuffle, run by run.

    Where only counts are looked at, their order cannot matter, and nothing is shuffled.
    """

    @abstractmethod
    def reports(self, data: DataSet, runs: int, randomness: Randomness) -> Raw | Envelopes:
        """What the devices of all runs send, one run after the other."""

    def run(
        self, data: DataSet, runs: int, randomness: Randomness, *, in_order: bool
    ) -> Transcripts:
        with running(self.name):
            reports = self.reports(data, runs, randomness)
        if isinstance(reports, Envelopes):
            messages, sizes = _filled(reports, runs)
        else:
            messages, sizes = reports, np.full(runs, len(data), dtype=np.int64)
            count = 1 if messages.ndim == 0 else len(messages)
            if messages.ndim == 0 or count != sizes.sum():
                reason = f"it returned {count:,} messages for {sizes.sum():,} values"
                raise AuditedCodeError(self.name, reason)
        if not in_order:
            return Transcripts(messages, sizes)
        parts = np.split(messages, np.cumsum(sizes)[:-1])
        mixed = [
            shuffle(part, randomness=randomness).messages if len(part) else part for part in parts
        ]
        return Transcripts(np.concatenate(mixed), sizes)


def _filled(envelopes: Envelopes, runs: int) -> tuple[Raw, npt.NDArray[np.int64]]:
    """The messages of all runs, each filled up by itself, and how many of them each run has."""
    sizes = envelopes.sizes.reshape(runs, -1)
    messages, totals = envelopes.messages, sizes.sum(axis=1)
    if envelopes.filling is None:
        return messages, totals
    parts = zip(np.split(messages, np.cumsum(totals)[:-1]), sizes, strict=True)
    filled = [Envelopes(part, own, envelopes.filling).filled for part, own in parts]
    return np.concatenate(filled), np.array([len(part) for part in filled])


class Collection(_Devices):
    """A mechanism of Shoal, and Shoal's shuffle."""

    def __init__(self, device: Device) -> None:
        self.device, self.name, self.several = device, device.name, device.several
        each = device.messages * max(1, device.message_bytes // 4)
        self.block = max(1, int(BLOCK / each))

    def reports(self, data: DataSet, runs: int, randomness: Randomness) -> Raw | Envelopes:
        reports = self.device.randomize(data.repeated(runs), randomness=randomness)
        return reports if isinstance(reports, Envelopes) else as_messages(reports)


class Listed:
    """A randomizer that is nothing but its table R[x, y]; data are the numbers of its rows.

    Entries are whole numbers over 2^53, off by less than 2^-53.
    """

    name = "table"

    def __init__(self, table: npt.ArrayLike) -> None:
        self.rows = tables.validated(table, local_epsilon=None)
        ends = np.floor(np.cumsum(self.rows, axis=1) * 2.0**_WEIGHT_BITS).astype(np.uint64)
        ends[:, -1] = 1 << _WEIGHT_BITS
        self._ends = ends

        # The largest log-ratio of two inputs' probabilities of one message.
        largest, least = self.rows.max(axis=0), self.rows.min(axis=0)
        seen = largest > 0
        sure = least[seen].all()
        ratio = math.inf if not sure else float(np.log(largest[seen] / least[seen]).max())
        self.local_epsilon = ratio

    @property
    def hints(self) -> Hints:
        """Everything that its table says: its inputs are the numbers of the rows."""
        return Hints(
            outputs=int(self.rows.shape[1]),
            local_epsilon=self.local_epsilon,
            table=self.rows,
            trial_inputs=partial(some_answers, len(self.rows)),
            check_input=Cells(len(self.rows)).check,
            probabilities=lambda inputs: self.rows[np.array(inputs, dtype=np.intp)],
        )

    def law(self) -> BlanketLaw:
        """That of its table."""
        return BlanketLaw.from_table(self.rows)

    def randomize(self, values: npt.ArrayLike, *, randomness: Randomness) -> Raw:
        """One output's number per row's number."""
        inputs = np.asarray(values)
        messages = np.empty(inputs.size, dtype=np.int64)
        for x in np.unique(inputs).tolist():
            chosen = np.flatnonzero(inputs == x)
            drawn = randomness.below(1 << _WEIGHT_BITS, chosen.size)
            messages[chosen] = np.searchsorted(self._ends[x], drawn, side="right")
        return messages


class Function(_Devices):
    """Somebody's device, shuffled by Shoal.

    Args:
        call: Takes one value and returns its message. If it has a parameter ``randomness``, it
            is given one.
        vectorized: Whether it takes an array of values and returns as many messages.
        label: What the audit calls it; the function's name unless given.

    Raises:
        InvalidArgumentError: ``call`` cannot be called.

    Example:
        >>> Function(lambda value: value, label="no noise").name
        'no noise'
    """

    def __init__(self, call: Callable[..., Any], vectorized: bool = False, label: str = "") -> None:  # noqa: FBT001, FBT002
        self.call, self.vectorized = call, vectorized
        self.name = label or _name(call)
        try:
            self._takes_randomness = "randomness" in inspect.signature(call).parameters
        except (TypeError, ValueError):
            self._takes_randomness = False

    def reports(self, data: DataSet, runs: int, randomness: Randomness) -> Raw:
        source = {"randomness": randomness} if self._takes_randomness else {}
        if self.vectorized:
            return _sequence(self.name, self.call(data.repeated(runs), **source))
        call = self.call
        return as_messages([call(value, **source) for _ in range(runs) for value in data.values])


class WholePipeline(Subject):
    """Somebody's randomizing and shuffling: a function of everybody's values.

    Devices cannot be told from the rest, and there may be any number of messages.

    Args:
        call: Takes everybody's values, and returns the messages in the order in which the
            analyzer receives them.

    Raises:
        InvalidArgumentError: ``call`` cannot be called.

    Example:
        >>> WholePipeline(sorted).name
        'sorted'
    """

    alone = False
    several = True

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call, self.name = call, _name(call)

    def run(
        self, data: DataSet, runs: int, randomness: Randomness, *, in_order: bool
    ) -> Transcripts:
        """One call for every run."""
        del randomness, in_order  # both are its own
        with running(self.name):
            parts = [_sequence(self.name, self.call(data.array.copy())) for _ in range(runs)]
        sizes = np.array([len(part) for part in parts], dtype=np.int64)
        if not sizes.all():
            raise AuditedCodeError(self.name, "it returned no messages")
        return Transcripts(joined(parts), sizes)


class Program(_Devices):
    """A program as a device, shuffled by Shoal.

    It is started for many lines at once, never by a shell: a value a line in, a message a line
    out. Runs are independent only if every line's randomness is.

    Args:
        words: The program and its arguments, as a list or as a shell would take a line apart.
        timeout: Seconds within which it has to answer, > 0.

    Raises:
        InvalidArgumentError: There is no program, or ``timeout`` is out of its range.

    Example:
        >>> Program("python noise.py --epsilon 1").words
        ('python', 'noise.py', '--epsilon', '1')
    """

    def __init__(self, words: str | Sequence[str], timeout: float = 600.0) -> None:
        checks.positive(timeout=timeout)
        expected = "a program and its arguments"
        try:  # as a shell would take the line apart
            parts = shlex.split(words) if isinstance(words, str) else list(words)
        except ValueError as error:
            expected += f" ({str(error).lower()})"
            raise InvalidArgumentError("command", words, expected) from error
        wrong = not parts or not all(isinstance(word, str) for word in parts)
        checks.refuse(wrong, expected, command=words)
        self.words, self.timeout = tuple(parts), timeout
        self.name = shlex.join(self.words)[:_LONGEST_NAME]

    def reports(self, data: DataSet, runs: int, randomness: Randomness) -> Raw:  # noqa: ARG002
        """One process for all runs."""
        try:
            done = subprocess.run(  # noqa: S603 - running what the user names is the point
                self.words,
                input="".join(f"{value}\n" for value in data.values) * runs,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=self.timeout,
                check=False,
            )
        except (OSError, ValueError) as error:  # none there, or what none takes: a null character
            reason = getattr(error, "strerror", None) or str(error)
            raise AuditedCodeError(self.name, reason) from error
        except subprocess.TimeoutExpired as error:
            reason = f"it did not answer within {self.timeout:g} seconds"
            raise AuditedCodeError(self.name, reason) from error
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:] or ["no error message"]
            raise AuditedCodeError(self.name, f"exit status {done.returncode}: {last[0]}")
        lines = done.stdout.splitlines()
        if len(lines) != runs * len(data):
            reason = f"it wrote {len(lines):,} lines for {runs * len(data):,} values"
            raise AuditedCodeError(self.name, reason)
        return as_messages(lines)


def subject_of(device: object) -> Subject:
    """What somebody handed in, as something that runs."""
    checks.refuse(isinstance(device, type), "a device, not a class of devices", device=device)
    if isinstance(device, Subject):
        return device
    if isinstance(device, Mechanism):
        return Collection(device)
    if isinstance(device, np.ndarray | list | tuple):
        device = Listed(device)
    method = getattr(device, "randomize", None)
    if callable(method):
        return Function(method, True, str(getattr(device, "name", type(device).__name__)))  # noqa: FBT003
    if callable(device):
        return Function(device)
    expected = "a mechanism, a table, a function, or an object with a randomize method"
    raise InvalidArgumentError("device", device, expected)


def _name(call: object) -> str:
    """What the code is called."""
    checks.refuse(not callable(call), "a function", call=call)
    return getattr(call, "__qualname__", type(call).__name__)


def _sequence(name: str, returned: object) -> Raw:
    if isinstance(returned, str | bytes) or not isinstance(returned, Iterable):
        kind = type(returned).__name__
        raise AuditedCodeError(name, f"it returned a {kind}, not a sequence of messages")
    return as_messages(returned)


class Sampler:
    """A subject with its randomness, run as often as needed; it tells how much is done.

    ``total`` is the whole work in messages.
    """

    def __init__(
        self,
        subject: Subject,
        randomness: Randomness,
        progress: Progress | None = None,
        total: int = 0,
    ) -> None:
        self.subject, self.randomness = subject, randomness
        self._progress, self._total, self._done = progress, total, 0

    def blocks(self, data: DataSet, runs: int, *, in_order: bool) -> Iterator[Transcripts]:
        """So many runs on one data set, as many at once as fit."""
        at_once = max(1, self.subject.block // len(data))
        for start in range(0, runs, at_once):
            some = min(at_once, runs - start)
            yield self.subject.run(data, some, self.randomness, in_order=in_order)
            self._advance(some * len(data))

    def seen(self, data: DataSet, runs: int, *, in_order: bool = False) -> Transcripts:
        """So many runs at once."""
        parts = [*self.blocks(data, runs, in_order=in_order)]
        sizes = np.concatenate([part.sizes for part in parts])
        return Transcripts(joined([part.messages for part in parts]), sizes)

    def finish(self) -> None:
        """Whatever is left was not needed."""
        self._advance(max(0, self._total - self._done))

    def _advance(self, messages: int) -> None:
        self._done += messages
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)
