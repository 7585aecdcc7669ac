"""What ``shoal survey new`` was asked, and whether it makes sense together."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

import typer

from shoal.cli.options import Bounds, RefusedError, read_whole

_UNSHOWN = ("Cc", "Zl", "Zp")  # control characters, separators of lines and paragraphs
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(?P<number>\d{1,9})(?P<unit>[smhdw])")


class Small(StrEnum):
    """What becomes of a batch that is too small when it is old."""

    CARRY = "carry"
    EXPIRE = "expire"


class Suite(StrEnum):
    """The algorithms that seal reports; the second resists quantum computers too."""

    X25519 = "x25519-aes128gcm"
    HYBRID = "mlkem768x25519-aes128gcm"


def seconds(text: str) -> int:
    """A length of time.

    >>> seconds("7d"), seconds("90")
    (604800, 90)
    """
    found = _DURATION.fullmatch(str(text).strip())  # defaults come as numbers
    if found is not None:
        return int(found["number"]) * _UNITS[found["unit"]]
    try:
        return read_whole(text)
    except typer.BadParameter:
        message = f"expected a time such as 7d, 12h, 30m or 45s, got {text!r}"
        raise typer.BadParameter(message) from None


def moment(text: str) -> int:
    """A date, or a moment, in UTC unless it says otherwise; as seconds since 1970.

    >>> moment("2030-01-31"), moment("2030-01-31T12:00")
    (1896048000, 1896091200)
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        message = f"expected a date such as 2030-01-31 or 2030-01-31T12:00, got {text!r}"
        raise typer.BadParameter(message) from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())


@dataclass(frozen=True, kw_only=True)
class SurveyAsked:
    """The options of ``shoal survey new``; None is an option that was not given."""

    question: str | None
    purpose: str | None
    name: str | None
    categories: str | None
    bounds: Bounds | None
    epsilon: float | None
    delta: float
    minimum: int | None
    reports_per_person: int
    dishonest: float
    participation: float
    target: int | None
    max_age: int
    small: Small
    starts: int | None
    days: int
    shuffler: str | None
    shuffler_key: str | None
    analyzer: str | None
    analyzer_key: str | None
    suite: Suite
    randomizer: str | None
    plan: Path | None
    local_epsilon_cap: float | None
    messages_cap: float | None

    def check(self) -> None:
        """Refuse what is missing or makes no sense together."""
        self._need("--question", self.question, "what people are asked")
        self._need("--purpose", self.purpose, "what people are told the answers are for")
        self._check_text("--question", self.question)
        self._check_text("--purpose", self.purpose)
        self._check_text("--name", self.name)
        self._need("--epsilon", self.epsilon, "what answering may cost each person")
        for role, url, key in (
            ("shuffler", self.shuffler, self.shuffler_key),
            ("analyzer", self.analyzer, self.analyzer_key),
        ):
            self._need(f"--{role}", url, f"the address of the {role}")
            self._need(
                f"--{role}-key", key, f"the fingerprint that shoal keys show prints at the {role}"
            )
        if (self.categories is None) == (self.bounds is None):
            raise RefusedError("give one of --categories and --bounds: what is asked")
        if self.plan is None:
            self._need("--minimum", self.minimum, "the smallest crowd that is ever released")
        elif any(
            given is not None
            for given in (self.randomizer, self.local_epsilon_cap, self.messages_cap)
        ):
            raise RefusedError(
                "--plan says what devices run: leave out --randomizer, --local-epsilon-cap and "
                "--messages-cap"
            )

    @staticmethod
    def _check_text(option: str, text: str | None) -> None:
        """Text of one line: in a terminal and on a page nothing else can be shown for sure."""
        if text is not None and not text.strip():
            raise RefusedError(f"{option} is empty: expected text that people can read")
        if any(unicodedata.category(letter) in _UNSHOWN for letter in text or ""):
            raise RefusedError(
                f"{option} has a line break or another control character: write one line"
            )

    @staticmethod
    def _need(option: str, value: object, what: str) -> None:
        if value is None:
            raise RefusedError(f"{option} is missing: {what}")
