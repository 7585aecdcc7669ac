"""Plans: the errors they promise, against each other and against measurement."""

import json
import math

import numpy as np
import pytest

import shoal
from repository import ROOT
from shoal import randomness
from shoal.mechanisms.estimators import expected_largest
from shoal.planning import Plan, required_epsilon_for, required_n_for
from shoal.planning.errors import central
from shoal.planning.plans import Budget
from shoal.values import Batch

STORED = json.dumps(
    {
        "format": 2,
        "n": 10,
        "epsilon": 1,
        "delta": 1e-6,
        "crowd": {},
        "limits": {},
        "reports": 1,
        "questions": [
            {
                "question": {"kind": "choice", "name": "c", "labels": 3},
                "scheme": {"name": "whole"},
                "reports": [{"epsilon": 1, "delta": 1e-6, "options": [], "reason": ""}],
            }
        ],
    }
)


def planned(k, n, *, epsilon=1, delta=None, local_epsilon=None, messages=None, **crowd):
    """A plan for one of k answers of so many people."""
    limits = shoal.Limits(local_epsilon=local_epsilon, messages=messages)
    terms = {"crowd": shoal.Crowd(**crowd), "limits": limits}
    return shoal.plan(shoal.Choice("c", k), n=n, epsilon=epsilon, delta=delta, **terms)


def test_reference_errors_of_randomized_response():
    large = planned(100, 10**6, delta=1e-6)
    assert option(large, "grr").errors.l2 <= 94
    wide = planned(1000, 10**5, delta=1e-6)
    assert option(wide, "grr").errors.l2 <= 270


def test_delta_is_well_below_one_over_n_unless_given():
    for n, delta in ((1000, 1e-6), (10**5, 1e-6), (10**6, 1e-7)):
        found = planned(2, n, local_epsilon=1.5)
        assert found.budget.delta == pytest.approx(delta)
        assert found.guarantee.delta == found.budget.delta
        assert found.warnings == ()
    assert planned(2, 10**6, delta=1e-6).budget.delta == 1e-6


def test_the_options_are_a_data_frame():
    plan = planned(3, 1000, messages=2)
    frame = plan.to_polars()
    assert frame["name"].to_list() == [each.name for each in plan.options]
    assert frame["l2"][0] == plan.recommended.errors.l2
    assert frame["messages"][0] == plan.recommended.messages
    impossible = [each for each in plan.options if each.errors is None]
    assert frame["l2"].null_count() == frame["cell"].null_count() == len(impossible)
    assert plan.to_pandas()["name"].tolist() == frame["name"].to_list()


def option(plan, name):
    return next(each for each in plan.options if each.name == name)


def test_shuffling_comes_close_to_a_trusted_curator_and_far_from_none():
    plan = planned(100, 10**6, delta=1e-6)
    best = plan.recommended.errors.l2
    assert best <= 3.5 * plan.central.l2
    assert best <= plan.local.l2 / 100


def test_every_option_keeps_the_target_by_its_own_law():
    plan = planned(30, 20_000, epsilon=0.5, delta=1e-7, honest_fraction=0.9)
    assert plan.guarantee.epsilon <= 0.5 * (1 + 1e-9)
    assert plan.guarantee.n == 18_000
    for each in plan.options:
        if each.randomizer is not None:
            kept = shoal.amplify(each.randomizer, n=18_000, delta=1e-7).epsilon
            assert kept <= 0.5 * (1 + 1e-6)
            assert each.local_epsilon >= 0.5 * (1 - 1e-9)


def test_a_cap_is_kept():
    plan = planned(100, 10**5, local_epsilon=2)
    assert all(each.local_epsilon <= 2 for each in plan.options if each.randomizer)
    assert plan.guarantee.epsilon < 1


def measured_error(randomizer, values, truth, source, runs):
    squares = 0.0
    for _ in range(runs):
        batch = Batch(randomizer.randomize(values, randomness=source))
        squares += float(((randomizer.estimate(batch).frequencies - truth) ** 2).sum())
    return values.size * math.sqrt(squares / runs)


