"""What the accountant of training runs answers, refuses, and never mixes up."""

from __future__ import annotations

import json
import math

import pytest

from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.explain.text import up
from shoal.learning import Refused, Sampling, account, by_epochs, compare, noise_for
from shoal.learning.accountant import LARGEST_EPSILON
from shoal.learning.permuted import BLANKET, CLONES, DELETION, FIXED


def test_the_guarantee_says_what_it_is():
    found = account(noise_multiplier=10, n=10_000, epochs=3, delta=1e-7)
    assert (found.n, found.epochs, found.batch, found.steps) == (10_000, 3, 1, 30_000)
    assert (found.noise_multiplier, found.delta) == (10.0, 1e-7)
    assert found.neighbouring == "replace-one"
    assert found.theorem == "Gaussian blanket, epochs composed"
    assert [route.name for route in found.routes] == [BLANKET, DELETION, CLONES, FIXED]
    assert found.epsilon == min(route.epsilon for route in found.routes)
    assert 0 < found.lower < found.epsilon < found.local
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["epsilon"] == found.epsilon
    assert plain["routes"][0] == {"name": BLANKET, "epsilon": found.epsilon, "remark": ""}
    assert "30,000 steps" in str(found)
    assert found.words == (
        f"everything published during 3 epochs over 10,000 examples is ({up(found.epsilon)}, 1e-7)-"
        "differentially private (replace-one) if every epoch has a fresh random order, cut into "
        "batches"
    )


@pytest.mark.parametrize(
    ("n", "delta"), [(10, 1e-6), (10**5, 1e-6), (10**7, 1e-8), (10**12, 1e-13)]
)
def test_a_delta_that_nobody_chose_is_well_below_one_over_n(n, delta):
    run = {"n": n, "sampling": "fixed"}
    chosen = run | {"delta": delta}
    assert account(noise_multiplier=4, **run).delta == pytest.approx(delta)
    assert account(noise_multiplier=4, **run).epsilon == pytest.approx(
        account(noise_multiplier=4, **chosen).epsilon
    )
    assert noise_for(epsilon=1, **run) == noise_for(epsilon=1, **chosen)
    (once, *_), (expected, *_) = (by_epochs(noise_multiplier=4, **each) for each in (run, chosen))
    assert once == pytest.approx(expected)
    assert not account(noise_multiplier=4, **run).warnings


def test_every_route_beats_no_amplification_by_far_where_noise_is_large():
    found = account(noise_multiplier=10, n=100_000)
    blanket, deletion, clones, fixed = (route.epsilon for route in found.routes)
    assert 4 * blanket < deletion < clones < fixed / 20


def test_no_amplification_is_exact():
    """mu = 2 sqrt(T)/noise; the Gaussian mechanism with mu = 1 at delta 1e-5 has epsilon 4.377."""
    assert account(noise_multiplier=4, n=50, epochs=4, delta=1e-5, sampling="fixed").epsilon == (
        pytest.approx(4.3770, abs=1e-3)
    )
    found = account(noise_multiplier=0.5, n=3)
    assert found.theorem == FIXED
    assert found.epsilon == account(noise_multiplier=0.5, n=3, sampling="fixed").epsilon
    fixed = account(noise_multiplier=1, n=7, epochs=2, batch=3, sampling="fixed")
    assert fixed.lower == pytest.approx(fixed.epsilon, rel=1e-6)
    assert fixed.steps == 6  # the batch left over is one


def test_epsilon_falls_like_one_over_the_root_of_n():
    scaled = [
        account(noise_multiplier=8, n=n, delta=1e-8).epsilon * math.sqrt(n)
        for n in (10**4, 10**5, 10**6)
    ]
    assert max(scaled) < 1.15 * min(scaled)


SMALL = {"noise_multiplier": 5, "n": 2000}


@pytest.mark.parametrize("sampling", list(Sampling))
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("noise_multiplier", (8.1, 8, 4)),
        ("delta", (1e-4, 9e-5, 1e-9)),
        ("epochs", (1, 2, 10)),
    ],
)
def test_less_noise_smaller_delta_and_more_epochs_cost_more(sampling, name, values):
    found = [account(**SMALL | {name: value}, sampling=sampling).epsilon for value in values]
    assert found == sorted(found)
    assert found[0] < found[-1]


