"""What is refused is refused in one line with exit code 2; what is a bug is not hidden."""

from __future__ import annotations

import subprocess
import sys

import pytest

from repository import environment, project
from shoal.cli import amplify
from shoal.mechanisms import registry

FOUR = "amplify --local-epsilon 4 --n 1e5"
TABLES = {
    "short.csv": "0.5,0.5\n0.4,0.5\n",
    "strong.csv": "0.9,0.1\n0.1,0.9\n",
    "words.csv": "yes,no\n0.1,0.9\n",
    "ragged.csv": "0.5,0.5\n1\n",
    "negative.csv": "1.5,-0.5\n0.5,0.5\n",
    "one_row.csv": "0.5,0.5\n",
    "empty.csv": "\n# nothing\n",
    "empty.npy": "",
    "text.npy": "0.5,0.5\n0.5,0.5\n",
    "table.txt": "0.5,0.5\n0.5,0.5\n",
}


@pytest.fixture
def desk(tmp_path, monkeypatch):
    for name, text in TABLES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "latin.csv").write_bytes(b"0.5,0.5\n0.5,\xe9\n")
    (tmp_path / "directory.csv").mkdir()
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "n",
    ["0", "-5", "1.5", "1e5.5", "abc", "nan", "inf", "1e16", "1e400", "1e-400", "1e99999999999"],
)
@pytest.mark.parametrize("option", ["--n", "--rounds", "--k", "--honest-n"])
def test_counts(run, option, n):
    rest = {
        "--n": "--local-epsilon 4",
        "--rounds": "--local-epsilon 4 --n 10",
        "--k": "--local-epsilon 4 --n 10 --randomizer grr",
        "--honest-n": "--local-epsilon 4 --n 10",
    }[option]
    said = run("amplify", rest, option, n).refusal()
    assert "expected" in said
    assert option.removeprefix("--").replace("-", "_") in said.replace("-", "_")


@pytest.mark.parametrize("delta", ["0", "1", "2", "-1e-6", "nan", "inf", "abc", ""])
def test_delta(run, delta):
    assert "delta" in run("amplify --local-epsilon 4 --n 100 --delta", delta).refusal()


@pytest.mark.parametrize("local_epsilon", ["-1", "nan", "inf", "abc", "1e9"])
@pytest.mark.parametrize("rest", ["", "--all", "--randomizer grr --k 3", "--bound fmt21-closed"])
def test_local_epsilon(run, local_epsilon, rest):
    said = run("amplify --n 100", rest, "--local-epsilon", local_epsilon).refusal()
    assert "epsilon" in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--honest-fraction 0", "0 < --honest-fraction <= 1"),
        ("--honest-fraction 1.5", "0 < --honest-fraction <= 1"),
        ("--honest-fraction 1e-9", "at least one honest person"),
        ("--honest-n 2e5", "--honest-n <= n"),
        ("--participation 0", "0 < --participation <= 1"),
        ("--local-delta 1", "0 <= --local-delta < 1"),
        ("--local-delta 1e-3", "cannot reach delta=1e-06"),
        ("--epsilon -1", "epsilon >= 0"),
    ],
)
def test_values_out_of_range(run, options, words):
    assert words in run(FOUR, options).refusal()


def test_more_precision_than_there_is(run):
    said = run(FOUR, "--rounds 100 --delta 1e-30").refusal()
    assert "1e-30 is below" in said
    assert "Rényi" in said


def test_out_of_regime_says_condition_values_and_alternative(run):
    said = run("amplify --local-epsilon 9 --n 100 --bound fmt21-closed").refusal()
    assert said.startswith("fmt21-closed needs local_epsilon <= log(n / (16 log(2/delta)))")
    assert "given local_epsilon=9, n=100, delta=1e-06" in said
    assert said.endswith("use optimal-clones instead")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--bound csuzz19", "csuzz19 needs binary randomized response (k = 2), given"),
        ("--bound csuzz19 --k 3", "csuzz19 needs binary randomized response (k = 2), given"),
        ("--bound blog-small", "blog-small needs local_epsilon <= 1"),
        ("--bound efmrtt19", "efmrtt19 needs local_epsilon <= 1/2"),
        ("--bound krr-closed", "krr-closed needs k-ary randomized response (give k)"),
        ("--bound fmt21-closed --rounds 2", "no --rounds with bound fmt21-closed"),
        ("--bound fmt21-closed --epsilon 0.3", "fmt21-closed answers with --epsilon"),
    ],
)
def test_bounds_that_do_not_apply(run, options, words):
    assert words in run(FOUR, options).refusal()


