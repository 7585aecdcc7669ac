"""``shoal test``: verdicts, powers and refusals of private tests of distributions."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import command_kit
from cli import desks
from cli.desks import PEOPLE
from shoal import Choice, Find, Limits, Number, randomness, testing
from shoal.errors import InvalidArgumentError
from shoal.mechanisms.response import RandomizedResponse
from shoal.testing import Simulations, Study, Way, ranks, rates
from shoal.testing.study import sensitivity

BASE = "--column c --distance 0.1 --epsilon 1 --simulations 199 --seed 1 --coin private"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Made-up tables: everybody's answers are fixed, so that only reports are drawn."""
    place = tmp_path_factory.mktemp("desk")
    desks.tested(place)
    return place


@pytest.fixture
def desk(files, monkeypatch):
    """A desk with the files, and reports that are the same on every run."""
    monkeypatch.chdir(files)
    monkeypatch.setattr(randomness, "secure", lambda: randomness.simulated(3))
    return files


@pytest.mark.usefixtures("desk")
def test_skewed_answers_are_not_uniform(run):
    found = run("test skewed.csv", BASE, "--coin auto --json").json()
    assert found["kind"] == "uniformity"
    assert found["rejected"] is True
    assert found["p_value"] == 1 / 200
    assert found["statistic"] > found["threshold"]
    assert found["sizes"] == [PEOPLE]
    assert found["answers"] == 8
    assert found["power"] > 0.99
    assert found["coin"] == "private"
    assert found["guarantee"]["epsilon"] <= 1
    assert found["guarantee"]["delta"] == 1e-6
    assert found["guarantee"]["n"] == PEOPLE
    assert found["design"]["recommended"] == found["device"]["name"]
    assert found["seed"] == 1


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize("name", ["even.csv", "even.parquet"])
def test_even_answers_are_uniform(run, name):
    found = run("test", name, BASE, "--json").json()
    assert found["rejected"] is False
    assert found["p_value"] > 0.05
    assert found["statistic"] <= found["threshold"]


@pytest.mark.usefixtures("desk")
def test_people_read_the_verdict_its_numbers_and_the_guarantee(run):
    said = run("test skewed.csv", BASE).stdout
    assert said.startswith("The answers are not uniform: p ≤ 0.005 (199 simulations)")
    flat = " ".join(said.replace("│", " ").split())
    for words in (
        "p-value ≤ 0.005 (199 simulations)",
        "above its threshold",
        "at distance 0.1 (predicted)",
        "6,000; one of 8 answers",
        "private coins",
        "ε = 1 at δ = 1e-6",
        "replacement: one person's datum",
        "treated as public: it was taken from the data",
        "the list has no others",
        "independent draws; the guarantee does not",
        "randomized here on behalf of the devices",
    ):
        assert words in flat
    quiet = run("test even.csv", BASE, "--categories a,b,c,d,e,f,g,h").stdout
    assert "No departure from uniform was seen" in quiet
    assert "would have been noticed with probability 1.00" in " ".join(quiet.split())
    assert "treated as public" not in quiet


@pytest.mark.usefixtures("desk")
def test_a_list_decides_what_uniform_means(run):
    """Nobody gave i, j, k or l: uniform among the answers found, not among those listed."""
    listed = "--categories a,b,c,d,e,f,g,h,i,j,k,l"
    assert run("test even.csv", BASE, "--json").json()["rejected"] is False
    found = run("test even.csv", BASE, listed, "--json").json()
    assert found["rejected"] is True
    assert found["answers"] == 12
    assert not any("public" in note for note in found["notes"])


@pytest.mark.usefixtures("desk")
def test_a_reference_of_probabilities_or_counts(run):
    found = run("test skewed.csv", BASE, "--against skewed_law.csv --json").json()
    assert found["kind"] == "identity"
    assert found["rejected"] is False
    counted = run("test skewed.csv", BASE, "--against counts.csv --json").json()
    assert counted["p_value"] == found["p_value"]
    assert counted["statistic"] == pytest.approx(found["statistic"], rel=1e-6)
    (said,) = [note for note in counted["notes"] if "counts" in note and "sum" in note]
    assert "36" in said
    assert run("test even.csv", BASE, "--against counts.csv --json").json()["rejected"] is True


