"""The different answers of a column, and what a list that is taken from them may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.questions.kinds import MOST_LABELS

if TYPE_CHECKING:
    import polars as pl

MOST_PUBLIC = 200  # answers of a list that is taken from the data
_MANY = 100


@dataclass(frozen=True, eq=False)
class Answers:
    """The different answers of a column, each with how many rows have it.

    ``tally`` has the answers and their counts; ``nulls`` of the rows have none.
    """

    rows: int
    nulls: int
    tally: pl.DataFrame

    @classmethod
    def of(cls, labels: pl.Series, counts: pl.Series) -> Answers:
        """Of answers, perhaps some of them repeated, and in how many rows each is."""
        import polars as pl

        tally = pl.DataFrame({"value": labels, "count": counts.cast(pl.UInt64)})
        tally = tally.group_by("value").agg(pl.col("count").sum())
        nulls = tally.filter(pl.col("value").is_null())["count"].sum()
        rows = tally["count"].sum()
        return cls(int(rows), int(nulls), tally.drop_nulls())

    @property
    def distinct(self) -> tuple[str, ...]:
        """The different answers, sorted."""
        return tuple(self.tally["value"].sort().to_list())

    @property
    def single(self) -> int:
        """How many answers are given by one row only."""
        return int((self.tally["count"] == 1).sum())

    def __add__(self, other: Answers) -> Answers:
        import polars as pl

        both = pl.concat([self.tally, other.tally])
        union = Answers.of(both["value"], both["count"])
        return Answers(self.rows + other.rows, self.nulls + other.nulls, union.tally)

    def require_public(self, name: str, argument: str, instead: str, *, insisted: bool) -> None:
        """Such as a public list may have: neither many, nor numbers of which some are not whole.

        What the answers are decides, and not the type of the column: in a text file all values are
        text. Who insists may have these, but not identifiers: a list that is public has no names.
        """
        import polars as pl

        many, taken = self.tally.height, "in a list taken from the data"
        if many > _MANY and 2 * self.single > many:
            single = "most are in one row only, as identifiers are"
            expected = f"answers that people share {taken} ({single}: {instead})"
            raise InvalidArgumentError(argument, name, expected)
        wanted = f"at most {MOST_PUBLIC} different answers, not {many:,}"
        wrong = not insisted and many > MOST_PUBLIC
        if not wrong and not insisted:
            numbers = self.tally["value"].str.strip_chars().cast(pl.Float64, strict=False)
            if not numbers.has_nulls() and bool((numbers != numbers.floor()).any()):
                wanted, wrong = "no numbers that are not whole", True
        insist = "public=True / --public-list takes it anyway"
        checks.refuse(wrong, f"{wanted} {taken} ({instead}; {insist})", **{argument: name})

    def require_few(self, name: str) -> None:
        """Few enough for a list of answers."""
        expected = f"at most {MOST_LABELS:,} different answers (is it an identifier?)"
        checks.refuse(self.tally.height > MOST_LABELS, expected, column=name)
