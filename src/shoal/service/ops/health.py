"""Facts that a party depends on: looked at once, told in three places.

A :class:`Fact` is a name, who looks, and what to do if that cannot even look. ``shoal doctor``
prints all that was found. ``/readyz`` has a line for each fact that the work hangs on, and the
metrics a number: 0 in order, 1 in order but for something, 2 not in order. Where a fact has figures
of its own, the metrics have those too.

A failure that *stops* the service makes ``/readyz`` answer 503, so that a load balancer sends
nobody here. Others (a key to come that is lost, say) are warnings there: what devices send is still
taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

from shoal.errors import ShoalError

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_FRESH = 1.0


Metrics: TypeAlias = "Callable[[], Iterable[Metric]]"  # read when they are asked for


class State(StrEnum):
    """In order; in order but for something; not in order."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


SEVERITY = {state: severity for severity, state in enumerate(State)}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was found; ``advice`` says what to do about it."""

    check: str
    state: State
    detail: str
    advice: str = ""
    stops: bool = False

    def to_dict(self) -> dict[str, str]:
        """Plain values."""
        return {
            "check": self.check,
            "state": self.state.value,
            "detail": self.detail,
            "advice": self.advice,
        }


def ok(check: str, detail: str) -> Finding:
    """In order."""
    return Finding(check=check, state=State.OK, detail=detail)


def warn(check: str, detail: str, advice: str) -> Finding:
    """In order, but for something."""
    return Finding(check=check, state=State.WARN, detail=detail, advice=advice)


def fail(check: str, detail: str, advice: str, *, stops: bool = False) -> Finding:
    """Not in order; ``stops``: nobody should be sent here."""
    return Finding(check=check, state=State.FAIL, detail=detail, advice=advice, stops=stops)


def worst(findings: Iterable[Finding]) -> State:
    """The worst of them."""
    return max((finding.state for finding in findings), key=SEVERITY.__getitem__, default=State.OK)


@dataclass(frozen=True)
class Fact:
    """Something a party depends on: its name, who looks, and what to do if that cannot look.

    ``ready``: the work hangs on it, so that ``/readyz`` and the metrics have it.
    """

    name: str
    probe: Callable[[], Iterable[Finding]]
    advice: str = "see the log of this process, and run shoal doctor"
    ready: bool = False
    metrics: Metrics | None = None

    def findings(self) -> list[Finding]:
        """What is found; if nobody can look, that is what was found."""
        try:
            return list(self.probe())
        except ShoalError as error:
            advice = getattr(error, "advice", self.advice)
            return [fail(self.name, str(error), advice, stops=True)]
        except OSError as error:
            why = error.strerror or type(error).__name__
            return [fail(self.name, why, self.advice, stops=True)]

    def summary(self) -> Finding:
        """The worst of it, in one line under the fact's name."""
        findings = self.findings()
        if not findings:
            return ok(self.name, "nothing to look at")
        found = max(findings, key=lambda each: (each.stops, SEVERITY[each.state]))
        detail = found.detail if found.check == self.name else f"{found.check}: {found.detail}"
        state = State.WARN if found.state is State.FAIL and not found.stops else found.state
        return replace(found, check=self.name, state=state, detail=detail)


class Readiness:
    """The facts that a process depends on, looked at no more than once in a second."""

    def __init__(self, facts: Sequence[Fact]) -> None:
        self._facts = tuple(facts)
        self._lock = Lock()
        self._until = -1.0
        self._found: list[Finding] = []

    def findings(self) -> list[Finding]:
        """What was found a moment ago.

        Whoever asks while somebody else looks gets what was found before: a database that takes
        its time to be gone must not hold up everybody who asks.
        """
        if self._found and time.monotonic() < self._until:
            return self._found
        if self._lock.acquire(blocking=not self._found):
            try:
                self._found = [fact.summary() for fact in self._facts]
                self._until = time.monotonic() + _FRESH
            finally:
                self._lock.release()
        return self._found


@dataclass(frozen=True)
class Examination:
    """What was found, under the name of what was looked at."""

    parts: dict[str, list[Finding]]

    @property
    def state(self) -> State:
        """The worst of it."""
        return worst(finding for findings in self.parts.values() for finding in findings)

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return {
            "state": self.state.value,
            "checks": [
                {"of": name, **finding.to_dict()}
                for name, findings in self.parts.items()
                for finding in findings
            ],
        }
