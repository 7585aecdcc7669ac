"""What every protocol with several messages is: the shape of a randomizer, in envelopes.

A device puts all its messages into one envelope of fixed size, each message in a slot of its own
and sealed by itself; the shuffler takes the slots of all envelopes apart and mixes them. So nobody
but the sender knows which messages belong together, or how many there were.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Self

import numpy as np
import numpy.typing as npt

from shoal.accounting.noise import NoiseProfile
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.randomizers.base import (
    AnswerMechanism,
    Mechanism,
    NumberMechanism,
    Randomizer,
    Rows,
    VectorMechanism,
    decode_integers,
    encode_integers,
    integer_width,
    integers_of,
)
from shoal.randomness import Randomness
from shoal.values import Batch, Counts, Envelopes, Messages, category_codes

_KEPT_BACK = (2.0**-10, 2.0**-7, 2.0**-4, 2.0**-2)  # shares of delta for what the sampler adds


class Protocol(Mechanism):
    """Several messages per person. What they protect depends on how many honest people send them.

    ``calibrated`` makes the protocol with the least noise that keeps a target among n honest
    people; the constructor takes the noise itself.
    """

    @property
    def local_epsilon(self) -> float:
        """Infinite: one of the messages is the truth, and only the crowd hides it."""
        return math.inf

    @property
    @abstractmethod
    def messages(self) -> float:
        """Expected number of messages of one person."""

    @property
    @abstractmethod
    def slots(self) -> int:
        """The most messages that one person sends: what an envelope has room for."""

    @property
    @abstractmethod
    def influence(self) -> float:
        """The most that one dishonest person adds to one answer's estimated count, or to the sum.

        An honest person adds at most 1 on average (for numbers, the span of the bounds).
        """

    @abstractmethod
    def randomize(
        self, values: npt.ArrayLike, *, randomness: Randomness | None = None
    ) -> Envelopes:
        """Everybody's envelope; secure randomness unless a simulation's is given."""

    @abstractmethod
    def profile(self, n: int) -> NoiseProfile:
        """The privacy of n honest people's messages, after shuffling, as implemented."""

    @abstractmethod
    def cells(self, messages: Messages) -> npt.NDArray[np.int64]:
        """Add up messages: all that the estimator needs of them."""

    @abstractmethod
    def encode(self, envelopes: Envelopes) -> npt.NDArray[np.uint8]:
        """Envelopes as rows of ``envelope_bytes`` bytes, unused slots filled up."""

    @abstractmethod
    def decode(self, rows: npt.NDArray[np.uint8]) -> Envelopes:
        """Rows of bytes as envelopes; what no device can have sent is an error."""

    @abstractmethod
    def decode_slots(self, rows: Rows) -> Messages:
        """The messages of single slots, a row each, after the shuffler mixed them.

        Empty slots are left out; what no device can have sent is an error.
        """

    @property
    def envelope_bytes(self) -> int:
        """Length of every encoded envelope."""
        return self.slots * self.message_bytes

    def tally(self, reports: Envelopes | Batch) -> Counts:
        """Add up the messages of so many people."""
        people = len(reports) if isinstance(reports, Envelopes) else reports.n
        return Counts(self.cells(reports.messages), people)

    def counted(self, batch: Batch | Counts) -> Counts:
        """Counts of a batch, or counts as they are: at least of one person."""
        if isinstance(batch, Batch) and batch.people is None:
            expected = "a batch that says how many people sent it (shoal.shuffle makes one)"
            raise InvalidArgumentError("batch", repr(batch), expected)
        counts = self.tally(batch) if isinstance(batch, Batch) else batch
        if counts.n < 1:
            raise InvalidArgumentError("batch", counts.n, "at least one report")
        return counts

    def kept(self, *, n: int, epsilon: float, delta: float) -> Self:
        """This protocol, if n honest people's messages keep the target; else an error."""
        reached = self.profile(n).delta(epsilon)
        if reached <= delta:
            return self
        raise UnreachableTargetError(
            f"epsilon={epsilon:g} at delta={delta:g}",
            f"{self.name} among n={n} honest people has delta={reached:.3g}",
            "ask for a larger epsilon or delta, or for more people",
        )


Device = Randomizer | Protocol  # what a device may run


