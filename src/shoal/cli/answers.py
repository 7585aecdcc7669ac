"""From what was asked to the accountant. Options that were not given are left to its defaults."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shoal import checks
from shoal.accounting import amplification, catalog
from shoal.accounting.comparison import Comparison, compare
from shoal.accounting.guarantee import Guarantee
from shoal.accounting.law import BlanketLaw
from shoal.cli import tables
from shoal.cli.asked import BEYOND_COMPARISONS, Asked, Unknown
from shoal.cli.randomizers import family
from shoal.cli.show import Compared, Proved, Recalled

# Without --randomizer, --k beside a bound says that the devices run this.
_WITH_K = "grr"

_HONEST = ("honest_fraction", "honest_n")
_CROWD = ("n", "rounds", "participation", *_HONEST)
_TARGET = ("epsilon", "delta")


def answer(asked: Asked) -> Proved | Recalled | Compared:
    """What the options ask for: they have been checked to make sense together."""
    if asked.solve is Unknown.LOCAL_EPSILON:
        return _solve_local_epsilon(asked)
    if asked.solve is Unknown.N:
        return _solve_n(asked)
    if asked.all:
        return Compared(tuple(_compare(asked)))
    if asked.bound is not None and not catalog.get(asked.bound).certified:
        return _recalled(asked, catalog.get(asked.bound))
    return Proved(_amplify(asked), delta_is_answer=asked.epsilon is not None)


def _amplify(asked: Asked) -> Guarantee:
    how = _given(asked, *_TARGET, *_CROWD, "bound", "composition")
    return amplification.amplify(**_devices(asked), **how)


def _compare(asked: Asked) -> list[Comparison]:
    return compare(**_devices(asked), **_given(asked, "n", "delta", *_HONEST))


def _recalled(asked: Asked, entry: catalog.Entry) -> Recalled:
    """The row of a bound that proves nothing here."""
    asked.refuse(BEYOND_COMPARISONS, f"{entry.name} is for comparisons only, one round at --delta")
    row = next(row for row in _compare(asked) if row.name == entry.name)
    # Where the bound does not apply the row has a remark; the bound itself raises the error.
    entry.epsilon(
        catalog.Query(local_epsilon=row.local_epsilon, n=row.n, delta=row.delta, k=asked.k)
    )
    return Recalled(row)


def _solve_local_epsilon(asked: Asked) -> Proved:
    makes = (
        None
        if asked.randomizer is None
        else family(asked.randomizer, k=asked.k, bounds=asked.bounds)
    )
    found = amplification.local_epsilon(makes, **_given(asked, *_TARGET, *_CROWD))
    kept = _at_target(asked, local_epsilon=found)
    return Proved(kept, solved=(Unknown.LOCAL_EPSILON, found))


def _solve_n(asked: Asked) -> Proved:
    how = _given(asked, *_TARGET, "rounds", "participation", "honest_fraction")
    checks.share(**_given(asked, "honest_fraction"))
    found = amplification.required_n(**_devices(asked), **how)
    return Proved(_at_target(asked, n=found), solved=(Unknown.N, found))


def _at_target(asked: Asked, **solution: Any) -> Guarantee:  # noqa: ANN401 - one of the options
    """The guarantee that the solution keeps.

    The solver has proved the target; inverting the curve once more may come out above it by its
    rounding.
    """
    kept = _amplify(replace(asked, epsilon=None, **solution))
    target = kept.epsilon if asked.epsilon is None else asked.epsilon
    return replace(kept, epsilon=min(kept.epsilon, target))


def _devices(asked: Asked) -> dict[str, Any]:
    """What the devices run, as keywords: a randomizer, or what is known of any."""
    if asked.table is not None:
        table = tables.read(asked.table)
        return {"randomizer": BlanketLaw.from_table(table, local_epsilon=asked.local_epsilon)}
    if asked.randomizer is not None or asked.k is not None:
        make = family(asked.randomizer or _WITH_K, k=asked.k, bounds=asked.bounds)
        return {"randomizer": make(epsilon=asked.local_epsilon)}
    return _given(asked, "local_epsilon", "local_delta", "deletion_epsilon")


def _given(asked: Asked, *names: str) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(asked, name)) is not None}
