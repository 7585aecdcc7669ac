"""What one published bound is: a cited theorem, its regime, and a number.

Every module of this package states one theorem as an :class:`Entry`. All of them speak about the
replacement of one user's datum among ``n``, one message per user, ``n`` fixed and public.

An entry answers in one way only: :meth:`Entry.epsilon` returns an ε, never above the local ε0
(which holds whatever the shuffler does), or raises :class:`~shoal.errors.OutOfRegimeError` naming
the condition that fails. Only an entry whose status is ``PROVED`` may be used as a guarantee.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from shoal import checks
from shoal.errors import InvalidArgumentError, OutOfRegimeError

OPTIMAL_CLONES = "optimal-clones"
MECHANISMS = ("grr", "laplace")

# exp of anything above this is not a float; a bound that large is vacuous anyway.
_LARGEST_EXPONENT = 700.0


class Status(enum.Enum):
    """What a number from an entry may be used for."""

    PROVED = "proved"
    """An upper bound, with a proof that was followed line by line."""

    RECALLED = "recalled"
    """A constant recalled, not verified against the paper: for comparisons, never an answer."""

    APPROXIMATION = "approximation"
    """Not a bound at all."""


class Kind(enum.Enum):
    """The native form of a theorem."""

    EPSILON_DELTA = "(epsilon, delta)"
    RENYI = "Rényi"


@dataclass(frozen=True, kw_only=True)
class Citation:
    """Where a theorem is published."""

    authors: str
    title: str
    venue: str
    theorem: str
    arxiv: str | None = None

    def __str__(self) -> str:
        """One line, as in a bibliography."""
        where = self.venue if self.arxiv is None else f"{self.venue}, arXiv:{self.arxiv}"
        return f"{self.authors}. {self.title}. {where}. {self.theorem}."


@dataclass(frozen=True, kw_only=True)
class Query:
    """What is asked: the ε at ``delta`` of ``n`` reports, each ``local_epsilon``-DP.

    ``k`` (a number of categories) says that the randomizer is k-ary randomized response;
    ``mechanism="laplace"`` that it is Laplace noise of scale 1/ε0 on the interval [0, 1]. With
    neither, the randomizer is any ε0-DP one.
    """

    local_epsilon: float
    n: int
    delta: float
    k: int | None = None
    mechanism: str | None = None

    def checked(self) -> Query:
        """Return the same query with whole numbers as integers, or say what is wrong with it."""
        checks.positive(local_epsilon=self.local_epsilon)
        checks.open_probability(delta=self.delta)
        n = checks.count(n=self.n)
        k = None if self.k is None else checks.count(2, k=self.k)
        if self.mechanism is not None and self.mechanism not in MECHANISMS:
            expected = f"mechanism to be one of {', '.join(MECHANISMS)}, or None"
            raise InvalidArgumentError("mechanism", self.mechanism, expected)
        if self.mechanism == "grr" and k is None:
            raise InvalidArgumentError("k", k, 'k >= 2 beside mechanism="grr"')
        if self.mechanism == "laplace" and k is not None:
            raise InvalidArgumentError("k", k, 'no k beside mechanism="laplace"')
        return replace(self, n=n, k=k)

    def given(self) -> dict[str, object]:
        """What was asked, for error messages: the fields that were filled in."""
        shown: dict[str, object] = {
            "local_epsilon": float(self.local_epsilon),
            "n": self.n,
            "delta": float(self.delta),
        }
        optional: dict[str, object] = {"k": self.k, "mechanism": self.mechanism}
        return shown | {name: value for name, value in optional.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One published bound.

    ``evaluate`` takes a checked query and returns the theorem's own number, possibly above ε0, or
    raises :class:`~shoal.errors.OutOfRegimeError`.
    """

    name: str
    title: str
    citation: Citation
    scope: str
    adaptive: bool
    status: Status
    regime: str
    evaluate: Callable[[Query], float]
    kind: Kind = Kind.EPSILON_DELTA

    @property
    def certified(self) -> bool:
        """Whether :meth:`epsilon` may be given to anyone as a guarantee."""
        return self.status is Status.PROVED

    def epsilon(self, query: Query) -> float:
        """Return this bound's ε at the query's δ, and never more than ε0, which always holds."""
        checked = query.checked()
        return min(self.evaluate(checked), checked.local_epsilon)


def out_of_regime(
    bound: str, condition: str, query: Query, *, instead: str = OPTIMAL_CLONES
) -> OutOfRegimeError:
    """Return the error to raise when a theorem's condition does not hold for this query."""
    return OutOfRegimeError(bound, condition, query.given(), instead)


def log_over(numerator: float, delta: float) -> float:
    """Return log(numerator/δ), also when the quotient is no float."""
    return math.log(numerator) - math.log(delta)


def exp_or_inf(exponent: float) -> float:
    """Return e^exponent, or infinity where it is no float (the bound is then vacuous)."""
    return math.exp(exponent) if exponent < _LARGEST_EXPONENT else math.inf
