"""What the package says about itself in several files agrees, and its promises are kept."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib

import pytest

import release
import shoal
from repository import PACKAGE, ROOT, project, text_files

MENU = {
    *("demo", "test", "test-slow", "lint", "bench", "figures", "clean"),
    *("browser", "docs", "screenshots", "wheel", "release"),
}

# Where packages come from is the installer's business; the brackets keep this file clean.
REGISTRY = re.compile(
    r"pypi\.or[g]|pythonhosted\.or[g]|npmjs\.(?:or[g]|co[m])|yarnpkg\.co[m]|anaconda\.or[g]"
    r"|(?:--(?:extra-)?index-ur[l]|--find-link[s]|--trusted-hos[t])\b"
)


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_version_is_the_same_everywhere():
    assert release.check_versions().startswith(f"{shoal.__version__} in ")


def test_version_is_in_the_changelog():
    headings = re.findall(r"^## \[(.+?)\](.*)$", read("CHANGELOG.md"), re.MULTILINE)
    assert headings[0] == ("Unreleased", "")
    assert all(re.fullmatch(r" - \d{4}-\d\d-\d\d", date) for _, date in headings[1:])
    assert headings[1][0] == shoal.__version__
    assert f"date-released:{headings[1][1].removeprefix(' -')}" in read("CITATION.cff").splitlines()


def test_package_is_marked_as_typed():
    assert (PACKAGE / "py.typed").is_file()


def test_licence_is_apache():
    text = read("LICENSE")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert project()["license"] == "Apache-2.0"
    assert "license: Apache-2.0" in read("CITATION.cff").splitlines()


def test_every_dependency_has_a_lower_bound_and_no_address():
    extras = project()["optional-dependencies"].values()
    wanted = [*project()["dependencies"], *(each for extra in extras for each in extra)]
    loose = [each for each in wanted if not re.fullmatch(r"[\w-]+(?:\[[\w,-]+\])?>=[\d.]+", each)]
    assert not loose


def test_make_alone_lists_every_target():
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    targets = set(re.findall(r"^([a-z][\w-]*):", read("Makefile"), re.MULTILINE)) - {"help"}
    assert targets >= MENU
    shown = subprocess.run(
        [make, "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    listed = {line.split()[1] for line in shown.splitlines()}
    assert listed - {"help"} == targets
    assert all(len(line.split()) > 2 for line in shown.splitlines())


def test_continuous_integration_runs_the_menu():
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    lines = script.read_text(encoding="utf-8").splitlines()
    assert "set -euo pipefail" in lines
    made = [line.removeprefix("make ") for line in lines if line.startswith("make ")]
    assert made == ["lint", "test", "test-spark", "docs"]


def test_scripts_of_the_pages_are_in_the_package_and_not_in_git():
    built = "src/shoal/web/assets/"
    settings = tomllib.loads(read("pyproject.toml"))["tool"]["hatch"]["build"]
    assert settings["artifacts"] == [f"{built}*.js", f"{built}*.txt"]
    assert f"/{built}" in read(".gitignore").splitlines()


def test_no_file_names_a_registry():
    found = [
        f"{path}:{number}"
        for path, text in text_files().items()
        for number, line in enumerate(text.splitlines(), start=1)
        if REGISTRY.search(line)
    ]
    assert not found


def test_nobody_is_told_to_install_from_an_index():
    """The project is on none: what has that name there, one day, is somebody else's."""
    told = [
        path.relative_to(ROOT)
        for place in ("src", "docs", "benchmarks")
        for path in (ROOT / place).rglob("*")
        if path.suffix in {".py", ".md"} and "install 'shoal[" in path.read_text(encoding="utf-8")
    ]
    assert not told
