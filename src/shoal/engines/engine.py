"""What an engine is: whoever has the rows of a table, and counts everybody's reports there.

An engine answers for its columns before anybody reports, and makes the reports where the rows are.
How a column is read is said by a coding (:mod:`shoal.questions.settled`); what a coding means is
one function of Polars (:mod:`shoal.engines.tables`), and how reports are made and counted
another one (:class:`~shoal.engines.counting.Counting`): an engine calls both on the rows of each of
its parts, and counts add up. Another engine is one class below this one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.questions.settled import Facts

if TYPE_CHECKING:
    from shoal.engines.counting import Counting, Part
    from shoal.randomness import Randomness


Spend = Callable[[str], AbstractContextManager[None]]  # whose stage the time inside is


def unmeasured(stage: str) -> AbstractContextManager[None]:  # noqa: ARG001
    """Nobody asks how long it takes."""
    return nullcontext()


class Engine(Facts):
    """A table: what it says of its columns, and what everybody's reports add up to.

    Besides these methods, an engine has the three of :class:`~shoal.questions.settled.Facts`: the
    ``kind`` of a column, the ``size`` of what a coding reads, the different ``answers``.
    """

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """Of the columns."""

    @abstractmethod
    def where(self, column: str, label: str) -> Engine:
        """The rows of one group: those whose value of the column has this label."""

    @abstractmethod
    def sample(self, person: str, reports: int, bits: Randomness) -> Engine:
        """As many rows of everybody: of more a uniform choice, and empty rows for missing ones.

        ``person`` is the column that tells whose row it is; the others are kept, and every pass
        over them has the same rows. Groups are taken of a sample, and not sampled.
        """

    @abstractmethod
    def counts(
        self, counting: Counting, n: int, bits: Randomness, spend: Spend = unmeasured
    ) -> Iterator[Part]:
        """The counts of n people's reports, part by part: every row in one of them."""


def changed(name: str) -> InvalidArgumentError:
    """The second reading found what the first did not."""
    return InvalidArgumentError("column", name, "data that does not change while it is read")


def require_owners(person: str, unknown: int) -> None:
    """No row is nobody's."""
    expected = f"a person in every row of the column ({unknown:,} rows have none)"
    checks.refuse(unknown, expected, person=person)
