"""Schemes: how what somebody answers becomes reports, and what everybody's reports say of it.

Most questions take one report. Several answers at once may be told label by label, slot by slot or
as one set; bins on several levels of a tree; a number that belongs to a group, or may be missing,
as a cell of the group and a step that it is rounded to. Which of them has the least error follows
from the plan of each.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np

from shoal import checks
from shoal.engines.counting import Report
from shoal.engines.tables import Codes, Numbers
from shoal.errors import InvalidArgumentError
from shoal.intervals.estimates import AnyEstimate, Estimate, Joined, KnownErrors, Piece
from shoal.mechanisms.base import Device
from shoal.mechanisms.estimators import Errors, expected_largest, largest_laplace
from shoal.planning import errors
from shoal.questions.domains import Cells, Domain, Sphere
from shoal.randomness import Randomness
from shoal.values import Array, Counts, Record

if TYPE_CHECKING:
    from shoal.estimate.tree import Tree
    from shoal.intervals.laws import Difference
    from shoal.mechanisms.estimators import AnswerEstimator
    from shoal.planning.planner import Setting
    from shoal.questions.settled import Settled

MOST_SETS = 1024
STEPS = (1, 2, 4, 8, 16)  # that numbers are rounded to, so many and one more

Of = Literal["counts", "sum", "means"]


def answers_of(device: Device) -> AnswerEstimator:
    """The estimator of a mechanism for answers."""
    return cast("AnswerEstimator", device.estimator)


class Scheme(ABC):
    """How a question becomes reports; its parameters are plain values."""

    name: ClassVar[str]
    of: ClassVar[Of] = "counts"  # what errors are of
    mixed: ClassVar[bool] = False  # whether several reports of one person are shuffled together
    means: ClassVar[bool] = False  # whether fractions are of cells that stand for numbers
    note: ClassVar[str] = ""  # what to know of a result, if there is anything
    # How many reports of each kind are others if somebody answers otherwise.
    rounds: ClassVar[int] = 1

    domains: tuple[Domain, ...]  # what each kind of report takes

    @property
    def total(self) -> int:
        """How many reports one person makes."""
        return len(self.domains)

    @property
    def counts(self) -> tuple[int, int] | None:
        """How many counts are estimated, and how many of them one person changes at most."""
        return None

    @property
    def words(self) -> str:
        """What the reports of one person are, if there are several."""
        return f"{self.total} reports"

    def errors(self, device: Device, setting: Setting) -> Errors:
        """Predicted errors of the question, if this device makes its reports of one kind.

        Counts of those who report are scaled by n/reporting, and who reports is chance: that adds
        n^2 (1/reporting - 1/n) times the spread of one person's answer to the squared error.
        """
        n, estimator = setting.n, device.parts.estimator
        if setting.crowd.participation == 1:
            return estimator.errors(n)
        own, scale = estimator.errors(setting.reporting), n / setting.reporting
        sampling = n**2 * (1 / setting.reporting - 1 / n) * setting.domain.spread
        l2 = math.hypot(scale * own.l2, math.sqrt(sampling))
        return Errors(l2, scale * own.linf * l2 / (scale * own.l2), scale * own.cell)

    def influence(self, device: Device) -> float | None:
        """The most that one dishonest person adds to one answer's count, or to the sum."""
        return device.influence

    def reports(self, devices: Sequence[Device]) -> tuple[Report, ...]:
        """What devices run on what is read of a person."""
        return tuple(map(Report, devices))

    @abstractmethod
    def estimate(self, devices: Sequence[Device], counts: Sequence[Counts]) -> AnyEstimate:
        """One estimate from the counts of all reports."""

    def joint_errors(self, devices: Sequence[Device], setting: Setting) -> Errors:
        """Predicted errors of the question, if devices run these for each kind of report."""
        return self.errors(devices[0], setting)

    def total_error(self, devices: Sequence[Device], setting: Setting, quantile: float) -> float:  # noqa: ARG002
        """Predicted error, in people, of the count up to a quantile of answers that are bins."""
        raise InvalidArgumentError("quantile", quantile, "a plan for answers (bins)")

    def to_dict(self) -> Record:
        """The name, and the parameters."""
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]  # a data class


