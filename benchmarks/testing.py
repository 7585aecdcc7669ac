"""Null distributions of a test: many at a time, beside running the whole collection each time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
from result import Result

from shoal.mechanisms.response import RandomizedResponse
from shoal.randomness import simulated, simulator
from shoal.testing import Hypothesis, Simulations, Tester, design

K, N = 10_000, 100_000
NULLS = 1000
NAIVE = 10  # of the naive loop, timed and scaled up
MOST_SECONDS = 1.0
LEAST_RATIO = 8.0
DESIGN_SECONDS = 2.0


def everything() -> Iterator[Result]:
    """1000 simulated statistics of k-ary randomized response, then a design."""
    device = RandomizedResponse(k=K, epsilon=6.0)
    tester = Tester(device, Hypothesis(k=K, distance=0.1), n=N)
    heading = f"test of uniformity, k = {K}, n = {N:.0e}, grr: {NULLS} simulated batches"
    quick = _spent(lambda: tester.null(Simulations(NULLS, seed=1)))
    naive = _spent(lambda: _naive(tester)) * NULLS / NAIVE
    yield Result(heading=heading, what="simulated", value=quick, unit="s", at_most=MOST_SECONDS)
    note = f"every answer drawn, randomized and counted; {NAIVE} timed"
    yield Result(heading=heading, what="naive loop", value=naive, unit="s", note=note)
    yield Result(
        heading=heading,
        what="times as fast",
        value=naive / quick,
        unit="x",
        at_least=LEAST_RATIO,
    )
    uniform = Hypothesis(k=1024, distance=0.1)
    yield Result(
        heading="choosing device and coin, k = 1024, one message",
        what="design",
        value=_spent(lambda: design(uniform, n=30_113, epsilon=0.25)),
        unit="s",
        at_most=DESIGN_SECONDS,
    )


def _naive(tester: Tester) -> list[float]:
    """A Python loop over batches: draw n answers, randomize, count, add up the squares."""
    answers, noise = simulator(1), simulated(2)
    lie = 1 / (np.exp(tester.device.local_epsilon) + K - 1)
    truth = 1 - K * lie
    expected = N * (lie + truth / K)
    found = []
    for _ in range(NAIVE):
        values = answers.integers(K, size=N)
        messages = tester.randomize(values, randomness=noise)
        counts = np.bincount(np.asarray(messages), minlength=K)
        own = counts * (1 - 2 * expected / N) + expected**2 / N
        found.append(float((((counts - expected) ** 2 - own) / truth**2).sum()))
    return found


def _spent(work: Callable[[], object]) -> float:
    """Processor time of one call, after one to warm up."""
    work()
    start = time.process_time()
    work()
    return time.process_time() - start
