"""Tables and targets at the edge of double precision: a right answer, or none."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import certificate
import shoal
from shoal.accounting import integral
from shoal.accounting.atoms import PairLaw
from shoal.accounting.guarantee import Guarantee
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.accounting.search import Enclosure
from shoal.errors import UncertifiedError

often = settings(deadline=None, derandomize=True, max_examples=40)


def true_delta(table, *, n, epsilon):
    pairs = certificate.table_pairs(table).values()
    balls = (certificate.pair_delta(atoms, n=n, epsilon=epsilon, bits=5_000) for atoms in pairs)
    return max(balls, key=float)


@pytest.mark.parametrize("q", [1e-60, 1e-130, 1e-140, 1e-200, 1e-307, 1e-320, 5e-324])
@pytest.mark.parametrize("n", [1, 2, 1_000])
def test_a_lie_that_hardly_anybody_tells_hides_nobody(q, n):
    table = [[1 - q, q], [q, 1 - q]]
    profile = PrivacyProfile(BlanketLaw.from_table(table), n)
    epsilon = profile.epsilon(1e-6)
    assert not true_delta(table, n=n, epsilon=epsilon) > 1e-6
    assert true_delta(table, n=n, epsilon=epsilon * (1 - 1e-4)) > 1e-6
    assert profile.lower_epsilon(1e-6) <= epsilon


logs = st.floats(-744.0, 0.0)


@often
@given(
    rows=st.lists(st.tuples(logs, logs, logs), min_size=2, max_size=2),
    n=st.integers(1, 30),
    log_delta=st.floats(-230.0, -1.0),
)
@example(rows=[(0.0, -700.0, -350.0), (-350.0, -700.0, 0.0)], n=30, log_delta=-10.0)
def test_no_table_is_too_extreme(rows, n, log_delta):
    raw = np.exp(np.array(rows))
    table = raw / raw.sum(axis=1, keepdims=True)
    profile = PrivacyProfile(BlanketLaw.from_table(table), n)
    delta = math.exp(log_delta)
    if profile.smallest_delta >= delta:
        return
    epsilon = profile.epsilon(delta)
    assert 0 <= epsilon <= 1500
    assert not true_delta(table.tolist(), n=n, epsilon=epsilon) > delta
    assert profile.lower_delta(epsilon) <= delta


@pytest.mark.parametrize("mass", [1e-8, 1e-20, 1e-45])
@pytest.mark.parametrize("ratio", [2.0, 1e3, 1e7])
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0])
def test_rare_and_telling_outputs_do_not_spoil_the_contour(mass, ratio, epsilon):
    table = np.array([[0.6, 0.4 - mass * ratio, mass * ratio], [0.4, 0.6 - mass, mass]])
    n = 40
    pair = BlanketLaw.from_table(table).pairs[0]
    truth = certificate.pair_delta(
        certificate.table_pairs(table.tolist())[0, 1], n=n, epsilon=epsilon
    )
    laws = [law for law in (pair, pair.reversed()) if law.values(epsilon).max() > 0]
    contours = [integral.contour(law, n, epsilon) for law in laws]
    for law, enclosure in zip(laws, contours, strict=True):
        listed = integral.enclose(law, n=n, epsilon=epsilon)
        assert enclosure.log_lower <= listed.log_upper
        assert enclosure.log_upper >= listed.log_lower
    assert not truth > max((enclosure.upper for enclosure in contours), default=0.0)


def gaussian_table(points):
    """Cells of unit Gaussians around 0, 1/2 and 1: far out they are 0, or close to it."""
    exponents = -((points[None, :] - np.array([0.0, 0.5, 1.0])[:, None]) ** 2) / 2
    table = np.exp(exponents)
    return table / table.sum(axis=1, keepdims=True)


def test_a_gaussian_cut_into_cells_has_the_blanket_of_its_middle():
    table = gaussian_table(np.linspace(-40, 40, 81))
    assert (table == 0).any()
    far = PrivacyProfile(BlanketLaw.from_table(table), 1_000)
    middle = PrivacyProfile(BlanketLaw.from_table(gaussian_table(np.linspace(-6, 6, 13))), 1_000)
    epsilon = middle.epsilon(1e-6)
    assert far.delta(epsilon * 1.01) <= 1e-6 <= far.delta(epsilon * 0.99)
    assert far.lower_delta(epsilon) <= far.delta(epsilon)
    assert PrivacyProfile(far.law, 100).delta(epsilon) > 1e-6


@pytest.mark.parametrize("difference", [2e-16, 1e-15, 1e-13, 1e-11])
@pytest.mark.parametrize("n", [1, 4, 100])
def test_rows_that_differ_are_not_the_same(difference, n):
    table = [[0.5, 0.5], [0.5 + difference, 0.5 - difference]]
    law = BlanketLaw.from_table(table)
    truth = true_delta(table, n=n, epsilon=0.0)
    assert truth > 0
    assert law.local_epsilon > 0
    assert not truth > PrivacyProfile(law, n).delta(0.0)
    small = float(truth) / 2
    epsilon = PrivacyProfile(law, n).epsilon(small)
    assert epsilon > 0
    assert not true_delta(table, n=n, epsilon=epsilon) > small


@often
@given(
    seed=st.integers(0, 10**9),
    noise=st.sampled_from([1e-16, 1e-15, 1e-14, 1e-13, 1e-12]),
    sloppy=st.booleans(),
)
def test_merging_outputs_and_rows_never_hides_a_difference(seed, noise, sloppy):
    rng = np.random.default_rng(seed)
    row = rng.dirichlet(np.ones(3))
    table = np.array([row, row, row]) * (1 + noise * rng.uniform(-1, 1, (3, 3)))
    if not sloppy:
        table /= table.sum(axis=1, keepdims=True)
    law = BlanketLaw.from_table(table)
    for n in (1, 5):
        truth = true_delta(table.tolist(), n=n, epsilon=0.0)
        assert not truth > PrivacyProfile(law, n).delta(0.0)


def test_rows_made_equal_by_normalising_are_not_called_equal():
    row = np.array([0.3, 0.7]) * (1 + 3e-10)
    other = row.copy()
    other[0] = np.nextafter(other[0], 1.0)
    tables = [[row.tolist(), other.tolist()], [row.tolist(), row.tolist()]]
    assert BlanketLaw.from_table(tables[0]).local_epsilon > 0
    assert BlanketLaw.from_table(tables[1]).local_epsilon == 0


def test_merging_adds_its_error():
    """Two atoms 3e-14 apart become one, between them."""
    atoms = [(0.25, 1.5, 0.5), (0.25, 1.5 * (1 + 3e-14), 0.5), (0.5, 0.5 - 2.25e-14, 1.5)]
    pair = PairLaw.of(atoms)
    assert pair.mass.size == 2
    assert 1.4e-14 < pair.error < 2e-14
    assert PairLaw.of(atoms[:1] * 2 + atoms[2:]).error < 1e-15


@pytest.mark.parametrize(
    ("lower", "upper"),
    [(0.0, math.nan), (math.nan, 0.0), (0.0, math.inf), (math.inf, math.inf), (0.0, -1.0)],
)
def test_what_is_no_interval_cannot_be_made(lower, upper):
    with pytest.raises(UncertifiedError, match="no certified answer"):
        Enclosure(lower, upper)
    with pytest.raises(UncertifiedError):
        Enclosure.between(lower, upper) if math.isnan(lower + upper) else Enclosure(lower, upper)


@pytest.mark.parametrize("epsilon", [0.1, 0.69, 0.7, 1, 10, 19, 21, 30, 37, 50, 100, 149])
def test_deletion_privacy_has_a_lower_bound(epsilon):
    for n in (1, 1_000, 10**6):
        guarantee = shoal.amplify(deletion_epsilon=epsilon, n=n)
        assert 0 < guarantee.lower <= guarantee.epsilon


@pytest.mark.parametrize("local", [1e-17, 1e-12, 1e-9])
def test_a_local_epsilon_below_the_precision_of_its_atoms_still_caps_the_answer(local):
    guarantee = shoal.amplify(local_epsilon=local, n=1, delta=1e-30)
    assert guarantee.epsilon == pytest.approx(local, rel=1e-6)


def test_a_lower_bound_is_shown_as_it_is():
    stated = {"epsilon": 1.0, "delta": 1e-6, "n": 10, "local_epsilon": 3.0, "theorem": "none"}
    assert Guarantee(**stated, assumptions=(), lower_bound=lambda: 2.0).lower == 2.0
