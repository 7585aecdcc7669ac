"""Mechanisms by their name, loaded when first used: a new one is a class and a line here."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, cast

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.mechanisms.base import Device
from shoal.questions.domains import Domain

Takes = Literal["answers", "bits", "numbers", "vectors"]
# Who runs it: browsers and the Python client, the client alone, or nothing but a run of a table.
Where = Literal["browsers", "clients", "tables"]


class Line(NamedTuple):
    """What is known of a mechanism before its module is loaded."""

    module: str
    attribute: str
    takes: Takes
    where: Where = "browsers"
    # How its noise is set: by a local epsilon, or for so many people, an epsilon and a delta.
    local: bool = True
    several: bool = False  # messages of one person
    surveys: bool = False  # made for surveys of the service, from another one that is planned
    by_name: bool = False  # no planner tries it

    @property
    def by_sigma(self) -> bool:
        """Whether it is one message with unbounded noise, of a deviation that may be given."""
        return not self.local and not self.several

    def fits(self, domain: Domain) -> bool:
        """Whether it is for such data; bits are answers, of which there are two."""
        bits = self.takes == "bits" and domain.arguments.get("k") == 2
        return bits or self.takes == domain.takes


_several = partial(Line, local=False, several=True)

# In the order in which a planner tries them: the simplest first.
LINES = {
    "grr": Line("response", "RandomizedResponse", "answers"),
    "hadamard": Line("response", "HadamardResponse", "answers"),
    "projective": Line("response", "ProjectiveGeometryResponse", "answers"),
    "subset": Line("bits", "SubsetSelection", "answers"),
    "unary": Line("bits", "UnaryEncoding", "answers"),
    "hashing": Line("hashing", "LocalHashing", "answers"),
    "duchi": Line("grid", "Duchi", "numbers"),
    "piecewise": Line("grid", "Piecewise", "numbers"),
    "laplace": Line("grid", "Laplace", "numbers", "clients"),
    "rounded": Line("grid", "RoundedResponse", "numbers"),
    "privunit": Line("vectors", "PrivUnit", "vectors", "tables"),
    "privunitg": Line("vectors", "PrivUnitG", "vectors", "tables"),
    "gaussian": Line("gaussian", "Gaussian", "numbers", "tables", local=False),
    "gaussian-vectors": Line("gaussian", "GaussianVectors", "vectors", "tables", local=False),
    "near-central": _several("counts", "NearCentralCount", "bits", "clients"),
    "coins": _several("counts", "FairCoins", "bits"),
    "zero-sum-count": _several("zero_sum", "ZeroSumCount", "bits", by_name=True),
    "dummies": _several("dummies", "UniformDummies", "answers"),
    "sparse": _several("zero_sum", "SparseHistogram", "answers"),
    "zero-sum": _several("zero_sum", "ZeroSumHistogram", "answers"),
    "near-central-lean": _several("histograms", "LeanHistogram", "answers", "clients"),
    "near-central-robust": _several("histograms", "RobustHistogram", "answers", "clients"),
    "near-central-carriers": _several("carriers", "CarrierHistogram", "answers", surveys=True),
    "hashed-dummies": _several("dummies", "HashedDummies", "answers", "clients"),
    "near-central-sum": _several("counts", "NearCentralSum", "numbers", "clients"),
    "split-and-mix": _several("split_and_mix", "SplitAndMixSum", "numbers", "clients"),
    "split-and-mix-vectors": _several("split_and_mix", "SplitAndMixVectors", "vectors", "tables"),
}


def names(
    *takes: Takes,
    local: bool | None = None,
    several: bool | None = None,
    surveys: bool | None = None,
    where: Where | None = None,
) -> tuple[str, ...]:
    """The names of the mechanisms that take one of these and are as wanted (None: either).

    >>> names("numbers", local=True)[:2]
    ('duchi', 'piecewise')
    """
    wanted = {"local": local, "several": several, "surveys": surveys, "where": where}
    given = {name: value for name, value in wanted.items() if value is not None}
    return tuple(
        name
        for name, line in LINES.items()
        if (not takes or line.takes in takes)
        and all(getattr(line, what) == value for what, value in given.items())
    )


def fitting(domain: Domain, *, several: bool) -> Iterator[type[Device]]:
    """The mechanisms for these data, those with ``several`` messages among them or not."""
    for name, line in LINES.items():
        tried = not line.surveys and not line.by_name
        if tried and line.fits(domain) and (several or not line.several):
            yield by_name(name)


def line(name: str) -> Line:
    """What is known of the mechanism of that name, or an error that lists the names."""
    if name not in LINES:
        raise unknown(name, LINES)
    return LINES[name]


def by_name(name: str) -> Any:  # noqa: ANN401 - a class of mechanisms, which take what they take
    """The class of a mechanism, or an error that lists the names."""
    known = line(name)
    home = importlib.import_module(f"shoal.mechanisms.{known.module}")
    return getattr(home, known.attribute)


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
) -> Device:
    """The randomizer of that name with noise of this deviation: vectors are at most 1 long."""
    if not line(name).by_sigma:
        raise InvalidArgumentError("sigma", sigma, f"no sigma for {name}, but a local epsilon")
    norm = {"norm": 1.0} if line(name).takes == "vectors" else {}
    made: Device = _shaped(name, k, bounds)(**norm, sigma=sigma)
    return made


def family(
    name: str, *, k: int | None = None, bounds: tuple[float, float] | None = None
) -> Callable[..., Device]:
    """The randomizers of that name, a callable that takes ``epsilon=``.

    Of ``k`` answers, of vectors of ``k`` coordinates, or of numbers between ``bounds`` (0 and 1 if
    not given).

    >>> family("grr", k=3)(epsilon=1.0)
    RandomizedResponse(k=3, epsilon=1.0)
    """
    if not line(name).local:
        raise without_epsilon(name)
    return _shaped(name, k, bounds)


def _shaped(name: str, k: int | None, bounds: tuple[float, float] | None) -> Callable[..., Device]:
    """The class of that name, for data of this shape."""
    known, makes = line(name), by_name(name)
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


_SHAPES = "bounds / --bounds are for numbers, columns and norm for vectors"


def named(name: str, epsilon: float, domain: Domain) -> Device:
    """The mechanism of that name for the data of a domain, with this local epsilon.

    >>> from shoal.questions.domains import Cells
    >>> named("grr", 1.0, Cells(3))
    RandomizedResponse(k=3, epsilon=1.0)
    """
    if not line(name).local:
        raise without_epsilon(name)
    takes = cast("Takes", domain.takes)
    fitting_names = names(takes, local=True)
    expected = f"a mechanism of {takes}, one of {', '.join(fitting_names)} ({_SHAPES})"
    checks.refuse(name not in fitting_names, expected, mechanism=name)
    made: Device = by_name(name).fitting(domain, epsilon=epsilon)
    return made


def calibration(name: str) -> Callable[..., Device]:
    """What makes such a mechanism with the least noise for n honest people, epsilon and delta."""
    without = names(local=False)
    if name not in without:
        raise unknown(name, without)
    made: Callable[..., Device] = by_name(name).calibrated
    return made


def restored(description: Mapping[str, object], domain: Domain | None = None) -> Device:
    """The mechanism of a description, as it takes the data of a domain."""
    parameters = {key: value for key, value in description.items() if key != "name"}
    kind = by_name(str(description.get("name")))
    allowed = {field.name for field in dataclasses.fields(kind) if field.init}
    extra = set(parameters) - allowed
    expected = f"parameters {', '.join(sorted(allowed))}"
    checks.refuse(extra, expected, randomizer=", ".join(sorted(extra)))
    made = cast("Device", kind(**parameters))
    return made if domain is None else made.fitted(domain)
