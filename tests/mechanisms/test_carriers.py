"""A histogram whose noise some people carry: what each party sees, against enumeration."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import signal, stats

import shoal
from shoal import randomness
from shoal.auditing.subjects import Collection, DataSet
from shoal.mechanisms.carriers import CarrierHistogram
from shoal.mechanisms.registry import restored
from shoal.values import Batch, Counts

RARE = 1e-7
GRID = 11  # counts of a message that are told apart; more have next to no probability

# Calibrated for (1, 1e-6), a million people and 100 answers; see the test of the calibration.
MILLION = CarrierHistogram(
    k=100,
    central_epsilon=0.46574428302430027,
    pairs=2438.8295771613903,
    people=1_000_000,
    carriers=2.0**-7,
    fewest=7223,
    most=59,
)

# Calibrated for the same, and two answers.
TWO_ANSWERS = CarrierHistogram(
    k=2,
    central_epsilon=0.48509755909318963,
    pairs=11034.203220382838,
    people=1_000_000,
    carriers=2.0**-9,
    fewest=1662,
    most=48,
)


def few(carriers, fewest, people=3, k=2, pairs=2.0, rate=1.2):
    return CarrierHistogram(
        k=k,
        central_epsilon=rate,
        pairs=pairs,
        people=people,
        carriers=carriers,
        fewest=fewest,
        most=60,
    )


def person_law(protocol, answer, carries=None):
    """Of the numbers of (0, +), (1, +), (0, −), (1, −) of one person, by the definition."""
    counts = np.arange(GRID)
    alone = np.zeros((GRID,) * 4)
    paired = stats.poisson.pmf(counts, protocol.pairs / protocol.people)
    for first, second in itertools.product(range(GRID), repeat=2):
        alone[first, second, first, second] = paired[first] * paired[second]
    ratio = math.exp(-protocol.central_epsilon)
    single = stats.nbinom.pmf(counts, 1 / protocol.fewest, 1 - ratio)
    noise = single[:, None, None, None] * single[:, None, None] * single[:, None] * single
    carried = convolved(alone, noise)
    carriers = protocol.carriers if carries is None else float(carries)
    return np.roll(carriers * carried + (1 - carriers) * alone, 1, axis=answer)


def convolved(first, second):
    return np.maximum(signal.fftconvolve(first, second)[(slice(GRID),) * 4], 0.0)


def crowd_law(laws):
    total = laws[0]
    for law in laws[1:]:
        total = convolved(total, law)
    return total


def divergence(first, second, epsilon):
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())


@pytest.mark.parametrize(
    "protocol",
    [few(1.0, 3), few(0.5, 1), few(0.75, 2), few(0.875, 2, pairs=5.0)],
    ids=["all", "some", "most", "flooded"],
)
def test_the_analyzer_sees_no_more_than_the_profile(protocol):
    """The multiset of all messages; how many say nothing follows from it, as batches are full."""
    for n in (2, 3):
        laws = [person_law(protocol, answer) for answer in (0, 1)]
        profile = protocol.profile(n)
        for other in (0, 1):
            first, second = (crowd_law([laws[own], *[laws[other]] * (n - 1)]) for own in (0, 1))
            cut = 2 - first.sum() - second.sum()  # what the grid does not show counts for us
            for epsilon in (0.0, 0.5, 1.0, 2.0, 3.0):
                truth = max(divergence(first, second, epsilon), divergence(second, first, epsilon))
                claimed = profile.delta(epsilon)
                assert truth <= claimed + 1e-9
                if protocol.carriers == 1 and n == protocol.people:
                    assert claimed <= truth + cut + 1e-6  # exact where nothing is left to luck


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    carriers=st.sampled_from([0.25, 0.5, 0.75, 1.0]),
    fewest=st.integers(1, 2),
    pairs=st.floats(0.2, 4.0),
    rate=st.floats(1.0, 3.0),
    epsilon=st.floats(0.0, 6.0),
)
def test_no_numbers_claim_too_much(carriers, fewest, pairs, rate, epsilon):
    assume(fewest <= 2 * carriers)
    protocol = few(carriers, fewest, people=2, pairs=pairs, rate=rate)
    laws = [person_law(protocol, answer) for answer in (0, 1)]
    first, second = (crowd_law([law, laws[0]]) for law in laws)
    truth = max(divergence(first, second, epsilon), divergence(second, first, epsilon))
    assert truth <= protocol.profile(2).delta(epsilon) + 1e-9


def test_who_sees_the_sizes_and_the_estimates_sees_no_more_than_the_profile():
    """Given who carries, and how many pairs everybody sends, the estimates are all that is left."""
    for protocol in (few(1.0, 3), few(0.5, 1), few(0.75, 2), few(0.875, 3, people=4)):
        n, ratio = protocol.people, math.exp(-protocol.central_epsilon)
        truth = dict.fromkeys((0.0, 0.5, 1.0, 2.0), 0.0)
        for carriers in range(n + 1):
            chance = stats.binom.pmf(carriers, n, protocol.carriers)
            noise = np.ones(1)
            if carriers:
                single = stats.nbinom.pmf(np.arange(80), carriers / protocol.fewest, 1 - ratio)
                noise = np.convolve(single, single[::-1])
            noise = np.pad(noise, 1)
            here, there = np.outer(noise, np.roll(noise, 1)), np.outer(np.roll(noise, 1), noise)
            for epsilon in truth:
                truth[epsilon] += chance * divergence(here, there, epsilon)
        for epsilon, delta in truth.items():
            assert delta <= protocol.profile(n).delta(epsilon) + 1e-9


def test_sizes_that_show_the_noise_would_break_the_promise():
    """Why there are carriers: given that no share is large, the estimates reveal too much."""
    rate, people, least = MILLION.central_epsilon, 1000, 9
    single = stats.nbinom.pmf(np.arange(400), 1 / people, -math.expm1(-rate))
    seen_small = np.where(np.arange(400) < least, single, 0.0) / single[:least].sum()
    spectrum = np.fft.rfft(seen_small, 4096) ** people
    pmf = np.maximum(np.fft.irfft(np.abs(spectrum) ** 2), 0.0)
    noise = np.concatenate([pmf[-500:], pmf[:501]])
    here, there = np.outer(noise, np.roll(noise, 1)), np.outer(np.roll(noise, 1), noise)
    assert divergence(here, there, 1.0) > 1e-4


def test_what_is_sent_does_not_depend_on_the_answers_but_for_the_answer_itself():
    protocol, people = few(0.5, 1, k=4, people=4), 500
    answers = np.arange(people) % 4, np.full(people, 3)
    first, second = (protocol.randomize(a, randomness=randomness.simulated(7)) for a in answers)
    assert np.array_equal(first.sizes, second.sizes)
    starts = np.cumsum(first.sizes) - first.sizes
    noise = np.ones(first.messages.size, dtype=bool)
    noise[starts] = False
    assert np.array_equal(first.messages[noise], second.messages[noise])
    assert np.array_equal(first.messages[starts], answers[0])


def test_the_sampler_follows_its_law():
    protocol, people = few(0.5, 1), 60_000
    for answer in (0, 1):
        sent = protocol.randomize(
            np.full(people, answer), randomness=randomness.simulated(31 + answer)
        )
        owners = np.repeat(np.arange(people), sent.sizes)
        counts = np.bincount(owners * 5 + sent.messages, minlength=5 * people).reshape(people, 5)
        # Carriers send all slots, everybody else an odd number of messages that say something.
        carriers = counts[:, 4] > 0
        assert np.array_equal(sent.sizes[carriers], np.full(carriers.sum(), protocol.slots))
        assert (sent.sizes[~carriers] % 2 == 1).all()
        assert stats.binomtest(int(carriers.sum()), people, 0.5).pvalue > RARE
        for who, mask in ((True, carriers), (False, ~carriers)):
            law = person_law(protocol, answer, carries=who)
            places = counts[mask][:, :4] @ (GRID ** np.arange(3, -1, -1))
            seen = np.bincount(places[(counts[mask][:, :4] < GRID).all(axis=1)], minlength=law.size)
            expected = law.ravel() * mask.sum()
            likely = expected >= 20
            found = np.append(seen[likely], mask.sum() - seen[likely].sum())
            wanted = np.append(expected[likely], mask.sum() - expected[likely].sum())
            assert stats.chisquare(found, wanted).pvalue > RARE


def test_a_batch_is_filled_up_to_a_number_that_honest_people_do_not_exceed():
    """Exactly, by convolution: whatever the messages are, the number of records is a constant."""
    protocol = replace(few(0.125, 4, people=100), most=9)
    sizes = np.zeros(10)
    pairs = stats.poisson.pmf(np.arange(40), 2 * protocol.pairs / protocol.people)
    np.add.at(sizes, np.minimum(1 + 2 * np.arange(40), 9), pairs * (1 - protocol.carriers))
    sizes[9] += protocol.carriers
    assert protocol.messages == pytest.approx(float(sizes @ np.arange(10)), rel=1e-12)
    total, people = sizes, 1
    while people < 512:
        total, people = np.convolve(total, total), 2 * people
        limit = protocol.records(people, honest=people)
        assert float(total[limit + 1 :].sum()) <= math.exp(-40)
        assert limit <= 9 * people
        assert protocol.records(people + 5, honest=people) <= limit + 45
    assert protocol.records(512, honest=512) < 9 * 512 / 2  # and it is not simply all slots


# The batch, as the library makes it


def test_batches_of_one_crowd_have_one_length_whatever_was_drawn():
    protocol, n = few(0.25, 2, k=4, people=40, pairs=10.0), 40
    answers = np.arange(n) % 4
    full = protocol.records(n, honest=n)
    sent = [protocol.randomize(answers, randomness=randomness.simulated(s)) for s in range(40)]
    assert len({len(each.messages) for each in sent}) > 10  # and this is what must not be seen
    for seed, each in enumerate(sent):
        bits = randomness.simulated(seed)
        batch = shoal.shuffle(each, randomness=bits)
        again = shoal.shuffle(protocol.decode(protocol.encode(each)), randomness=bits)
        assert len(batch) == len(again) == full
        assert batch.n == n
        assert np.array_equal(protocol.tally(batch).cells, protocol.tally(each).cells)


def test_people_beyond_those_the_noise_is_made_for_may_send_all_slots():
    protocol = few(0.25, 2, k=4, people=40, pairs=10.0)
    sent = protocol.randomize(np.zeros(45, dtype=int), randomness=randomness.simulated(1))
    assert len(shoal.shuffle(sent)) == protocol.records(45, honest=40)
    # And if there are too many messages nevertheless, their number still says next to nothing.
    full = protocol.records(10**4, honest=40)
    assert {len(protocol.uneven.filling(full + sent, 10**4)) for sent in (0, 1, full)} == {
        0,
        full - 1,
    }


def test_an_audit_sees_full_batches():
    protocol, n = few(0.25, 2, k=4, people=40, pairs=10.0), 40
    for in_order in (False, True):
        data, bits = DataSet((0, 1) * (n // 2)), randomness.simulated(2)
        seen = Collection(protocol).run(data, 6, bits, in_order=in_order)
        assert seen.sizes.tolist() == [protocol.records(n, honest=n)] * 6
        assert len(seen.messages) == 6 * protocol.records(n, honest=n)


def test_a_batch_that_is_not_filled_up_would_break_the_promise():
    """Why batches are full: L carriers send 200 messages each, 199 L - R of which say nothing.

    R are their single messages and pairs, in which L differs by 199: whoever can count those that
    say nothing knows R, and so how much noise there is. Here, for as many carriers as expected.
    """
    protocol, people, reach = replace(TWO_ANSWERS, most=200), TWO_ANSWERS.people, 30
    assert protocol.profile(people).delta(1.0) <= 1e-6
    carriers, ratio = people * protocol.carriers, math.exp(-protocol.central_epsilon)
    single = stats.nbinom.pmf(np.arange(reach), carriers / protocol.fewest, 1 - ratio)
    # One answer: how many single messages, and their + less their −; beyond is next to nothing.
    one = np.zeros((2 * reach, 2 * reach + 1))
    for plus, minus in itertools.product(range(reach), repeat=2):
        one[plus + minus, reach + plus - minus] += single[plus] * single[minus]
    both = signal.fftconvolve(one[:, :, None], one[:, None, :], axes=0)
    pairs = np.zeros(200)
    pairs[::2] = stats.poisson.pmf(np.arange(100), 2 * protocol.pairs * carriers / people)
    seen = signal.fftconvolve(both, pairs[:, None, None], axes=0)
    assert 4e-3 < divergence(np.roll(seen, 1, 1), np.roll(seen, 1, 2), 1.0) < 5e-3
    full = seen.sum(axis=0)  # R is hidden: nothing but the estimates is left
    assert divergence(np.roll(full, 1, 0), np.roll(full, 1, 1), 1.0) <= 1e-6


def test_records_grow_with_reports_and_with_those_who_may_be_dishonest():
    numbers = [MILLION.records(n, honest=n) for n in (10**3, 10**4, 10**5, 10**6, 10**7)]
    assert numbers == sorted(numbers)
    honest = [MILLION.records(10**6, honest=10**6 - f) for f in (0, 1, 1000, 10**5, 10**6)]
    assert honest == sorted(honest)
    assert honest[-1] == 10**6 * MILLION.slots
    assert few(1.0, 3).records(7, honest=7) == 7 * 60  # everybody carries: nothing varies


def test_a_million_people_open_three_records_each_at_most():
    people = 10**6
    assert MILLION.profile(people).delta(1.0) <= 1e-6
    assert MILLION.records(people, honest=people) <= 2.0 * people
    assert MILLION.records(people, honest=people - people // 100) <= 3.0 * people
    assert MILLION.slots <= 100
    error = math.sqrt(100 * float(MILLION.variance(0.5, n=people))) * people
    assert error <= 31.5  # a trusted curator's is 28.0


@pytest.mark.slow
def test_the_calibration_for_a_million_people():
    made = CarrierHistogram.calibrated(k=100, n=10**6, epsilon=1.0, delta=1e-6)
    assert made.carriers == MILLION.carriers
    assert made.pairs == pytest.approx(MILLION.pairs, rel=1e-4)
    assert (made.fewest, made.most) == (MILLION.fewest, MILLION.most)


@pytest.mark.parametrize(
    ("k", "n", "epsilon", "delta"), [(2, 1000, 2.0, 1e-5), (4, 6000, 2.0, 1e-6)]
)
def test_the_calibration_keeps_its_target(k, n, epsilon, delta):
    protocol = CarrierHistogram.calibrated(k=k, n=n, epsilon=epsilon, delta=delta)
    profile = protocol.profile(n)
    assert 0.9 * delta <= profile.delta(epsilon) <= delta
    assert shoal.amplify(protocol, n=n, delta=delta).epsilon <= epsilon * (1 + 1e-7)
    assert protocol.profile(2 * n).delta(epsilon) <= profile.delta(epsilon)
    fewer = [protocol.profile(round(n * part)).delta(epsilon) for part in (1.0, 0.98, 0.9)]
    assert fewer == sorted(fewer)
    assert restored(protocol.described()) == protocol
    assert restored(protocol.described()).integers == protocol.integers


def test_estimates_have_the_error_that_is_predicted():
    protocol = CarrierHistogram.calibrated(k=4, n=2000, epsilon=1.0, delta=1e-5)
    error, n = protocol.error(2000), 2000
    truth = np.bincount(np.arange(n) % 4, minlength=4)
    errors = []
    for trial in range(120):
        sent = protocol.randomize(np.arange(n) % 4, randomness=randomness.simulated(trial))
        found = protocol.estimate(Batch(sent.messages, n))
        errors.extend(np.rint(found.counts - truth).astype(int).tolist())
    least, most = error.limits(0.05)
    low, high = found.interval(0.95)
    assert np.array_equal(np.rint((high - low) * n), np.full(4, most - least))
    within = np.array([least <= e <= most for e in errors])
    assert stats.binomtest(int(within.sum()), within.size, 0.95, "less").pvalue > RARE
    ratio = np.mean(np.square(errors)) / error.variance
    assert 0.65 < ratio < 1.5


def test_the_law_of_the_error_is_that_of_single_shares():
    protocol = few(0.5, 1)
    ratio = math.exp(-protocol.central_epsilon)
    single = stats.nbinom.pmf(np.arange(120), 1.0, 1 - ratio)
    person = 0.5 * np.convolve(single, single[::-1])
    person[119] += 0.5
    total = np.convolve(np.convolve(person, person), person)
    middle = total.size // 2
    error = protocol.error(3)
    for reach in range(12):
        assert error.beyond(reach) == pytest.approx(total[middle + reach + 1 :].sum(), abs=1e-12)
        assert error.quantile(error.beyond(reach)) == reach
    assert error.variance == pytest.approx(total @ (np.arange(total.size) - middle) ** 2)
    least, most = error.limits(0.1)
    assert total[middle + least : middle + most + 1].sum() >= 0.9
    assert total[middle + least + 1 : middle + most + 1].sum() < 0.9
    # The sum of two answers, whose errors depend on each other by the number of carriers.
    pair = 0.5 * np.convolve(*[np.convolve(single, single[::-1])] * 2)
    pair[pair.size // 2] += 0.5
    total = np.convolve(np.convolve(pair, pair), pair)
    assert error.times(2).beyond(3) == pytest.approx(total[total.size // 2 + 4 :].sum(), abs=1e-12)


def test_honest_crowds_stay_within_the_limits_of_a_held_result():
    protocol = few(0.75, 2, k=4)
    below, above = protocol.estimate(Counts(np.zeros(8, dtype=np.int64), 100)).beyond(1e-6)
    assert not below.any()
    assert not above.any()
    reach = protocol.error(100).quantile(1e-6 / 8)  # and a little more than all four need
    cells = np.array([101 + reach, 0, 0, 0, 0, 0, 0, 0])
    below, above = protocol.estimate(Counts(cells, 100)).beyond(1e-6)
    assert above.tolist() == [True, False, False, False]


def test_envelopes_survive_the_wire():
    protocol = few(0.5, 1, k=300, pairs=0.05, rate=4.0)
    sent = protocol.randomize(np.arange(50), randomness=randomness.simulated(5))
    rows = protocol.encode(sent)
    assert rows.shape == (50, protocol.envelope_bytes)
    back = protocol.decode(rows)
    assert np.array_equal(back.messages, sent.messages)
    assert np.array_equal(back.sizes, sent.sizes)
    slots = rows.reshape(-1, protocol.message_bytes)
    present = np.array([row.tobytes() != protocol.uneven.absent for row in slots])
    assert protocol.codec.admissible(slots).tolist() == present.tolist()
    nothing = np.frombuffer(protocol.uneven.padding, dtype=np.uint8).reshape(1, -1)
    assert protocol.codec.admissible(nothing).all()
    assert not protocol.cells(protocol.codec.used(nothing)).any()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"carriers": 0.3}, "carriers"),
        ({"carriers": 0.0}, "carriers"),
        ({"fewest": 4}, "fewest"),
        ({"most": 2}, "most"),
        ({"most": 10**6}, "most"),
        ({"pairs": -1.0}, "pairs"),
        ({"pairs": 1e300}, "pairs"),
        ({"pairs": math.inf}, "pairs"),
        ({"central_epsilon": 1e-9}, "central_epsilon|likely counts"),
        ({"central_epsilon": 2e-3}, "central_epsilon"),
        ({"k": 10**9}, "pairs|fewest"),
        ({"k": 1}, "k"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(change, name):
    with pytest.raises(shoal.InvalidArgumentError, match=name):
        replace(few(1.0, 3), **change)


def test_too_few_people_for_so_many_answers_are_refused():
    with pytest.raises(shoal.UnreachableTargetError, match="slots"):
        CarrierHistogram.calibrated(k=1000, n=200, epsilon=1.0, delta=1e-6)
