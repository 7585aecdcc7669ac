"""Places where the process may die: named, so that every one of them can be tested.

``SHOAL_FAILPOINT=name`` kills the process as ``kill -9`` would, the first time it gets there;
``name:3`` the third time. Nothing is cleaned up, flushed or closed: what survives is what was
durable. Without the variable a failpoint costs a look at a variable.
"""

from __future__ import annotations

import os
import signal

from shoal.errors import InvalidArgumentError

VARIABLE = "SHOAL_FAILPOINT"

NAMES = (
    "intake.before-segment",
    "intake.after-segment",
    "intake.after-commit",
    "opening.claimed",
    "opening.part-written",
    "opening.after-commit",
    "opening.part-replaced",
    "batch.sealed",
    "shuffle.half-written",
    "shuffle.written",
    "shuffle.renamed",
    "shuffle.after-commit",
    "release.recorded",
    "release.acknowledged",
    "purge.files-deleted",
    "collect.requested",
    "collect.received",
    "analysis.opened",
    "analysis.debited",
    "analysis.held",
    "analysis.published",
    "analysis.acknowledged",
    "client.randomized",
    "client.sealed",
    "client.sent",
)


def _parsed(text: str) -> tuple[str, int]:
    name, _, times = text.partition(":")
    if name not in NAMES or (times and not times.isdecimal()):
        raise InvalidArgumentError(VARIABLE, text, f"one of {', '.join(NAMES)}, or name:times")
    return name, int(times or 1)


_ARMED = os.environ.get(VARIABLE)
_target, _left = _parsed(_ARMED) if _ARMED else ("", 0)


def reached(name: str) -> None:
    """Die here, if this is the place that was asked for."""
    global _left  # noqa: PLW0603 - one process dies once
    if name != _target:
        return
    _left -= 1
    if _left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