def test_a_reference_is_read_as_it_stands(tmp_path):
    path = tmp_path / "law.csv"
    path.write_text('\ufeffanswer,p\n" a, b",0.25\n\nc,0.75\n', encoding="utf-8")
    found = testing.read_reference(path)
    assert found.labels == (" a, b", "c")
    assert found.probabilities == (0.25, 0.75)
    assert found.notes == ()


@pytest.mark.usefixtures("desk")
def test_two_groups(run):
    apart = run("test both.csv", BASE, "--by of --json").json()
    assert apart["kind"] == "closeness"
    assert apart["rejected"] is True
    assert apart["groups"] == [{"name": "of = e", "n": 6000}, {"name": "of = s", "n": 6000}]
    files = run("test even.csv --with skewed.csv", BASE, "--json").json()
    assert files["rejected"] is True
    assert [group["name"] for group in files["groups"]] == ["even.csv", "skewed.csv"]
    alike = run("test even.csv", BASE, "--by group --json").json()
    assert alike["rejected"] is False
    assert alike["sizes"] == [3000, 3000]
    assert alike["guarantee"]["n"] == 3000
    assert any("which group is treated as public" in note for note in alike["notes"])
    for two in (apart, files, alike):
        assert any("which group" in text for text in two["guarantee"]["assumptions"])
    assert not any("uniform" in note for note in alike["notes"])
    assert "No difference between the two groups was seen" in alike["words"]
    assert "each row is one person" in " ".join(alike["guarantee"]["assumptions"])
    assert any("nobody is in both tables" in text for text in files["guarantee"]["assumptions"])


@pytest.mark.usefixtures("desk")
def test_people_in_both_groups_pay_for_two_reports(run):
    words = "test few_old.csv --with few_new.csv --overlap --delta 0.01 --randomizer grr"
    both = run(words, BASE, "--distance 0.4 --json").json()
    found = both["guarantee"]
    assert found["rounds"] == 2
    assert 0.9 < found["epsilon"] <= 1
    assert any("in one table twice" in text for text in found["assumptions"])
    assert not any("in both tables" in text for text in found["assumptions"])
    assert any("two answers of one person" in note for note in both["notes"])
    assert both["design"]["question"]["overlapping"] is True


@pytest.mark.usefixtures("desk")
def test_standard_input_is_tested_like_its_file(run):
    words = ["test", "-", *BASE.split(), "--json"]
    piped = command_kit.shoal(*words, answer=Path("even.csv").read_bytes()).json()
    assert piped["groups"] == [{"name": "standard input", "n": PEOPLE}]
    plain = run("test even.csv", BASE, "--json").json()
    assert (piped["guarantee"], piped["answers"]) == (plain["guarantee"], plain["answers"])
    beside = command_kit.shoal(*words, "--with", "-", answer=b"").refusal()
    assert "is one table: give a file for the other one" in beside


@pytest.mark.parametrize("column", ["many", "measured"])
def test_advice_on_a_list_that_is_not_public_is_of_this_command(run, tmp_path, column):
    many = np.arange(600) % 300
    table = tmp_path / "many.csv"
    pl.DataFrame({"many": many, "measured": 0.5 + many % 20}).write_csv(table)
    refusal = run(f"test {table}", f"--column {column} --distance 0.1 --epsilon 1").refusal()
    assert "--categories FILE gives a list" in refusal
    assert "--public-list takes it anyway" in refusal
    assert "--bins" not in refusal
    assert "--open" not in refusal


@pytest.mark.usefixtures("desk")
def test_a_file_is_not_compared_with_itself_under_another_name(run, tmp_path):
    (tmp_path / "soft.csv").symlink_to(Path("even.csv").resolve())
    (tmp_path / "hard.csv").hardlink_to(Path("even.csv").resolve())
    for other in ("even.csv", "./even.csv", f"{tmp_path}/soft.csv", f"{tmp_path}/hard.csv"):
        assert (
            "everybody would be in both groups"
            in run("test even.csv", BASE, f"--with {other}").refusal()
        )


