"""What was looked at, whether it is in order, and what to do if not: one line each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from shoal.errors import ShoalError


class State(StrEnum):
    """In order; in order but for something; not in order."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one check found; ``advice`` says what to do about it."""

    check: str
    state: State
    detail: str
    advice: str = ""

    def to_dict(self) -> dict[str, str]:
        """Plain values."""
        return {
            "check": self.check,
            "state": self.state.value,
            "detail": self.detail,
            "advice": self.advice,
        }


Check: TypeAlias = Callable[[], Finding]


def ok(check: str, detail: str) -> Finding:
    """In order."""
    return Finding(check=check, state=State.OK, detail=detail)


def warn(check: str, detail: str, advice: str) -> Finding:
    """In order, but for something."""
    return Finding(check=check, state=State.WARN, detail=detail, advice=advice)


def fail(check: str, detail: str, advice: str) -> Finding:
    """Not in order."""
    return Finding(check=check, state=State.FAIL, detail=detail, advice=advice)


def guarded(name: str, check: Check, advice: str) -> Finding:
    """What a check finds; if it cannot look, that is what it found."""
    try:
        return check()
    except ShoalError as error:
        return fail(name, str(error), advice)
    except OSError as error:
        return fail(name, error.strerror or type(error).__name__, advice)


@dataclass(frozen=True)
class Examination:
    """What was found, under the name of what was looked at."""

    parts: dict[str, list[Finding]]

    @property
    def state(self) -> State:
        """The worst of it."""
        return worst([finding for findings in self.parts.values() for finding in findings])

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


def worst(findings: Sequence[Finding]) -> State:
    """The worst of them."""
    order = list(State)
    return max((finding.state for finding in findings), key=order.index, default=State.OK)
