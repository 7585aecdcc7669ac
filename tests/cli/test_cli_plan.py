"""``shoal plan``: the library's plan, printed, drawn and saved."""

from __future__ import annotations

import pytest

import shoal

ASKED = "plan --epsilon 0.5 --n 1e4 --categories 5"


@pytest.fixture(scope="module")
def plan():
    return shoal.plan(shoal.Choice("answer", 5), epsilon=0.5, n=10_000)


def options(values):
    """Of the only report of the only question, in JSON."""
    (question,) = values["questions"]
    (report,) = question["reports"]
    return report["options"]


def test_the_table_lists_every_option_best_first(run, plan):
    said = run(ASKED).stdout
    names = [option.name for option in plan.options if option.errors]
    lines = [line.split()[0] for line in said.splitlines() if line.split()]
    assert [name for name in lines if name in names] == names
    best = plan.recommended
    row = next(line.split() for line in said.splitlines() if line.split()[:1] == [best.name])
    assert float(row[1]) == pytest.approx(best.local_epsilon, abs=1e-3)
    assert float(row[2]) == pytest.approx(best.errors.l2, rel=0.01)
    for words in ("a trusted curator", "no shuffler", f"Run {best.name} with ε0 = ", "replacement"):
        assert words in said
    assert plan.reason in " ".join(said.split())


def test_the_cap_is_kept_and_dishonest_people_cost(run):
    capped = run(ASKED, "--local-epsilon-cap 1.5 --json").json()
    assert options(capped)[0]["local_epsilon"] <= 1.5
    half = run(ASKED, "--honest-fraction 0.5 --json").json()
    full = run(ASKED, "--json").json()
    assert options(half)[0]["errors"]["l2"] > options(full)[0]["errors"]["l2"]
    assert half["guarantee"]["n"] == 5000


@pytest.mark.parametrize(("suffix", "magic"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_it_draws_and_saves(run, tmp_path, suffix, magic):
    figure, saved = tmp_path / f"plan.{suffix}", tmp_path / "plan.json"
    assert run(ASKED, f"--plot {figure} --save {saved}").status == 0
    assert figure.read_bytes().startswith(magic)
    assert shoal.Plan.load(saved).n == 10_000
    assert {path.name for path in tmp_path.iterdir()} == {figure.name, saved.name}


def test_protocols_are_offered_when_messages_are_allowed(run):
    said = run("plan --epsilon 1 --delta 1e-6 --n 1e6 --categories 100 --messages-cap 2").stdout
    assert max(map(len, said.splitlines())) <= 80
    words = " ".join(said.split())
    for part in (
        "msgs",
        "Run near-central-lean with 1.11 messages per person",
        "messages reveal the datum",
    ):
        assert part in words
    assert "One dishonest person can add at most 2,489 to an answer's count" in words
    words = "plan --epsilon 1 --delta 1e-6 --n 1e6 --categories 100 --messages-cap 2 --json"
    found = run(words).json()
    best = options(found)[0]
    assert (best["name"], best["local_epsilon"]) == ("near-central-lean", None)
    assert best["slots"] == best["openings"] == best["bytes"] == best["influence"] == 2489
    assert best["messages"] == pytest.approx(1.11, abs=1e-3)


def test_an_option_is_put_first_by_name(run, tmp_path):
    saved = tmp_path / "plan.json"
    run("plan --epsilon 1 --n 1e4 --categories 5 --choose sparse --save", str(saved))
    assert shoal.Plan.load(saved).recommended.name == "sparse"


def test_bins_may_have_their_bounds_as_in_a_run(run):
    words = "plan --epsilon 1 --n 1e4 --bins 20 --json"
    bounded, counted = run(f"{words} --bounds 0,100").json(), run(words).json()
    for found in (bounded, counted):
        question = found["questions"][0].pop("question")
        assert (question["kind"], question["bins"]) == ("bins", 20)
    assert bounded == counted


def test_a_saved_plan_has_the_bounds_of_its_bins(run, tmp_path):
    """Where bins are does not change the errors, but what is asked of a table."""
    words, saved = "plan --epsilon 1 --n 1e4 --bins", tmp_path / "plan.json"
    assert "--bounds is missing" in run(f"{words} 20 --save {saved}").refusal()
    run(f"{words} 0,10,30 --save {saved}").success()
    run(f"{words} 20 --bounds 0,100 --save {saved}").success()
    assert shoal.Plan.load(saved).questions == (shoal.Bins("answer", 0, 100, bins=20),)


def test_quantiles_of_bins_are_predicted(run):
    words = "plan --epsilon 1 --n 1e4 --bins 20 --quantiles 0.25,0.5"
    told = run(words, "--json").json()
    (question,) = told["questions"]
    assert (question["question"]["kind"], question["question"]["bins"]) == ("bins", 20)
    made = shoal.Plan.from_dict(told)
    assert made.only.ranking.cells == 21
    first, second = told["quantile_errors"]
    assert (first["quantile"], second["quantile"]) == (0.25, 0.5)
    assert 0 < first["people"] < second["people"]
    assert "The count up to the 0.5 quantile will be off by about" in run(words).stdout


def test_a_plot_is_of_one_question(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = [shoal.Choice("c", 3), shoal.Scale("s", 1, 5)]
    shoal.write_questions("q.json", asked)
    words = "plan --epsilon 1 --n 1e4 --questions q.json --plot plan.svg"
    assert "--plot draws the options of one question" in run(words).refusal()
    assert not (tmp_path / "plan.svg").exists()
