"""Open answers, the whole way: texts in, the most frequent ones out, with errors and guarantee."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shoal import checks
from shoal.accounting import amplification
from shoal.accounting.crowd import Crowd
from shoal.engines import LocalEngine, reading
from shoal.engines.timing import Clock, Progress, Tell
from shoal.errors import InvalidArgumentError
from shoal.estimate.hitters import HeavyHitters
from shoal.estimate.hitters import heavy_hitters as found_in
from shoal.open_results import OpenItem, OpenResult
from shoal.protocols.prefixes import (
    BETA,
    LENGTH,
    MESSAGES,
    PrefixCollector,
    PrefixDummies,
    PrefixResponse,
)
from shoal.protocols.strings import Alphabet
from shoal.randomizers.base import source
from shoal.randomness import Randomness
from shoal.results import RUN_HERE
from shoal.values import Counts

__all__ = ["OpenItem", "OpenResult", "heavy_hitters"]

TOP = 50
EMPTY = "(empty)"
NOT_PRIVATE = "true counts are included for comparison: this result is not private"
INCOMPLETE = "more prefixes stood out than could be followed: frequent answers may be missing"
_PIECE = 1 << 17
_KEYS = 10**15


def heavy_hitters(  # noqa: PLR0913 - a façade takes as many keywords as its users need
    data: object,
    *,
    column: str | None = None,
    epsilon: float,
    delta: float = amplification.DEFAULT_DELTA,
    top: int = TOP,
    length: int = LENGTH,
    alphabet: str | bytes | None = None,
    messages_cap: float = MESSAGES,
    single: bool = False,
    beta: float = BETA,
    honest_fraction: float = 1.0,
    compare_truth: bool = False,
    randomness: Randomness | None = None,
    progress: Tell | None = None,
) -> OpenResult:
    """Find the answers that many people gave, without a list of answers.

    ``data`` is a table or file with a ``column`` of text, one person per row, or else a list of
    texts. Rows without an answer count as the empty answer. Answers are cut to ``length`` bytes of
    UTF-8 and may have any characters, or those of the public ``alphabet`` only, which finds rarer
    ones. People send at most ``messages_cap`` messages on average, or one each if ``single``.

    With probability 1 - ``beta`` at least no answer found is one that nobody gave, and all answers
    of as many people as the result's threshold says are found, or the result notes that some may be
    missing. ``compare_truth`` adds the true counts, which makes the result not private.
    """
    size = checks.count(top=top)
    clock = Clock()
    with clock("read"):
        texts = _Texts.of(data, column)
        total = texts.size()
    with clock("plan"):
        honest = Crowd(total, honest_fraction).honest
        bits = source(randomness)
        key = int(bits.below(_KEYS, 1)[0])  # public, but unknown when people chose their answers
        asked = _Asked(honest, epsilon, delta, length, alphabet, beta, key)
        mechanism = asked.single() if single else asked.several(messages_cap)
    with clock("account"):
        guarantee = amplification.amplify(
            mechanism, n=total, delta=delta, honest_fraction=honest_fraction
        )
    collection = _Collection(mechanism, bits, clock, Progress(progress, total), compare_truth)
    counts, truth = collection.counted(texts)
    if counts.n != total:
        raise InvalidArgumentError(
            "column", texts.name, "data that stays the same while it is read"
        )
    with clock("find"):
        found = found_in(mechanism, counts, beta=beta)
    return OpenResult(
        column=texts.name,
        items=_items(found, size, truth),
        found=found,
        mechanism=mechanism,
        # What the cells of two texts reveal is an upper bound only: nothing is known from below.
        guarantee=replace(guarantee, lower_bound=lambda: 0.0),
        notes=_notes(found, length, size, compare_truth=compare_truth),
        missed=_missed(found, mechanism.tree.alphabet, truth),
        stages={stage: round(taken, 3) for stage, taken in clock.seconds.items()},
    )


@dataclass(frozen=True)
class _Asked:
    """What the devices are to keep and to find."""

    n: int
    epsilon: float
    delta: float
    length: int
    alphabet: str | bytes | None
    beta: float
    hash_key: int

    def single(self) -> PrefixCollector:
        """One message each."""
        return PrefixResponse.calibrated(**vars(self))

    def several(self, messages_cap: float) -> PrefixCollector:
        """Several messages each."""
        return PrefixDummies.calibrated(messages_cap=messages_cap, **vars(self))


@dataclass(frozen=True, eq=False)
class _Texts:
    """A column of texts, or a list of them."""

    name: str
    column: reading.Column | None
    listed: Sequence[str]

    @classmethod
    def of(cls, data: object, column: str | None) -> _Texts:
        if column is not None:
            return cls(column, _textual(reading.column(data, column)), ())
        if (
            isinstance(data, str | bytes)
            or hasattr(data, "columns")
            or not hasattr(data, "__iter__")
        ):
            expected = "the name of a column of text (only a list of texts has none)"
            raise InvalidArgumentError("column", column, expected)
        turned = getattr(data, "to_list", None) or getattr(data, "tolist", None)
        values = turned() if callable(turned) else list(data)
        kinds = {kind.__name__ for kind in set(map(type, values)) - {str, type(None)}}
        if kinds:
            raise InvalidArgumentError("data", ", ".join(sorted(kinds)), "a list of texts only")
        return cls("answers", None, ["" if text is None else text for text in values])

    def size(self) -> int:
        """How many people there are."""
        n = len(self.listed) if self.column is None else self.column.size()[0]
        if n < 1:
            raise InvalidArgumentError("rows", n, f"at least one row in column {self.name}")
        return n

    def chunks(self) -> Iterator[list[str]]:
        """Everybody's text, piece by piece."""
        if self.column is None:
            for start in range(0, len(self.listed), _PIECE):
                yield list(self.listed[start : start + _PIECE])
            return
        import polars as pl

        frame = self.column.frame.select(pl.first().cast(pl.String).fill_null(""))
        for batch in frame.collect_batches(chunk_size=_PIECE, maintain_order=True, lazy=True):
            yield batch.to_series().to_list()


