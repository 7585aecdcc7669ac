"""The page, in the shape of ``page.html``: charts, what they mean, tables, how it was done."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from importlib import resources

from shoal.accounting.guarantee import Guarantee
from shoal.explain.text import down, factor, plain, up
from shoal.report import charts
from shoal.report.markup import Markup, document, element, join
from shoal.report.result import ColumnResult, Result
from shoal.values import Estimate, MeanEstimate

FORMAT = "shoal privacy statement 1"
BANNER = "Contains true values: not private"
_WARNING = (
    "The true answers were drawn beside the estimates to compare them. The guarantee below "
    "does not cover this page: do not pass it on."
)
INTERVALS = (
    "A 95 % interval is of {} among those who answered, and counts the noise alone: not who "
    "happened to answer, and not false reports."
)
_FOLDED = 12


def html(result: Result) -> str:
    """The result as one self-contained HTML page."""
    columns, guarantee = result.columns, result.guarantee
    names = [column.column for column in columns]
    banner = element("strong", BANNER), element("p", _WARNING)
    neighbours = f"neighbours: {guarantee.neighbouring} of one person's datum"
    assumptions, remarks = (
        element("ul", *(element("li", text) for text in texts))
        for texts in ((neighbours, *guarantee.assumptions), (*result.warnings, *result.notes))
    )
    text = json.dumps(finite(statement(result)), ensure_ascii=False, allow_nan=False, indent=1)
    # As JSON that may stand inside a script element.
    embedded = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    parts = {
        "banner": element("aside", *banner, class_="banner", role="alert")
        if result.contains_truth
        else Markup(""),
        "asked": names[0] if len(names) == 1 else f"{len(names)} questions",
        "counted": counted(guarantee),
        "people": f"{columns[0].n:,}",
        "epsilon": up(guarantee.epsilon),
        "delta": plain(guarantee.delta),
        "local_epsilon": _local(guarantee.local_epsilon),
        "charts": join(*(_chart(column, headed=len(columns) > 1) for column in columns)),
        **sentences(guarantee),
        "assumptions": assumptions,
        "remarks": join(element("h2", "To know"), remarks) if "<li>" in remarks else Markup(""),
        "tables": join(*map(_table, columns)),
        "method": _method(result),
        "statement": embedded,
        "embedded": Markup(embedded),
    }
    home = resources.files(__package__ or "shoal.report")
    shape, style = (
        home.joinpath(name).read_text(encoding="utf-8") for name in ("page.html", "style.css")
    )
    body = Markup(shape.format_map({name: join(part) for name, part in parts.items()}))
    return document(f"{', '.join(names)} · Shoal", body, head=[element("style", Markup(style))])


def _local(epsilon: float) -> str:
    return up(epsilon) if math.isfinite(epsilon) else "none"


def _chart(column: ColumnResult, *, headed: bool) -> Markup:
    parts = [element("h2", column.column)] if headed else []
    if isinstance(column.estimate, MeanEstimate):
        parts.append(charts.mean_chart(column, column.estimate))
    else:
        rows = charts.items(column.labels, column.estimate, column.truth)
        parts.append(charts.chart(rows, column.column))
        if any(row.unit and row.value < 0 for row in rows[: charts.SHOWN]):
            note = "A share below zero is noise around zero: read it as few or none."
            parts.append(element("p", note, class_="more"))
    what = "a share" if isinstance(column.estimate, Estimate) else "the mean"
    return element("section", *parts, element("p", INTERVALS.format(what), class_="more"))


def _table(column: ColumnResult) -> Markup:
    numbers = element("div", charts.table(column, counted(column.guarantee)), class_="wide")
    if not isinstance(column.estimate, MeanEstimate):
        many = len(column.labels)
        what = "answers" if isinstance(column.estimate, Estimate) else "coordinates"
        # Few answers are open to see, many are folded away; a printer gets them all.
        unfolded = {"open": ""} if many <= _FOLDED else {}
        summary = element("summary", f"All {many:,} {what}")
        numbers = element("details", summary, numbers, **unfolded)
    return element("section", element("h2", f"The estimates: {column.column}"), numbers)


def _method(result: Result) -> Markup:
    """How each question was asked, which heads its column where there are several."""
    columns = result.columns
    one = "person" if result.guarantee.rounds == 1 else "report"
    devices = [column.randomizer for column in columns]
    steps = {
        "randomizer": [device.name for device in devices],
        "ε0 of a report": [_local(device.local_epsilon) for device in devices],
        f"messages of a {one}": [f"{device.messages:.4g}" for device in devices],
        "size of a message": [f"{device.message_bits:.3g} bits" for device in devices],
        "ε of this question": [up(column.guarantee.epsilon) for column in columns],
        counted(result.guarantee): [f"{column.n:,}" for column in columns],
    }
    heads = ["", *(column.column for column in columns)] if len(columns) > 1 else []
    return charts.html_table(heads, (((name, *cells), "") for name, cells in steps.items()))


# ------------------------------------------------------------ the guarantee, for everybody


def counted(guarantee: Guarantee) -> str:
    """What a collection counts: people, or reports if one person may have sent several."""
    return "people" if guarantee.rounds == 1 else "reports"


def sentences(guarantee: Guarantee) -> dict[str, str]:
    """The meaning of the numbers, who is trusted, what holds without trust, how good the proof is.

    And what the local epsilon is of: each person makes one report per column and round.
    """
    epsilon, local, lower = guarantee.epsilon, guarantee.local_epsilon, down(guarantee.lower)
    many = guarantee.rounds * guarantee.columns
    together = f"one person's {many} reports together"
    crowd = "people must have followed the protocol"
    if guarantee.rounds > 1:
        followed = "reports must be from people who have followed the protocol"
        crowd = f"{followed}, at most {guarantee.rounds:,} from each"
    untrusted = "Nothing: if the names are kept, a report may give its sender's answer away."
    if math.isfinite(local):
        own, whole = ("report", "it") if many == 1 else ("reports", together)
        delta = f" and δ0 = {up(guarantee.local_delta)}" if guarantee.local_delta else ""
        untrusted = (
            "If everybody else colludes and the names are kept after all, each person still has "
            f"the noise in their own {own}: ε0 = {up(local)}{delta} for {whole}, so the odds "
            f"move by at most a factor of {factor(local)}."
        )
    tightness = f"A proved upper bound (theorem: {guarantee.theorem})."
    if guarantee.lower > 0 and guarantee.columns > 1:
        tightness += f" Some data really lose at least {lower}, by one column alone."
    elif guarantee.lower > 0:
        least = f"No analysis of this collection can prove less than {lower}"
        tightness += f" {least}: some data really lose that much."
    return {
        "meaning": (
            "Take any one of the people in this collection. Whatever somebody believed about that "
            "person's answer before, after seeing everything that comes out of the shuffler the "
            f"odds between any two answers have moved by at most a factor of {factor(epsilon)} "
            f"(ε = {up(epsilon)}), except with a probability of about "
            f"δ = {plain(guarantee.delta)}. It does not matter what else they know, or how clever "
            "they are."
        ),
        "trusted": (
            f"One promise has to be kept: {guarantee.trust}. And at least {guarantee.n:,} of the "
            f"{crowd}: they are the crowd that hides each of them."
        ),
        "untrusted": untrusted,
        "tightness": tightness,
        "reports": "each report alone" if many == 1 else together,
    }


# ------------------------------------------------------------ the privacy statement, for programs


def statement(result: Result) -> dict[str, object]:
    """The guarantee and how it comes about, as plain values."""
    return {
        "format": FORMAT,
        "guarantee": result.guarantee.to_dict(),
        "columns": [
            {
                "column": column.column,
                "n": column.n,
                "randomizer": {
                    name: getattr(column.randomizer, name)
                    for name in ("name", "local_epsilon", "message_bits", "messages")
                },
                "epsilon": column.guarantee.epsilon,
                "delta": column.guarantee.delta,
                "notes": list(column.notes),
            }
            for column in result.columns
        ],
        "notes": list(result.notes),
        "warnings": list(result.warnings),
        "contains_true_values": result.contains_truth,
    }


def finite(value: object) -> object:
    """Values for strict JSON: what is not finite is null."""
    if isinstance(value, Mapping):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
