"""Randomizers by their command-line name, loaded when asked for."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
from collections.abc import Callable, Mapping

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


def described(randomizer: Randomizer) -> dict[str, object]:
    """The randomizer's name and public parameters, as plain values."""
    parameters = {name: getattr(randomizer, name) for name in _parameters(type(randomizer))}
    return {"name": randomizer.name, **parameters}


def restored(description: Mapping[str, object]) -> Randomizer:
    """The randomizer of a description."""
    parameters = {key: value for key, value in description.items() if key != "name"}
    kind = by_name(str(description.get("name")))
    allowed = _parameters(kind)
    unknown = set(parameters) - set(allowed)
    if unknown:
        expected = f"parameters {', '.join(sorted(allowed))}"
        raise InvalidArgumentError("randomizer", ", ".join(sorted(unknown)), expected)
    return kind(**parameters)


def _parameters(kind: object) -> list[str]:
    """Names of what a randomizer is made from, without what follows from it."""
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    return [field.name for field in fields if field.init]
