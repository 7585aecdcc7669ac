"""Answering in a real browser: by keyboard, without a network, and into the published chart."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

import browser_kit
from browser.conftest import place
from factories import by_groups, several
from shoal.mechanisms.response import RandomizedResponse
from shoal.service.admission import Open
from shoal.service.wire import Wire

ANSWER = "by bicycle"
SENT, WAITING = "Sent. Thank you.", "Waiting for the network."
ALREADY = "You have answered on this device already."


def told(page):
    return page.locator("shoal-survey .told")


def ready(page, address):
    """The page, when its form can be used."""
    page.goto(address)
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    return page


KEPT = """async (survey) => {
  await navigator.serviceWorker.ready;
  const parts = [...document.querySelectorAll("script[src], link[rel=stylesheet]")];
  const wanted = [location.href, survey, ...parts.map((part) => part.src ?? part.href)];
  const found = await Promise.all(wanted.map((each) => caches.match(each)));
  return found.every((each) => each !== undefined);
}"""


def kept_for_later(page, where):
    """Wait until the page opens without a network."""
    page.wait_for_function(KEPT, arg=f"{where.analyzer}/v1/surveys/{where.survey.id}")


def answer(page, label=ANSWER):
    page.get_by_label(label).check()
    page.get_by_role("button", name="Send").click()


def try_now(page):
    """Press the button that does not wait until it is time, if the page has not tried by itself."""
    expect(told(page)).to_contain_text(re.compile(f"{WAITING}|{SENT}|{ALREADY}"))
    page.evaluate("document.querySelector('.told button')?.click()")


def press_until(page, key, selector):
    """Press a key until what is chosen or focused is what is wanted."""
    for _ in range(20):
        page.keyboard.press(key)
        if page.locator(selector).count():
            return
    pytest.fail(f"{selector} is not reached with {key}")


def waiting_rows(page):
    """The reports that wait on the device."""
    rows = browser_kit.store_of(page)["items"]
    return [row for row in rows if row["key"].startswith("report ") and not row["ending"]]


def sealed(page):
    """The only report that waits on the device, as it is sent."""
    (row,) = waiting_rows(page)
    return bytes(row["sealed"])


def test_an_answer_by_keyboard_ends_in_the_published_chart(fresh, visit):
    people = fresh.survey.batches.target
    fresh.others(people - 1)
    assert fresh.opened() == people - 1
    assert fresh.collect() == []

    person = visit(fresh)
    page = ready(person.page, fresh.page)
    press_until(page, "Tab", "input[name=answer]:focus")
    page.keyboard.press("Space")
    press_until(page, "ArrowDown", f".choice:has-text('{ANSWER}') input:checked")
    press_until(page, "Tab", "button[type=submit]:focus")
    page.keyboard.press("Enter")
    expect(told(page)).to_contain_text(SENT)
    expect(told(page)).to_be_focused()
    (post,) = person.gate.posts()
    assert (post.origin, post.status) == (fresh.shuffler, 202)
    assert len(post.body) == Wire.of(fresh.survey).report_bytes
    assert not {name.lower() for name in post.headers} & {"cookie", "authorization", "referer"}
    assert person.complaints == []

    assert fresh.opened() == people
    (batch,) = fresh.collect()
    analyst = visit(fresh)
    page = analyst.page
    page.goto(fresh.analyzer)
    page.get_by_label("Token").fill(fresh.token())
    page.keyboard.press("Enter")
    page.get_by_role("link", name=fresh.survey.question).click()
    chart = page.locator("figure#chart")
    expect(chart.get_by_role("img")).to_have_count(len(fresh.survey.answers))
    reaches = chart.locator(".bar line.reach").all()[::3]  # each is followed by its two ends
    assert len(reaches) == len(fresh.survey.answers)
    assert all(reach.bounding_box()["width"] > 20 for reach in reaches)
    expect(page.locator("#heading")).to_contain_text(f"valid reports{people}")
    assert batch in "".join(link.get_attribute("href") for link in page.locator("#batches a").all())
    assert analyst.complaints == []


def offline(visit, site):
    """Somebody whose report waits, and was never sent."""
    person = visit(site)
    page = ready(person.page, site.page)
    kept_for_later(page, site)
    person.stops()
    answer(page)
    expect(told(page)).to_contain_text(WAITING)
    return person, page


def unanswered(visit, site):
    """Somebody whose report arrives, and who does not hear of it."""
    person = visit(site)
    page = ready(person.page, site.page)
    kept_for_later(page, site)
    person.gate.loses_answers = True
    answer(page)
    expect(told(page)).to_contain_text(WAITING)
    person.gate.wait_for_post(page)  # the page says that it waits before its first try has failed
    return person, page


def test_what_was_drawn_offline_is_sent_once_online(fresh, visit):
    person, page = offline(visit, fresh)
    (row,) = waiting_rows(page)
    page.reload()
    expect(told(page)).to_contain_text(WAITING)
    assert waiting_rows(page)[0]["messages"] == row["messages"]
    assert person.gate.posts() == []

    person.goes_on()
    expect(told(page)).to_contain_text(SENT)
    (post,) = person.gate.posts()
    assert post.status == 202
    assert fresh.read(post.body) == bytes(row["messages"])
    assert fresh.opened() == 1
    page.reload()
    expect(told(page)).to_contain_text(ALREADY)
    assert len(person.gate.posts()) == 1


def test_a_report_whose_answer_is_lost_is_sent_again_byte_for_byte_and_counts_once(fresh, visit):
    person, page = unanswered(visit, fresh)
    kept = sealed(page)
    assert fresh.opened() == 1

    person.stops()
    page.reload()
    expect(told(page)).to_contain_text(WAITING)
    assert sealed(page) == kept
    person.gate.loses_answers = False
    person.goes_on()
    try_now(page)
    expect(told(page)).to_contain_text(SENT)
    *lost, last = person.gate.posts()
    assert lost
    assert last.status == 202
    assert {post.body for post in (*lost, last)} == {kept}
    assert fresh.opened() == 1


def test_a_page_closed_while_it_waits_is_sent_by_the_next_visit(fresh, visit):
    person, page = unanswered(visit, fresh)
    kept = sealed(page)
    page.close()
    person.gate.loses_answers = False
    page = person.context.new_page()
    page.goto(fresh.page)
    try_now(page)
    expect(told(page)).to_contain_text(re.compile(f"{SENT}|{ALREADY}"))
    assert person.gate.posts()[-1].status == 202
    assert {post.body for post in person.gate.posts()} == {kept}
    assert fresh.opened() == 1


def test_a_report_that_is_forgotten_while_it_waits_is_said_not_to_be_sent(fresh, visit):
    person, page = offline(visit, fresh)
    page.get_by_text("Forget everything kept on this device").click()
    page.get_by_role("button", name="Forget").click()
    said = page.get_by_role("status").filter(has_text="Deleted.")
    expect(said).to_have_text("Deleted. Your report was still waiting, and nothing was sent.")
    expect(said).to_be_focused()
    expect(said).to_be_in_viewport()
    expect(told(page)).to_contain_text("This device does not take part.")
    expect(told(page)).not_to_contain_text(ALREADY)
    assert waiting_rows(page) == []
    person.goes_on()
    page.reload()
    expect(told(page)).to_contain_text("This device does not take part.")
    assert person.gate.posts() == []
    assert fresh.opened() == 0


def test_a_report_of_which_a_try_was_made_is_not_said_to_be_unsent(fresh, visit):
    _, page = unanswered(visit, fresh)
    page.get_by_text("Forget everything kept on this device").click()
    page.get_by_role("button", name="Forget").click()
    expect(page.locator(".forgotten")).to_contain_text("If an earlier attempt arrived")


@pytest.fixture
def site(fresh):
    """Somebody else's site, whose policy is strict, with the survey in it by one script tag."""
    with browser_kit.embedding_site(*fresh.origins, fresh.survey.id) as origin:
        yield origin