@dataclass(frozen=True)
class Whole(Scheme):
    """One report says all of it."""

    name = "whole"

    domains: tuple[Domain, ...]  # the question's

    @property
    def of(self) -> Of:  # type: ignore[override]  # of the data
        """The counts of answers, or the sum of numbers."""
        return "counts" if self.domains[0].takes == "answers" else "sum"

    @property
    def counts(self) -> tuple[int, int] | None:
        """Of two answers one: the number of people is public."""
        k = self.domains[0].arguments.get("k")
        return None if k is None else (k, min(2, k - 1))

    def estimate(self, devices: Sequence[Device], counts: Sequence[Counts]) -> AnyEstimate:
        """The mechanism's own."""
        estimate: AnyEstimate = devices[0].parts.estimator.estimate(counts[0])
        return estimate

    def total_error(self, devices: Sequence[Device], setting: Setting, quantile: float) -> float:
        """Of the first answers, which this part of the people give."""
        checks.open_probability(quantile=quantile)
        checks.refuse(self.counts is None, "a plan for answers (bins)", quantile=quantile)
        return errors.of_total(devices[0], setting, quantile)

    def to_dict(self) -> Record:
        """The name: the domain is the question's."""
        return {"name": self.name}

    def __str__(self) -> str:
        return str(self.domains[0])


# ------------------------------------------------------------------------- any of several answers


def _selected(label: int, values: Codes, bits: Randomness) -> Codes:  # noqa: ARG001
    """1 for a set that has a label, else 0."""
    return values >> label & 1


@dataclass(frozen=True)
class OfSets(Scheme):
    """Of k labels of which one person selects so many at ``most``."""

    k: int
    most: int

    def __str__(self) -> str:
        some = "any" if self.most == self.k else f"at most {self.most}"
        return f"{some} of {self.k} answers"


@dataclass(frozen=True)
class EachLabel(OfSets):
    """Whether each of k labels is selected, by a report of its own.

    Two sets of at most m labels differ in at most min(k, 2m) of them. All other reports have the
    same law, whoever sends them: only so many curves compose.
    """

    name = "label by label"

    @property
    def domains(self) -> tuple[Domain, ...]:  # type: ignore[override]  # of the parameters
        """Selected or not."""
        return (Cells(2),)

    @property
    def rounds(self) -> int:  # type: ignore[override]  # of the parameters
        """In so many labels two sets differ."""
        return min(self.k, 2 * self.most)

    @property
    def total(self) -> int:
        """One for each label."""
        return self.k

    @property
    def words(self) -> str:
        """How many labels there are, and how many may differ."""
        differ = f", {self.rounds} of which differ" * (self.rounds < self.k)
        return f"{self.k} labels by themselves{differ}"

    @property
    def note(self) -> str:  # type: ignore[override]  # of the parameters
        """That there are several reports."""
        return f"everybody sends {self.k} reports, one for each label"

    def errors(self, device: Device, setting: Setting) -> Errors:
        """Of the counts of all labels, half of the people in each."""
        both = super().errors(device, setting)
        one, estimator = both.l2 / math.sqrt(2), device.estimator
        largest = expected_largest(np.full(self.k, one))
        if getattr(estimator, "laplace", False):
            largest = one * largest_laplace(self.k)
        return Errors(math.sqrt(self.k) * one, largest, both.cell)

    def reports(self, devices: Sequence[Device]) -> tuple[Report, ...]:
        """The same for each label."""
        (device,) = devices
        return tuple(Report(device, partial(_selected, label)) for label in range(self.k))

    def estimate(self, devices: Sequence[Device], counts: Sequence[Counts]) -> Joined:
        """The fractions of people who selected each label."""
        (device,) = devices
        pieces = [Piece(device.estimate(each), (1,)) for each in counts]
        return Joined.of(pieces, n=counts[0].n)


