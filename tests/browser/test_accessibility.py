"""Everybody can use the pages: axe-core finds nothing serious, and they fit on a phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

import browser_kit
from shoal.mechanisms.response import RandomizedResponse

PHONE, DESKTOP = {"width": 375, "height": 667}, {"width": 1280, "height": 800}
SOME = (("light", DESKTOP), ("dark", PHONE))
OTHERS = (("light", PHONE), ("dark", DESKTOP))
looks = pytest.mark.parametrize(
    "looks", [SOME, pytest.param(OTHERS, marks=pytest.mark.slow)], ids=["some", "others"]
)


def check(page, looks=SOME):
    """No serious violation in any look, and nothing wider than the screen."""
    found = {}
    for scheme, size in looks:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # nothing fades
        page.set_viewport_size(size)
        look = f"{scheme}, {size['width']} wide"
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        problems = browser_kit.axe(page) + ([f"{wide} pixels too wide"] if wide > 0 else [])
        if problems:
            found[look] = problems
    assert found == {}


def unfold(page):
    """Open all that is folded away."""
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")


@looks
def test_the_survey_page_before_and_after_an_answer(fresh, visit, looks):
    person = visit(fresh)
    page = person.page
    page.goto(fresh.page)
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    unfold(page)
    check(page, looks)
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".failed")).to_contain_text("Choose an answer first.")
    check(page, looks)
    page.get_by_label("on foot").check()
    person.stops()
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".told")).to_contain_text("Waiting for the network.")
    check(page, looks)
    person.goes_on()
    expect(page.locator(".told")).to_contain_text("Sent.")
    check(page, looks)


MANY = {
    "device": RandomizedResponse(k=60, epsilon=1.5),
    "answers": tuple(f"answer number {number}" for number in range(60)),
}


@pytest.mark.parametrize(
    "changes",
    [{"minimum": 20, "target": 20}, MANY],
    ids=["refused", "many answers"],
)
def test_other_survey_pages(shared, visit, changes):
    survey = shared.add(**changes)
    page = visit(shared).page
    page.goto(shared.page_of(survey))
    expect(page.locator(".told")).to_be_empty()
    check(page)


@looks
def test_the_dashboard_before_and_after_logging_in(fresh, visit, looks):
    fresh.others(fresh.survey.batches.target)
    fresh.opened()
    (batch,) = fresh.collect()
    page = visit(fresh).page
    page.goto(f"{fresh.analyzer}/dashboard")
    check(page, looks)
    page.get_by_label("Token").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    check(page, looks)
    page.get_by_label("Token").fill(fresh.token())
    page.keyboard.press("Enter")
    page.get_by_role("link", name=fresh.survey.question).wait_for()
    check(page, looks)
    page.get_by_role("link", name=fresh.survey.question).click()
    page.locator("figure#chart").wait_for()
    unfold(page)
    check(page, looks)
    page.goto(f"{fresh.analyzer}/dashboard/surveys/{fresh.survey.id}/batches/{batch}")
    page.locator("figure#chart").wait_for()
    check(page, looks)


def test_pages_for_what_is_not_there(shared, visit):
    page = visit(shared).page
    for path in ("answer/nonsense", "dashboard/nonsense"):
        page.goto(f"{shared.analyzer}/{path}")
        check(page)


def test_the_checker_finds_what_is_wrong(shared, visit):
    page = visit(shared).page
    page.set_content("<!doctype html><title>x</title><img src='data:,'><input><div>x</div>")
    found = " ".join(browser_kit.axe(page))
    assert "html-has-lang" in found
    assert "image-alt" in found
    assert "label" in found
