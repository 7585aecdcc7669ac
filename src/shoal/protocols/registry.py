"""Every mechanism by its command-line name: randomizers, and protocols with several messages."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from typing import Any, cast

from shoal import checks
from shoal.protocols.base import Device, MultiMessageMechanism
from shoal.randomizers import registry as randomizers

ANSWERS = {
    "dummies": ("dummies", "UniformDummies"),
    "sparse": ("zero_sum", "SparseHistogram"),
    "zero-sum": ("zero_sum", "ZeroSumHistogram"),
    "hashed-dummies": ("dummies", "HashedDummies"),
    "near-central-lean": ("histograms", "LeanHistogram"),
    "near-central-robust": ("histograms", "RobustHistogram"),
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
# Made for surveys of the service, from the near-central histogram that is planned.
SURVEYS = {"near-central-carriers": ("carriers", "CarrierHistogram")}
VECTORS = {"split-and-mix-vectors": ("split_and_mix", "SplitAndMixVectors")}
PROTOCOLS = {**ANSWERS, **SURVEYS, **BITS, **NUMBERS, **VECTORS}
NAMES = (*randomizers.NAMES, *PROTOCOLS)


def protocol(name: str) -> type[MultiMessageMechanism]:
    """The class of a mechanism with several messages, or an error that lists the names."""
    if name not in PROTOCOLS:
        raise randomizers.unknown(name, PROTOCOLS)
    module, attribute = PROTOCOLS[name]
    home = importlib.import_module(f"shoal.protocols.{module}")
    return cast("type[MultiMessageMechanism]", getattr(home, attribute))


def calibration(name: str) -> Callable[..., Device]:
    """What makes such a mechanism with the least noise for n honest people, epsilon and delta."""
    kind: Any = randomizers.by_name(name) if name in randomizers.CALIBRATED else protocol(name)
    made: Callable[..., Device] = kind.calibrated
    return made


def restored(description: Mapping[str, object]) -> Device:
    """The mechanism of a description."""
    parameters = {key: value for key, value in description.items() if key != "name"}
    name = str(description.get("name"))
    if name not in NAMES and name not in randomizers.CALIBRATED:
        raise randomizers.unknown(name, NAMES)
    kind = protocol(name) if name in PROTOCOLS else randomizers.by_name(name)
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    allowed = {field.name for field in fields if field.init}
    extra = set(parameters) - allowed
    expected = f"parameters {', '.join(sorted(allowed))}"
    checks.refuse(extra, expected, randomizer=", ".join(sorted(extra)))
    return kind(**parameters)
