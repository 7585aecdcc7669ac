"""The documentation site as `make docs` built it: links lead somewhere, and everybody can read it.

The pages are opened as files, in a real browser that is offline: nothing is fetched from anywhere.
"""

from __future__ import annotations

import itertools
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import expect

import browser_kit
import components
from repository import ROOT

SITE = ROOT / "docs" / "_build" / "html"
SECTIONS = ["start", "analyse", "account", "collect", "operate", "theory", "reference", "develop"]
LOADED = {"stylesheet", "icon", "preload", "modulepreload"}
LOOKS = (("light", browser_kit.DESKTOP), ("dark", browser_kit.PHONE))
LOOKED_AT = [
    "index.html",
    *(f"{section}/index.html" for section in SECTIONS),
    "start/choosing-epsilon.html",
    "theory/blanket.html",
    "operate/two-operators.html",
    "reference/commands.html",
    "reference/http.html",
    "reference/glossary.html",
    "reference/api/accounting.html",
    "account/calculator.html",
    "notebooks/bounds.html",
    "search.html",
]


class Page(HTMLParser):
    """What a page links to, loads and can be linked at; and the levels of its headings."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.headings: list[int] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors.update(filter(None, (values.get("id"), values.get("name"))))
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag in {"script", "img", "iframe", "source"} and values.get("src"):
            self.loads.append(values["src"])
        if tag == "link" and values.get("rel") in {
            "stylesheet",
            "icon",
            "preload",
            "modulepreload",
        }:
            self.loads.append(values["href"])
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))


@cache
def pages() -> dict[Path, Page]:
    assert (SITE / "index.html").is_file(), "the site is not built: run make docs"
    return {
        path: Page(path) for path in sorted(SITE.rglob("*.html")) if "_static" not in path.parts
    }


def target(page: Path, link: str) -> tuple[Path, str] | None:
    """The file and the anchor that a link leads to; None if that is elsewhere."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    return path, unquote(parts.fragment)


def test_every_link_leads_to_a_page_and_to_a_place_on_it():
    broken = []
    for path, page in pages().items():
        for link in page.links + page.loads:
            there = target(path, link)
            if there is None:
                continue
            file, anchor = there
            if file.name == "calculator.js" and components.recorded("node") is None:
                continue  # the page says that its script was not built
            known = pages().get(file)
            if not file.is_file() or (known and anchor and anchor not in known.anchors):
                broken.append(f"{path.relative_to(SITE)}: {link}")
    assert broken == []


def test_pages_load_nothing_from_elsewhere():
    outside = {
        (str(path.relative_to(SITE)), link)
        for path, page in pages().items()
        for link in page.loads
        if urlsplit(link).netloc
    }
    styles = [path for path in SITE.rglob("*.css") if "url(http" in path.read_text("utf-8")]
    assert (outside, styles) == (set(), [])


def test_options_can_be_copied():
    dashed = re.compile(r"(?<![\w–])–[a-z]")  # what prose makes of the two hyphens of an option
    found = {str(path): dashed.findall(path.read_text("utf-8")) for path in pages()}
    assert {path: dashes for path, dashes in found.items() if dashes} == {}


def test_headings_go_one_level_deeper_at_a_time():
    wrong = {}
    for path, page in pages().items():
        levels = [0, *page.headings]
        steps = [after - before for before, after in itertools.pairwise(levels)]
        if page.headings.count(1) != 1 or max(steps, default=0) > 1:
            wrong[str(path.relative_to(SITE))] = page.headings
    assert wrong == {}


@pytest.mark.parametrize(
    "wanted",
    [
        "start/choosing-epsilon.html",
        "theory/optimal-clones.html",
        "reference/commands.html",
        "reference/api/accounting.html",
        "collect/class.html",
        "account/calculator.html",
    ],
)
def test_what_newcomers_look_for_is_two_clicks_away(wanted):
    reached = {SITE / "index.html"}
    for _ in range(2):
        links = {(path, link) for path in reached for link in pages()[path].links}
        there = {found[0] for path, link in links if (found := target(path, link))}
        reached |= there & set(pages())
    assert SITE / wanted in reached


@pytest.fixture(scope="module")
def browser():
    with browser_kit.chromium() as browser:
        yield browser


@pytest.fixture
def page(browser):
    context = browser.new_context(offline=True, reduced_motion="reduce")
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("name", LOOKED_AT)
def test_everybody_can_read_it(page, name):
    problems = {}
    for scheme, look in LOOKS:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.set_viewport_size(look["viewport"])
        page.goto((SITE / name).as_uri())
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        found = browser_kit.axe(page) + ([f"{wide} pixels too wide"] if wide > 0 else [])
        if found:
            problems[scheme] = found
    assert problems == {}


def test_the_search_works_offline_and_by_keyboard(page):
    page.goto((SITE / "index.html").as_uri())
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_contain_text("Skip to main content")
    page.keyboard.press("Control+k")
    page.keyboard.type("carriers")
    page.keyboard.press("Enter")
    results = page.locator("#search-results a")
    expect(results.first).to_be_visible(timeout=browser_kit.PATIENCE)
    addresses = results.evaluate_all("all => all.map(each => each.href)")
    assert any("theory/near-central-carriers.html" in each for each in addresses)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("--messages-cap", "reference/commands.html#shoal-plan-messages-cap"),
        ("required_n", "reference/api/accounting.html#shoal.required_n"),
        ("blanket", "reference/glossary.html#blanket"),
    ],
)
def test_options_names_and_words_are_found(page, words, wanted):
    page.goto((SITE / "search.html").as_uri() + "?q=" + words)
    results = page.locator("#search-results li a")
    expect(results.first).to_be_visible(timeout=browser_kit.PATIENCE)
    expect(page.locator(f"#search-results a[href$='{wanted}']")).to_have_count(
        1, timeout=browser_kit.PATIENCE
    )


def test_notebooks_can_be_taken_along(page):
    page.set_viewport_size(browser_kit.DESKTOP["viewport"])
    page.goto((SITE / "notebooks/survey.html").as_uri())
    link = page.get_by_role("link", name="Download this notebook")
    expect(link).to_be_visible()
    file = (SITE / "notebooks" / link.get_attribute("href")).resolve()
    assert file.read_bytes() == (ROOT / "docs/notebooks/survey.ipynb").read_bytes()


def test_every_section_is_in_the_navigation_of_every_page(page):
    page.set_viewport_size(browser_kit.DESKTOP["viewport"])
    page.goto((SITE / "operate/backup.html").as_uri())
    for section in SECTIONS:
        link = page.locator(".bd-header").get_by_role("link", name=section.capitalize())
        expect(link.first).to_be_visible()
