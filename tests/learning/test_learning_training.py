"""Training: gradients, clipping, noise and orders are what the guarantee is about."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from shoal.errors import InvalidArgumentError
from shoal.learning.accountant import account
from shoal.learning.descent import (
    OWN_LOSSES,
    PUBLIC_LABELS,
    Descent,
    Logistic,
    Ridge,
    clipped_sum,
    descend,
    standard_normals,
    steepest,
    train,
)
from shoal.learning.run import REPLACE, Run, Sampling
from shoal.randomness import Randomness, simulated, simulator

LOSSES = (Logistic(), Ridge())
FALSE_ALARM = 1e-7


def schedule(n, *, epochs=1, batch=1, noise=0.0, rate=0.1, clip=1.0, radius=None):
    """A run, whatever it proves: some have no noise at all. And how it moves."""
    run = Run(noise, n, epochs, batch, 1e-6, Sampling.PERMUTATION, REPLACE, drop_last=True)
    return run, Descent(rate=rate, clip=clip, radius=radius)


def sphere(n, d, seed=0):
    """Examples of norm one."""
    drawn = simulator(seed).normal(size=(n, d))
    return drawn / np.linalg.norm(drawn, axis=1)[:, None]


def labelled(n, d, seed=0):
    """Examples of norm one and the side of a plane that they lie on."""
    examples = sphere(n, d, seed)
    return examples, np.where(examples @ np.linspace(1, 2, d) > 0, "yes", "no")


def permuted(examples, **asked):
    """The guarantee of training on these examples."""
    return account(n=len(examples), **asked)


def quickly(examples, **asked):
    """Where the guarantee is not what is tested: that of any order, which takes no time."""
    return permuted(examples, sampling="fixed", **asked)


class Recorded(Randomness):
    """Simulated words, and every order and every block of words that was drawn."""

    def __init__(self, seed):
        self.inner = simulated(seed)
        self.orders, self.blocks = [], []

    def words(self, size):
        drawn = self.inner.words(size)
        self.blocks.append(drawn.copy())
        return drawn

    def permutation(self, size):
        order = self.inner.permutation(size)
        self.orders.append(order)
        return order


# The gradient of one example, and clipping it.


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@given(
    score=st.floats(-30, 30),
    target=st.sampled_from([-1.0, 1.0]),
)
def test_a_slope_is_the_derivative_of_the_loss(loss, score, target):
    step = 1e-5
    around = np.array([score - step, score + step])
    low, high = loss.values(around, np.full(2, target))
    slope = loss.slope(score, target)
    assert slope == pytest.approx((high - low) / (2 * step), abs=1e-6)
    both = loss.slopes(np.full(2, score), np.full(2, target))
    assert both == pytest.approx([slope, slope], rel=1e-14)


def test_slopes_of_extreme_scores_are_finite():
    scores = np.array([-1e300, -800.0, 800.0, 1e300])
    for target in (-1.0, 1.0):
        slopes = Logistic().slopes(scores, np.full(4, target))
        assert np.isfinite(slopes).all()
        assert (np.abs(slopes) <= 1).all()
        assert [Logistic().slope(score, target) for score in scores] == slopes.tolist()


@given(
    seed=st.integers(0, 1000),
    clip=st.floats(1e-3, 1e3),
    scale=st.floats(1e-3, 1e3),
    loss=st.sampled_from(LOSSES),
)
def test_a_clipped_sum_is_the_sum_of_clipped_gradients(seed, clip, scale, loss):
    generator = simulator(seed)
    examples = generator.normal(size=(7, 3)) * scale
    examples[0] = 0
    targets = np.sign(generator.normal(size=7))
    theta = generator.normal(size=3)
    expected = np.zeros(3)
    for x, target in zip(examples, targets, strict=True):
        gradient = _numeric_gradient(loss, x, target, theta)
        norm = np.linalg.norm(gradient)
        expected += gradient if norm <= clip else gradient * (clip / norm)
    slopes = loss.slopes(examples @ theta, targets)
    found = clipped_sum(examples, slopes, steepest(examples, clip=clip))
    size = 7 * min(clip, float(np.abs(slopes[:, None] * examples).max()) + 1e-300)
    assert found == pytest.approx(expected, abs=1e-3 * size + 1e-6 * scale)


def _numeric_gradient(loss, x, target, theta):
    def value(point):
        return loss.values(np.array([x @ point]), np.array([target]))[0]

    steps = 1e-6 * np.eye(len(theta)) / (1 + np.abs(x).max())
    return np.array([(value(theta + h) - value(theta - h)) / (2 * h.max()) for h in steps])


@pytest.mark.parametrize("size", [1e-200, 1e-160, 1.0, 1e90])
def test_no_gradient_is_longer_than_the_clip_however_small_or_large_its_example(size):
    examples = np.array([[3.0, -4.0]]) * size
    slopes = np.array([1e300 / size]) if size > 1 else np.array([1e300])
    found = clipped_sum(examples, slopes, steepest(examples, clip=0.5))
    assert np.hypot(*found) == pytest.approx(0.5, rel=1e-12)


# Noise.


def test_noise_is_standard_normal():
    drawn = standard_normals(200_001, randomness=simulated(3))
    assert drawn.shape == (200_001,)
    assert stats.kstest(drawn, "norm").pvalue > FALSE_ALARM
    assert np.abs(drawn).max() < 7
    tail = (np.abs(drawn) > 3).sum()
    assert stats.binomtest(int(tail), drawn.size, 2 * stats.norm.sf(3)).pvalue > FALSE_ALARM


def test_noise_of_neighbours_is_independent():
    first, second = standard_normals(200_000, randomness=simulated(4)).reshape(2, -1)
    for left, right in ((first, second), (first[1:], first[:-1]), (first**2, second**2)):
        assert stats.pearsonr(left, right).pvalue > FALSE_ALARM


def test_a_number_is_made_of_four_normals():
    source = Recorded(1)
    standard_normals(10, randomness=source)
    assert sum(map(len, source.blocks)) == 4 * 10


@pytest.mark.parametrize("batch", [1, 4])
def test_the_step_adds_noise_of_the_size_accounted_for(batch):
    """Where gradients are zero every move is noise: rate/batch times it, fresh in every step."""
    task = (np.zeros((40_000, 3)), np.ones(40_000), Logistic())
    plan = schedule(40_000, noise=2.5, rate=0.1, batch=batch, epochs=2)
    path = descend(*task, *plan, randomness=simulated(5), keep_iterates=True)
    moves = np.diff(path.iterates, axis=0, prepend=0.0) * batch / (0.1 * 2.5)
    assert len(moves) == 2 * 40_000 // batch
    square = np.square(moves).sum()
    assert stats.chi2.cdf(square, moves.size) > FALSE_ALARM
    assert stats.chi2.sf(square, moves.size) > FALSE_ALARM
    assert stats.kstest(moves.ravel(), "norm").pvalue > FALSE_ALARM
    # Nothing drawn twice: not in another step, coordinate or epoch (up to the rounding of diff).
    assert len(np.unique(moves.round(9))) > 0.999 * moves.size


# Orders.


def test_every_epoch_has_a_fresh_order_of_all_examples():
    source = Recorded(6)
    task = (sphere(50, 2), np.ones(50), Ridge())
    descend(*task, *schedule(50, epochs=6, batch=5), randomness=source)
    assert len(source.orders) == 6
    assert all(sorted(order) == list(range(50)) for order in source.orders)
    assert len({tuple(order) for order in source.orders}) == 6


@pytest.mark.parametrize("batch", [1, 2])
def test_orders_that_are_walked_are_uniform(batch):
    """Example i moves coordinate i of theta: the iterates tell in which order they came."""
    task = (np.eye(4), np.ones(4), Ridge())
    plan = schedule(4, epochs=4_000, rate=1e-9, batch=batch)
    path = descend(*task, *plan, randomness=simulated(7), keep_iterates=True)
    moves = np.diff(path.iterates, axis=0, prepend=0.0).reshape(4_000, 4 // batch, 4)
    steps = (moves > moves.max() / 2).argmax(axis=1)  # the step in which each example came
    assert ((moves > moves.max() / 2).sum(axis=1) == 1).all()
    codes = steps @ (4 // batch) ** np.arange(4)
    counts = np.unique(codes, return_counts=True)[1]
    assert len(counts) == math.factorial(4) // math.factorial(batch) ** (4 // batch)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


# The descent.


@pytest.mark.parametrize("loss", [Logistic(), Ridge(), Ridge(l2=0.3)], ids=str)
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("radius", [None, 0.2])
def test_without_noise_it_is_plain_descent(loss, batch, radius):
    examples = simulator(8).normal(size=(31, 4)) * 2
    targets = np.sign(examples @ np.array([1, -1, 0.5, 2]))
    plan = {"batch": batch, "rate": 0.2, "clip": 0.7, "radius": radius}
    source = Recorded(9)
    task = (examples, targets, loss)
    asked = schedule(31, epochs=3, **plan)
    path = descend(*task, *asked, randomness=source, keep_iterates=True, history=True)
    expected, losses = _plainly(*task, source.orders, **plan)
    assert path.iterates == pytest.approx(np.array(expected), abs=1e-12)
    assert path.last == pytest.approx(expected[-1], abs=1e-12)
    assert path.average == pytest.approx(np.mean(expected, axis=0), abs=1e-12)
    assert path.losses == pytest.approx(losses)


def _plainly(examples, targets, loss, orders, *, batch, clip, rate, radius):
    """Example by example, as the algorithm is written down."""
    theta, iterates, losses = np.zeros(examples.shape[1]), [], []
    for order in orders:
        for start in range(0, len(order) - batch + 1, batch):
            total = np.zeros_like(theta)
            for i in order[start : start + batch]:
                x, target = examples[i], targets[i]
                score = x @ theta
                logistic = isinstance(loss, Logistic)
                slope = -target / (1 + np.exp(target * score)) if logistic else score - target
                gradient = slope * x
                total += gradient * min(1, clip / np.linalg.norm(gradient))
            theta = theta - rate * (total / batch + loss.l2 * theta)
            theta = theta * min(1, (radius or math.inf) / np.linalg.norm(theta))
            iterates.append(theta)
        losses.append(loss.values(examples @ theta, targets).mean())
    return iterates, losses


def test_long_epochs_are_laid_out_in_pieces(monkeypatch):
    task = (sphere(100, 3), np.ones(100), Logistic())
    plan = schedule(100, epochs=2, batch=3)
    whole = descend(*task, *plan, randomness=simulated(1), keep_iterates=True)
    monkeypatch.setattr("shoal.learning.descent._TOGETHER", 40)
    pieces = descend(*task, *plan, randomness=simulated(1), keep_iterates=True)
    assert np.array_equal(whole.iterates, pieces.iterates)
    assert len(whole.iterates) == 66


# The whole way.


def test_a_model_is_nearly_as_good_as_one_without_noise():
    """One epoch at epsilon about 1; the made-up labels can be told apart without an error."""
    examples, answers = labelled(20_000, 10)
    guarantee = permuted(examples, noise_multiplier=1.1)
    fit = train(examples, answers, guarantee, randomness=simulated(10))
    assert 0.9 < fit.guarantee.epsilon < 1.1
    task = (examples, Logistic().reading(answers)[0], Logistic())
    clear = descend(*task, *schedule(20_000, epochs=2), randomness=simulated(10)).average
    best = np.mean((examples @ clear > 0) == (answers == "yes"))
    assert best > 0.95
    unseen, truth = labelled(20_000, 10, seed=1)
    assert fit.score(unseen, truth) > 0.9 * best
    assert fit.labels == ("no", "yes")
    assert np.mean(fit.predict(unseen) == truth) == fit.score(unseen, truth)
    assert np.array_equal(fit.decision(unseen) > 0, fit.predict(unseen) == "yes")


def test_ridge_finds_the_weights_within_the_error_of_the_noise():
    """The mean of T iterates is off by H^-1 (mean of the noise), H = E[x x^T]: Polyak, Ruppert.

    On a sphere in d dimensions H = I/d. Noise of deviation z C per step, and residuals that are
    tiny beside it, leave d^2 z^2 C^2/T of variance in each coordinate.
    """
    n, d, z, clip, rate = 100_000, 4, 0.5, 4.0, 0.05  # a clip that cuts nothing off
    examples, truth = sphere(n, d, seed=2), np.array([0.3, -0.2, 0.1, 0.4])
    answers = examples @ truth
    asked = {"loss": Ridge(), "descent": Descent(clip=clip, rate=rate, radius=None)}
    guarantee = quickly(examples, noise_multiplier=z)
    fit = train(examples, answers, guarantee, **asked, randomness=simulated(11))
    # What is left of the start: the sum of (1 - rate/d)^t over t, shared among n steps.
    start = np.linalg.norm(truth) * d / (rate * n)
    # Noisy gradients also move with the noise of earlier steps: a share rate/d of more variance.
    deviation = d * z * clip / math.sqrt(n) * (1 + rate)
    off = np.linalg.norm(fit.weights - truth)
    assert off < start + deviation * math.sqrt(stats.chi2.isf(FALSE_ALARM, d))
    assert off > deviation * math.sqrt(stats.chi2.ppf(FALSE_ALARM, d)) - start
    assert fit.score(examples, answers) > 0.9
    assert np.array_equal(fit.predict(examples), fit.decision(examples))


def test_iterates_stay_in_the_ball():
    examples, answers = labelled(500, 3)
    task = (examples, answers, quickly(examples, noise_multiplier=2.0))
    steps = Descent(radius=0.5, rate=1.0)
    fit = train(*task, descent=steps, keep_iterates=True, randomness=simulated(12))
    norms = np.linalg.norm(fit.iterates, axis=1)
    assert norms.max() == pytest.approx(0.5, rel=1e-12)
    assert np.isclose(norms, 0.5).mean() > 0.5
    assert fit.iterates.shape == (500, 3)
    assert fit.iterates.mean(axis=0) == pytest.approx(fit.weights)
    last = train(*task, descent=replace(steps, average=False), randomness=simulated(12))
    assert np.array_equal(last.weights, fit.iterates[-1])


@pytest.mark.parametrize(("epochs", "batch", "drop_last"), [(1, 1, False), (2, 7, True)])
def test_the_guarantee_is_the_accountants(epochs, batch, drop_last):
    examples, answers = labelled(100, 2)
    passes = {"epochs": epochs, "batch": batch, "drop_last": drop_last}
    guarantee = permuted(examples, noise_multiplier=8.0, delta=1e-5, **passes)
    asked = {"loss": Logistic(labels=("no", "yes")), "descent": Descent(clip=0.3)}
    fit = train(examples, answers, guarantee, **asked, keep_iterates=True)
    assert fit.guarantee == guarantee
    assert len(fit.iterates) == fit.guarantee.steps == epochs * (100 // batch)


def test_an_epsilon_is_kept_with_no_more_noise_than_it_takes():
    examples, answers = labelled(120, 2)
    fit = train(examples, answers, permuted(examples, epsilon=1.5, batch=40))
    assert 1.49 < fit.guarantee.epsilon <= 1.5


def test_noise_grows_with_the_clip_and_not_with_the_batch():
    """What the accountant takes for granted: deviation z C on the sum, whatever the batch."""
    examples, answers = np.zeros((3000, 2)), ["a", "b"] * 1500
    for clip, batch in ((0.2, 1), (5.0, 1), (0.2, 30)):
        guarantee = quickly(examples, noise_multiplier=3.0, batch=batch)
        asked = {"descent": Descent(clip=clip, radius=None, rate=1.0), "keep_iterates": True}
        fit = train(examples, answers, guarantee, **asked, randomness=simulated(13))
        sums = np.diff(fit.iterates, axis=0, prepend=0.0) * batch / (3.0 * clip)
        assert stats.kstest(sums.ravel(), "norm").pvalue > FALSE_ALARM


def test_the_default_rate_is_the_one_of_the_bound():
    examples, answers = labelled(400, 3)
    guarantee = quickly(examples, noise_multiplier=4.0, batch=20, epochs=2)
    fit = train(examples, answers, guarantee, descent=Descent(clip=0.5, radius=3.0))
    square = 0.5**2 + 3 * (4.0 * 0.5) ** 2 / 20**2
    assert fit.rate == pytest.approx(3.0 / math.sqrt(square * 40))
    ridge = Ridge(l2=2.0)
    guarantee = quickly(examples, noise_multiplier=4.0, batch=20)
    strong = train(examples, np.ones(400), guarantee, loss=ridge, descent=Descent(radius=3.0))
    square = (1 + 2.0 * 3.0) ** 2 + 3 * 4.0**2 / 20**2
    assert strong.rate == pytest.approx(3.0 / math.sqrt(square * 20))


def test_an_intercept_is_a_feature_that_is_clipped_with_the_rest():
    examples = sphere(4000, 2, seed=3)
    answers = np.full(4000, 2.0)
    guarantee = quickly(examples, noise_multiplier=1.0)
    asked = {"loss": Ridge(), "descent": Descent(rate=0.1, radius=None)}
    longer = np.column_stack([examples, np.ones(4000)])
    by_hand = train(longer, answers, guarantee, **asked, randomness=simulated(14))
    asked |= {"intercept": True, "randomness": simulated(14)}
    fit = train(examples, answers, guarantee, **asked)
    assert np.array_equal(by_hand.weights, [*fit.weights, fit.intercept])
    assert fit.intercept == pytest.approx(2.0, abs=0.5)
    assert fit.decision(examples) == pytest.approx(examples @ fit.weights + fit.intercept)
    assert by_hand.intercept == 0.0


def test_secure_by_default_and_never_the_same_twice():
    examples, answers = labelled(60, 2)
    task = (examples, answers, quickly(examples, noise_multiplier=5.0))
    first, second = (train(*task).weights for _ in range(2))
    assert not np.array_equal(first, second)
    again = [train(*task, randomness=simulated(1)) for _ in range(2)]
    assert np.array_equal(again[0].weights, again[1].weights)


def test_progress_and_history():
    examples, answers = labelled(40, 2)
    guarantee, told = quickly(examples, noise_multiplier=5.0, epochs=3), []
    follow = {"history": True, "progress": lambda done, total: told.append((done, total))}
    fit = train(examples, answers, guarantee, **follow)
    assert told[-1] == (120, 120)
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert len(fit.losses) == 3
    assert fit.iterates is None


# What is refused.


REFUSED = {
    "not numbers": ({"examples": [["a"], ["b"]]}, "examples of numbers"),
    "one dimension": ({"examples": [1.0, 2.0]}, "one row of numbers per example"),
    "nothing": ({"examples": np.zeros((0, 2)), "answers": []}, "one row of numbers per example"),
    "nan": ({"examples": [[0.0], [math.nan]]}, r"see \[1, 0\]"),
    "huge": ({"examples": [[0.0], [1e200]]}, "at most 1e\\+100"),
    "answers too few": ({"answers": ["a"]}, "2 answers, one for each example"),
    "one label": ({"answers": ["a", "a"]}, "two different labels"),
    "nan label": ({"answers": [1.0, math.nan]}, "none of them missing"),
    "strange label": ({"loss": Logistic(labels=("a", "c"))}, "'a' and 'c'"),
    "text for ridge": ({"loss": Ridge()}, "answers of numbers"),
    "both": ({"epsilon": 1.0}, "exactly one of epsilon and noise_multiplier"),
    "neither": ({"noise_multiplier": None}, "exactly one of epsilon and noise_multiplier"),
    "no noise": ({"noise_multiplier": 0.0}, "noise_multiplier > 0"),
    "clip": ({"clip": 0.0}, "clip > 0"),
    "radius": ({"radius": -1.0}, "radius > 0"),
    "rate": ({"rate": math.inf}, "rate > 0 and finite"),
    "no rate": ({"radius": None}, "a rate if radius=None"),
    "rate beyond l2": ({"rate": 0.6, "loss": Logistic(l2=2.0)}, r"rate <= 1/l2 = 0\.5"),
    "batch": ({"batch": 3}, "batch <= n = 2"),
    "half a batch": ({"batch": 1.5}, "whole number batch"),
    "epochs": ({"epochs": 0}, "whole number epochs"),
    "delta": ({"delta": 0.0}, "0 < delta < 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_named(case):
    changed, expected = REFUSED[case]
    asked = {"examples": [[1.0], [2.0]], "answers": ["a", "b"], "noise_multiplier": 5.0} | changed
    task = (asked.pop("examples"), asked.pop("answers"))
    steps = {field.name: asked.pop(field.name) for field in fields(Descent) if field.name in asked}
    loss = asked.pop("loss", Logistic())
    with pytest.raises(InvalidArgumentError, match=expected):
        train(*task, account(n=2, **asked), loss=loss, descent=Descent(**steps))


def test_a_batch_left_over_is_refused_unless_it_is_dropped():
    examples, answers = labelled(10, 2)
    with pytest.raises(InvalidArgumentError, match="drop_last"):
        train(examples, answers, quickly(examples, noise_multiplier=5.0, batch=4))
    for accounted in (permuted, quickly):
        guarantee = accounted(examples, noise_multiplier=5.0, batch=4, drop_last=True)
        fit = train(examples, answers, guarantee, keep_iterates=True)
        assert len(fit.iterates) == fit.guarantee.steps == 2


@pytest.mark.parametrize(
    ("asked", "loss", "expected"),
    [
        ({"n": 11}, Logistic(), "for n = 10, as many as there are examples, got n=11"),
        ({"sampling": "poisson"}, Logistic(), "permutation or fixed, got sampling='poisson'"),
        ({"sampling": "replacement"}, Logistic(), "permutation or fixed"),
        ({}, "logistic", r"Logistic\(\.\.\.\) or Ridge"),
        ({}, Logistic, r"Logistic\(\.\.\.\) or Ridge"),
        ({}, None, r"Logistic\(\.\.\.\) or Ridge"),
    ],
)
def test_a_guarantee_of_something_else_and_a_loss_that_is_none_are_refused(asked, loss, expected):
    guarantee = account(**{"n": 10, "noise_multiplier": 5.0} | asked)
    with pytest.raises(InvalidArgumentError, match=expected):
        train(*labelled(10, 2), guarantee, loss=loss)


# What is taken as public.


def test_labels_taken_from_the_answers_are_an_assumption():
    """One "yes" among 50: without it there is no model at all, so its being there is released."""
    examples, _ = labelled(50, 2)
    answers = ["yes"] + ["no"] * 49
    accounted = permuted(examples, noise_multiplier=50.0)
    fit = train(examples, answers, accounted)
    inferred = fit.guarantee
    with pytest.raises(InvalidArgumentError, match="two different labels"):
        train(examples, ["no"] * 50, accounted)
    assert inferred.assumptions[-1] == PUBLIC_LABELS
    assert PUBLIC_LABELS in inferred.to_dict()["assumptions"]
    assert PUBLIC_LABELS in str(inferred)
    named = Logistic(labels=("no", "yes"))
    for each in (answers, ["no"] * 50):
        told = train(examples, each, accounted, loss=named)
        assert not any("labels" in assumption for assumption in told.guarantee.assumptions)
        assert told.guarantee.epsilon == inferred.epsilon
        assert str(told) == f"logistic model of 2 features: {told.guarantee.words}"
        assert str(fit) == f"{told}, and {PUBLIC_LABELS}"
    assert train(examples, answers, inferred).guarantee == inferred  # said once


def test_numbers_chosen_by_looking_at_the_data_are_an_assumption():
    examples, answers = labelled(10, 2)
    accounted = permuted(examples, noise_multiplier=50.0)
    fit = train(examples, np.ones(10), accounted, loss=Ridge())
    (assumption,) = [text for text in fit.guarantee.assumptions if "without looking" in text]
    for what in ("clipping norm", "rate", "features are scaled"):
        assert what in assumption
    assert not any("labels" in text for text in fit.guarantee.assumptions)
    watched = train(examples, answers, accounted, history=True).guarantee
    assert OWN_LOSSES in watched.assumptions
    assert OWN_LOSSES not in fit.guarantee.assumptions


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (lambda *_: Ridge(l2=-1.0), "l2 >= 0"),
        (lambda *_: Logistic(labels=("a", "a")), "two different labels"),
        (lambda fit, _: fit.predict(np.zeros((1, 3))), "2 features, as in training"),
        (lambda _, ridge: ridge.score(np.ones((9, 2)), np.ones(9)), "not all the same"),
    ],
)
def test_other_refusals_are_named_too(asked, expected):
    examples, answers = labelled(10, 2)
    guarantee = quickly(examples, noise_multiplier=5.0)
    fit = train(examples, answers, guarantee)
    ridge = train(examples, np.ones(10), guarantee, loss=Ridge())
    with pytest.raises(InvalidArgumentError, match=expected):
        asked(fit, ridge)


def test_labels_may_be_of_any_kind():
    examples, answers = labelled(10, 2)
    yes, guarantee = answers == "yes", quickly(examples, noise_multiplier=5.0)
    for kind, labels in (
        (yes, (False, True)),
        (yes.astype(int) * 3, (0, 3)),
        (yes.astype(float), (0.0, 1.0)),
        (answers.astype(object), ("no", "yes")),
    ):
        fit = train(examples, kind, guarantee, randomness=simulated(1))
        assert fit.labels == labels
        assert fit.score(examples, kind) == np.mean(fit.predict(examples) == kind)
    turned = Logistic(labels=("yes", "no"))
    fit = train(examples, answers, guarantee, loss=turned, randomness=simulated(1))
    assert fit.labels == ("yes", "no")
    assert fit.score(examples, answers) == np.mean(fit.predict(examples) == answers)
