"""What the last gatherings took: written anew by every one, so that none of them shows.

A gathering at low traffic takes one report. Were its record a file, and its tag and code rows of
their own, then the time of the file, the place of the rows or the transaction that both are of
would tell when it came, and whose record it is. So a gathering takes what the last ones have
written (the part of the open batch that grows, the recent tags and the recent codes), adds its own,
and writes all of it again: records in a fresh random order, rows in the order of their bytes. What
is there afterwards is of one moment, whatever came when.

So that a large batch is not written again and again, at ``FULL`` all but ``CROWD`` of them, chosen
at random, leave for good: as a part that stays as it is until the batch is mixed, as rows among
those that stay. Those that remain are a crowd for whoever comes next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from shoal.randomness import Randomness, source
from shoal.service.wire import Wire

CROWD = 1000
FULL = 2 * CROWD

Part = tuple[bytes, int]  # records, and of how many reports


def turned_over(
    rows: Iterable[bytes], randomness: Randomness | None = None
) -> tuple[list[bytes], list[bytes]]:
    """Which of these remain recent, and which leave; in the order of their bytes."""
    every = sorted(rows)
    if len(every) < FULL:
        return every, []
    remains = np.zeros(len(every), dtype=bool)
    remains[source(randomness).permutation(len(every))[:CROWD]] = True
    return (
        [row for row, stays in zip(every, remains, strict=True) if stays],
        [row for row, stays in zip(every, remains, strict=True) if not stays],
    )


def mixed(wire: Wire, parts: Sequence[Part], randomness: Randomness | None = None) -> list[Part]:
    """All records in one new order, section by section: the part that grows, then what leaves.

    Which messages were one report's does not matter any more, but how many reports there were.
    """
    drawn, reports = source(randomness), sum(count for _, count in parts)
    sections = []
    for section in wire.sections:
        joined = b"".join(
            records
            if wire.absent is not None
            else records[count * section.start : count * section.end]
            for records, count in parts
        )
        rows = np.frombuffer(joined, dtype=np.uint8).reshape(-1, section.record_bytes)
        sections.append(rows[drawn.permutation(len(rows))])
    if reports < FULL:
        return [(b"".join(rows.tobytes() for rows in sections), reports)]
    # Of every section alike; where reports leave slots out, as many of the records.
    cut = [(rows, len(rows) * CROWD // reports) for rows in sections]
    small = b"".join(rows[:end].tobytes() for rows, end in cut)
    leaving = b"".join(rows[end:].tobytes() for rows, end in cut)
    return [(small, CROWD), (leaving, reports - CROWD)]
