"""What a training run is proved to give away, by which route, and for which kind of sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from shoal.errors import ShoalError, UnreachableTargetError
from shoal.explain.text import down, plain, up

REPLACE = "replace-one"
ADD_OR_REMOVE = "add-or-remove-one"


class Sampling(StrEnum):
    """How a training loop picks the examples of a step."""

    PERMUTATION = "permutation"
    REPLACEMENT = "replacement"
    POISSON = "poisson"
    FIXED = "fixed"

    @property
    def words(self) -> str:
        """What the loop does, as a clause."""
        return {
            Sampling.PERMUTATION: "every epoch has a fresh random order, cut into batches",
            Sampling.REPLACEMENT: "every step draws its batch anew, all batches equally likely",
            Sampling.POISSON: "every step takes each example with the same chance, on its own",
            Sampling.FIXED: "every epoch uses each example once, in whatever order",
        }[self]

    @property
    def loader(self) -> str:
        """Which data loader does it."""
        return {
            Sampling.PERMUTATION: "DataLoader(shuffle=True)",
            Sampling.REPLACEMENT: "RandomSampler, replacement",
            Sampling.POISSON: "Opacus DPDataLoader",
            Sampling.FIXED: "DataLoader(shuffle=False)",
        }[self]


@dataclass(frozen=True)
class Route:
    """One way to an epsilon: the number, or None and the reason why there is none."""

    name: str
    epsilon: float | None
    remark: str = ""

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return {"name": self.name, "epsilon": self.epsilon, "remark": self.remark}


@dataclass(frozen=True, kw_only=True)
class LearningGuarantee:
    """(epsilon, delta) of all iterates of a training run, an upper bound, and what it assumes.

    ``local`` is the epsilon, at the same delta, of one step seen by somebody who knows whose
    examples it used. ``lower`` is a number that no better analysis of the same run can go below,
    0 where none is known; it is computed when first asked for.
    """

    epsilon: float
    delta: float
    sampling: Sampling
    theorem: str
    neighbouring: str
    n: int
    batch: int
    epochs: int
    steps: int
    noise_multiplier: float
    local: float
    routes: tuple[Route, ...]
    assumptions: tuple[str, ...]
    lower_bound: Callable[[], float] = field(default=lambda: 0.0, repr=False, compare=False)

    @cached_property
    def lower(self) -> float:
        """How far any better analysis of the same run could still go."""
        return min(self.lower_bound(), self.epsilon)

    def assuming(self, *assumptions: str) -> LearningGuarantee:
        """The same guarantee, which rests on these assumptions as well."""
        return replace(self, assumptions=(*self.assumptions, *assumptions))

    @property
    def words(self) -> str:
        """The guarantee in one sentence."""
        run = f"{counted(self.epochs, 'epoch')} over {counted(self.n, 'example')}"
        proved = f"({up(self.epsilon)}, {plain(self.delta)})-differentially private"
        return (
            f"everything published during {run} is {proved} ({self.neighbouring}) if "
            f"{self.sampling.words}"
        )

    def to_dict(self) -> dict[str, object]:
        """Plain values, as the command line's ``--json`` prints them."""
        return {
            "epsilon": self.epsilon,
            "lower": self.lower,
            "delta": self.delta,
            "sampling": self.sampling.value,
            "theorem": self.theorem,
            "neighbouring": self.neighbouring,
            "n": self.n,
            "batch": self.batch,
            "epochs": self.epochs,
            "steps": self.steps,
            "noise_multiplier": self.noise_multiplier,
            "local": self.local,
            "routes": [route.to_dict() for route in self.routes],
            "assumptions": list(self.assumptions),
        }

    def lines(self) -> list[tuple[str, str]]:
        """What a reader should know, labelled."""
        size = f"{self.n:,} in batches of {self.batch:,}" if self.batch > 1 else f"{self.n:,}"
        passes = f"{counted(self.epochs, 'epoch')}, {counted(self.steps, 'step')}"
        return [
            ("epsilon", f"{up(self.epsilon)} at delta {up(self.delta)}  (proved upper bound)"),
            *([("no analysis below", down(self.lower))] if self.lower > 0 else []),
            ("examples", f"{size}; {passes}"),
            ("noise multiplier", plain(self.noise_multiplier)),
            ("sampling", f"{self.sampling}: {self.sampling.words}"),
            ("theorem", self.theorem),
            ("neighbours", self.neighbouring),
            ("one step alone", f"epsilon {up(self.local)} at the same delta, without any sampling"),
            *(("assumes", assumption) for assumption in self.assumptions),
        ]

    def __str__(self) -> str:
        """One readable block."""
        width = max(len(label) for label, _ in self.lines())
        return "\n".join(f"{label:<{width}}  {text}" for label, text in self.lines())


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A kind of sampling that has no guarantee in a comparison, and the error that says why."""

    sampling: Sampling
    neighbouring: str
    error: ShoalError
    epsilon: None = None

    @property
    def remark(self) -> str:
        """The reason in a few words."""
        if isinstance(self.error, UnreachableTargetError):
            return self.error.reason
        return "the batch does not divide n"

    def __str__(self) -> str:
        return f"{self.sampling}: {self.error}"


def counted(count: int, what: str) -> str:
    """So many of something.

    >>> counted(1, "example"), counted(2000, "example")
    ('1 example', '2,000 examples')
    """
    return f"{count:,} {what}" + ("" if count == 1 else "s")
