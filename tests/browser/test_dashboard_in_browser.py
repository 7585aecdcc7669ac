"""The dashboard in a real browser: who may see it, and a chart that can be zoomed."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from playwright.sync_api import expect

import shoal
from shoal.report import html
from shoal.report.result import ColumnResult
from shoal.values import Estimate
from shoal.web import assets
from shoal.web.rendering import templates


def log_in(page, where, token):
    page.goto(f"{where.analyzer}/dashboard")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()


def test_a_wrong_token_is_told_in_words_and_shows_nothing(shared, visit):
    analyst = visit(shared)
    for token in ("shoal_0123456789abcdef", "ünïcode ☂", "' or 1=1 --"):
        log_in(analyst.page, shared, token)
        expect(analyst.page.get_by_role("alert")).to_contain_text("This token does not count")
        expect(analyst.page.get_by_role("alert")).to_contain_text("You are not logged in.")
        assert shared.survey.question not in analyst.page.content()
        assert analyst.context.cookies() == []


def test_a_token_for_one_survey_shows_that_one(shared, visit):
    other = shared.add(question="Another question?", name="another")
    analyst = visit(shared)
    page = analyst.page
    log_in(page, shared, shared.token(other))
    expect(page.get_by_role("link", name=other.question)).to_be_visible()
    expect(page.get_by_role("link", name=shared.survey.question)).to_have_count(0)
    page.goto(f"{shared.analyzer}/dashboard/surveys/{shared.survey.id}")
    expect(page.get_by_role("alert")).to_be_visible()
    assert shared.survey.question not in page.content()
    page.goto(f"{shared.analyzer}/dashboard")
    page.get_by_role("button", name="Log out").click()
    page.goto(f"{shared.analyzer}/dashboard/surveys/{other.id}")
    expect(page.get_by_label("Token")).to_be_visible()
    assert analyst.context.cookies() == []


def shares(page):
    """Where the bars end, in pixels."""
    return [bar.bounding_box()["width"] for bar in page.locator(".bar .fill").all()]


def test_the_chart_is_sorted_and_can_be_zoomed(fresh, visit):
    fresh.others(fresh.survey.batches.target)
    fresh.opened()
    assert len(fresh.collect()) == 1
    analyst = visit(fresh)
    page = analyst.page
    log_in(page, fresh, fresh.token())
    page.get_by_role("link", name=fresh.survey.question).click()
    chart = page.locator("figure#chart")
    whole = shares(page)
    assert whole == sorted(whole, reverse=True)
    chart.get_by_role("button", name="Zoom in").click()
    assert shares(page) != whole
    chart.get_by_role("button", name="Show the whole axis").click()
    assert shares(page) == pytest.approx(whole, abs=1)
    page.get_by_role("link", name="as in the survey").click()
    shown = page.locator(".bar .label").all_inner_texts()
    assert shown == list(fresh.survey.answers)
    assert analyst.complaints == []


CUT = "(box) => [box.scrollWidth - box.clientWidth, getComputedStyle(box, '::after').position]"


WIDE = """
{% import "parts.html" as parts %}
{% call parts.table("x") %}
{{ parts.heads([("answer", "text"), ("percent", "n"), ("95 % interval", "n"),
                ("people, about", "n"), ("more than noise", "")]) }}
<tbody><tr>
<th>on foot</th><td>35.7 %</td><td>20.9 % to 52.4 %</td><td>43</td><td>yes</td>
</tr></tbody>
{% endcall %}
"""


def test_on_a_phone_what_is_cut_off_fades_out_and_the_values_are_seen(browser):
    wide = templates.from_string(WIDE).render()
    style = assets.asset("dashboard.css").body.decode()
    result = report_of("How did you come here today, and how long did it take you to?")
    with browser.new_context(viewport={"width": 390, "height": 844}) as context:
        page = context.new_page()
        page.set_content(f"<style>{style}</style><main>{wide}</main>")
        hidden, fading = page.locator(".scroll").evaluate(CUT)
        assert hidden > 0
        assert fading == "sticky"
        page.set_content(html(result))
        method = page.locator("section", has=page.get_by_role("heading", name="How it was done"))
        hidden, fading = method.locator(".wide").evaluate(CUT)
        assert (hidden, fading) == (0, "sticky")
        for value in method.locator("td").all():
            expect(value).to_be_visible()
            box = value.bounding_box()
            assert 0 < box["x"] < box["x"] + box["width"] <= 390


def report_of(question):
    device = shoal.RandomizedResponse(k=2, epsilon=2)
    kept = shoal.amplify(device, n=1000)
    found = Estimate(np.array([0.6, 0.4]), np.full(2, 0.01), 1000)
    column = ColumnResult(
        column=question,
        labels=("yes", "no"),
        estimate=found,
        randomizer=device,
        guarantee=kept,
        n=1000,
    )
    return SimpleNamespace(
        columns=(column,), guarantee=kept, notes=(), warnings=(), contains_truth=False
    )


@pytest.mark.slow
def test_files_are_downloaded_by_their_links(fresh, visit):
    fresh.others(fresh.survey.batches.target)
    fresh.opened()
    fresh.collect()
    page = visit(fresh).page
    page.goto(f"{fresh.analyzer}/dashboard/surveys/{fresh.survey.id}/download/results.csv")
    expect(page.get_by_label("Token")).to_be_visible()  # and no file
    log_in(page, fresh, fresh.token())
    page.get_by_role("link", name=fresh.survey.question).click()
    links = page.locator("a[download]").all()
    assert len(links) == 7
    for link in links:
        with page.expect_download() as waited:
            link.click()
        assert waited.value.path().stat().st_size > 100
