import math

import numpy as np
import pytest

import shoal
from contract import CategoryContract
from shoal.accounting.profile import PrivacyProfile
from shoal.mechanisms.response import HadamardResponse, Layout, walsh
from shoal.values import Batch, Counts


class TestHadamardResponse(CategoryContract):
    small = (2, 3, 4, 5, 8, 11)

    def make(self, k, epsilon):
        return HadamardResponse(k=k, epsilon=epsilon)

    @pytest.mark.parametrize("epsilon", [1.0, 4.0])
    def test_the_error_is_as_predicted_for_many_answers(self, epsilon):
        self.check_error(10_000, epsilon)


def zipf(k, n):
    weights = 1 / np.arange(1, k + 1)
    counts = np.floor(n * weights / weights.sum()).astype(int)
    counts[0] += n - counts.sum()
    return counts


@pytest.mark.parametrize(("k", "epsilon"), [(3, 1.0), (7, 0.5), (11, 2.0), (12, 3.0), (6, 6.0)])
def test_estimate_and_variance_are_the_moments_under_the_table(k, epsilon):
    """One report at a time: its estimate has the right mean and variance for every answer."""
    randomizer = HadamardResponse(k=k, epsilon=epsilon)
    table = randomizer.table()
    outputs = np.arange(table.shape[1])
    single = [randomizer.estimate(Batch(outputs[y : y + 1])).frequencies for y in outputs]
    values = np.array(single)  # (outputs, k)
    means = table @ values
    assert means == pytest.approx(np.eye(k), abs=1e-9)
    frequencies = zipf(k, 1000) / 1000
    spread = table @ values**2 - means**2  # of answer y's estimate, given a report about x
    assert randomizer.variance(frequencies, n=1) == pytest.approx(frequencies @ spread, rel=1e-9)


def test_standard_errors_are_the_variance_of_the_expected_counts():
    randomizer = HadamardResponse(k=20, epsilon=2.0)
    frequencies = zipf(20, 1000) / 1000
    n = 10**9
    cells = np.rint(n * (frequencies @ randomizer.table())).astype(np.int64)
    estimate = randomizer.estimate(Counts(cells, n))
    assert estimate.frequencies == pytest.approx(frequencies, abs=1e-6)
    errors = np.sqrt(randomizer.variance(frequencies, n=n))
    assert estimate.standard_errors == pytest.approx(errors, rel=1e-6)


@pytest.mark.parametrize(("k", "epsilon"), [(3, 1.0), (11, 2.0), (12, 3.0), (40, 3.0), (6, 6.0)])
def test_the_law_lists_the_same_atoms_as_the_table(k, epsilon):
    randomizer = HadamardResponse(k=k, epsilon=epsilon)
    law, by_table = randomizer.law(), shoal.BlanketLaw.from_table(randomizer.table())
    assert law.local_epsilon == randomizer.local_epsilon
    assert listed(law) == pytest.approx(listed(by_table), rel=1e-10)


def listed(law):
    columns = [np.column_stack([pair.rho0, pair.rho1, pair.mass]) for pair in law.pairs]
    rows = [np.round(column, 9)[np.lexsort(np.round(column.T, 9))] for column in columns]
    return np.concatenate(sorted(rows, key=lambda block: block.ravel().tolist())).ravel()


def test_one_block_with_and_many_blocks_without_pairs_inside_are_all_met():
    assert HadamardResponse(k=11, epsilon=1.0).layout.blocks == 1
    assert len(HadamardResponse(k=11, epsilon=1.0).law().pairs) == 1
    mixed = HadamardResponse(k=40, epsilon=3.0)
    assert 1 < mixed.layout.blocks < 40
    assert len(mixed.law().pairs) == 2
    alone = HadamardResponse(k=6, epsilon=6.0)
    assert alone.layout == Layout(6, 2)
    assert len(alone.law().pairs) == 1


