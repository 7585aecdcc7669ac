"""The published bounds for arbitrary randomizers, as columns of a table."""

from __future__ import annotations

from shoal.accounting import catalog
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.errors import OutOfRegimeError
from shoal.figures.table import Value

# In the order of the legend. Every one has a look in shoal.figures.style.
NAMES = (
    "efmrtt19",
    "bkmtt20",
    "bbgn19-bennett",
    "bbgn19-hoeffding",
    "gddsk21",
    "fmt21-closed",
    "fmt22-closed",
    "clones",
    "optimal-clones",
)
NUMERICAL = frozenset({"clones", "optimal-clones"})
LOWER = "lower"

KEY = (
    "Solid: evaluated numerically; dashed: published formulas; dotted: a lower bound, below which "
    "(shaded) no analysis of all randomizers can go. A ring marks where a theorem stops applying "
    "or says no more than ε₀."
)


def row(*, local_epsilon: float, n: int, delta: float) -> dict[str, Value]:
    """The settings, then epsilon by every bound that applies, then the lower bound."""
    query = catalog.Query(local_epsilon=local_epsilon, n=n, delta=delta)
    found: dict[str, Value] = {"local_epsilon": local_epsilon, "n": n, "delta": delta}
    found |= {name: epsilon(name, query) for name in NAMES}
    found[LOWER] = PrivacyProfile(BlanketLaw.generic(local_epsilon), n).lower_epsilon(delta)
    return found


def epsilon(name: str, query: catalog.Query) -> Value:
    """The epsilon of one bound, or None where it does not apply or a formula amplifies nothing."""
    try:
        found = catalog.get(name).epsilon(query)
    except OutOfRegimeError:
        return None
    return found if found < query.local_epsilon or name in NUMERICAL else None
