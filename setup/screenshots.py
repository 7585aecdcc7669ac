"""Take the pictures of the documentation: a collection with invented people, seen in Chromium.

    python setup/screenshots.py docs/screenshots

Both parties run as real processes, three batches of people answer, and a fourth is under way.
Ports, keys and noise are new each time; the people, and what they answer, are not.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

import components
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.clock import system_clock
from shoal.service.ops import up
from shoal.service.ops.invitations import link
from shoal.service.ops.up import Embedded
from shoal.service.survey import Party, Survey

LARGEST = 200_000  # bytes of a picture
LATEST = 60_000  # milliseconds until a page tells what it computed
PEOPLE = 1500
BATCHES = 3
QUESTION = "How did you come here today?"
ANSWERS = ("by bicycle", "by bus or train", "on foot", "by car", "in another way", "I did not")
MARGIN = 12  # pixels below
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 900}


def survey_of(shuffler: Party, analyzer: Party, now: int) -> Survey:
    """A survey as of ``shoal up``, with a name and a purpose."""
    about = {"question": QUESTION, "answers": ANSWERS, "people": PEOPLE}
    return replace(
        up.trial_survey(shuffler, analyzer, now, **about),  # type: ignore[arg-type]
        name="ways to work",
        purpose="To plan paths, stops and stands for bicycles.",
    )


class Studio:
    """A browser that opens pages of one look, and a directory for their pictures."""

    def __init__(self, browser: Browser, directory: Path) -> None:
        self._browser = browser
        self._directory = directory

    @contextmanager
    def page(self, size: dict[str, int], *, scheme: str = "light") -> Iterator[Page]:
        """A page of somebody who has never been there."""
        context = self._browser.new_context(
            viewport=size,  # type: ignore[arg-type]
            color_scheme=scheme,  # type: ignore[arg-type]
            device_scale_factor=2 if size is PHONE else 1,
            locale="en-GB",
            reduced_motion="reduce",
        )
        try:
            yield context.new_page()
        finally:
            context.close()

    def take(self, page: Page, name: str, *, until: str | None = None) -> None:
        """A picture of a page, down to the end of an element, in few bytes."""
        size = page.viewport_size or DESKTOP
        page.evaluate("scrollTo(0, 0)")  # boxes are counted from what is seen
        box = page.locator(until).bounding_box() if until else None
        height = box["y"] + box["height"] + MARGIN if box else size["height"]
        raw = page.screenshot(
            full_page=True, clip={"x": 0, "y": 0, "width": size["width"], "height": height}
        )
        path = self._directory / f"{name}.png"
        with Image.open(io.BytesIO(raw)) as picture:
            few = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        few.save(path, optimize=True)
        path.chmod(0o644)  # services make what they write their own
        weight = path.stat().st_size
        sys.stdout.write(f"{path}: {few.width} x {few.height}, {weight:,} bytes\n")
        if weight > LARGEST:
            sys.exit(f"{path} is larger than {LARGEST:,} bytes")


def answered(services: up.Local) -> None:
    """Batches that are published, and half of one that is not."""
    for known in range(BATCHES):
        services.send(services.begin(PEOPLE, before=known), lambda _done, _all: None)
        services.wait_for_more(known)
    job = services.begin(PEOPLE // 2, before=BATCHES)
    services.send(job, lambda _done, _all: None)


def token(directory: Path) -> str:
    """A token to read everything with."""
    home = Embedded(directory=directory).home("analyzer")
    database = home.database()
    try:
        return AnalyzerStore(database, home.directory, system_clock).tokens.add(
            "the analyst", None, 3600
        )
    finally:
        database.close()


def survey_pages(studio: Studio, links: list[str]) -> None:
    """Before an answer at both widths, and after it."""
    for (name, size), address in zip((("phone", PHONE), ("desktop", DESKTOP)), links, strict=False):
        with studio.page(size) as page:
            page.goto(address)
            expect(page.get_by_role("button", name="Send")).to_be_enabled()
            page.get_by_label(ANSWERS[0]).check()
            studio.take(page, f"survey-{name}", until=".promise li:nth-child(3)")
            if size is PHONE:
                page.get_by_role("button", name="Send").click()
                expect(page.locator(".told")).to_contain_text("Sent.")
                studio.take(page, "survey-sent-phone")


def dashboard_pages(studio: Studio, analyzer: str, secret: str) -> None:
    """The dashboard of a survey in both schemes, and the report that it hands out."""
    for scheme in ("light", "dark"):
        with studio.page(DESKTOP, scheme=scheme) as page:
            page.goto(f"{analyzer}/dashboard/login")
            page.get_by_label("Token").fill(secret)
            page.keyboard.press("Enter")
            page.get_by_role("link", name=QUESTION).click()
            page.locator("figure#chart").wait_for()
            expect(page.get_by_text("being computed")).to_have_count(0, timeout=LATEST)
            if scheme == "light":
                with page.expect_download() as waited:
                    page.get_by_role("link", name="report.html").click()
                report(studio, waited.value.path())
            page.locator("details#table").evaluate("(table) => { table.open = false; }")
            studio.take(page, f"dashboard-{scheme}", until="#collusion")


def report(studio: Studio, path: Path) -> None:
    """The page that is handed on, as it opens from a file."""
    with studio.page(DESKTOP) as page:
        page.set_content(path.read_text(encoding="utf-8"))
        studio.take(page, "report", until="main > section:nth-of-type(3)")


def main(target: Path) -> int:
    """All pictures; nothing is left running."""
    found = components.recorded("chromium")
    if found is None:
        sys.stderr.write(f"there is no Chromium: {components.reason('chromium')}\n")
        return 1
    target.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as directory,
        up.running(Path(directory) / "trial", survey_of) as services,
    ):
        services.wait_until_ready()
        answered(services)
        secret = token(services.embedded.directory)
        links = [link(services.survey, each) for each in services.spare_invitations()]
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=found[0], args=list(components.CHROMIUM_FLAGS)
            )
            studio = Studio(browser, target)
            dashboard_pages(studio, services.survey.analyzer.url, secret)
            survey_pages(studio, links)
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
