"""People who were invited, in a real browser: by a link, by typing, and with a link used before."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

import browser_kit
from shoal.service.admission import Invited
from shoal.service.ops.invitations import codes_to_add, invite, link
from shoal.service.wire import Wire

SENT, USED = "Sent. Thank you.", "This invitation was used."
MISSING = "Your invitation is missing or mistyped."


@pytest.fixture(scope="module")
def invited(shared):
    """A survey for people invited, and the invitations of some."""
    survey = shared.add(name="invited", admission=Invited(entitled=200, dishonest=2))
    handed = invite(survey, 5)
    codes_to_add(survey, handed).apply(shared.service.shuffler.store.codes)
    return survey, [each.invitation for each in handed]


def told(page):
    return page.locator("shoal-survey .told")


def field(page):
    return page.get_by_label("Your invitation")


def ready(page, address):
    page.goto(address)
    expect(page.get_by_role("button", name="Send")).to_be_enabled()


def answer(page):
    page.get_by_label("by bicycle").check()
    page.get_by_role("button", name="Send").click()


def waiting(page):
    """The reports in the outbox that have not arrived."""
    rows = browser_kit.store_of(page)["items"]
    return [row for row in rows if row["key"].startswith("report ") and not row["ending"]]


def test_a_link_invites_once_and_a_used_one_goes_on_with_another(shared, visit, invited):
    survey, (first, second, *_) = invited
    person = visit(shared)
    page = person.page
    ready(page, link(survey, first))
    assert page.url == shared.page_of(survey)
    expect(page.locator(".invited")).to_contain_text("You are invited")
    expect(field(page)).to_have_count(0)
    expect(page.locator(".promise")).to_contain_text("Only the 200 people who were invited.")
    page.reload()
    expect(page.locator(".invited")).to_be_visible()
    answer(page)
    expect(told(page)).to_contain_text(SENT)
    (post,) = person.gate.posts()
    assert len(post.body) == Wire.of(survey).report_bytes + 16
    assert post.body.endswith(first.code(survey.id, 1))
    assert not any(str(first)[:9] in each.url for each in person.gate.passed)
    (row,) = [each for each in browser_kit.store_of(page)["items"] if "ending" in each]
    assert row["code"] == []
    assert page.evaluate("history.state") is None
    assert person.complaints == []

    other = visit(shared)
    page = other.page
    ready(page, link(survey, first))
    answer(page)
    expect(told(page)).to_contain_text(USED)
    expect(told(page)).to_contain_text("your first answer counts, and this one does not")
    (kept,) = waiting(page)
    page.reload()
    expect(told(page)).to_contain_text(USED)
    assert browser_kit.axe(page) == []
    field(page).fill("not an invitation")
    page.get_by_role("button", name="Send with this invitation").click()
    expect(page.locator(".failed")).to_contain_text(MISSING)
    field(page).fill(str(second).lower().replace("-", " "))
    page.get_by_role("button", name="Send with this invitation").click()
    expect(told(page)).to_contain_text(SENT)
    last = other.gate.posts()[-1]
    assert last.status == 202
    assert last.body == bytes(kept["sealed"]) + second.code(survey.id, 1)
    assert waiting(page) == []


def test_without_a_link_the_page_asks_for_the_invitation(shared, visit, invited):
    survey, (*_, third) = invited
    person = visit(shared)
    page = person.page
    ready(page, shared.page_of(survey))
    expect(field(page)).to_be_visible()
    assert browser_kit.axe(page) == []
    answer(page)
    expect(page.locator(".failed")).to_contain_text(MISSING)
    expect(page.locator(".failed")).to_contain_text("Nothing was sent.")
    expect(field(page)).to_be_focused()
    assert waiting(page) == []

    page.evaluate("text => { location.hash = text; }", str(third)[:-2])  # another link, cut off
    expect(page.locator(".failed")).to_contain_text("The invitation in the link is incomplete.")
    expect(field(page)).to_have_value(str(third)[:-2])
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    field(page).fill(link(survey, third))
    answer(page)
    expect(told(page)).to_contain_text(SENT)
    (post,) = person.gate.posts()
    assert post.body.endswith(third.code(survey.id, 1))


def test_people_invited_may_allow_a_small_crowd(shared, visit):
    crowd = {"minimum": 20, "target": 20, "admission": Invited(entitled=30, dishonest=0)}
    survey = shared.add(name="a class", **crowd)
    (handed,) = invite(survey, 1)
    codes_to_add(survey, [handed]).apply(shared.service.shuffler.store.codes)
    page = visit(shared).page
    page.goto(link(survey, handed.invitation))
    expect(page.locator(".failed")).to_contain_text("batches of only 20 reports")
    expect(page.get_by_role("button", name="Send")).to_be_disabled()
    page.get_by_role("button", name="Allow it for this survey").click()
    answer(page)
    expect(told(page)).to_contain_text(SENT)


def test_a_survey_for_anybody_says_that_nobody_checks(shared, visit):
    page = visit(shared).page
    ready(page, f"{shared.page}#anything")
    expect(page.locator(".promise")).to_contain_text("crowd assumed, not checked")
    expect(field(page)).to_have_count(0)
    assert page.url == shared.page
