"""Tables on this machine, in memory or in files: read by Polars, a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shoal.engines import expressions
from shoal.engines.engine import Engine, Spend, require_owners, unmeasured
from shoal.engines.files import Files, reading
from shoal.questions.answers import Answers
from shoal.questions.settled import Coding, Kind, Spelled

if TYPE_CHECKING:
    import polars as pl

    from shoal.engines.counting import Counting, Part
    from shoal.randomness import Randomness

CHUNK = 1 << 18  # rows
_PIECE = 1 << 17  # texts at once


@dataclass(frozen=True, eq=False)
class Local(Engine):
    """Columns of a frame, perhaps of files: memory does not grow with what is read."""

    frame: pl.LazyFrame
    files: Files | None = field(default=None, kw_only=True)

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return self.frame.collect_schema().names()

    def kind(self, column: str) -> Kind:
        """What a column holds."""
        return expressions.kind_of(self.frame.collect_schema()[column])

    def size(self, coding: Coding) -> tuple[int, int]:
        """How many rows there are, and how many of them lack what is read."""
        sizes = expressions.sizes(coding, self.frame)
        with reading(coding.column, self.files):
            rows, lacking = sizes.collect(engine="streaming").row(0)
        return int(rows), int(lacking)

    def answers(self, column: str, *, few: bool = True) -> Answers:
        """The different answers; too many of them end the reading early, unless not ``few``."""
        import polars as pl

        nobody = pl.Series("value", [], dtype=pl.String), pl.Series([], dtype=pl.UInt64)
        answers = Answers.of(*nobody)
        for batch in self._batches(Spelled(column), CHUNK):
            chunk = batch.to_series().alias("value").value_counts()
            answers += Answers.of(chunk["value"], chunk["count"])
            if few:
                answers.require_few(column)
        return answers

    def where(self, column: str, label: str) -> Local:
        """The rows of one group."""
        kinds = self.frame.collect_schema()
        group = expressions.label(column, kinds) == label
        return Local(self.frame.filter(group), files=self.files)

    def sample(self, person: str, reports: int, bits: Randomness) -> Local:
        """As many rows of everybody, in memory from here on.

        In a random order of all rows those of one person are in a random order, whatever the rows
        of others are.
        """
        import polars as pl

        with reading(person, self.files):
            rows = self.frame.collect(engine="streaming")
        ids = rows[person]
        unknown = ids.null_count() + (int(ids.is_nan().sum()) if ids.dtype.is_float() else 0)
        require_owners(person, unknown)
        shuffled = rows[bits.permutation(rows.height)]
        sample = shuffled.filter(pl.int_range(pl.len()).over(person) < reports).drop(person)
        missing = ids.n_unique() * reports - sample.height
        return Local(pl.concat([sample, sample.clear(missing)]).lazy())

    def chunks(self, coding: Coding) -> Iterator[Any]:
        """What everybody has, as devices take it."""
        size = _PIECE if coding.reads == "texts" else CHUNK
        width = len(coding.sources) if coding.reads == "vectors" else 1
        for batch in self._batches(coding, max(1, size // width)):
            yield expressions.values(coding, batch)

    def counts(
        self,
        counting: Counting,
        n: int,  # noqa: ARG002 - engines that read again compare it
        bits: Randomness,
        spend: Spend = unmeasured,
    ) -> Iterator[Part]:
        """The counts, chunk by chunk."""
        return counting.parts(self.chunks(counting.coding), bits, spend)

    def _batches(self, coding: Coding, size: int) -> Iterator[pl.DataFrame]:
        """The rows, in order: a simulation's seed gives the same reports again."""
        frame = expressions.read(coding, self.frame)
        with reading(coding.column, self.files):
            yield from frame.collect_batches(chunk_size=size, maintain_order=True, lazy=True)
