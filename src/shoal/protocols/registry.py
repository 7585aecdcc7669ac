"""Every mechanism by its command-line name: randomizers, and protocols with several messages."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import cast

from shoal import checks
from shoal.protocols.base import Device, MultiMessageMechanism
from shoal.randomizers import registry as randomizers
from shoal.randomizers.base import Mechanism
from shoal.randomizers.registry import loaded, unknown

ANSWERS = {
    "dummies": ("dummies", "UniformDummies"),
    "sparse": ("zero_sum", "SparseHistogram"),
    "zero-sum": ("zero_sum", "ZeroSumHistogram"),
    "hashed-dummies": ("dummies", "HashedDummies"),
}
BITS = {
    "near-central": ("counts", "NearCentralCount"),
    "zero-sum-count": ("zero_sum", "ZeroSumCount"),
    "coins": ("counts", "FairCoins"),
}
NUMBERS = {
    "split-and-mix": ("split_and_mix", "SplitAndMixSum"),
    "near-central-sum": ("counts", "NearCentralSum"),
}
VECTORS = {"split-and-mix-vectors": ("split_and_mix", "SplitAndMixVectors")}
PROTOCOLS = {**ANSWERS, **BITS, **NUMBERS, **VECTORS}
NAMES = (*randomizers.NAMES, *PROTOCOLS)


def protocol(name: str) -> type[MultiMessageMechanism]:
    """The class of a mechanism with several messages, or an error that lists the names."""
    return cast("type[MultiMessageMechanism]", loaded("shoal.protocols", PROTOCOLS, name))


def calibration(name: str) -> Callable[..., MultiMessageMechanism]:
    """What makes such a mechanism with the least noise for n honest people, epsilon and delta."""
    made: Callable[..., MultiMessageMechanism] = protocol(name).calibrated  # type: ignore[attr-defined]
    return made


def described(mechanism: Mechanism) -> dict[str, object]:
    """The mechanism's name and public parameters, as plain values."""
    parameters = {name: getattr(mechanism, name) for name in _parameters(type(mechanism))}
    return {"name": mechanism.name, **parameters}


def restored(description: Mapping[str, object]) -> Device:
    """The mechanism of a description."""
    parameters = {key: value for key, value in description.items() if key != "name"}
    name = str(description.get("name"))
    if name not in NAMES:
        raise unknown(name, NAMES)
    kind = protocol(name) if name in PROTOCOLS else randomizers.by_name(name)
    allowed = _parameters(kind)
    extra = set(parameters) - set(allowed)
    expected = f"parameters {', '.join(sorted(allowed))}"
    checks.refuse(extra, expected, randomizer=", ".join(sorted(extra)))
    return kind(**parameters)


def _parameters(kind: object) -> list[str]:
    """Names of what a mechanism is made from, without what follows from it."""
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    return [field.name for field in fields if field.init]
