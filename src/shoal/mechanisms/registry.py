"""Mechanisms by their name, loaded when first used: a new one is a class and a line here."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, cast

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.mechanisms.base import Mechanism, Randomizer
from shoal.mechanisms.envelopes import Device, MultiMessageMechanism

Takes = Literal["answers", "bits", "numbers", "vectors"]


class Line(NamedTuple):
    """What is known of a mechanism before its module is loaded."""

    module: str
    attribute: str
    takes: Takes
    # How its noise is set: by a local epsilon, or for so many people, an epsilon and a delta.
    local: bool = True
    several: bool = False  # messages of one person
    surveys: bool = False  # made for surveys of the service, from another one that is planned


_several = partial(Line, local=False, several=True)

LINES = {
    "grr": Line("response", "RandomizedResponse", "answers"),
    "hadamard": Line("response", "HadamardResponse", "answers"),
    "projective": Line("response", "ProjectiveGeometryResponse", "answers"),
    "subset": Line("bits", "SubsetSelection", "answers"),
    "unary": Line("bits", "UnaryEncoding", "answers"),
    "hashing": Line("hashing", "LocalHashing", "answers"),
    "laplace": Line("grid", "Laplace", "numbers"),
    "duchi": Line("grid", "Duchi", "numbers"),
    "piecewise": Line("grid", "Piecewise", "numbers"),
    "rounded": Line("grid", "RoundedResponse", "numbers"),
    "privunit": Line("vectors", "PrivUnit", "vectors"),
    "privunitg": Line("vectors", "PrivUnitG", "vectors"),
    "gaussian": Line("gaussian", "Gaussian", "numbers", local=False),
    "gaussian-vectors": Line("gaussian", "GaussianVectors", "vectors", local=False),
    "dummies": _several("dummies", "UniformDummies", "answers"),
    "sparse": _several("zero_sum", "SparseHistogram", "answers"),
    "zero-sum": _several("zero_sum", "ZeroSumHistogram", "answers"),
    "hashed-dummies": _several("dummies", "HashedDummies", "answers"),
    "near-central-lean": _several("histograms", "LeanHistogram", "answers"),
    "near-central-robust": _several("histograms", "RobustHistogram", "answers"),
    "near-central-carriers": _several("carriers", "CarrierHistogram", "answers", surveys=True),
    "near-central": _several("counts", "NearCentralCount", "bits"),
    "zero-sum-count": _several("zero_sum", "ZeroSumCount", "bits"),
    "coins": _several("counts", "FairCoins", "bits"),
    "split-and-mix": _several("split_and_mix", "SplitAndMixSum", "numbers"),
    "near-central-sum": _several("counts", "NearCentralSum", "numbers"),
    "split-and-mix-vectors": _several("split_and_mix", "SplitAndMixVectors", "vectors"),
}


def names(
    *takes: Takes,
    local: bool | None = None,
    several: bool | None = None,
    surveys: bool | None = None,
) -> tuple[str, ...]:
    """The names of the mechanisms that take one of these and are as wanted (None: either).

    >>> names("numbers", local=True)
    ('laplace', 'duchi', 'piecewise', 'rounded')
    """
    wanted = {"local": local, "several": several, "surveys": surveys}
    given = {name: value for name, value in wanted.items() if value is not None}
    return tuple(
        name
        for name, line in LINES.items()
        if (not takes or line.takes in takes)
        and all(getattr(line, what) == value for what, value in given.items())
    )


# One message with unbounded noise, of a deviation that may be given.
BY_SIGMA = names(local=False, several=False)


def line(name: str) -> Line:
    """What is known of the mechanism of that name, or an error that lists the names."""
    if name not in LINES:
        raise unknown(name, LINES)
    return LINES[name]


def by_name(name: str) -> Callable[..., Any]:
    """The class of a mechanism, or an error that lists the names."""
    known = line(name)
    home = importlib.import_module(f"shoal.mechanisms.{known.module}")
    return cast("Callable[..., Any]", getattr(home, known.attribute))


def unknown(name: str, names: Iterable[str]) -> InvalidArgumentError:
    """The error for a name that is none of these."""
    hint = checks.similar(str(name), names)
    return InvalidArgumentError("randomizer", name, f"one of {', '.join(names)}{hint}")


def without_epsilon(name: str) -> InvalidArgumentError:
    """The error for a name that is wanted with a local epsilon, and has none."""
    noise = "" if LINES[name].several else "; to account for it: its sigma, --sigma"
    expected = (
        f"a randomizer with a local epsilon: {name} has none (to run it: epsilon and choose, "
        f"--epsilon, --choose {name}{noise})"
    )
    return InvalidArgumentError("randomizer", name, expected)


def noisy(
    name: str, sigma: float, *, k: int | None = None, bounds: tuple[float, float] | None = None
) -> Randomizer:
    """The randomizer of that name with noise of this deviation: vectors are at most 1 long."""
    makes = by_name(name)
    if name not in BY_SIGMA:
        raise InvalidArgumentError("sigma", sigma, f"no sigma for {name}, but a local epsilon")
    if name == "gaussian":
        checks.refuse(k is not None, f"no k for {name}, which takes numbers, but bounds", k=k)
        low, high = bounds or (0.0, 1.0)
        return cast("Randomizer", makes(low=low, high=high, sigma=sigma))
    expected = f"no bounds for {name}, which does not take numbers"
    checks.refuse(bounds is not None, expected, bounds=bounds)
    checks.refuse(k is None, f"k, the dimension, which {name} needs", k=k)
    return cast("Randomizer", makes(dimension=k, norm=1.0, sigma=sigma))


def described(mechanism: Mechanism) -> dict[str, object]:
    """The mechanism's name and public parameters, as plain values."""
    fields = dataclasses.fields(mechanism)  # type: ignore[arg-type]
    names = [field.name for field in fields if field.init]
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
    known, makes = line(name), by_name(name)
    if not known.local:
        raise without_epsilon(name)
    if known.takes == "numbers":
        checks.refuse(k is not None, f"no k for {name}, which takes numbers, but bounds", k=k)
        low, high = bounds or (0.0, 1.0)
        return partial(makes, low=low, high=high)
    expected = f"no bounds for {name}, which does not take numbers"
    checks.refuse(bounds is not None, expected, bounds=bounds)
    sizes = {"vectors": ("dimension", "dimension")}
    size, what = sizes.get(known.takes, ("k", "number of possible answers"))
    checks.refuse(k is None, f"k, the {what}, which {name} needs", k=k)
    return partial(makes, **{size: k})


def protocol(name: str) -> type[MultiMessageMechanism]:
    """The class of a mechanism with several messages, or an error that lists the names."""
    several = names(several=True)
    if name not in several:
        raise unknown(name, several)
    return cast("type[MultiMessageMechanism]", by_name(name))


def calibration(name: str) -> Callable[..., Device]:
    """What makes such a mechanism with the least noise for n honest people, epsilon and delta."""
    without = names(local=False)
    if name not in without:
        raise unknown(name, without)
    made: Callable[..., Device] = cast("Any", by_name(name)).calibrated
    return made


def restored(description: Mapping[str, object]) -> Device:
    """The mechanism of a description."""
    parameters = {key: value for key, value in description.items() if key != "name"}
    kind = by_name(str(description.get("name")))
    allowed = {field.name for field in dataclasses.fields(cast("Any", kind)) if field.init}
    extra = set(parameters) - allowed
    expected = f"parameters {', '.join(sorted(allowed))}"
    checks.refuse(extra, expected, randomizer=", ".join(sorted(extra)))
    return cast("Device", kind(**parameters))