class AnswerProtocol(Protocol, AnswerMechanism):
    """A protocol for one of k answers."""

    def true_message(self, value: int) -> int | None:
        """The answer's own number, if every answer has a message of its own."""
        return value if self.outputs == self.k else None


class NumberProtocol(Protocol, NumberMechanism):
    """A protocol for one number between public bounds."""


class VectorProtocol(Protocol, VectorMechanism):
    """A protocol for one vector."""


class NumberedEnvelopes(Protocol):
    """A protocol whose messages are whole numbers below ``outputs``, sent big-endian.

    An unused slot holds the number ``outputs`` itself.
    """

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many messages there are."""

    @property
    def always_full(self) -> bool:
        """Whether everybody sends as many messages as there are slots: then none is empty."""
        return False

    @property
    def message_bits(self) -> float:
        """log2 of the number of messages, the empty one included."""
        return math.log2(self.outputs + 1)

    @property
    def message_bytes(self) -> int:
        """Bytes of one message's number."""
        return integer_width(self.outputs + 1)

    def cells(self, messages: Messages) -> npt.NDArray[np.int64]:
        """How often each message was sent."""
        numbers = checked_messages(messages, self.outputs)
        return np.bincount(numbers, minlength=self.outputs).astype(np.int64)

    def encode(self, envelopes: Envelopes) -> npt.NDArray[np.uint8]:
        """Slots of big-endian numbers, the messages first, then empty ones."""
        if envelopes.sizes.size and int(envelopes.sizes.max()) > self.slots:
            expected = f"at most {self.slots} messages of one person"
            raise InvalidArgumentError("envelopes", int(envelopes.sizes.max()), expected)
        numbers = checked_messages(envelopes.messages, self.outputs)
        # Rows of bytes, the empty message everywhere, then the messages at their places.
        empty = encode_integers(np.array([self.outputs]), self.message_bytes)
        slots = np.tile(empty.ravel(), (len(envelopes) * self.slots, 1))
        starts = np.cumsum(envelopes.sizes) - envelopes.sizes
        shifts = np.arange(len(envelopes)) * self.slots - starts
        places = np.arange(numbers.size) + np.repeat(shifts, envelopes.sizes)
        slots[places] = encode_integers(numbers, self.message_bytes)
        return slots.reshape(len(envelopes), self.envelope_bytes)

    def decode(self, rows: npt.NDArray[np.uint8]) -> Envelopes:
        """The numbers of all slots that are not empty."""
        rows = np.asarray(rows, dtype=np.uint8)
        if rows.ndim != 2 or rows.shape[1] != self.envelope_bytes:
            raise InvalidArgumentError(
                "rows", rows.shape, f"rows of {self.envelope_bytes} bytes, an envelope each"
            )
        flat = rows.reshape(-1, self.message_bytes)
        numbers = decode_integers(flat, self.message_bytes, self.outputs + 1)
        sent = (numbers < self.outputs).reshape(len(rows), self.slots)
        return Envelopes(numbers[sent.ravel()], sent.sum(axis=1).astype(np.int64))

    def decode_slots(self, rows: Rows) -> Messages:
        """The numbers of slots that are not empty."""
        numbers = decode_integers(rows, self.message_bytes, self.outputs + 1)
        return numbers[numbers < self.outputs]

    def admissible(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Numbers below ``outputs``, and the empty slot if there are any."""
        largest = self.outputs - self.always_full
        return integers_of(rows, self.message_bytes) <= np.uint64(largest)


def checked_messages(messages: Messages, outputs: int) -> npt.NDArray[np.int64]:
    """Messages as whole numbers below ``outputs``, or an error naming the first that is none."""
    return category_codes(messages, outputs, name="message", what="messages")


def ragged(first: Messages, more: Messages, added: npt.NDArray[np.int64]) -> Envelopes:
    """Everybody's first message, and ``added[i]`` of ``more``, in order, for person i."""
    sizes = added + 1
    starts = np.cumsum(sizes) - sizes
    messages = np.empty(len(first) + len(more), dtype=np.int64)
    is_first = np.zeros(messages.size, dtype=bool)
    is_first[starts] = True
    messages[is_first] = first
    messages[~is_first] = more
    return Envelopes(messages, sizes)


def margins(delta: float) -> tuple[float, ...]:
    """Targets a little below delta, to be tried in turn: the rest is for what the sampler adds."""
    return tuple(delta * (1 - share) for share in _KEPT_BACK)