def test_one_script_tag_asks_and_sends_from_another_site(fresh, site, visit):
    person = visit(fresh, site)
    page = person.page
    page.goto(site)
    group = page.get_by_role("group", name=fresh.survey.question)
    expect(group).to_be_visible()
    group.get_by_label("on foot").check()
    assert browser_kit.axe(page) == []
    page.get_by_role("button", name="Send").click()
    sent = page.get_by_role("status").filter(has_text="Sent. Thank you.")
    expect(sent).to_be_visible()
    least = fresh.survey.batches.minimum
    expect(sent).to_contain_text(f"Results appear once at least {least} reports are together")
    (post,) = person.gate.posts()
    assert (post.origin, post.status) == (fresh.shuffler, 202)
    assert fresh.opened() == 1
    assert {each.origin for each in person.gate.passed} == {site, *fresh.origins}
    assert not any("Cookie" in each.headers for each in person.gate.passed)
    assert person.complaints == []
    kept = person.context.storage_state(indexed_db=True)
    assert [each["origin"] for each in kept["origins"]] == [site]


COMPACT = """() => {
  const whole = document.querySelector("shoal-survey");
  const made = whole.cloneNode();
  made.setAttribute("compact", "");
  whole.after(made);
}"""


def test_a_compact_survey_takes_less_room_and_hides_nothing(fresh, site, visit):
    page = visit(fresh, site).page
    page.goto(site)
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    page.evaluate(COMPACT)
    whole, compact = page.locator("shoal-survey").all()
    expect(compact.get_by_role("button", name="Send")).to_be_enabled()
    heights = [each.bounding_box()["height"] for each in (whole, compact)]
    assert heights[1] < 0.6 * heights[0]
    promise = compact.locator(".promise")
    expect(promise).to_be_hidden()
    compact.get_by_text("What you are promised").click()
    expect(promise).to_contain_text(f"at least {fresh.survey.batches.minimum}")
    expect(compact.locator(".checked")).to_contain_text("your browser has itself computed ε")
    assert browser_kit.axe(page) == []


