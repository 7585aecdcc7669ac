"""Whom a job has, and in what order: so that going on with it draws nobody twice.

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

from shoal import randomness
from shoal.service.client.drawing import Values
from shoal.service.client.errors import SurveyRefusedError

_SECRET_WORDS = 4
_DIGEST_BYTES = 32
_ANOTHER = "give other people a job of another name"


@dataclass(frozen=True)
class Begun:
    """The size of a job's chunks, and whether all of its people were drawn ``again`` ago."""

    chunk: int
    again: bool


@dataclass(frozen=True, eq=False)
class People:
    """The people of a job: a value of each, in their order, and how many go into a chunk now."""

    values: Values
    chunk: int

    @property
    def size(self) -> int:
        """How many they are."""
        return len(self.values)

    def digest(self, secret: bytes) -> bytes:
        """What tells them from others, and in which order they are."""
        written = np.ascontiguousarray(self.values, dtype=self.values.dtype.newbyteorder("<"))
        return blake2b(written.tobytes(), digest_size=_DIGEST_BYTES, key=secret).digest()

    def check(
        self, job: str, *, size: int, asked: int, secret: bytes | None, digest: bytes | None
    ) -> None:
        """Refuse a job of this name that began with others."""
        if self.size != size:
            reason = f"job {job!r} began with {size:,} people and now has {self.size:,}"
            raise SurveyRefusedError(reason, _ANOTHER)
        if asked == size:  # nobody is drawn any more
            return
        if secret is None or digest is None:
            reason = f"job {job!r} was forgotten when {asked:,} of {size:,} people were drawn"
            advice = "those after them may have a job of another name"
            raise SurveyRefusedError(reason, advice)
        if not hmac.compare_digest(self.digest(secret), digest):
            reason = f"job {job!r} began with other answers, or with the same in another order"
            advice = f"go on with the rows as they were, or {_ANOTHER}"
            raise SurveyRefusedError(reason, advice)


def fresh_secret() -> bytes:
    """A job's own."""
    return randomness.secure().words(_SECRET_WORDS).tobytes()