def test_an_unknown_bound_gets_a_suggestion(run):
    said = run(FOUR, "--bound fmt21-close").refusal()
    assert "did you mean fmt21-closed?" in said
    assert "optimal-clones" in said


@pytest.mark.parametrize("name", ["geometric", "gr"])
def test_an_unknown_randomizer_gets_the_list(run, name):
    said = run(FOUR, "--k 3 --randomizer", name).refusal()
    assert f"one of {', '.join(registry.names())}" in said
    assert ("did you mean grr?" in said) == (name == "gr")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("short.csv", "every row of the table to sum to 1, got sum of row 1"),
        ("strong.csv --local-epsilon 2", "within the claimed local_epsilon=2, got table["),
        ("words.csv", "'yes' on line 1 is not a number"),
        ("ragged.csv", "line 2 has 1 entries, the first row has 2"),
        ("negative.csv", "probabilities >= 0, got table[0, 1]"),
        ("one_row.csv", "at least 2 inputs"),
        ("empty.csv", "it has no numbers"),
        ("empty.npy", "cannot read empty.npy"),
        ("text.npy", "cannot read text.npy"),
        ("table.txt", "a .csv or .npy file, got table.txt"),
        ("latin.csv", "cannot read latin.csv"),
        ("directory.csv", "cannot read directory.csv"),
        ("missing.csv", "cannot read missing.csv: No such file"),
    ],
)
@pytest.mark.usefixtures("desk")
def test_tables(run, options, words):
    assert words in run("amplify --n 100 --table", options).refusal()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("", "--local-epsilon is missing"),
        ("--n 100", "--local-epsilon is missing"),
        ("--local-epsilon 4", "--n is missing"),
        ("--solve n --epsilon 1", "--local-epsilon is missing"),
        ("--solve local-epsilon --epsilon 1", "--n is missing"),
        (f"{FOUR} --epsilon 1 --delta 1e-6", "not both"),
        (f"{FOUR} --all --rounds 3", "leave out --rounds"),
        (f"{FOUR} --all --bound clones", "leave out --bound"),
        (f"{FOUR} --all --epsilon 1", "leave out --epsilon"),
        (f"{FOUR} --all --participation 0.5", "leave out --participation"),
        (f"{FOUR} --bound bkmtt20 --rounds 3 --epsilon 1", "leave out --epsilon and --rounds"),
        (f"{FOUR} --k 3", "--k needs --randomizer or --bound"),
        (
            f"{FOUR} --randomizer grr",
            "possible answers, which grr needs, got nothing",
        ),
        (f"{FOUR} --randomizer grr --k 3 --local-delta 1e-9", "leave out --local-delta"),
        (f"{FOUR} --table t.csv --bound clones", "leave out --bound"),
        (f"{FOUR} --table t.csv --randomizer grr --k 2", "leave out --randomizer and --k"),
        (f"{FOUR} --deletion-epsilon 1", "leave out --local-epsilon"),
        (f"{FOUR} --honest-n 10 --honest-fraction 0.5", "leave out --honest-fraction"),
        (f"{FOUR} --composition renyi", "--composition needs --rounds"),
        (f"{FOUR} --rounds 2 --composition renyi --epsilon 1", "give --delta instead"),
        (f"{FOUR} --solve n --epsilon 1", "leave out --n"),
        (f"{FOUR} --solve local-epsilon --epsilon 1", "leave out --local-epsilon"),
        ("--solve n --local-epsilon 4", "--solve needs --epsilon"),
        ("--solve n --local-epsilon 4 --epsilon 1 --bound clones", "leave out --bound"),
        ("--solve n --local-epsilon 4 --epsilon 1 --honest-fraction 0", "--honest-fraction"),
        ("--solve n --local-epsilon 4 --epsilon 1 --honest-fraction 2", "--honest-fraction"),
        ("--solve n --local-epsilon 30 --epsilon 1e-3", "not even"),
        (f"{FOUR} surplus", "surplus"),
        (f"{FOUR} --nn 3", "--nn"),
        (f"{FOUR} --json --rounds", "--rounds"),
    ],
)
def test_combinations_that_make_no_sense(run, options, words):
    assert (
        words in run(options if options.startswith("amplify") else f"amplify {options}").refusal()
    )


