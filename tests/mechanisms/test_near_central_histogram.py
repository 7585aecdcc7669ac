"""Histograms with almost the error of a trusted curator."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from protocol_contract import AnswerProtocolContract
from shoal import randomness
from shoal.accounting.noise.near_central_histogram import (
    CountLaw,
    HistogramNoise,
    histogram_calibration,
    histogram_delta,
)
from shoal.intervals.estimates import IndependentErrors
from shoal.intervals.laws import Difference
from shoal.mechanisms.histograms import LeanHistogram, RobustHistogram
from shoal.mechanisms.registry import restored
from shoal.mechanisms.shares import CountTable
from shoal.planning import errors
from shoal.randomness import Randomness
from shoal.values import Batch, Counts

BOTH = (LeanHistogram, RobustHistogram)
TOTAL = 1 << 62
# Of the sheet: variance over the curator's, rate, pairs of a negative binomial and a Poisson law.
FIGURES = [
    (1.05, 0.4882, 963, 16_820),
    (1.10, 0.4772, 549, 5_086),
    (1.25, 0.4481, 266, 1_156),
    (1.50, 0.4096, 161, 432),
]


def count_pmf(mean, shape, size):
    if math.isinf(shape):
        return scipy.stats.poisson.pmf(np.arange(size), mean)
    return scipy.stats.nbinom.pmf(np.arange(size), shape, shape / (shape + mean))


def bucket_law(noise, part, size):
    """Pr[(messages +, messages −)] of a part of one bucket's noise, as a double sum."""
    single = count_pmf(part / math.expm1(noise.rate), part, size)
    paired = count_pmf(part * noise.pairs, part * noise.shape, size)
    view = np.zeros((size, size))
    for pairs in range(size):
        rest = single[: size - pairs]
        view[pairs:, pairs:] += paired[pairs] * np.outer(rest, rest)
    return view


def hockey_stick(first, second, epsilon):
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


def product_divergence(view, epsilon):
    """One bucket with an answer more and one with an answer less: every pair of outcomes."""
    more = np.vstack([np.zeros((1, len(view))), view[:-1]]).ravel()
    less = view.ravel()
    likely = (more > 1e-16) | (less > 1e-16)
    more, less = more[likely], less[likely]
    return hockey_stick(np.outer(more, less), np.outer(less, more), epsilon)


def drawn_law(protocol, size):
    """The law of what one person adds, an axis for each message, from the sampler's integers.

    The number of clumps, and for each its kind and its message: powers of a clump's transform.
    Counts beyond ``size`` wrap around, and hardly ever happen.
    """
    numbers, k = protocol.integers, protocol.k
    digits = [int(digit) for digit in numbers["clumps_chance"]]
    some = Fraction(digits[0] * TOTAL + digits[1], TOTAL**2)
    steps, kinds = (
        [int(each) for each in numbers[name]] for name in ("clumps_steps", "kind_steps")
    )
    clump = np.zeros((size,) * (2 * k))
    for kind, weight in enumerate(np.diff([0, *kinds])):
        is_pair = kind < numbers["pair_sizes"]
        copies = kind + 1 - (0 if is_pair else numbers["pair_sizes"])
        if copies * (1 + is_pair) > numbers["room"] or copies >= size:
            continue
        for code in range(2 * k):
            counts = [0] * (2 * k)
            counts[code] += copies
            if is_pair:
                counts[(code + k) % (2 * k)] += copies
            clump[tuple(counts)] += int(weight) / TOTAL / (2 * k)
    transform, total, power = np.fft.rfftn(clump), float(1 - some), 1.0
    for weight in np.diff([0, *steps]):
        power = power * transform
        total = total + float(some) * int(weight) / TOTAL * power
    return np.fft.irfftn(total, s=clump.shape, axes=range(2 * k))


def crowd_law(own, answers):
    """The law of all messages of people with these answers."""
    axes = range(own.ndim)
    law = np.fft.irfftn(np.fft.rfftn(own) ** len(answers), s=own.shape, axes=axes)
    for answer in answers:
        law = np.roll(law, 1, axis=answer)
    return law


