"""Narrow terminals, and such without Greek letters: everything stays readable, nothing is cut."""

from __future__ import annotations

import re

import pytest

from shoal.explain.document import Document, Row, Table

NARROW = {"COLUMNS": "40"}
ASCII = {"PYTHONIOENCODING": "ascii", "LANG": "C", "LC_ALL": "C", "TERM": "dumb"}
HELP = ["--help", "help amplify", "keys --help"]
COMMANDS = [
    "amplify --local-epsilon 4 --n 1e5",
    "plan --epsilon 1 --n 1e5 --categories 10",
    "run data.csv --column color --epsilon 1",
    "run data.csv --columns x,y --norm 2 --epsilon 1",
    "walk graph.txt --rounds 8",
    "test data.csv --column color --distance 0.2 --epsilon 1 --seed 1 --simulations 99",
    "sgd --n 1000 --noise 4",
]
FRAMES = set("│─╭╮╰╯█▒◆●━┊├┤")


@pytest.fixture
def desk(tmp_path):
    rows = (
        f"{('red', 'green', 'blüe')[row % 3]},{row % 97},{row % 2},{row % 5 / 5}"
        for row in range(2000)
    )
    (tmp_path / "data.csv").write_text("\n".join(["color,age,x,y", *rows]), encoding="utf-8")
    edges = (f"{node} {(node + step) % 60}" for node in range(60) for step in (1, 2, 3, 5))
    (tmp_path / "graph.txt").write_text("\n".join(edges), encoding="utf-8")


@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize("words", HELP + COMMANDS)
def test_a_narrow_terminal_without_letters_is_good_enough(run_process, words):
    shown = run_process(words, **NARROW, **ASCII).success()
    assert shown.isascii()
    assert "?" not in shown
    if words in COMMANDS:
        assert not re.search(r"\d\.\.\.", shown)  # a number that is cut
        assert max(map(len, shown.splitlines())) <= 40


@pytest.mark.parametrize("words", ["amplify --help", "amplify --local-epsilon 4 --n 1e5"])
def test_narrow_or_without_letters(run_process, words):
    narrow, ascii_ = (run_process(words, **variables).success() for variables in (NARROW, ASCII))
    assert not FRAMES & set(narrow)
    assert "ε" in narrow
    assert ascii_.isascii()
    assert "?" not in ascii_


def test_numbers_are_whole_wherever_they_stand(run_process):
    wide = run_process("amplify --local-epsilon 4 --n 1e5 --all --json").json()
    shown = run_process("amplify --local-epsilon 4 --n 1e5 --all", **NARROW, **ASCII).stdout
    for row in wide:
        assert f"bound: {row['bound']}" in shown
    assert "eps: 0.11816" in shown
    assert "Renyi bound" in shown


def test_refusals_are_readable_too(run_process):
    refused = run_process("run nowhere.csv --column é --epsilon x", **ASCII)
    assert refused.refusal().isascii()


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