def test_an_unknown_command(run):
    assert "No such command 'amplfy'. Did you mean 'amplify'?" in run("amplfy").refusal()


@pytest.mark.usefixtures("desk")
def test_figures_and_demo_refuse_what_they_cannot_do(run):
    assert "expected one of epsilon-vs-n" in run("figures --out new --only nonsense").refusal()
    assert "cannot write to table.txt" in run("figures --out table.txt").refusal()
    assert "cannot write to" in run("demo --out table.txt/below").refusal()


def test_a_bug_is_not_hidden(run, monkeypatch):
    def broken(_):
        raise ZeroDivisionError

    monkeypatch.setattr(amplify, "_devices", broken)
    with pytest.raises(ZeroDivisionError):
        run(FOUR)


@pytest.mark.parametrize("loaded", ["typer", "shoal.cli.walk", "shoal.service.keyring"])
def test_ctrl_c_exits_quietly_from_the_beginning(tmp_path, loaded):
    """While modules are loaded, before any command and in the middle of one."""
    code = f"""
import os, signal, sys

class Interrupting:
    def find_spec(self, name, *_):
        if name == {loaded!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv[1:] = ["keys", "show", "nowhere"]
from shoal.command import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_ctrl_c_exits_quietly_while_the_command_is_put_together(tmp_path):
    code = (
        "import os, signal, typer.main; from shoal.command import main; "
        "typer.main.get_command = lambda _: os.kill(os.getpid(), signal.SIGINT); main()"
    )
    ours = [sys.executable, "-c", code]
    done = subprocess.run(ours, cwd=tmp_path, env=environment(), capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_the_command_begins_where_ctrl_c_is_looked_after():
    assert project()["scripts"] == {"shoal": "shoal.command:main"}


def test_ctrl_c_exits_quietly(run, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(amplify, "_devices", interrupted)
    finished = run(FOUR)
    assert (finished.status, finished.stdout, finished.stderr) == (130, "", "")


MISNAMED = [
    ("run missing.csv --column color --epsilon 1 --report out.pdf", "--report", ".html or .htm"),
    ("run missing.csv --column color --epsilon 1 --csv out.parquet", "--csv", ".csv"),
    ("run missing.csv --open --column color --epsilon 1 --report out.pdf", "--report", ".html"),
    ("collect . --report out.pdf", "--report", ".html or .htm"),
    ("collect . --csv out.txt", "--csv", ".csv"),
    ("plan --epsilon 1 --n 1e4 --categories 5 --save out.yaml", "--save", ".json"),
    ("plan --epsilon 1 --n 1e4 --categories 5 --plot out.html", "--plot", ".svg or .png"),
    ("sgd --n 100 --noise 2 --plot out.pdf", "--plot", ".svg or .png"),
    ("audit --randomizer grr --k 2 --n 5 --local-epsilon 1 --plot out.pdf", "--plot", ".svg"),
    ("walk missing.txt --rounds 2 --plot out.jpg", "--plot", ".svg or .png"),
    ("test missing.csv --column a --epsilon 1 --distance 0.1 --plot out.pdf", "--plot", ".svg"),
]


@pytest.mark.parametrize(("words", "option", "endings"), MISNAMED)
def test_names_that_promise_another_kind_of_file(
    run, tmp_path, monkeypatch, words, option, endings
):
    """Before anything is read or computed: files that are missing are not even looked for."""
    monkeypatch.chdir(tmp_path)
    refusal = run(words).refusal()
    assert f"expected {option} to be a {endings}" in refusal
    assert f"got {words.split()[-1]}" in refusal
    assert not list(tmp_path.iterdir())
