"""What the dashboard's script does in a real browser: it follows, while somebody looks."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from browser_kit import PATIENCE, PHONE, built_scripts, chromium
from dashboard_kit import shown
from factories import DAY
from service_site import Analyzer
from shoal.mechanisms.response import RandomizedResponse

FIRST, SECOND, THIRD = "11" * 16, "22" * 16, "33" * 16
EVERY = 15_000  # milliseconds


@pytest.fixture
def analyzer(tmp_path):
    made = Analyzer(tmp_path / "a")
    made.survey = made.asking()
    made.send(made.survey, [0] * 60, batch=FIRST)
    made.collect(made.survey)
    yield made
    made.close()


def publish(analyzer, batch, seed):
    analyzer.send(analyzer.survey, [0] * 60, batch=batch, seed=seed)
    analyzer.collect(analyzer.survey)


def look(page, state):
    """As if the tab were left, or come back to."""
    page.evaluate(
        """state => {
            Object.defineProperty(document, "visibilityState", {value: state, configurable: true});
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        state,
    )


def test_an_open_page_follows_what_is_published_in_place(analyzer):
    built_scripts()
    with shown(analyzer, public_results=True) as client, chromium() as browser:
        page = browser.new_page(viewport={"width": 1200, "height": 700})
        asked, came, errors = [], [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("framenavigated", lambda frame: came.append(frame.url))
        page.on("pageerror", lambda error: errors.append(error))  # noqa: PLW0108 - it marks it
        page.clock.install()
        page.goto(str(client.base_url.join(f"/dashboard/surveys/{analyzer.survey.id}")))
        page.locator("#crowd .curve").first.wait_for(timeout=PATIENCE)
        page.evaluate("scrollTo(0, 500)")
        page.locator("#curve-table summary").click()
        page.locator("#funnel-title").click()
        page.evaluate("document.querySelector('#found').marked = true")

        publish(analyzer, SECOND, 2)
        page.clock.fast_forward(EVERY)
        page.locator(".tiles", has_text="120").wait_for(timeout=PATIENCE)
        assert page.locator("#batches tbody tr").count() == 2
        assert page.locator("#curve-table").get_attribute("open") is not None
        assert page.locator("#funnel-fold").get_attribute("open") is None
        assert page.evaluate("document.querySelector('#found').marked") is None
        assert len(came) == 1
        assert page.evaluate("scrollY") > 0

        look(page, "hidden")
        publish(analyzer, THIRD, 3)
        before = len(asked)
        page.clock.fast_forward(10 * EVERY)
        assert len(asked) == before
        look(page, "visible")
        page.locator(".tiles", has_text="180").wait_for(timeout=PATIENCE)
        assert len(came) == 1
        assert not errors
        assert len(asked) > before
        assert all(url.startswith(str(client.base_url)) for url in asked)


PANELS = ("funnel", "budget", "crowd", "collusion", "batches", "rejected", "keys", "privacy")


def test_on_a_phone_the_page_of_a_survey_is_short_and_its_panels_unfold(analyzer):
    built_scripts()
    survey = analyzer.asking(
        name="towns",
        question="In which of these towns would you like to live, if you could choose one of them?",
        device=RandomizedResponse(k=40, epsilon=4.0),
        answers=tuple(f"town number {number}" for number in range(40)),
        minimum=400,
        epsilon=2.0,
    )
    analyzer.send(survey, [number % 40 for number in range(400)], batch=THIRD)
    analyzer.collect(survey)
    token = analyzer.store.tokens.add("all", None, DAY)
    with shown(analyzer) as client, chromium() as browser, browser.new_context(**PHONE) as context:
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.goto(str(client.base_url.join("/dashboard")))
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("link", name=survey.question).click()
        page.locator("figure#chart").wait_for()
        assert page.evaluate("document.documentElement.scrollHeight") <= 3000
        for name in PANELS:
            content = page.locator(f"#{name} p").last
            expect(content).to_be_hidden()
            page.locator(f"#{name}-title").click()
            expect(content).to_be_visible()
        page.set_viewport_size({"width": 1280, "height": 800})
        page.reload()
        for name in PANELS:
            expect(page.locator(f"#{name} p").last).to_be_visible()
        page.set_viewport_size(PHONE["viewport"])
        page.goto(f"{page.url}#batches")  # where a link to another page of the list leads
        page.reload()
        expect(page.locator("#batches table")).to_be_visible()
        expect(page.locator("#keys table").first).to_be_hidden()
