"""The survey page's script in a browser: whom it asks, and what it asks the browser for."""

from __future__ import annotations

import asyncio
import base64
import subprocess
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

from playwright.sync_api import expect
from starlette.requests import Request

from browser_kit import PATIENCE, built_scripts, chromium, node, store_of
from factories import example
from repository import ROOT
from shoal.service.survey import Party
from shoal.web import assets, pages

ORIGIN = "http://localhost"  # only pages of this machine, or by TLS, have all of WebCrypto
WAITING = """async (surveys) => {
    const fetch = async () => { throw new TypeError("no network"); };
    const client = await inside.client.ShoalClient.open({ fetch });
    for (const each of surveys) {
        const bytes = Uint8Array.from(atob(each), (letter) => letter.charCodeAt(0));
        const survey = await client.survey(bytes);
        await client.report(survey, survey.answers[0]);
    }
    client.close();
}"""
COUNTING = """
    window.asked = 0;
    navigator.storage.persist = async () => { window.asked += 1; return true; };
"""


def survey(name):
    """A survey that is open, with a shuffler of its own."""
    now = int(time.time())
    return example(
        name=name,
        epsilon=1.0,
        not_before=now - 1000,
        not_after=now + 10_000,
        shuffler=Party(url=f"https://{name}.example", fingerprint="5" * 64),
    )


class Machines:
    """An analyzer with these surveys, and shufflers that are away; what was asked of whom."""

    def __init__(self, *surveys):
        self.surveys = {str(each.id): each for each in surveys}
        self.asked = []

    def answer(self, route):
        parts = urlsplit(route.request.url)
        *_, name = parts.path.split("/")
        self.asked.append(parts.hostname)
        if parts.hostname != "localhost":
            route.abort()
        elif parts.path.startswith("/answer/"):
            page = pages.survey_page(self.surveys[name], int(time.time()))
            route.fulfill(body=page.body, headers=dict(page.headers))
        elif name in self.surveys:
            route.fulfill(body=self.surveys[name].to_bytes())
        elif found := assets.asset(name):
            route.fulfill(body=found.body, content_type=found.media_type)
        else:
            route.fulfill(body="", content_type="text/html")


@contextmanager
def visiting(machines):
    """A page in a browser that reaches only these machines, and has no worker."""
    with chromium() as browser:
        context = browser.new_context(service_workers="block")
        context.set_default_timeout(PATIENCE)
        context.route("**", machines.answer)
        context.add_init_script(COUNTING)
        yield context.new_page()


def answer_offline(page, surveys):
    """Reports of these that wait, made by the client without a network."""
    script = subprocess.run(
        [node().node, "test/printed.mjs"],
        cwd=ROOT / "clients" / "browser",
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout
    page.goto(ORIGIN)
    page.add_script_tag(content=script)
    page.evaluate(WAITING, [base64.b64encode(each.to_bytes()).decode() for each in surveys])


def tries(page):
    """How often the report of each survey was tried."""
    rows = store_of(page)["items"]
    return {row["survey"]: row["waits"] for row in rows if row["key"].startswith("report ")}


def test_a_page_sends_only_what_its_policy_lets_out():
    built_scripts()
    # Reports are tried by name: the other one would be first.
    other, own = sorted((survey("one"), survey("two")), key=lambda each: str(each.id))
    machines = Machines(own, other)
    with visiting(machines) as page:
        answer_offline(page, [own, other])
        before = tries(page)
        assert before == {str(own.id): 1, str(other.id): 1}
        page.goto(f"{ORIGIN}/answer/{own.id}")
        page.get_by_role("button", name="Try now").click()
        expect(page.locator(".told")).to_contain_text("Reason: ")
        after = tries(page)
    assert after[str(own.id)] > 1
    assert after[str(other.id)] == 1
    assert urlsplit(own.shuffler.url).hostname in machines.asked
    assert urlsplit(other.shuffler.url).hostname not in machines.asked


def test_the_browser_is_asked_once_to_keep_reports_and_only_when_there_is_one():
    built_scripts()
    asked = survey("one")
    with visiting(Machines(asked)) as page:
        page.goto(f"{ORIGIN}/answer/{asked.id}")
        page.get_by_label("bus").check()
        assert page.evaluate("window.asked") == 0
        page.get_by_role("button", name="Send").click()
        page.get_by_role("button", name="Try now").click()
        expect(page.locator(".told")).to_contain_text("Reason: ")
        assert page.evaluate("window.asked") == 1


def test_the_worker_may_ask_every_shuffler():
    built_scripts()
    request = Request({"type": "http", "method": "GET", "headers": []})
    served = asyncio.run(pages._worker(request))
    assert served.headers["content-security-policy"] == "default-src 'none'; connect-src *"
