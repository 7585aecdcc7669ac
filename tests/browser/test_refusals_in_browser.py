"""What cannot be answered: the person is told in words what happened, and nothing is sent."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from shoal.mechanisms.carriers import CarrierHistogram
from shoal.mechanisms.dummies import UniformDummies
from shoal.mechanisms.response import RandomizedResponse
from shoal.service.clock import system_clock
from shoal.service.wire import Wire

DAY = 86_400
NOTHING = re.compile(r"Nothing (was|can be) sent")


def alert(page):
    return page.locator("shoal-survey .failed")


def send(page):
    return page.get_by_role("button", name="Send")


def refused(person, title):
    """The alert says it, nothing was posted, and nothing waits to be."""
    expect(alert(person.page)).to_contain_text(title)
    expect(alert(person.page)).to_contain_text(NOTHING)
    assert person.gate.posts() == []


@pytest.mark.parametrize(
    ("changes", "title"),
    [
        ({"minimum": 20, "target": 20}, "This page does not let you answer this survey."),
        (
            {"device": RandomizedResponse(k=4, epsilon=9.0), "epsilon": 9.1},
            "This page does not let you answer this survey.",
        ),
        (
            {"not_before": system_clock() - 9 * DAY, "not_after": system_clock() - DAY},
            "It ended on",
        ),
        (
            {"not_before": system_clock() + DAY, "not_after": system_clock() + 9 * DAY},
            "It begins on",
        ),
    ],
    ids=["crowd", "local epsilon", "over", "early"],
)
def test_a_survey_that_must_not_be_answered_cannot_be(shared, visit, changes, title):
    survey = shared.add(**changes)
    person = visit(shared)
    person.page.goto(shared.page_of(survey))
    refused(person, title)
    expect(send(person.page)).to_be_disabled()
    assert person.complaints == []


def test_a_survey_that_ends_while_it_is_read_is_not_answered(shared, visit):
    person = visit(shared)
    person.page.goto(shared.page)
    expect(send(person.page)).to_be_enabled()
    person.page.get_by_label("on foot").check()
    person.page.clock.set_fixed_time((shared.survey.not_after + 60) * 1000)
    # The page may have noticed by itself: then the button does nothing.
    send(person.page).evaluate("(button) => button.click()")
    refused(person, "This survey is over.")


def flipped(body):
    """The same survey, but for one letter of its question."""
    return body.replace(b"come here", b"come hear")


def test_a_survey_that_was_tampered_with_is_refused(shared, visit):
    person = visit(shared)
    person.gate.changes[f"/v1/surveys/{shared.survey.id}"] = flipped
    person.page.goto(shared.page)
    refused(person, "This is not the survey that it claims to be.")
    expect(send(person.page)).to_be_disabled()


def test_a_page_that_asks_another_question_than_the_survey_is_refused(shared, visit):
    person = visit(shared)
    person.gate.changes[f"/answer/{shared.survey.id}"] = flipped
    person.page.goto(shared.page)
    refused(person, "This is not the survey that it claims to be.")


def test_keys_that_are_not_the_operators_are_refused(shared, visit):
    person = visit(shared)
    digits = re.compile(rb'"signature":"(..)')
    person.gate.changes["/v1/keys"] = lambda body: digits.sub(b'"signature":"AA', body)
    person.page.goto(shared.page)
    expect(send(person.page)).to_be_enabled()
    person.page.get_by_label("on foot").check()
    send(person.page).click()
    refused(person, "The operators' keys are not what the survey says.")


FULL = """() => {
  const full = () => { throw new DOMException("full", "QuotaExceededError"); };
  IDBObjectStore.prototype.put = full;
  IDBObjectStore.prototype.add = full;
}"""


def pretended(person, _place):
    person.page.evaluate(FULL)


def the_browsers_own(person, place):
    browser = person.context.new_cdp_session(person.page)
    limit = {"origin": place.analyzer, "quotaSize": 1}
    browser.send("Storage.overrideQuotaForOrigin", limit)


@pytest.mark.parametrize("limit", [pretended, the_browsers_own])
def test_where_nothing_can_be_stored_nothing_is_sent(shared, visit, limit):
    person = visit(shared)
    person.page.goto(shared.page)
    expect(send(person.page)).to_be_enabled()
    limit(person, shared)
    person.page.get_by_label("on foot").check()
    send(person.page).click()
    refused(person, "This device cannot keep your answer.")


MANY = {
    "device": RandomizedResponse(k=60, epsilon=1.5),
    "answers": tuple(f"answer number {number}" for number in range(60)),
}
PAST = {"not_before": system_clock() - 9 * DAY, "not_after": system_clock() - DAY}
SMALL = {"minimum": 20, "target": 20}


@pytest.mark.parametrize("width", [390, 1280])
def test_among_many_answers_what_is_wrong_is_said_above_them(shared, visit, width):
    size = {"width": width, "height": 800}
    for number, (changes, said) in enumerate(
        [({}, "Choose an answer first."), (PAST, "It ended on"), (SMALL, "the page allows no")]
    ):
        survey = shared.add(name=f"many {number} {width}", **(MANY | changes))
        person = visit(shared, viewport=size)
        person.page.goto(shared.page_of(survey))
        if not changes:
            send(person.page).click()
            expect(person.page.get_by_label("Find your answer")).to_be_focused()
        refused(person, said)
        expect(alert(person.page)).to_be_in_viewport(ratio=1)
        first = person.page.locator(".choice").first.bounding_box()
        box = alert(person.page).bounding_box()
        assert box["y"] + box["height"] <= first["y"]


@pytest.mark.parametrize("kind", [UniformDummies, CarrierHistogram])
def test_where_only_the_crowd_hides_an_answer_the_person_may_allow_it(shared, visit, kind):
    device = kind.calibrated(k=4, n=120, epsilon=1.0, delta=1e-6)
    survey = shared.add(name=f"crowd of {device.name}", device=device, epsilon=1.0)
    person = visit(shared)
    person.page.goto(shared.page_of(survey))
    refused(person, "Only the crowd hides your answer")
    expect(send(person.page)).to_be_disabled()
    expect(person.page.get_by_label("on foot")).to_be_disabled()
    person.page.get_by_role("button", name="Allow it for this survey").click()
    expect(send(person.page)).to_be_enabled()
    expect(person.page.get_by_label("on foot")).to_be_focused()
    expect(alert(person.page)).to_be_empty()
    person.page.get_by_label("by car").check()
    send(person.page).click()
    person.gate.wait_for_post(person.page)
    (post,) = person.gate.posts()
    wire, (shuffler, analyzer) = Wire.of(survey), (shared.service.shuffler, shared.service.analyzer)
    assert len(post.body) == wire.report_bytes
    number, records = wire.open_report(post.body, shuffler.keyring.pair(post.body[1]))
    (section,), pair = wire.sections, analyzer.keyring.pair(number)
    told = [section.open_record(record, pair)[0] for record in section.split(records)]
    assert told[0] == 3  # the answer, then noise


def test_no_answer_is_no_answer(shared, visit):
    person = visit(shared)
    person.page.goto(shared.page)
    send(person.page).click()
    refused(person, "Choose an answer first.")
    expect(person.page.get_by_label("on foot")).to_be_focused()


def test_a_survey_that_nobody_asks_is_told_of(shared, visit):
    person = visit(shared)
    for name in ("0" * 64, "nonsense"):
        answer = person.page.goto(f"{shared.analyzer}/answer/{name}")
        assert answer.status == 404
        expect(person.page.get_by_role("main")).to_contain_text("There is no such survey")
        expect(person.page.get_by_role("main")).to_contain_text("Nothing was sent.")


def test_without_scripts_the_page_says_that_it_needs_them(shared, visit):
    person = visit(shared, java_script_enabled=False)
    person.page.goto(shared.page)
    notice = person.page.locator("noscript .notice")
    expect(notice).to_be_visible()
    expect(notice).to_contain_text("Nothing was sent.")
    expect(send(person.page)).to_be_disabled()
    assert person.gate.posts() == []
