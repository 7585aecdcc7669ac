"""A training run: how its steps come by their examples, and which data loader does that.

Loaders and samplers are told apart by the names of their classes, so that one guarantee is not
passed off as another: PyTorch is not imported. A loader of one's own names what it does in an
attribute ``sampling``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict

from shoal import checks
from shoal.accounting.guarantee import default_delta
from shoal.errors import InvalidArgumentError
from shoal.explain.text import plural

REPLACE = "replace-one"
ADD_OR_REMOVE = "add-or-remove-one"
_MOST_NOISE = 1e9  # more is accounted for as if it were no more: ratios lose their digits


class Sampling(StrEnum):
    """How a training loop picks the examples of a step.

    Attributes:
        PERMUTATION: A fresh random order every epoch, in batches.
        REPLACEMENT: Every step draws its batch anew, all batches equally likely.
        POISSON: Every example is in a step with the same probability, independently.
        FIXED: Any order: no amplification.

    Example:
        >>> Sampling("permutation").words
        'every epoch has a fresh random order, cut into batches'
    """

    PERMUTATION = "permutation"
    REPLACEMENT = "replacement"
    POISSON = "poisson"
    FIXED = "fixed"

    @classmethod
    def _missing_(cls, value: object) -> Sampling:
        raise InvalidArgumentError("sampling", value, f"sampling to be one of {', '.join(cls)}")

    @property
    def words(self) -> str:
        """What the loop does, as a clause."""
        return {
            Sampling.PERMUTATION: "every epoch has a fresh random order, cut into batches",
            Sampling.REPLACEMENT: "every step draws its batch anew, all batches equally likely",
            Sampling.POISSON: "every step takes each example with the same probability, on its own",
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


class RunOptions(TypedDict, total=False):
    """What every question about a run takes: defaults are those of a Run.

    ``delta`` is min(1e-6, 1/(10 n)) unless it is given; ``drop_last`` leaves examples that do not
    fill a batch out.
    """

    epochs: int
    batch: int
    delta: float | None
    drop_last: bool


@dataclass(frozen=True)
class Run:
    """So many epochs over n examples in batches, at a delta; :meth:`of` checks what users pass."""

    noise_multiplier: float
    n: int
    epochs: int
    batch: int
    delta: float
    sampling: Sampling
    neighbouring: str
    drop_last: bool

    @classmethod
    def of(
        cls,
        noise_multiplier: float | None,
        n: int,
        sampling: Sampling | str = Sampling.PERMUTATION,
        neighbouring: str | None = None,
        *,
        epochs: int = 1,
        batch: int = 1,
        delta: float | None = None,
        drop_last: bool = False,
    ) -> Run:
        """A run that makes sense; without a noise multiplier, one whose noise is still open."""
        noise = 1.0 if noise_multiplier is None else noise_multiplier
        checks.positive(noise_multiplier=noise)
        n, batch, epochs = checks.count(n=n), checks.count(batch=batch), checks.count(epochs=epochs)
        delta = default_delta(n) if delta is None else delta
        checks.open_probability(delta=delta)
        kind = Sampling(sampling)
        checks.refuse(batch > n, f"batch <= n = {n} examples", batch=batch)
        if kind is Sampling.PERMUTATION and not drop_last:
            _require_whole(n, batch)
        covered = (ADD_OR_REMOVE, REPLACE) if kind is Sampling.POISSON else (REPLACE,)
        expected = f"neighbouring to be {' or '.join(covered)} for sampling '{kind}'"
        checks.refuse(neighbouring not in (None, *covered), expected, neighbouring=neighbouring)
        neighbours = neighbouring or covered[0]
        return cls(float(noise), n, epochs, batch, delta, kind, neighbours, drop_last)

    def require_permuted(self, n: int) -> None:
        """Refuse n examples in fresh orders, cut into whole batches, if this is about another run.

        What holds for a fixed order holds for every one, and for examples left out as well.
        """
        expected = f"a guarantee for n = {n}, as many as there are examples"
        checks.refuse(self.n != n, expected, n=self.n)
        holds = (Sampling.PERMUTATION, Sampling.FIXED)
        expected = (
            "a guarantee for the permuted examples of training: sampling permutation or fixed"
        )
        checks.refuse(self.sampling not in holds, expected, sampling=self.sampling.value)
        if not self.drop_last:
            _require_whole(n, self.batch)

    @property
    def noise(self) -> float:
        """The deviation of the noise over the clipping norm, as far as it is counted on."""
        return min(self.noise_multiplier, _MOST_NOISE)

    @property
    def moved(self) -> int:
        """How far one example moves the sum of a batch, in clipping norms."""
        return 1 if self.neighbouring == ADD_OR_REMOVE else 2

    @property
    def blocks(self) -> int:
        """Whole batches in an epoch."""
        return self.n // self.batch

    @property
    def steps(self) -> int:
        """All steps; a batch left over is a step too, unless it is dropped."""
        return self.epochs * (self.blocks if self.drop_last else -(-self.n // self.batch))

    @property
    def reach(self) -> float:
        """How far the sum of a block may be from 0, over the deviation of the noise."""
        return self.batch / self.noise

    @property
    def each(self) -> float:
        """The delta of one epoch, for choosing what is free in a route."""
        return self.delta / self.epochs


def _require_whole(n: int, batch: int) -> None:
    if n % batch:
        left = f"{plural(n % batch, 'example')} would be a crowd apart"
        expected = f"batch to divide n = {n}, or drop_last=True: {left}"
        raise InvalidArgumentError("batch", batch, expected)


_LOADERS: dict[str, Sampling | None] = {
    "DPDataLoader": Sampling.POISSON,
    "UniformWithReplacementSampler": Sampling.POISSON,
    "DistributedUniformWithReplacementSampler": Sampling.POISSON,
    "SequentialSampler": Sampling.FIXED,
    "RandomSampler": Sampling.PERMUTATION,  # or with replacement, if it says so
    "SubsetRandomSampler": Sampling.PERMUTATION,
    "WeightedRandomSampler": None,
}
_STATE_IT = "give it an attribute sampling = 'permutation', 'replacement', 'poisson' or 'fixed'"


def sampling_of(loader: object) -> Sampling:
    """The kind of sampling that a loader or sampler of PyTorch or Opacus does.

    Args:
        loader: The loader or sampler; or anything with a ``sampling`` that names a
            kind.

    Returns:
        The kind.

    Raises:
        InvalidArgumentError: Weights (examples seen more often are protected less), a
            left-over batch of permuted examples (drop it), repetitions within a batch,
            and whatever is not known.

    Example:
        >>> class Loader:
        ...     sampling = "poisson"
        >>> str(sampling_of(Loader()))
        'poisson'
    """
    batches = getattr(loader, "batch_sampler", None)
    samplers = (batches, getattr(batches, "sampler", None), getattr(loader, "sampler", None))
    for part in (loader, *samplers):
        stated, name = getattr(part, "sampling", None), type(part).__name__
        if isinstance(stated, str):
            return Sampling(stated)
        if name not in _LOADERS:
            continue
        kind = _LOADERS[name]
        if kind is None:
            expected = "equal probabilities for all examples: no guarantee here covers weights"
            raise InvalidArgumentError("sampler", name, expected)
        return _in_random_order(loader, part) if kind is Sampling.PERMUTATION else kind
    expected = f"a loader whose sampling is known, or {_STATE_IT}"
    raise InvalidArgumentError("loader", type(loader).__name__, expected)


def require(loader: object, sampling: Sampling | str) -> None:
    """Raise unless the loader does the kind of sampling that a guarantee is for.

    Args:
        loader: As for :func:`shoal.learning.sampling_of`.
        sampling: The kind that the guarantee is for.

    Raises:
        InvalidArgumentError: It does another, or nobody knows which.

    Example:
        >>> class Loader:
        ...     sampling = "poisson"
        >>> require(Loader(), "poisson")
    """
    wanted, actual = Sampling(sampling), sampling_of(loader)
    expected = (
        f"a loader with sampling {wanted} ({wanted.loader}): a guarantee for {wanted} says "
        f"nothing about {actual}, so account with sampling='{actual}' or change the loader"
    )
    checks.refuse(actual is not wanted, expected, loader=f"{type(loader).__name__} ({actual})")


def _in_random_order(loader: object, sampler: object) -> Sampling:
    """A permutation, or drawn with replacement; a bare sampler makes batches of one."""
    batches = getattr(loader, "batch_sampler", None)
    batch = getattr(loader, "batch_size", None) or getattr(batches, "batch_size", None) or 1
    indices = getattr(sampler, "indices", None)
    source = getattr(sampler, "data_source", indices)
    size = len(source) if isinstance(source, Sized) else None
    drawn = getattr(sampler, "num_samples", None)
    expected = f"num_samples to be the {size} examples: as many steps as are accounted for"
    checks.refuse(None not in (drawn, size) and drawn != size, expected, num_samples=drawn)
    if getattr(sampler, "replacement", False):
        expected = "batches of one with replacement: in larger ones an example may be repeated"
        checks.refuse(batch != 1, expected, batch_size=batch)
        return Sampling.REPLACEMENT
    if size:
        again = isinstance(indices, Iterable) and len({int(i) for i in indices}) < size
        expected = "every example once an epoch: some indices are repeated"
        checks.refuse(again, expected, indices=f"{size} indices")
        drops = getattr(loader, "drop_last", False) or getattr(batches, "drop_last", False)
        expected = f"drop_last=True: {size % batch} of {size} examples would be left over"
        checks.refuse(size % batch and not drops, expected, batch_size=batch)
    return Sampling.PERMUTATION
