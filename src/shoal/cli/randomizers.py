"""The randomizers the command line knows by name.

Each name makes a family: a callable that takes ``epsilon=`` and returns the randomizer, so that
the same entry serves ``--local-epsilon 3`` and ``--solve local-epsilon``. A new randomizer is one
function and one line.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from shoal.accounting.amplification import Family
from shoal.cli.group import RefusedError
from shoal.randomizers.response import RandomizedResponse


def _grr(k: int | None) -> Family:
    if k is None:
        raise RefusedError("--randomizer grr needs --k, the number of possible answers")
    return partial(RandomizedResponse, k=k)


FAMILIES: Mapping[str, Callable[[int | None], Family]] = MappingProxyType({"grr": _grr})


def family(name: str, *, k: int | None) -> Family:
    """The family of that name, or an error that lists the names there are."""
    if name in FAMILIES:
        return FAMILIES[name](k)
    close = difflib.get_close_matches(name, FAMILIES, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    known = ", ".join(FAMILIES)
    raise RefusedError(f"expected --randomizer to be one of {known}, got {name!r}{hint}")
