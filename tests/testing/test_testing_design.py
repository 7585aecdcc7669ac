from __future__ import annotations

import json
import math

import numpy as np
import pytest

import shoal
from shoal import Crowd, Limits, testing
from shoal.testing import Hypothesis, Way

HARD = Hypothesis(k=1024, distance=0.1), {"n": 30_113, "epsilon": 0.25}  # public coins help here
EASY = Hypothesis(k=64, distance=0.1), {"n": 4000, "epsilon": 1.0}  # and here they do not
ANY = Limits(messages=math.inf)


def designed(asked, **terms):
    hypothesis, price = asked
    return testing.design(hypothesis, **price, **terms)


@pytest.fixture(scope="module")
def hard():
    return designed(HARD, way=Way(coins=3))


@pytest.fixture(scope="module")
def easy():
    return designed(EASY, way=Way(coins=3), limits=Limits(messages=3.0))


def test_options_come_with_the_most_power_first(hard):
    assert [option.name for option in hard.options] == ["partitioned", "grr", "hadamard"]
    powers = [option.power for option in hard.options]
    assert powers == sorted(powers, reverse=True)
    assert powers[0] > powers[1] + 0.2
    assert hard.recommended.coin == "public"
    assert "power is the largest" in hard.reason


def test_every_option_keeps_its_target(hard, easy):
    for found in (hard, easy):
        asked = found.setting
        for option in found.options:
            guarantee = option.tester().guarantee
            assert 0.97 * asked.epsilon < guarantee.epsilon <= asked.epsilon * (1 + 1e-6)
            assert guarantee.n == asked.n


def test_public_coins_and_more_messages_have_to_be_worth_it(easy):
    assert easy.recommended.name == "grr"
    assert {option.name for option in easy.options} == {
        "grr",
        "hadamard",
        "dummies",
        "partitioned",
        "partitioned-dummies",
    }
    assert max(option.power for option in easy.options) > easy.recommended.power
    assert "not worth" in easy.reason or "simplest" in easy.reason


def test_a_cap_on_messages_is_kept():
    found = designed(HARD, way=Way("public", coins=3), limits=Limits(messages=1.3))
    several = found.option("partitioned-dummies")
    assert several.messages <= 1.3
    none = designed(HARD, way=Way("private", coins=3), limits=Limits(messages=1.01))
    refused = none.option("dummies")
    assert refused.device is None
    assert "over the cap" in refused.remark
    assert refused.required_n is None
    with pytest.raises(shoal.UnreachableTargetError, match="over the cap"):
        none.tester("dummies")


def test_one_partition_among_dummies_is_enough(hard):
    found = designed(HARD, way=Way("public", coins=3), limits=ANY)
    several = found.recommended
    assert several.name == "partitioned-dummies"
    assert several.device.partitions == 1
    assert several.messages < 3
    assert several.power > hard.recommended.power + 0.1


def test_coins_partitions_and_symbols_are_as_asked():
    private = designed(EASY, way=Way("private"))
    assert {option.coin for option in private.options} == {"private"}
    asked = designed(EASY, way=Way(partitions=2, symbols=8, coins=77))
    assert [option.name for option in asked.options] == ["partitioned"]
    device = asked.recommended.device
    assert (device.partitions, device.symbols, device.coins) == (2, 8, 77)
    assert asked.reason == "it is the only one possible"


def test_public_coins_are_drawn_anew_unless_given():
    way = Way("public", symbols=8, partitions=1)
    first, second = (designed(EASY, way=way).recommended.device.coins for _ in range(2))
    assert first != second


@pytest.mark.parametrize("name", ["grr", "hadamard", "projective", "dummies", "partitioned"])
def test_a_device_can_be_asked_for_by_name(name):
    found = designed(EASY, way=Way(randomizer=name))
    assert [option.name for option in found.options] == [name]
    assert found.tester().device.name == name


def test_honest_people_alone_are_counted_on():
    crowd = Crowd(honest_fraction=0.5)
    whole = designed(EASY, way=Way("private")).option("grr")
    half = designed(EASY, way=Way("private"), crowd=crowd).option("grr")
    assert half.local_epsilon < whole.local_epsilon
    assert half.tester().guarantee.n == 2000
    assert half.tester().guarantee.epsilon <= 1 + 1e-6
    dummies = designed(EASY, way=Way(randomizer="dummies"), crowd=crowd)
    assert dummies.tester().guarantee.epsilon <= 1 + 1e-6


def test_a_distance_that_cannot_be_told_is_refused_with_the_number_needed():
    close, private = Hypothesis(k=256, distance=0.02), Way("private")
    found = testing.design(close, n=2000, epsilon=0.5, way=private)
    assert found.recommended.power < 0.1
    needed = found.recommended.required_n
    with pytest.raises(shoal.UnreachableTargetError, match=f"about {needed:,} people") as refused:
        found.tester()
    assert "\n" not in str(refused.value)
    there = testing.design(close, n=needed, epsilon=0.5, way=private)
    assert there.option(found.recommended.name).power == pytest.approx(0.95, abs=0.005)
    with pytest.raises(shoal.UnreachableTargetError, match="people are needed"):
        testing.decide(close, np.arange(2000) % 256, epsilon=0.5, way=private)


