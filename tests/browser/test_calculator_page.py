"""The calculator of the documentation in a real browser, opened as a file.

The form is that of the page's own Markdown, in a page of its own with the two themes of the site.
"""

from __future__ import annotations

import re
import shutil
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from playwright.sync_api import expect

import browser_kit
import shoal
from repository import ROOT

DOCS = ROOT / "docs"
ANY = {"e0": "3", "n": "20000", "delta": "1e-5"}
FRAME = """<!doctype html>
<html lang="en" data-theme="light"><head><meta charset="utf-8"><title>The calculator</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
* { box-sizing: border-box }
body { margin: 0 1rem; background: var(--pst-color-background, #fff); color: #222832 }
html[data-theme="dark"] body { color: #ced6dd }
html[data-theme="dark"] a { color: #7fc4ff }
html[data-theme="dark"] { --pst-color-background: #14181e; --pst-color-text-base: #ced6dd;
  --pst-color-surface: #29313d; --pst-color-border: #48566b; --pst-color-text-muted: #9ca4af }
</style></head><body><main><h1>The calculator</h1>%s</main></body></html>
"""


@pytest.fixture(scope="module")
def site(browser, tmp_path_factory):  # noqa: ARG001 - where no browser is, nothing is made
    """The page with its script and its style, as the site has them; its address."""
    folder = tmp_path_factory.mktemp("site")
    for name in ("account", "_static"):
        (folder / name).mkdir()
    for name in ("calculator.js", "calculator.css"):
        shutil.copy(DOCS / "_static" / name, folder / "_static")
    text = (DOCS / "account" / "calculator.md").read_text(encoding="utf-8")
    (form,) = re.findall(r"^```\{raw\} html\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    page = folder / "account" / "calculator.html"
    page.write_text(FRAME % form, encoding="utf-8")
    return page.as_uri()


@pytest.fixture
def person(browser):
    """Somebody without any network."""
    with browser_kit.visitor(browser) as found:
        yield found


def settled(page):
    """The answer is complete, and is what it says."""
    expect(page.locator(".calculator-answer")).not_to_have_attribute("aria-busy", "true")
    return page.locator(".calculator-result").inner_text()


def fill(page, **fields):
    for name, value in fields.items():
        page.locator(f"#calculator-{name}").fill(value)


def shown_epsilon(result):
    assert result.startswith("ε ≤ ")
    return float(result.removeprefix("ε ≤ "))


def test_a_question_is_typed_answered_and_linked(person, site):
    page = person.page
    page.goto(site)
    settled(page)
    expect(page.get_by_text("Nothing can be computed here")).to_have_count(0)
    fill(page, **ANY)
    page.keyboard.press("Enter")
    expect(page.locator(".calculator-sentence")).to_contain_text("20,000 shuffled reports")
    epsilon = shown_epsilon(settled(page))
    library = shoal.amplify(local_epsilon=3, n=20_000, delta=1e-5).epsilon
    assert library <= epsilon <= 1.01 * library
    status = page.get_by_role("status").filter(has_text="20,000 shuffled reports")
    expect(status).to_contain_text("optimal clones")
    table = page.get_by_role("region", name="Figures")
    expect(table.get_by_role("row", name=re.compile("^fmt21-closed"))).to_contain_text(
        "Theorem 3.1"
    )
    expect(table.get_by_role("row", name=re.compile("^efmrtt19"))).to_contain_text("needs ε₀ ≤ 1/2")
    points = page.locator(".calculator-picture path.ours").get_attribute("d").count("L")
    assert points == 32
    page.get_by_text("Do this on the command line or in Python").click()
    command = "$ shoal amplify --local-epsilon 3 --n 20000 --delta 1e-5"
    expect(page.locator(".calculator-shell")).to_have_text(command)

    # Another randomizer, by the keyboard alone.
    page.get_by_label("Randomizer").focus()
    page.keyboard.type("grr")
    fill(page, k="8")
    expect(page.locator(".calculator-sentence")).to_contain_text("k-ary randomized response")
    epsilon = shown_epsilon(settled(page))
    device = shoal.RandomizedResponse(k=8, epsilon=3)
    library = shoal.amplify(device, n=20_000, delta=1e-5).epsilon
    assert library <= epsilon <= 1.01 * library
    link = page.url
    assert "randomizer=grr" in link

    again = person.context.new_page()
    again.goto(link)
    assert shown_epsilon(settled(again)) == epsilon
    for name, value in (ANY | {"k": "8"}).items():
        assert float(again.locator(f"#calculator-{name}").input_value()) == float(value)
    # A link that is followed on the page itself asks its question, too.
    again.evaluate("location.hash = '#ask=amplify&e0=1&n=5000&delta=1e-6'")
    expect(again.locator(".calculator-sentence")).to_contain_text("5,000 shuffled reports")
    assert person.complaints == []


def test_bad_input_is_said_by_its_field_and_nothing_moves(person, site):
    page = person.page
    page.goto(site)
    settled(page)
    box = page.locator(".calculator-answer").bounding_box()
    people = page.get_by_label("People, n")
    for text, line in (
        ("many", "Not a number: write 100000 or 1e5."),
        ("1e10", "At most 1,000,000,000 here."),
        ("", "Needed: 2 to 1,000,000,000."),
    ):
        people.fill(text)
        expect(page.locator("#calculator-n-note")).to_contain_text(line)
        expect(people).to_have_attribute("aria-invalid", "true")
    assert page.locator(".calculator-answer").bounding_box()["y"] == box["y"]
    people.fill("1e4")
    expect(people).not_to_have_attribute("aria-invalid", "true")
    expect(page.locator("#calculator-n-note")).to_be_empty()
    expect(page.locator(".calculator-sentence")).to_contain_text("10,000 shuffled reports")
    settled(page)


def test_a_delta_that_protects_nobody_is_warned_of_in_the_words_of_the_library(person, site):
    page = person.page
    page.goto(f"{site}#ask=amplify&e0=1&n=1000&delta=0.1")
    assert settled(page) == "ε ≤ 0"
    warning = page.locator(".calculator-warning")
    (library,) = shoal.amplify(local_epsilon=1, n=1000, delta=0.1).warnings
    expect(warning).to_have_text(f"Warning: {library}.")
    page.get_by_label("How much noise, and what error?").check(force=True)
    fill(page, delta="0.1")
    expect(page.locator(".calculator-result")).to_contain_text("Run")
    expect(warning).to_have_text(f"Warning: {library}.")
    fill(page, delta="1e-6")
    expect(warning).to_be_empty()


def test_epsilon_is_not_rounded_beyond_local_epsilon(person, site):
    page = person.page
    page.goto(f"{site}#ask=amplify&e0=3&n=4&delta=1e-9")
    assert settled(page) == "ε ≤ 3"
    expect(page.locator(".calculator-sentence")).to_contain_text("holds without any shuffling")
    expect(page.locator(".calculator-table")).not_to_contain_text("3.001")


def test_each_question_has_its_own_delta_and_an_empty_one_is_the_default(person, site):
    page = person.page
    page.goto(site)
    settled(page)
    delta = page.get_by_label("δ", exact=True)
    expect(delta).to_have_value("")
    expect(delta).to_have_attribute("placeholder", "1e-6")
    fill(page, n="1e8")
    expect(delta).to_have_attribute("placeholder", "1e-9")
    expect(page.locator(".calculator-sentence")).to_contain_text("at δ = 1e-9")
    fill(page, n="50000", delta="1e-4")
    page.get_by_label("How much noise, and what error?").check(force=True)
    expect(delta).to_have_value("")
    expect(page.locator(".calculator-shell")).to_contain_text(
        "plan --epsilon 1 --n 50000 --delta 1e-6"
    )
    fill(page, delta="1e-8")
    page.get_by_label("How private are shuffled reports?").check(force=True)
    expect(delta).to_have_value("1e-4")
    page.get_by_label("How much noise, and what error?").check(force=True)
    expect(delta).to_have_value("1e-8")


GREY = "grayscale(1)"
EDIT = """([name, value]) => {
  const field = document.getElementById(`calculator-${name}`);
  field.value = value;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  const find = (name) => document.querySelector(`.calculator-${name}`);
  const filter = (name) => getComputedStyle(find(name)).filter;
  return {
    hint: find("hint").textContent,
    copied: find("copied").textContent,
    filters: ["status", "picture", "table", "library"].map(filter),
  };
}"""


def test_an_edit_greys_the_old_answer_and_what_was_said_of_its_link(person, site):
    page = person.page
    page.goto(site)
    first = settled(page)
    hint, copied = page.locator(".calculator-hint"), page.locator(".calculator-copied")
    expect(hint).to_be_empty()
    page.get_by_role("button", name="Copy link").click()
    expect(copied).not_to_be_empty()
    edited = page.evaluate(EDIT, ["n", "5000"])
    assert edited["hint"] == "Edited: press Compute."
    assert edited["copied"] == ""
    assert set(edited["filters"]) == {GREY}
    page.get_by_role("button", name="Compute").click()
    expect(page.locator(".calculator-sentence")).to_contain_text("5,000 shuffled reports")
    expect(hint).to_be_empty()
    assert settled(page) != first

    # What cannot be asked leaves the answer grey until its own question is back.
    invalid = page.evaluate(EDIT, ["n", "20.000"])
    assert invalid["hint"] == "Correct the marked field, then press Compute."
    page.get_by_role("button", name="Compute").click()
    expect(hint).to_have_text(invalid["hint"])
    expect(page.locator(".calculator-status")).to_have_css("filter", GREY)
    fill(page, n="5000")
    expect(hint).to_be_empty()
    expect(page.locator(".calculator-status")).to_have_css("filter", "none")
    assert person.complaints == []
    page.evaluate(EDIT, ["n", "20.000"])
    assert browser_kit.axe(page) == []  # it asks for the styles once more, which files refuse


def test_a_plan_and_its_errors(person, site):
    page = person.page
    page.goto(site)
    page.get_by_label("How much noise, and what error?").check(force=True)
    fill(page, epsilon="0.5", n="50000", delta="1e-6", k="6")
    expect(page.locator(".calculator-sentence")).to_contain_text("50,000 people")
    plan = shoal.plan(shoal.Choice("answer", 6), epsilon=0.5, n=50_000, delta=1e-6)
    name, local = re.fullmatch(r"Run (\w+) with ε₀ = ([\d.]+)", settled(page)).groups()
    assert name == plan.recommended.name
    assert 0.99 * plan.recommended.local_epsilon <= float(local) <= plan.recommended.local_epsilon
    rows = page.get_by_role("region", name="Figures").get_by_role("row")
    expect(rows).to_have_count(1 + len(plan.options) + 2)
    expect(rows.filter(has_text="a trusted curator")).to_contain_text(f"{plan.central.l2:.3g}")
    expect(rows.filter(has_text="no shuffler")).to_contain_text(f"{plan.local.l2:,.0f}")
    # Each name leads to its section of the page about randomizers.
    text = (DOCS / "analyse" / "randomizers.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    sections = {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}
    links = rows.get_by_role("link").all()
    assert {link.inner_text() for link in links} == {option.name for option in plan.options}
    for link in links:
        target, section = link.evaluate("each => each.href").split("#")
        assert target == urljoin(site, "../analyse/randomizers.html")
        assert section in sections
        assert section.endswith(link.inner_text())
    command = "$ shoal plan --epsilon 0.5 --n 50000 --delta 1e-6 --categories 6"
    expect(page.locator(".calculator-shell")).to_have_text(command)


def test_where_no_worker_may_be_made_the_page_computes_itself(person, site):
    page = person.page
    page.add_init_script("delete window.Worker")
    page.goto(site)
    library = shoal.amplify(local_epsilon=4, n=100_000, delta=1e-6).epsilon
    assert library <= shown_epsilon(settled(page)) <= 1.01 * library
    assert person.complaints == []


@pytest.mark.parametrize("ask", ["amplify&e0=4&randomizer=hadamard", "plan&epsilon=1"])
def test_everybody_can_use_it(person, site, ask):
    page = person.page
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"{site}#ask={ask}&n=100000&delta=1e-6&k=16")
    settled(page)
    page.evaluate("document.querySelector('details').open = true")
    text = page.locator(".calculator-svg text").first
    colours = set()
    for theme, look in (("light", browser_kit.DESKTOP), ("dark", browser_kit.PHONE)):
        page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
        page.set_viewport_size(look["viewport"])
        expect(page.locator(".calculator-picture svg")).to_be_visible()
        assert browser_kit.axe(page) == []
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        colours.add(text.evaluate("each => getComputedStyle(each).fill"))
    assert len(colours) == 2


def test_without_javascript_or_without_the_script_the_page_says_so(browser, site, tmp_path):
    with browser_kit.visitor(browser, java_script_enabled=False) as person:
        person.page.goto(site)
        expect(person.page.get_by_text("Nothing can be computed here")).to_be_visible()
        expect(person.page.get_by_role("button", name="Compute")).to_be_hidden()
    alone = tmp_path / "account"
    alone.mkdir()
    shutil.copy(unquote(urlsplit(site).path), alone)
    with browser_kit.visitor(browser) as person:
        person.page.goto((alone / "calculator.html").as_uri())
        expect(person.page.get_by_text("Nothing can be computed here")).to_be_visible()
