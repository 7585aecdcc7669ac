"""The report: complete, escaped, self-contained, and honest about true values."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dashboard_kit
import shoal
from shoal.intervals.estimates import Estimate, MeanEstimate
from shoal.randomness import simulated
from shoal.results.charts import Axis
from shoal.results.result import ColumnResult, Result

PEOPLE = 10_000


class Page(dashboard_kit.Page):
    """Its tags, its attributes, what it says to people, and to programs."""

    def handle_data(self, data):
        super().handle_data(f"{data} ")  # cells are words of their own

    @property
    def tags(self):
        return [tag for tag, _ in self.elements]

    @property
    def attributes(self):
        return [
            (tag, name, value or "") for tag, own in self.elements for name, value in own.items()
        ]

    @property
    def said(self):
        return " ".join(self.text.split())

    @property
    def script(self):
        return self.of["privacy-statement"]

    def statement(self):
        return json.loads(self.script, parse_constant=pytest.fail)


def categories(labels=("red", "green", "blue"), frequencies=(0.6, 0.39, 0.001), **more):
    device = shoal.RandomizedResponse(k=len(labels), epsilon=2)
    kept = shoal.amplify(device, n=PEOPLE)
    errors = np.full(len(labels), 0.01)
    estimate = Estimate(np.array(frequencies), errors, PEOPLE)
    named = {"column": "color", "labels": tuple(labels), "estimate": estimate}
    return ColumnResult(**named, randomizer=device, guarantee=kept, **({"n": PEOPLE} | more))


def number(**more):
    device = shoal.Laplace(low=0, high=100, epsilon=2)
    kept = shoal.amplify(device, n=PEOPLE)
    named = {"column": "age", "labels": (), "estimate": MeanEstimate(41.25, 0.5, PEOPLE)}
    return ColumnResult(**named, randomizer=device, guarantee=kept, **({"n": PEOPLE} | more))


def result(*columns, notes=("the list of answers is treated as public",)):
    guarantee = replace(columns[0].guarantee, columns=len(columns))
    return Result(columns=columns, guarantee=guarantee, notes=notes, stages={"read": 0.5})


def page(*columns, **more):
    return Page(result(*columns, **more).to_html())


def test_a_page_says_what_was_found_and_what_it_means():
    said = page(categories()).said
    assert "60.0 %" in said
    assert "6,000" in said
    assert "58.0 % to 62.0 %" in said
    kept = categories().guarantee
    assert f"factor of {math.ceil(1000 * math.exp(kept.epsilon)) / 1000:g}" in said
    assert "ε0 = 2" in said
    assert kept.trust in said
    for assumption in (*kept.assumptions, "the list of answers is treated as public"):
        assert assumption in said
    assert "cannot be told from nobody" in said  # blue is within its noise
    assert "not private" not in said


def test_intervals_are_said_to_count_the_noise_alone():
    for column, what in ((categories(), "a fraction"), (number(), "the mean")):
        said = page(column).said
        assert f"interval is of {what} among those who answered, and counts the noise alone" in said
    assert "95 % interval, of the noise alone" in page(categories()).said


def test_the_only_question_does_not_head_the_table_of_how_it_was_done():
    asked = "A question that is long"
    alone = page(replace(categories(), column=asked)).said.partition("How it was done")[2]
    assert asked not in alone.partition("Privacy statement")[0]
    both = page(categories(), number()).said.partition("How it was done")[2]
    assert both.startswith(" color age randomizer")


def test_the_page_asks_nothing_of_anybody():
    text = result(categories(), number()).to_html()
    parsed = Page(text)
    assert not {name for _, name, _ in parsed.attributes} & {"src", "href", "onload", "onclick"}
    assert not re.search(r"https?://|@import|url\(", text)
    assert parsed.tags.count("script") == 1


def test_bars_are_sorted_with_their_error_bars():
    parsed = page(categories(frequencies=(0.1, 0.5, 0.4)))
    named = [value for tag, name, value in parsed.attributes if name == "aria-label"]
    bars = [value.partition(":")[0] for value in named if value.partition(":")[1]]
    assert bars == ["green", "blue", "red"]
    reaches = [value for tag, _, value in parsed.attributes if (tag, value) == ("line", "reach")]
    assert len(reaches) == 3 * len(bars) + 3  # and one in the legend


def test_the_length_of_a_bar_is_its_share():
    parsed = page(categories(frequencies=(0.1, 0.5, 0.4)))
    widths = [
        float(value.rstrip("%"))
        for tag, name, value in parsed.attributes
        if (tag, name) == ("rect", "width") and value.endswith("%")
    ]
    assert widths == pytest.approx([0.5 / 0.6 * 100, 0.4 / 0.6 * 100, 0.1 / 0.6 * 100], abs=1e-3)


@pytest.mark.parametrize(
    "bad", ["<script>alert(1)</script>", '"><img src=x>', "</script>", "a & b"]
)
def test_labels_are_text_wherever_they_stand(bad):
    column = categories(labels=(bad, "green", "blue"), notes=(bad,))
    parsed = page(replace(column, column=bad), notes=(bad,))
    assert parsed.tags.count("script") == 1
    assert "img" not in parsed.tags
    assert bad in parsed.text
    assert parsed.statement()["columns"][0]["column"] == bad


def test_the_statement_holds_the_guarantee_and_no_data():
    parsed = page(categories(truth=np.array([0.6123, 0.3877, 0.0])))
    found = parsed.statement()
    kept = categories().guarantee
    assert found["guarantee"]["epsilon"] == kept.epsilon
    assert found["guarantee"]["assumptions"] == list(kept.assumptions)
    assert found["columns"][0]["randomizer"]["name"] == "grr"
    assert found["contains_true_values"] is True
    assert "0.6123" not in parsed.script


def test_true_values_come_with_a_banner_and_marks():
    truth = np.array([0.61, 0.38, 0.01])
    parsed = page(categories(truth=truth), number(truth=np.array([41.0])))
    assert "Contains true values: not private" in parsed.said
    assert "61.0 %" in parsed.said
    marks = [value for tag, name, value in parsed.attributes if (tag, value) == ("line", "truth")]
    assert len(marks) == 3 + 1 + 2  # answers, legend, two axes of the mean


def test_many_answers_show_the_largest_and_list_them_all():
    k = 100
    shares = np.linspace(0.02, 0, k)
    parsed = page(categories(tuple(f"city {i}" for i in range(k)), shares))
    assert "and 60 more answers" in parsed.said
    assert parsed.tags.count("rect") == 40 + 2
    assert parsed.said.count("city 99") == 1  # in the table only
    assert "All 100 answers" in parsed.said


def test_a_mean_lies_on_the_axis_of_its_bounds():
    parsed = page(number())
    assert "41.25" in parsed.said
    assert "± 0.98" in parsed.said
    centers = [value for tag, name, value in parsed.attributes if (tag, name) == ("circle", "cx")]
    assert float(centers[0].rstrip("%")) == pytest.approx(41.25)
    assert "closer" in parsed.said


def rows(ages):
    """Of a page about numbers that some people lack, by what is in front of them."""
    asked = shoal.Number("age", 0, 100, missing="cell")
    found = shoal.run({"age": ages}, asked, epsilon=8, randomness=simulated(1))
    text = found.to_html()
    return found, dict(re.findall('<th scope="row"[^>]*>([^<]*)</th><td>([^<]*)</td>', text)), text


def test_the_mean_of_those_with_a_number_has_no_sum_of_everybody():
    found, said, _ = rows([30.0, 50.0, None, None] * 500)
    count = float(said["have a number"].replace(",", ""))
    assert count == pytest.approx(found.only.means[0].count, abs=1)
    assert abs(count - 1000) < 50
    assert "sum" not in said
    assert 30 < float(said["mean"]) < 50


def test_a_number_that_nobody_has_is_not_of_fewer_than_nobody():
    _, _, text = rows(["nothing"] * 2000)
    assert "No mean: there may be nobody with a number." in text
    assert re.search("<p>At most [0-9]+ people have a number.</p>", text)


@pytest.mark.parametrize("messages", [1, 4])
def test_messages_are_those_of_all_reports_of_a_person(messages):
    asked = shoal.Choices("sign", ["a", "b", "c"])
    limits = shoal.Limits(messages=messages)
    labels = "label by label" if messages == 1 else "as a set"
    found = shoal.run({"sign": ["a;b", ""] * 1000}, asked, epsilon=1, limits=limits)
    sent = found.only.plan.messages
    assert found.only.plan.scheme.name == labels
    assert sent >= found.only.plan.scheme.total
    said = re.search("messages of a person</th><td>([^<]*)</td>", found.to_html())
    assert float(said[1]) == pytest.approx(sent, rel=1e-3)


def test_negative_estimates_are_drawn_and_explained():
    parsed = page(categories(frequencies=(0.9, 0.2, -0.1)))
    assert "−10.0 %" in parsed.said
    assert "below zero is noise" in parsed.said


def test_light_dark_phone_and_paper_are_provided_for():
    text = result(categories()).to_html()
    for rule in ("prefers-color-scheme: dark", "@media print", "max-width: 40rem", "viewport"):
        assert rule in text


def test_one_person_makes_a_report_per_column():
    parsed = page(categories(), number())
    assert "ε0 of one person's 2 reports together" in parsed.said
    assert "for one person's 2 reports together, so" in parsed.said
    assert "by one column alone" in parsed.said
    alone = page(categories()).said
    assert "ε0 of each report alone" in alone
    assert "together" not in alone
    assert "No analysis of this collection can prove less" in alone


def test_several_reports_of_one_person_are_not_called_people():
    column = categories()
    kept = shoal.amplify(column.randomizer, n=PEOPLE, rounds=3)
    parsed = page(replace(column, guarantee=kept))
    assert "ε0 of one person's 3 reports together" in parsed.said
    assert "for one person's 3 reports together, so" in parsed.said
    assert f"reports {PEOPLE:,}" in parsed.said
    assert "reports, about" in parsed.said
    assert "at most 3 from each" in parsed.said
    for wrong in (f"people {PEOPLE:,}", "people, about", "each report alone", "for it"):
        assert wrong not in parsed.said
    assert f"people {PEOPLE:,}" in page(column).said


def test_nothing_is_said_that_a_run_cannot_know():
    parsed = page(categories())
    assert "device" not in parsed.said
    # How long it took depends on the data.
    assert "Time taken" not in parsed.said
    assert "0.50 s" not in parsed.said


@pytest.mark.parametrize("epsilon", [math.inf, 1e4])
def test_a_local_guarantee_that_is_none_is_said(epsilon):
    kept = replace(categories().guarantee, local_epsilon=epsilon)
    parsed = Page(replace(result(categories()), guarantee=kept).to_html())
    assert parsed.statement()["guarantee"]["local_epsilon"] in {None, 1e4}
    assert "nan" not in parsed.said.lower().split()


@given(
    st.lists(
        st.floats(min_value=-1e3, max_value=1e3).map(lambda x: round(x, 6)), min_size=1, max_size=8
    )
)
def test_an_axis_holds_its_values_between_round_numbers(values):
    axis = Axis.spanning(*values)
    assert axis.low <= min(0.0, *values)
    assert axis.high >= max(values) * (1 - 1e-9)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 8
    assert all(0 <= axis.at(tick) <= 100 for tick in ticks)
    shown = list(ticks.values())
    assert len(set(shown)) == len(shown)


def test_a_table_of_means_has_the_true_ones_if_they_are_compared():
    table = {"hours": [1.0, 2.0, 3.0, 4.0] * 2_000, "team": ["a", "b"] * 4_000}
    asked = shoal.Number("hours", 0, 5).by("team", ["a", "b"])
    terms = {"epsilon": 2, "randomness": simulated(1)}
    compared = shoal.run(table, asked, compare_truth=True, **terms).only.table()
    assert compared.headings[-1] == "true mean: not private"
    assert [row.cells[-1] for row in compared.rows[:2]] == ["2", "3"]
    assert len(shoal.run(table, asked, **terms).only.table().headings) == 4
