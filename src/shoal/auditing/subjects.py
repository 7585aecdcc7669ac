"""What is audited: anything that turns everybody's data into messages in the order they arrive.

A mechanism of Shoal runs as in a real collection: its own ``randomize`` with secure randomness, and
Shoal's shuffle. Somebody's own device, whole pipeline or program runs as it is.
"""

from __future__ import annotations

import inspect
import itertools
import shlex
import subprocess
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting import table as tables
from shoal.auditing.data import DataSet
from shoal.auditing.messages import Raw, as_messages, joined
from shoal.engines.shuffling import shuffle
from shoal.errors import InvalidArgumentError, ShoalError
from shoal.protocols.base import MultiMessageMechanism
from shoal.randomizers.base import Auditable, Mechanism, check_answer, some_answers
from shoal.randomness import Randomness
from shoal.values import Array, Envelopes

_WEIGHT_BITS = 53
BLOCK = 1 << 19
_LONGEST_MESSAGE = 300
_LONGEST_NAME = 60

Progress = Callable[[int, int], None]


class AuditedCodeError(ShoalError):
    """The audited code failed, so there is no verdict at all."""

    def __init__(self, subject: str, reason: str) -> None:
        self.subject = subject
        self.reason = reason
        super().__init__(f"{subject} failed: {reason}; nothing was concluded")


@contextmanager
def running(subject: str) -> Iterator[None]:
    """Anything that the audited code raises becomes one line: its type, its words, its place."""
    try:
        yield
    except ShoalError:
        raise
    except (Exception, SystemExit) as error:  # leaving is failing: the status is the auditor's
        raise AuditedCodeError(subject, _one_line(error)) from error


def _one_line(error: BaseException) -> str:
    words = " ".join(str(error).split())[:_LONGEST_MESSAGE]
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}{': ' if words else ''}{words}{where}"


@dataclass(frozen=True, eq=False)
class Transcripts:
    """The messages of some runs, one run after the other, in the order in which they arrived."""

    messages: Raw
    sizes: npt.NDArray[np.int64]

    @cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where each run begins."""
        return np.cumsum(self.sizes) - self.sizes

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self.sizes)


class Subject(ABC):
    """Something to audit."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What the audit calls it."""

    @property
    def alone(self) -> bool:
        """Whether one device can be run by itself."""
        return True

    @property
    def several(self) -> bool:
        """Whether a person may send several messages."""
        return False

    @property
    def block(self) -> int:
        """How many messages are made at once."""
        return BLOCK

    @abstractmethod
    def run(
        self, data: DataSet, runs: int, randomness: Randomness, *, in_order: bool
    ) -> Transcripts:
        """So many independent runs on one data set; the order matters only if it is looked at."""


