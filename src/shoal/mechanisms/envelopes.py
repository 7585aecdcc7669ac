"""What every mechanism with several messages is: the shape of a randomizer, in envelopes.

A device puts all its messages into one envelope of fixed size, each message in a slot of its own
and sealed by itself; the shuffler takes the slots of all envelopes apart and mixes them. So nobody
but the sender knows which messages belong together, or how many there were.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.noise.profile import Divergence, NoiseProfile
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.mechanisms.base import (
    AnswerMechanism,
    Mechanism,
    Numbered,
    Randomizer,
    Rows,
    checked_rows,
    decode_integers,
    encode_integers,
    integers_of,
    source,
)
from shoal.randomness import Randomness
from shoal.values import Batch, Counts, Envelopes, Flags, Messages, category_codes

Whole = npt.NDArray[np.int64]

_RESERVED = (2.0**-10, 2.0**-7, 2.0**-4, 2.0**-2, 2.0**-1)  # of delta, for what the sampler adds


class MultiMessageMechanism(Mechanism):
    """Several messages per person. What they protect depends on how many honest people send them.

    ``calibrated`` makes the mechanism with the least noise that keeps a target among n honest
    people; the constructor takes the noise itself.
    """

    theorem: ClassVar[str]
    scope: ClassVar[str]

    @property
    def local_epsilon(self) -> float:
        """Infinite: one of the messages is the truth, and only the crowd hides it."""
        return math.inf

    @property
    @abstractmethod
    def influence(self) -> float:
        """The most that one dishonest person adds to one answer's estimated count, or to the sum.

        An honest person adds at most 1 on average (for numbers, the span of the bounds).
        """

    @property
    def always_full(self) -> bool:
        """Whether everybody sends as many messages as there are slots: then none is empty."""
        return False

    def randomize(
        self, values: npt.ArrayLike, *, randomness: Randomness | None = None
    ) -> Envelopes:
        """Everybody's envelope; secure randomness unless a simulation's is given."""
        return self._envelopes(values, source(randomness))

    @abstractmethod
    def _envelopes(self, values: npt.ArrayLike, bits: Randomness) -> Envelopes:
        """Everybody's envelope. Its messages may be in any order: the shuffler has to mix them."""

    def profile(self, n: int) -> NoiseProfile:
        """The privacy of n honest people's messages, after shuffling, as implemented."""
        return NoiseProfile(
            divergence=self._divergence(n),
            n=checks.count(n=n),
            theorem=self.theorem,
            scope=self.scope,
            slack=self._slack(n),
            local_epsilon=self.local_epsilon,
        )

    @abstractmethod
    def _divergence(self, n: int) -> Divergence:
        """Of n honest people's messages, as they are described."""

    def _slack(self, n: int) -> float:  # noqa: ARG002
        """The total variation between that and what n people draw: by default they are the same."""
        return 0.0

    @abstractmethod
    def cells(self, messages: Messages) -> Whole:
        """Add up messages: all that the estimator needs of them."""

    @property
    def envelope_bytes(self) -> int:
        """Length of every encoded envelope."""
        return self.slots * self.message_bytes

    @property
    @abstractmethod
    def _empty(self) -> Rows | None:
        """The bytes of an unused slot; None if every slot is always used."""

    @abstractmethod
    def _encoded(self, messages: Messages) -> Rows:
        """Messages as rows of ``message_bytes`` bytes."""

    @abstractmethod
    def _decoded(self, rows: Rows) -> Messages:
        """Rows as messages; what no device can have sent is an error."""

    def encode(self, envelopes: Envelopes) -> Rows:
        """Envelopes as rows of ``envelope_bytes`` bytes: the messages, then unused slots."""
        empty, sizes = self._empty, envelopes.sizes
        wrong = sizes[sizes != self.slots] if empty is None else sizes[sizes > self.slots]
        if wrong.size:
            limit = "" if empty is None else "at most "
            expected = f"{limit}{self.slots} messages of one person"
            raise InvalidArgumentError("envelopes", int(wrong.max()), expected)
        rows = self._encoded(envelopes.messages)
        if empty is not None:
            # The empty message everywhere, then the messages at their places.
            slots = np.tile(empty, (len(envelopes) * self.slots, 1))
            shifts = np.arange(len(envelopes)) * self.slots - np.cumsum(sizes) + sizes
            slots[np.arange(len(rows)) + np.repeat(shifts, sizes)] = rows
            rows = slots
        return rows.reshape(len(envelopes), self.envelope_bytes)

    def decode(self, rows: Rows) -> Envelopes:
        """Rows of bytes as envelopes; what no device can have sent is an error."""
        rows = checked_rows(rows, self.envelope_bytes)
        slots = rows.reshape(-1, self.message_bytes)
        used = self._used(slots)
        sizes = used.reshape(len(rows), self.slots).sum(axis=1, dtype=np.int64)
        return Envelopes(self._decoded(slots if self._empty is None else slots[used]), sizes)

    def decode_slots(self, rows: Rows) -> Messages:
        """The messages of single slots, a row each, after the shuffler mixed them.

        Empty slots are left out; what no device can have sent is an error.
        """
        slots = checked_rows(rows, self.message_bytes)
        return self._decoded(slots if self._empty is None else slots[self._used(slots)])

    def _used(self, rows: Rows) -> Flags:
        """Which slots are not empty."""
        empty, whole = self._empty, f"V{self.message_bytes}"  # a row compared as one value
        if empty is None:
            return np.ones(len(rows), dtype=bool)
        return np.asarray(np.ascontiguousarray(rows).view(whole).ravel() != empty.view(whole)[0])

    def tally(self, reports: Envelopes | Batch) -> Counts:
        """Add up the messages of so many people."""
        people = len(reports) if isinstance(reports, Envelopes) else reports.n
        return Counts(self.cells(reports.messages), people)

    def counted(self, batch: Batch | Counts) -> Counts:
        """Counts of a batch, or counts as they are: at least of one person."""
        if isinstance(batch, Batch):
            expected = "a batch that says how many people sent it (shoal.shuffle makes one)"
            checks.refuse(batch.people is None, expected, batch=repr(batch))
            batch = self.tally(batch)
        checks.refuse(batch.n < 1, "at least one report", batch=batch.n)
        return batch

    def surveyed(self, *, n: int, epsilon: float, delta: float) -> MultiMessageMechanism:  # noqa: ARG002
        """What a service collects by for the same target: this, unless another costs it less."""
        return self

    def kept(self, *, n: int, epsilon: float, delta: float) -> Self:
        """This mechanism, if n honest people's messages keep the target; else an error."""
        reached = self.profile(n).delta(epsilon)
        if reached <= delta:
            return self
        raise UnreachableTargetError(
            f"epsilon={epsilon:g} at delta={delta:g}",
            f"{self.name} among n={n} honest people has delta={reached:.3g}",
            "ask for a larger epsilon or delta, or for more people",
        )


