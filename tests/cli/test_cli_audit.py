"""``shoal audit``: verdicts, exit statuses, pictures, and somebody else's code."""

from __future__ import annotations

import json
import sys

import pytest

from cli import desks

GRR = "audit --randomizer grr --k 2 --local-epsilon 1 --n 20 --delta 1e-2 --runs 2000"
MINE = "audit --values 0,1 --local-epsilon 1 --n 5 --delta 0.05 --runs 1000"


@pytest.fixture
def desk(tmp_path, monkeypatch):
    desks.audited(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in ("audited_module", "broken_module", "leaving_module"):
        sys.modules.pop(name, None)


def test_a_consistent_randomizer(run):
    finished = run(GRR)
    assert finished.status == 0
    assert finished.stdout.startswith("consistent: nothing refutes what is claimed")
    assert "one message by itself" in finished.stdout
    assert "2,000 runs on each data set" in finished.stdout


def test_json(run):
    found = run(GRR, "--json --seed 3").json()
    assert found["verdict"] == "consistent"
    assert 0.8 < found["local_lower"] < found["claimed_local"] <= 1
    assert found["lower"] < found["claimed"] < 1
    assert found["evidence"]["likelier_on"] in {"first", "second"}
    assert run(GRR, "--json --seed 3").json() == found


def test_a_violation_is_exit_status_one(run):
    finished = run(GRR, "--epsilon 0.001 --seed 1 --runs 2e4")
    assert finished.status == 1
    assert finished.stdout.startswith("violated: more is lost than is claimed")
    finished = run(GRR, "--epsilon 0.001 --seed 1 --runs 2e4 --json")
    assert finished.status == 1
    assert json.loads(finished.stdout)["verdict"] == "violated"
    assert finished.stderr == ""


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_a_picture(run, desk, suffix):
    said = run(GRR, f"--plot worlds.{suffix}").stdout
    assert said.endswith(f"wrote worlds.{suffix}\n")
    assert (desk / f"worlds.{suffix}").stat().st_size > 5_000


def test_few_runs_say_so(run):
    said = run("audit --randomizer grr --k 50 --local-epsilon 0.1 --n 30 --runs 1000").stdout
    assert "too few runs to say anything" in " ".join(said.split())


@pytest.mark.usefixtures("desk")
def test_a_table(run):
    assert run("audit --table table.csv --n 5 --delta 0.05 --runs 2000 --seed 1").status == 0
    claimed = "--local-epsilon 0.5"
    assert run("audit --table table.csv --n 5 --delta 0.05 --runs 2000", claimed).status == 1


@pytest.mark.parametrize(
    "words",
    [
        "dummies --k 3",
        "coins",
        "split-and-mix --bounds 0,2",
        "split-and-mix-vectors --k 2",
        "near-central-sum --bounds 0,3",
        "near-central-robust --k 3",
    ],
)
def test_several_messages(run, words):
    crowd = "--n 60 --epsilon 2 --delta 0.05 --runs 1000 --seed 2 --json"
    found = run("audit --randomizer", words, crowd).json()
    assert found["verdict"] == "consistent"
    assert found["claimed"] == 2
    assert found["local_lower"] is None


@pytest.mark.parametrize("words", ["laplace", "laplace --bounds -1,1", "privunitg --k 3"])
def test_numbers_and_vectors(run, words):
    found = run("audit --randomizer", words, "--n 5 --delta 0.05 --runs 1000 --seed 1 --json")
    assert found.json()["claimed_local"] == pytest.approx(1)


def test_gaussian_noise_of_a_deviation(run):
    words = "audit --randomizer gaussian --sigma 0.5 --n 2 --runs 1000 --seed 1 --json"
    assert run(words).status == 0
    assert run(f"{words} --epsilon 0.01").status == 1
    refused = run("audit --randomizer grr --k 3 --sigma 1 --n 10")
    assert refused.status == 2
    assert "no --sigma for grr" in " ".join(refused.stderr.split())


@pytest.mark.usefixtures("desk")
def test_a_callable(run):
    finished = run(MINE, "--callable audited_module:keep --json")
    assert json.loads(finished.stdout)["verdict"] == "consistent"
    assert finished.status == 0


@pytest.mark.usefixtures("desk")
def test_what_it_prints_is_not_in_the_answer(run):
    finished = run(MINE, "--callable audited_module:blab --json")
    assert finished.status == 1
    assert json.loads(finished.stdout)["name"] == "audited_module:blab"
    assert "hello" in finished.stderr


@pytest.mark.usefixtures("desk")
def test_a_callable_for_arrays_and_an_object(run):
    assert run(MINE, "--callable audited_module:all_at_once --vectorized").status == 1
    assert run(MINE, "--callable audited_module:device").status == 0


@pytest.mark.usefixtures("desk")
def test_a_pipeline_against_a_declared_randomizer(run):
    words = "--randomizer grr --k 2 --n 30 --delta 0.01 --runs 1000"
    finished = run("audit --pipeline audited_module:all_at_once", words)
    assert finished.status == 1
    assert "place 1" in finished.stdout


@pytest.mark.usefixtures("desk")
def test_a_program(run):
    assert run(MINE, "--command ./device").status == 0


@pytest.mark.usefixtures("desk")
def test_code_that_fails(run):
    said = run(MINE, "--callable audited_module:fail").refusal()
    assert said.startswith("audited_module:fail failed: KeyError: 0 (")
    assert said.endswith("; nothing was concluded")
    said = run(MINE, "--command ./wrong").refusal()
    assert said == "./wrong failed: exit status 1: out of order; nothing was concluded"
    said = run(MINE, "--callable broken_module:f").refusal()
    assert said.startswith("import broken_module failed: ZeroDivisionError")
    said = run(MINE, "--callable no_such_module:f").refusal()
    assert said.startswith("import no_such_module failed: ModuleNotFoundError")


@pytest.mark.usefixtures("desk")
def test_code_that_leaves_gives_no_verdict(run):
    said = run(MINE, "--callable audited_module:leave").refusal()
    assert said.startswith("audited_module:leave failed: SystemExit: 1 (")
    said = run(MINE, "--callable leaving_module:f").refusal()
    assert said.startswith("import leaving_module failed: SystemExit: 1 (")


@pytest.mark.usefixtures("desk")
def test_what_nobody_expected_is_not_a_verdict(run, monkeypatch):
    finished = run(MINE, "--callable audited_module:odd")
    assert finished.status == 70
    assert finished.stdout == ""
    assert "Odd: very odd" in finished.stderr
    assert finished.stderr.endswith("failed unexpectedly; nothing was concluded\n")
    for error, status in ((RuntimeError("bug"), 70), (SystemExit(1), 70), (BrokenPipeError(), 70)):

        def fail(*_words, error=error, **_named):
            raise error

        monkeypatch.setattr("shoal.audit", fail)
        finished = run(GRR)
        assert finished.status == status
        assert ("Traceback" in finished.stderr) == (not isinstance(error, BrokenPipeError))


def test_interrupting_is_not_a_verdict(run, monkeypatch):
    def interrupted(*_words, **_named):
        raise KeyboardInterrupt

    monkeypatch.setattr("shoal.audit", interrupted)
    assert run(GRR).status == 130


@pytest.mark.usefixtures("desk")
def test_unreadable_messages_are_told_of(run):
    said = " ".join(run(MINE, "--callable audited_module:secret").stdout.split())
    assert "of the messages never repeat" in said
    assert "more runs" not in said


def test_the_inputs_tried_are_told(run):
    few = "audit --randomizer grr --k 70 --n 5 --delta 0.05 --runs 1000 --seed 1"
    found = run(few, "--json").json()
    assert len(found["inputs"]) == 5
    assert found["screened"] == 64
    listed = ", ".join(map(str, found["inputs"]))
    assert f"inputs tried: {listed} (of 64 screened)" in run(few).stdout
    assert "inputs tried: 0, 1\n" in run(GRR).stdout