# Thirty settings, every eighth of them in every run, to 8 %; the others to 5 %.
CASES = [
    pytest.param(case, 0.05, marks=pytest.mark.slow) if case % 8 else (case, 0.08)
    for case in range(30)
]


@pytest.mark.parametrize(("case", "close"), CASES)
def test_the_recommendation_is_as_good_as_the_best_and_as_good_as_it_says(case, close):
    """Averaged over enough runs that a right prediction is not so close less than once in 1e6."""
    rng = np.random.default_rng(case)
    n = int(rng.integers(1_000, 8_000))
    k = int(rng.integers(5, 60))
    epsilon = float(rng.uniform(0.3, 2.0))
    cap = None if case % 2 else float(rng.uniform(0.5, 4.0))
    plan = planned(k, n, epsilon=epsilon, local_epsilon=cap)
    values = np.sort(rng.integers(0, k, size=n))
    truth = np.bincount(values, minlength=k) / n
    source = randomness.simulated(case)
    # The relative error of a mean of `runs` sums of k squares is about sqrt(2 / (k runs)).
    runs = math.ceil(2 * (4.9 / (2 * 0.9 * close)) ** 2 / k)
    mine = measured_error(plan.randomizer, values, truth, source, runs)
    assert mine == pytest.approx(plan.recommended.errors.l2, rel=close)
    for rival in plan.options[1:]:
        # Those predicted to be clearly worse cannot be the best measured one.
        if rival.errors is not None and rival.errors.l2 <= 1.15 * plan.recommended.errors.l2:
            theirs = measured_error(rival.randomizer, values, truth, source, runs)
            assert mine <= theirs * (1 + close)


SEVERAL = (shoal.Choice("c", 5), shoal.Choices("m", ["a", "b"]), shoal.Scale("s", 1, 5))


@pytest.mark.parametrize(
    ("asked", "each"),
    [
        (shoal.Number("x", 0.0, 5.0), False),
        (shoal.Vector("v", 10), False),
        (shoal.Choice("c", 20), False),
        (shoal.Scale("s", 1, 5).by("g", ["a", "b"]), False),
        (SEVERAL, False),
        (SEVERAL, True),
    ],
)
def test_a_plan_is_the_same_on_the_disk(tmp_path, asked, each):
    plan = shoal.plan(asked, epsilon=1, n=10_000, limits=shoal.Limits(each=each))
    plan.save(tmp_path / "plan.json")
    again = shoal.Plan.load(tmp_path / "plan.json")
    assert again.to_dict() == plan.to_dict()
    assert (again.questions, again.n, again.budget) == (plan.questions, plan.n, plan.budget)
    assert again.guarantee.epsilon == plan.guarantee.epsilon


def test_a_saved_plan_of_a_scale_by_groups_keeps_the_means(tmp_path):
    plan = shoal.plan(shoal.Scale("s", 1, 5).by("g", ["a", "b"]), epsilon=8, n=2_000)
    plan.save(tmp_path / "plan.json")
    rows = {"s": [1, 5] * 1_000, "g": ["a", "b"] * 1_000}
    (found,) = shoal.run(rows, plan=shoal.Plan.load(tmp_path / "plan.json")).columns
    means = {each.label: each.mean for each in found.means}
    assert means["a"] == pytest.approx(1, abs=0.2)
    assert means["b"] == pytest.approx(5, abs=0.2)


@pytest.mark.parametrize("each", [False, True])
def test_parts_of_a_budget_spend_it(each):
    """Parts of their own add up; those that compose do so by their squares, as Gaussian noise."""
    budget = Budget(epsilon=1.2, delta=3e-6, limits=shoal.Limits(each=each))
    weights = (1.0, 2.0, 2.0)
    parts = [budget.part(weight, weights) for weight in weights]
    epsilons = np.array([part.epsilon for part in parts])
    spent = epsilons.sum() if each else math.sqrt(epsilons @ epsilons)
    assert spent == pytest.approx(1.2)
    assert epsilons / epsilons[0] == pytest.approx(weights)
    assert [part.delta for part in parts] == pytest.approx([1e-6] * 3)
    assert {(part.limits, part.crowd) for part in parts} == {(budget.limits, budget.crowd)}