@dataclass(frozen=True, eq=False)
class Collection(Subject):
    """A mechanism of Shoal, and Shoal's shuffle."""

    device: Mechanism

    @property
    def name(self) -> str:
        """The mechanism's name."""
        return self.device.name

    @property
    def several(self) -> bool:
        """Whether it is a protocol with several messages."""
        return isinstance(self.device, MultiMessageMechanism)

    @property
    def block(self) -> int:
        """Messages made at once."""
        each = self.device.messages * max(1, self.device.message_bytes // 4)
        return max(1, int(BLOCK / each))

    def run(
        self, data: DataSet, runs: int, randomness: Randomness, *, in_order: bool
    ) -> Transcripts:
        """All runs' data at once through ``randomize``, then run by run through ``shuffle``.

        Where only counts are looked at, their order cannot matter, and nothing is shuffled.
        """
        array = data.array
        everybody = np.tile(array, (runs, *[1] * (array.ndim - 1)))
        with running(self.name):
            reports = self.device.randomize(everybody, randomness=randomness)
        if isinstance(reports, Envelopes):
            sizes = reports.sizes.reshape(runs, len(data)).sum(axis=1)
            transcripts = Transcripts(reports.messages, sizes)
        else:
            rows = _as_many(self.name, as_messages(reports), len(everybody))
            transcripts = Transcripts(rows, np.full(runs, len(data), dtype=np.int64))
        return shuffled(transcripts, randomness) if in_order else transcripts


class Listed(Auditable):
    """A randomizer that is nothing but its table R[x, y]; data are the numbers of its rows.

    Entries are whole numbers over 2^53, off by less than 2^-53.
    """

    name = "table"

    def __init__(self, table: npt.ArrayLike) -> None:
        self.rows = tables.validated(table, local_epsilon=None)
        ends = np.floor(np.cumsum(self.rows, axis=1) * 2.0**_WEIGHT_BITS).astype(np.uint64)
        ends[:, -1] = 1 << _WEIGHT_BITS
        self._ends = ends

    @property
    def outputs(self) -> int:
        """How many messages there are."""
        return int(self.rows.shape[1])

    def trial_inputs(self) -> tuple[Hashable, ...]:
        """All rows, or some of them."""
        return some_answers(len(self.rows))

    def check_input(self, value: Hashable) -> None:
        """Refuse what is not the number of a row."""
        check_answer(value, len(self.rows))

    def probabilities(self, inputs: Sequence[Any]) -> Array:
        """The rows themselves."""
        return self.rows[np.array(inputs, dtype=np.intp)]

    def randomize(self, values: npt.ArrayLike, *, randomness: Randomness) -> Raw:
        """One output's number per row's number."""
        inputs = np.asarray(values)
        messages = np.empty(inputs.size, dtype=np.int64)
        for x in np.unique(inputs).tolist():
            chosen = np.flatnonzero(inputs == x)
            drawn = randomness.below(1 << _WEIGHT_BITS, chosen.size)
            messages[chosen] = np.searchsorted(self._ends[x], drawn, side="right")
        return messages


@dataclass(frozen=True, eq=False)
class Function(Subject):
    """Somebody's device, shuffled by Shoal.

    ``call`` takes one value and returns its message; ``vectorized`` says that it takes an array of
    values and returns as many messages. An object with a ``randomize`` method is the latter.
    """

    call: Callable[..., Any]
    vectorized: bool = False
    label: str = ""

    def __post_init__(self) -> None:
        _check_callable(self.call)

    @property
    def name(self) -> str:
        """What the code is called."""
        return self.label or getattr(self.call, "__qualname__", type(self.call).__name__)

    @classmethod
    def of(cls, device: object) -> Function:
        """An object with a ``randomize`` method, or a function of one value."""
        method = getattr(device, "randomize", None)
        if callable(method):
            name = getattr(device, "name", type(device).__name__)
            return cls(method, vectorized=True, label=str(name))
        if callable(device):
            return cls(device)
        expected = "a mechanism, a table, a function, or an object with a randomize method"
        raise InvalidArgumentError("device", device, expected)

    @cached_property
    def _takes_randomness(self) -> bool:
        try:
            return "randomness" in inspect.signature(self.call).parameters
        except (TypeError, ValueError):
            return False

    def run(
        self, data: DataSet, runs: int, randomness: Randomness, *, in_order: bool
    ) -> Transcripts:
        """The device for everybody in every run, then Shoal's shuffle."""
        expected = runs * len(data)
        with running(self.name):
            rows = _as_many(self.name, self._messages(data, runs, randomness), expected)
        transcripts = Transcripts(rows, np.full(runs, len(data), dtype=np.int64))
        return shuffled(transcripts, randomness) if in_order else transcripts

    def _messages(self, data: DataSet, runs: int, randomness: Randomness) -> Raw:
        source = {"randomness": randomness} if self._takes_randomness else {}
        if not self.vectorized:
            call = self.call
            return as_messages(
                [call(value, **source) for _ in range(runs) for value in data.values]
            )
        array = data.array
        everybody = np.tile(array, (runs, *[1] * (array.ndim - 1)))
        return _sequence(self.name, self.call(everybody, **source))


@dataclass(frozen=True, eq=False)
class WholePipeline(Subject):
    """Somebody's randomizing and shuffling: a function of everybody's values.

    It returns the messages in the order in which the analyzer receives them.
    """

    call: Callable[..., Any]

    def __post_init__(self) -> None:
        _check_callable(self.call)

    @property
    def alone(self) -> bool:
        """Devices cannot be told from the rest."""
        return False

    @property
    def several(self) -> bool:
        """There may be any number of messages."""
        return True

    @property
    def name(self) -> str:
        """What the code is called."""
        return getattr(self.call, "__qualname__", type(self.call).__name__)

    def run(
        self,
        data: DataSet,
        runs: int,
        randomness: Randomness,  # noqa: ARG002 - it brings its own
        *,
        in_order: bool,  # noqa: ARG002 - the order is its own
    ) -> Transcripts:
        """One call for every run."""
        with running(self.name):
            parts = [_sequence(self.name, self.call(data.array.copy())) for _ in range(runs)]
        sizes = np.array([len(part) for part in parts], dtype=np.int64)
        if not sizes.all():
            raise AuditedCodeError(self.name, "it returned no messages")
        return Transcripts(joined(parts), sizes)


@dataclass(frozen=True, eq=False)
class Program(Subject):
    """A program as a device, shuffled by Shoal.

    It is started for many lines at once, never by a shell, and has to answer within ``timeout``
    seconds. Runs are independent only if every line's randomness is.
    """

    words: Sequence[str]
    timeout: float = 600.0

    def __post_init__(self) -> None:
        checks.positive(timeout=self.timeout)
        object.__setattr__(self, "words", _parted(self.words))

    @property
    def name(self) -> str:
        """What is started."""
        return shlex.join(self.words)[:_LONGEST_NAME]

    def run(
        self, data: DataSet, runs: int, randomness: Randomness, *, in_order: bool
    ) -> Transcripts:
        """One process for all runs, then Shoal's shuffle."""
        lines = self._answers("".join(f"{value}\n" for value in data.values) * runs)
        if len(lines) != runs * len(data):
            reason = f"it wrote {len(lines):,} lines for {runs * len(data):,} values"
            raise AuditedCodeError(self.name, reason)
        transcripts = Transcripts(lines, np.full(runs, len(data), dtype=np.int64))
        return shuffled(transcripts, randomness) if in_order else transcripts

    def _answers(self, values: str) -> Raw:
        try:
            done = subprocess.run(  # noqa: S603 - running what the user names is the point
                self.words,
                input=values,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=self.timeout,
                check=False,
            )
        except OSError as error:
            raise AuditedCodeError(self.name, error.strerror or str(error)) from error
        except ValueError as error:  # what no program takes: a null character, say
            raise AuditedCodeError(self.name, str(error)) from error
        except subprocess.TimeoutExpired as error:
            reason = f"it did not answer within {self.timeout:g} seconds"
            raise AuditedCodeError(self.name, reason) from error
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
            raise AuditedCodeError(self.name, f"exit status {done.returncode}: {last[0]}")
        return as_messages(done.stdout.splitlines())


def subject_of(device: object) -> Subject:
    """What somebody handed in, as something that runs."""
    if isinstance(device, type):
        raise InvalidArgumentError("device", device, "a device, not a class of devices")
    if isinstance(device, Subject):
        return device
    if isinstance(device, Mechanism):
        return Collection(device)
    if isinstance(device, Listed):
        return Function(device.randomize, vectorized=True, label="table")
    if isinstance(device, np.ndarray | list | tuple):
        return Function(Listed(device).randomize, vectorized=True, label="table")
    return Function.of(device)


def _check_callable(call: object) -> None:
    if not callable(call):
        raise InvalidArgumentError("call", call, "a function")


def _sequence(name: str, returned: object) -> Raw:
    if isinstance(returned, str | bytes) or not isinstance(returned, Iterable):
        kind = type(returned).__name__
        raise AuditedCodeError(name, f"it returned a {kind}, not a sequence of messages")
    return as_messages(returned)


def _as_many(name: str, messages: Raw, expected: int) -> Raw:
    if messages.ndim == 0 or len(messages) != expected:
        got = 1 if messages.ndim == 0 else len(messages)
        raise AuditedCodeError(name, f"it returned {got:,} messages for {expected:,} values")
    return messages


def shuffled(transcripts: Transcripts, randomness: Randomness) -> Transcripts:
    """Every run through Shoal's shuffle."""
    ends = np.append(transcripts.starts, len(transcripts.messages)).tolist()
    parts: Sequence[Raw] = [
        shuffle(transcripts.messages[start:end], randomness=randomness).messages
        if end > start
        else transcripts.messages[start:end]
        for start, end in itertools.pairwise(ends)
    ]
    return Transcripts(np.concatenate(parts), transcripts.sizes)


def _parted(words: str | Sequence[str]) -> tuple[str, ...]:
    """The program and its arguments, as a shell would take the line apart."""
    try:
        parts = shlex.split(words) if isinstance(words, str) else list(words)
    except ValueError as error:
        expected = f"a program and its arguments ({str(error).lower()})"
        raise InvalidArgumentError("command", words, expected) from error
    if not parts or not all(isinstance(word, str) for word in parts):
        raise InvalidArgumentError("command", words, "a program and its arguments")
    return tuple(parts)


# ---------------------------------------------------------------------------------- many runs


@dataclass(eq=False)
class Meter:
    """How much of the work is done, in messages."""

    tell: Progress | None
    total: int
    done: int = 0

    def add(self, messages: int) -> None:
        """So many more."""
        self.done += messages
        if self.tell is not None:
            self.tell(min(self.done, self.total), self.total)

    def finish(self) -> None:
        """Whatever is left was not needed."""
        self.add(max(0, self.total - self.done))


@dataclass(frozen=True, eq=False)
class Sampler:
    """A subject with its randomness and the meter of its work."""

    subject: Subject
    randomness: Randomness
    meter: Meter

    def blocks(self, data: DataSet, runs: int, *, in_order: bool) -> Iterator[Transcripts]:
        """So many runs on one data set, as many at once as fit."""
        at_once = max(1, self.subject.block // len(data))
        for start in range(0, runs, at_once):
            some = min(at_once, runs - start)
            yield self.subject.run(data, some, self.randomness, in_order=in_order)
            self.meter.add(some * len(data))

    def seen(self, data: DataSet, runs: int, *, in_order: bool) -> Transcripts:
        """So many runs at once."""
        parts = [*self.blocks(data, runs, in_order=in_order)]
        sizes = np.concatenate([part.sizes for part in parts])
        return Transcripts(joined([part.messages for part in parts]), sizes)
