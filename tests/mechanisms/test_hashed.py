"""The hashed truth among hashed dummies."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import shoal
from protocol_contract import RARE, AnswerProtocolContract, divergence
from shoal import randomness
from shoal.accounting.noise.dummies import dummies_delta, hashed_dummies_delta, hashed_dummies_rho
from shoal.mechanisms import hashing
from shoal.mechanisms.dummies import HashedDummies, UniformDummies
from shoal.values import Batch, Counts, Envelopes


class TinyFamily:
    """The hash functions ((u x + v) mod p) mod b of a small prime, all listed."""

    def __init__(self, prime, buckets):
        self.functions = list(itertools.product(range(1, prime), range(prime)))
        self.prime, self.buckets = prime, buckets

    def bucket(self, function, x):
        u, v = function
        return (u * x + v) % self.prime % self.buckets

    @property
    def collision(self):
        pairs = [(self.bucket(f, 0), self.bucket(f, 1)) for f in self.functions]
        return sum(a == b for a, b in pairs) / len(pairs)

    def truth(self, x):
        return [(f, self.bucket(f, x)) for f in self.functions]

    @property
    def messages(self):
        return list(itertools.product(self.functions, range(self.buckets)))

    def person(self, x, rho):
        """Multisets of messages, and their chances.

        A multiset is the sum of numbers of 64 random bits that stand for its messages.
        """
        drawn = np.random.default_rng(1).integers(1 << 64, size=len(self.messages), dtype=np.uint64)
        number = dict(zip(self.messages, drawn, strict=True))
        truth, dummy = (
            (np.array([number[sent] for sent in every]), np.full(len(every), 1 / len(every)))
            for every in (self.truth(x), self.messages)
        )
        whole, rest = divmod(rho, 1.0)
        law = truth
        for _ in range(int(whole)):
            law = mixed(law, dummy)
        if rest:
            more = mixed(law, dummy)
            both = np.append((1 - rest) * law[1], rest * more[1])
            law = merged(np.append(law[0], more[0]), both)
        return law


def merged(numbers, chances):
    numbers, place = np.unique(numbers, return_inverse=True)
    return numbers, np.bincount(place, chances)


def mixed(first, second):
    """The law of two people's messages together."""
    numbers, chances = np.add.outer(first[0], second[0]), np.outer(first[1], second[1])
    return merged(numbers.ravel(), chances.ravel())