# Ordinary rules of sites, and what people see of a survey, whatever those rules are.
RULES = """
html { font-size: 62.5%; color-scheme: light dark; }
* { margin: 0; padding: 0; border: 0; color: #222; background: none; font: 10px/1 serif;
    text-transform: uppercase; letter-spacing: .5em; text-align: center; --ink: #222; }
shoal-survey { color: #222; font-size: 8px; }
"""
STYLED = """(rules) => {
  if (rules) {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(rules);
    document.adoptedStyleSheets = [sheet];
  }
  const box = document.querySelector("shoal-survey").shadowRoot.querySelector(".box");
  const looks = ["color", "backgroundColor", "fontSize", "fontFamily", "lineHeight", "textAlign",
                 "letterSpacing", "textTransform", "paddingTop", "borderTopWidth", "marginTop"];
  return [box, ...box.querySelectorAll("*")].map((part) => {
    const style = getComputedStyle(part);
    return [part.className || part.tagName, ...looks.map((look) => style[look])];
  });
}"""


def test_a_sites_styles_do_not_reach_the_question(fresh, site, visit):
    page = visit(fresh, site).page
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    page.goto(site)
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    scheme = "html { color-scheme: light dark; }"
    alone, among = (page.evaluate(STYLED, rules) for rules in (scheme, RULES))
    assert len(alone) > 20
    assert among == alone
    assert page.evaluate("getComputedStyle(document.documentElement).fontSize") == "10px"
    page.evaluate("document.querySelector('shoal-survey').hidden = true")
    expect(page.get_by_role("button", name="Send")).to_be_hidden()


def test_questions_of_which_one_is_skipped_and_one_is_by_groups(browser, visit):  # noqa: ARG001 - where none is
    devices = (RandomizedResponse(k=3, epsilon=1.0), RandomizedResponse(k=4, epsilon=1.0))
    asked = (*several(devices).questions, by_groups("by"))
    with place(questions=asked, admission=Open(dishonest=0)) as where:
        people = where.survey.batches.target
        where.send([{"q0": "a0", "q1": "a2", "by": ("north", "yes")}] * (people - 2))
        person = visit(where)
        page = ready(person.page, where.page)
        expect(page.get_by_role("heading", level=1)).to_have_text(where.survey.name)
        questions = ["Question 0?", "Question 1?", "Do you agree?"]
        expect(page.locator(".asked .question")).to_have_text(questions)
        expect(page.locator(".leaves")).to_have_text(
            "One report leaves your device, and chance decides for each question separately what "
            "it says."
        )
        odds = page.locator(".asked .odds")
        expect(odds).to_have_count(3)
        expect(odds.locator("p").first).to_be_hidden()
        odds.first.locator("summary").click()
        expect(odds.locator("p").first).to_contain_text("yours in about 58 of 100 cases")
        assert "(none)" not in page.locator("form").inner_text()
        assert browser_kit.axe(page) == []
        page.get_by_role("button", name="Send").click()
        expect(page.locator(".failed")).to_contain_text("Choose an answer first")
        page.locator(".asked").nth(1).get_by_label("a1").check()
        page.get_by_role("group", name="Your region").get_by_label("south").check()
        page.get_by_role("button", name="Send").click()
        expect(told(page)).to_contain_text(SENT)
        for empty in page.locator(".asked").all():
            expect(empty).to_be_hidden()
        (post,) = person.gate.posts()
        assert len(post.body) == Wire.of(where.survey).report_bytes
        assert len(where.read(post.body)) == 3
        assert person.complaints == []
        with browser_kit.embedding_site(*where.origins, where.survey.id) as origin:
            person = visit(where, origin)
            page = person.page
            page.goto(origin)
            expect(page.get_by_role("button", name="Send")).to_be_enabled()
            page.locator(".asked").first.get_by_label("I prefer not to say").check()
            page.locator(".asked").nth(1).get_by_label("a0").check()
            page.locator(".asked").last.get_by_label("yes").check()
            page.get_by_role("button", name="Send").click()
            expect(told(page)).to_contain_text(SENT)
            assert browser_kit.axe(page) == []
        assert where.opened() == people
        (batch,) = where.collect()
        page = visit(where).page
        page.goto(where.analyzer)
        page.get_by_label("Token").fill(where.token())
        page.keyboard.press("Enter")
        page.get_by_role("link", name=where.survey.name).click()
        expect(page.locator("#found h3")).to_have_text(questions)
        expect(page.locator("figure#chart").get_by_role("img")).to_have_count(3)
        expect(page.locator("figure#chart-2").get_by_role("img")).to_have_count(4)
        found = page.locator("#found").inner_text()
        assert "I prefer not to say" in found
        assert "(none)" not in found
        assert browser_kit.axe(page) == []
        page.goto(f"{where.analyzer}/dashboard/surveys/{where.survey.id}/batches/{batch}")
        expect(page.locator("figure.chart")).to_have_count(2 + 4)
