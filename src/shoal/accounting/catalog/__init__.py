"""Every published bound Shoal knows, by name: cited, with its regime, one module each.

A new bound is one module with an :class:`Entry`, one import and one line below.

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
    bbgn19_bennett,
    bbgn19_hoeffding,
    bkmtt20,
    blog_approximations,
    clones,
    csuzz19,
    efmrtt19,
    fmt21_blog,
    fmt21_closed,
    fmt21_thm41,
    fmt21_workshop,
    fmt22_closed,
    gddsk21,
    krr_closed,
    optimal_clones,
)
from shoal.accounting.catalog.entry import Citation, Entry, Kind, Query, Status
from shoal.errors import InvalidArgumentError

__all__ = ["ENTRIES", "Citation", "Entry", "Kind", "Query", "Status", "certified", "get"]

_IN_ORDER = (
    optimal_clones.ENTRY,
    clones.ENTRY,
    fmt21_closed.ENTRY,
    fmt21_workshop.ENTRY,
    fmt21_blog.ENTRY,
    fmt21_thm41.ENTRY,
    krr_closed.ENTRY,
    fmt22_closed.ENTRY,
    bbgn19_hoeffding.ENTRY,
    bbgn19_bennett.ENTRY,
    gddsk21.ENTRY,
    efmrtt19.ENTRY,
    efmrtt19.GENERAL_ENTRY,
    bkmtt20.ENTRY,
    csuzz19.ENTRY,
    blog_approximations.SMALL_ENTRY,
    blog_approximations.LARGE_ENTRY,
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
