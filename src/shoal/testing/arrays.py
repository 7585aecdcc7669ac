"""A whole test of arrays of answers: choose the device, randomize, shuffle, count, decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import numpy as np
import numpy.typing as npt

from shoal.engines.shuffling import shuffle
from shoal.errors import InvalidArgumentError
from shoal.randomness import Randomness
from shoal.testing.designing import design, fresh_coins
from shoal.testing.question import Wishes, hypothesis
from shoal.testing.tester import Tester
from shoal.testing.verdict import Verdict
from shoal.values import Array, Batch, category_codes


def uniformity(
    values: npt.ArrayLike,
    *,
    k: int,
    epsilon: float,
    distance: float,
    simulations: int | None = None,
    seed: int | None = None,
    randomness: Randomness | None = None,
    **wishes: Unpack[Wishes],
) -> Verdict:
    """Are answers 0, ..., k − 1 equally likely? Tested on their shuffled, randomized messages.

    ``wishes`` are those of :func:`~shoal.testing.design`: delta, level, coin, messages_cap,
    randomizer, partitions, symbols, honest_fraction. ``seed`` is that of the simulated null
    distribution alone; public coins are drawn and messages randomized securely unless a
    simulation's ``randomness`` is given. Unless said, there are 1,999 ``simulations``, or some
    100/level where that is more.

    >>> import numpy as np
    >>> verdict = uniformity(np.arange(20_000) % 10, k=20, epsilon=1.0, distance=0.2)
    >>> verdict.rejected
    True
    """
    even = hypothesis(k, None)
    run = _Run(simulations, seed, randomness)
    return run.one(values, even, epsilon=epsilon, distance=distance, **wishes)


def identity(
    values: npt.ArrayLike,
    *,
    reference: npt.ArrayLike,
    epsilon: float,
    distance: float,
    simulations: int | None = None,
    seed: int | None = None,
    randomness: Randomness | None = None,
    **wishes: Unpack[Wishes],
) -> Verdict:
    """Do answers 0, ..., k − 1 have the probabilities of the reference? Else as ``uniformity``."""
    expected = hypothesis(None, reference)
    run = _Run(simulations, seed, randomness)
    return run.one(values, expected, epsilon=epsilon, distance=distance, **wishes)


def closeness(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    k: int,
    epsilon: float,
    distance: float,
    overlapping: bool = False,
    simulations: int | None = None,
    seed: int | None = None,
    randomness: Randomness | None = None,
    **wishes: Unpack[Wishes],
) -> Verdict:
    """Do two groups of people answer alike? Each is shuffled by itself, each person in one group.

    The noise is made for the smaller group, and so is the guarantee. It assumes that nobody is in
    both groups. Where people may be, say ``overlapping=True``: epsilon is then what two reports of
    one person, one in each batch, cost together. Else as ``uniformity``.
    """
    size = hypothesis(k, None).size
    one, two = _answers("first", first, size), _answers("second", second, size)
    run = _Run(simulations, seed, randomness)
    tester = design(
        n=min(one.size, two.size),
        k=k,
        epsilon=epsilon,
        distance=distance,
        coins=run.coins(),
        closeness=True,
        overlapping=overlapping,
        **wishes,
    ).tester()
    return tester.compare(
        run.batch(tester, one), run.batch(tester, two), simulations=simulations, seed=seed
    )


@dataclass(frozen=True)
class _Run:
    """How a test is run: the simulations of its threshold, and where noise comes from."""

    simulations: int | None
    seed: int | None
    randomness: Randomness | None

    def coins(self) -> int:
        """Public coins, drawn before anything else."""
        return fresh_coins(self.randomness)

    def one(
        self,
        values: npt.ArrayLike,
        reference: Array,
        *,
        epsilon: float,
        distance: float,
        **wishes: Unpack[Wishes],
    ) -> Verdict:
        """Test one batch against a reference."""
        codes = _answers("values", values, reference.size)
        tester = design(
            n=codes.size,
            reference=reference,
            epsilon=epsilon,
            distance=distance,
            coins=self.coins(),
            **wishes,
        ).tester()
        batch = self.batch(tester, codes)
        return tester.decide(batch, simulations=self.simulations, seed=self.seed)

    def batch(self, tester: Tester, codes: npt.NDArray[np.int64]) -> Batch:
        """Randomized and shuffled messages."""
        reports = tester.randomize(codes, randomness=self.randomness)
        return shuffle(reports, randomness=self.randomness)


def _answers(name: str, values: npt.ArrayLike, k: int) -> npt.NDArray[np.int64]:
    """Two answers or more, each one of k."""
    shape = np.shape(values)
    if len(shape) != 1 or shape[0] < 2:
        expected = "a one-dimensional list of at least two answers (of a table, one column)"
        shown = f"shape {shape}" if shape else type(values).__name__
        raise InvalidArgumentError(name, shown, expected)
    return category_codes(values, k)
