"""Cutting streams and bodies of bytes into pieces whose lengths are checked before they are used.

A stream carries frames, each after its length in four big-endian bytes. A body carries records that
all have one length, one after the other, with nothing between them.
"""

from __future__ import annotations

from collections.abc import Iterable

from shoal import checks
from shoal.sealing.errors import FramingError

PREFIX_BYTES = 4
LARGEST_FRAME = 1 << 24


def framed(payload: bytes) -> bytes:
    """A frame: the payload after its length.

    >>> framed(b"abc").hex()
    '00000003616263'
    """
    size = len(payload)
    checks.refuse(size > LARGEST_FRAME, f"at most {LARGEST_FRAME} bytes", payload=size)
    return size.to_bytes(PREFIX_BYTES, "big") + payload


class Deframer:
    """Takes a stream in pieces of any size and gives back the payloads of its frames.

    Only frames of one of the allowed lengths pass. Anything else is an error as soon as its length
    is read, so that the buffer never exceeds one frame, and for good: after it the stream has no
    meaning.

    >>> frames = Deframer({3})
    >>> frames.feed(framed(b"abc") + framed(b"xyz")[:5]), frames.feed(b"yz")
    ([b'abc'], [b'xyz'])
    """

    def __init__(self, lengths: Iterable[int]) -> None:
        self._lengths = frozenset(checks.count(0, length=length) for length in lengths)
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads that this piece of the stream completes."""
        self._pending += data
        payloads = []
        start = 0
        while len(self._pending) - start >= PREFIX_BYTES:
            begin = start + PREFIX_BYTES
            length = int.from_bytes(self._pending[start:begin], "big")
            if length not in self._lengths:
                allowed = " or ".join(map(str, sorted(self._lengths)))
                raise FramingError(length, f"a frame of {allowed} bytes")
            if len(self._pending) < begin + length:
                break
            payloads.append(bytes(self._pending[begin : begin + length]))
            start = begin + length
        del self._pending[:start]
        return payloads


def joined(records: Iterable[bytes], *, length: int) -> bytes:
    """Records of one length, one after the other."""
    listed = list(records)
    for record in listed:
        size = len(record)
        checks.refuse(size != length, f"records of {length} bytes", record=size)
    return b"".join(listed)


def records(body: bytes, *, length: int) -> list[bytes]:
    """The records of a body: one or more, all of them whole."""
    length = checks.count(1, length=length)
    if not body or len(body) % length:
        raise FramingError(len(body), f"one or more records of {length} bytes")
    return [bytes(body[start : start + length]) for start in range(0, len(body), length)]