class HistogramContract(AnswerProtocolContract):
    small = (2,)
    sizes = (2, 10)
    kind = LeanHistogram

    def make(self, k, n, epsilon, delta):
        target = {"n": n, "epsilon": epsilon, "delta": delta}
        return self.kind.calibrated(k=k, **target, inflation=1.5)

    def noisy(self, k):
        more = {"shape": 2.0} if self.kind is LeanHistogram else {}
        return [self.kind(k=k, people=2, rate=2.2, pairs=0.6, **more)]

    def person_law(self, protocol, value):
        """By its definition: a share of each bucket's noise, independently."""
        view = bucket_law(protocol.noise, 1 / protocol.people, 20)
        cells = [
            (plus, minus, float(view[plus, minus]))
            for plus, minus in itertools.product(range(20), repeat=2)
            if view[plus, minus] > 1e-12
        ]
        law = {}
        for buckets in itertools.product(cells, repeat=protocol.k):
            plus = [cell[0] + (bucket == value) for bucket, cell in enumerate(buckets)]
            counts = (*plus, *(cell[1] for cell in buckets))
            law[counts] = math.prod(cell[2] for cell in buckets)
        return {counts: p for counts, p in law.items() if p > 1e-15}

    @pytest.mark.parametrize(("k", "rate", "pairs", "size"), [(2, 1.8, 0.9, 24), (3, 4.0, 0.2, 8)])
    def test_no_shuffled_output_reveals_more_than_the_profile(self, k, rate, pairs, size):
        more = {"shape": 4.0} if self.kind is LeanHistogram else {}
        for people in (2, 3):
            protocol = self.kind(k=k, people=people, rate=rate, pairs=pairs, **more)
            own = drawn_law(protocol, size)
            for n in range(1, people + 1):  # of whom some may be missing
                profile, others = protocol.profile(n), [k - 1] * (n - 1)
                first, second = (crowd_law(own, [answer, *others]) for answer in (0, 1))
                for epsilon in (0.0, 0.5, 1.5, 3.0):
                    truth = hockey_stick(first, second, epsilon)
                    assert truth == pytest.approx(hockey_stick(second, first, epsilon), abs=1e-9)
                    assert truth - 2e-9 <= profile.delta(epsilon) <= truth * 1.0001 + 2e-9

    def test_a_share_is_one_of_the_law(self):
        for people in (1, 3):
            more = {"shape": 2.0} if self.kind is LeanHistogram else {}
            protocol = self.kind(k=2, people=people, rate=2.0, pairs=0.4, **more)
            own = drawn_law(protocol, 20)
            view = bucket_law(protocol.noise, 1 / people, 20)
            both = np.einsum("ac,bd->abcd", view, view)  # (+0, +1, −0, −1)
            assert np.abs(own - both).max() < 1e-12
            assert np.abs(own - both).sum() < 1e-8

    def test_weights_are_exact(self):
        protocol = self.make(10, 1000, 1.0, 1e-6)
        noise, clumps = protocol.noise, protocol._clumps
        with localcontext() as context:
            context.prec = 80
            a, pairs = (-Decimal(noise.rate)).exp(), Decimal(noise.pairs)
            if math.isinf(noise.shape):
                rates, total = [pairs], pairs
            else:
                shape = Decimal(noise.shape)
                q = pairs / (pairs + shape)
                rates = [shape * q**s / s for s in range(1, clumps.pair_sizes + 1)]
                total = -shape * (1 - q).ln()
            rates += [2 * a**s / s for s in range(1, clumps.room + 1)]
            total -= 2 * (1 - a).ln()
            wanted = [int(rate / total * TOTAL) for rate in rates]
            mean = total * protocol.k / protocol.people
            chance = int((1 - (-mean).exp()) * TOTAL**2)
        weights = np.diff(clumps.kind.steps, prepend=np.uint64(0)).tolist()
        likeliest = wanted.index(max(wanted))
        assert weights[:likeliest] + weights[likeliest + 1 :] == (
            wanted[:likeliest] + wanted[likeliest + 1 :]
        )
        assert sum(weights) == TOTAL
        high, low = clumps.number.probability
        assert abs(high * TOTAL + low - chance) <= 1
        assert clumps.error * protocol.people < 1e-10

    def test_noise_that_does_not_fit_is_not_sent(self):
        more = {"shape": 2.0} if self.kind is LeanHistogram else {}
        protocol = self.kind(k=10, people=100, rate=0.5, pairs=5.0, **more)
        vars(protocol)["_clumps"] = replace(protocol._clumps, room=3)
        values = np.arange(20_000) % 10
        sent = protocol.randomize(values, randomness=randomness.simulated(3))
        assert int(sent.sizes.max()) == protocol.slots == 4
        firsts = np.cumsum(sent.sizes) - sent.sizes
        assert np.array_equal(sent.messages[firsts], values)
        assert (sent.sizes == 1).mean() > 0.3

    def test_more_people_than_share_the_noise_are_no_less_private(self):
        protocol = self.make(10, 1000, 1.0, 1e-6)
        assert protocol.profile(5000).delta(1.0) <= protocol.profile(1000).delta(1.0)

    def test_it_survives_its_description(self):
        protocol = self.make(10, 1000, 1.0, 1e-6)
        assert restored(protocol.described()) == protocol
        assert protocol.true_message(3) == 3

    def test_fewer_messages_cost_variance(self):
        target = {"k": 100, "n": 10**5, "epsilon": 1.0, "delta": 1e-6}
        free, capped = (self.kind.calibrated(**target, messages_cap=cap) for cap in (None, 1.8))
        assert capped.messages <= 1.8 < free.messages
        assert capped.messages >= 1.7
        assert capped.noise.variance > free.noise.variance
        assert capped.profile(10**5).delta(1.0) <= 1e-6
        least = self.kind.calibrated(**target, messages_cap=1.0001)  # which no noise is enough for
        assert least == free

    @pytest.mark.parametrize("inflation", [1.0, 0.5, math.nan, math.inf])
    def test_an_inflation_that_is_none_is_refused(self, inflation):
        with pytest.raises(shoal.InvalidArgumentError, match="inflation"):
            self.kind.calibrated(k=10, n=100, epsilon=1.0, delta=1e-6, inflation=inflation)

    def test_too_much_for_an_envelope_is_refused(self):
        with pytest.raises(shoal.InvalidArgumentError, match="messages per person"):
            self.kind.calibrated(k=10**6, n=10, epsilon=1.0, delta=1e-6)


