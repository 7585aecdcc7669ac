"""What is claimed: the epsilon of the crowd at delta, and that of one message by itself."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shoal import checks
from shoal.accounting.amplification import amplify
from shoal.accounting.devices import HasProfile
from shoal.accounting.law import BlanketLaw
from shoal.auditing.subjects import Listed
from shoal.errors import InvalidArgumentError
from shoal.values import Array


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
    local = _local(declared) if local_epsilon is None else local_epsilon
    if epsilon is None:
        law = _accounted(declared)
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


def _local(declared: object) -> float | None:
    found: object = getattr(declared, "local_epsilon", None)
    if isinstance(declared, Listed):
        found = _steepest(declared.rows)
    elif found is None and isinstance(law := _accounted(declared), BlanketLaw):
        found = law.local_epsilon
    return found if isinstance(found, float | int) and math.isfinite(found) else None


def _steepest(rows: Array) -> float:
    """The largest log-ratio of two inputs' probabilities of one message."""
    largest, least = rows.max(axis=0), rows.min(axis=0)
    seen = largest > 0
    if not least[seen].all():
        return math.inf
    return float(np.log(largest[seen] / least[seen]).max())
