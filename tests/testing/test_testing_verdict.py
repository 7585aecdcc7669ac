from __future__ import annotations

import json

import numpy as np
import pytest

import shoal
from shoal import Limits, randomness, testing
from shoal.mechanisms.dummies import UniformDummies
from shoal.mechanisms.response import RandomizedResponse
from shoal.testing import Hypothesis, Simulations, Way
from shoal.values import Batch, Counts

K, N = 32, 6000
EVEN = np.arange(N) % K
TILTED = np.arange(N) % (3 * K // 4)  # a quarter of the answers is never given
ZIPF = (1 / np.arange(1, K + 1)) / (1 / np.arange(1, K + 1)).sum()
UNIFORM = Hypothesis(k=K, distance=0.15)
AS_ZIPF = Hypothesis(reference=ZIPF, distance=0.15)


SEED = Simulations(seed=1)


def source():
    return randomness.simulated(17)


@pytest.mark.parametrize(
    "how",
    [
        {"way": Way("private")},
        {"way": Way("public")},
        {"way": Way(randomizer="dummies")},
        {"way": Way("public", "partitioned-dummies"), "limits": Limits(messages=100)},
        {"way": Way(partitions=2, symbols=16)},
    ],
)
def test_uniformity_from_answers_to_verdict(how):
    asked = {"epsilon": 1.0, **how, "simulations": SEED, "randomness": source()}
    even = testing.decide(UNIFORM, EVEN, **asked)
    tilted = testing.decide(UNIFORM, TILTED, **asked)
    assert tilted.rejected
    assert tilted.p_value < 0.01
    assert tilted.statistic > tilted.threshold
    assert not even.rejected
    assert even.statistic <= even.threshold
    assert even.kind == "uniformity"
    assert even.power > 0.9
    assert even.guarantee.epsilon <= 1 + 1e-6


def test_a_simulation_draws_its_public_coins_too():
    """Else it could not be repeated: some partitions hide a departure that most others show."""

    def seeded(number, *answers):
        return testing.decide(
            UNIFORM,
            *answers,
            epsilon=1.0,
            way=Way("public"),
            simulations=Simulations(99, seed=1),
            randomness=randomness.simulated(number),
        )

    once, again, other = (seeded(number, TILTED) for number in (1, 1, 2))
    assert once == again
    assert once.device.coins != other.device.coins
    assert seeded(1, EVEN, TILTED) == seeded(1, EVEN, TILTED)


def test_identity_from_answers_to_verdict():
    generator = randomness.simulator(4)
    asked = {"epsilon": 1.0, "simulations": SEED, "randomness": source()}
    same = testing.decide(AS_ZIPF, generator.choice(K, size=N, p=ZIPF), **asked)
    other = testing.decide(AS_ZIPF, EVEN, **asked)
    assert not same.rejected
    assert other.rejected
    assert same.kind == "identity"
    assert "reference" in same.words


def test_closeness_from_answers_to_verdict():
    generator = randomness.simulator(4)
    one, two = (generator.choice(K, size=size, p=ZIPF) for size in (N, N // 2))
    asked = {"epsilon": 1.0, "simulations": SEED, "randomness": source()}
    alike = testing.decide(UNIFORM, one, two, **asked)
    apart = testing.decide(UNIFORM, one, EVEN, **asked)
    assert not alike.rejected
    assert apart.rejected
    assert alike.sizes == (N, N // 2)
    assert alike.n == N + N // 2
    assert alike.guarantee.n == N // 2
    assert "two groups" in alike.words
    assert apart.power > alike.power


def test_the_default_is_secure_and_the_seed_is_that_of_the_simulations_alone():
    device = RandomizedResponse(k=K, epsilon=3.0)
    tester = testing.Tester(device, Hypothesis(k=K, distance=0.1), n=N)
    first, second = tester.randomize(EVEN), tester.randomize(EVEN)
    assert not np.array_equal(first, second)
    batch = shoal.shuffle(first)
    once, again = (tester.decide(batch, Simulations(seed=9)) for _ in range(2))
    assert once == again
    assert tester.decide(batch, Simulations(seed=8)).threshold != once.threshold


def make(device=None, **changed):
    device = device or RandomizedResponse(k=K, epsilon=3.0)
    return testing.Tester(device, Hypothesis(k=K, distance=0.1, **changed), n=N)


def counted(tester, values):
    reports = tester.randomize(values, randomness=source())
    return tester.device.counted(shoal.shuffle(reports, randomness=source()))


def test_a_batch_and_its_counts_say_the_same():
    tester = make()
    batch = shoal.shuffle(tester.randomize(EVEN, randomness=source()), randomness=source())
    counts = tester.device.tally(batch.messages)
    assert tester.statistic(batch) == tester.statistic(counts)
    assert tester.decide(batch, SEED) == tester.decide(counts, SEED)


def test_the_guarantee_is_restated_for_the_people_who_came():
    tester = make()
    fewer = tester.decide(counted(tester, EVEN[: N // 4]), SEED)
    assert fewer.sizes == (N // 4,)
    assert fewer.guarantee.n == N // 4
    assert fewer.guarantee.epsilon > 1.5 * tester.guarantee.epsilon
    assert fewer.power == tester.power(n=N // 4) < tester.power()


def test_the_null_distribution_does_not_depend_on_how_it_is_cut_up(monkeypatch):
    from shoal.testing import sampling

    tester = make()
    monkeypatch.setattr(sampling, "LARGEST_CHUNK", 10 * K)
    assert list(sampling.chunks(25, K)) == [10, 10, 5]
    null = tester.null(Simulations(1234, seed=2))
    assert null.shape == (1234,)
    assert abs(null.mean()) < 6 * null.std() / np.sqrt(1234)


def test_a_null_of_few_messages_among_many_is_the_same_law():
    """Two ways to draw counts: message by message, or cell by cell."""
    from shoal.testing import sampling

    cells, n = 300, 3000
    quick = sampling.uniform(cells, sent=np.full(4000, n), generator=randomness.simulator(1))
    slow = randomness.simulator(2).multinomial(n, np.full(cells, 1 / cells), size=4000)
    assert (quick.sum(axis=1) == n).all()
    for tables in (quick, slow):
        assert (tables**2).sum(axis=1).mean() == pytest.approx(n + n * (n - 1) / cells, rel=5e-3)
    assert quick.var() == pytest.approx(slow.var(), rel=0.02)


def test_several_messages_are_not_compared():
    tester = make(UniformDummies(k=K, dummies=1.0))
    counts = counted(tester, EVEN)
    with pytest.raises(shoal.InvalidArgumentError, match="not exchangeable"):
        tester.compare(counts, counts)
    with pytest.raises(shoal.InvalidArgumentError, match="not exchangeable"):
        make(UniformDummies(k=K, dummies=1.0), closeness=True)


def test_too_few_simulations_for_the_level_are_refused():
    tester = make(level=0.01)
    with pytest.raises(shoal.InvalidArgumentError, match="at least 99 simulations"):
        tester.decide(counted(tester, EVEN), Simulations(98))
    assert tester.decide(counted(tester, EVEN), Simulations(99, seed=1)).simulations == 99


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        (Counts(np.ones(K + 1, dtype=np.int64), K + 1), "counts of 32 messages"),
        (Counts(np.ones(K, dtype=np.int64), K + 1), "messages of 33 people"),
        (Counts(np.r_[np.full(K - 1, 2), -2], 60), "messages of 60 people"),
        (Counts(np.r_[1, np.zeros(K - 1, dtype=np.int64)], 1), "n"),
    ],
)
def test_counts_that_no_device_gives_are_refused(counts, says):
    with pytest.raises(shoal.InvalidArgumentError, match=says):
        make().decide(counts)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([0], "at least two"),
        ([], "at least two"),
        ([[1, 2]], "at least two"),
        (5, "at least two"),
        ([0, K], "answers 0, ..., 31"),
        ([0, -1], "answers 0, ..., 31"),
        ([0.5, 1.0], "whole numbers"),
        (["a", "b"], "whole numbers"),
    ],
)
def test_what_are_no_answers_is_refused(values, says):
    with pytest.raises(shoal.InvalidArgumentError, match=says):
        testing.decide(UNIFORM, values, epsilon=1.0)
    with pytest.raises(shoal.InvalidArgumentError, match=says):
        testing.decide(UNIFORM, EVEN, values, epsilon=1.0)


def test_one_group_or_two_are_judged():
    together = Hypothesis(k=K, distance=0.15, closeness=True)
    for tested, groups in ((UNIFORM, ()), (UNIFORM, (EVEN,) * 3), (together, (EVEN,))):
        with pytest.raises(shoal.InvalidArgumentError, match="group"):
            testing.decide(tested, *groups, epsilon=1.0)


def test_messages_that_nobody_sends_are_refused():
    with pytest.raises(shoal.InvalidArgumentError):
        make().decide(Batch(np.array([0, K])))


def test_words_say_what_was_found_and_what_would_have_been():
    tester = make()
    seen = tester.decide(counted(tester, TILTED), SEED)
    assert seen.words == (
        "The answers are not uniform: p ≤ 0.0005 (1,999 simulations), at level 0.05."
    )
    unseen = tester.decide(counted(tester, EVEN), SEED)
    assert unseen.words.startswith("No departure from uniform was seen: p = ")
    assert f"a distance of 0.1 would have been noticed with probability {unseen.power:.2f}" in str(
        unseen
    )


def test_plain_values_can_be_written_as_json():
    tester = make(UniformDummies(k=K, dummies=0.7))
    verdict = tester.decide(counted(tester, EVEN), SEED)
    stored = json.loads(json.dumps(verdict.to_dict(), allow_nan=False))
    assert stored["p_value"] == verdict.p_value
    assert stored["device"] == {"name": "dummies", "k": K, "dummies": pytest.approx(0.7)}
    assert stored["guarantee"]["n"] == N
    assert stored["rejected"] is False