class UnevenMechanism(MultiMessageMechanism):
    """The shuffler may see how many messages each person sends: slots that are absent are not sent.

    It adds messages of :attr:`padding` to a batch until there are :meth:`records`, and so does
    :func:`shoal.shuffle`. The noise is made for so many honest ``people``.
    """

    people: int

    def randomize(
        self, values: npt.ArrayLike, *, randomness: Randomness | None = None
    ) -> Envelopes:
        """Everybody's envelope, and how a shuffler has to fill them up."""
        return replace(super().randomize(values, randomness=randomness), filling=self.filling)

    def decode(self, rows: Rows) -> Envelopes:
        """Rows of bytes as envelopes, and how a shuffler has to fill them up."""
        return replace(super().decode(rows), filling=self.filling)

    def filling(self, messages: int, people: int) -> Messages:
        """What a shuffler adds to so many messages of so many people, as the service does.

        Those beyond the people whom the noise is made for may send all slots.
        """
        full = self.records(people, honest=min(people, self.people))
        padding = self.decode_slots(np.frombuffer(self.padding, np.uint8).reshape(1, -1))
        return np.repeat(padding, -messages % full)

    @property
    @abstractmethod
    def absent(self) -> bytes:
        """The bytes of a slot that is not sent."""

    @property
    @abstractmethod
    def padding(self) -> bytes:
        """A message that says nothing."""

    @abstractmethod
    def records(self, reports: int, *, honest: int) -> int:
        """How many messages a batch of so many reports has; so many are ``honest`` at least."""


Device = Randomizer | MultiMessageMechanism  # what a device may run


class NumberedEnvelopes(Numbered, MultiMessageMechanism):
    """Messages that are whole numbers; an unused slot holds the number ``outputs`` itself."""

    @property
    def codes(self) -> int:
        """Those of the messages, and that of an empty slot."""
        return self.outputs + 1

    @property
    def _empty(self) -> Rows | None:
        return encode_integers(np.array([self.outputs]), self.message_bytes)

    def _encoded(self, messages: Messages) -> Rows:
        return encode_integers(checked_messages(messages, self.outputs), self.message_bytes)

    def _decoded(self, rows: Rows) -> Messages:
        return decode_integers(rows, self.message_bytes, self.codes)

    def cells(self, messages: Messages) -> Whole:
        """How often each message was sent."""
        numbers = checked_messages(messages, self.outputs)
        return np.bincount(numbers, minlength=self.outputs).astype(np.int64)

    def admissible(self, rows: Rows) -> Flags:
        """Numbers below ``outputs``, and the empty slot if there are any."""
        largest = self.outputs - self.always_full
        return integers_of(rows, self.message_bytes) <= np.uint64(largest)


class AnswerEnvelopes(NumberedEnvelopes, AnswerMechanism):
    """Several messages for one of k answers, by default numbers of answers themselves."""

    @property
    def outputs(self) -> int:
        """How many messages there are."""
        return self.k

    def true_message(self, value: int) -> int | None:
        """The answer's own number, if every answer has a message of its own."""
        return value if self.outputs == self.k else None


def checked_messages(messages: Messages, outputs: int) -> Whole:
    """Messages as whole numbers below ``outputs``, or an error naming the first that is none."""
    return category_codes(messages, outputs, name="message", what="messages")


def ragged(first: Messages, more: Messages, added: Whole) -> Envelopes:
    """Everybody's first message, and ``added[i]`` of ``more``, in order, for person i."""
    sizes = added + 1
    is_first = np.zeros(len(first) + len(more), dtype=bool)
    is_first[np.cumsum(sizes) - sizes] = True
    messages = np.empty(is_first.size, dtype=np.int64)
    messages[is_first] = first
    messages[~is_first] = more
    return Envelopes(messages, sizes)


def margins(delta: float) -> tuple[float, ...]:
    """Targets a little below delta, to be tried in turn: the rest is for what the sampler adds."""
    return tuple(delta * (1 - part) for part in _RESERVED)
