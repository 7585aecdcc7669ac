"""How messages are written as bytes, and added up to counts; and envelopes of several of them.

A device puts all its messages into one envelope of fixed size, each message in a slot of its own
and sealed by itself; the shuffler takes the slots of all envelopes apart and mixes them. So nobody
but the sender knows which messages belong together, or how many there were.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.values import Array, Envelopes, Flags, Messages, category_codes

Rows = npt.NDArray[np.uint8]
Whole = npt.NDArray[np.int64]
Filling = Callable[[int, int], Messages]
# Messages as whole numbers below so many, or an error naming the first other one.
message_numbers = partial(category_codes, name="message", what="messages")


class Codec(ABC):
    """Messages of one kind: as rows of ``message_bytes`` bytes, and added up.

    ``outputs`` is how many messages there are, if they are whole numbers from 0, and ``empty`` the
    row of an unused slot; there is none if every slot is always used.
    """

    message_bits: float
    message_bytes: int
    outputs: int | None = None
    empty: Rows | None = None

    @abstractmethod
    def cells(self, messages: Messages) -> Whole:
        """The messages added up."""

    @abstractmethod
    def encode(self, messages: Messages) -> Rows:
        """Messages as rows of bytes."""

    @abstractmethod
    def decode(self, rows: Rows) -> Messages:
        """Rows of bytes as messages; what no device can have sent is an error."""

    @abstractmethod
    def admissible(self, rows: Rows) -> Flags:
        """Which rows a device can have sent."""

    def used(self, rows: Rows) -> Messages:
        """The messages of slots that are not empty."""
        slots = checked_rows(rows, self.message_bytes)
        return self.decode(slots if self.empty is None else slots[self.filled(slots)])

    def filled(self, rows: Rows) -> Flags:
        """Which slots are not empty."""
        empty, whole = self.empty, f"V{self.message_bytes}"  # a row compared as one value
        if empty is None:
            return np.ones(len(rows), dtype=bool)
        return np.asarray(np.ascontiguousarray(rows).view(whole).ravel() != empty.view(whole)[0])

    # What an auditor may know of messages

    def supports(self, messages: npt.NDArray[Any], inputs: Sequence[Any]) -> Flags | None:  # noqa: ARG002
        """Which inputs (columns) each message (row) speaks for; None if messages do no such thing.

        A mechanism with local epsilon sends what supports its input e^epsilon times likelier.
        """
        return None

    def support_sizes(self, messages: npt.NDArray[Any]) -> Whole | None:  # noqa: ARG002
        """How many inputs each message speaks for in all, if it shows."""
        return None

    def direction(self, first: Any, second: Any) -> Array | None:  # noqa: ANN401, ARG002
        """Along which direction messages tell two inputs apart, if both are vectors."""
        return None


class Numbered(Codec):
    """A message is a whole number below ``outputs``, sent big-endian.

    In envelopes with ``spare`` slots, an unused one holds the number ``outputs`` itself. A device
    sends numbers below ``admitted``: those of the messages and, unless it always fills its
    envelope, that of an unused slot.
    """

    outputs: int

    def __init__(self, outputs: int, *, spare: bool = False, always_full: bool = False) -> None:
        self.outputs, self.codes = outputs, outputs + spare
        self.admitted = self.codes - (spare and always_full)
        self.message_bits = math.log2(self.codes)
        self.message_bytes = integer_width(self.codes)
        if spare:
            self.empty = encode_integers(np.array([outputs]), self.message_bytes)

    def cells(self, messages: Messages) -> Whole:
        """How often each message was sent."""
        numbers = message_numbers(messages, self.outputs)
        return np.bincount(numbers, minlength=self.outputs).astype(np.int64)

    def encode(self, messages: Messages) -> Rows:
        """The messages' numbers, big-endian."""
        return encode_integers(message_numbers(messages, self.outputs), self.message_bytes)

    def decode(self, rows: Rows) -> Messages:
        """The messages' numbers."""
        numbers, expected = integers_of(rows, self.message_bytes), f"messages below {self.codes}"
        checks.every(numbers < np.uint64(self.codes), expected, message=numbers)
        return numbers.astype(np.int64)

    def admissible(self, rows: Rows) -> Flags:
        """Numbers that a device sends now and then."""
        return integers_of(rows, self.message_bytes) < np.uint64(self.admitted)


# -------------------------------------------------------------------------- envelopes of messages


