"""Elements of a page, and whole pages: text is escaped unless it is markup already."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_VOID = frozenset({"meta", "link", "input", "line", "rect", "circle", "path"})


class Markup(str):
    """Text that is HTML already; made by :func:`element` alone, but for constants."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str | float) -> Markup:
    """One element; an attribute ``class_`` is ``class``, ``stroke_width`` is ``stroke-width``.

    >>> element("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    named = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
    )
    if name in _VOID and not children:
        return Markup(f"<{name}{named}/>")
    return Markup(f"<{name}{named}>{join(*children)}</{name}>")


def join(*children: str) -> Markup:
    """Pieces one after the other."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in children))


def document(title: str, *body: str, head: Iterable[str] = ()) -> str:
    """A whole page; ``head`` is what its head has beside the title."""
    top = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        *head,
    )
    return f"<!doctype html>\n{element('html', top, element('body', *body), lang='en')}\n"
