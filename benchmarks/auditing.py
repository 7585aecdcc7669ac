"""Seconds of an audit of a million runs, and how much of the exact epsilon it shows."""

from __future__ import annotations

import time
from collections.abc import Iterator

from result import Result
from scipy import optimize

from shoal.accounting.profile import binary_response_delta
from shoal.auditing import audit
from shoal.mechanisms.response import RandomizedResponse

PEOPLE, DELTA, RUNS = 200, 1e-3, 10**6
SECONDS = 120.0
LEAST = {1.0: 0.7, 2.0: 0.8}  # of the exact epsilon


def everything() -> Iterator[Result]:
    """Binary randomized response at two local epsilons."""
    heading = f"audits, {RUNS:.0e} runs on each data set of {PEOPLE} people, delta = {DELTA:g}"
    for local, share in LEAST.items():
        began = time.process_time()
        found = audit(RandomizedResponse(k=2, epsilon=local), n=PEOPLE, delta=DELTA, runs=RUNS)
        took = time.process_time() - began
        shown = 100 * found.lower / _exact(local)
        name = f"grr, eps0 = {local:g}"
        yield Result(heading=heading, what=name, value=took, unit="s", at_most=SECONDS)
        yield Result(
            heading=heading,
            what=f"{name}: of the exact epsilon",
            value=shown,
            unit="%",
            at_least=100 * share,
        )


def _exact(local_epsilon: float) -> float:
    """Everybody else holds one answer: exact binomial sums."""

    def excess(epsilon: float) -> float:
        everybody = [0, PEOPLE - 1]
        found = binary_response_delta(local_epsilon, n=PEOPLE, epsilon=epsilon, ones=everybody)
        return found - DELTA

    return float(optimize.brentq(excess, 0.0, local_epsilon))
