"""People in groups: a group and an answer are one label, so that one report tells both.

The code of a group times the number of answers, plus the code of the answer, is one expression. The
list of groups is public, as that of answers is: given, found by an open question before, or taken
from the data, which the guarantee then assumes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, cast

from shoal import checks
from shoal.engines.columns import (
    GROUP,
    MOST_ANSWERS,
    PUBLIC_GROUPS,
    PUBLIC_LIST,
    UNKNOWN,
    Categorical,
    Choices,
    Column,
    label_of,
)
from shoal.errors import InvalidArgumentError
from shoal.mechanisms import registry

if TYPE_CHECKING:
    import polars as pl

_INSTEAD = (
    "groups / --groups FILE gives a list, open_groups / --open-groups finds the frequent ones"
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Grouped(Categorical):
    """Answers of people in groups, the answers of the first group before those of the second."""

    groups: Choices
    answers: Categorical
    group_kind: pl.DataType

    @classmethod
    def of(cls, answers: Categorical, groups: Choices) -> Grouped:
        """Every answer in every group; ``answers`` are of a column that knows the groups, too."""
        k = len(groups.labels) * len(answers.labels)
        expected = f"at most {MOST_ANSWERS:,} answers in all of them together, not {k:,}"
        checks.refuse(k > MOST_ANSWERS, expected, by=groups.name)
        public = (PUBLIC_GROUPS if note == PUBLIC_LIST else note for note in groups.notes)
        return cls(
            name=answers.name,
            n=answers.n,
            labels=tuple(f"{group} · {each}" for group in groups.labels for each in answers.labels),
            notes=(*answers.notes, *public),
            question={"categories": k},
            family=partial(registry.family, k=k),
            source=answers.source,
            known=k,
            none=None,
            by=groups.name,
            # Their rows are those of the whole, which may be sent elsewhere.
            groups=replace(groups, source=cast("Column", None)),
            answers=replace(answers, source=cast("Column", None)),
            group_kind=groups.source.kind(),
        )

    @property
    def _listed(self) -> str:
        return f"{len(self.groups.labels)} groups of {len(self.answers.labels)} answers"

    def code(self, name: str, kind: pl.DataType) -> pl.Expr:
        """The number of the answer in its group; nothing where rows without an answer are none."""
        import polars as pl

        group = self.groups.code(GROUP, self.group_kind)
        answer = self.answers.code(name, kind).cast(pl.Int64)
        inside = group * len(self.answers.labels) + answer
        return pl.when((group < 0) | (answer < 0)).then(UNKNOWN).otherwise(inside)

    def size(self) -> tuple[int, int]:
        """All rows, and those without an answer."""
        return replace(self.answers, source=self.source).size()


def listed(
    column: Column,
    groups: Sequence[object] | None = None,
    *,
    public_list: bool = False,
    padded: bool = False,
) -> Choices:
    """The groups of a column: a public list, and whoever is in none of it; or those in the data.

    ``padded``: rows that a person lacks are in no group, whether or not there are any.
    """
    given = None
    if groups is None:
        given = column.answers()
        given.require_public(column.name, "by", _INSTEAD, insisted=public_list)
    else:
        expected = "a list with at least one name"
        wrong = isinstance(groups, str | bytes) or not groups
        checks.refuse(wrong, expected, groups=groups or "none")
        labels = ["" if each is None else label_of(each) for each in groups]
        checks.refuse("" in labels, "no empty name in the list", groups=", ".join(labels))
        twice = [label for label, times in Counter(labels).items() if times > 1]
        checks.refuse(twice, "every group once", groups=next(iter(twice), None))
    try:
        return Choices.of(
            column, groups, drop_nulls=False, answers=given, public_list=True, padded=padded
        )
    except InvalidArgumentError as error:
        name = {"categories": "groups", "answer": "groups", "column": "by"}.get(error.name)
        expected = error.expected.replace("answer", "group")
        raise InvalidArgumentError(name or error.name, error.value, expected) from error