@pytest.mark.parametrize("sampling", ["permutation", "replacement", "poisson"])
def test_more_examples_cost_less(sampling):
    found = [
        account(noise_multiplier=5, n=n, sampling=sampling).epsilon
        for n in (100, 1000, 1010, 100_000)
    ]
    assert found == sorted(found, reverse=True)


def test_epochs_cost_no_more_than_adding_them_up():
    """(epsilon, delta) of one epoch, that many times: basic composition is never better."""
    epochs = 3
    together = account(**SMALL, epochs=epochs, delta=1e-6).epsilon
    once = account(**SMALL, delta=1e-6 / epochs).epsilon
    assert account(**SMALL, delta=1e-6).epsilon < together < epochs * once


@pytest.mark.parametrize(
    ("sampling", "epsilon", "epochs", "more"),
    [
        ("permutation", 0.05, 1, {}),
        ("permutation", 0.1, 3, {}),
        ("replacement", 0.3, 3, {}),
        ("poisson", 0.3, 3, {}),
        ("poisson", 0.3, 3, {"neighbouring": "replace-one"}),
        ("fixed", 1.0, 3, {}),
    ],
)
def test_the_noise_for_an_epsilon_keeps_it_and_little_less_does_not(
    sampling, epsilon, epochs, more
):
    asked = {"n": 3000, "epochs": epochs, "sampling": sampling, **more}
    noise = noise_for(epsilon=epsilon, **asked)
    assert account(noise_multiplier=noise, **asked).epsilon <= epsilon
    assert account(noise_multiplier=noise * 0.998, **asked).epsilon > epsilon


def test_batches_count_blocks_and_what_is_left_over_where_steps_are_drawn():
    found = account(noise_multiplier=50, n=2000, batch=4, epochs=2)
    assert found.steps == 1000
    assert found.epsilon < account(noise_multiplier=50, n=2000, epochs=2, sampling="fixed").epsilon
    assert account(noise_multiplier=50, n=2000, batch=1).epsilon < found.epsilon
    dropped = account(noise_multiplier=50, n=2003, batch=4, epochs=2, drop_last=True)
    assert (dropped.steps, dropped.epsilon) == (1000, found.epsilon)
    asked = {"noise_multiplier": 4, "n": 1003, "batch": 10, "sampling": "replacement"}
    whole, dropped = account(**asked), account(**asked, drop_last=True)
    assert (whole.steps, dropped.steps) == (101, 100)
    assert whole.epsilon > dropped.epsilon
    # An example that is left out at times is not claimed to give itself away.
    dropped = account(noise_multiplier=1, n=199, batch=100, drop_last=True)
    whole = account(noise_multiplier=1, n=200, batch=100)
    assert dropped.lower == 0.0
    assert whole.lower > 0.99 * whole.epsilon


@pytest.mark.parametrize(
    ("sampling", "said"),
    [("poisson", "not how many examples a step took"), ("permutation", "sizes of batches")],
)
def test_sizes_of_sampled_batches_are_not_public(sampling, said):
    found = account(noise_multiplier=1, n=1000, sampling=sampling)
    assert any(said in each for each in found.assumptions)


def test_a_step_on_everything_gains_nothing_by_sampling():
    for sampling, mu in (("replacement", 2.0), ("poisson", 1.0)):
        found = account(noise_multiplier=4, n=10, batch=10, epochs=5, sampling=sampling)
        fixed = account(noise_multiplier=8 / mu, n=10, epochs=5, sampling="fixed")
        assert found.epsilon == pytest.approx(fixed.epsilon, rel=1e-9)


@pytest.mark.parametrize("sampling", ["permutation", "replacement", "poisson"])
@pytest.mark.parametrize(
    ("noise", "n", "delta"), [(1e6, 100, 1e-6), (1e9, 5, 1e-6), (5, 10**15, 1e-15), (5, 9, 0.5)]
)
def test_extremes_are_answered(sampling, noise, n, delta):
    found = account(noise_multiplier=noise, n=n, delta=delta, sampling=sampling).epsilon
    assert 0 <= found <= 3e-7


