"""Randomizers by their command-line name, loaded when asked for."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable

from shoal.errors import InvalidArgumentError
from shoal.randomizers.base import Randomizer

CATEGORIES = {
    "grr": ("response", "RandomizedResponse"),
    "hadamard": ("hadamard", "HadamardResponse"),
    "projective": ("projective", "ProjectiveGeometryResponse"),
    "subset": ("subset", "SubsetSelection"),
    "unary": ("unary", "UnaryEncoding"),
    "hashing": ("hashing", "LocalHashing"),
}
NUMBERS = {
    "laplace": ("laplace", "Laplace"),
    "duchi": ("duchi", "Duchi"),
    "piecewise": ("piecewise", "Piecewise"),
    "rounded": ("rounded", "RoundedResponse"),
}
VECTORS = {
    "privunit": ("privunit", "PrivUnit"),
    "privunitg": ("privunitg", "PrivUnitG"),
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
