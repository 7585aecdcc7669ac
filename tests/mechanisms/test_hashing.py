import hashlib
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import shoal
from contract import EPSILONS, RARE, CategoryContract
from shoal import randomness
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.mechanisms import hashing
from shoal.mechanisms.hashing import (
    PRIME,
    LocalHashing,
    collisions,
    fingerprints,
    hashed,
    row_parts,
)
from shoal.values import Batch, Counts

RESIDUES = st.integers(0, PRIME - 1) | st.sampled_from([0, 1, PRIME - 1, 2**32 - 1, 2**32, 2**60])


def functions_of(randomizer, messages):
    (u, v), reported = row_parts(messages, randomizer.g)
    return (u, v), reported.astype(np.int64)


class TestLocalHashing(CategoryContract):
    def make(self, k, epsilon):
        return LocalHashing(epsilon=epsilon, k=k)

    @pytest.mark.parametrize("epsilon", EPSILONS)
    def test_the_table_keeps_epsilon_exactly(self, epsilon):
        # The function is drawn without looking at the answer: given it, a report is one of g.
        for k in self.small:
            randomizer = self.make(k, epsilon)
            high, low = randomizer.odds.high, randomizer.odds.low
            for u, v in ((1, 0), (PRIME - 1, 5), (2**40 + 7, 2**60)):
                functions = (np.full(k, u, np.uint64), np.full(k, v, np.uint64))
                buckets = hashed(functions, np.arange(k, dtype=np.uint64), randomizer.g)
                rows = np.full((k, randomizer.g), low)
                rows[np.arange(k), buckets.astype(int)] = high
                ratio = math.log((rows.max(axis=0) / rows.min(axis=0)).max())
                assert ratio <= randomizer.local_epsilon * (1 + 1e-12) <= epsilon * (1 + 2e-12)

    @pytest.mark.parametrize("epsilon", EPSILONS)
    def test_the_law_is_the_law_of_the_table(self, epsilon):
        # Over few functions that send two answers to one bucket once in g times, the law is above.
        randomizer = LocalHashing(epsilon=epsilon, buckets=3, k=3)
        response = shoal.RandomizedResponse(k=3, epsilon=epsilon).table()
        pairs = [(a, b) for a in range(3) for b in range(3)]
        table = np.array([[response[pair[x]] for pair in pairs] for x in (0, 1)]).reshape(2, -1) / 9
        mixed = BlanketLaw.from_table(table)
        for n in (3, 50, 10**4):
            safe = PrivacyProfile(randomizer.law(), n)
            for deviations in (2.0, 4.5):
                at = min(deviations * safe.spread, 0.7 * safe.local_epsilon)
                assert safe.delta(at) >= PrivacyProfile(mixed, n).delta(at) * (1 - 1e-6)

    @pytest.mark.parametrize("epsilon", [1.0, 4.0])
    def test_the_lower_bound_knows_of_shared_buckets(self, epsilon):
        randomizer = self.make(10, epsilon)
        g = randomizer.g
        response = shoal.RandomizedResponse(k=g, epsilon=epsilon)
        chances = response.table()
        apart, shared = chances[:2], np.array([chances[0], chances[0]])
        table = np.hstack([apart * (g - 1) / g, shared / g])
        between = PrivacyProfile(BlanketLaw.from_table(table), 300)
        found = PrivacyProfile(randomizer.law(), 300).lower_epsilon(1e-4)
        assert found == pytest.approx(between.lower_epsilon(1e-4), rel=1e-6)
        mine = PrivacyProfile(randomizer.law(), 300).epsilon(1e-4)
        never_shared = PrivacyProfile(response.law(), 300).epsilon(1e-4)
        assert 0 < found < between.epsilon(1e-4) <= mine * (1 + 1e-6)
        assert mine < never_shared

    def test_reference_values_of_the_law(self):
        for epsilon, reference in ((1.0, 0.029337), (2.0, 0.079681), (4.0, 0.278304)):
            law = LocalHashing(epsilon=epsilon, buckets=round(math.exp(epsilon)) + 1).law()
            assert PrivacyProfile(law, 10**4).epsilon(1e-6) == pytest.approx(reference, rel=1e-4)

    @pytest.mark.parametrize("epsilon", [0.5, 2.0])
    def test_the_sampler_follows_the_table(self, epsilon):
        n = 40_000
        for k in self.small:
            randomizer = self.make(k, epsilon)
            g = randomizer.g
            for answer in range(k):
                source = randomness.simulated(1000 * k + answer)
                messages = randomizer.randomize(np.full(n, answer), randomness=source)
                functions, reported = functions_of(randomizer, messages)
                truth = hashed(functions, np.uint64(answer), g).astype(np.int64)
                chances = shoal.RandomizedResponse(k=g, epsilon=epsilon).table()[0]
                seen = np.bincount((reported - truth) % g, minlength=g)
                assert stats.chisquare(seen, n * chances).pvalue > RARE
                assert stats.chisquare(np.bincount(truth, minlength=g)).pvalue > RARE

    def test_there_is_no_table(self):
        with pytest.raises(shoal.InvalidArgumentError, match="functions"):
            self.make(3, 1.0).table()

    def test_the_error_of_rare_answers_is_the_published_one(self):
        e, g = math.exp(2.0), 9
        expected = (e + g - 1) ** 2 / ((g - 1) * (e - 1) ** 2) / 500
        variance = LocalHashing(epsilon=2.0, buckets=g, k=4).variance(np.zeros(4), n=500)
        assert variance == pytest.approx(np.full(4, expected), rel=1e-9)

    def test_the_number_of_buckets(self):
        assert [LocalHashing(epsilon=e).g for e in (0.1, 1.0, 2.0, 4.0)] == [2, 4, 8, 56]
        assert LocalHashing(epsilon=1.0, buckets=1000).message_bytes == 18
        for buckets in (1, 0, 2.5):
            with pytest.raises(shoal.InvalidArgumentError, match="buckets"):
                LocalHashing(epsilon=1.0, buckets=buckets)

    def test_all_candidates_or_some(self):
        randomizer = self.make(10, 2.0)
        messages = randomizer.randomize(np.arange(10).repeat(50))
        everything = randomizer.estimate(Batch(messages)).frequencies
        some = randomizer.estimate(Batch(messages), [7, 2])
        assert some.frequencies.tolist() == everything[[7, 2]].tolist()
        from_counts = randomizer.estimate(randomizer.support(messages, [7, 2]), [7, 2])
        assert from_counts.frequencies.tolist() == some.frequencies.tolist()
        with pytest.raises(shoal.InvalidArgumentError, match="counts of 10 candidates"):
            randomizer.estimate(randomizer.support(messages, [7, 2]))