class TestLeanHistogram(HistogramContract):
    kind = LeanHistogram


class TestRobustHistogram(HistogramContract):
    kind = RobustHistogram


@pytest.mark.parametrize(("inflation", "rate", "lean", "robust"), FIGURES)
def test_published_figures(inflation, rate, lean, robust):
    target = {"epsilon": 1.0, "delta": 1e-6, "inflation": inflation}
    found = [histogram_calibration(**target, robust=robust) for robust in (False, True)]
    assert found[0].rate == found[1].rate == pytest.approx(rate, abs=1e-4)
    assert found[0].pairs == pytest.approx(lean, rel=0.01)
    assert found[1].pairs == pytest.approx(robust, rel=0.01)


@pytest.mark.parametrize(
    ("kind", "k", "n", "inflation", "messages", "error", "slots"),
    [
        (LeanHistogram, 100, 10**6, None, 1.15, 29.6, 2500),
        (RobustHistogram, 100, 10**6, None, 1.3, 31.5, 100),
        (LeanHistogram, 1000, 10**5, 1.32, 5.6, 1.15 * errors.central(1000, 2, 1.0).l2, 1100),
    ],
)
def test_a_curators_chart_in_few_messages(kind, k, n, inflation, messages, error, slots):
    protocol = kind.calibrated(k=k, n=n, epsilon=1.0, delta=1e-6, inflation=inflation)
    assert protocol.messages <= messages
    assert protocol.slots <= slots
    assert protocol.estimator.errors(n).l2 <= error
    values = np.arange(n) % k
    squares = []
    for seed in range(3):
        sent = protocol.randomize(values, randomness=randomness.simulated(seed))
        missed = protocol.estimate(protocol.tally(sent)).counts - n // k
        squares.append(missed @ missed)
        assert sent.sizes.mean() <= messages + 0.02
    # Three simulations of k errors each, with the fourth moment of a Laplace law.
    allowed = 1 + 5.5 * math.sqrt(5 / (3 * k))
    assert np.mean(squares) <= protocol.error(n).variance * k * allowed
    assert np.mean(squares) >= protocol.error(n).variance * k * (2 - allowed)


