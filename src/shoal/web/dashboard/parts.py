"""What pages of the dashboard are put together from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shoal.explain import text as words
from shoal.explain.text import up
from shoal.report.markup import Markup, element
from shoal.service.survey import Survey

DAY, HOUR = 86_400, 3600
NOTHING = Markup("")
SHORT = 12  # digits of a survey's name that tell it from others


def panel(name: str, title: str, *children: str, wide: bool = False) -> Markup:
    """One part of a page under its own heading; ``name`` finds it again on the next page."""
    heading = element("h2", title, id=f"{name}-title")
    kind = "panel wide" if wide else "panel"
    return element(
        "section", heading, *children, id=name, class_=kind, aria_labelledby=f"{name}-title"
    )


def tiles(*pairs: tuple[str, str, str]) -> Markup:
    """Numbers to see at once: a name, a value, and a remark or nothing."""
    return element(
        "dl",
        *(
            element(
                "div",
                element("dt", name),
                element("dd", value, element("small", remark) if remark else ""),
            )
            for name, value, remark in pairs
        ),
        class_="tiles",
    )


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    caption: str,
    sortable: bool = False,
    classes: Sequence[str] = (),
) -> Markup:
    """Rows whose first cell names them; ``classes`` are those of the columns."""
    kinds = [*classes, *[""] * (len(heads) - len(classes))]
    head = element(
        "tr",
        *(
            element("th", text, scope="col", **_class(kind))
            for text, kind in zip(heads, kinds, strict=True)
        ),
    )
    marked = {"data_sortable": ""} if sortable else {}
    body = element("tbody", *(_row(row, kinds) for row in rows))
    made = element(
        "table",
        element("caption", caption, class_="unseen"),
        element("thead", head),
        body,
        **marked,
    )
    # Wider than a phone, it is scrolled by itself, with the keyboard too.
    return element("div", made, class_="scroll", tabindex=0, role="region", aria_label=caption)


def _row(cells: Sequence[str], kinds: Sequence[str]) -> Markup:
    first, *others = cells
    return element(
        "tr",
        element("th", first, scope="row", **_class(kinds[0])),
        *(
            element("td", cell, **_class(kind))
            for cell, kind in zip(others, kinds[1:], strict=True)
        ),
    )


def _class(kind: str) -> dict[str, str]:
    return {"class_": kind} if kind else {}


def facts(*pairs: tuple[str, str]) -> Markup:
    """Names and what is said of them."""
    return element(
        "dl",
        *(element("div", element("dt", name), element("dd", said)) for name, said in pairs),
        class_="facts",
    )


def note(text: str, *, kind: str = "quiet") -> Markup:
    """A remark."""
    return element("p", text, class_=kind)


def link(text: str, address: str, **attributes: str) -> Markup:
    """A link within the dashboard."""
    return element("a", text, href=address, **attributes)


def moment(seconds: int) -> Markup:
    """A time to the minute, as people and programs read it."""
    text = words.moment(seconds)
    return element("time", f"{text} UTC", datetime=f"{text}Z")


def day(seconds: int) -> Markup:
    """A time to the day."""
    text = words.moment(seconds).partition(" ")[0]
    return element("time", text)


def epsilon(value: float | None) -> str:
    """An epsilon, rounded up; a dash where there is none."""
    return "–" if value is None else up(value)


def lost(value: float | None) -> str:
    """The epsilon that was lost so far, in a word where that is nothing.

    >>> lost(None), lost(0.5)
    ('none', '0.5')
    """
    return "none" if value is None else up(value)


def several(number: int, one: str, more: str = "") -> str:
    """So many of something.

    >>> several(1, "batch", "batches"), several(2000, "report")
    ('1 batch', '2,000 reports')
    """
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def texted(name: str, text: str, **attributes: str) -> Markup:
    """An element with words of a survey: in whatever script, kept apart from what is around."""
    return element(name, text, dir="auto", **attributes)


def address(survey: Survey) -> str:
    """Where a survey's page is."""
    return f"/dashboard/surveys/{survey.id}"


def sentence(text: str) -> str:
    """What errors and advice say, as a sentence.

    >>> sentence("there is no such survey")
    'There is no such survey.'
    """
    return f"{text[:1].upper()}{text[1:]}."


def turning(page: int, pages: int, *, place: str, what: str, words: tuple[str, str]) -> Markup:
    """Links to the pages before and after; ``place`` is an address that a page's number fills."""
    if pages == 1:
        return NOTHING

    def turn(to: int, text: str, rel: str) -> Markup:
        inside = 1 <= to <= pages
        target = place.format(to)
        return link(text, target, rel=rel) if inside else element("span", text, class_="quiet")

    before, after = words
    return element(
        "nav",
        turn(page - 1, f"← {before}", "prev"),
        element("span", f"page {page:,} of {pages:,}"),
        turn(page + 1, f"{after} →", "next"),
        class_="pages",
        aria_label=f"Pages of {what}",
    )