@pytest.mark.usefixtures("desk")
def test_a_small_level_brings_its_simulations(run):
    less = "test even.csv --column c --distance 0.1 --epsilon 1 --coin private --level 0.01 --json"
    assert run(less).json()["simulations"] == 9999
    told = run("test even.csv", BASE, "--level 0.003 --simulations 333 --json").json()
    assert told["simulations"] == 333


@pytest.mark.usefixtures("desk")
def test_rows_without_an_answer_are_left_out_if_asked(run):
    assert "2 of 6,000 rows" in run("test gaps.csv", BASE).refusal()
    found = run("test gaps.csv", BASE, "--drop-nulls --json").json()
    assert found["sizes"] == [PEOPLE - 2]
    assert any("left out" in note for note in found["notes"])
    assert any("left out" in text for text in found["guarantee"]["assumptions"])


@pytest.mark.usefixtures("desk")
def test_coins_and_devices_can_be_chosen(run):
    words = "--coin public --partitions 2 --symbols 4 --honest-fraction 0.9 --json"
    found = run("test skewed.csv", BASE, words).json()
    assert found["coin"] == "public"
    assert found["device"]["partitions"] == 2
    assert found["device"]["symbols"] == 4
    assert found["guarantee"]["n"] == 5400
    assert found["rejected"] is True
    said = run("test skewed.csv", BASE, "--coin public --partitions 2 --symbols 4").stdout
    assert "partitioned with 2 partitions of 4 symbols" in said
    other = run("test skewed.csv", BASE, "--randomizer hadamard --json").json()
    assert other["device"]["name"] == "hadamard"
    several = run("test skewed.csv", BASE, "--randomizer dummies --messages-cap 3").stdout
    assert re.search(r"dummies, 1\.\d+ messages each", several)


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize(
    ("tested", "question"),
    [(testing.run, "c"), (testing.compare, Choice("c").by("group"))],
    ids=["run", "compare"],
)
def test_what_is_drawn_is_what_decided(tested, question):
    options = {"distance": 0.1, "epsilon": 1.0, "way": Way("private")}
    seen = []
    test = tested(
        "even.csv",
        question,
        **options,
        simulations=Simulations(99),
        progress=lambda *done: seen.append(done),
    )
    verdict = test.verdict
    assert verdict.null.size == 99
    assert ranks.threshold(verdict.null, level=0.05) == verdict.threshold
    above = np.count_nonzero(verdict.null >= verdict.statistic)
    assert verdict.p_value == (1 + above) / 100
    assert seen[-1] == (PEOPLE, PEOPLE)
    again = tested("even.csv", question, **options, simulations=Simulations(99, seed=test.seed))
    assert np.array_equal(again.verdict.null, verdict.null)


def test_python_takes_frames_and_mappings():
    answers = pl.DataFrame({"c": ["a", "b", "b", "b"] * 500})
    options = {"distance": 0.2, "epsilon": 1.0, "simulations": Simulations(seed=1)}
    law = {"a": 0.25, "b": 0.75}
    assert not testing.run(answers, "c", **options, reference=law).verdict.rejected
    test = testing.run(answers, Choice("c", ["a", "b"]), **options)
    assert test.verdict.rejected
    assert str(test) in str(test.document())
    assert "Test of uniformity" in test._repr_html_()
    alike = testing.compare(answers, "c", answers, **options)
    assert alike.names == ("data", "second")


def test_python_is_refused_two_things_to_compare_with():
    answers = pl.DataFrame({"c": ["a", "b"] * 500, "group": ["x"] * 500 + ["y"] * 500})
    options, grouped = {"distance": 0.2, "epsilon": 1.0}, Choice("c").by("group")
    with pytest.raises(InvalidArgumentError, match="either a second table or groups"):
        testing.compare(answers, grouped, answers, **options)
    with pytest.raises(InvalidArgumentError, match="a second table, or groups"):
        testing.compare(answers, "c", **options)
    with pytest.raises(InvalidArgumentError, match="compare tests whether two of them"):
        testing.run(answers, grouped, **options, reference={"a": 0.5, "b": 0.5})


