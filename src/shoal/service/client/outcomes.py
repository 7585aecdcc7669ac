"""What became of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.explain.document import Document

_BEFORE = "; it was made before, and the answer given now was not used"


@dataclass(frozen=True, kw_only=True)
class Sent:
    """The shuffler has it. ``again``: it had been made before, and was not made a second time."""

    survey: str
    occasion: int
    again: bool = False

    def document(self) -> Document:
        """In words. What was answered before is not known any more: it may be another answer."""
        return Document(f"delivered: report {self.occasion}{_BEFORE * self.again}")


@dataclass(frozen=True, kw_only=True)
class Queued:
    """It waits on the device until ``due`` (seconds since 1970), and then for ``flush``."""

    survey: str
    occasion: int
    due: int
    reason: str
    again: bool = False

    def document(self) -> Document:
        """In words."""
        waits = f"report {self.occasion} waits ({self.reason})"
        return Document(f"kept: {waits}{_BEFORE * self.again}")


@dataclass(frozen=True, kw_only=True)
class Abstained:
    """The device's coin said not to take part: nothing is sent, now or later."""

    survey: str
    occasion: int
    again: bool = False

    def document(self) -> Document:
        """In words."""
        return Document("not taking part: so said the coin of this machine, and nothing is sent")


Outcome = Sent | Queued | Abstained


@dataclass(frozen=True, kw_only=True)
class Flushed:
    """How many reports were delivered, wait, and were given up; and why those that do."""

    sent: int = 0
    waiting: int = 0
    given_up: int = 0
    reasons: tuple[str, ...] = ()

    @classmethod
    def together(cls, flushed: Sequence[Flushed]) -> Flushed:
        """The sum over several outboxes."""
        return cls(
            sent=sum(each.sent for each in flushed),
            waiting=sum(each.waiting for each in flushed),
            given_up=sum(each.given_up for each in flushed),
            reasons=tuple(dict.fromkeys(reason for each in flushed for reason in each.reasons)),
        )

    def document(self) -> Document:
        """In words."""
        counts = f"{self.sent:,} sent, {self.waiting:,} waiting, {self.given_up:,} given up"
        return Document(counts, sentences=self.reasons)


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
        """In words."""
        people = f"{self.asked:,} of {self.people:,} people asked, {self.taking_part:,} took part"
        lines = []
        if self.again:
            lines.append("all of them had been drawn before, and nobody was drawn again")
        if not self.finished:
            lines += [f"interrupted ({self.reason})", "the same command goes on where it ended"]
        counts = f"{self.delivered:,} delivered, {self.waiting:,} waiting; {people}"
        return Document(counts, sentences=tuple(lines))
