"""Numbers, estimates, times and plurals as they are shown, and the pages they stand on.

Bounds are rounded outwards, an upper bound up (:func:`up`) and a lower bound down (:func:`down`),
every ε and ε0 to the same digits wherever it is shown; estimates to the digits of their error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment

DIGITS = 5
_NO_LIMIT = 500.0
_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
_MOST_DECIMALS = 9
# Characters that are not seen: controls but for tabs and line breaks, marks of direction, joiners,
# fillers and selectors (Unicode's Default_Ignorable_Code_Point), separators of lines, annotations.
_HIDDEN = re.compile(
    "[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_JOINING = "[\u0600-\u0dff\u1780-\u18af]"  # Arabic, Persian, Syriac, Indic, Khmer, Mongolian
_EMOJI = (
    "[\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
)
# Where such a character is part of what is seen: it is left alone.
_NEEDED = re.compile(
    "\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f"  # flags of parts of a country
    f"|{_JOINING}[\u200c\u200d](?={_JOINING})"
    "|[\u1800-\u18af][\u180b-\u180f]"
    "|[0-9#*]\ufe0f(?=\u20e3)"
    f"|{_EMOJI}[\ufe0e\ufe0f]?(?:\u200d(?={_EMOJI}))?"
)


def visible(text: str) -> str:
    """Text in which what is not seen, or would turn the rest around, is a replacement character.

    Joiners and selectors stay where a script or an emoji needs them, and so do line breaks.

    >>> visible("no\u202eno"), visible("yes\u200b"), visible("plain")
    ('no\ufffdno', 'yes\ufffd', 'plain')
    """
    if _HIDDEN.search(text) is None:
        return text
    parts, end = [], 0
    for needed in _NEEDED.finditer(text):
        parts += [_HIDDEN.sub("\ufffd", text[end : needed.start()]), needed[0]]
        end = needed.end()
    return "".join((*parts, _HIDDEN.sub("\ufffd", text[end:])))


def up(value: float, digits: int = DIGITS, rounding: str = ROUND_CEILING) -> str:
    """An upper bound, never shown smaller than it is.

    >>> up(0.1181541), up(1e-6), up(0.0)
    ('0.11816', '1e-6', '0')
    """
    if not math.isfinite(value):
        return str(value)
    rounded = Context(prec=digits, rounding=rounding).create_decimal(repr(float(value)))
    return re.sub(r"e([+-]?)0*(?=\d)", r"e\1", f"{float(rounded):.{digits}g}").replace("e+", "e")


def down(value: float, digits: int = DIGITS) -> str:
    """A lower bound, never shown larger than it is.

    >>> down(0.1170299)
    '0.11702'
    """
    return up(value, digits, ROUND_FLOOR)


def factor(epsilon: float) -> str:
    """e^epsilon, by which odds may move, rounded up.

    >>> factor(1.0), factor(1e4)
    ('2.719', 'no limit')
    """
    return up(math.exp(epsilon), 4) if epsilon < _NO_LIMIT else "no limit"


def decimals_for(smallest: float) -> int:
    """How many decimals show this number with enough digits.

    >>> decimals_for(0.118), decimals_for(0.0307)
    (5, 6)
    """
    if not 0 < smallest < math.inf:
        return DIGITS
    return max(0, DIGITS - 1 - math.floor(math.log10(smallest)))


def up_to(value: float, decimals: int, rounding: str = ROUND_CEILING) -> str:
    """An upper bound with so many decimals, for columns.

    >>> up_to(2.2085253, 5)
    '2.20853'
    """
    rounded = Decimal(repr(float(value))).quantize(Decimal((0, (1,), -decimals)), rounding)
    return f"{rounded:f}"


def down_to(value: float, decimals: int) -> str:
    """A lower bound with so many decimals, for columns."""
    return up_to(value, decimals, ROUND_FLOOR)


def measured(value: float, margin: float) -> str:
    """An estimate (or its margin itself), to two digits of its margin of error.

    >>> measured(30.0412, 0.083), measured(0.083, 0.083), measured(-48213.0, 1234.0)
    ('30.041', '0.083', '−48,200')
    """
    if 0 < margin < math.inf:
        decimals = 1 - math.floor(math.log10(float(f"{margin:.1e}")))
        if abs(decimals) <= _MOST_DECIMALS:
            text = f"{round(value, decimals) + 0.0:,.{max(0, decimals)}f}"
            return text.replace("-", "−")
    shown = f"{value:,.{DIGITS}g}"
    return (up(value, DIGITS, ROUND_HALF_EVEN) if "e" in shown else shown).replace("-", "−")


def plain(value: float) -> str:
    """A parameter, as short as it can be written.

    >>> plain(1e-06), plain(4.0)
    ('1e-6', '4')
    """
    return up(value, 12, ROUND_HALF_EVEN)


def plural(count: int, noun: str) -> str:
    """So many of something.

    >>> plural(1, "token"), plural(2000, "token"), plural(0, "token")
    ('1 token', '2,000 tokens', '0 tokens')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"