@pytest.mark.parametrize(
    "asked",
    [
        {"noise_multiplier": 20, "n": 10**8, "epochs": 10, "delta": 1e-3},
        {"noise_multiplier": 3e5, "n": 10**6, "epochs": 10, "delta": 1e-6},
        {"noise_multiplier": 1e15, "n": 1000},
        {"noise_multiplier": 1e18, "n": 1000, "sampling": "poisson"},
        {"noise_multiplier": 1e18, "n": 1000, "sampling": "replacement"},
    ],
)
def test_what_delta_has_room_for_altogether_costs_no_epsilon(asked):
    assert account(**asked).epsilon == 0.0


@pytest.mark.slow
def test_more_noise_than_can_be_told_apart_never_claims_more_than_its_share():
    quiet = account(noise_multiplier=1e9, n=1000, delta=1e-40)
    for noise in (1e12, 1e13, 1e14):
        loud = account(noise_multiplier=noise, n=1000, delta=1e-40).epsilon
        assert loud <= quiet.epsilon
        assert loud * noise >= 0.9 * quiet.lower * 1e9


def test_noise_is_not_sought_for_more_steps_than_anybody_takes():
    with pytest.raises(UnreachableTargetError, match="larger batches"):
        noise_for(epsilon=1.0, n=10**15)
    rows = compare(epsilon=1.0, n=10**15).rows
    assert [row.epsilon is None for row in rows] == [True, True, True, True, False]
    assert noise_for(epsilon=1.0, n=10**15, batch=10**6) > 0


def test_poisson_is_about_other_neighbours():
    assert [row.delta for row in compare(noise_multiplier=40, n=10**6)] == pytest.approx([1e-7] * 5)
    permutation, replacement, poisson, replaced, fixed = compare(noise_multiplier=3, n=5000)
    assert poisson.neighbouring == "add-or-remove-one"
    assert permutation.neighbouring == replacement.neighbouring == "replace-one"
    assert poisson.epsilon < replacement.epsilon < permutation.epsilon
    assert replaced == account(
        noise_multiplier=3, n=5000, sampling="poisson", neighbouring="replace-one"
    )
    assert fixed == account(noise_multiplier=3, n=5000, sampling="fixed")
    assert replaced.neighbouring == "replace-one"
    assert poisson.epsilon < replaced.epsilon < replacement.epsilon
    # one step without sampling: replacing moves the sum twice as far as removing
    assert replaced.local == replacement.local
    assert poisson.local == pytest.approx(account(noise_multiplier=6, n=1).local, rel=1e-9)


@pytest.mark.parametrize(
    ("noise", "n", "batch", "epochs", "doubled"),
    [(1.1, 60_032, 64, 100, 3.64), (2, 10_000, 1, 1, 0.0379), (0.5, 60_000, 60, 10, 24.8)],
)
def test_replacing_costs_poisson_less_than_removing_and_adding(noise, n, batch, epochs, doubled):
    """``doubled`` is (2 eps, (1 + e^eps) delta) from add-or-remove-one, computed elsewhere."""
    asked = {"noise_multiplier": noise, "n": n, "batch": batch, "epochs": epochs}
    removed = account(**asked, sampling="poisson").epsilon
    replaced = account(**asked, sampling="poisson", neighbouring="replace-one").epsilon
    assert removed < replaced < doubled


