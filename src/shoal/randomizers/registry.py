"""Randomizers by their name, loaded when asked for: a new one is a class and a line here."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable
from functools import partial

from shoal.errors import InvalidArgumentError
from shoal.randomizers.base import Randomizer

CATEGORIES = {
    "grr": ("response", "RandomizedResponse"),
    "hadamard": ("hadamard", "HadamardResponse"),
    "projective": ("projective", "ProjectiveGeometryResponse"),
    "subset": ("bits", "SubsetSelection"),
    "unary": ("bits", "UnaryEncoding"),
    "hashing": ("hashing", "LocalHashing"),
}
NUMBERS = {
    "laplace": ("laplace", "Laplace"),
    "duchi": ("grid", "Duchi"),
    "piecewise": ("grid", "Piecewise"),
    "rounded": ("grid", "RoundedResponse"),
}
VECTORS = {
    "privunit": ("vectors", "PrivUnit"),
    "privunitg": ("vectors", "PrivUnitG"),
}
NAMES = (*CATEGORIES, *NUMBERS, *VECTORS)


def by_name(name: str) -> Callable[..., Randomizer]:
    """The class of a randomizer, or an error that lists the names."""
    homes = {**CATEGORIES, **NUMBERS, **VECTORS}
    if name not in homes:
        close = difflib.get_close_matches(str(name), homes, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        expected = f"randomizer to be one of {', '.join(homes)}{hint}"
        raise InvalidArgumentError("randomizer", name, expected)
    module, attribute = homes[name]
    home = importlib.import_module(f"shoal.randomizers.{module}")
    found: Callable[..., Randomizer] = getattr(home, attribute)
    return found


def family(
    name: str, *, k: int | None = None, bounds: tuple[float, float] | None = None
) -> Callable[..., Randomizer]:
    """The randomizers of that name, a callable that takes ``epsilon=``.

    Of ``k`` answers, of vectors of ``k`` coordinates, or of numbers between ``bounds`` (0 and 1 if
    not given).

    >>> family("grr", k=3)(epsilon=1.0)
    RandomizedResponse(k=3, epsilon=1.0)
    """
    makes = by_name(name)
    if name in NUMBERS:
        if k is not None:
            raise InvalidArgumentError("k", k, f"no k for {name}, which takes numbers, but bounds")
        low, high = bounds or (0.0, 1.0)
        return partial(makes, low=low, high=high)
    if bounds is not None:
        expected = f"no bounds for {name}, which does not take numbers"
        raise InvalidArgumentError("bounds", bounds, expected)
    if k is None:
        what = "dimension" if name in VECTORS else "number of possible answers"
        raise InvalidArgumentError("k", k, f"k, the {what}, which {name} needs")
    return partial(makes, **{"dimension" if name in VECTORS else "k": k})