def moment(when: int, *, seconds: bool = False) -> str:
    """A time (in seconds since 1970) to the minute or to the second, in UTC.

    >>> moment(1_578_096_001), moment(1_578_096_001, seconds=True)
    ('2020-01-04 00:00', '2020-01-04 00:00:01')
    """
    try:
        time = datetime.fromtimestamp(when, tz=UTC)
    except (ValueError, OverflowError, OSError):  # beyond the year 9999
        return f"{when} s"
    return time.strftime("%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M")


def duration(seconds: float, *, exact: bool = False) -> str:
    """Days, to the nearest from two on, or whole hours or minutes.

    ``exact`` takes the largest unit that loses nothing.

    >>> duration(86_400 * 3 - 1), duration(5_000), duration(61), duration(-2)
    ('3 days', '1 hour', '1 minute', 'less than a minute')
    >>> duration(129_600, exact=True)
    '36 hours'
    """
    minute, day = 60, 86_400
    if not exact and seconds < minute:
        return "less than a minute"
    if not exact and seconds >= 2 * day:
        return plural(round(seconds / day), "day")
    for size, name in _UNITS:
        if seconds % size == 0 if exact else seconds >= size:
            return plural(int(seconds // size), name)
    return f"{seconds:,} seconds"


def whole(value: float) -> str:
    """People, in whole numbers."""
    return f"{round(value):,}".replace("-", "−")


def number(value: float) -> str:
    """A number without a margin: five digits, or as many as a whole number has."""
    return (f"{value:,.0f}" if abs(value) >= 1e5 else f"{value:,.5g}").replace("-", "−")


def finite(value: object) -> object:
    """Values for strict JSON: what is not finite is null."""
    if isinstance(value, Mapping):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


# ---------------------------------------------------------------- an estimate as everybody shows it


@dataclass(frozen=True)
class Item:
    """A fraction in percent, a mean or a coordinate of it, and its 95 % interval.

    ``total`` is people, about, or the sum over them. What is not ``significant`` may be mere noise.
    """

    label: str
    value: float
    low: float
    high: float
    total: float = 0.0
    significant: bool = True
    truth: float | None = None
    error: float = 0.0
    unit: str = ""

    @property
    def margin(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    def shown(self, value: float) -> str:
        """A value to the digits of the margin."""
        return measured(value, self.margin) + self.unit

    def scaled(self, factor: float) -> Item:
        """The same, so many times as large."""
        truth = None if self.truth is None else factor * self.truth
        value, low, high = (factor * each for each in (self.value, self.low, self.high))
        return replace(self, value=value, low=low, high=high, truth=truth)

    @property
    def percent(self) -> Item:
        """A fraction of one as one of a hundred."""
        return replace(self.scaled(100), unit=" %")

    @property
    def cells(self) -> tuple[str, str]:
        """The value and its interval."""
        return self.shown(self.value), f"{self.shown(self.low)} to {self.shown(self.high)}"


# ----------------------------------------------------------------------------- pages from templates

_BETWEEN_TAGS = re.compile(r">\s*\n\s*<")


@cache
def environment(*directories: Path) -> Environment:
    """Where templates are looked for: in these directories, then in this one.

    Values are escaped in HTML, and a missing value is an error.
    """
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
