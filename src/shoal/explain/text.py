"""Numbers as they are shown: rounded outwards, an upper bound up and a lower bound down."""

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

DIGITS = 5


def up(value: float, digits: int = DIGITS) -> str:
    """An upper bound, never shown smaller than it is.

    >>> up(0.1181541), up(1e-6), up(0.0)
    ('0.11816', '1e-6', '0')
    """
    return _rounded(value, digits, ROUND_CEILING)


def down(value: float, digits: int = DIGITS) -> str:
    """A lower bound, never shown larger than it is.

    >>> down(0.1170299)
    '0.11702'
    """
    return _rounded(value, digits, ROUND_FLOOR)


def decimals_for(smallest: float) -> int:
    """How many decimals show this number with enough digits.

    >>> decimals_for(0.118), decimals_for(0.0307)
    (5, 6)
    """
    if not 0 < smallest < math.inf:
        return DIGITS
    return max(0, DIGITS - 1 - math.floor(math.log10(smallest)))


def up_to(value: float, decimals: int) -> str:
    """An upper bound with so many decimals, for columns.

    >>> up_to(2.2085253, 5)
    '2.20853'
    """
    return _fixed(value, decimals, ROUND_CEILING)


def down_to(value: float, decimals: int) -> str:
    """A lower bound with so many decimals, for columns."""
    return _fixed(value, decimals, ROUND_FLOOR)


def plain(value: float) -> str:
    """A number that somebody gave, as short as it can be said.

    >>> plain(1e-06), plain(4.0)
    ('1e-6', '4')
    """
    return _tidy(f"{value:.12g}")


def _rounded(value: float, digits: int, rounding: str) -> str:
    if not math.isfinite(value):
        return str(value)
    kept = Context(prec=digits, rounding=rounding).create_decimal(repr(float(value)))
    return _tidy(f"{float(kept):.{digits}g}")


def _fixed(value: float, decimals: int, rounding: str) -> str:
    rounded = Decimal(repr(float(value))).quantize(Decimal((0, (1,), -decimals)), rounding)
    return f"{rounded:f}"


def _tidy(text: str) -> str:
    return re.sub(r"e([+-]?)0*(?=\d)", r"e\1", text).replace("e+", "e")