def test_asking_fewer_people_is_never_more_accurate():
    everybody = planned(20, 10**5)
    tenth = planned(20, 10**5, participation=0.1)
    assert tenth.recommended.errors.l2 > everybody.recommended.errors.l2
    # Sampling alone: a tenth of the people, every count scaled up by ten.
    sampling = math.sqrt(10**5 * 9 * (1 - 1 / 20))
    assert tenth.recommended.errors.l2 >= sampling


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda plan: plan["questions"][0]["reports"][0]["options"][0]["randomizer"].update(
                epsilon=9.0
            ),
            "stated local epsilon",
        ),
        (lambda plan: plan["limits"].update(local_epsilon=0.5), "cap"),
        (lambda plan: plan.update(n=100), "keeps its epsilon"),
    ],
)
def test_nothing_in_a_file_is_believed(tmp_path, change, says):
    plan = planned(50, 10**5, local_epsilon=6)
    stored = plan.to_dict()
    change(stored)
    (tmp_path / "plan.json").write_text(json.dumps(stored))
    with pytest.raises(shoal.InvalidArgumentError, match=says):
        shoal.Plan.load(tmp_path / "plan.json")


def test_a_missing_plan_is_said(tmp_path):
    with pytest.raises(shoal.InvalidArgumentError, match="can be read"):
        shoal.Plan.load(tmp_path / "none.json")


def test_a_cap_that_binds_is_said():
    assert "cap on ε0 binds" in planned(20, 10**5, local_epsilon=2).reason


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        "nonsense",
        '{"format": 99}',
        '{"format": 1}',
        '{"format": 2}',
        STORED,
        STORED.replace('"options": []', '"options": "abc"'),
        STORED.replace('"questions": [', '"questions": [], "more": ['),
        STORED.replace('"questions": [', '"questions": [3, '),
    ],
)
def test_what_is_no_plan_is_refused(tmp_path, text):
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(shoal.InvalidArgumentError, match=r"plan|option|question"):
        shoal.Plan.load(tmp_path / "plan.json")


def test_another_option_can_be_chosen():
    plan = planned(50, 10**5)
    other = plan.choose("hadamard")
    assert other.randomizer.name == "hadamard"
    assert {each.name for each in other.options} == {each.name for each in plan.options}
    with pytest.raises(shoal.InvalidArgumentError, match="one of"):
        plan.choose("gauss")


@pytest.mark.slow
def test_the_inverse_problems():
    asked = shoal.Choice("c", 20)
    n = required_n_for(0.01, asked, epsilon=1.0)
    plan = planned(20, n)
    assert plan.recommended.errors.l2 / n <= 0.01
    fewer = planned(20, int(n * 0.98))
    assert fewer.recommended.errors.l2 / int(n * 0.98) > 0.01
    epsilon = required_epsilon_for(0.005, asked, n=20_000)
    assert planned(20, 20_000, epsilon=epsilon).recommended.errors.l2 <= 100.001


def test_numbers_and_vectors_have_plans_too():
    numbers = shoal.plan(shoal.Number("x", 0, 10), epsilon=1, n=10_000)
    assert numbers.guarantee.epsilon <= 1 + 1e-9
    assert numbers.recommended.errors.l2 < 1000
    vectors = shoal.plan(shoal.Vector("v", 20), epsilon=1, n=10_000)
    assert vectors.guarantee.epsilon <= 1 + 1e-9


def test_the_expected_largest_error_is_that_of_independent_normals():
    rng = np.random.default_rng(0)
    deviations = np.array([1.0, 2.0, 2.0, 0.5])
    simulated = np.abs(rng.normal(size=(200_000, 4)) * deviations).max(axis=1)
    bound = 6 * simulated.std() / math.sqrt(simulated.size)
    assert expected_largest(deviations) == pytest.approx(simulated.mean(), abs=bound)


