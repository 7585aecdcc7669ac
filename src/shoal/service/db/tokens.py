"""Bearer tokens: shown once when they are made, kept as hashes."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import sqlalchemy as sa

from shoal import checks, randomness
from shoal.errors import InvalidArgumentError
from shoal.sealing import SurveyId
from shoal.service.clock import Clock, GracePeriod
from shoal.service.db.database import Database
from shoal.service.db.surveys import Surveys
from shoal.service.db.tables import tokens
from shoal.service.errors import NotAuthorizedError

LONGEST_LABEL = 200
KEPT_AFTER_END = 30 * 86_400  # seconds in which a token that ended is still told of
_PREFIX = "shoal_"
_SECRET_WORDS = 4  # 256 bits: too many to try, so a plain hash hides them


@dataclass(frozen=True)
class TokenScope:
    """What a token is for: one survey, or all of them."""

    label: str
    survey: SurveyId | None
    expires: int

    def to_dict(self, now: int) -> dict[str, object]:
        """Plain values, with whether it has ended."""
        return {
            "label": self.label,
            "survey": None if self.survey is None else str(self.survey),
            "expires": self.expires,
            "ended": self.expires <= now,
        }


@dataclass(frozen=True)
class Tokens:
    """The tokens of a store."""

    database: Database
    clock: Clock
    surveys: Surveys
    grace: GracePeriod[bytes] = field(default_factory=GracePeriod)

    def add(self, label: str, survey: SurveyId | None, lifetime: int) -> str:
        """A new token for a survey, or for all of them, for so many seconds."""
        if not label.strip() or len(label) > LONGEST_LABEL:
            expected = f"text of 1 to {LONGEST_LABEL} characters"
            raise InvalidArgumentError("label", label, expected)
        token = _PREFIX + randomness.secure().words(_SECRET_WORDS).tobytes().hex()
        row = None if survey is None else self.surveys.row(survey)
        values = {
            "hash": hashed(token),
            "survey": None if row is None else row.number,
            "label": label,
            "expires": self.clock() + checks.count(lifetime=lifetime),
        }
        with self.database.write() as connection:
            if row is not None:
                self.surveys.confirm(connection, row)
            connection.execute(tokens.insert(), values)
        return token

    def check(self, token: str, survey: SurveyId | None) -> TokenScope:
        """What a token is for, if it counts and covers the survey (None: all of them)."""
        scope = self.scope(hashed(token))
        if scope.survey is not None and scope.survey != survey:
            raise NotAuthorizedError(scope.label)
        return scope

    def scope(self, hashed: bytes) -> TokenScope:
        """What the token with this hash is for, if it counts."""
        row = self.database.first(sa.select(tokens).where(tokens.c.hash == hashed))
        stored = bytes(row.hash) if row else bytes(len(hashed))
        if not hmac.compare_digest(stored, hashed) or row is None or row.expires <= self.clock():
            raise NotAuthorizedError
        return self._scope(row)

    def listed(self) -> list[TokenScope]:
        """What every token is for, by label; the tokens themselves nobody has."""
        query = sa.select(tokens).order_by(tokens.c.label, tokens.c.expires)
        return [self._scope(row) for row in self.database.rows(query)]

    def forget_ended(self, *, believed: bool = True) -> int:
        """Delete those that ended a month ago; how many.

        Not at one look alone, and none while the clock is not ``believed``: one that is ahead for
        a moment would leave readers and collectors without any.
        """
        ended = tokens.c.expires <= self.clock() - KEPT_AFTER_END
        hashes = self.database.values(sa.select(tokens.c.hash).where(ended))
        gone = self.grace.over(map(bytes, hashes) if believed else ())
        if not gone:
            return 0
        # Still by what the clock says: a token is not deleted for what was true at other looks.
        forget = tokens.delete().where(ended, tokens.c.hash.in_(sorted(gone)))
        with self.database.write() as connection:
            return connection.execute(forget).rowcount

    def _scope(self, row: sa.Row[Any]) -> TokenScope:
        everything = row.survey is None
        survey = None if everything else self.surveys.numbered(row.survey).survey.id
        return TokenScope(row.label, survey, row.expires)

    def revoke(self, label: str) -> int:
        """Delete the tokens of a label; how many."""
        with self.database.write() as connection:
            return connection.execute(tokens.delete().where(tokens.c.label == label)).rowcount


def hashed(token: str) -> bytes:
    """What is kept of a token."""
    return sha256(token.encode("utf-8", "surrogatepass")).digest()
