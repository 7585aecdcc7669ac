"""Narrow terminals, and such without Greek letters: everything stays readable, nothing is cut."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from command_kit import Finished
from repository import environment
from shoal.accounting import catalog
from shoal.explain.document import Document, Row, Table

ASCII = {"PYTHONIOENCODING": "ascii", "LANG": "C", "LC_ALL": "C", "TERM": "dumb"}
HELP = ["--help", "help amplify", "keys --help", "amplify --help"]
GUARANTEE = "amplify --local-epsilon 4 --n 1e5"
REFUSED = "run nowhere.csv --column é --epsilon x"
COMMANDS = [
    GUARANTEE,
    f"{GUARANTEE} --all",
    "plan --epsilon 1 --n 1e5 --categories 10",
    "run data.csv --column color --epsilon 1",
    "run data.csv --columns x,y --norm 2 --epsilon 1",
    "walk graph.txt --rounds 3",
    "test data.csv --column color --distance 0.2 --epsilon 1 --seed 1 --simulations 99",
    "sgd --n 1000 --noise 4",
]
FRAMES = set("│─╭╮╰╯█▒◆●━┊├┤")

# What the terminal has is looked at once, when the command is loaded: a process per terminal.
RUN_ALL = """
import json, sys
from typer.testing import CliRunner
from shoal.cli import app

runner = CliRunner(charset=sys.stdout.encoding)
finished = {words: runner.invoke(app, words.split()) for words in json.loads(sys.argv[1])}
shown = {words: (each.exit_code, each.stdout, each.stderr) for words, each in finished.items()}
print(json.dumps(shown))
"""


@pytest.fixture(scope="module")
def terminal(tmp_path_factory):
    """Run these commands in one process on such a terminal."""
    desk = tmp_path_factory.mktemp("desk")
    rows = (
        f"{('red', 'green', 'blüe')[row % 3]},{row % 97},{row % 2},{row % 5 / 5}"
        for row in range(2000)
    )
    (desk / "data.csv").write_text("\n".join(["color,age,x,y", *rows]), encoding="utf-8")
    edges = (f"{node} {(node + step) % 60}" for node in range(60) for step in (1, 2, 3, 5))
    (desk / "graph.txt").write_text("\n".join(edges), encoding="utf-8")

    def run_all(commands, variables):
        done = subprocess.run(
            [sys.executable, "-c", RUN_ALL, json.dumps(commands)],
            cwd=desk,
            env=environment() | variables,
            capture_output=True,
            check=True,
        )
        return {words: Finished(*each) for words, each in json.loads(done.stdout).items()}

    return run_all


@pytest.fixture(scope="module")
def poor(terminal):
    """On a narrow terminal without letters."""
    return terminal([*HELP, *COMMANDS, REFUSED], {"COLUMNS": "40"} | ASCII)


@pytest.mark.parametrize("words", HELP + COMMANDS)
def test_a_narrow_terminal_without_letters_is_good_enough(poor, words):
    shown = poor[words].success()
    assert shown.isascii()
    assert "?" not in shown
    if words in COMMANDS:
        assert not re.search(r"\d\.\.\.", shown)  # a number that is cut
        assert max(map(len, shown.splitlines())) <= 40


@pytest.mark.parametrize("narrow", [True, False])
def test_narrow_or_without_letters(terminal, narrow):
    answers = terminal(["amplify --help", GUARANTEE], {"COLUMNS": "40"} if narrow else ASCII)
    for each in answers.values():
        shown = each.success()
        if narrow:
            assert not FRAMES & set(shown)
            assert "ε" in shown
        else:
            assert shown.isascii()
            assert "?" not in shown


def test_numbers_are_whole_wherever_they_stand(poor):
    shown = poor[f"{GUARANTEE} --all"].success()
    for bound in catalog.ENTRIES:
        assert f"bound: {bound}" in shown
    assert "eps: 0.11816" in shown
    assert "Renyi bound" in shown


def test_refusals_are_readable_too(poor):
    assert poor[REFUSED].refusal().isascii()


def test_a_table_without_room_is_shown_row_by_row(monkeypatch, capsys):
    from shoal.cli.render import show

    monkeypatch.setenv("COLUMNS", "24")
    rows = (Row(("first", "1,234.5", "some words")), Row(("second", "6,789.0", "")))
    table = Table(("name", "a number", ""), rows, frozenset({1}), title="Title")
    show(Document("", table=table))
    assert capsys.readouterr().out.splitlines() == [
        *("Title", "", "name: first", "  a number: 1,234.5", "  some words"),
        *("", "name: second", "  a number: 6,789.0", ""),
    ]


def test_a_table_may_have_empty_columns(capsys):
    from shoal.cli.render import show

    show(Document("", table=Table(("name", ""), (Row(("only", "")),))))
    assert "only" in capsys.readouterr().out