@dataclass(frozen=True, eq=False)
class Uneven:
    """The shuffler may see how many messages each person sends: slots that are absent are not sent.

    It adds messages of ``padding`` to a batch until there are so many ``records``, and so does
    :func:`shoal.shuffle`: of so many reports, ``honest`` at least. The noise is made for so many
    honest ``people``. ``absent`` are the bytes of a slot that is not sent.
    """

    people: int
    absent: bytes
    padding: bytes
    records: Callable[..., int]
    codec: Codec

    def filling(self, messages: int, people: int) -> Messages:
        """What a shuffler adds to so many messages of so many people, as the service does.

        Those beyond the people whom the noise is made for may send all slots.
        """
        full = self.records(people, honest=min(people, self.people))
        padding = self.codec.used(np.frombuffer(self.padding, np.uint8).reshape(1, -1))
        return np.repeat(padding, -messages % full)


def enveloped(codec: Codec, envelopes: Envelopes, slots: int) -> Rows:
    """Envelopes as rows of bytes: the messages, then unused slots."""
    empty, sizes = codec.empty, envelopes.sizes
    wrong = sizes[sizes != slots] if empty is None else sizes[sizes > slots]
    if wrong.size:
        limit = "" if empty is None else "at most "
        expected = f"{limit}{slots} messages of one person"
        raise InvalidArgumentError("envelopes", int(wrong.max()), expected)
    rows = codec.encode(envelopes.messages)
    if empty is not None:
        # The empty message everywhere, then the messages at their places.
        places = np.tile(empty, (len(envelopes) * slots, 1))
        shifts = np.arange(len(envelopes)) * slots - np.cumsum(sizes) + sizes
        places[np.arange(len(rows)) + np.repeat(shifts, sizes)] = rows
        rows = places
    return rows.reshape(len(envelopes), slots * codec.message_bytes)


def taken_apart(codec: Codec, rows: Rows, slots: int, filling: Filling | None) -> Envelopes:
    """Rows of bytes as envelopes; what no device can have sent is an error."""
    rows = checked_rows(rows, slots * codec.message_bytes)
    single = rows.reshape(-1, codec.message_bytes)
    used = codec.filled(single)
    sizes = used.reshape(len(rows), slots).sum(axis=1, dtype=np.int64)
    messages = codec.decode(single if codec.empty is None else single[used])
    return Envelopes(messages, sizes, filling)


def ragged(first: Messages, more: Messages, added: Whole) -> Envelopes:
    """Everybody's first message, and ``added[i]`` of ``more``, in order, for person i."""
    sizes = added + 1
    is_first = np.zeros(len(first) + len(more), dtype=bool)
    is_first[np.cumsum(sizes) - sizes] = True
    messages = np.empty(is_first.size, dtype=np.int64)
    messages[is_first] = first
    messages[~is_first] = more
    return Envelopes(messages, sizes)


# ----------------------------------------------------------------------------- rows of bytes


def encode_integers(messages: Messages, width: int) -> Rows:
    """Whole numbers as big-endian rows of ``width`` bytes."""
    wide = np.asarray(messages).astype(">u8")
    return np.ascontiguousarray(wide[:, None].view(np.uint8)[:, 8 - width :])


def integers_of(rows: Rows, width: int) -> npt.NDArray[np.uint64]:
    """Big-endian rows of at most eight bytes as whole numbers, whatever they are."""
    wide = np.zeros((len(rows), 8), dtype=np.uint8)
    wide[:, 8 - width :] = checked_rows(rows, width)
    return wide.view(">u8").ravel().astype(np.uint64)


def checked_rows(rows: Rows, width: int) -> Rows:
    """Rows of so many bytes, or an error saying what they are instead."""
    rows = np.asarray(rows, dtype=np.uint8)
    wrong = rows.ndim != 2 or rows.shape[1] != width
    checks.refuse(wrong, f"rows of {width} bytes", rows=rows.shape)
    return rows


def byte_rows(messages: Messages, width: int) -> Rows:
    """Messages that are rows of so many bytes, or an error saying what they are instead."""
    rows = np.asarray(messages)
    wrong = rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] != width
    kind = f"{rows.dtype} of shape {rows.shape}"
    checks.refuse(wrong, f"uint8 rows of {width} bytes", rows=kind)
    return rows.astype(np.uint8, copy=False)


def integer_width(limit: int) -> int:
    """Bytes that hold every whole number below ``limit``."""
    return max(1, -(-(limit - 1).bit_length() // 8))
