"""Another engine, in SQL: DuckDB keeps the rows, and only counts of reports leave it.

    pip install duckdb
    python examples/duckdb/engine.py

What an engine has to be able to do is `shoal.engines.engine.Engine`. What is quick in SQL is SQL:
rows are grouped, sampled and filtered there. What an answer is called, and which number a text is,
is said by Shoal's own reading of each batch of rows, so that this is the same in every engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import duckdb
import polars as pl

import shoal
from shoal import checks
from shoal.engines import counting, engine, tables
from shoal.questions import kinds, settled
from shoal.questions.settled import Answers
from shoal.randomness import Randomness


def quoted(name: str) -> str:
    """An identifier, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, eq=False)
class DuckTable(engine.Engine):
    """A relation of DuckDB, or the rows of one group in it."""

    relation: duckdb.DuckDBPyRelation
    only: tuple[str, str] | None = None  # a column, and the label of its values

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return self.relation.columns

    def kind(self, column: str) -> settled.Kind:
        """What a column holds."""
        nobody = self.relation.project(quoted(column)).limit(0)
        return tables.kind_of(pl.DataFrame(nobody.to_arrow_table()).schema[column])

    def size(self, coding: settled.Coding) -> tuple[int, int]:
        """How many rows there are, and how many of them lack what is read."""
        sizes = [part.size(coding) for part in self.parts(coding.sources)]
        return sum(rows for rows, _ in sizes), sum(lacking for _, lacking in sizes)

    def answers(self, column: str, *, few: bool = True) -> Answers:
        """The different answers: DuckDB groups values, and Shoal says what they are called."""
        names = dict.fromkeys([column, *(self.only or ())[:1]])
        values = ", ".join(map(quoted, names))
        rows = self.relation.aggregate(f"{values}, COUNT(*)", values)  # the count comes last
        rows = rows.limit((kinds.MOST_LABELS + 2) * len(names)) if few else rows
        table = rows.to_arrow_table()
        groups = tables.in_utc(pl.DataFrame(table.select(range(len(names)))))
        times = pl.Series(table.column(len(names)).to_numpy())
        labels = groups.select(tables.label(column, groups.schema)).to_series()
        if self.only is not None:
            own = groups.select(tables.label(self.only[0], groups.schema)).to_series()
            inside = (own == self.only[1]).fill_null(value=False)
            labels, times = labels.filter(inside), times.filter(inside)
        found = Answers.of(labels, times)
        if few:
            found.require_few(column)
        return found

    def where(self, column: str, label: str) -> DuckTable:
        """The rows of one group."""
        return DuckTable(self.relation, (column, label))

    def sample(self, person: str, reports: int, bits: Randomness) -> DuckTable:
        """As many rows of everybody, in an order drawn anew: kept, so that every pass has them."""
        checks.refuse(self.only is not None, "a sample, and then a group of it", person=person)
        owner, key = quoted(person), int(bits.below(1 << 62, 1)[0])
        view = f"rows_{key}"  # the name of no other table
        own = ", ".join(f"{quoted(n)} := {quoted(n)}" for n in self.names if n != person)
        isnan = f"OR isnan({owner})" if self.kind(person) == "real" else ""
        unknown = self.relation.filter(f"{owner} IS NULL {isnan}")
        engine.require_owners(person, len(unknown))
        sql = f"""
            WITH numbered AS (
                SELECT {owner} AS person, struct_pack({own}) AS own, row_number() OVER () AS place
                FROM {view}
            ), turned AS (
                SELECT own, COUNT(*) OVER (PARTITION BY person) AS size, row_number() OVER (
                    PARTITION BY person ORDER BY md5(concat(place, ' ', {key}))
                ) AS turn FROM numbered
            )
            SELECT unnest(own) FROM (
                SELECT own FROM turned WHERE turn <= {reports}
                UNION ALL SELECT NULL
                FROM (SELECT unnest(range({reports} - size)) FROM turned WHERE turn = 1)
            )
        """  # noqa: S608 - the names are quoted
        return DuckTable(duckdb.from_arrow(self.relation.query(view, sql).to_arrow_table()))

    def counts(
        self,
        counting: counting.Counting,
        n: int,  # noqa: ARG002 - compared by whoever adds up
        bits: Randomness,
        spend: engine.Spend = engine.unmeasured,
    ) -> Iterator[counting.Part]:
        """The counts, batch by batch."""
        parts = self.parts(counting.coding.sources)
        chunks = chain.from_iterable(part.chunks(counting.coding) for part in parts)
        return counting.parts(chunks, bits, spend)

    def parts(self, names: tuple[str, ...]) -> Iterator[tables.Local]:
        """Columns of the rows, a batch at a time, as a table that Shoal reads."""
        by = self.only[:1] if self.only else ()
        columns = ", ".join(map(quoted, dict.fromkeys((*names, *by))))
        for batch in self.relation.project(columns).to_arrow_reader(tables.CHUNK):
            part = tables.Local(tables.in_utc(pl.DataFrame(batch)).lazy())
            yield part.where(*self.only) if self.only else part


def main() -> None:
    """Two questions of a table that DuckDB made."""
    people = duckdb.sql("""
        SELECT ['red', 'green', 'blue'][1 + i % 3] AS color, 18 + i % 60 AS age
        FROM range(30000) AS people(i)
    """)
    asked = ["color", shoal.Bins("age", 18, 78, bins=6)]
    print(shoal.run(DuckTable(people), asked, epsilon=1.0))


if __name__ == "__main__":
    main()
