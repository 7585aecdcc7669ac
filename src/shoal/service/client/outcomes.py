"""What became of a report."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sent:
    """The shuffler has it. ``again``: it had been made before, and was not made a second time."""

    survey: str
    occasion: int
    again: bool = False


@dataclass(frozen=True, kw_only=True)
class Queued:
    """It waits on the device until ``due`` (seconds since 1970), and then for ``flush``."""

    survey: str
    occasion: int
    due: int
    reason: str
    again: bool = False


@dataclass(frozen=True, kw_only=True)
class Abstained:
    """The device's coin said not to take part: nothing is sent, now or later."""

    survey: str
    occasion: int
    again: bool = False


Outcome = Sent | Queued | Abstained


@dataclass(frozen=True, kw_only=True)
class Flushed:
    """How many reports were delivered, wait, and were given up; and why those that do."""

    sent: int = 0
    waiting: int = 0
    given_up: int = 0
    reasons: tuple[str, ...] = ()


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
