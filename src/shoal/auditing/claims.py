"""What is claimed: the epsilon of the crowd at delta, and that of one message by itself."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shoal import checks
from shoal.accounting.amplification import amplify
from shoal.accounting.devices import HasProfile
from shoal.accounting.law import BlanketLaw
from shoal.auditing.subjects import Listed
from shoal.errors import InvalidArgumentError


@dataclass(frozen=True)
class Claims:
    """(epsilon, delta) for n people, and the pure local epsilon if there is one."""

    epsilon: float
    delta: float
    local_epsilon: float | None


def claims(
    declared: object, *, n: int, epsilon: float | None, delta: float, local_epsilon: float | None
) -> Claims:
    """What was said; else what the accountant proves for the mechanism declared."""
    if epsilon is None:
        checks.open_probability(delta=delta)
    else:
        checks.closed_probability(delta=delta)
        checks.non_negative(epsilon=epsilon)
    if local_epsilon is not None:
        checks.positive(local_epsilon=local_epsilon)
    law = _accounted(declared)
    local = _local(declared, law) if local_epsilon is None else local_epsilon
    if epsilon is None:
        if law is not None:
            epsilon = amplify(law, n=n, delta=delta).epsilon
        elif local is not None:
            epsilon = amplify(local_epsilon=local, n=n, delta=delta).epsilon
        else:
            expected = "a claim to audit: epsilon, local_epsilon, or a declared mechanism"
            raise InvalidArgumentError("epsilon", epsilon, expected)
    return Claims(epsilon, delta, local)


def _accounted(declared: object) -> BlanketLaw | HasProfile | None:
    """What the accountant takes, if the mechanism has it."""
    if isinstance(declared, Listed):
        return BlanketLaw.from_table(declared.rows)
    if isinstance(declared, BlanketLaw | HasProfile):
        return declared
    law = getattr(declared, "law", None)
    return law() if callable(law) else None


def _local(declared: object, law: BlanketLaw | HasProfile | None) -> float | None:
    found = getattr(declared, "local_epsilon", None)
    if found is None and isinstance(law, BlanketLaw):
        found = law.local_epsilon
    return found if isinstance(found, float | int) and math.isfinite(found) else None
