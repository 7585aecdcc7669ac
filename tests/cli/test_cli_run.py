"""``shoal run``: a file in, a chart out; files are written after success or not at all."""

from __future__ import annotations

import csv
import gzip
import json
import re
import sys

import polars as pl
import pytest

import command_kit
import shoal
from cli import desks
from cli.desks import ROWS
from shoal.cli import render
from shoal.errors import RefusedError
from shoal.explain.text import Item
from shoal.results.charts import Axis


@pytest.fixture(autouse=True)
def desk(tmp_path, monkeypatch):
    """A directory with one table in three formats."""
    desks.answers(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def before(desk):
    return {path.name: path.read_bytes() for path in desk.iterdir()}


COLOR = "run answers.csv --column color"
AGES = "run answers.csv --column age --epsilon 1"
SEVERAL = "run answers.csv --questions questions.json"


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
def test_every_format_gives_the_shares(run, suffix):
    found = run(f"run answers.{suffix} --column color --epsilon 1 --json").json()
    assert found["guarantee"]["epsilon"] <= 1 + 1e-9
    assert found["guarantee"]["delta"] == 1e-6
    shares = {row["value"]: row for row in found["estimates"]}
    assert set(shares) == {"red", "green", "blue"}
    # Six standard errors: a false alarm has a chance below 1e-8.
    reach = {name: 6 * (row["high"] - row["low"]) / 3.92 for name, row in shares.items()}
    for name, share in (("red", 0.5), ("green", 0.3), ("blue", 0.2)):
        assert abs(shares[name]["frequency"] - share) < reach[name] < 0.2
    assert any("treated as public" in note for note in found["notes"])


def test_the_same_table_by_every_way_has_the_same_guarantee(run, desk):
    frame = pl.read_csv("answers.csv")
    frame.write_ndjson("answers.jsonl")
    frame.write_csv("answers.txt", separator="\t")
    (desk / "answers.csv.gz").write_bytes(gzip.compress((desk / "answers.csv").read_bytes()))
    (desk / "parts").mkdir()
    frame[:100].write_parquet("parts/1.parquet")
    frame[100:].write_parquet("parts/2.parquet")
    # Reports are true, but with a chance of 1e-8, so that results can be compared.
    how = "--column color --randomizer grr --local-epsilon 28 --json"
    expected = run("run answers.parquet", how).json()
    for places in (
        *("answers.csv", "answers.csv.gz", "answers.jsonl", "answers.txt --format tsv", "parts"),
        *("parts/1.parquet parts/2.parquet", "parts/*.parquet"),
    ):
        result = run(f"run {places}", how).json()
        assert result["guarantee"] == expected["guarantee"]
        assert result["estimates"] == expected["estimates"]
    for name in ("answers.csv", "answers.csv.gz", "answers.parquet", "answers.arrow"):
        data = (desk / name).read_bytes()
        piped = command_kit.shoal("run", "-", *how.split(), answer=data).json()
        assert piped["estimates"] == expected["estimates"]
    lines = (desk / "answers.jsonl").read_bytes()
    piped = command_kit.shoal("run", "-", "--format", "jsonl", *how.split(), answer=lines).json()
    assert piped["estimates"] == expected["estimates"]


def test_standard_input_that_ends_early_leaves_nothing(desk, before, tmp_path, monkeypatch):
    spool = tmp_path / "spool"
    spool.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spool))
    words = ["run", "-", "--column", "color", "--epsilon", "1", "--report", "out.html"]
    table, half = (desk / "answers.parquet").read_bytes(), (desk / "answers.csv").read_bytes()[:99]
    for data, line in (
        (table[:-9], "can be read as Parquet"),
        (half, "not end early"),
        (b"", "any data"),
    ):
        assert line in command_kit.shoal(*words, answer=data).refusal()
    beside = command_kit.shoal("run", "answers.csv", *words[1:], answer=table).refusal()
    assert beside == "standard input (-) cannot be read together with other files"
    assert not list(spool.iterdir())
    spool.rmdir()
    assert {path.name: path.read_bytes() for path in desk.iterdir()} == before


