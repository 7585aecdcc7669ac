"""What the dashboard's script does in a real browser: it follows, while somebody looks."""

from __future__ import annotations

import pytest

from analyzer_kit import Analyzer
from browser_kit import PATIENCE, built_scripts, chromium
from dashboard_kit import shown

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
        page.evaluate("document.querySelector('#found').marked = true")

        publish(analyzer, SECOND, 2)
        page.clock.fast_forward(EVERY)
        page.locator(".tiles", has_text="120").wait_for(timeout=PATIENCE)
        assert page.locator("#batches tbody tr").count() == 2
        assert page.locator("#curve-table").get_attribute("open") is not None
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
