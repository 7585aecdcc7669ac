"""A test ready to run: a device, a hypothesis, and everything that follows from the two."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.amplification import amplify
from shoal.accounting.guarantee import Guarantee
from shoal.errors import InvalidArgumentError
from shoal.protocols.base import Device, Protocol
from shoal.randomizers.base import Reports
from shoal.randomness import Randomness, simulator
from shoal.testing import alternatives, devices, overlap, power, ranks, sampling, splitting
from shoal.testing.question import Kind, check_distance, hypothesis, is_uniform
from shoal.testing.scores import CountTable, OneMessage, Scores
from shoal.testing.verdict import Verdict
from shoal.values import Array, Batch, Counts

APART = "nobody is in both groups: each person makes one report"
_SAMPLED = 128  # alternatives that a prediction with public coins averages over,
_LEAST_SAMPLED = 2  # and of how many at least where there are very many answers


@dataclass(frozen=True, eq=False, kw_only=True)
class Tester:
    """Tests whether n people's answers follow ``reference``, or whether two batches agree.

    The guarantee is for each person, whatever anybody answers. That the answers are independent
    draws of one distribution is an assumption of the statistics alone: if it fails, the level may
    fail, the privacy does not. So it is with people who do not follow the protocol: they can spoil
    the test, and protect nobody, but harm nobody's privacy beyond what ``honest_fraction`` says.

    Two batches are taken to have nobody in common. If they are ``overlapping``, the guarantee of
    two batches is that of somebody who reports in both.

    >>> from shoal.randomizers.response import RandomizedResponse
    >>> device = RandomizedResponse(k=16, epsilon=3.0)
    >>> tester = Tester(device=device, reference=[1 / 16] * 16, n=1000, distance=0.1)
    >>> round(tester.power(), 2), tester.coin
    (0.54, 'private')
    """

    device: Device
    reference: Array
    n: int
    distance: float
    level: float = 0.05
    delta: float = 1e-6
    honest_fraction: float = 1.0
    closeness: bool = False
    overlapping: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "reference", hypothesis(None, self.reference))
        object.__setattr__(self, "n", checks.count(2, n=self.n))
        checks.open_probability(level=self.level, delta=self.delta)
        check_distance(self.distance, self.reference)
        if self.coin == "public" and alternatives.furthest(self.reference) == 0:
            expected = "a reference with two answers or more that occur, where coins are public"
            raise InvalidArgumentError("reference", "one certain answer", expected)
        _ = self.scores
        if self.closeness:
            self._exchangeable()
        elif self.overlapping:
            raise InvalidArgumentError("overlapping", True, "two batches (closeness) to overlap")  # noqa: FBT003

    @cached_property
    def scores(self) -> Scores:
        """What the messages say about the distribution."""
        return devices.scores(self.device, self.reference)

    @property
    def coin(self) -> str:
        """Private, or public where everybody has to know the partitions."""
        return devices.coin(self.device)

    @property
    def kind(self) -> Kind:
        """Which of the three tests it is."""
        if self.closeness:
            return "closeness"
        return "uniformity" if is_uniform(self.reference) else "identity"

    @cached_property
    def guarantee(self) -> Guarantee:
        """The (epsilon, delta) of everybody among n people, or in two batches of n each."""
        return self._guarantee(*([self.n] * (1 + self.closeness)))

    def randomize(self, values: npt.ArrayLike, *, randomness: Randomness | None = None) -> Reports:
        """Everybody's messages; secure randomness unless a simulation's is given."""
        return self.device.randomize(values, randomness=randomness)

    def statistic(self, batch: Batch | Counts) -> float:
        """T of a shuffled batch, or of its counts."""
        counts = self._counted(batch)
        return float(self.scores.statistics(counts.cells[None, :], counts.n)[0])

    def null(
        self, simulations: int | None = None, *, seed: int | None = None, n: int | None = None
    ) -> Array:
        """So many T of made-up batches whose answers follow the reference.

        Unless said 1,999 of them, or some 100/level where that is more.
        """
        made = ranks.number(self.level, simulations)
        return self._null(made, self._people(n), simulator(seed))

    def decide(
        self,
        batch: Batch | Counts,
        *,
        simulations: int | None = None,
        seed: int | None = None,
    ) -> Verdict:
        """Test a batch against the reference; n may differ from the plan, the guarantee with it."""
        counts = self._counted(batch)
        null = self.null(simulations, seed=seed, n=counts.n)
        statistic = self.statistic(counts)
        found = ranks.ranked(statistic, null, level=self.level)
        kind: Kind = "uniformity" if is_uniform(self.reference) else "identity"
        return self._verdict(kind, found, statistic, null.size, (counts.n,))

    def compare(
        self,
        first: Batch | Counts,
        second: Batch | Counts,
        *,
        simulations: int | None = None,
        seed: int | None = None,
    ) -> Verdict:
        """Test whether two batches come from the same distribution, whichever it is.

        If they do, all their messages are exchangeable: splitting the pooled messages at random
        again shows what the statistic would have been, so that the level is exact.
        """
        scores = self._exchangeable()
        one, two = self._counted(first), self._counted(second)
        split = splitting.Split(scores, one, two)
        null = split.null(ranks.number(self.level, simulations), simulator(seed))
        found = ranks.ranked(split.statistic, null, level=self.level)
        return self._verdict("closeness", found, split.statistic, null.size, (one.n, two.n))

    def power(self, distance: float | None = None, *, n: int | None = None) -> float:
        """The predicted chance to reject at this distance, with the device as it is.

        With private coins it is that against the hardest distribution at the distance. With public
        coins it is the mean over Paninski's alternatives: the coins decide which are harder.
        """
        people = self._people(n)
        sizes = (people, people) if self.closeness else (people,)
        return self._predicted(self.distance if distance is None else distance, sizes)

    def simulated_power(
        self,
        distance: float | None = None,
        *,
        trials: int = 400,
        simulations: int | None = None,
        seed: int | None = None,
        n: int | None = None,
    ) -> float:
        """The share of made-up batches rejected whose answers follow Paninski's alternatives.

        Every trial draws another one. For closeness the second batch of as many people follows the
        reference, and the threshold is simulated for it, not by splitting: much quicker, and close
        to the power of the exact test.
        """
        asked, people = self.distance if distance is None else distance, self._people(n)
        check_distance(asked, self.reference)
        generator = simulator(seed)
        spent = checks.count(trials=trials)
        null = self._null(ranks.number(self.level, simulations), people, generator)
        limit = ranks.threshold(null, level=self.level)
        rejected = 0
        for size in sampling.chunks(spent, max(self.scores.outputs, self.reference.size)):
            shares = self._alternatives(asked, size, generator)
            found = self._drawn(shares, size, people, generator)
            rejected += int(np.count_nonzero(found > limit))
        return rejected / spent

    def _null(self, simulations: int, people: int, generator: np.random.Generator) -> Array:
        if not self.closeness:
            return self.scores.null(n=people, size=simulations, generator=generator)
        sizes = sampling.chunks(simulations, self.scores.outputs)
        return np.concatenate(
            [self._drawn(self.reference, size, people, generator) for size in sizes]
        )

    def _drawn(
        self, shares: Array, size: int, people: int, generator: np.random.Generator
    ) -> Array:
        """Statistics of made-up batches with these shares."""

        def tables(of: Array) -> CountTable:
            return self.scores.draw(of, n=people, size=size, generator=generator)

        if not self.closeness:
            return self.scores.statistics(tables(shares), people)
        other = tables(self.reference)
        return splitting.statistics(self._exchangeable(), tables(shares), other, (people, people))

    def _alternatives(self, distance: float, size: int, generator: np.random.Generator) -> Array:
        return alternatives.paired(
            self.reference, distance, weights=self.scores.weights, size=size, generator=generator
        )

    def _predicted(self, distance: float, sizes: tuple[int, ...]) -> float:
        check_distance(distance, self.reference)
        people = power.effective(*sizes)
        if self.coin == "private":
            signals = np.array([self.scores.least_signal(distance)])
        else:
            # Pairs can move less than everything; what is further away is easier to notice.
            within = min(distance, alternatives.furthest(self.reference))
            fitting = sampling.LARGEST_CHUNK // (4 * self.reference.size)
            size = max(_LEAST_SAMPLED, min(_SAMPLED, fitting))
            signals = self.scores.signals(self._alternatives(within, size, simulator(0)))
        found = power.predicted(self.scores.spread, signals, people=people, level=self.level)
        return min(found, power.largest(min(sizes), distance=distance, level=self.level))

    def _verdict(
        self,
        kind: Kind,
        found: ranks.Rank,
        statistic: float,
        simulations: int,
        sizes: tuple[int, ...],
    ) -> Verdict:
        return Verdict(
            kind=kind,
            rejected=found.rejected,
            p_value=found.p_value,
            statistic=statistic,
            threshold=found.threshold,
            level=self.level,
            distance=self.distance,
            power=self._predicted(self.distance, sizes),
            sizes=sizes,
            simulations=simulations,
            guarantee=self._guarantee(*sizes),
            coin=self.coin,
            device=self.device,
        )

    def _guarantee(self, *sizes: int) -> Guarantee:
        delta, honest = self.delta, self.honest_fraction
        if len(sizes) > 1 and self.overlapping:
            return overlap.guarantee(self.device, sizes, delta=delta, honest_fraction=honest)
        alone = amplify(self.device, n=min(sizes), delta=delta, honest_fraction=honest)
        if len(sizes) == 1:
            return alone
        return replace(alone, assumptions=(*alone.assumptions, APART))

    def _people(self, n: int | None) -> int:
        return self.n if n is None else checks.count(2, n=n)

    def _counted(self, batch: Batch | Counts) -> Counts:
        counts = self.device.counted(batch)
        cells = np.asarray(counts.cells)
        if cells.shape != (self.scores.outputs,):
            expected = f"counts of {self.scores.outputs} messages"
            raise InvalidArgumentError("counts", f"shape {cells.shape}", expected)
        checks.count(2, n=counts.n)
        least, most = counts.n, counts.n * self.device.slots
        if (cells < 0).any() or not least <= int(cells.sum()) <= most:
            expected = f"from {least} to {most} messages of {counts.n} people"
            raise InvalidArgumentError("counts", int(cells.sum()), expected)
        return counts

    def _exchangeable(self) -> OneMessage:
        if isinstance(self.device, Protocol) or not isinstance(self.scores, OneMessage):
            expected = (
                "a device with one message for closeness (the several messages of one person are "
                "not exchangeable, so two batches of them cannot be split anew)"
            )
            raise InvalidArgumentError("device", self.device.name, expected)
        return self.scores
