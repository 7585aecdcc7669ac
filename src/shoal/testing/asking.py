"""A whole test at once: choose the device, randomize, shuffle, count, decide."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shoal.engines.shuffling import shuffle
from shoal.errors import InvalidArgumentError
from shoal.randomness import Randomness
from shoal.testing.designing import design
from shoal.testing.question import Coin, hypothesis
from shoal.testing.tester import Tester
from shoal.testing.verdict import Verdict
from shoal.values import Batch, category_codes


def uniformity(  # noqa: PLR0913 - a façade takes as many keywords as its users need
    values: npt.ArrayLike,
    *,
    k: int,
    epsilon: float,
    distance: float,
    delta: float = 1e-6,
    level: float = 0.05,
    coin: Coin = "auto",
    messages_cap: float | None = 1.0,
    randomizer: str | None = None,
    partitions: int | None = None,
    symbols: int | None = None,
    honest_fraction: float = 1.0,
    simulations: int | None = None,
    seed: int | None = None,
    randomness: Randomness | None = None,
) -> Verdict:
    """Are answers 0, ..., k − 1 equally likely? Tested on their shuffled, randomized messages.

    ``seed`` is that of the simulated null distribution alone; messages are randomized securely
    unless a simulation's ``randomness`` is given. Unless said, there are 1,999 ``simulations``, or
    some 100/level where that is more.

    >>> import numpy as np
    >>> verdict = uniformity(np.arange(20_000) % 10, k=20, epsilon=1.0, distance=0.2)
    >>> verdict.rejected
    True
    """
    codes = _answers("values", values, hypothesis(k, None).size)
    asked = design(
        n=codes.size,
        k=k,
        epsilon=epsilon,
        delta=delta,
        distance=distance,
        level=level,
        coin=coin,
        messages_cap=messages_cap,
        randomizer=randomizer,
        partitions=partitions,
        symbols=symbols,
        honest_fraction=honest_fraction,
    )
    run = _Run(asked.tester(), randomness)
    return run.tester.decide(run.batch(codes), simulations=simulations, seed=seed)


def identity(  # noqa: PLR0913 - a façade takes as many keywords as its users need
    values: npt.ArrayLike,
    *,
    reference: npt.ArrayLike,
    epsilon: float,
    distance: float,
    delta: float = 1e-6,
    level: float = 0.05,
    coin: Coin = "auto",
    messages_cap: float | None = 1.0,
    randomizer: str | None = None,
    partitions: int | None = None,
    symbols: int | None = None,
    honest_fraction: float = 1.0,
    simulations: int | None = None,
    seed: int | None = None,
    randomness: Randomness | None = None,
) -> Verdict:
    """Do answers 0, ..., k − 1 have the probabilities of the reference? Else as ``uniformity``."""
    codes = _answers("values", values, hypothesis(None, reference).size)
    asked = design(
        n=codes.size,
        reference=reference,
        epsilon=epsilon,
        delta=delta,
        distance=distance,
        level=level,
        coin=coin,
        messages_cap=messages_cap,
        randomizer=randomizer,
        partitions=partitions,
        symbols=symbols,
        honest_fraction=honest_fraction,
    )
    run = _Run(asked.tester(), randomness)
    return run.tester.decide(run.batch(codes), simulations=simulations, seed=seed)


def closeness(  # noqa: PLR0913 - a façade takes as many keywords as its users need
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    k: int,
    epsilon: float,
    distance: float,
    delta: float = 1e-6,
    level: float = 0.05,
    coin: Coin = "auto",
    randomizer: str | None = None,
    partitions: int | None = None,
    symbols: int | None = None,
    honest_fraction: float = 1.0,
    overlapping: bool = False,
    simulations: int | None = None,
    seed: int | None = None,
    randomness: Randomness | None = None,
) -> Verdict:
    """Do two groups of people answer alike? Each is shuffled by itself, each person in one group.

    The noise is made for the smaller group, and so is the guarantee. It assumes that nobody is in
    both groups. Where people may be, say ``overlapping=True``: epsilon is then what two reports of
    one person, one in each batch, cost together.
    """
    size = hypothesis(k, None).size
    one, two = _answers("first", first, size), _answers("second", second, size)
    asked = design(
        n=min(one.size, two.size),
        k=k,
        epsilon=epsilon,
        delta=delta,
        distance=distance,
        level=level,
        coin=coin,
        randomizer=randomizer,
        partitions=partitions,
        symbols=symbols,
        honest_fraction=honest_fraction,
        closeness=True,
        overlapping=overlapping,
    )
    run = _Run(asked.tester(), randomness)
    return run.tester.compare(run.batch(one), run.batch(two), simulations=simulations, seed=seed)


@dataclass(frozen=True)
class _Run:
    tester: Tester
    randomness: Randomness | None

    def batch(self, codes: npt.NDArray[np.int64]) -> Batch:
        """Randomized and shuffled messages."""
        reports = self.tester.randomize(codes, randomness=self.randomness)
        return shuffle(reports, randomness=self.randomness)


def _answers(name: str, values: npt.ArrayLike, k: int) -> npt.NDArray[np.int64]:
    """Two answers or more, each one of k."""
    shape = np.shape(values)
    if len(shape) != 1 or shape[0] < 2:
        expected = "a one-dimensional list of at least two answers"
        raise InvalidArgumentError(name, f"shape {shape}", expected)
    return category_codes(values, k)