@settings(max_examples=20, deadline=None)
@given(
    rate=st.floats(1.0, 3.0),
    pairs=st.floats(0.1, 4.0),
    shape=st.one_of(st.just(math.inf), st.floats(0.3, 20.0)),
    present=st.one_of(st.just(1.0), st.floats(0.05, 1.0)),
    epsilon=st.floats(0.0, 6.0),
)
def test_the_divergence_is_exact(rate, pairs, shape, present, epsilon):
    noise = HistogramNoise(rate=rate, pairs=pairs, shape=shape)
    view = bucket_law(noise, present, 48)
    truth = product_divergence(view, epsilon)
    omitted = 2 * (1 - view.sum()) + 1e-12
    bound = histogram_delta(rate=rate, pairs=pairs, shape=shape, present=present, epsilon=epsilon)
    assert truth * (1 - 1e-10) <= bound + 1e-13
    assert bound <= truth * 1.0001 + 1e-9 + omitted


@pytest.mark.parametrize("made", [{"shape": 3.0}, {}])
@pytest.mark.parametrize("reports", [2, 3])
def test_several_reports_of_a_person_lose_no_more_than_rounds(made, reports):
    """All of them are of one answer, and then of another: exactly, and as rounds compose."""
    kind = LeanHistogram if made else RobustHistogram
    device = kind(k=3, people=2, rate=0.6, pairs=4.0, **made)
    view = bucket_law(device.noise, reports, 130)
    edge = np.zeros((reports, view.shape[1]))
    more, less = np.vstack([edge, view]).ravel(), np.vstack([view, edge]).ravel()
    likely = (more + less) > 1e-12
    more, less = more[likely], less[likely]
    ratios = more / np.maximum(less, 1e-300)
    order = np.argsort(ratios)
    sums = [np.append(0.0, np.cumsum(part[order])) for part in (more, less)]
    composed = device.profile(2) * reports
    for epsilon in (0.3, 1.0, 2.0):
        x = math.exp(epsilon)
        place = np.searchsorted(ratios[order], ratios / x)
        exact = float((more * sums[1][place] - x * less * sums[0][place]).sum())
        assert 0.2 * composed.delta(epsilon) < exact < composed.delta(epsilon)


def test_the_divergence_does_not_jump_where_somebody_is_missing():
    for shape, pairs in ((16.0, 550.0), (math.inf, 5100.0)):
        noise = {"rate": 0.4772, "pairs": pairs, "shape": shape, "epsilon": 1.0}
        whole = histogram_delta(**noise)
        assert whole <= histogram_delta(**noise, present=1 - 1e-9) <= whole * 1.01


def test_laws_of_the_divergence():
    for shape in (14.0, math.inf):
        curve = [
            histogram_delta(rate=0.45, pairs=300, shape=shape, epsilon=epsilon)
            for epsilon in np.linspace(0, 2, 21)
        ]
        assert curve == sorted(curve, reverse=True)
        fewer = [
            histogram_delta(rate=0.45, pairs=300, shape=shape, epsilon=1.0, present=present)
            for present in (0.2, 0.5, 0.9, 0.99, 1.0)
        ]
        assert fewer == sorted(fewer, reverse=True)
        more = [
            histogram_delta(rate=0.45, pairs=pairs, shape=shape, epsilon=1.0)
            for pairs in (30, 100, 300, 1000)
        ]
        assert more == sorted(more, reverse=True)


@settings(max_examples=12, deadline=None)
@given(
    epsilon=st.floats(0.4, 10.0),
    log_delta=st.floats(-30.0, -3.0),
    inflation=st.floats(1.03, 4.0),
    robust=st.booleans(),
)
def test_calibrations_keep_their_target(epsilon, log_delta, inflation, robust):
    delta = math.exp(log_delta)
    noise = histogram_calibration(epsilon=epsilon, delta=delta, inflation=inflation, robust=robust)
    assert noise.variance == pytest.approx(inflation / 2 / math.sinh(epsilon / 4) ** 2, rel=1e-9)
    at = {"rate": noise.rate, "shape": noise.shape, "epsilon": epsilon}
    assert histogram_delta(**at, pairs=noise.pairs) <= delta
    if noise.pairs > 0.01:
        assert histogram_delta(**at, pairs=noise.pairs * 0.995) > delta


def test_the_best_shape_is_no_worse_than_any_other():
    best = histogram_calibration(epsilon=1.0, delta=1e-6, inflation=1.1)
    for shape in (4, 8, 11, 13, 15, 18, 25, 40, 80):
        fewer = {"rate": best.rate, "shape": float(shape), "pairs": best.pairs * 0.9995}
        assert histogram_delta(**fewer, epsilon=1.0) > 1e-6


