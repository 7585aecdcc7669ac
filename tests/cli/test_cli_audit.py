"""``shoal audit``: verdicts, exit statuses, pictures, and somebody else's code."""

from __future__ import annotations

import json
import sys

import pytest

GRR = "audit --randomizer grr --k 2 --local-epsilon 1 --n 20 --delta 1e-2 --runs 2000"
MINE = "audit --values 0,1 --local-epsilon 1 --n 5 --delta 0.05 --runs 1000"
MODULE = """
import random
import sys
import numpy as np

coins = random.Random(1)

def leave(value):
    sys.exit(1)

class Odd(BaseException):
    pass

def odd(value):
    raise Odd("very odd")

def secret(value):
    return coins.randbytes(8)

def keep(value):
    return value if coins.random() < 0.7 else 1 - value

def blab(value):
    print("hello")
    return value if coins.random() < 0.9 else 1 - value

def all_at_once(values):
    return [blab(int(value)) for value in values]

def fail(value):
    return {}[value]

class Device:
    def randomize(self, values):
        return np.array([keep(value) for value in values])

device = Device()
number = 7
"""


@pytest.fixture
def desk(tmp_path, monkeypatch):
    (tmp_path / "audited_module.py").write_text(MODULE)
    (tmp_path / "broken_module.py").write_text("1 / 0\n")
    (tmp_path / "leaving_module.py").write_text("raise SystemExit(1)\n")
    (tmp_path / "table.csv").write_text("0.7,0.3\n0.3,0.7\n")
    program = tmp_path / "device"
    program.write_text(
        f"#!{sys.executable}\nimport random, sys\nrandom.seed(2)\n"
        "for line in sys.stdin: print(int(line) ^ (random.random() < 0.3))\n"
    )
    program.chmod(0o755)
    wrong = tmp_path / "wrong"
    wrong.write_text(f"#!{sys.executable}\nraise SystemExit('out of order')\n")
    wrong.chmod(0o755)
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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("audit", "--randomizer is missing: what to audit"),
        ("audit --command ' --n 5 --values 0,1 --epsilon 1", "no closing quotation"),
        ("audit --randomizer grr --k 2 --n 1e9", "n <= 1,000,000"),
        ("audit --randomizer grr --k 2 --n 5 --runs 1e14", "runs <= 100,000,000"),
        (
            "audit --randomizer grr --k 3 --callable audited_module:keep --values 0,7 --n 5",
            "0 to 2, as declared, got --values 7",
        ),
        (
            "audit --randomizer grr --k 3 --callable audited_module:keep --values 0,-1 --n 5",
            "0 to 2, as declared, got --values -1",
        ),
        ("audit --callable audited_module:Device --n 5 --values 0,1 --epsilon 1", "is a class"),
        ("audit --pipeline audited_module:Device --n 5 --values 0,1 --epsilon 1", "is a class"),
        (
            "audit --randomizer near-central-sum --bounds 1,3 --n 60 --epsilon 2",
            "expected low = 0 for whole numbers",
        ),
        (
            "audit --randomizer near-central-sum --bounds 0,2.5 --n 60 --epsilon 2",
            "a whole number high",
        ),
        ("audit --randomizer grr --k 2", "--n is missing"),
        ("audit --randomizer gr --k 2 --n 5", "did you mean grr"),
        ("audit --randomizer grr --n 5", "number of possible answers"),
        ("audit --k 2 --n 5 --command x", "--k needs --randomizer"),
        ("audit --randomizer grr --table table.csv --n 5", "leave out --randomizer"),
        ("audit --table nothing.csv --n 5", "cannot read nothing.csv"),
        (
            "audit --callable a:b --pipeline a:b --n 5",
            "--callable names the code that runs: leave out --pipeline",
        ),
        (
            "audit --callable a:b --n 5 --epsilon 1",
            "--callable needs --values or --randomizer or --table",
        ),
        (
            "audit --callable a:b --n 5 --values 0,1",
            "--callable needs --epsilon or --local-epsilon",
        ),
        ("audit --callable audited_module --n 5 --values 0,1 --epsilon 1", "MODULE:NAME"),
        ("audit --callable audited_module:no --n 5 --values 0,1 --epsilon 1", "no function 'no'"),
        ("audit --callable audited_module:number --n 5 --values 0,1 --epsilon 1", "no function"),
        ("audit --callable a:b --n 5 --values 0 --epsilon 1", "two or more different values"),
        (
            "audit --randomizer grr --k 2 --n 5 --values 0,1",
            "--values needs --callable or --pipeline or --command",
        ),
        ("audit --randomizer grr --k 2 --n 5 --vectorized", "--vectorized needs --callable"),
        ("audit --randomizer grr --k 2 --n 5 --timeout 3", "--timeout needs --command"),
        ("audit --randomizer grr --k 2 --n 5 --runs 10", "runs"),
        ("audit --randomizer grr --k 2 --n 5 --delta 1", "delta"),
        ("audit --randomizer grr --k 2 --n 5 --confidence 1", "confidence"),
        ("audit --randomizer grr --k 2 --n 5 --seed -1", "seed"),
        ("audit --randomizer grr --k 2 --n 5 --plot x.pdf", "--plot to be a .svg or .png"),
        ("audit --randomizer grr --k 2 --n 5 --plot no/x.png", "there is no directory"),
        ("audit --randomizer dummies --k 2 --n 5", "needs --epsilon"),
        ("audit --randomizer dummies --n 5 --epsilon 1", "needs --k"),
        ("audit --randomizer coins --k 2 --n 50 --epsilon 1", "takes no --k"),
        ("audit --randomizer dummies --k 2 --bounds 0,1 --n 5 --epsilon 1", "--bounds"),
        ("audit --randomizer dummies --k 2 --local-epsilon 1 --n 5 --epsilon 1", "no ε0"),
        ("audit --command x --n 5 --values 0,1 --epsilon 1 --timeout 0", "timeout"),
    ],
)
@pytest.mark.usefixtures("desk")
def test_refusals(run, words, said):
    assert said in run(words).refusal()


def test_a_violation_has_a_status_of_its_own(run):
    finished = run(GRR, "--epsilon 0.001 --seed 1 --runs 2e4")
    assert (finished.status, finished.stderr) == (1, "")
