"""What is refused is refused in one line with exit code 2; what is a bug is not hidden.

Most of it is a table, ``refusals.txt``: words, what lies on the desk, and what the answer says.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cli.desks import DESKS
from repository import environment, project
from shoal.cli import amplify
from shoal.mechanisms import registry

FOUR = "amplify --local-epsilon 4 --n 1e5"
MODULES = ("audited_module", "broken_module", "leaving_module")


def refusals():
    """Every line of the table: the desk, the words, and what is said."""
    desk, more = "", {}
    for line in Path(__file__).with_name("refusals.txt").read_text().splitlines():
        words, refused, said = line.partition(" => ")
        name, stands, for_words = line.partition(" = ")
        if refused and not line.startswith("#"):
            typed = " ".join(more.get(word, word) for word in words.split())
            yield pytest.param(desk, typed, said, id=words)
        elif stands and name.isupper():
            more[name] = for_words
        elif line.startswith("["):
            desk = line.strip("[]")


@pytest.fixture(scope="module")
def desks(tmp_path_factory):
    """All of them, each made once: what is refused changes nothing."""
    made = {}
    for name, make in DESKS.items():
        made[name] = tmp_path_factory.mktemp(name)
        make(made[name])
    return made


@pytest.mark.parametrize(("desk", "words", "said"), [*refusals()])
def test_what_is_refused_is_one_line_and_leaves_everything_as_it_was(
    run, desks, monkeypatch, desk, words, said
):
    place = desks[desk]
    before = {path.name: path.stat().st_mtime_ns for path in place.iterdir()}
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    if words.startswith("run "):  # what it would write
        outputs = ("--report out.html", "--csv out.csv")
        words = " ".join([words, *(each for each in outputs if each.split()[0] not in words)])
    refusal = run(words).refusal()
    assert said in " ".join(refusal.split())
    assert {path.name: path.stat().st_mtime_ns for path in place.iterdir()} == before
    for name in MODULES:
        sys.modules.pop(name, None)


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


@pytest.mark.parametrize("name", ["geometric", "gr"])
def test_an_unknown_randomizer_gets_the_list(run, name):
    said = run(FOUR, "--k 3 --randomizer", name).refusal()
    assert f"one of {', '.join(registry.names())}" in said
    assert ("did you mean grr?" in said) == (name == "gr")


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
