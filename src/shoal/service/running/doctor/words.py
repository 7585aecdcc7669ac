"""Times as people read them."""

from __future__ import annotations

_DAY = 86_400
_STEPS = ((_DAY, "day"), (3_600, "hour"), (60, "minute"))


def duration(seconds: float) -> str:
    """So many days, to the nearest from two on, or whole hours, minutes or seconds.

    >>> duration(86_400 * 3 - 1), duration(5_000), duration(61), duration(2)
    ('3 days', '1 hour', '1 minute', '2 seconds')
    """
    if seconds >= 2 * _DAY:
        return f"{round(seconds / _DAY)} days"
    for size, name in _STEPS:
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {name}{'s' * (count > 1)}"
    count = max(int(seconds), 0)
    return f"{count} second{'s' * (count != 1)}"
