"""What one person's messages look like: as declared, and as single devices really send them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from shoal.auditing import messages, parts
from shoal.auditing.data import DataSet, Neighbours
from shoal.auditing.messages import Binned, Bits, Buckets, Coder, Distinct, Numbered, Raw
from shoal.auditing.running import Sampler
from shoal.auditing.subjects import Listed
from shoal.errors import InvalidArgumentError
from shoal.protocols.base import NumberedEnvelopes
from shoal.protocols.hashed import HashedDummies
from shoal.randomizers.base import CategoryRandomizer, NumberedMessages
from shoal.randomizers.grid import GridRandomizer
from shoal.randomizers.hashing import LocalHashing, fingerprints
from shoal.randomizers.partitioned import PartitionedResponse
from shoal.randomizers.subset import SubsetSelection
from shoal.randomizers.unary import UnaryEncoding
from shoal.randomizers.vectors import CapRandomizer
from shoal.values import Array

DECLARED, LEARNED = "declared", "learned"
_LARGEST_NUMBERED = 1 << 16
_IMPOSSIBLE = 1e-15
_STEEPEST = 10.0


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Likelihoods of each code under each input, from each source.

    Those declared may miss a factor that depends on the code only: nothing here depends on it.
    """

    inputs: tuple[Hashable, ...]
    coder: Coder
    likelihoods: dict[str, Array]

    @property
    def unread(self) -> float:
        """The share of messages that are all alike to the coder, as it never saw them before."""
        return self.coder.unread if isinstance(self.coder, Distinct) else 0.0

    def ratios(self, source: str, neighbours: Neighbours) -> tuple[Array, Array]:
        """R_0/R* and R_1/R* of each code, R* being the mixture of what the others hold."""
        rows = np.maximum(self.likelihoods[source], _IMPOSSIBLE)
        mixed = neighbours.shares(self.inputs) @ rows
        first, second = (self.inputs.index(x) for x in (neighbours.first, neighbours.second))
        return rows[first] / mixed, rows[second] / mixed

    def score(self, source: str, neighbours: Neighbours) -> Array:
        """The privacy loss of one message by itself, cut off."""
        over, under = self.ratios(source, neighbours)
        return np.clip(np.log(over / under), -_STEEPEST, _STEEPEST)

    def promise(self, neighbours: Neighbours) -> float:
        """The variance of the privacy loss to leading order: how much there is to be seen."""
        rows = self.likelihoods[LEARNED]
        first, second = (rows[self.inputs.index(x)] for x in (neighbours.first, neighbours.second))
        # A message that nobody else sends tells no more than that it is there.
        own = (first + second) / (2 * (len(neighbours.others) + 1))
        mixed = neighbours.shares(self.inputs) @ rows
        return float(((first - second) ** 2 / (mixed + own)).sum())


def learned(
    sampler: Sampler, inputs: tuple[Hashable, ...], declared: object, *, size: int, n: int
) -> Knowledge:
    """Messages of single devices for every input; of whole crowds that hold it, if need be."""
    samples = [single_messages(sampler, x, size, n) for x in inputs]
    coder = _coder(declared, inputs, samples)
    rows = np.array([np.bincount(coder(found), minlength=coder.size) for found in samples])
    smooth = rows + 0.5
    likelihoods = {LEARNED: smooth / smooth.sum(axis=1, keepdims=True)}
    known = _declared(declared, inputs, coder)
    if known is not None:
        likelihoods = {DECLARED: known, **likelihoods}
    return Knowledge(inputs, coder, likelihoods)


