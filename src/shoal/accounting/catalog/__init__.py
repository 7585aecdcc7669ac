"""Every published bound Shoal knows, by name: cited, with its regime; one module a paper.

A new bound is a function with its theorem, an :class:`Entry` and a line below.

>>> from shoal.accounting import catalog
>>> query = catalog.Query(local_epsilon=4, n=100_000, delta=1e-6)
>>> round(catalog.get("fmt21-closed").epsilon(query), 4)
0.5346
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from shoal.accounting.catalog import (
    bbgn19,
    bkmtt20,
    canonne22,
    csuzz19,
    efmrtt19,
    fmt21,
    fmt22,
    gddsk21,
)
from shoal.accounting.catalog.entry import Citation, Entry, Kind, Query, Status
from shoal.errors import InvalidArgumentError

__all__ = ["ENTRIES", "Citation", "Entry", "Kind", "Query", "Status", "certified", "get"]

_IN_ORDER = (
    fmt22.OPTIMAL_CLONES,
    fmt21.CLONES,
    fmt21.CLOSED,
    fmt21.WORKSHOP,
    canonne22.ONE_TERM,
    fmt21.THM41,
    fmt21.KRR_CLOSED,
    fmt22.CLOSED,
    bbgn19.HOEFFDING,
    bbgn19.BENNETT,
    gddsk21.ENTRY,
    efmrtt19.ENTRY,
    efmrtt19.GENERAL_ENTRY,
    bkmtt20.ENTRY,
    csuzz19.ENTRY,
    canonne22.SMALL,
    canonne22.LARGE,
)

ENTRIES: Mapping[str, Entry] = MappingProxyType({entry.name: entry for entry in _IN_ORDER})


def get(name: str) -> Entry:
    """Return the entry of that name, or raise with the names there are."""
    if name in ENTRIES:
        return ENTRIES[name]
    close = difflib.get_close_matches(str(name), ENTRIES, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    raise InvalidArgumentError("bound", name, f"bound to be one of {', '.join(ENTRIES)}{hint}")


def certified() -> tuple[Entry, ...]:
    """Return the entries whose numbers may be given as guarantees."""
    return tuple(entry for entry in ENTRIES.values() if entry.certified)
