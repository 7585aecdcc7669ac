"""On which terms questions are asked: who takes part, and what their reports may be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from numbers import Integral
from typing import Any, Self

from shoal import checks
from shoal.values import Record

MOST_REPORTS = 1_000
_ANY = "any"  # number of messages, in JSON


class Terms:
    """Terms as plain values, those that are as usual left out."""

    def to_dict(self) -> Record:
        """What is not as usual."""
        values = asdict(self)  # type: ignore[call-overload]  # a data class
        usual = {each.name: each.default for each in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in values.items() if value != usual[name]}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """From plain values."""
        return cls(**stored)


@dataclass(frozen=True, kw_only=True)
class Crowd(Terms):
    """Who takes part.

    Args:
        honest_fraction: Fraction in (0, 1] of the people who follow the protocol, by
            default 1. The guarantee is that of the honest people alone: count only
            those you are sure of.
        participation: Probability in (0, 1] that a person reports, unseen by the
            analyzer. It is for plans: of a table everybody reports.

    Raises:
        InvalidArgumentError: A number is out of its range.

    Example:
        >>> Crowd(honest_fraction=0.9).to_dict()
        {'honest_fraction': 0.9}
    """

    honest_fraction: float = 1.0
    participation: float = 1.0

    def __post_init__(self) -> None:
        checks.fraction(honest_fraction=self.honest_fraction, participation=self.participation)


@dataclass(frozen=True, kw_only=True)
class Limits(Terms):
    """What the reports of one person may be.

    Args:
        local_epsilon: The largest ε₀ that a report may have.
        messages: Messages that one report may have on average, at least 1; infinity for any
            number. Unless it is given: 1, or any number for a question that
            chooses its mechanism by name. Above 1 it lets in mechanisms whose error is near
            a curator's and which have no local ε₀.
        each: Every question keeps its part of ε and δ by itself; otherwise their curves are
            composed, which uses all of the budget.
        weaker: Run a plan that so few people do not keep, with a warning.

    Raises:
        InvalidArgumentError: A number is out of its range.

    Example:
        >>> Limits(messages=3).most(chosen=False), Limits().most(chosen=False)
        (3, 1.0)
    """

    local_epsilon: float | None = None
    messages: float | None = None
    each: bool = False
    weaker: bool = False

    def __post_init__(self) -> None:
        if self.local_epsilon is not None:
            checks.positive(local_epsilon=self.local_epsilon)
        expected = "messages >= 1: everybody sends at least one message"
        few = self.messages is not None and not self.messages >= 1
        checks.refuse(few, expected, messages=self.messages)

    def most(self, *, chosen: bool) -> float:
        """Messages of one person, for a mechanism ``chosen`` by its name or not."""
        if self.messages is None:
            return math.inf if chosen else 1.0
        return self.messages

    def to_dict(self) -> Record:
        """What is not as usual."""
        endless = self.messages is not None and math.isinf(self.messages)
        return super().to_dict() | ({"messages": _ANY} if endless else {})

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """From plain values."""
        endless = stored.get("messages") == _ANY
        return cls(**{**stored, **({"messages": math.inf} if endless else {})})


EVERYBODY, NO_LIMITS = Crowd(), Limits()


def require(crowd: object, limits: object) -> None:
    """Terms that are such: a number for a crowd is the easiest mistake."""
    expected = "a Crowd, such as Crowd(honest_fraction=0.9)"
    checks.refuse(not isinstance(crowd, Crowd), expected, crowd=crowd)
    expected = "Limits, such as Limits(local_epsilon=2)"
    checks.refuse(not isinstance(limits, Limits), expected, limits=limits)


@dataclass(frozen=True)
class Person:
    """Whose row is whose: everybody counts as exactly so many reports.

    Args:
        column: The column with the person's id.
        reports: Rows of one person. Of more so many are drawn at random; missing ones have no
            value.

    Raises:
        InvalidArgumentError: ``reports`` is no whole number from 1 to 1,000.

    Example:
        >>> Person("id", reports=3).reports
        3
    """

    column: str
    reports: int = 1

    def __post_init__(self) -> None:
        expected = f"a whole number from 1 to {MOST_REPORTS:,}"
        whole = isinstance(self.reports, Integral) and not isinstance(self.reports, bool)
        fits = whole and 1 <= self.reports <= MOST_REPORTS
        checks.refuse(not fits, expected, reports=self.reports)


@dataclass(frozen=True)
class Named:
    """A mechanism with a local ε₀ by its name: how many answers there are is not yet known.

    Args:
        name: The name, as in a plan.
        epsilon: Its ε₀ > 0.

    Raises:
        InvalidArgumentError: ``epsilon`` is out of its range.

    References:
        What it keeps is told by :func:`shoal.amplify`, with the theorem; :doc:`/theory/blanket`.

    Example:
        >>> Named("grr", epsilon=2).name
        'grr'
    """

    name: str
    epsilon: float

    def __post_init__(self) -> None:
        checks.positive(epsilon=self.epsilon)
