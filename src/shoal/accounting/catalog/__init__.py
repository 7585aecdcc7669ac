"""Every published bound Shoal knows, by name: cited, with its regime; one module a paper.

All of them speak about the replacement of one user's datum among ``n``, one message per user, ``n``
fixed and public. An :class:`Entry` answers in one way only: :meth:`Entry.epsilon` returns an ε,
never above the local ε0 (which holds whatever the shuffler does), or raises
:class:`~shoal.errors.OutOfRegimeError` naming the condition that fails. Only an entry whose status
is ``PROVED`` may be used as a guarantee.

A new bound is a function with its theorem, made an :class:`Entry`, and a line below.

>>> from shoal.accounting import catalog
>>> query = catalog.Query(local_epsilon=4, n=100_000, delta=1e-6)
>>> round(catalog.get("fmt21-closed").epsilon(query), 4)
0.5346
"""

from __future__ import annotations

import enum
import importlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType

from shoal import checks
from shoal.errors import InvalidArgumentError, OutOfRegimeError

OPTIMAL_CLONES = "optimal-clones"
ANY = "any ε0-DP randomizers, adaptive"
MECHANISMS = ("grr", "laplace")

# exp of anything above this is not a float; a bound that large is vacuous anyway.
_LARGEST_EXPONENT = 700.0


class Status(enum.Enum):
    """What a number from an entry may be used for."""

    PROVED = "proved"
    """An upper bound, with a proof that was followed line by line."""

    QUOTED = "quoted"
    """As the paper states it, its proof not followed: for comparisons, never an answer."""

    RECALLED = "recalled"
    """A constant not checked against the paper: for comparisons, never an answer."""

    APPROXIMATION = "approximation"
    """Not a bound at all."""


@dataclass(frozen=True)
class Citation:
    """Where a theorem is published."""

    authors: str
    title: str
    venue: str
    arxiv: str | None = None
    theorem: str = ""

    def __str__(self) -> str:
        """One line, as in a bibliography."""
        where = self.venue if self.arxiv is None else f"{self.venue}, arXiv:{self.arxiv}"
        return f"{self.authors}. {self.title}. {where}. {self.theorem}."


@dataclass(frozen=True, kw_only=True)
class Query:
    """The question: the ε at ``delta`` of ``n`` reports, each ``local_epsilon``-DP.

    ``k`` (a number of categories) says that the randomizer is k-ary randomized response;
    ``mechanism="laplace"`` that it is Laplace noise of scale 1/ε0 on the interval [0, 1]. With
    neither, the randomizer is any ε0-DP one.
    """

    local_epsilon: float
    n: int
    delta: float
    k: int | None = None
    mechanism: str | None = None

    def __post_init__(self) -> None:
        checks.positive(local_epsilon=self.local_epsilon)
        checks.open_probability(delta=self.delta)
        checks.counts(self, n=1, k=2)
        expected = f"mechanism to be one of {', '.join(MECHANISMS)}, or None"
        checks.refuse(self.mechanism not in {None, *MECHANISMS}, expected, mechanism=self.mechanism)
        missing = self.mechanism == "grr" and self.k is None
        checks.refuse(missing, 'k >= 2 with mechanism="grr"', k=None)
        unwanted = self.mechanism == "laplace" and self.k is not None
        checks.refuse(unwanted, 'no k with mechanism="laplace"', k=self.k)

    def out_of_regime(self, bound: str, condition: str) -> OutOfRegimeError:
        """Return the error to raise when a theorem's condition does not hold for this query."""
        floats = {"local_epsilon": float(self.local_epsilon), "delta": float(self.delta)}
        stated = {name: value for name, value in (vars(self) | floats).items() if value is not None}
        return OutOfRegimeError(bound, condition, stated, OPTIMAL_CLONES)

    def log_over(self, numerator: float) -> float:
        """Return log(numerator/δ), also when the quotient is no float."""
        return math.log(numerator) - math.log(self.delta)


@dataclass(frozen=True)
class Entry:
    """One published bound; ``scope`` says whether the randomizers may be chosen adaptively.

    ``evaluate`` takes a query and returns the theorem's own number, possibly above ε0, or
    None where ``regime`` does not hold. Above its definition stands a ``partial`` of the rest.
    """

    name: str
    title: str
    citation: Citation
    evaluate: Callable[[Query], float | None]
    regime: str = "none: any n >= 1"
    scope: str = ANY
    status: Status = Status.PROVED

    @property
    def certified(self) -> bool:
        """Whether :meth:`epsilon` may be used as a guarantee."""
        return self.status is Status.PROVED

    def epsilon(self, query: Query) -> float:
        """Return this bound's ε at the query's δ, and never more than ε0, which always holds."""
        epsilon = self.evaluate(query)
        if epsilon is None:
            raise query.out_of_regime(self.name, self.regime)
        return min(epsilon, query.local_epsilon)


def exp_or_inf(exponent: float) -> float:
    """Return e^exponent, or infinity where it is no float (the bound is then vacuous)."""
    return math.exp(exponent) if exponent < _LARGEST_EXPONENT else math.inf


_PLACES = {
    "optimal-clones": "fmt22.optimal_clones",
    "clones": "fmt21.clones",
    "fmt21-closed": "fmt21.closed",
    "fmt21-workshop": "fmt21.workshop",
    "fmt21-blog": "canonne22.one_term",
    "fmt21-thm41": "fmt21.thm41",
    "krr-closed": "fmt21.krr_closed",
    "fmt22-closed": "fmt22.closed",
    "bbgn19-hoeffding": "bbgn19.hoeffding",
    "bbgn19-bennett": "bbgn19.bennett",
    "gddsk21": "gddsk21.converted",
    "efmrtt19": "efmrtt19.small",
    "efmrtt19-general": "efmrtt19.general",
    "bkmtt20": "bkmtt20.recalled",
    "csuzz19": "csuzz19.recalled",
    "blog-small": "canonne22.small",
    "blog-large": "canonne22.large",
}


class _Entries(Mapping[str, Entry]):
    """The entries by name; a paper's module is imported when one of its bounds is looked up."""

    def __getitem__(self, name: str) -> Entry:
        paper, _, theorem = _PLACES[name].partition(".")
        entry: Entry = getattr(__getattr__(paper), theorem)
        return entry

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


ENTRIES: Mapping[str, Entry] = _Entries()


def __getattr__(paper: str) -> ModuleType:
    """A paper's module, imported when it is first used."""
    if paper not in {place.partition(".")[0] for place in _PLACES.values()}:
        raise AttributeError(paper)
    return importlib.import_module(f"{__name__}.{paper}")


def get(name: str) -> Entry:
    """Return the entry of that name, or raise with the names there are."""
    if name in ENTRIES:
        return ENTRIES[name]
    hint = checks.similar(str(name), ENTRIES)
    raise InvalidArgumentError("bound", name, f"bound to be one of {', '.join(ENTRIES)}{hint}")