def single_messages(sampler: Sampler, x: Hashable, size: int, n: int) -> Raw:
    """What devices that hold x send; what crowds send who all hold it, if need be."""
    crowd = 1 if sampler.subject.alone else n
    data = DataSet((x,) * crowd)
    found = sampler.seen(data, -(-size // crowd), in_order=False)
    return found.messages


def seen_rates(declared: object, inputs: tuple[Hashable, ...], samples: Sequence[Raw]) -> Array:
    """How often each code was seen for each input; each answer that is supported, if any are."""
    if _supporting(declared, samples):
        return np.array([_supports(declared, inputs, sample) for sample in samples])
    coder = _coder(declared, inputs, samples)
    found = [np.bincount(coder(sample), minlength=coder.size) for sample in samples]
    return np.array(found, dtype=np.float64)


def _supporting(declared: object, samples: Sequence[Raw]) -> bool:
    kinds = SubsetSelection | UnaryEncoding | LocalHashing | HashedDummies
    return isinstance(declared, kinds) and all(map(_rows_of_bytes, samples))


def _supports(declared: object, inputs: tuple[Hashable, ...], sample: Raw) -> Array:
    """How many messages support each answer."""
    coders = (_coder(declared, (x,), [sample]) for x in inputs)
    return np.array([(coder(sample) & 1).sum() for coder in coders], dtype=np.float64)


def _coder(declared: object, inputs: tuple[Hashable, ...], samples: Sequence[Raw]) -> Coder:
    """The coder that fits the messages of a known mechanism, or one that fits what was seen."""
    together = messages.joined(samples)
    if isinstance(declared, SubsetSelection | UnaryEncoding) and _rows_of_bytes(together):
        ones = np.bitwise_count(together).sum(axis=1, dtype=np.int64)
        return Bits(_whole(inputs), int(np.median(ones)))
    if isinstance(declared, LocalHashing | HashedDummies) and _rows_of_bytes(together):
        keys = _whole(inputs) if declared.k is not None else fingerprints([*inputs]).tolist()
        buckets = declared.g if isinstance(declared, LocalHashing) else declared.buckets
        return Buckets(tuple(keys), buckets)
    if isinstance(declared, CapRandomizer) and together.ndim == 2:
        apart = np.subtract(inputs[0], inputs[1])  # type: ignore[call-overload]  # two vectors
        return _along(together, apart)
    numbered = isinstance(declared, NumberedMessages | NumberedEnvelopes | Listed)
    if numbered and together.dtype.kind in "iu" and together.ndim == 1:
        outputs = declared.outputs  # type: ignore[attr-defined]  # these have it
        if outputs <= _LARGEST_NUMBERED:
            return Numbered(outputs)
    return parts.fitted(samples)


def _along(together: Raw, direction: Array) -> Binned:
    return messages.binned(together, np.asarray(direction, dtype=np.float64))


def _declared(declared: object, inputs: tuple[Hashable, ...], coder: Coder) -> Array | None:
    """Likelihoods of the codes by the mechanism's own description."""
    if isinstance(coder, Numbered):
        rows = _table_rows(declared, inputs)
        return None if rows is None else np.column_stack([rows, np.zeros(len(rows))])
    if isinstance(coder, Bits | Buckets) and isinstance(declared, CategoryRandomizer):
        # A message that supports an answer is e^epsilon times likelier under it.
        places = np.arange(len(inputs))[:, None]
        supported = (np.arange(coder.size) >> places) & 1
        return np.asarray(np.exp(declared.local_epsilon * supported))
    return None


def _table_rows(declared: object, inputs: tuple[Hashable, ...]) -> Array | None:
    listing = CategoryRandomizer | GridRandomizer | PartitionedResponse | Listed
    if not isinstance(declared, listing):
        return None
    try:
        table = declared.table()
    except InvalidArgumentError:  # too large to be listed: what was learned has to do
        return None
    if not isinstance(declared, GridRandomizer):
        return np.array([table[x] for x in _whole(inputs)])
    span = declared.high - declared.low
    levels = [(float(x) - declared.low) / span * (len(table) - 1) for x in inputs]  # type: ignore[arg-type]  # numbers
    below = np.minimum(np.floor(levels), len(table) - 2).astype(np.intp)
    upwards = (np.array(levels) - below)[:, None]
    return np.asarray((1 - upwards) * table[below] + upwards * table[below + 1])


def _rows_of_bytes(found: Raw) -> bool:
    return found.dtype == np.uint8 and found.ndim == 2


def _whole(inputs: tuple[Hashable, ...]) -> tuple[int, ...]:
    return tuple(int(x) for x in inputs)  # type: ignore[call-overload]  # answers are numbers
