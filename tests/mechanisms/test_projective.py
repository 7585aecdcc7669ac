import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from contract import CategoryContract
from shoal import randomness
from shoal.accounting.profile import PrivacyProfile
from shoal.mechanisms.response import (
    LARGEST_SPACE,
    ProjectiveGeometryResponse,
    Space,
    _candidates,
)
from shoal.values import Counts

SPACES = [Space(2, 2), Space(2, 4), Space(3, 3), Space(5, 3), Space(7, 2), Space(3, 4)]


class TestProjectiveGeometryResponse(CategoryContract):
    small = (2, 3, 5, 14)

    def make(self, k, epsilon):
        return ProjectiveGeometryResponse(k=k, epsilon=epsilon)


def points_by_hand(space):
    """Vectors whose first coordinate that is not 0 is 1, in lexicographic order."""
    vectors = itertools.product(range(space.q), repeat=space.t)
    return [v for v in vectors if next((c for c in v if c), 0) == 1]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_points_are_numbered_as_defined(space):
    by_hand = points_by_hand(space)
    assert len(by_hand) == space.points()
    numbers = np.arange(space.points())
    digits = np.array(list(space.digits(space.vectors(numbers))))[::-1].T
    assert digits.tolist() == [list(v) for v in by_hand]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_every_multiple_of_a_point_is_that_point(space):
    powers = space.q ** np.arange(space.t)[::-1]
    points = np.array(points_by_hand(space))
    for a in range(1, space.q):
        vectors = (a * points % space.q) @ powers
        assert np.array_equal(space.numbers(vectors), np.arange(space.points()))


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_members_list_the_orthogonal_points_first_and_every_point_once(space):
    by_hand = np.array(points_by_hand(space))
    inside = space.points(space.t - 1)
    members = np.arange(space.points())
    for point in range(space.points()):
        listed = space.orthogonal(np.full(space.points(), point), members)
        assert sorted(listed.tolist()) == members.tolist()
        products = by_hand[listed] @ by_hand[point] % space.q
        assert (products[:inside] == 0).all()
        assert (products[inside:] != 0).all()


@settings(deadline=None, derandomize=True, max_examples=40)
@given(space=st.sampled_from(SPACES), seed=st.integers(0, 10**6), most=st.integers(1, 10**9))
def test_the_transform_counts_orthogonal_points(space, seed, most):
    drawn = randomness.simulated(seed).below(most, space.points()).view(np.int64)
    by_hand = np.array(points_by_hand(space))
    suits = by_hand @ by_hand.T % space.q == 0
    for k in (2, space.points()):
        assert np.array_equal(space.orthogonal_counts(drawn, k), suits[:k] @ drawn)


@pytest.mark.parametrize(("k", "epsilon"), [(2, 1.0), (3, 1.0), (20, 0.5), (40, 2.0)])
def test_the_law_and_its_witnesses_are_those_of_the_table(k, epsilon):
    randomizer = ProjectiveGeometryResponse(k=k, epsilon=epsilon)
    law, by_table = randomizer.law(), shoal.BlanketLaw.from_table(randomizer.table())
    assert law.local_epsilon == randomizer.local_epsilon
    assert len(law.pairs) == len(by_table.pairs) == 1
    for column in ("mass", "rho0", "rho1"):
        mine = sorted(getattr(law.pairs[0], column))
        assert mine == pytest.approx(sorted(getattr(by_table.pairs[0], column)), rel=1e-10)
    lower = PrivacyProfile(law, 1000).lower_epsilon(1e-6)
    assert lower == pytest.approx(PrivacyProfile(by_table, 1000).lower_epsilon(1e-6), rel=1e-6)


def test_an_explicit_data_set_nearly_attains_the_guarantee():
    profile = PrivacyProfile(ProjectiveGeometryResponse(k=1000, epsilon=4.0).law(), 10_000)
    upper = profile.epsilon(1e-6)
    assert 0.9 * upper < profile.lower_epsilon(1e-6) <= upper


@pytest.mark.parametrize("k", [2, 3, 4, 7, 8, 50, 1000, 20_000, 10**6])
def test_answers_fit_and_span_every_space_considered(k):
    spaces = _candidates(k)
    assert len(spaces) >= 1
    for space in spaces:
        assert space.points() >= k
        # More points than a hyperplane has: no message is orthogonal to all answers.
        assert space.points(space.t - 1) < k
        assert space.t == 2 or space.q**space.t <= LARGEST_SPACE


def test_the_prime_is_near_the_odds_and_randomized_response_takes_over():
    middle = ProjectiveGeometryResponse(k=1000, epsilon=4.0).space
    assert middle.t == 3
    assert 40 <= middle.q <= 70
    optimum = 4 * np.exp(4.0) / np.expm1(4.0) ** 2
    variances = middle.support(np.exp(4.0), 1.0).variance([1.0, 0.0], n=1)
    assert variances @ [1, 999] / 1000 == pytest.approx(optimum, rel=0.05)
    assert ProjectiveGeometryResponse(k=1000, epsilon=9.0).space == Space(1009, 2)
    assert ProjectiveGeometryResponse(k=1000, epsilon=0.5).space.q <= 3


def test_estimates_of_expected_counts_are_the_truth():
    randomizer = ProjectiveGeometryResponse(k=40, epsilon=2.0)
    truth = np.arange(40) / np.arange(40).sum()
    n = 10**9
    cells = np.rint(n * (truth @ randomizer.table())).astype(np.int64)
    estimate = randomizer.estimate(Counts(cells, n))
    assert estimate.frequencies == pytest.approx(truth, abs=1e-6)


def test_a_report_that_suits_no_answer_or_many_keeps_the_exact_odds():
    """Each slice of the draw is one point: exactly high : low, in whole numbers."""
    randomizer = ProjectiveGeometryResponse(k=20, epsilon=2.0)
    space, odds = randomizer.space, randomizer.odds
    inside = space.points(space.t - 1)

    class Edges(randomness.Randomness):
        def words(self, size):
            raise NotImplementedError

        def below(self, bound, size):
            assert bound == inside * odds.high + (space.points() - inside) * odds.low
            del size
            return np.array(edges, dtype=np.uint64)

    cuts = [odds.high * i for i in range(inside)]
    cuts += [inside * odds.high + odds.low * i for i in range(space.points() - inside)]
    ends = [*(cut - 1 for cut in cuts[1:]), cuts[-1] + odds.low - 1]
    edges = cuts
    first = randomizer.randomize(np.full(space.points(), 7), randomness=Edges())
    edges = ends
    last = randomizer.randomize(np.full(space.points(), 7), randomness=Edges())
    assert np.array_equal(first, last)
    assert sorted(first.tolist()) == list(range(space.points()))


def test_limits_are_named():
    with pytest.raises(shoal.InvalidArgumentError, match="for a table"):
        ProjectiveGeometryResponse(k=10_000, epsilon=1.0).table()
    with pytest.raises(shoal.InvalidArgumentError, match="k <= "):
        ProjectiveGeometryResponse(k=10**8, epsilon=1.0)
    with pytest.raises(shoal.InvalidArgumentError, match="odds of whole numbers"):
        ProjectiveGeometryResponse(k=10, epsilon=1e-18)
    with pytest.raises(shoal.InvalidArgumentError):
        ProjectiveGeometryResponse(k=10, epsilon=31.0)
    randomizer = ProjectiveGeometryResponse(k=10, epsilon=1.0)
    with pytest.raises(shoal.InvalidArgumentError, match="messages below"):
        randomizer.decode(np.array([[255]], dtype=np.uint8))
