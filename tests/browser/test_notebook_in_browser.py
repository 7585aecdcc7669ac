"""What notebooks show of results: it leaves the page around it alone, and can be read on it."""

from __future__ import annotations

import os

import polars as pl
import pytest

import browser_kit
import shoal

# A page with rules of its own, some of which would be the end of anything that inherits them.
PAGE = """<!doctype html><meta name="color-scheme" content="light dark">
<style>
  body {{ background: {ground}; color: {ink}; font: 19px/1.1 fantasy; margin: 30px; }}
  div {{ color: {ink}; text-transform: uppercase; border: 3px dotted red !important;
         padding: 9px !important; }}
  .output * {{ color: {ink} !important; font-size: 3px !important; }}
  table, td, th {{ border: 4px solid lime; color: {ink}; }}
  iframe {{ opacity: 1; }}
</style>
<h1 id="before">A notebook</h1><p id="text">Some <b>words</b>.</p>
<table id="own"><tr><td>a cell</td></tr></table>
<div class="output" id="output"></div>
<div id="after">below</div>"""
GROUNDS = {"light": {"ground": "#fff", "ink": "#111"}, "dark": {"ground": "#111", "ink": "#eee"}}

OWN = """() => [...document.querySelectorAll('html, body, h1, p, b, table, tr, td, #after')]
  .filter((each) => !document.getElementById('output').contains(each))
  .map((each) => { const style = getComputedStyle(each);
    // The page grows longer with what it shows.
    const length = /block-size|height|perspective-origin|transform-origin/;
    return each.tagName + [...style].filter((name) => !length.test(name))
      .map((name) => name + ':' + style.getPropertyValue(name)).join(';'); })
"""

# The contrast of each text with what is behind it (WCAG 2), of an element or of a whole document.
CONTRASTS = """(root) => {
  const parse = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => { const [x, y, z] = [r, g, b].map((c) => (c /= 255) <= 0.03928
    ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4); return 0.2126 * x + 0.7152 * y + 0.0722 * z; };
  const ground = (each) => { for (; each; each = each.parentElement) {
    const color = parse(getComputedStyle(each).backgroundColor);
    if (color.length < 4 || color[3] === 1) return color; } return [255, 255, 255]; };
  const found = {};
  const texts = document.createTreeWalker(root ?? document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.data.trim(), parent = texts.currentNode.parentElement;
    if (!text || /^(STYLE|SCRIPT|TITLE)$/i.test(parent.tagName)) continue;
    const style = getComputedStyle(parent);
    const color = parse(parent.closest('svg') ? style.fill : style.color);
    const [a, b] = [light(color), light(ground(parent))].sort((x, y) => y - x);
    found[text] = (a + 0.05) / (b + 0.05);
  }
  return found;
}"""

# How far text hangs out of its box, and what a reader who needs wider spacing cannot change.
ON_A_PHONE = """() => {
  const box = document.querySelector('#output > div'), all = [...box.querySelectorAll('div')];
  const right = Math.max(...all.map((each) => each.getBoundingClientRect().right));
  const spacing = ['line-height', 'letter-spacing', 'word-spacing'];
  const fixed = all.filter((each) => spacing.some((name) =>
    each.style.getPropertyPriority(name) === 'important'));
  return [Math.max(0, Math.ceil(right - box.getBoundingClientRect().right)), fixed.length];
}"""


def frame():
    return pl.DataFrame({"colour": ["red"] * 600 + ["<b>green</b>"] * 300 + ["blue"] * 100})


SHOWN = {
    "guarantee": lambda: shoal.amplify(local_epsilon=1, n=1_000, delta=1e-2),
    "profile": lambda: shoal.profile(local_epsilon=1, n=1_000),
    "rounds": lambda: shoal.profile(local_epsilon=1, n=1_000) * 3,
    "comparison": lambda: shoal.compare(local_epsilon=1, n=1_000),
    "plan": lambda: shoal.plan(shoal.Choice("colour", 3), epsilon=1, n=1_000),
    "result": lambda: shoal.run(frame(), "colour", epsilon=1.0),
}


@pytest.fixture(scope="module")
def browser():
    with browser_kit.chromium() as found:
        yield found


@pytest.fixture(scope="module")
def fragments():
    return {name: make()._repr_html_() for name, make in SHOWN.items()}


def bars(answers):
    listed = [f"answer {place:02d}" for place in range(answers)]
    return shoal.run(pl.DataFrame({"q": listed * 60}), "q", epsilon=8.0)


def by_group(_):
    frame = pl.DataFrame({"q": ["yes", "no", "maybe", "no"] * 300, "by": list("nsew") * 300})
    return shoal.run(frame, shoal.Choice("q").by("by"), epsilon=8.0)


def open_texts(_):
    texts = [f"text {place}" for place in "abcdefg" for _ in range(900)]
    asked = shoal.Text("text", length=6, alphabet="abcdefgtx ")
    return shoal.heavy_hitters(texts, asked, epsilon=8.0)


@pytest.mark.parametrize(
    ("make", "rows"), [(bars, 17), (bars, 40), (by_group, 12), (open_texts, 7)]
)
def test_a_chart_in_a_notebook_is_whole_and_as_light_as_the_page(browser, make, rows):
    """On a dark machine, too: a notebook has a look of its own, and most are light."""
    page = browser.new_page(color_scheme="dark")
    try:
        page.set_content(PAGE.format(**GROUNDS["light"]))
        page.evaluate("(html) => { output.innerHTML = html }", make(rows)._repr_html_())
        page.wait_for_load_state()
        (inner,) = page.frames[1:]
        inner.wait_for_selector(".bar")
        ends = """() => [...document.querySelectorAll('.bar')]
            .map((bar) => bar.getBoundingClientRect().bottom)"""
        for width in (900, 1600):
            page.set_viewport_size({"width": width, "height": 900})
            bottoms = inner.evaluate(ends)
            assert len(bottoms) >= rows
            assert max(bottoms) < inner.evaluate("innerHeight")
        ground = inner.evaluate("getComputedStyle(document.body).backgroundColor")
        assert min(int(part) for part in ground[4:-1].split(", ")) > 240
    finally:
        page.close()


@pytest.mark.parametrize("scheme", GROUNDS)
@pytest.mark.parametrize("name", SHOWN)
def test_it_stands_in_a_foreign_page(browser, fragments, name, scheme):
    page = browser.new_page(color_scheme=scheme)
    try:
        page.set_content(PAGE.format(**GROUNDS[scheme]))
        before = page.evaluate(OWN)
        assert len(before) > 6
        page.evaluate("(html) => { output.innerHTML = html }", fragments[name])
        page.wait_for_load_state()
        assert page.evaluate(OWN) == before
        inner = page.frames[1:]
        if inner:
            assert page.query_selector("#output iframe").get_attribute("title") == "report"
            contrasts = inner[0].evaluate(CONTRASTS, None)
        else:
            page.set_viewport_size(browser_kit.PHONE["viewport"])
            assert page.evaluate(ON_A_PHONE) == [0, 0]
            page.set_viewport_size(browser_kit.DESKTOP["viewport"])
            contrasts = page.evaluate(CONTRASTS, page.query_selector("#output"))
        assert len(contrasts) > 5
        assert {text: c for text, c in contrasts.items() if c < 4.5} == {}
        assert page.evaluate("document.querySelectorAll('#output b, #output script').length") == 0
        if where := os.environ.get("SHOAL_SCREENSHOTS"):
            page.screenshot(path=f"{where}/notebook-{name}-{scheme}.png", full_page=True)
    finally:
        page.close()
