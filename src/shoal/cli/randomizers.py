"""The randomizers the command line knows by name.

Each name makes a family: a callable that takes ``epsilon=`` and returns the randomizer, so that
the same entry serves ``--local-epsilon 3`` and ``--solve local-epsilon``.
"""

from __future__ import annotations

import difflib
from functools import partial

from shoal.accounting.amplification import Family
from shoal.cli.options import RefusedError
from shoal.randomizers import registry

NAMES = registry.NAMES
_BOUNDS = (0.0, 1.0)


def family(name: str, *, k: int | None, bounds: tuple[float, float] | None = None) -> Family:
    """The family of that name: of k answers, of numbers between bounds, or of k coordinates."""
    check(name)
    if name in registry.NUMBERS:
        if k is not None:
            raise RefusedError(f"--randomizer {name} takes numbers: --bounds, and no --k")
        low, high = bounds or _BOUNDS
        return partial(registry.by_name(name), low=low, high=high)
    if bounds is not None:
        raise RefusedError(f"--randomizer {name} takes no numbers: leave out --bounds")
    if k is None:
        what = "the dimension" if name in registry.VECTORS else "the number of possible answers"
        raise RefusedError(f"--randomizer {name} needs --k, {what}")
    parameter = "dimension" if name in registry.VECTORS else "k"
    return partial(registry.by_name(name), **{parameter: k})


def check(name: str) -> None:
    """Refuse a name that no randomizer has, with the names there are."""
    if name in NAMES:
        return
    close = difflib.get_close_matches(name, NAMES, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    known = ", ".join(NAMES)
    raise RefusedError(f"expected --randomizer to be one of {known}, got {name!r}{hint}")
