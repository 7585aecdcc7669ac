"""The dashboard in a real browser: who may see it, and a chart that can be zoomed."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

import shoal
from shoal.intervals.estimates import Estimate
from shoal.results.result import ColumnResult, Result
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
        expect(analyst.page.get_by_role("alert")).to_contain_text("This token is not valid")
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


WIDE = """
{% import "parts.html" as parts %}
{% call parts.table("x") %}
{{ parts.heads([("answer", "text"), ("fraction", "n"), ("95 % interval", "n"),
                ("people, about", "n"), ("more than noise", "")]) }}
<tbody><tr>
<th>on foot</th><td>35.7 %</td><td>20.9 % to 52.4 %</td><td>43</td><td>yes</td>
</tr></tbody>
{% endcall %}
"""


BESIDE = """
{% import "graphs.html" as graphs %}
<div class="panels">
  <div class="column"><section class="panel"><p class="tall">the funnel</p></section></div>
  <section id="crowd" class="panel"><details class="fold body" open=""><summary>The crowd</summary>
    <p>Asking the shuffler.</p>
    INSIDE
    <p id="last">Who may report</p></details></section>
</div>
<p class="legend"><span class="key">{{ graphs.sign(true) }} more</span>
  <span class="key">{{ graphs.sign(false) }} noise</span></p>
"""
PENDING = '<div class="pending"><p class="quiet">The curve of ε is being computed.</p></div>'
GAPS = """() => {
  const place = (element) => element.getBoundingClientRect();
  const [panel, last] = ["#crowd", "#last"].map((each) => place(document.querySelector(each)));
  const words = document.createRange();
  const apart = [...document.querySelectorAll(".key")].map((key) => {
    words.selectNode(key.lastChild);
    return place(words).left - place(key.querySelector("svg")).right;
  });
  return [panel.bottom - last.bottom, ...apart];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("inside", [PENDING, ""], ids=["pending", "no curve"])
def test_no_half_of_the_dashboard_is_empty_and_marks_stand_beside_their_words(
    browser, inside, scheme
):
    """While the curve is computed its place is held; without one the panel ends with its text."""
    body = templates().from_string(BESIDE.replace("INSIDE", inside)).render()
    style = assets.asset("dashboard.css").body.decode() + ".tall { height: 900px }"
    with browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme) as made:
        page = made.new_page()
        page.set_content(f"<style>{style}</style><main>{body}</main>")
        below, *apart = page.evaluate(GAPS)
        assert below < 60
        assert len(apart) == 2
        assert all(0 <= gap < 12 for gap in apart)
        sign = page.locator("svg.sign.apart")
        with Image.open(io.BytesIO(sign.screenshot())) as picture:
            assert np.ptp(np.asarray(picture.convert("L"), dtype=int)) > 100  # it is seen


PHONE = {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"}
HIDDEN = "(box) => box.scrollWidth - box.clientWidth"
LINE = 4  # pixels above the end of a table: below all letters, above its last line


def dark_ends(box):
    """Whether the left and the right end of a box are darker than the paper, where it is empty."""
    with Image.open(io.BytesIO(box.screenshot())) as picture:
        row = np.asarray(picture.convert("L"), dtype=int)[-1 - LINE]
    left, right = row.max() - row[[2, -3]] > 15
    return bool(left), bool(right)


def check_ends(table):
    """What is cut off is seen to be, at the end where it is."""
    assert table.evaluate(HIDDEN) > 0
    assert dark_ends(table) == (False, True)
    table.evaluate("(box) => { box.scrollLeft = 1000; }")
    assert dark_ends(table) == (True, False)


def test_on_a_phone_a_table_of_the_dashboard_is_dark_where_it_is_cut_off(browser):
    wide = templates().from_string(WIDE).render()
    style = assets.asset("dashboard.css").body.decode()
    with browser.new_context(**PHONE) as context:
        page = context.new_page()
        page.set_content(f"<style>{style}</style><main><div class=panel>{wide}</div></main>")
        check_ends(page.locator(".scroll"))


def test_on_a_phone_a_table_of_the_report_is_dark_where_it_is_cut_off(browser):
    question = "How did you come here today, and how long did it take you to?"
    with browser.new_context(**PHONE) as context:
        page = context.new_page()
        page.set_content(report_of(question, truth=np.array([0.61, 0.39])).to_html())
        check_ends(page.get_by_role("region", name="Estimates of"))
        method = page.get_by_role("region", name="How it was done")
        assert method.evaluate(HIDDEN) == 0
        assert dark_ends(method) == (False, False)
        for value in method.locator("td").all():
            expect(value).to_be_visible()
            box = value.bounding_box()
            assert 0 < box["x"] < box["x"] + box["width"] <= 390


def report_of(question, truth):
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
        truth=truth,
    )
    return Result(columns=(column,), guarantee=kept, notes=())


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
