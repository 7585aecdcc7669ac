"""The mean of everybody's vector, collected over a network.

Everybody randomizes a unit vector and passes the report on; holders submit in the end. If they
submit *all* they hold, the analyzer has every report and estimates as with a shuffler. If they
submit a *single* message, most likely some reports never arrive, and who holds none sends a dummy:
a report of e_1 or -e_1, either alike, whose expectation is zero. At stationarity node v then has
something to submit with probability 1 - (1 - π_v)^w for w reports, and the estimate is the sum of
all messages over the sum D of these probabilities.

*Error.* With E|u|^2/m^2 = V + 1, V the squared error of one report, all n reports have the squared
error V/n; k that arrive, others lost by chance, have (V + 1)/k at most; S single messages have
S (V + 1)/D^2 at most, as the number of reports among them varies no more than if nodes held
reports independently of each other.

*Privacy.* Submitting single messages is something that could be done with all of them, dummies and
choices included: it is as private, or more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shoal.errors import InvalidArgumentError
from shoal.network.simulation import Simulation
from shoal.network.walk import Process
from shoal.randomizers.vectors import CapRandomizer
from shoal.randomness import Randomness, secure
from shoal.values import Array, Batch, Messages


@dataclass(frozen=True, eq=False)
class NetworkMean:
    """An estimate of the mean vector, and how far off it is: the root of its mean squared length.

    ``expected_error`` is an upper bound once the walk has mixed, and exact if nothing is lost.
    What is lost has to be lost by chance: with nodes killed by name the estimate is of the mean of
    the others, and its error is that of their mean.
    """

    mean: Array
    expected_error: float
    messages: int


def network_mean(
    vectors: npt.ArrayLike,
    walked: Simulation,
    *,
    randomizer: CapRandomizer,
    walk: Process,
    randomness: Randomness | None = None,
) -> NetworkMean:
    """Randomize a unit vector for each report that walked, submit as it did, and estimate."""
    rows = np.asarray(vectors, dtype=np.float64)
    if len(rows) != walked.walkers:
        expected = f"{walked.walkers} rows, one for each report that walked"
        raise InvalidArgumentError("vectors", f"{len(rows)} rows", expected)
    source = secure() if randomness is None else randomness
    reports = randomizer.randomize(rows, randomness=source)[walked.delivered]
    if walked.submit == "all":
        return _from_all(randomizer, reports, lost=walked.walkers - len(reports))
    sent = np.concatenate([reports, _dummies(randomizer, walked.dummies, source)])
    filled = -np.expm1(walked.walkers * np.log1p(-walk.stationary[walked.present]))
    return _from_single(randomizer, sent, float(filled.sum()))


def _from_all(randomizer: CapRandomizer, reports: Messages, *, lost: int) -> NetworkMean:
    if not len(reports):
        raise InvalidArgumentError("walked", "nothing delivered", "a report that arrived")
    squared = (randomizer.variance(n=1) + bool(lost)) / len(reports)
    mean = randomizer.estimate(Batch(reports)).mean
    return NetworkMean(mean, math.sqrt(squared), len(reports))


def _from_single(randomizer: CapRandomizer, sent: Messages, filled: float) -> NetworkMean:
    if not len(sent):
        raise InvalidArgumentError("walked", "nobody left", "a peer that submits")
    scale = len(sent) / filled
    squared = (randomizer.variance(n=1) + 1) * scale / filled
    mean = randomizer.estimate(Batch(sent)).mean * scale
    return NetworkMean(mean, math.sqrt(squared), len(sent))


def _dummies(randomizer: CapRandomizer, count: int, randomness: Randomness) -> Messages:
    """Reports of the first axis, forth or back."""
    axes = np.zeros((count, randomizer.dimension))
    axes[:, 0] = 1.0 - 2.0 * randomness.bits(count)
    return randomizer.randomize(axes, randomness=randomness)