def test_different_blocks_are_the_worst_pair_and_an_explicit_data_set_confirms_it():
    """The single-block law would claim 0.285 here: a false guarantee."""
    randomizer = HadamardResponse(k=200, epsilon=4.0)
    blocks = randomizer.layout.blocks
    assert blocks > 2
    profile = PrivacyProfile(randomizer.law(), 10_000)
    as_response = shoal.BlanketLaw.randomized_response(
        k=2 * blocks, epsilon=randomizer.local_epsilon
    )
    upper = profile.epsilon(1e-6)
    assert upper == pytest.approx(PrivacyProfile(as_response, 10_000).epsilon(1e-6), rel=1e-6)
    assert upper * 0.99 < profile.lower_epsilon(1e-6) <= upper


@pytest.mark.parametrize(("k", "epsilon"), [(5, 1.0), (12, 3.0), (18, 3.0)])
def test_witnesses_are_those_of_the_table(k, epsilon):
    randomizer = HadamardResponse(k=k, epsilon=epsilon)
    by_table = shoal.BlanketLaw.from_table(randomizer.table())
    mine = PrivacyProfile(randomizer.law(), 1000)
    theirs = PrivacyProfile(by_table, 1000)
    assert mine.lower_epsilon(1e-6) == pytest.approx(theirs.lower_epsilon(1e-6), rel=1e-6)


def test_the_layout_is_the_best_of_all_widths():
    k, ratio = 1000, math.exp(4.0)
    best = HadamardResponse(k=k, epsilon=4.0).layout
    assert best == Layout(33, 32)
    for width in 2 ** np.arange(1, 11):
        other = Layout(-(-k // (int(width) - 1)), int(width))
        assert other.total_variance(k, ratio) >= best.total_variance(k, ratio)
    assert HadamardResponse(k=2, epsilon=math.log(1.1)).layout == Layout(1, 4)


def test_the_order_of_the_answers_is_public_and_spreads_them_evenly():
    randomizer = HadamardResponse(k=1000, epsilon=4.0)
    blocks, patterns = randomizer.homes
    homes = set(zip(blocks.tolist(), patterns.tolist(), strict=True))
    assert len(homes) == 1000
    assert 1 <= patterns.min() <= patterns.max() < randomizer.layout.width
    sizes = np.bincount(blocks)
    assert sizes.size == randomizer.layout.blocks
    assert sizes.max() - sizes.min() <= 1
    # Pinned: devices and analyzers of different builds must agree.
    assert blocks[:6].tolist() == [27, 7, 13, 18, 23, 24]
    assert np.abs(np.corrcoef(np.arange(1000), blocks)[0, 1]) < 0.1


def test_the_transform_is_the_hadamard_matrix():
    cells = np.arange(24).reshape(3, 8) ** 2
    j = np.arange(8)
    signs = 1 - 2 * (np.bitwise_count(j[:, None] & j[None, :]).astype(int) % 2)
    assert np.array_equal(walsh(cells), cells @ signs)


def test_limits_are_named():
    with pytest.raises(shoal.InvalidArgumentError, match="for a table"):
        HadamardResponse(k=100_000, epsilon=1.0).table()
    with pytest.raises(shoal.InvalidArgumentError, match="k <= "):
        HadamardResponse(k=1 << 25, epsilon=1.0)
    with pytest.raises(shoal.InvalidArgumentError, match="odds of whole numbers"):
        HadamardResponse(k=10, epsilon=1e-18)
    with pytest.raises(shoal.InvalidArgumentError, match="10 fractions"):
        HadamardResponse(k=10, epsilon=1.0).variance([0.5, 0.5], n=10)
    with pytest.raises(shoal.InvalidArgumentError):
        HadamardResponse(k=10, epsilon=31.0)
    randomizer = HadamardResponse(k=10, epsilon=1.0)
    with pytest.raises(shoal.InvalidArgumentError, match="messages below"):
        randomizer.decode(np.array([[255]], dtype=np.uint8))
