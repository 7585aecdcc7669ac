"""Terminal, page, notebook, JSON, CSV, dashboard and API say the same numbers of one result.

What JSON has is shown to the digits of its margin, and compared with what every other rendering
says: in bars, in tables and in words.
"""

from __future__ import annotations

import csv
import html
import json
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest

import shoal
from dashboard_kit import shown
from factories import example, item
from service_site import START, Analyzer, sealed_apart
from shoal.cli.render import show_result
from shoal.explain.text import measured
from shoal.mechanisms.grid import Duchi
from shoal.mechanisms.response import RandomizedResponse
from shoal.questions.kinds import Groups
from shoal.randomness import simulated
from shoal.service.survey import NONE, Batches, Open, Party
from shoal.service.survey.texts import SKIPPED

NUMBER = r"−?[\d.,]+(?: %)?"
BAR = re.compile(rf"(.*): ({NUMBER}), (?:between|95 % interval) ({NUMBER}) (?:and|to) ({NUMBER})")
MEAN = re.compile(rf"(mean) ({NUMBER}) ± {NUMBER} +\(95 % interval ({NUMBER}) to ({NUMBER})\)")
LINE = re.compile(rf"(.+?)(?:[ █▒●━┊]{{2,}})({NUMBER}) +± ({NUMBER})(?: ~)?")
INTERVAL = re.compile(rf"({NUMBER}) to ({NUMBER})")
GROUP = re.compile(r"(.+): (?:about|there may be)")
ALIKE = {"share": "fraction", "frequency": "fraction"} | {
    f"fraction{end}": f"fraction_of_group{end}" for end in ("", "_low", "_high")
}


def of_rows(rows):
    """(group, label) to the value and its limits as they are shown; rows as tables name them."""
    said = {}
    for row in rows:
        group, label = "", row.get("value", row.get("answer"))
        numbers, scale, unit = [row.get("fraction"), row["low"], row["high"]], 100, " %"
        if "group_count" in row:
            group, ends = row["group"], ("", "_low", "_high")
            numbers = [row.get(f"fraction_of_group{end}") for end in ends]
        elif "mean" in row:
            label = row.get("group") or row.get("coordinate") or "mean"
            numbers, scale, unit = [row["mean"], row["low"], row["high"]], 1, ""
        if numbers[0] in {None, ""}:
            continue
        value, low, high = (scale * float(number) for number in numbers)
        margin = (high - low) / 2
        shown = [measured(number, margin) + unit for number in (value, low, high)]
        said[group, label.replace(SKIPPED, NONE)] = (*shown, measured(margin, margin))
    return said


def of_json(document):
    """Of ``Result.to_dict``, or of what the API says of all batches together."""
    said = {}
    for part in document.get("columns") or document.get("questions") or [document]:
        records = part["estimates"] or [part["mean"]]
        said |= of_rows([{ALIKE.get(name, name): row[name] for name in row} for row in records])
    return said


class Pieces(HTMLParser):
    """Labels of drawings and rows of tables, in the order of the page."""

    def __init__(self, text):
        super().__init__()
        self.drawn, self.rows, self._title = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        label = dict(attrs).get("aria-label")
        if label is not None:
            self.drawn.append(label)
        self._title = tag == "title"
        if tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"} and self.rows:
            self.rows[-1].append("")

    def handle_data(self, data):
        if self._title and "interval" in data:  # of a bin; others have their label
            self.drawn.append(data)
        elif self.rows and self.rows[-1]:
            self.rows[-1][-1] += re.sub(r"\s*\n\s*", " ", data).strip()


def of_html(text):
    """What is drawn, and what is in tables; both have to say the same where both say something."""
    pieces, drawn, listed = Pieces(text), {}, {}
    group = ""
    for label in pieces.drawn:
        if match := BAR.match(label.replace("mean ", "mean: ")):
            name = "mean" if label.partition(": ")[2].startswith("mean ") else match[1]
            drawn[group, name.replace(SKIPPED, NONE)] = match.groups()[1:]
        else:
            group = match[1] if (match := GROUP.match(label)) else ""
    for cells in pieces.rows:
        whole = [cell for cell in cells if cell]
        if cells[1:2] in ([""], ["all"]) and any(map(INTERVAL.fullmatch, cells[2:])):
            group = cells[0]
        elif len(whole) > 2 and (match := INTERVAL.fullmatch(whole[2])):
            listed[group, whole[0].replace(SKIPPED, NONE)] = (whole[1], *match.groups())
        else:
            group = ""
    return drawn, listed


def of_terminal(text):
    """Of every bar its value and margin; of a mean its interval."""
    said, group = {}, ""
    for line in map(str.strip, text.splitlines()):
        if match := MEAN.match(line):
            said["", match[1]] = match.groups()[1:]
        elif match := LINE.match(line):
            said[group, match[1].strip().replace(SKIPPED, NONE)] = match.groups()[1:]
        elif ", estimated from" in line or " Estimated from" in line:
            group = ""
        elif match := GROUP.match(line):
            group = match[1].replace(SKIPPED, NONE)
    return said


