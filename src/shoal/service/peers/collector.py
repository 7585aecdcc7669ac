"""The server's side: take in submissions, count every sealed report once, open what arrived."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import numpy.typing as npt

from shoal.errors import InvalidArgumentError
from shoal.randomizers.base import Randomizer
from shoal.sealing.errors import SealingError
from shoal.sealing.keys import KeyPair
from shoal.service.peers.survey import SERVER, Directory, Kind, Link, Wire
from shoal.values import Batch


@dataclass(frozen=True)
class Collected:
    """What arrived: the messages, in an order that means nothing, and what was left out."""

    batch: Batch
    duplicates: int  # sealed reports that had arrived before
    rejected: int  # sealed reports that do not open, or hold no message of the randomizer


class Collector:
    """Collects the submissions of one survey.

    Reports are kept under their digests and given out in the order of these: who submitted what,
    and when, is not kept. A sealed report cannot be changed and still open, so equal digests are
    all there is to repetition.
    """

    def __init__(self, *, pair: KeyPair, directory: Directory, wire: Wire) -> None:
        self._pair = pair
        self._directory = directory
        self._wire = wire
        self._link: Link | None = None
        self._reports: dict[bytes, bytes] = {}
        self._duplicates = 0

    def begin(self, round_number: int) -> None:
        """A round of submission begins."""
        self._link = Link(self._wire.submission, round_number)

    def receive(self, sealed: bytes) -> bytes | None:
        """A frame came; the receipt for it. What does not open has none."""
        if self._link is None:
            return None
        try:
            frame = self._link.open(sealed, SERVER, self._pair)
        except SealingError:
            return None
        is_report = frame.kind is Kind.REPORT and len(frame.payload) == self._wire.inner.size
        if not is_report or frame.sender >= len(self._directory):
            return None
        digest = sha256(frame.payload).digest()
        self._duplicates += digest in self._reports
        self._reports[digest] = frame.payload
        return self._link.seal(frame.receipt(SERVER), frame.sender, self._directory)

    def collect(self, randomizer: Randomizer) -> Collected:
        """Open everything that arrived."""
        self._link = None
        rows = [row for digest in sorted(self._reports) for row in self._opened(digest, randomizer)]
        messages = randomizer.decode(_stacked(rows, self._wire.message_bytes))
        rejected = len(self._reports) - len(rows)
        return Collected(Batch(messages), duplicates=self._duplicates, rejected=rejected)

    def _opened(self, digest: bytes, randomizer: Randomizer) -> list[bytes]:
        """The message of a sealed report, or nothing where there is none."""
        try:
            message = self._wire.inner.open(self._reports[digest], self._pair)
            randomizer.decode(_stacked([message], self._wire.message_bytes))
        except (SealingError, InvalidArgumentError):
            return []
        return [message]


def _stacked(messages: list[bytes], width: int) -> npt.NDArray[np.uint8]:
    """Messages as rows; one that has not the width of all is an error."""
    if any(len(message) != width for message in messages):
        raise InvalidArgumentError("message", len(messages), f"messages of {width} bytes")
    return np.frombuffer(b"".join(messages), dtype=np.uint8).reshape(len(messages), width)
