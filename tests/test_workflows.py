"""What a fork runs is what there is: workflows and forms are read, and what they name exists."""

from __future__ import annotations

import re

import pytest
import yaml

import release
from repository import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted(
    set((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) - {GITHUB / "ISSUE_TEMPLATE/config.yml"}
)
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z][\w-]*):", MAKEFILE, re.MULTILINE))
VARIABLES = {"PYTHON", *re.findall(r"\$\(if \$\((\w+)\)", MAKEFILE)}
BUILT = {"dist/", "docs/_build/html"}  # made by the targets before them
FILE = re.compile(r"(?<![\w/.$])(?:[\w.-]+/)*[\w-]+\.(?:md|py|toml|yml|lock)\b|(?<!\w)\.ci/run\b")


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def jobs(path):
    return read(path)["jobs"].items()


def steps(path):
    return [step for _, job in jobs(path) for step in job["steps"]]


def named(path):
    return path.name


def test_there_are_three_workflows_and_three_forms():
    assert [path.stem for path in WORKFLOWS] == ["docs", "release", "tests"]
    assert [path.stem for path in FORMS] == ["bug", "question", "soundness"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=named)
def test_a_workflow_runs_targets_that_exist(path):
    commands = [step["run"] for step in steps(path) if "run" in step]
    assert commands
    for command in commands:
        first, target, *settings = command.split()
        assert first == "make"
        assert target in TARGETS
        assert {each.partition("=")[0] for each in settings} <= VARIABLES


@pytest.mark.parametrize("path", WORKFLOWS, ids=named)
def test_a_workflow_uses_actions_by_their_major_version(path):
    used = [step["uses"] for step in steps(path) if "uses" in step]
    assert not [each for each in used if not re.fullmatch(r"[\w-]+/[\w-]+@(release/)?v\d+", each)]
    assert "by their major version" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", WORKFLOWS, ids=named)
def test_a_workflow_has_no_secret_and_may_only_read(path):
    assert "secrets." not in path.read_text(encoding="utf-8")
    assert read(path)["permissions"] == {"contents": "read"}
    for name, job in jobs(path):
        assert name == "publish" or "permissions" not in job
        if name == "publish":
            assert re.search(r"\bvars\.\w+ == 'yes'$", job["if"]), "only where somebody says so"
            assert job["needs"] == "build"


@pytest.mark.parametrize("path", WORKFLOWS, ids=named)
def test_nothing_that_others_choose_is_put_into_a_command(path):
    assert not [step for step in steps(path) if "${{" in step.get("run", "")]


@pytest.mark.parametrize("path", WORKFLOWS, ids=named)
def test_what_a_workflow_keeps_is_built(path):
    kept = [step["with"]["path"] for step in steps(path) if "path" in step.get("with", {})]
    for place in (line for each in kept for line in each.splitlines()):
        (home,) = (built for built in BUILT if place.startswith(built))
        assert home.rstrip("/") in MAKEFILE


def test_every_supported_python_is_tested_and_released():
    tests, released = (
        dict(jobs(GITHUB / "workflows" / name)) for name in ("tests.yml", "release.yml")
    )
    assert tests["test"]["strategy"]["matrix"]["python"] == release.supported()
    installed = [step["with"]["python-version"] for step in released["build"]["steps"][1:2]]
    assert sorted(installed[0].split()) == release.supported()


def test_the_workflow_of_tests_runs_what_is_run_before_a_merge():
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    wanted = {line.split()[1] for line in lines if line.startswith("make ")}
    run = {
        step["run"].split()[1]
        for name in ("tests.yml", "docs.yml")
        for step in steps(GITHUB / "workflows" / name)
        if "run" in step
    }
    assert run == wanted


@pytest.mark.parametrize("path", FORMS, ids=named)
def test_a_form_can_be_filled_in(path):
    form = read(path)
    assert form["name"]
    assert form["description"]
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert all(field["attributes"]["label"] for field in fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


@pytest.mark.parametrize("path", [*GITHUB.rglob("*.yml"), *GITHUB.rglob("*.md")], ids=named)
def test_files_that_are_named_exist(path):
    found = set(FILE.findall(path.read_text(encoding="utf-8")))
    assert not {name for name in found if not (ROOT / name).exists()}


def test_citation_has_what_a_reader_of_it_needs():
    told = read(ROOT / "CITATION.cff")
    assert told["cff-version"] == "1.2.0"
    assert {"message", "title", "authors", "type", "abstract", "license"} <= told.keys()
    assert str(told["date-released"]) in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