@pytest.mark.slow
def test_the_number_required_is_that_of_the_best_way():
    asked, any_way = (Hypothesis(k=256, distance=0.1),), {"epsilon": 0.25, "way": Way(coins=1)}
    best = testing.required_n(*asked, **any_way)
    assert testing.design(*asked, n=best, **any_way).options[0].power >= 0.92
    reached = max(option.power for option in testing.design(*asked, n=best, **any_way).options)
    assert reached == pytest.approx(0.95, abs=0.01)
    private = testing.required_n(*asked, epsilon=0.25, way=Way("private"))
    assert private > best
    assert testing.required_n(*asked, epsilon=0.25, way=Way("private", "grr"), power=0.5) < private


def test_powers_grow_with_people_distance_and_level(hard):
    tester = hard.tester("grr")
    assert tester.power(n=40_000) > tester.power() > tester.power(n=20_000)
    assert tester.power(0.2) > tester.power() > tester.power(0.05)
    public = hard.tester()
    assert public.power(0.2) > public.power() > public.power(0.05) > 0.05
    # Further than pairs can move, the prediction is a lower limit and stays one.
    assert public.power(0.9) >= public.power(0.5) - 1e-9


def asked_for(*, k=64, distance=0.1, n=4000, epsilon=1.0, delta=1e-6, **others):
    """A design of all these, each given to the value that has it."""
    of = {"way": {}, "limits": {}, "crowd": {}, "hypothesis": {"k": k, "distance": distance}}
    homes = {"messages": "limits", "honest_fraction": "crowd", "participation": "crowd"}
    homes |= dict.fromkeys(("local_epsilon", "each", "weaker"), "limits")
    homes |= dict.fromkeys(("level", "reference", "closeness", "overlapping"), "hypothesis")
    for name, value in others.items():
        of[homes.get(name, "way")][name] = value
    terms = {
        "way": Way(**of["way"]),
        "limits": Limits(**of["limits"]),
        "crowd": Crowd(**of["crowd"]),
    }
    return testing.design(
        Hypothesis(**of["hypothesis"]), n=n, epsilon=epsilon, delta=delta, **terms
    )


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"distance": 0.0}, "distance"),
        ({"distance": 1.0}, "distance"),
        ({"distance": 0.999}, "largest from this reference"),
        ({"level": 0.0}, "level"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"n": 1}, "n"),
        ({"k": 1}, "k"),
        ({"k": None}, "exactly one of k and a reference"),
        ({"coin": "fair"}, "auto, private, public"),
        ({"coin": "private", "partitions": 4}, "private coins"),
        ({"coin": "private", "symbols": 4}, "private coins"),
        ({"randomizer": "grr", "partitions": 4}, "no partitions with grr"),
        ({"randomizer": "grr", "coin": "public"}, "coin private"),
        ({"randomizer": "partitioned", "coin": "private"}, "coin public"),
        ({"randomizer": "nonsense"}, "one of grr"),
        ({"messages": 0.5}, "messages"),
        ({"messages": math.nan}, "messages"),
        ({"reference": [0.5, 0.5]}, "exactly one of k and a reference"),
        ({"closeness": True, "randomizer": "dummies"}, "one message"),
        ({"honest_fraction": 0.0}, "honest_fraction"),
        ({"participation": 0.5}, "no participation"),
        ({"local_epsilon": 1.0}, "no local_epsilon"),
        ({"each": True}, "messages alone"),
        ({"weaker": True}, "messages alone"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, says):
    with pytest.raises(shoal.ShoalError, match=says) as refused:
        asked_for(**wrong)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ([], "two answers"),
        ([1.0], "two answers"),
        ([0.5, 0.6], "sum to 1"),
        ([1.5, -0.5], "not negative"),
        ([0.5, math.nan], "finite"),
        ([[0.5, 0.5]], "two answers"),
        (["a", "b"], "probabilities"),
    ],
)
def test_what_is_no_reference_is_refused(reference, says):
    with pytest.raises(shoal.InvalidArgumentError, match=says):
        Hypothesis(reference=reference, distance=0.1)


def test_what_a_device_cannot_do_is_a_remark_not_an_error():
    found = designed(EASY, way=Way(randomizer="subset"))
    assert found.recommended.device is None
    assert "numbers" in found.recommended.remark
    assert found.reason == "none is possible"
    with pytest.raises(shoal.UnreachableTargetError, match="numbers"):
        found.tester()
    wide = designed(EASY, way=Way(partitions=1 << 21, symbols=8))
    assert "partitions times answers" in wide.recommended.remark


def test_a_reference_is_normalised():
    reference = np.array([0.5, 0.3, 0.2]) + 1e-8
    found = Hypothesis(reference=reference, distance=0.1)
    assert found.probabilities.sum() == pytest.approx(1.0, abs=1e-15)
    assert found.kind == "identity"
    assert found.k == 3


def test_answers_that_never_occur_are_allowed():
    hypothesis = Hypothesis(reference=[0.5, 0.5, 0.0], distance=0.1)
    found = testing.design(hypothesis, n=3000, epsilon=1.0, way=Way("private"))
    assert all(option.power > 0.9 for option in found.options)
    assert found.tester().decide(
        found.tester().device.counted(_batch(found.tester(), np.arange(3000) % 2))
    ).sizes == (3000,)


def _batch(tester, values):
    return shoal.shuffle(tester.randomize(values, randomness=shoal.randomness.simulated(1)))


def test_plain_values_can_be_written_as_json(hard, easy):
    for found in (hard, easy):
        stored = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        assert stored["recommended"] == found.recommended.name
        assert stored["question"]["k"] == found.setting.k
        assert [option["name"] for option in stored["options"]] == [
            option.name for option in found.options
        ]
