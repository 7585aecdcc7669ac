"""Which kind of sampling a data loader does, so that one guarantee is not passed off as another.

Loaders and samplers are told apart by the names of their classes: PyTorch is not imported. A
loader of one's own says what it does in an attribute ``sampling``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from shoal.errors import InvalidArgumentError
from shoal.learning.accountant import sampling_named
from shoal.learning.guarantee import Sampling

_STATE_IT = "give it an attribute sampling = 'permutation', 'replacement', 'poisson' or 'fixed'"


def sampling_of(loader: object) -> Sampling:
    """The kind of sampling that a loader or sampler of PyTorch or Opacus does.

    Refused: weights (examples seen more often are protected less), a left-over batch of permuted
    examples (drop it), repetitions within a batch, and whatever is not known.
    """
    for part in _parts(loader):
        stated = getattr(part, "sampling", None)
        if isinstance(stated, str):
            return sampling_named(stated)
        read = _KNOWN.get(type(part).__name__)
        if read is not None:
            return read(loader, part)
    expected = f"a loader whose sampling is known, or {_STATE_IT}"
    raise InvalidArgumentError("loader", type(loader).__name__, expected)


def require(loader: object, sampling: Sampling | str) -> None:
    """Raise unless the loader does the kind of sampling that a guarantee is for."""
    wanted = sampling_named(sampling)
    found = sampling_of(loader)
    if found is not wanted:
        expected = (
            f"a loader with sampling {wanted} ({wanted.loader}): a guarantee for {wanted} says "
            f"nothing about {found}, so account with sampling='{found}' or change the loader"
        )
        raise InvalidArgumentError("loader", f"{type(loader).__name__} ({found})", expected)


def _parts(loader: object) -> Iterator[object]:
    """The loader and the samplers in it, the one that makes the batches first."""
    yield loader
    batches = getattr(loader, "batch_sampler", None)
    yield from (part for part in (batches, getattr(batches, "sampler", None)) if part is not None)
    if (sampler := getattr(loader, "sampler", None)) is not None:
        yield sampler


def _random(loader: object, sampler: object) -> Sampling:
    batch = _batch_size(loader)
    drawn, size = getattr(sampler, "num_samples", None), _size(sampler)
    if drawn is not None and size is not None and drawn != size:
        expected = f"num_samples to be the {size} examples: as many steps as are accounted for"
        raise InvalidArgumentError("num_samples", drawn, expected)
    if not getattr(sampler, "replacement", False):
        return _permutation(loader, sampler)
    if batch != 1:
        expected = "batches of one with replacement: in larger ones an example may be repeated"
        raise InvalidArgumentError("batch_size", batch, expected)
    return Sampling.REPLACEMENT


def _permutation(loader: object, sampler: object) -> Sampling:
    batch, size = _batch_size(loader), _size(sampler)
    listed = getattr(sampler, "indices", None)
    if size is not None and isinstance(listed, Iterable) and len({int(i) for i in listed}) < size:
        expected = "every example once an epoch: some indices are repeated"
        raise InvalidArgumentError("indices", f"{size} indices", expected)
    if size is not None and batch and size % batch and not _drops_last(loader):
        expected = f"drop_last=True: {size % batch} of {size} examples would be left over"
        raise InvalidArgumentError("batch_size", batch, expected)
    return Sampling.PERMUTATION


def _fixed(_loader: object, _sampler: object) -> Sampling:
    return Sampling.FIXED


def _poisson(_loader: object, _sampler: object) -> Sampling:
    return Sampling.POISSON


def _weighted(_loader: object, sampler: object) -> Sampling:
    expected = "equal chances for all examples: no guarantee here covers weights"
    raise InvalidArgumentError("sampler", type(sampler).__name__, expected)


def _batch_size(loader: object) -> int:
    """1 for a bare sampler."""
    found = getattr(loader, "batch_size", None)
    if found is None:
        found = getattr(getattr(loader, "batch_sampler", None), "batch_size", None)
    return found if isinstance(found, int) else 1


def _drops_last(loader: object) -> bool:
    batches = getattr(loader, "batch_sampler", None)
    return bool(getattr(loader, "drop_last", False) or getattr(batches, "drop_last", False))


def _size(sampler: object) -> int | None:
    """How many examples a sampler draws from."""
    for name in ("data_source", "indices"):
        found = getattr(sampler, name, None)
        if hasattr(found, "__len__"):
            return len(found)  # type: ignore[arg-type] # the line above asked
    return None


_KNOWN: dict[str, Callable[[object, object], Sampling]] = {
    "DPDataLoader": _poisson,
    "UniformWithReplacementSampler": _poisson,
    "DistributedUniformWithReplacementSampler": _poisson,
    "SequentialSampler": _fixed,
    "RandomSampler": _random,
    "SubsetRandomSampler": _permutation,
    "WeightedRandomSampler": _weighted,
}