def test_the_terminal_shows_bars_the_guarantee_and_notes(run):
    finished = run(COLOR, "--epsilon 1 --verbose")
    said = finished.stdout
    assert finished.stderr == ""
    bars = [line.split()[0] for line in said.splitlines() if "█" in line and "±" in line]
    assert bars == ["red", "green", "blue"]
    for words in (
        "a proved upper bound",
        "no trust needed",
        "note: the list of answers",
        "δ = 1e-6",
    ):
        assert words in said


BRIEF = r"""ε = 1 at δ = 1e-6, proved, for each of 4,000 honest people
the shuffler is trusted: if it colludes, each report keeps ε0 = \d+(\.\d+)?
3 assumptions, 4 notes: --verbose prints them, --report FILE has it all
"""


def test_below_the_chart_are_three_lines(run):
    said = run(COLOR, "--epsilon 1").success()
    legend = next(line for line in said.splitlines() if "its 95 % interval" in line)
    chart, below = said.split(f"{legend}\n\n")
    assert chart.count("█") > 10
    assert re.fullmatch(BRIEF, below)
    assert max(map(len, said.splitlines())) <= 80
    for words in ("note:", "theorem", "│"):
        assert words not in said


KINDS = {
    "choices": "--column color --choices red,green,blue --at-most 2",
    "a scale": "--column age --scale 1,5",
    "a number": "--column age --bounds 0,100",
    "numbers by group": "--column age --bounds 0,100 --by color",
    "bins": "--column age --bounds 0,100 --bins 4 --quantiles 0.5",
    "a vector": "--columns age,hours --norm 100",
    "answers by group": "--column color --by place",
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_box_and_notes_of_any_question_are_for_who_asks(run, desk, kind):
    table = pl.DataFrame(
        {
            "color": ["red", "green", "blue", "red"] * 500,
            "place": ["n", "s"] * 1000,
            "age": [1, 20, 30, 77] * 500,
            "hours": [3, 4, 5, 6] * 500,
        }
    )
    table.write_csv(desk / "rows.csv")
    words = f"run rows.csv {KINDS[kind]} --epsilon 2"
    brief, verbose = run(words).success(), run(f"{words} --verbose").success()
    *chart, bound, trust, more = brief.splitlines()
    assert chart
    assert re.fullmatch(
        r"ε = [\d.]+ at δ = [\de.-]+, proved, for each of 2,000 honest people", bound
    )
    assert trust.startswith("the shuffler is trusted: if it colludes, ")
    assert re.fullmatch(r"\d+ assumptions?, \d+ notes?: --verbose prints them, .*", more)
    for said in ("│", "note:", "assum", "trust", "theorem"):
        assert said not in "\n".join(chart)
    assert "│" in verbose
    assert "a proved upper bound" in verbose
    assert verbose.count("note: ") == int(more.split(", ")[1].split()[0])
    assert more not in verbose


def test_the_three_lines_are_of_all_reports_of_a_person_and_of_what_is_left_without_trust(run):
    choices = "run answers.csv --column color --choices red,green,blue --epsilon 1"
    assert "if it colludes, one person's 3 reports keep ε0 = " in run(choices).success()
    several = run(COLOR, "--epsilon 1 --messages-cap 2").success()
    assert "if it colludes, each report may give the datum away\n" in several


def test_warnings_are_always_printed(run):
    run(f"plan --epsilon 0.5 --n {2 * ROWS} --categories 3 --save plan.json").success()
    weaker = run(COLOR, "--plan plan.json --allow-weaker").success()
    assert "warning: weaker than the plan" in weaker
    text = "run answers.csv --column color --bins 5 --bounds 0,9 --epsilon 1"
    for words in (text, f"{text} --verbose"):
        assert "warning: at least 9" in run(words).success()


def test_help_fits_on_two_screens(run_process):
    shown = run_process("run --help", COLUMNS="100").success()
    assert len(shown.splitlines()) <= 100
    assert shown.index("--column ") < shown.index("--questions") < shown.index("--epsilon ")


def test_numbers_have_a_mean_between_their_bounds(run):
    words = "run answers.csv --column age --bounds 0,100 --randomizer rounded --local-epsilon 3"
    found = run(words, "--json").json()
    (row,) = found["estimates"]
    assert row["low"] < row["mean"] < row["high"]
    assert abs(row["mean"] - 40) < 6 * (row["high"] - row["low"]) / 3.92 < 20
    said = run(words).stdout
    assert "mean " in said
    assert "├" in said


def test_numbers_in_bins_have_quantiles_and_ranges(run, desk):
    words = f"{AGES} --bounds 0,100 --bins 20 --quantiles 0.25,0.5 --ranges 20..40"
    result = run(words, "--report out.html --csv out.csv")
    assert "median 4" in result.stdout
    assert "20 to below 40:" in result.stdout
    assert result.stdout.index("[20, 25)") < result.stdout.index("[60, 65)")
    assert "<polyline" in (desk / "out.html").read_text()
    (column,) = run(words, "--json").json()["columns"]
    assert [each["quantile"] for each in column["quantiles"]] == [0.25, 0.5]
    assert column["ranges"][0]["from"] == 20
    with (desk / "out.csv").open() as file:
        assert [row["from"] for row in csv.DictReader(file)][:3] == ["0.0", "5.0", "10.0"]


@pytest.mark.parametrize("name", ["grr", "hadamard", "subset", "unary", "hashing", "projective"])
def test_a_randomizer_by_name(run, name):
    words = f"--randomizer {name} --local-epsilon 2 --categories red,green,blue"
    found = run(COLOR, words, "--json").json()
    assert found["randomizer"]["name"] == name
    assert found["randomizer"]["local_epsilon"] <= 2
    # The list is public: what is not in it, and no answer, are answers too.
    assert [row["value"] for row in found["estimates"]][3:] == ["(none)", "(other)"]
    assert not any("list of answers is treated" in note for note in found["notes"])


def test_a_randomizer_of_numbers_by_name(run):
    words = "run answers.csv --column age --randomizer laplace --local-epsilon 2 --bounds 0,100"
    assert run(words, "--json").json()["randomizer"]["name"] == "laplace"
    refused = run("run answers.csv --column age --randomizer laplace --local-epsilon 2").refusal()
    assert "a --randomizer of answers, one of grr, " in refused
    assert "--bounds are for numbers" in refused


@pytest.mark.parametrize("words", ["--messages-cap 2", "--choose sparse", "--choose zero-sum"])
def test_several_messages_by_plan_or_by_name(run, words):
    found = run(COLOR, "--epsilon 1 --categories red,green,blue --json", words).json()
    assert found["guarantee"]["epsilon"] <= 1 + 1e-6
    assert found["guarantee"]["local_epsilon"] is None
    assert found["randomizer"]["name"] == (
        words.split()[-1] if "choose" in words else "near-central-lean"
    )
    assert found["randomizer"]["messages"] > 1
    shares = {row["value"]: row["frequency"] for row in found["estimates"]}
    for name, share in (("red", 0.5), ("green", 0.3), ("blue", 0.2)):
        assert abs(shares[name] - share) < 60 / ROWS  # noise of 6.5 people, or of 43 left out


def test_the_terminal_says_what_messages_are_worth_without_trust(run):
    said = run(COLOR, "--epsilon 1 --messages-cap 2 --verbose").stdout
    assert "nothing: each report may give the datum away" in " ".join(said.split())


@pytest.fixture
def words(desk):
    """Common words and rare ones, all different from each other."""
    texts = [word for place, word in enumerate(["ab", "cde", "fghi"]) for _ in range(9000 >> place)]
    texts += [f"w{place:03x}" for place in range(2000)]
    pl.DataFrame({"word": texts}).write_csv(desk / "words.csv")


OPEN = "run words.csv --column word --open --epsilon 2 --length 4"


@pytest.mark.parametrize("more", ["", "--messages-cap 1", "--alphabet abcdefghiw0123456789"])
def test_open_answers_are_found_without_a_list(run, words, more):  # noqa: ARG001 - the file
    found = run(OPEN, more, "--json").json()
    assert found["guarantee"]["epsilon"] <= 2 + 1e-6
    shares = {row["value"]: row for row in found["estimates"]}
    assert list(shares)[:2] == ["ab", "cde"]
    assert abs(shares["ab"]["count"] - 9000) < 2000
    assert not any(value.startswith("w") for value in shares)
    assert found["thresholds"][-1]["count"] > 0


def test_open_answers_are_shown_and_written(run, words, desk):  # noqa: ARG001 - the file
    written = "--report out.html --csv out.csv"
    said = run(OPEN, "--top 2 --compare-truth --verbose", written).stdout
    text = " ".join(said.split())
    for part in (
        "every answer of at least",
        "0 of the answers above their threshold were missed",
        "NOT PRIVATE",
        "wrote out.html",
    ):
        assert part in text
    assert "ab" in (desk / "out.html").read_text()
    rows = list(csv.DictReader((desk / "out.csv").read_text().splitlines()))
    assert [row["value"] for row in rows] == ["ab", "cde"]
    assert int(rows[0]["truth"]) == 9000


def test_a_saved_plan_is_run(run):
    assert run(f"plan --epsilon 0.5 --n {ROWS} --categories 3 --save plan.json").status == 0
    found = run(COLOR, "--plan plan.json --json").json()
    planned = shoal.Plan.load("plan.json")
    assert found["randomizer"]["name"] == planned.recommended.name
    assert found["guarantee"]["epsilon"] == pytest.approx(planned.guarantee.epsilon)


def test_a_planned_scale_keeps_its_mean_whether_or_not_its_groups_are_named_again(run, desk):
    frame = pl.DataFrame({"mood": [1, 2, 3, 4, 5] * 400, "area": ["n", "s"] * 1000})
    frame.write_csv(desk / "moods.csv")
    asked = "--scale 1,5 --by area --groups n,s"
    assert run(f"plan {asked} --n 2000 --epsilon 1 --save moods.json").status == 0
    for by in ("--by area", "--by area --groups n,s"):
        found = run(f"run moods.csv --column mood {by} --plan moods.json --json").json()
        means = {row["group"] for row in found["estimates"] if row["group_mean"] is not None}
        assert means == {"n", "s"}


def test_what_becomes_of_rows_without_a_number(run, desk):
    (desk / "some.csv").write_text("x\n" + '4\n""\n6\n' * 1000)
    some = "run some.csv --column x --bounds 0,10 --epsilon 1"
    assert "--missing cell counts them, too" in run(some).refusal()
    (row,) = run(f"{some} --missing cell --json").json()["estimates"]
    assert row["count_low"] < 2000 < row["count_high"]
    assert run(f"{some} --missing drop --json").json()["guarantee"]["n"] == 2000
    assert "leave out --drop-nulls" in run(f"{some} --missing cell --drop-nulls").refusal()


def test_what_is_wrong_with_a_question_of_a_file_is_said_with_its_name_and_the_file(run, desk):
    (desk / "some.csv").write_text("x,y\n4,5\n,6\n")
    bounds = {"kind": "number", "low": 0, "high": 10}
    questions = [bounds | {"name": name} for name in ("y", "x")]
    (desk / "two.json").write_text(json.dumps(questions))
    refusal = run("run some.csv --questions two.json --epsilon 1").refusal()
    assert "in question x (in two.json), got column='x'" in refusal


def test_categories_from_a_file(run):
    found = run(COLOR, "--epsilon 1 --categories colors.txt --drop-nulls --json").json()
    assert [row["value"] for row in found["estimates"]] == ["red", "green", "blue", "(other)"]


def test_a_long_list_is_insisted_on(run, desk):
    frame = pl.DataFrame({"code": [i % 250 for i in range(4000)], "c": ["a", "b"] * 2000})
    frame.write_csv(desk / "codes.csv")
    for words in ("run codes.csv --epsilon 1", "test codes.csv --epsilon 1 --distance 0.5"):
        refused = run(words, "--column code --json").refusal()
        assert "--public-list takes it anyway" in refused
        assert run(words, "--column code --public-list --json").status == 0
        assert run(words, "--column c --json").status == 0


def test_answers_are_read_as_they_are_written(run, desk):
    (desk / "spaced.txt").write_bytes(b" red\r\n\ngreen \nblue")
    found = run(COLOR, "--epsilon 1 --categories spaced.txt --json").json()
    assert [row["value"] for row in found["estimates"]][:3] == [" red", "green ", "blue"]
    words = [*COLOR.split(), "--epsilon", "1", "--categories", "red, green ,blue", "--json"]
    shown = command_kit.shoal(*words).json()["estimates"]
    assert [row["value"] for row in shown[:3]] == ["red", "green", "blue"]


def test_a_plan_for_more_people_is_refused_or_warned_about(run):
    run("plan --epsilon 0.5 --n 1e5 --categories 3 --save plan.json")
    assert "--allow-weaker" in run(COLOR, "--plan plan.json").refusal()
    said = run(COLOR, "--plan plan.json --allow-weaker").stdout
    assert "warning: weaker than the plan" in said


def test_the_local_epsilon_is_capped(run):
    found = run(COLOR, "--epsilon 1 --local-epsilon-cap 1.5 --json").json()
    assert found["guarantee"]["local_epsilon"] <= 1.5


@pytest.fixture
def asking(desk):
    """Writes a file of questions."""
    return lambda *asked: (desk / "questions.json").write_text(json.dumps(asked))


def choice(name, **more):
    return {"kind": "choice", "name": name, **more}


def test_several_columns_are_several_reports_of_a_person(run, asking):
    asking(choice("color"), choice("shape"))
    verbose = run(SEVERAL, "--epsilon 1 --verbose").stdout
    said = " ".join(verbose.replace("│", " ").split())
    assert "for one person's 2 reports together" in said
    assert "by one column alone" in said
    assert "gap" not in said


def test_several_columns_share_the_budget(run, asking):
    asking(choice("color"), choice("shape"))
    divided = run(SEVERAL, "--epsilon 1 --each --json").json()
    assert [column["column"] for column in divided["columns"]] == ["color", "shape"]
    assert divided["guarantee"]["epsilon"] <= 1 + 1e-9
    local = divided["columns"][0]["randomizer"]["local_epsilon"]
    assert divided["guarantee"]["local_epsilon"] == pytest.approx(2 * local)
    composed = run(SEVERAL, "--randomizer grr --local-epsilon 2 --json").json()
    one = composed["columns"][0]["guarantee"]["epsilon"]
    assert one < composed["guarantee"]["epsilon"] < 2 * one
    asking(choice("color", weight=2), choice("shape", weight=1))
    weighted = run(SEVERAL, "--epsilon 1 --json").json()
    assert 0.99 <= weighted["guarantee"]["epsilon"] <= 1
    color, shape = (column["guarantee"]["epsilon"] for column in weighted["columns"])
    assert color == pytest.approx(2 * shape, rel=1e-3)
    refused = run(SEVERAL, "--randomizer grr --local-epsilon 2").refusal()
    assert "no weight" in refused
    assert "with a mechanism or a plan" in refused
    for weight, said in ((0, "weight > 0"), ("2", "a number as weight")):
        asking(choice("shape"), choice("color", weight=weight))
        refused = run(SEVERAL, "--epsilon 1").refusal()
        assert said in refused
        assert "in question 2 of questions.json" in refused
    asking(choice("color"), choice("size"))
    assert "one of the columns color, shape" in run(SEVERAL, "--epsilon 1").refusal()


def test_a_column_of_numbers_beside_one_of_answers(run, monkeypatch, asking):
    seen = []

    def refuse(_data, asked, **_):
        seen.extend(asked)
        raise RefusedError("seen")

    monkeypatch.setattr(shoal.pipeline, "run", refuse)
    age = {"kind": "number", "name": "age", "low": 0, "high": 100}
    asking(choice("color", labels=["red", "green"]), age)
    assert run(SEVERAL, "--epsilon 1").refusal() == "seen"
    assert seen == [shoal.Choice("color", ["red", "green"]), shoal.Number("age", 0, 100)]


def test_report_and_table_are_written(run, desk):
    finished = run(COLOR, "--epsilon 1 --report out.html --csv out.csv")
    assert finished.stdout.splitlines()[-2:] == ["wrote out.html", "wrote out.csv"]
    page = (desk / "out.html").read_text(encoding="utf-8")
    statement = page.partition('id="privacy-statement">')[2].partition("</script>")[0]
    assert json.loads(statement)["guarantee"]["epsilon"] <= 1 + 1e-9
    assert "not private" not in page
    with (desk / "out.csv").open() as lines:
        assert [row["value"] for row in csv.DictReader(lines)] == ["blue", "green", "red"]


def test_true_values_are_announced_everywhere(run, desk):
    finished = run(COLOR, "--epsilon 1 --compare-truth --report out.html")
    assert finished.stdout.startswith("CONTAINS TRUE VALUES: NOT PRIVATE")
    assert "◆" in finished.stdout
    assert "Contains true values: not private" in (desk / "out.html").read_text(encoding="utf-8")
    found = run(COLOR, "--epsilon 1 --compare-truth --json").json()
    assert found["contains_truth"] is True


def test_half_of_the_people_being_honest_costs(run):
    words = "--randomizer grr --local-epsilon 2 --json"
    full = run(COLOR, words).json()["guarantee"]
    half = run(COLOR, words, "--honest-fraction 0.5").json()["guarantee"]
    assert half["epsilon"] > full["epsilon"]
    assert half["n"] == ROWS // 2


def test_spark_is_an_extra(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    refused = run(COLOR, "--epsilon 1 --engine spark").refusal()
    assert "pip install 'pyspark[connect]>=4.0'" in refused
    assert "--master needs --engine spark" in run(COLOR, "--epsilon 1 --master local").refusal()
    gone = run("run gone --column color --epsilon 1 --engine spark").refusal()
    assert gone.startswith("expected an existing file or directory, ")
    assert gone.endswith("got FILE gone")


def test_an_output_that_fails_takes_the_others_with_it(run, desk, before, monkeypatch):
    def fails(_result, path):
        path.write_text("half of it")
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("shoal.results.result.Result.to_csv", fails)
    refused = run(COLOR, "--epsilon 1 --report out.html --csv out.csv").refusal()
    assert refused == "cannot write to out.csv: No space left on device"
    assert {path.name: path.read_bytes() for path in desk.iterdir()} == before


@pytest.mark.parametrize(
    ("low", "high", "drawn"),
    [(4, 6, "████▒▒"), (-2, 2, "▒▒"), (-3, -1, ""), (9, 14, "█████████▒"), (5, 5.01, "█████▒")],
)
def test_bars_are_solid_to_the_lower_limit_and_shaded_to_the_upper(low, high, drawn):
    row = Item("x", (low + high) / 2, low, high, 0, significant=True, truth=None)
    assert render.bar(row, Axis(0.0, 10.0), width=10) == drawn


def test_labels_cannot_command_the_terminal(run, desk):
    answers = ["\x1b[31mred", "green"] * 500
    pl.DataFrame({"color": answers}).write_csv(desk / "answers.csv")
    said = run(COLOR, "--epsilon 1").stdout
    assert "\x1b" not in said
    assert "[31mred" in said


def test_the_only_answer_of_a_column_is_not_told(run, desk):
    pl.DataFrame({"color": ["secret"] * 500}).write_csv(desk / "answers.csv")
    said = run(COLOR, "--epsilon 1").refusal()
    assert "secret" not in said
    assert "same one" in said


def test_two_outputs_are_not_one_file(run, desk):
    for name in ("page.html", "table.csv"):
        (desk / name).symlink_to(desk / "one")
    refusal = run(COLOR, "--epsilon 1 --report page.html --csv table.csv").refusal()
    assert "the same file" in refusal
    assert not (desk / "one").exists()


def test_an_ending_in_capitals_is_an_ending(run, desk):
    run(COLOR, "--epsilon 1 --report out.HTM --csv out.CSV").success()
    assert (desk / "out.HTM").read_text(encoding="utf-8").startswith("<!")


def test_a_link_keeps_pointing_where_it_does(run, desk):
    (desk / "real.csv").write_text("old")
    (desk / "link.csv").symlink_to(desk / "real.csv")
    run(COLOR, "--epsilon 1 --csv link.csv")
    assert (desk / "link.csv").is_symlink()
    assert "fraction" in (desk / "real.csv").read_text()
