"""Randomizers by their name, loaded when first used: a new one is a class and a line here."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import partial
from typing import cast

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.randomizers.base import Mechanism, Randomizer

CATEGORIES = {
    "grr": ("response", "RandomizedResponse"),
    "hadamard": ("response", "HadamardResponse"),
    "projective": ("response", "ProjectiveGeometryResponse"),
    "subset": ("bits", "SubsetSelection"),
    "unary": ("bits", "UnaryEncoding"),
    "hashing": ("hashing", "LocalHashing"),
}
NUMBERS = {
    "laplace": ("grid", "Laplace"),
    "duchi": ("grid", "Duchi"),
    "piecewise": ("grid", "Piecewise"),
    "rounded": ("grid", "RoundedResponse"),
}
VECTORS = {
    "privunit": ("vectors", "PrivUnit"),
    "privunitg": ("vectors", "PrivUnitG"),
}
NAMES = (*CATEGORIES, *NUMBERS, *VECTORS)
# Without a local epsilon: made for so many people, an epsilon and a delta (``calibrated``).
CALIBRATED = {
    "gaussian": ("gaussian", "Gaussian"),
    "gaussian-vectors": ("gaussian", "GaussianVectors"),
}


def by_name(name: str) -> Callable[..., Randomizer]:
    """The class of a randomizer, or an error that lists the names."""
    homes = {**CATEGORIES, **NUMBERS, **VECTORS, **CALIBRATED}
    if name not in homes:
        raise unknown(name, (*NAMES, *CALIBRATED))
    module, attribute = homes[name]
    home = importlib.import_module(f"shoal.randomizers.{module}")
    return cast("Callable[..., Randomizer]", getattr(home, attribute))


def unknown(name: str, names: Iterable[str]) -> InvalidArgumentError:
    """The error for a name that is none of these."""
    hint = checks.similar(str(name), names)
    return InvalidArgumentError("randomizer", name, f"one of {', '.join(names)}{hint}")


def without_epsilon(name: str) -> InvalidArgumentError:
    """The error for a name that is wanted with a local epsilon, and has none."""
    expected = (
        f"a randomizer with a local epsilon: {name} has none (to run it: epsilon and choose, "
        f"--epsilon, --choose {name}; to account for it: its sigma, --sigma)"
    )
    return InvalidArgumentError("randomizer", name, expected)


def noisy(
    name: str, sigma: float, *, k: int | None = None, bounds: tuple[float, float] | None = None
) -> Randomizer:
    """The randomizer of that name with noise of this deviation: vectors are at most 1 long."""
    if name not in CALIBRATED:
        raise InvalidArgumentError("sigma", sigma, f"no sigma for {name}, but a local epsilon")
    if name == "gaussian":
        checks.refuse(k is not None, f"no k for {name}, which takes numbers, but bounds", k=k)
        low, high = bounds or (0.0, 1.0)
        return by_name(name)(low=low, high=high, sigma=sigma)
    expected = f"no bounds for {name}, which does not take numbers"
    checks.refuse(bounds is not None, expected, bounds=bounds)
    checks.refuse(k is None, f"k, the dimension, which {name} needs", k=k)
    return by_name(name)(dimension=k, norm=1.0, sigma=sigma)


def described(mechanism: Mechanism) -> dict[str, object]:
    """The mechanism's name and public parameters, as plain values."""
    names = [field.name for field in fields(mechanism) if field.init]  # type: ignore[arg-type]
    return {"name": mechanism.name, **{name: getattr(mechanism, name) for name in names}}


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
    if name in CALIBRATED:
        raise without_epsilon(name)
    if name in NUMBERS:
        checks.refuse(k is not None, f"no k for {name}, which takes numbers, but bounds", k=k)
        low, high = bounds or (0.0, 1.0)
        return partial(makes, low=low, high=high)
    expected = f"no bounds for {name}, which does not take numbers"
    checks.refuse(bounds is not None, expected, bounds=bounds)
    size, what = ("dimension",) * 2 if name in VECTORS else ("k", "number of possible answers")
    checks.refuse(k is None, f"k, the {what}, which {name} needs", k=k)
    return partial(makes, **{size: k})
