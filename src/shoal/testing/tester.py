"""A test ready to run: a device, a hypothesis, and everything that follows from the two."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.amplification import amplify
from shoal.accounting.devices import Devices, People
from shoal.accounting.guarantee import Guarantee
from shoal.errors import PrecisionError
from shoal.mechanisms.base import Device, Reports
from shoal.questions.terms import EVERYBODY, Crowd
from shoal.randomness import Randomness, simulator
from shoal.testing import power, ranks, sampling
from shoal.testing.hypothesis import Hypothesis, Kind
from shoal.testing.ranks import ENOUGH, Simulations
from shoal.testing.sampling import CountTable, Generator
from shoal.testing.scores import Scores, Split, scores_of
from shoal.testing.setting import DELTA, ONE_MESSAGE_EACH, require_reporting
from shoal.testing.verdict import Verdict, coin_of
from shoal.values import Array, Batch, Counts, attributes

APART = "nobody is in both groups: each person makes one report"
TWICE = "nobody makes more than one report in each of the two groups"
_MOST_COINS, _FEWEST_COINS = 512, 4  # public coins that a prediction averages over
_DENSE_COINS = 64  # at most, where several partitions take them one by one


@dataclass(frozen=True, eq=False)
class Tester:
    """Tests whether n people's answers are as a hypothesis says, or whether two batches agree.

    The guarantee is for each person, whatever anybody answers. That the answers are independent
    draws of one distribution is an assumption of the statistics alone: if it fails, the level
    may fail, the privacy does not. So it is with people who do not follow the protocol: they can
    spoil the test, and protect nobody, but harm nobody's privacy beyond what the crowd's
    honest_fraction says.

    Args:
        device: What each device runs.
        hypothesis: What is to be found out.
        n: People who report, in each batch for closeness.
        delta: δ in (0, 1) of the guarantee.
        crowd: Who follows the protocol.

    Raises:
        InvalidArgumentError: A number is out of its range, or the device has other answers.

    References:
        :doc:`/theory/testing`.

    Example:
        >>> from shoal.mechanisms.response import RandomizedResponse
        >>> device = RandomizedResponse(k=16, epsilon=3.0)
        >>> tester = Tester(device, Hypothesis(k=16, distance=0.1), n=1000)
        >>> round(tester.power(), 2), tester.coin
        (0.55, 'private')
    """

    device: Device
    hypothesis: Hypothesis
    n: int = field(kw_only=True)
    delta: float = field(default=DELTA, kw_only=True)
    crowd: Crowd = field(default=EVERYBODY, kw_only=True)

    def __post_init__(self) -> None:
        checks.counts(self, n=2)
        checks.open_probability(delta=self.delta)
        require_reporting(self.crowd)
        _ = self._exchangeable if self.hypothesis.closeness else self.scores

    @cached_property
    def scores(self) -> Scores:
        """What the messages say about the distribution."""
        return scores_of(self.device, self.hypothesis.probabilities)

    @property
    def _exchangeable(self) -> Scores:
        expected = f"a device {ONE_MESSAGE_EACH}"
        checks.refuse(not self.scores.exchangeable, expected, device=self.device.name)
        return self.scores

    @property
    def coin(self) -> str:
        """Private, or public where everybody has to know the partitions."""
        return coin_of(self.device)

    @cached_property
    def guarantee(self) -> Guarantee:
        """The (epsilon, delta) of everybody among n people, or in two batches of n each."""
        return self._guarantee(self._sizes(self.n))

    def randomize(self, values: npt.ArrayLike, *, randomness: Randomness | None = None) -> Reports:
        """Everybody's messages; secure randomness unless a simulation's is given."""
        return self.device.randomize(values, randomness=randomness)

    def statistic(self, batch: Batch | Counts) -> float:
        """T of a shuffled batch, or of its counts."""
        counts = self._counted(batch)
        return float(self.scores.statistics(counts.cells[None, :], counts.n)[0])

    def null(self, simulations: Simulations = ENOUGH, *, n: int | None = None) -> Array:
        """T of made-up batches whose answers follow the reference."""
        made, generator = self._simulated(simulations)
        return self._null(self.scores, made, self._people(n), generator)

    def decide(self, batch: Batch | Counts, simulations: Simulations = ENOUGH) -> Verdict:
        """Test a batch against the reference; n may differ from the plan, the guarantee with it."""
        counts = self._counted(batch)
        null = self.null(simulations, n=counts.n)
        kind = self.hypothesis.kind_of_one
        return self._verdict(kind, self.statistic(counts), null, (counts.n,))

    def compare(
        self,
        first: Batch | Counts,
        second: Batch | Counts,
        simulations: Simulations = ENOUGH,
    ) -> Verdict:
        """Test whether two batches come from the same distribution, whichever it is.

        If they do, all their messages are exchangeable: splitting the pooled messages at random
        again shows what the statistic would have been, so that the level is exact.
        """
        split = Split(self._exchangeable, self._counted(first), self._counted(second))
        null = split.null(*self._simulated(simulations))
        return self._verdict("closeness", split.statistic, null, split.sizes)

    def power(self, distance: float | None = None, *, n: int | None = None) -> float:
        """The predicted probability to reject at this distance, with the device as it is.

        It is that against the hardest distribution at the distance, whichever answers it makes
        likelier, those that never occur among them (:mod:`shoal.testing.power`). With public
        coins it is the mean over the coins, which are drawn after the distribution is fixed:
        against one that is made for known coins there is no power. For closeness the second batch
        follows the reference.
        """
        return self._hardest(distance, self._sizes(self._people(n)))[1]

    def simulated_power(
        self,
        distance: float | None = None,
        *,
        trials: int = 400,
        simulations: Simulations = ENOUGH,
        n: int | None = None,
    ) -> float:
        """The fraction of made-up batches rejected whose answers follow the hardest distribution.

        That is the one that :meth:`power` is about. Every trial draws public coins anew, and takes
        T in units of its standard deviation under the hypothesis, whose threshold hardly depends on
        the coins. For closeness the second batch of as many people follows the reference, and the
        threshold is simulated for it, not by splitting: much quicker, and close to the power of the
        exact test.
        """
        trials, (draws, generator) = checks.count(trials=trials), self._simulated(simulations)
        return self.noticed(trials, draws, generator, distance=distance, n=n) / trials

    def noticed(
        self,
        trials: int,
        simulations: int,
        generator: Generator,
        *,
        distance: float | None = None,
        n: int | None = None,
    ) -> int:
        """How many of so many made-up batches are rejected, as for :meth:`simulated_power`."""
        people = self._people(n)
        hardest, _ = self._hardest(distance, self._sizes(people))
        return self._rejections(hardest, people, trials, simulations, generator)

    def _rejections(
        self, probabilities: Array, people: int, trials: int, simulations: int, generator: Generator
    ) -> int:
        """How many of so many trials reject where everybody's answer has these probabilities."""
        null, statistics = [], []
        for scores, orders in self._under_coins(trials, simulations, generator):
            scale, size = np.sqrt(scores.spread.square), len(orders)
            part = math.ceil(simulations * size / trials)
            null.append(np.ravel(self._null(scores, part, people, generator) / scale))
            drawn = self._drawn(scores, probabilities[orders], size, people, generator)
            statistics.append(drawn / scale)
        limit = ranks.threshold(np.concatenate(null)[:simulations], level=self.hypothesis.level)
        return int(np.count_nonzero(np.concatenate(statistics) > limit))

    def _null(self, scores: Scores, simulations: int, people: int, generator: Generator) -> Array:
        """So many statistics under the hypothesis, or as many in columns for each of several."""
        if scores.reference.ndim > 1:
            rows = math.ceil(simulations / len(scores.reference))
            again = np.broadcast_to(scores.reference, (rows, *scores.reference.shape))
            return self._drawn(scores, again, rows, people, generator)
        if not self.hypothesis.closeness:
            return scores.null(n=people, size=simulations, generator=generator)
        sizes = sampling.chunks(simulations, scores.outputs)
        return np.concatenate(
            [self._drawn(scores, scores.reference, size, people, generator) for size in sizes]
        )

    def _drawn(
        self, scores: Scores, probabilities: Array, size: int, people: int, generator: Generator
    ) -> Array:
        """Statistics of made-up batches with these probabilities, or, row by row, with those."""

        def tables(of: Array) -> CountTable:
            return scores.draw(of, n=people, size=size, generator=generator)

        if not self.hypothesis.closeness:
            return scores.statistics(tables(probabilities), people)
        other = np.broadcast_to(scores.reference, probabilities.shape)
        one, two = tables(probabilities), tables(other)
        return scores.differences(one, two, (people, people))

    def _under_coins(
        self, number: int, draws: int, generator: Generator
    ) -> Iterator[tuple[Scores, npt.NDArray[np.int64]]]:
        """The scores under so many public coins, and the answers in the order that stands for each.

        New coins are the old ones with the answers in a new order, since partitions sort any
        answers together as likely as others. If all answers are equally likely, the scores stay
        what they are. Private coins need none of this. ``draws`` is how many batches are drawn.
        """
        reference, public = self.hypothesis.probabilities, self.coin == "public"
        k, even = reference.size, self.hypothesis.uniform
        if public and not even and self._dense:
            for _ in range(number):
                order = generator.permutation(k)
                yield scores_of(self.device, reference[order]), order[None, :]
            return
        for size in sampling.chunks(number, max(k, self.scores.outputs) * (1 + draws // number)):
            orders = np.tile(np.arange(k), (size, 1))
            if public or even:
                orders = generator.permuted(orders, axis=1)
            if public and not even:
                yield scores_of(self.device, reference[orders]), orders
            else:
                yield self.scores, orders

    def _hardest(self, distance: float | None, sizes: tuple[int, ...]) -> tuple[Array, float]:
        """The alternative with the least predicted power, and that power."""
        tested, reference = self.hypothesis, self.hypothesis.probabilities
        distance = tested.distance if distance is None else distance
        tested.require_possible(distance)
        drawn = list(self._under_coins(self._coins, 0, simulator(0)))
        weights = np.zeros(reference.size)
        for scores, orders in drawn:
            each = np.broadcast_to(scores.weights, orders.shape)
            weights += np.bincount(orders.ravel(), weights=each.ravel())
        public = self.coin == "public"
        family = power.alternatives(reference, distance, weights=weights, public=public)
        people, powers = power.effective(*sizes), np.zeros(len(family))
        for scores, orders in drawn:
            departure = scores.departure(family[:, orders])
            under = power.predicted(scores.spread, departure, people=people, level=tested.level)
            powers += under.sum(axis=1) / self._coins
        best = int(powers.argmin())
        most = power.largest(min(sizes), distance=distance, level=tested.level)
        return family[best], min(float(powers[best]), most)

    @property
    def _coins(self) -> int:
        """How many public coins a prediction averages over: fewer where each takes long."""
        if self.coin == "private":
            return 1
        outputs = self.scores.outputs
        work = max(self.hypothesis.probabilities.size, outputs**2 if self._dense else outputs)
        most = _DENSE_COINS if self._dense else _MOST_COINS
        return max(_FEWEST_COINS, min(most, sampling.LARGEST_CHUNK // (16 * work)))

    @property
    def _dense(self) -> bool:
        """Whether there is a matrix of scores: references cannot be rows then."""
        return bool(getattr(self.device, "partitions", 1) > 1)

    def _sizes(self, people: int) -> tuple[int, ...]:
        return (people, people) if self.hypothesis.closeness else (people,)

    def _verdict(
        self, kind: Kind, statistic: float, null: Array, sizes: tuple[int, ...]
    ) -> Verdict:
        return Verdict(
            kind=kind,
            statistic=statistic,
            null=null,
            rank=ranks.ranked(statistic, null, level=self.hypothesis.level),
            power=self._hardest(None, sizes)[1],
            sizes=sizes,
            guarantee=self._guarantee(sizes),
            device=self.device,
            **attributes(self.hypothesis, "level", "distance"),
        )

    def _guarantee(self, sizes: tuple[int, ...]) -> Guarantee:
        """Of somebody in one batch; in both, if they overlap.

        A person whose datum changes may then change a message in each. Both batches are one release
        each, so their privacy profiles compose.
        """
        delta, crowd = self.delta, self.crowd
        if len(sizes) == 1 or not self.hypothesis.overlapping:
            alone = amplify(self.device, n=min(sizes), delta=delta, crowd=crowd)
            apart = [APART] * (len(sizes) > 1)
            return replace(alone, assumptions=(*alone.assumptions, *apart))
        groups = [People(n, crowd) for n in sizes]
        first, second = map(Devices(self.device).profile, groups)
        both = first + second
        try:
            epsilon, how = both.answer(delta)
        except PrecisionError:
            epsilon, how = both.answer(delta, method="best")
        assumptions = dict.fromkeys(text for people in groups for text in people.assumptions)
        return Guarantee(
            epsilon=epsilon,
            delta=delta,
            n=min(people.honest for people in groups),
            local_epsilon=both.local_epsilon,
            local_delta=both.local_delta,
            theorem=f"{first.theorem}, {how}",
            rounds=len(sizes),
            assumptions=(first.scope, *assumptions, TWICE),
            lower_bound=lambda: both.lower_epsilon(delta),
        )

    def _simulated(self, simulations: Simulations) -> tuple[int, Generator]:
        """How many batches are made up, and what draws them."""
        return simulations.of(self.hypothesis.level), simulator(simulations.seed)

    def _people(self, n: int | None) -> int:
        return self.n if n is None else checks.count(2, n=n)

    def _counted(self, batch: Batch | Counts) -> Counts:
        counts = self.device.counted(batch)
        cells = np.asarray(counts.cells)
        shape, outputs = cells.shape, self.scores.outputs
        expected = f"counts of {outputs} messages"
        checks.refuse(shape != (outputs,), expected, counts=f"shape {shape}")
        checks.count(2, n=counts.n)
        least, most, sent = counts.n, counts.n * self.device.slots, int(cells.sum())
        expected = f"from {least} to {most} messages of {counts.n} people"
        checks.refuse((cells < 0).any() or not least <= sent <= most, expected, counts=sent)
        return counts
