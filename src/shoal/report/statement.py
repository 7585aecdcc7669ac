"""The privacy statement for programs: what is guaranteed, by what, and nothing of the data."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from shoal.report.markup import Markup
from shoal.report.subject import Reported, ReportedColumn

FORMAT = "shoal privacy statement 1"


def statement(result: Reported) -> dict[str, object]:
    """The guarantee and how it comes about, as plain values."""
    return {
        "format": FORMAT,
        "guarantee": result.guarantee.to_dict(),
        "columns": [_column(column) for column in result.columns],
        "notes": list(result.notes),
        "contains_true_values": result.contains_truth,
    }


def embedded(result: Reported) -> Markup:
    """The statement as JSON that may stand inside a script element."""
    text = json.dumps(finite(statement(result)), ensure_ascii=False, allow_nan=False, indent=1)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def finite(value: object) -> object:
    """Values for strict JSON: what is not finite is null."""
    if isinstance(value, Mapping):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _column(column: ReportedColumn) -> dict[str, object]:
    randomizer = column.randomizer
    return {
        "column": column.column,
        "n": column.n,
        "randomizer": {
            "name": randomizer.name,
            "local_epsilon": randomizer.local_epsilon,
            "message_bits": randomizer.message_bits,
            "messages": randomizer.messages,
        },
        "epsilon": column.guarantee.epsilon,
        "delta": column.guarantee.delta,
        "notes": list(column.notes),
    }