@settings(deadline=None, derandomize=True, max_examples=300)
@given(u=RESIDUES, v=RESIDUES, x=RESIDUES, g=st.integers(2, 2**40))
def test_the_hash_is_exact(u, v, x, g):
    functions = (np.array([u], np.uint64), np.array([v], np.uint64))
    expected = (u * x + v) % PRIME % g
    assert hashed(functions, np.uint64(x), g).tolist() == [expected]
    assert hashed(functions, np.array([x], np.uint64), g).tolist() == [expected]


@pytest.mark.parametrize(("prime", "g"), [(7, 2), (7, 3), (11, 4), (13, 13), (17, 5)])
def test_the_chance_of_sharing_a_bucket_is_exact_for_every_pair(prime, g, monkeypatch):
    monkeypatch.setattr(hashing, "PRIME", prime)
    shared, pairs = collisions(g)
    assert pairs == prime * (prime - 1)
    for x in range(prime):
        for y in range(x):
            found = sum(
                (u * x + v) % prime % g == (u * y + v) % prime % g
                for u in range(1, prime)
                for v in range(prime)
            )
            assert found == shared


def test_another_answer_is_supported_as_often_as_computed():
    randomizer = LocalHashing(epsilon=1.0, buckets=5)
    high, low = randomizer.odds.high, randomizer.odds.low
    shared = Fraction(*collisions(5))
    assert Fraction(1, 5) - Fraction(1, 2**60) < shared < Fraction(1, 5)
    other = (shared * high + (1 - shared) * low) / (high + 4 * low)
    assert randomizer.estimator.support.other == float(other)
    assert randomizer.estimator.support.true == float(Fraction(high, high + 4 * low))


def test_fingerprints_never_change():
    # On the wire for ever: devices and analyzers of different versions must agree.
    digest = hashlib.blake2b("føø".encode(), digest_size=8).digest()
    expected = int.from_bytes(digest, "big") % PRIME
    assert fingerprints(["føø", "bar", "føø"]).tolist()[::2] == [expected, expected]
    assert fingerprints(["a"]).tolist() == [69979763407995441]
    assert len(set(fingerprints(["a", "a\0", "", "\ud800", "A"]).tolist())) == 5


def test_an_open_domain_answers_about_candidates():
    n = 60_000
    randomizer = LocalHashing(epsilon=3.0)
    words = np.array(["heron", "tern", "auk"]).repeat([n // 2, n // 3, n // 6])
    candidates = ["auk", "heron", "never seen", "tern"]
    messages = randomizer.randomize(words, randomness=randomness.simulated(8))
    estimate = randomizer.estimate(Batch(messages), candidates)
    truth = np.array([1 / 6, 1 / 2, 0, 1 / 3])
    errors = np.sqrt(randomizer.variance(truth, n=n))
    assert (np.abs(estimate.frequencies - truth) < 6 * errors).all()
    halves = [randomizer.support(part, candidates) for part in (messages[:99], messages[99:])]
    together = randomizer.estimate(halves[0] + halves[1], candidates)
    assert together.frequencies.tolist() == estimate.frequencies.tolist()


def test_an_open_domain_needs_candidates():
    randomizer = LocalHashing(epsilon=3.0)
    messages = randomizer.randomize(["a", "b"])
    with pytest.raises(shoal.InvalidArgumentError, match="as there is no k"):
        randomizer.tally(messages)
    with pytest.raises(shoal.InvalidArgumentError, match="as there is no k"):
        randomizer.estimate(Counts(np.array([1]), 2))


@pytest.mark.parametrize("values", ["abc", [1, 2], ["a", 1], [b"a"], [None], 3])
def test_what_is_no_list_of_strings_is_refused(values):
    with pytest.raises(shoal.InvalidArgumentError):
        LocalHashing(epsilon=3.0).randomize(values)