@pytest.mark.parametrize(
    ("question", "says"),
    [
        (Number("c", 0, 1), "a Choice, or the name of a column"),
        (Choice("c", 2), "a list of answers"),
        (Choice("c", ["a", "b"], other=True), "no other"),
        (Choice("c", choose="grr"), "no choice of a mechanism"),
    ],
)
def test_python_is_refused_what_is_no_hypothesis(question, says):
    answers = pl.DataFrame({"c": ["a", "b"] * 500})
    with pytest.raises(InvalidArgumentError, match=says):
        testing.run(answers, question, distance=0.2, epsilon=1.0)


def test_the_groups_of_a_list_are_in_its_order():
    answers = pl.DataFrame({"c": ["a", "b"] * 500, "group": ["x"] * 400 + ["y"] * 600})
    options = {"distance": 0.2, "epsilon": 1.0, "simulations": Simulations(99, seed=1)}
    listed = testing.compare(answers, Choice("c").by("group", ["y", "x"]), **options)
    assert listed.names == ("group = y", "group = x")
    assert listed.verdict.sizes == (600, 400)
    for groups in (["y", "z"], Find()):
        with pytest.raises(InvalidArgumentError, match="no list, or that of the groups"):
            testing.compare(answers, Choice("c").by("group", groups), **options)


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize(
    "words",
    [f"skewed.csv {BASE}", "--power --categories 8 --distance 0.2 --epsilon 1 --n 300,900"],
)
def test_plots_are_pictures(run, tmp_path, words):
    less = "--trials 20 --simulations 99 --coin private" if "--power" in words else ""
    path = tmp_path / "made.png"
    assert f"wrote {path}" in run("test", words, less, f"--plot {path}").stdout.replace("\n", "")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_p_value_below_what_simulations_show_is_a_bound():
    device = RandomizedResponse(k=4, epsilon=2.0)
    tester = testing.Tester(device, testing.Hypothesis(k=4, distance=0.2), n=1000)

    def shown(answers, simulations=None):
        verdict = tester.decide(device.tally(answers), Simulations(simulations, seed=1))
        return dict(verdict.document().facts)["p-value"]

    assert shown(np.zeros(1000, dtype=int)) == "≤ 0.0005 (1,999 simulations)"
    assert shown(np.arange(1000) % 4, simulations=99) == "1 (99 simulations)"


# -------------------------------------------------------------------------------------- the power


@pytest.fixture(scope="module")
def power():
    return "test --power --categories 16 --distance 0.15 --epsilon 1 --trials 100 --simulations 199"


def test_power_by_model(run, power):
    found = run(power, "--n 100,300,5e3 --messages-cap 50 --json").json()
    by = {(point["model"], point["n"]): point for point in found["points"]}
    models = ("non-private", "central", "several", "public", "private")
    assert {model for model, _ in by} == set(models)
    for model in models:
        few, some, many = (by[model, n] for n in (100, 300, 5_000))
        assert few["power"] < 0.8, "a hundred people cannot tell"
        assert many["power"] > 0.9
        assert few["limits"][0] <= few["power"] <= few["limits"][1]
        assert 0 < some["limits"][1] - some["limits"][0] < 0.2
    assert by["non-private", 300]["power"] > by["private", 300]["power"] + 0.2
    assert by["central", 300]["power"] > by["private", 300]["power"] + 0.2
    assert by["public", 300]["device"]["name"] == "partitioned"
    assert by["private", 300]["device"]["name"] in {"grr", "hadamard"}
    assert by["several", 300]["device"]["name"].endswith("dummies")
    assert by["central", 300]["device"] is None
    rate = rates.shuffle_private(k=16, distance=0.15, epsilon=1, delta=1e-6)
    assert found["published_rates_at_constant_1"]["private"] == pytest.approx(rate)
    assert 100 < found["people_for_power_0.95"]["private"] < 10_000