def _textual(column: reading.Column) -> reading.Column:
    import polars as pl

    (kind,) = column.frame.collect_schema().dtypes()
    if kind not in {pl.String, pl.Categorical, pl.Enum}:
        expected = f"a column of text ({column.name} holds {kind})"
        raise InvalidArgumentError("column", column.name, expected)
    return column


@dataclass(frozen=True)
class _Collection:
    """Makes the reports and counts them."""

    mechanism: PrefixCollector
    randomness: Randomness
    clock: Clock
    progress: Progress
    compare_truth: bool

    def counted(self, texts: _Texts) -> tuple[Counts, Counter[str] | None]:
        """The counts of all cells, and the true ones of all texts if asked for."""
        total = Counts(np.zeros(self.mechanism.tree.k, dtype=np.int64), 0)
        truth: Counter[str] = Counter()
        for piece in self.clock.each("read", texts.chunks()):
            with self.clock("randomize"):
                reports = self.mechanism.randomize(piece, randomness=self.randomness)
            with self.clock("count"):
                total = total + LocalEngine().count(self.mechanism, [reports])
            if self.compare_truth:
                truth.update(piece)
            self.progress.add(len(piece))
        return total, _as_sent(truth, self.mechanism.tree.alphabet) if self.compare_truth else None


def _as_sent(truth: Counter[str], alphabet: Alphabet) -> Counter[str]:
    """The true counts of the texts as they are cut."""
    cut: Counter[str] = Counter()
    for text, count in zip(alphabet.texts(alphabet.pack(list(truth))), truth.values(), strict=True):
        cut[text] += count
    return cut


def _items(found: HeavyHitters, top: int, truth: Counter[str] | None) -> tuple[OpenItem, ...]:
    lows, highs = (limits / found.n for limits in found.interval())
    return tuple(
        OpenItem(
            label=text or EMPTY,
            count=float(found.counts[place]),
            share=float(found.frequencies[place]),
            low=float(lows[place]),
            high=float(highs[place]),
            truth=None if truth is None else truth[text],
        )
        for place, text in enumerate(found.texts[:top])
    )


def _missed(
    found: HeavyHitters, alphabet: Alphabet, truth: Counter[str] | None
) -> tuple[str, ...] | None:
    if truth is None:
        return None
    listed = set(found.texts)
    frequent = [text for text, count in truth.items() if count >= min(found.thresholds)]
    sizes = np.count_nonzero(alphabet.pack(frequent), axis=1).tolist()
    return tuple(
        text
        for text, size in zip(frequent, sizes, strict=True)
        if text not in listed and truth[text] >= found.threshold_of(size)
    )


def _notes(found: HeavyHitters, length: int, top: int, *, compare_truth: bool) -> tuple[str, ...]:
    notes = [f"answers are cut to {length} bytes; rows without one count as {EMPTY}"]
    if len(found) > top:
        notes.append(f"{len(found)} answers were found, of which the first {top} are listed")
    if not found.complete:
        notes.append(INCOMPLETE)
    notes.append("for what is sure about the list, hash tables are taken as random functions")
    notes.append(RUN_HERE)
    if compare_truth:
        notes.append(NOT_PRIVATE)
    return tuple(notes)