def test_one_kind_without_a_guarantee_does_not_spoil_the_comparison():
    asked = {"n": 60_000, "noise_multiplier": 1.1, "batch": 64, "epochs": 100}
    permutation, replacement, poisson, *_ = compare(**asked, drop_last=True)
    assert isinstance(permutation, Refused)
    assert (permutation.sampling, permutation.neighbouring) == ("permutation", "replace-one")
    assert permutation.epsilon is None
    assert permutation.remark == "epsilon would be 251, and over 50 it guarantees nothing"
    assert "noise multiplier 1.1" in str(permutation)
    assert "raise it to at least" in str(permutation)
    assert poisson.epsilon < replacement.epsilon
    left_over, *_ = compare(**asked)
    assert left_over.remark == "the batch size does not divide n"
    assert "drop_last=True: 32 examples would be a crowd apart" in str(left_over)
    with pytest.raises(InvalidArgumentError, match="batch <= n = 100"):
        compare(noise_multiplier=1, n=100, batch=200)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"noise_multiplier": 0.5, "n": 1}, "there is no other example to hide among"),
        ({"noise_multiplier": 9, "n": 8, "batch": 8}, "there is no other batch to hide among"),
        ({"noise_multiplier": 0.5, "n": 9}, "too few other steps could look like one of them"),
        (
            {"noise_multiplier": 400, "n": 60_032, "batch": 64},
            "too few other batches could have the sum of one of them",
        ),
    ],
)
def test_a_route_without_an_epsilon_says_what_it_lacks(asked, said):
    """In batches one step alone may reveal little: it is whole batches that have to be alike."""
    routes = {route.name: route for route in account(**asked).routes}
    assert (routes[CLONES].epsilon, routes[CLONES].remark) == (None, said)


def test_a_tiny_delta_has_an_epsilon_and_one_is_not_many():
    found = account(noise_multiplier=1, n=60_000, delta=1e-20)
    assert 9.1 < found.lower < found.epsilon < 20.2
    one = account(noise_multiplier=1, n=1)
    assert "1 epoch, 1 step" in str(one)
    assert "over 1 example is" in one.words


def test_the_published_analysis_of_replacement_is_there_and_looser():
    numeric, published = account(**SMALL, sampling="replacement").routes
    assert numeric.epsilon < published.epsilon < 100 * numeric.epsilon


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"noise_multiplier": 0}, "noise_multiplier > 0"),
        ({"noise_multiplier": -1}, "noise_multiplier > 0"),
        ({"noise_multiplier": math.nan}, "noise_multiplier > 0"),
        ({"n": 0}, "1 <= n"),
        ({"n": 2.5}, "1 <= n"),
        ({"epochs": 0}, "1 <= epochs"),
        ({"batch": 0}, "1 <= batch"),
        ({"batch": 101}, "batch <= n = 100"),
        ({"batch": 7}, "batch to divide n = 100, or drop_last=True: 2 examples would be"),
        ({"batch": 3}, "1 example would be a crowd apart"),
        ({"delta": 0.0}, "0 < delta < 1"),
        ({"delta": 1.0}, "0 < delta < 1"),
        ({"sampling": "shuffle"}, "one of permutation, replacement, poisson, fixed"),
        ({"neighbouring": "add-or-remove-one"}, "replace-one for sampling 'permutation'"),
        (
            {"neighbouring": "replace", "sampling": "poisson"},
            "neighbouring to be add-or-remove-one or replace-one",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(asked, said):
    with pytest.raises(InvalidArgumentError, match=said):
        account(**{"noise_multiplier": 1.0, "n": 100} | asked)


REPLACED = {"sampling": "poisson", "neighbouring": "replace-one"}


@pytest.mark.parametrize(
    ("noise", "asked"),
    [
        (0.01, {"n": 100, "sampling": "permutation"}),
        (0.01, {"n": 100, "sampling": "fixed"}),
        (1e-3, {"n": 2, "sampling": "replacement"}),
        (1e-3, {"n": 2, "sampling": "poisson"}),
        (0.3, {"n": 50, "batch": 5, "epochs": 2, **REPLACED}),
    ],
)
def test_too_little_noise_is_refused_and_the_least_is_named(noise, asked):
    with pytest.raises(UnreachableTargetError, match="over 50 it guarantees nothing") as caught:
        account(noise_multiplier=noise, **asked)
    enough = float(str(caught.value).rsplit(" ", 1)[1])
    assert account(noise_multiplier=enough, **asked).epsilon <= LARGEST_EPSILON
    with pytest.raises(UnreachableTargetError):
        account(noise_multiplier=0.998 * enough, **asked)


def test_a_target_that_is_none_is_refused():
    with pytest.raises(InvalidArgumentError, match="epsilon <= 50"):
        noise_for(epsilon=60, n=100)
    with pytest.raises(InvalidArgumentError, match="epsilon > 0"):
        noise_for(epsilon=0, n=100)