def agree(result, capsys, tmp_path, *pages):
    """All renderings of a result; ``pages`` are others that show it."""
    said = of_json(json.loads(json.dumps(result.to_dict())))
    result.to_csv(tmp_path / "result.csv")
    with (tmp_path / "result.csv").open(encoding="utf-8") as lines:
        assert of_rows(csv_rows(lines)) == said
    show_result(result)
    terminal = capsys.readouterr().out
    found = of_terminal(terminal)
    assert found.keys() == said.keys()
    for name, (value, low, high, margin) in said.items():
        assert found[name] in {(value, margin), (value, low, high)}, name
    page, notebook = result.to_html(), html.unescape(result._repr_html_())
    for text in (page, notebook, *pages):
        for numbers in of_html(text):
            spoken = {(group.replace(SKIPPED, NONE), label) for group, label in numbers}
            assert said.keys() <= spoken
            for (group, label), shown_numbers in numbers.items():
                expected = said.get((group.replace(SKIPPED, NONE), label))
                assert expected is None or shown_numbers == expected[:3], (group, label)
    return SimpleNamespace(said=said, terminal=terminal, page=page)


def csv_rows(lines):
    """Of a file: cells that are empty were not there."""
    return [{name: cell for name, cell in row.items() if cell} for row in csv.DictReader(lines)]


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")


def test_a_survey_says_the_same_everywhere(tmp_path, capsys):
    analyzer = Analyzer(tmp_path / "analyzer")
    questions = (
        item(RandomizedResponse(k=3, epsilon=3.0), ["red", "blue"], "color", text="Which color?"),
        item(Duchi(low=0.0, high=100.0, epsilon=3.0), (), "age", text="How old?"),
        item(
            RandomizedResponse(k=9, epsilon=3.0),
            ["yes", "no"],
            "vote",
            text="Do you agree?",
            groups=Groups("region", ["north", "south"], text="Your region"),
        ),
    )
    survey = example(
        questions=questions,
        admission=Open(dishonest=0),
        batches=Batches(minimum=500, target=2000, max_age=3600),
        epsilon=8.0,
        opens=START,
        shuffler=Party(url="http://localhost:1", fingerprint="ab" * 32),
        analyzer=Party(url="http://localhost:2", fingerprint=analyzer.keyring.fingerprint),
    )
    analyzer.store.surveys.add(survey)
    places = np.arange(900)
    answers = [places % 3, places % 70, np.where(places % 2, 3 + places % 3, places % 3)]
    analyzer.shuffler.put(survey, sealed_apart(survey, analyzer.keyring, answers))
    analyzer.collect(survey)
    results = analyzer.store.results.survey(survey.id)
    with shown(analyzer, public_results=True) as client:
        dashboard = client.get(f"/dashboard/surveys/{survey.id}").text
        api = client.get(f"/v1/surveys/{survey.id}/results").json()
    rendered = agree(results.result, capsys, tmp_path, dashboard)
    assert of_json(api["combined"]) == rendered.said
    assert of_json(api["batches"][0]) == rendered.said, "there is one batch"
    table = csv_rows(results.to_csv().splitlines())
    assert of_rows([row for row in table if row["batch"] == "all"]) == rendered.said
    assert {("", "red"), ("", "mean"), ("north", "yes")} < rendered.said.keys()
    # The code is for programs, and the words are for people.
    for text in (rendered.page, dashboard, rendered.terminal):
        assert SKIPPED in text
        assert NONE not in text
    assert SKIPPED not in json.dumps(api)
    analyzer.close()


QUESTIONS = {
    "answers": [shoal.Choice("color", ["red", "green"])],
    "a scale": [shoal.Scale("stars", 1, 3)],
    "a tree of bins": [
        shoal.Bins("age", 0, 80, bins=8, quantiles=[0.5], tree=True, choose="near-central-lean")
    ],
    "ranges of bins": [shoal.Bins("age", 0, 80, bins=8, ranges=[(0, 40)])],
    "means by groups": [shoal.Number("age", 0, 80).by("color", ["red", "green"])],
    "a vector": [shoal.Vector("place", ["x", "y"], 2)],
    "several": [
        shoal.Choice("color", ["red", "green"]).by("town", ["here", "there"]),
        shoal.Bins("age", 0, 80, bins=4),
        shoal.Number("stars", 0, 5),
    ],
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_run_says_the_same_everywhere(name, tmp_path, capsys):
    n = 6_000
    table = {
        "color": ["red", "green", "red", None] * (n // 4),
        "stars": [1, 2, 3] * (n // 3),
        "age": [float(each % 79) for each in range(n)],
        "town": ["here"] * (n // 2) + ["there"] * (n // 2),
        "x": [1.0] * n,
        "y": [-0.5] * n,
    }
    terms = {"epsilon": 6}
    if name == "several":  # a plan for all of them takes seconds
        names = {"color": "grr", "age": "grr", "stars": "duchi"}
        terms = {"mechanism": {each: shoal.Named(names[each], 4) for each in names}}
    result = shoal.run(table, QUESTIONS[name], **terms, randomness=simulated(1))
    rendered = agree(result, capsys, tmp_path)
    for column in result.columns:  # quantiles, ranges and means beside them, in words
        for sentence in column.sentences():
            assert sentence in " ".join(rendered.terminal.split())
    for column in result.to_dict()["columns"]:
        for quantile in column.get("quantiles", ()):
            limits = f"{quantile['low']:g} to {quantile['high']:g}"
            assert f"interval {limits}" in rendered.terminal
            assert f"<td>{limits}</td>" in rendered.page
        for counted in column.get("ranges", ()):
            (numbers,) = of_rows(
                [counted | {"value": "", "fraction": counted["frequency"]}]
            ).values()
            assert f"{numbers[0]} (95 % interval {numbers[1]} to {numbers[2]})" in rendered.terminal
            assert f"<td>{numbers[0]}</td><td>{numbers[1]} to {numbers[2]}</td>" in rendered.page