def test_power_without_numbers_of_people_goes_around_enough(run, power):
    said = run(power, "--coin private --trials 30").stdout
    assert max(map(len, said.splitlines())) <= 80
    needed = int(re.search(r"for 0\.95 +([\d,]+)", said)[1].replace(",", ""))
    rows = re.findall(r"^ +([\d,]+) +\d\.\d\d ±", said, re.MULTILINE)
    tried = [int(n.replace(",", "")) for n in rows]
    assert tried == sorted(tried)
    assert tried[0] < needed / 8
    assert needed < tried[-1] < 2 * needed
    assert "public" not in said.splitlines()[3]
    for words in (
        "no privacy",
        "curator",
        "rate: published, constant 1",
        "fraction of 30 simulated",
    ):
        assert words in said


@pytest.mark.usefixtures("desk")
def test_power_of_a_reference(run):
    words = "test --power --against counts.csv --distance 0.15 --epsilon 1 --trials 40 --n 50,3000"
    found = run(words, "--simulations 199 --coin private --json").json()
    assert found["k"] == 8
    assert any("sum" in note for note in found["notes"])
    last = {point["model"]: point["power"] for point in found["points"][-3:]}
    assert set(last) == {"non-private", "central", "private"}
    assert min(last.values()) > 0.8


@pytest.mark.usefixtures("desk")
def test_power_of_one_certain_answer(run):
    """Whatever else is answered is a departure, and is noticed by all models."""
    words = "test --power --against sure.csv --distance 0.3 --epsilon 2 --trials 40 --n 30,1000"
    points = run(words, "--simulations 199 --json").json()["points"]
    assert min(point["power"] for point in points[-4:]) > 0.8


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("shares", [[1 / 2] * 2, [1 / 3] * 3, [1 / 4] * 4, [0.5, 0.3, 0.2]])
def test_the_curators_noise_covers_one_answer(shares, n):
    """The largest change by any replacement, over all data sets."""
    q = np.array(shares)

    def away(answers):
        return np.abs(np.bincount(answers, minlength=q.size) / n - q).sum() / 2

    worst = max(
        abs(away(answers) - away((other, *answers[1:])))
        for answers in itertools.product(range(q.size), repeat=n)
        for other in range(q.size)
    )
    assert worst <= sensitivity(q, n) * (1 + 1e-12)


def test_every_model_keeps_its_level():
    """Next to no distance: what is noticed is a false alarm. 0.05 ± five standard deviations."""
    study = Study(
        testing.Hypothesis(k=16, distance=1e-8),
        epsilon=1.0,
        delta=1e-6,
        limits=Limits(messages=50.0),
        trials=2000,
        simulations=Simulations(1999),
    )
    for model in study.models:
        assert 0.02 < study.measured(model, 500).power < 0.085, model


@pytest.mark.parametrize(
    ("hypothesis", "terms", "says"),
    [
        ({"closeness": True}, {}, "a hypothesis about one batch"),
        ({}, {"way": Way(randomizer="grr")}, "each model has the best of its own"),
        ({}, {"trials": 5}, "10 <= trials"),
        ({}, {"simulations": Simulations(9)}, "at least 19 simulations"),
        ({"level": 0.97}, {}, "level = 0.97 < power < 1"),
    ],
)
def test_a_study_that_makes_no_sense_is_refused(hypothesis, terms, says):
    tested = testing.Hypothesis(k=4, distance=0.2, **hypothesis)
    with pytest.raises(InvalidArgumentError, match=says):
        Study(tested, epsilon=1.0, **terms).run()


# ----------------------------------------------------------------------------------- the refusals


@pytest.mark.usefixtures("desk")
def test_a_distance_too_close_for_so_few_names_the_people_needed(run):
    said = run("test even.csv --column c --distance 0.005 --epsilon 0.05").refusal()
    needed = int(re.search(r"about ([\d,]+) people are needed", said)[1].replace(",", ""))
    assert "6,000 people" in said
    assert 10 * PEOPLE < needed < 10**4 * PEOPLE
