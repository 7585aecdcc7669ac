"""A job: the reports of many people, in chunks that fit a request; going on draws nobody twice.

A job that was interrupted goes on at its first chunk that was not drawn. That is right only if the
people, their order and the size of a chunk are those it began with. So the outbox keeps the size,
and a digest of the values under a secret of the job (BLAKE2b; Saarinen, Aumasson, RFC 7693). The
digest is computed from answers: it and its secret are wiped with the last draw.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from shoal.explain.document import Document
from shoal.service.client.errors import SurveyRefusedError
from shoal.service.client.randomize import Values
from shoal.service.wire import Wire

MOST_REPORTS = 10_000  # that a shuffler takes in one request
MOST_BYTES = 8 << 20
SECRET_WORDS = 4
_DIGEST_BYTES = 32
_ANOTHER = "give other people a job of another name"


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """How far a job is: people of whom ``asked`` were drawn, ``taking_part`` by their coins.

    ``again``: all of them had been drawn before, and were not drawn a second time.
    """

    survey: str
    job: str
    people: int
    asked: int
    taking_part: int
    delivered: int
    waiting: int
    reason: str = ""
    again: bool = False

    @property
    def finished(self) -> bool:
        """Whether everybody was asked and nothing waits."""
        return self.asked == self.people and not self.waiting

    def document(self) -> Document:
        people = f"{self.asked:,} of {self.people:,} people asked, {self.taking_part:,} took part"
        lines = []
        if self.again:
            lines.append("all of them had been drawn before, and nobody was drawn again")
        if not self.finished:
            lines += [f"interrupted ({self.reason})", "the same command goes on where it ended"]
        counts = f"{self.delivered:,} delivered, {self.waiting:,} waiting; {people}"
        return Document(counts, sentences=tuple(lines))


def people_a_chunk(wire: Wire) -> int:
    """How many people's reports go into one request."""
    return max(1, min(MOST_REPORTS, MOST_BYTES // wire.report_bytes))


def digest(values: Values, secret: bytes) -> bytes:
    """What tells these people from others, and in which order they are."""
    written = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    return blake2b(written.tobytes(), digest_size=_DIGEST_BYTES, key=secret).digest()


def check_same(
    values: Values, job: str, *, people: int, asked: int, secret: bytes | None, known: bytes | None
) -> None:
    """Refuse a job of this name that began with others."""
    if len(values) != people:
        reason = f"job {job!r} began with {people:,} people and now has {len(values):,}"
        raise SurveyRefusedError(reason, _ANOTHER)
    if asked == people:  # nobody is drawn any more
        return
    if secret is None or known is None:
        reason = f"job {job!r} was forgotten when {asked:,} of {people:,} people were drawn"
        advice = "those after them may have a job of another name"
        raise SurveyRefusedError(reason, advice)
    if not hmac.compare_digest(digest(values, secret), known):
        reason = f"job {job!r} began with other answers, or with the same in another order"
        advice = f"go on with the rows as they were, or {_ANOTHER}"
        raise SurveyRefusedError(reason, advice)
