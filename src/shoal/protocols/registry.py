"""Every mechanism by its command-line name: randomizers, and protocols with several messages."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
from collections.abc import Callable, Mapping
from typing import cast

from shoal.errors import InvalidArgumentError
from shoal.protocols.base import Device, MultiMessageMechanism
from shoal.randomizers import registry as randomizers
from shoal.randomizers.base import Mechanism

ANSWERS = {
    "dummies": ("dummies", "UniformDummies"),
    "sparse": ("sparse", "SparseHistogram"),
    "zero-sum": ("zero_sum", "ZeroSumHistogram"),
    "hashed-dummies": ("dummies", "HashedDummies"),
}
BITS = {
    "near-central": ("near_central", "NearCentralCount"),
    "zero-sum-count": ("zero_sum", "ZeroSumCount"),
    "coins": ("coins", "FairCoins"),
}
NUMBERS = {
    "split-and-mix": ("split_and_mix", "SplitAndMixSum"),
    "near-central-sum": ("near_central", "NearCentralSum"),
}
VECTORS = {"split-and-mix-vectors": ("split_and_mix", "SplitAndMixVectors")}
PROTOCOLS = {**ANSWERS, **BITS, **NUMBERS, **VECTORS}
NAMES = (*randomizers.NAMES, *PROTOCOLS)


def protocol(name: str) -> type[MultiMessageMechanism]:
    """The class of a protocol with several messages, or an error that lists the names."""
    if name not in PROTOCOLS:
        raise unknown(name, tuple(PROTOCOLS))
    module, attribute = PROTOCOLS[name]
    home = importlib.import_module(f"shoal.protocols.{module}")
    return cast("type[MultiMessageMechanism]", getattr(home, attribute))


def calibration(name: str) -> Callable[..., MultiMessageMechanism]:
    """What makes a protocol with the least noise for n honest people, epsilon and delta."""
    made: Callable[..., MultiMessageMechanism] = protocol(name).calibrated  # type: ignore[attr-defined]
    return made


def unknown(name: str, names: tuple[str, ...] = NAMES) -> InvalidArgumentError:
    """The error for a name that no mechanism has."""
    close = difflib.get_close_matches(str(name), names, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return InvalidArgumentError("name", name, f"a name of {', '.join(names)}{hint}")


def described(mechanism: Mechanism) -> dict[str, object]:
    """The mechanism's name and public parameters, as plain values."""
    parameters = {name: getattr(mechanism, name) for name in _parameters(type(mechanism))}
    return {"name": mechanism.name, **parameters}


def restored(description: Mapping[str, object]) -> Device:
    """The mechanism of a description."""
    parameters = {key: value for key, value in description.items() if key != "name"}
    name = str(description.get("name"))
    if name not in NAMES:
        raise unknown(name)
    kind = protocol(name) if name in PROTOCOLS else randomizers.by_name(name)
    allowed = _parameters(kind)
    extra = set(parameters) - set(allowed)
    if extra:
        expected = f"parameters {', '.join(sorted(allowed))}"
        raise InvalidArgumentError("randomizer", ", ".join(sorted(extra)), expected)
    return kind(**parameters)


def _parameters(kind: object) -> list[str]:
    """Names of what a mechanism is made from, without what follows from it."""
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    return [field.name for field in fields if field.init]
