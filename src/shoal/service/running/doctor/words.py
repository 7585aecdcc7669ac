"""Times as people read them."""

from __future__ import annotations

_STEPS = ((86_400, "day"), (3_600, "hour"), (60, "minute"))


def duration(seconds: float) -> str:
    """So many days, hours, minutes or seconds.

    >>> duration(86_400 * 3), duration(5_000), duration(61), duration(2)
    ('3 days', '1 hour', '1 minute', '2 seconds')
    """
    for size, name in _STEPS:
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {name}{'s' * (count > 1)}"
    count = max(int(seconds), 0)
    return f"{count} second{'s' * (count != 1)}"