@dataclass(frozen=True)
class EachSlot(OfSets):
    """At most m of k labels, each by a report of its own, all of them in one histogram.

    Any of the m reports may be another if somebody selects others.
    """

    name = "slot by slot"
    mixed = True

    @property
    def domains(self) -> tuple[Domain, ...]:  # type: ignore[override]  # of the parameters
        """A label, or nothing."""
        return (Cells(self.k + 1),)

    @property
    def rounds(self) -> int:  # type: ignore[override]  # of the parameters
        """All of them."""
        return self.most

    @property
    def total(self) -> int:
        """One for each slot."""
        return self.most

    @property
    def words(self) -> str:
        """How many slots there are."""
        return f"{self.most} slots of one label each"

    @property
    def note(self) -> str:  # type: ignore[override]  # of the parameters
        """That there are several reports."""
        what = "a label or nothing" if self.most == 1 else "each of a label or nothing"
        return f"everybody sends {self.most} reports, {what}"

    def errors(self, device: Device, setting: Setting) -> Errors:
        """Of the counts of all labels, all slots being spread evenly."""
        n, parts, k, m = setting.n, setting.reporting, self.k, self.most
        own, scale = device.estimator.errors(parts * m), n / parts
        fraction = m / (k + 1)  # of people with a label
        chance = n**2 * (1 / parts - 1 / n) * k * fraction * (1 - fraction)
        l2 = math.hypot(scale * own.l2 * math.sqrt(k / (k + 1)), math.sqrt(chance))
        return Errors(l2, scale * own.linf * l2 / (scale * own.l2), scale * own.cell)

    def influence(self, device: Device) -> float | None:
        """All slots say the same label."""
        return None if device.influence is None else self.most * device.influence

    def reports(self, devices: Sequence[Device]) -> tuple[Report, ...]:
        """As many reports of everybody as there are slots."""
        (device,) = devices
        return (Report(device, self.slots, self.most),)

    def slots(self, values: Codes, bits: Randomness) -> Codes:  # noqa: ARG002
        """The selected labels of each set, side by side, and "nothing" in slots left over."""
        missing = (values[:, None] >> np.arange(self.k) & 1) == 0
        places = np.argsort(missing, axis=1, kind="stable")[:, : self.most]
        empty = np.take_along_axis(missing, places, axis=1)
        return np.where(empty, self.k, places).ravel()

    def estimate(self, devices: Sequence[Device], counts: Sequence[Counts]) -> Joined:
        """The fractions of people who selected each label."""
        (device,), (sent,) = devices, counts
        piece = Piece(device.estimate(sent), tuple(range(self.k)), times=self.most)
        return Joined.of([piece], n=sent.n // self.most)


def sets(k: int, most: int) -> Codes:
    """The sets of at most so many of k labels, as sums of 2^label, in rising order.

    >>> sets(3, 1).tolist()
    [0, 1, 2, 4]
    """
    codes = np.arange(1 << k, dtype=np.int64)
    members = (codes[:, None] >> np.arange(k) & 1).sum(axis=1)
    return np.asarray(codes[members <= most])


def set_count(k: int, most: int) -> int:
    """How many sets of at most so many of k labels there are."""
    return sum(math.comb(k, size) for size in range(most + 1))


@dataclass(frozen=True)
class WholeSet(OfSets):
    """One report of which labels are selected: every allowed set is an answer of its own."""

    name = "as a set"

    @property
    def domains(self) -> tuple[Domain, ...]:  # type: ignore[override]  # of the parameters
        """The sets."""
        return (Cells(set_count(self.k, self.most)),)

    @property
    def _size(self) -> int:
        """How many sets have a label."""
        return set_count(self.k - 1, self.most - 1)

    def errors(self, device: Device, setting: Setting) -> Errors:
        """Of the counts of all labels, all sets having as many people."""
        n, parts, estimator = setting.n, setting.reporting, answers_of(device)
        size, fraction = self._size, self._size / set_count(self.k, self.most)
        noise = estimator.total_variance(size, fraction, n=parts)
        chance = (1 / parts - 1 / n) * fraction * (1 - fraction)
        one = n * math.sqrt(noise + chance)
        cell = n * math.sqrt(estimator.total_variance(size, 0.0, n=parts))
        return Errors(math.sqrt(self.k) * one, expected_largest(np.full(self.k, one)), cell)

    def influence(self, device: Device) -> float | None:  # noqa: ARG002
        """Not known: what one report adds to all sets with a label."""
        return None

    def reports(self, devices: Sequence[Device]) -> tuple[Report, ...]:
        """One report."""
        (device,) = devices
        return (Report(device, self.numbers),)

    def numbers(self, values: Codes, bits: Randomness) -> Codes:  # noqa: ARG002
        """Where each set is among those of so many labels at most."""
        return np.asarray(np.searchsorted(sets(self.k, self.most), values), dtype=np.int64)

    def estimate(self, devices: Sequence[Device], counts: Sequence[Counts]) -> Estimate:
        """The fractions of people who selected each label: totals of the sets that have it."""
        (device,), (sent,) = devices, counts
        members = sets(self.k, self.most)[:, None] >> np.arange(self.k) & 1
        estimate = device.estimate(sent)
        totals = estimate.unbiased @ members
        return answers_of(device).sums(estimate, totals, members.sum(axis=0))


# --------------------------------------------------------------------------------- a tree of bins


@dataclass(frozen=True)
class Levels(Scheme):
    """Bins on every level of a tree, in nodes of so many ``sizes``: one report for each level."""

    name = "tree"

    cells: int
    bins: int
    sizes: tuple[int, ...]

    @property
    def domains(self) -> tuple[Domain, ...]:  # type: ignore[override]  # of the parameters
        """The nodes of each level."""
        return tuple(Cells(nodes + self.cells - self.bins) for nodes in self.nodes)

    @property
    def nodes(self) -> tuple[int, ...]:
        """How many nodes of bins each level has."""
        return tuple(-(-self.bins // size) for size in self.sizes)

    @property
    def words(self) -> str:
        """How many levels there are."""
        return f"{len(self.sizes)} levels of a tree"

    def __str__(self) -> str:
        return f"one of {self.cells:,} answers, on {self.words}"

    def joint_errors(self, devices: Sequence[Device], setting: Setting) -> Errors:
        """Of the counts of all answers."""
        tree = self.tree(devices, setting.n)
        one = np.sqrt(tree.variance(np.eye(self.cells)))
        root = float(np.sqrt(np.mean(one**2)))
        return Errors(math.sqrt(self.cells) * root, expected_largest(one), root)

    def total_error(self, devices: Sequence[Device], setting: Setting, quantile: float) -> float:
        """Of the first bins, as many as hold this part of people who are spread evenly."""
        from shoal.estimate.tree import totals

        checks.open_probability(quantile=quantile)
        stop = np.array([min(max(round(quantile * self.bins), 1), self.bins - 1)])
        weights = totals(self.cells, np.zeros(1, dtype=np.int64), stop)
        return math.sqrt(float(self.tree(devices, setting.n).variance(weights)[0]))

    def tree(self, devices: Sequence[Device], n: int) -> Tree:
        """The nodes, and the variances of their counts of n people."""
        from shoal.estimate.tree import Tree

        variances = [law.variance for law in self.laws(devices, n)]
        return Tree.of(self.bins, self.cells, self.sizes, variances)

    @staticmethod
    def laws(devices: Sequence[Device], n: int) -> list[Difference]:
        """Of the errors of the counts of each level."""
        return [cast("Difference", answers_of(device).error(n)) for device in devices]

    def reports(self, devices: Sequence[Device]) -> tuple[Report, ...]:
        """One for each level, the finest first."""
        levels = zip(devices, self.sizes, strict=True)
        return tuple(Report(device, partial(self.merged, size)) for device, size in levels)

    def merged(self, size: int, values: Codes, bits: Randomness) -> Codes:  # noqa: ARG002
        """The node of so many bins that each is in; answers behind the bins have their own."""
        first = -(-self.bins // size) - self.bins
        return np.where(values < self.bins, values // size, values + first)

    def estimate(self, devices: Sequence[Device], counts: Sequence[Counts]) -> Estimate:
        """One estimate of the bins from those of all levels."""
        from shoal.estimate.tree import TreeEstimate

        n, levels = counts[0].n, zip(devices, counts, strict=True)
        estimates = [cast("KnownErrors", device.estimate(each)) for device, each in levels]
        people = [each.people.astype(np.float64) for each in estimates]
        return TreeEstimate.from_levels(self.tree(devices, n), people, self.laws(devices, n), n=n)


# ---------------------------------------------------- numbers of groups, or that may be missing


@dataclass(frozen=True)
class Rounded(Scheme):
    """Numbers rounded at random to so many steps, in so many groups: the cells of a histogram.

    Every group has a cell more for those without a number, if there are any.
    """

    name = "rounded"
    of = "means"
    means = True

    low: float
    high: float
    steps: int
    groups: int = 1
    none: bool = False

    @property
    def domains(self) -> tuple[Domain, ...]:  # type: ignore[override]  # of the parameters
        """A step of a group."""
        return (Cells(self.groups * self.width),)

    def __str__(self) -> str:
        groups = f", in {self.groups} groups" * (self.groups > 1)
        return f"a number from {self.low:.15g} to {self.high:.15g}{groups}"

    @property
    def width(self) -> int:
        """Cells of one group."""
        return self.steps + 1 + self.none

    @property
    def note(self) -> str:  # type: ignore[override]  # of the parameters
        """How numbers are sent."""
        return f"numbers are rounded at random to {self.steps + 1} values between the bounds"

    @property
    def cells(self) -> list[Codes]:
        """The cells of the numbers of each group."""
        steps = np.arange(self.steps + 1)
        return [steps + group * self.width for group in range(self.groups)]

    @cached_property
    def scores(self) -> Array:
        """The numbers of the steps."""
        return np.linspace(self.low, self.high, self.steps + 1)

    def errors(self, device: Device, setting: Setting) -> Errors:
        """Of a group's mean, times n: people are spread evenly over groups, numbers over steps."""
        from shoal.estimate.means import predicted

        inner = np.ones(self.steps + 1)
        inner[[0, -1]] = 0.5
        fractions = np.zeros((self.groups, self.width))
        fractions[:, : self.steps + 1] = inner / self.steps / self.groups
        n, parts = setting.n, setting.reporting
        # All groups are alike, and one is faster.
        (noise,) = predicted(
            answers_of(device),
            self.cells[:1],
            [self.scores],
            frequencies=fractions.ravel(),
            n=parts,
        )
        # Of numbers spread evenly rounding adds a sixth of a step squared, who reports its chance.
        rounding = ((self.high - self.low) / self.steps) ** 2 / 6 * self.groups / parts
        chance = (1 / parts - 1 / n) * self.groups * (self.high - self.low) ** 2 / 12
        one = math.sqrt(noise**2 + rounding + chance)
        largest = expected_largest(np.full(self.groups, one))
        return Errors(n * one, n * largest, n * one)

    def influence(self, device: Device) -> float | None:  # noqa: ARG002
        """Not known."""
        return None

    def reports(self, devices: Sequence[Device]) -> tuple[Report, ...]:
        """One report."""
        (device,) = devices
        return (Report(device, self.rounded),)

    def rounded(self, values: Numbers, bits: Randomness) -> Codes:
        """The cell of each number's group and of the step that it is rounded to, on average right.

        Rows without a number have a cell of their own, in every group.
        """
        from shoal.mechanisms.grid import rounded

        groups, numbers = values[:, 0].astype(np.int64), values[:, 1]
        there = ~np.isnan(numbers)
        codes: Codes = np.full(numbers.size, self.steps + 1)
        bounded = np.clip(numbers[there], self.low, self.high)
        codes[there] = rounded(bounded, self.low, self.high, self.steps, bits)
        return groups * self.width + codes

    def estimate(self, devices: Sequence[Device], counts: Sequence[Counts]) -> AnyEstimate:
        """The fractions of people in each cell."""
        estimate: AnyEstimate = devices[0].estimate(counts[0])
        return estimate


# --------------------------------------------------------------------------------- the schemes of


def schemes(settled: Settled) -> tuple[Scheme, ...]:
    """How a question may become reports; the first is what a mechanism by its name runs in."""
    coding: Any = settled.coding
    if coding is not None and coding.several:
        k, most = len(coding.labels), coding.most
        ways: list[Scheme] = [EachLabel(k, most)]
        if most < k:
            ways.append(EachSlot(k, most))
        if set_count(k, most) <= MOST_SETS:
            ways.append(WholeSet(k, most))
        return tuple(ways)
    if coding is not None and coding.reads == "placed":
        return tuple(_rounded(settled, steps) for steps in STEPS)
    return (Whole((settled.domain,)),)


def _rounded(settled: Settled, steps: int) -> Rounded:
    bounds = settled.domain.arguments
    groups = 1 if settled.groups is None else len(settled.groups.labels)
    return Rounded(**bounds, steps=steps, groups=groups, none=settled.question.none)


def fitting(settled: Settled, device: Device) -> tuple[Scheme, Device]:
    """The scheme in which a mechanism takes the reports of a question, and it as it takes them."""
    ways = schemes(settled)
    if ways[0].means:
        first = _rounded(settled, 1)
        k = device.domain.arguments.get("k", 0) / first.groups
        if k % 1 == 0 and k > first.width:
            ways = (_rounded(settled, int(k) - 1 - first.none),)
    for way in ways:
        (domain,) = way.domains
        made = device.fitted(domain)
        if made.domain.accepts(domain):
            return way, made
    (domain,) = ways[0].domains
    raise mismatch(settled, device.domain, domain, directions=isinstance(device.domain, Sphere))


def mismatch(
    settled: Settled, own: Domain, domain: Domain, *, directions: bool = False
) -> InvalidArgumentError:
    """The error for a mechanism that is for other data than a question has.

    One for ``directions`` takes shorter vectors with a coordinate more.
    """
    added = " and ".join([settled.listed, *settled.labels[settled.known :]])
    why = f" ({added})" if domain.takes == "answers" else ""
    also = ""
    if directions and domain.takes == "vectors":
        also = f" (or for {Sphere(domain.coordinates + 1)})"
    expected = f"a plan or mechanism for {domain}{also}, which {settled.name} has{why}"
    return InvalidArgumentError("mechanism", str(own), expected)


def restored(stored: Mapping[str, Any], settled: Settled) -> Scheme:
    """The scheme of a plan that was saved; it has to be one of the question's."""
    name = stored.get("name")
    if name == Levels.name and settled.edges is not None:
        sizes = tuple(checks.count(sizes=each) for each in stored["sizes"])
        rising = all(size < len(settled.edges) for size in sizes) and sizes[:1] == (1,)
        checks.refuse(not rising, "sizes of nodes from 1 on", sizes=sizes)
        return Levels(len(settled.labels), len(settled.edges), sizes)
    for way in schemes(settled):
        if way.to_dict() == dict(stored):
            return way
    raise InvalidArgumentError("scheme", name, f"one for {settled.question}")