@pytest.mark.parametrize(
    "name", ["grr", "subset", "coins", "near-central", "zero-sum", "unary", "dummies"]
)
def test_the_largest_error_of_two_answers_is_that_of_collections(name):
    """The errors of both are one, or they are two: what is largest is measured."""
    n = 2000
    plan = planned(2, n, messages=math.inf).choose(name)
    device, source, found = plan.randomizer, randomness.simulated(4), []
    for _ in range(300):
        reports = device.randomize(np.arange(n) % 2, randomness=source)
        found.append(np.abs(device.estimate(device.tally(reports)).counts - n / 2).max())
    error = np.std(found) / math.sqrt(len(found))
    assert abs(plan.recommended.errors.linf - np.mean(found)) < 6 * error + 0.1 * np.mean(found)


def test_the_central_floor_is_discrete_laplace_noise_of_sensitivity_two():
    rng = np.random.default_rng(1)
    a = math.exp(-0.5)
    noise = rng.geometric(1 - a, 10**6) - rng.geometric(1 - a, 10**6)
    assert central(1, 2, 1.0).cell == pytest.approx(noise.std(), rel=0.01)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (lambda: shoal.plan([], epsilon=1, n=100), "at least one question"),
        (lambda: shoal.plan(3, epsilon=1, n=100), "a question such as Choice"),
        (lambda: planned(1, 100), "labels"),
        (lambda: planned(3, 100, epsilon=0), "epsilon"),
        (lambda: planned(3, 0), "n=0"),
        (lambda: shoal.Number("x", 1, 1), "low < high"),
        (lambda: planned(3, 100, local_epsilon=-1), "local_epsilon"),
    ],
)
def test_questions_that_make_no_sense_are_refused(asked, says):
    with pytest.raises(shoal.InvalidArgumentError, match=says):
        asked()


def test_a_question_is_asked_once():
    twice = [shoal.Choice("c", 3), shoal.Number("c", 0, 1)]
    with pytest.raises(shoal.InvalidArgumentError, match="every question, or column, once"):
        shoal.plan(twice, epsilon=1, n=100)


def test_a_crowd_that_needs_hardly_any_noise_has_a_plan_for_numbers():
    best = shoal.plan(shoal.Number("x", 0.0, 1.0), epsilon=3, n=10**6)
    assert best.recommended.errors is not None


# ------------------------------------------------------------------------- plans of version 0.2

OLD = json.loads((ROOT / "tests" / "recorded" / "plans_of_0_2.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("stored", OLD.values(), ids=OLD)
def test_plans_that_version_0_2_saved_are_read(stored, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(stored))
    plan = Plan.load(path)
    assert plan.recommended.name == stored["recommended"]
    assert plan.randomizer.described() == stored["options"][0]["randomizer"]
    for name in ("epsilon", "delta", "n"):
        assert getattr(plan.guarantee, name) == pytest.approx(stored["guarantee"][name], rel=1e-12)
    again = Plan.from_dict(json.loads(json.dumps(plan.to_dict())))
    assert again.to_dict() == plan.to_dict()


def test_a_plan_of_version_0_2_runs_as_it_did():
    plan = Plan.from_dict(OLD["answers"])
    table = {"color": ["red", "blue", "teal", "grey"] * 2_500}
    result = shoal.run(table, shoal.Choice("color"), plan=plan)
    assert result.only.randomizer == plan.randomizer
    assert result.guarantee.epsilon == plan.guarantee.epsilon


def test_a_plan_of_version_0_2_that_does_not_keep_its_epsilon_is_refused():
    weak = json.loads(json.dumps(OLD["answers"]))
    for option in weak["options"]:
        option["randomizer"]["epsilon"] = option["local_epsilon"] = 7.0
    with pytest.raises(shoal.InvalidArgumentError, match="keeps its epsilon 1"):
        Plan.from_dict(weak)


def test_plans_of_a_later_format_are_refused():
    with pytest.raises(shoal.InvalidArgumentError, match="a later version wrote it"):
        Plan.from_dict(OLD["answers"] | {"format": 3})