@pytest.mark.parametrize("wrong", [1e-30, 1e-21])
def test_a_delta_below_what_is_cut_off_is_refused(wrong):
    with pytest.raises(shoal.InvalidArgumentError, match="delta"):
        histogram_calibration(epsilon=1.0, delta=wrong, inflation=1.1)


@pytest.mark.parametrize(
    ("kind", "n", "k", "delta", "cap", "error"),
    [
        (RobustHistogram, 10**6, 10**5, 1e-7, None, 989.7),
        (LeanHistogram, 10**6, 10**5, 1e-7, None, 928),
        (LeanHistogram, 10**5, 10**5, 1e-8, None, 928),
        (LeanHistogram, 10**7, 10**5, 1e-8, 20, 928),
        (LeanHistogram, 10**7, 10**4, 1e-8, None, 293.6),
        (LeanHistogram, 10**8, 10**3, 1e-9, None, 92.8),
        (LeanHistogram, 10**9, 10**2, 1e-10, None, 29.36),
    ],
)
def test_tables_round_off_next_to_nothing_of_delta(kind, n, k, delta, cap, error):
    target = {"epsilon": 1.0, "delta": delta}
    made = kind.calibrated(k=k, n=n, **target, messages_cap=cap)
    assert (1 + math.e) * made.profile(n).slack < 0.1 * delta
    assert made.profile(n).delta(1.0) <= delta
    assert math.sqrt(k * made.error(n).variance) == pytest.approx(error, rel=1e-3)


def test_the_plan_for_very_many_answers_is_a_curators_chart():
    any_number = shoal.Limits(messages=math.inf)
    plan = shoal.plan(shoal.Choice("c", 10**5), epsilon=1, n=10**6, limits=any_number)
    assert plan.recommended.name == "near-central-lean"
    assert plan.recommended.errors.l2 < 1.06 * plan.central.l2


class Scripted(Randomness):
    """Words that a test wrote down."""

    def __init__(self, words):
        self.left = list(words)

    def words(self, size):
        drawn, self.left = self.left[:size], self.left[size:]
        return np.array(drawn, dtype=np.uint64)


def test_fine_tables_are_exact_to_their_last_bit():
    with localcontext() as context:
        context.prec = 80
        law = [Decimal(1) / Decimal(3**i) for i in range(1, 100)]
    table = CountTable.exact(law, omitted=0.0, fine=True)
    steps = [int(step) for step in table.integers]
    weights = [after - before for before, after in itertools.pairwise([0, *steps])]
    assert steps[-1] == TOTAL**2
    with localcontext() as context:
        context.prec = 80
        wrong = [abs(w - p * TOTAL**2) for w, p in zip(weights[1:], law[1:], strict=True)]
    assert max(wrong) < 1
    assert table.error < 1e-35
    # A draw is the number of steps at or below it, all digits counted: on every step, and beside.
    for step in steps[:-1]:
        for drawn in (step - 1, step, step + 1):
            if not 0 <= drawn < TOTAL**2:
                continue
            (count,) = table.draw(1, Scripted(divmod(drawn, TOTAL))).tolist()
            assert count == sum(each <= drawn for each in steps)


def test_fine_tables_are_used_for_very_many_answers_only():
    ordinary = LeanHistogram.calibrated(k=1000, n=10**6, epsilon=1.0, delta=1e-6)
    assert ordinary._clumps.kind.finer is ordinary._clumps.number.amount.finer is None
    many = RobustHistogram.calibrated(k=10**5, n=10**6, epsilon=1.0, delta=1e-7)
    assert many._clumps.kind.finer is not None
    values = np.zeros(50, dtype=np.int64)
    fine = many.randomize(values, randomness=randomness.simulated(5))
    clumps = many._clumps
    kind, amount = (replace(each, finer=None) for each in (clumps.kind, clumps.number.amount))
    number = replace(clumps.number, amount=amount)
    vars(many)["_clumps"] = replace(clumps, number=number, kind=kind)
    coarse = many.randomize(values, randomness=randomness.simulated(5))
    assert fine.messages.tolist() == coarse.messages.tolist()


