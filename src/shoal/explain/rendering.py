"""Pages from templates: values are escaped in HTML, and a missing value is an error.

A document's template is in this directory; other rooms bring their own beside.
"""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.explain.text import measured, moment, number, plain, up, visible, whole

if TYPE_CHECKING:
    from jinja2 import Environment

_BETWEEN_TAGS = re.compile(r">\s*\n\s*<")


@cache
def environment(*directories: Path) -> Environment:
    """Where templates are looked for: in these directories, then in this one."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    made = Environment(
        loader=FileSystemLoader([*directories, Path(__file__).parent]),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        # Labels come from data and from strangers: none turns the page around, or hides in it.
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    made.filters |= {
        "at": "{:.3f}%".format,  # a place on an axis, for an attribute
        "count": "{:,}".format,
        "finite": lambda epsilon: up(epsilon) if math.isfinite(epsilon) else "none",
        "measured": measured,
        "moment": moment,
        "number": number,
        "plain": plain,
        "up": up,
        "whole": whole,
    }
    return made


def render(made: Environment, template: str, **values: object) -> str:
    """A page; line breaks between tags are for the readers of the template, and go."""
    return _BETWEEN_TAGS.sub("><", made.get_template(template).render(values))