class TestHashedDummies(AnswerProtocolContract):
    sizes = (10, 40)

    def make(self, k, n, epsilon, delta):
        buckets = max(4, k // 4)
        return HashedDummies.calibrated(k=k, n=n, epsilon=epsilon, delta=delta, buckets=buckets)

    @pytest.mark.parametrize(
        ("prime", "buckets", "people", "rho"),
        [
            (3, 2, 1, 1.0),
            (3, 2, 2, 0.5),
            (3, 2, 3, 0.75),
            (3, 3, 2, 1.0),
            (5, 2, 1, 1.5),
            (5, 3, 1, 1.0),
            (7, 3, 1, 1.0),
        ],
    )
    def test_no_shuffled_output_reveals_more_than_the_profile(self, prime, buckets, people, rho):
        family = TinyFamily(prime, buckets)
        laws = [family.person(x, rho) for x in range(3)]
        for others in itertools.combinations_with_replacement(range(3), people - 1):
            shown = []
            for victim in (0, 1):
                law = laws[victim]
                for other in others:
                    law = mixed(law, laws[other])
                shown.append(dict(zip(*map(np.ndarray.tolist, law), strict=True)))
            for epsilon in (0.0, 0.2, 1.0, 3.0):
                truth = max(divergence(*pair, epsilon) for pair in itertools.permutations(shown))
                bound = hashed_dummies_delta(
                    n=people,
                    buckets=buckets,
                    collision=family.collision,
                    rho=rho,
                    epsilon=epsilon,
                )
                assert truth <= bound * (1 + 1e-9) + 1e-12

    def test_the_sampler_follows_its_law(self):
        people, x = 40_000, 3
        for dummies in (0.3, 1.0, 2.5):
            protocol = HashedDummies(k=10, buckets=5, dummies=dummies)
            sent = protocol.randomize(np.full(people, x), randomness=randomness.simulated(7))
            first = np.cumsum(sent.sizes) - sent.sizes
            (u, v), reported = hashing.row_parts(sent.messages, 5)
            supports = hashing.hashed((u, v), np.uint64(x), 5) == reported
            assert supports[first].all()
            rest = np.ones(len(u), dtype=bool)
            rest[first] = False
            buckets = np.bincount(reported[rest].astype(int), minlength=5)
            assert stats.chisquare(buckets).pvalue > RARE
            hits = int(supports[rest].sum())
            assert stats.binomtest(hits, int(rest.sum()), 0.2).pvalue > RARE
            for part in (u[rest], v[rest], u[first], v[first]):
                eighths = np.bincount((part >> np.uint64(58)).astype(int), minlength=8)
                assert stats.chisquare(eighths).pvalue > RARE
            extra = sent.sizes - 1 - math.floor(dummies)
            assert set(np.unique(extra)) <= {0, 1}
            chance = dummies % 1.0
            if chance:
                assert stats.binomtest(int(extra.sum()), people, chance).pvalue > RARE

    def test_two_answers_collide_and_dummies_hide_as_computed(self):
        protocol = HashedDummies(k=50, buckets=7, dummies=1.0)
        sent = protocol.randomize(np.full(60_000, 4), randomness=randomness.simulated(1))
        cells = protocol.tally(sent).cells
        expected = 60_000 * (1 / 7 + protocol.collision)
        others = np.delete(cells, 4)
        spread = math.sqrt(60_000 * 2 * 6 / 49)
        assert np.abs(others - expected).max() <= 6 * spread
        assert abs(cells[4] - 60_000 * (1 + 1 / 7)) <= 6 * spread

    def test_one_dishonest_person_adds_no_more_than_said(self):
        protocol = self.make(10, 5000, 1.0, 1e-6)
        honest = protocol.randomize(np.zeros(5000, int), randomness=randomness.simulated(3))
        truth = protocol.randomize([7], randomness=randomness.simulated(4)).messages[:1]
        flood = np.repeat(truth, protocol.slots, axis=0)
        before = protocol.tally(honest)
        after = before + protocol.tally(Envelopes(flood, np.array([len(flood)])))
        moved = protocol.estimate(after).counts[7] - protocol.estimate(before).counts[7]
        assert moved == pytest.approx(protocol.influence, rel=1e-6)

    def test_a_few_candidates_of_a_billion(self):
        n = 5_000
        protocol = HashedDummies.calibrated(k=10**9, n=n, epsilon=1.0, delta=1e-6)
        assert protocol.slots == 2
        assert protocol.messages <= 2
        candidates = np.array([123_456_789, 5, 999_999_999])
        counts = np.array([n // 2, n // 10, 0])
        values = np.concatenate([candidates.repeat(counts), 10**6 + np.arange(n - counts.sum())])
        source = randomness.simulated(6)
        runs, errors, covered = 150, [], 0.0
        predicted = protocol.variance(counts / n, n=n)
        for _ in range(runs):
            batch = shoal.shuffle(protocol.randomize(values, randomness=source), randomness=source)
            estimate = protocol.estimate_of(batch, candidates)
            errors.append(estimate.frequencies - counts / n)
            low, high = estimate.interval(0.95)
            covered += ((low <= counts / n) & (counts / n <= high)).mean()
        squares = np.mean(np.square(errors), axis=0)
        assert squares == pytest.approx(predicted, rel=5.5 * math.sqrt(2 / runs))
        assert (np.abs(np.mean(errors, axis=0)) <= 5.5 * np.sqrt(predicted / runs)).all()
        assert covered / runs >= 0.95 - 5.5 * math.sqrt(0.0475 / (3 * runs))

    def test_candidates_agree_with_everything_and_batches_add_up(self):
        protocol = HashedDummies(k=30, buckets=6, dummies=0.5)
        sent = [
            protocol.randomize(np.arange(200) % 30, randomness=randomness.simulated(s))
            for s in (1, 2)
        ]
        both = Envelopes(
            np.concatenate([s.messages for s in sent]), np.concatenate([s.sizes for s in sent])
        )
        everything = protocol.estimate(protocol.tally(both))
        asked = np.array([4, 29])
        added = protocol.support(sent[0], asked) + protocol.support(sent[1], asked)
        some = protocol.estimate_of(added, asked)
        assert some.frequencies.tolist() == everything.frequencies[asked].tolist()
        assert some.standard_errors.tolist() == everything.standard_errors[asked].tolist()
        with pytest.raises(shoal.InvalidArgumentError, match="2 candidates"):
            protocol.estimate_of(Counts(np.zeros(3, dtype=np.int64), 5), asked)
        with pytest.raises(shoal.InvalidArgumentError, match="how many people"):
            protocol.estimate_of(Batch(both.messages), asked)
        with pytest.raises(shoal.InvalidArgumentError, match="answers"):
            protocol.estimate_of(added, asked + 1)

    def test_all_of_a_billion_answers_are_too_much_work(self):
        protocol = HashedDummies(k=10**9, buckets=50, dummies=1.0)
        sent = protocol.randomize(np.arange(100), randomness=randomness.simulated(1))
        with pytest.raises(shoal.InvalidArgumentError, match="estimate_of"):
            protocol.estimate(shoal.shuffle(sent))

    def test_too_many_dummies_are_refused(self):
        with pytest.raises(shoal.InvalidArgumentError, match="dummies"):
            HashedDummies.calibrated(k=10**6, n=100, epsilon=0.1, delta=1e-9, buckets=10**6)


def test_hashing_takes_hardly_more_dummies_than_listing():
    for n, buckets in ((10**4, 100), (10**6, 20_000)):
        target = {"epsilon": 1.0, "delta": 1e-6}
        hashed = hashed_dummies_rho(n=n, buckets=buckets, collision=1 / buckets, **target)
        listed = UniformDummies.calibrated(k=buckets, n=n, **target).dummies
        assert listed * (1 - 1e-6) <= hashed <= listed * (1 + 1.2 / buckets)


def test_without_collisions_hashed_dummies_are_uniform_dummies():
    for rho, epsilon in itertools.product((0.4, 1.7), (0.0, 1.0)):
        hashed = hashed_dummies_delta(n=500, buckets=20, collision=0.0, rho=rho, epsilon=epsilon)
        listed = dummies_delta(n=500, k=20, rho=rho, epsilon=epsilon)
        assert hashed == pytest.approx(listed, rel=1e-9)


def exact_delta(buckets, dummies, epsilon):
    """With messages that support both answers left in the likelihood ratio."""
    c, x, total = 1 / buckets, math.exp(epsilon), 0.0
    every = np.arange(dummies + 2)
    halves = stats.binom.pmf(every, every[:, None], 0.5)  # of so many, so many in one of the two
    either = 2 * (1 - c) / buckets / (1 - c / buckets)
    for both in range(20):
        chance = stats.binom.pmf(both, dummies + 1, c / buckets)
        apart = stats.binom.pmf(every, dummies + 1 - both, either)
        gains = np.maximum(both + every - x * (both + every[:, None] - every), 0)
        total += chance * float(apart @ (halves * gains).sum(axis=1))
    return total * buckets / (dummies + 1)


@pytest.mark.parametrize("buckets", [6, 12, 24])
def test_telling_collisions_away_costs_in_proportion_to_their_chance(buckets):
    for epsilon in (0.2, 1.0):
        truth = exact_delta(buckets, 4 * buckets, epsilon)
        bound = hashed_dummies_delta(
            n=4, buckets=buckets, collision=1 / buckets, rho=buckets, epsilon=epsilon
        )
        assert truth <= bound <= (1 + 3.5 / buckets) * truth
