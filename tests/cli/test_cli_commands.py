"""The command as people start it: help, version, figures, the demo, real processes."""

from __future__ import annotations

import json
import re

import pytest

import shoal
from repository import run_python
from shoal.figures import NAMES

HEAVY = {"numpy", "scipy", "dp_accounting", "matplotlib", "polars"}


def test_help_shows_the_commands_and_examples(run):
    said = run("--help").stdout
    for words in (
        "plan",
        "run",
        "amplify",
        "figures",
        "demo",
        "shoal amplify --local-epsilon 4 --n 1e5",
    ):
        assert words in said
    assert run("").stdout == said


def test_help_loads_nothing_heavy():
    code = "import json, sys, shoal.cli; print(json.dumps(sorted(sys.modules)))"
    loaded = {name.partition(".")[0] for name in json.loads(run_python(code))}
    assert not loaded & HEAVY


def test_version(run):
    assert run("--version").stdout == f"shoal {shoal.__version__}\n"


def test_a_real_process_answers(run_process):
    found = run_process("amplify --local-epsilon 4 --n 1e5 --json").json()
    assert found["epsilon"] == pytest.approx(0.118154, rel=1e-4)


def test_a_real_process_refuses(run_process):
    said = run_process("amplify --local-epsilon 4 --n 0").refusal()
    assert said == "expected a whole number --n with 1 <= --n <= 1e15, got --n 0"


def test_figures_hands_over_to_the_figures(run, monkeypatch, tmp_path):
    asked = []

    def draw_all(out, *, only=None, progress=None):
        asked.append((out, only))
        progress("some-figure")
        return [out / "some-figure.svg"]

    monkeypatch.setattr("shoal.figures.draw_all", draw_all)
    finished = run(f"figures --out {tmp_path} --only some-figure")
    assert asked == [(tmp_path, "some-figure")]
    assert finished.stdout == f"{tmp_path / 'some-figure.svg'}\n"
    assert finished.stderr == ""


def test_figures_are_listed_without_drawing_them(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    listed = run("figures --list").stdout
    assert all(name in listed for name in NAMES)
    assert "leave out --out" in run("figures --list --out here").refusal()
    assert list(tmp_path.iterdir()) == []


def test_the_demo_goes_from_the_question_to_the_report(run, tmp_path):
    finished = run(f"demo --out {tmp_path / 'new'}")
    assert finished.status == 0
    assert finished.stderr == ""
    said = finished.stdout
    device = shoal.RandomizedResponse(k=24, epsilon=4)
    epsilon = shoal.amplify(device, n=200_000, delta=1e-6).epsilon
    assert f"ε = {epsilon:.5f}"[:-1] in said
    assert "a factor of 1.071" in " ".join(said.split())
    chart = [line for line in said.splitlines() if "█" in line and "±" in line]
    assert len(chart) > 15
    shares = [float(line.split("%")[0].split()[-1]) for line in chart]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(100, abs=3)
    inside = re.search(r"(\d+) of 24 intervals", said)
    assert int(inside[1]) >= 18  # 24 true intervals of 95 %: fewer has a chance below 1e-4
    last = said.splitlines()[-1]
    written = tmp_path / "new" / "shoal-report.html"
    assert last.strip() == str(written)
    assert [path.name for path in written.parent.iterdir()] == [written.name]
    page = written.read_text(encoding="utf-8")
    assert "colds and flu" in page
    assert "not private" not in page
