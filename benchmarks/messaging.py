"""People per second on one core, from answers to rows of bytes, and messages per person."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
from encoding import seconds
from result import Result

from shoal.mechanisms.base import Device
from shoal.mechanisms.histograms import LeanHistogram, RobustHistogram
from shoal.mechanisms.registry import calibration
from shoal.randomness import simulated
from shoal.values import Batch

EPSILON, DELTA = 1.0, 1e-6
K = 1000
PEOPLE = 10**6
LEAST = {"sparse": 3.0, "dummies": 3.0}  # million people a second
CLOSE = 0.01  # how far the messages per person may be from the prediction
SUMMED = 10**5
NEAR_CENTRAL = (LeanHistogram, RobustHistogram)
LEAST_PEOPLE = 5.0  # million people a second, from answers to messages
TALLIED = 10**7
SLOWEST_TALLY = 1.0


def everything() -> Iterator[Result]:
    """Histograms at k = 1000, then sums."""
    heading = f"people, k = {K}, n = {PEOPLE:.0e}, (1, 1e-6) (secure randomness, median of 5)"
    answers = simulated(K).below(K, PEOPLE).astype(np.int64)
    for name in LEAST:
        protocol = calibration(name)(k=K, n=PEOPLE, epsilon=EPSILON, delta=DELTA)
        yield _speed(heading, name, protocol, answers)
        yield _messages(protocol, answers)
    yield from _crowded()
    yield from _near_central()
    yield from _sums()


def _near_central() -> Iterator[Result]:
    """From answers to messages, without the unused slots; and from messages to estimates."""
    k = 100
    heading = f"near-central histograms, k = {k}, n = {PEOPLE:.0e}"
    answers = simulated(k).below(k, PEOPLE).astype(np.int64)
    for kind in NEAR_CENTRAL:
        name, protocol = kind.name, kind.calibrated(k=k, n=PEOPLE, epsilon=EPSILON, delta=DELTA)
        speed = PEOPLE / seconds(partial(protocol.randomize, answers)) / 1e6
        yield Result(heading=heading, what=name, value=speed, unit="M/s", at_least=LEAST_PEOPLE)
        batch = Batch(np.resize(protocol.randomize(answers).messages, TALLIED), TALLIED)
        spent = seconds(partial(protocol.estimate, batch))
        what = f"{name}, estimate from {TALLIED:.0e} messages"
        yield Result(heading=heading, what=what, value=spent, unit="s", at_most=SLOWEST_TALLY)
        yield _messages(protocol, answers)


def _crowded() -> Iterator[Result]:
    """A tenth of the people: everybody has to send ten times as many dummies."""
    people = PEOPLE // 10
    heading = f"people, k = {K}, n = {people:.0e}: more messages each"
    answers = simulated(7).below(K, people).astype(np.int64)
    for name, least in LEAST.items():
        protocol = calibration(name)(k=K, n=people, epsilon=EPSILON, delta=DELTA)
        yield _speed(heading, name, protocol, answers, at_least=least)
        yield _messages(protocol, answers)


def _sums() -> Iterator[Result]:
    heading = f"sums of {SUMMED:.0e} people"
    numbers = np.linspace(0.0, 1.0, SUMMED)
    mixed = calibration("split-and-mix")(low=0, high=1, n=SUMMED, epsilon=EPSILON, delta=DELTA)
    yield _speed(heading, "split-and-mix", mixed, numbers)
    bits = np.arange(SUMMED) % 2
    near = calibration("near-central")(n=SUMMED, epsilon=EPSILON, delta=DELTA)
    yield _speed(heading, "near-central", near, bits)


def _speed(
    heading: str,
    name: str,
    protocol: Device,
    values: npt.NDArray[np.generic],
    *,
    at_least: float | None = None,
) -> Result:
    speed = len(values) / seconds(lambda: protocol.encode(protocol.randomize(values))) / 1e6
    least = at_least if at_least is not None else LEAST.get(name)
    return Result(heading=heading, what=name, value=speed, unit="M/s", at_least=least)


def _messages(protocol: Device, values: npt.NDArray[np.int64]) -> Result:
    """How far the messages sent are from the number predicted, in percent."""
    sent = protocol.randomize(values).sizes.mean()
    return Result(
        heading="messages per person, off the prediction",
        what=f"{protocol.name}, n = {len(values):.0e}: {protocol.messages:.4f} predicted",
        value=100 * abs(float(sent) / protocol.messages - 1),
        unit="%",
        at_most=100 * CLOSE,
    )
