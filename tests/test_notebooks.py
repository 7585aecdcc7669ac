"""The notebooks of the documentation are clean, run from top to bottom, and check themselves."""

from __future__ import annotations

import json
import os
import re

import matplotlib as mpl
import polars as pl
import pytest
from matplotlib import pyplot as plt

import notebooks
from repository import ROOT

FOLDER = ROOT / "docs" / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
LINK = re.compile(r"\]\((?P<target>[^)#\s]+)")
FORMAT = {"metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5}
OF_CELLS = {"code": {"execution_count": None, "outputs": []}, "markdown": {}}


def test_there_are_seven():
    assert len(NAMES) == 7
    gallery = (FOLDER / "index.md").read_text(encoding="utf-8")
    for name in NAMES:
        assert f"]({name}.ipynb)" in gallery
        assert f":img-top: pictures/{name}.png" in gallery
        assert (FOLDER / "pictures" / f"{name}.png").is_file()


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_committed_without_what_a_run_leaves(name):
    text = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    content = json.loads(text)
    assert text == json.dumps(content, ensure_ascii=False, indent=1) + "\n"
    listed = content.pop("cells")
    assert content == FORMAT
    for cell in listed:
        kind, metadata = cell.pop("cell_type"), cell.pop("metadata")
        del cell["source"]
        assert re.fullmatch(r"[a-z][a-z-]*", cell.pop("id"))
        assert cell == OF_CELLS[kind]
        assert set(metadata) <= {"tags", "mystnb"}
    cells = notebooks.cells(FOLDER / f"{name}.ipynb")
    assert len({cell.name for cell in cells}) == len(cells)
    assert sum(notebooks.PICTURE in cell.metadata.get("tags", ()) for cell in cells) == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_says_why_and_what_to_take_along(name):
    cells = notebooks.cells(FOLDER / f"{name}.ipynb")
    assert re.match(r"# \S.*\n\n\S", cells[0].source)
    assert cells[-1].source.startswith("## What to take along\n")
    links = [
        target
        for cell in cells
        if cell.kind == "markdown"
        for target in LINK.findall(cell.source)
        if "://" not in target
    ]
    assert len(links) >= 3
    assert [target for target in links if not (FOLDER / target).is_file()] == []


@pytest.fixture
def _as_in_a_kernel(tmp_path, monkeypatch):
    """A directory, settings and a mask of modes of its own, as a notebook's process has them."""
    backend, mask = mpl.get_backend(), os.umask(0o022)
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("Agg")
    try:
        with mpl.rc_context(), pl.Config():
            yield
    finally:
        plt.close("all")
        plt.switch_backend(backend)
        os.umask(mask)


@pytest.mark.usefixtures("_as_in_a_kernel")
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_and_its_checks_hold(name, tmp_path):
    shown = list(notebooks.executed(FOLDER / f"{name}.ipynb"))
    checks = sum(len(re.findall(r"^ *assert ", each.cell.source, re.MULTILINE)) for each in shown)
    assert checks >= 4
    assert sum(bool(each.html) for each in shown) >= 2, "tables"
    drawn = [each for each in shown if each.figures]
    assert len(drawn) >= 2, "figures"
    assert any(notebooks.PICTURE in each.cell.metadata.get("tags", ()) for each in drawn)
    for each in drawn:
        assert each.cell.alt, f"words in place of the figure of {each.cell.name}"
        for figure in each.figures:
            assert mpl.colors.to_hex(figure.get_facecolor(), keep_alpha=True) == "#ffffffff"
            assert all(axes.get_xlabel() for axes in figure.axes), each.cell.name
    assert list(tmp_path.iterdir()) == [], "a notebook leaves nothing behind"
