"""Reports per second on one core: what a device does, n times; and what an analyzer does."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import peer
from result import Result

from shoal.mechanisms.base import CategoryRandomizer
from shoal.mechanisms.registry import by_name
from shoal.randomness import simulated
from shoal.values import Batch

K = 1000
LOCAL_EPSILON = 4.0
REPETITIONS = 5
# Reports of one repetition, and the least speed in millions a second if there is one.
SPEEDS: dict[str, tuple[int, float | None]] = {
    "grr": (10**6, 10.0),
    "hadamard": (10**6, 3.0),
    "projective": (10**6, 0.3),
    "hashing": (10**6, None),
    "unary": (10**5, None),
    "subset": (10**5, None),
}
DECODED = 10**6
SLOWEST_DECODING = 30.0
TIMES_FASTER = 50.0


def everything() -> Iterator[Result]:
    """Speeds, one decoding, and the peer's speeds."""
    speeds = {name: _speed(name) for name in SPEEDS}
    heading = f"reports, k = {K}, eps0 = {LOCAL_EPSILON:g} (secure randomness, median of 5)"
    for name, speed in speeds.items():
        least = SPEEDS[name][1]
        yield Result(heading=heading, what=name, value=speed, unit="M/s", at_least=least)
    yield _decoding()
    yield from _beside_peer(speeds)


def _randomizer(name: str) -> CategoryRandomizer:
    found = by_name(name)(k=K, epsilon=LOCAL_EPSILON)
    assert isinstance(found, CategoryRandomizer)  # noqa: S101 - so that types are known
    return found


def _answers(size: int) -> npt.NDArray[np.int64]:
    return simulated(size).below(K, size).astype(np.int64)


def _speed(name: str) -> float:
    """Millions of reports per second of processor time."""
    size, _ = SPEEDS[name]
    randomizer, answers = _randomizer(name), _answers(size)
    return size / seconds(lambda: randomizer.randomize(answers)) / 1e6


def seconds(run: Callable[[], object]) -> float:
    """Processor time of one call, the median of several."""
    run()  # warms up
    times = []
    for _ in range(REPETITIONS):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times)


def _decoding() -> Result:
    randomizer = _randomizer("hadamard")
    batch = Batch(randomizer.randomize(_answers(DECODED), randomness=simulated(1)))
    return Result(
        heading=f"estimates of {K} shares from {DECODED:.0e} reports",
        what="hadamard",
        value=1e3 * seconds(lambda: randomizer.estimate(batch)),
        at_most=SLOWEST_DECODING,
    )


def _beside_peer(speeds: dict[str, float]) -> Iterator[Result]:
    heading = f"the same reports by {peer.PACKAGE}, one call each, in an environment of its own"
    theirs = peer.speeds(k=K, local_epsilon=LOCAL_EPSILON)
    for ours, their_name in peer.COUNTERPARTS.items():
        if isinstance(theirs, str):
            yield Result(heading=heading, what=their_name, value=None, note=theirs)
            continue
        speed = theirs[their_name]
        yield Result(heading=heading, what=their_name, value=1e3 * speed, unit="k/s")
        yield Result(
            heading=heading,
            what=f"{ours}: times faster than {their_name}",
            value=speeds[ours] / speed,
            unit="x",
            at_least=TIMES_FASTER,
        )