@settings(max_examples=30, deadline=None)
@given(
    mean=st.floats(1e-3, 500.0),
    shape=st.one_of(st.just(math.inf), st.floats(0.3, 100.0)),
)
def test_windows_are_the_law(mean, shape):
    window = CountLaw(mean=mean, shape=shape).window()
    counts = np.arange(window.start, window.start + window.pmf.size)
    if math.isinf(shape):
        truth = scipy.stats.poisson.logpmf(counts, mean)
    else:
        truth = scipy.stats.nbinom.logpmf(counts, shape, shape / (shape + mean))
    assert np.abs(np.log(window.pmf) - truth).max() < 1e-8
    assert window.outside < 1e-20


@pytest.mark.parametrize("rate", [0.05, 0.4772, 0.9568, 3.0])
@pytest.mark.parametrize("times", [0.3, 1.0, 2.5, 40.0])
def test_limits_are_the_shortest_that_cover(rate, times):
    error, size = Difference(CountLaw.geometric(rate)).times(times), 4000
    pmf = count_pmf(times / math.expm1(rate), times, size)
    law = np.convolve(pmf, pmf[::-1])
    below = np.concatenate([[0.0], np.cumsum(law)])

    def within(low, high):
        return below[size + high] - below[size - 1 + low]

    for level in (0.05, 0.5, 0.9, 0.95, 0.99, 0.99999):
        low, high = error.limits(1 - level)
        assert within(low, high) >= level
        length = high - low
        shorter = [within(start, start + length - 1) for start in range(-length - 1, 2)]
        assert length == 0 or max(shorter) < level + 1e-12
        tail = (1 - level) / 2
        t = error.quantile(tail)
        assert 1 - within(-size + 1, t) <= tail + 1e-12
        assert t == 0 or 1 - within(-size + 1, t - 1) > tail - 1e-12


@pytest.mark.parametrize("present", [0.5, 1.0, 1.7])
def test_limits_cover_alone_and_together(present):
    k, people, runs = 20, 1000, 1500
    protocol = RobustHistogram(k=k, people=people, rate=0.9, pairs=0.001)
    n = round(people * present)
    values, source = np.arange(n) % k, randomness.simulated(int(10 * present))
    truth = np.bincount(values, minlength=k)
    sent = protocol.randomize(np.tile(values, runs), randomness=source)
    run = np.repeat(np.arange(n * runs) // n, sent.sizes)
    cells = np.bincount(run * 2 * k + sent.messages, minlength=runs * 2 * k).reshape(runs, 2 * k)
    found = protocol.estimate(Counts(cells[0], n))
    missed = (cells[:, :k] - cells[:, k:]) - truth
    for level in (0.6, 0.95):
        low, high = (n * side - found.people for side in found.interval(level))
        inside = (-missed >= low - 0.5) & (-missed <= high + 0.5)
        assert inside.mean() >= level - 5.5 * math.sqrt(0.25 / inside.size)
        low, high = (n * side - found.people for side in found.interval(level, simultaneous=True))
        inside = ((-missed >= low - 0.5) & (-missed <= high + 0.5)).all(axis=1)
        assert inside.mean() >= level - 5.5 * math.sqrt(0.25 / runs)
    floor = n * found.noise_floor(0.9)[0]
    assert (missed.max(axis=1) < floor - 0.5).mean() >= 0.9 - 5.5 * math.sqrt(0.09 / runs)


def test_intervals_are_whole_numbers_of_people():
    found = IndependentErrors.counted(
        np.array([7, -2, 30]), Difference(CountLaw.geometric(0.9568)), n=35
    )
    low, high = found.interval(0.95)
    assert np.rint(35 * low).tolist() == pytest.approx((35 * low).tolist())
    assert (35 * (high - low)).tolist() == pytest.approx([6, 6, 6])
    covered = 1 - 2 * math.exp(-0.9568 * 4) / (1 + math.exp(-0.9568))
    assert covered == pytest.approx(0.969, abs=5e-4)
    above, below = found.beyond(1e-6)
    assert not above.any()
    assert not below.any()


def test_an_estimate_subtracts_pairs():
    protocol = RobustHistogram(k=3, people=10, rate=1.0, pairs=2.0)
    found = protocol.estimate(Batch(np.array([0, 0, 1, 3, 1, 4, 2]), 3))
    assert found.people.tolist() == [1, 1, 1]
    assert found.frequencies.tolist() == pytest.approx([1 / 3] * 3)
