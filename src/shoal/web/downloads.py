"""Files to take along: results as tables, the chart as a picture, the report, the statement."""

from __future__ import annotations

import io
import json
import textwrap
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Literal, cast

from shoal.explain import plots
from shoal.explain.text import finite, plain, up
from shoal.intervals.estimates import MeanEstimate
from shoal.results.charts import SHOWN, items
from shoal.results.result import Result, statement
from shoal.service.analyzer.results import ANSWERS, GROUPED, NUMBERS, SurveyResults, written
from shoal.service.analyzer.store import AnalyzerStore

Kind = Literal["svg", "png"]

_JSON = "application/json"
_WIDTH = 8.0  # inches
_LETTERS = 40
# Letters of a drawing stay letters, and are drawn in whatever font has them.
_RC: dict[Any, Any] = {"font.family": ["DejaVu Sans", "sans-serif"], "svg.fonttype": "none"}
_drawing = Lock()  # settings of the library are everybody's


@dataclass(frozen=True)
class File:
    """A kind of file; one that ``needs_result`` is there once all batches together have one."""

    description: str
    media_type: str
    make: Callable[[AnalyzerStore, SurveyResults], bytes]
    needs_result: bool = True


def _whole(store: AnalyzerStore, results: SurveyResults) -> SurveyResults:
    """With what was published of each batch."""
    return store.results.survey(results.survey.id)


def _statement(_store: AnalyzerStore, results: SurveyResults) -> bytes:
    values = finite(statement(cast("Result", results.result)))
    return f"{json.dumps(values, ensure_ascii=False, allow_nan=False, indent=1)}\n".encode()


FILES: dict[str, File] = {
    "results.csv": File(
        "every batch and answer, as a table",
        "text/csv; charset=utf-8",
        lambda store, results: _whole(store, results).to_csv().encode(),
        needs_result=False,
    ),
    "results.json": File(
        "the same for programs",
        _JSON,
        lambda store, results: written(_whole(store, results).to_dict()),
        needs_result=False,
    ),
    "results.parquet": File(
        "the same for data frames",
        "application/vnd.apache.parquet",
        lambda store, results: parquet(_whole(store, results)),
        needs_result=False,
    ),
    "chart.svg": File(
        "the chart, to print", "image/svg+xml", lambda _, results: picture(results, "svg")
    ),
    "chart.png": File(
        "the chart, as a picture", "image/png", lambda _, results: picture(results, "png")
    ),
    "report.html": File(
        "a page to hand on",
        "text/html; charset=utf-8",
        lambda _, results: cast("Result", results.result).to_html().encode(),
    ),
    "statement.json": File("the privacy statement", _JSON, _statement),
}


def parquet(results: SurveyResults) -> bytes:
    """One row per batch and answer, and those of all batches together."""
    import polars as pl

    grouped = any(question.groups for question in results.survey.questions)
    schema: dict[str, pl.DataType] = {
        "survey": pl.String(),
        "batch": pl.String(),
        "status": pl.String(),
        "published": pl.Datetime("ms", "UTC"),
        **({"question": pl.String()} if results.survey.several else {}),
        **({"group": pl.String()} if grouped else {}),
        **dict.fromkeys((*ANSWERS, *NUMBERS, *(GROUPED if grouped else ())), pl.Float64()),
        "answer": pl.String(),
        "reports": pl.Int64(),
        "valid": pl.Int64(),
        "honest": pl.Int64(),
        "epsilon": pl.Float64(),
        "delta": pl.Float64(),
        "warning": pl.String(),
    }
    rows = []
    for row in results.rows():
        hour = row.get("published")
        published = None if hour is None else 1000 * hour
        rows.append({**row, "survey": str(results.survey.id), "published": published})
    columns = {name: [row.get(name) for row in rows] for name in schema}
    file = io.BytesIO()
    pl.DataFrame(columns, schema=schema).write_parquet(file)
    return file.getvalue()


def picture(results: SurveyResults, kind: Kind) -> bytes:
    """The charts as ``plot`` draws them, the question above and the guarantee below.

    Of several questions each has its chart beside the others, below its own text.
    """
    result, survey = cast("Result", results.result), results.survey
    columns = [
        replace(
            each,
            column=_shortened(each.column).replace("$", r"\$") if survey.several else "",
            labels=tuple(map(_shortened, each.labels)),
        )
        for each in result.columns
    ]
    rows = min(max(2, *(len(each.labels) for each in columns)), SHOWN)
    about = {"Date": None} if kind == "svg" else {}
    file = io.BytesIO()
    with _drawing, plots.applied(), warnings.catch_warnings():
        import matplotlib as mpl

        warnings.simplefilter("ignore", UserWarning)  # letters that the font lacks are boxes
        mpl.rcParams.update(_RC)
        title = textwrap.fill(_plain(survey.title).replace("$", r"\$"), 70, max_lines=4)
        size = _WIDTH * len(columns), 1.9 + 0.26 * rows
        below = _below(result, survey.admission.caveat)
        figure, panels = plots.page(title, below, len(columns), size=size)
        for column, axes in zip(columns, panels, strict=True):
            column.plot(axes)
        figure.savefig(file, format=kind, dpi=plots.DOTS_PER_INCH, metadata=about)
    return file.getvalue()


def _below(result: Result, caveat: str) -> str:
    guarantee, mean = result.guarantee, ""
    for column in result.columns:
        if isinstance(column.estimate, MeanEstimate):
            value, interval = items((), column.estimate)[0].cells
            mean += f"mean: {value}, from {interval}; "
    reports = min(column.n for column in result.columns)
    what = f"95 % intervals, of the noise alone, among those who answered; {reports:,} reports"
    crowd = f" ({caveat})" if caveat else ""
    warnings = "".join(f"; {text}" for text in result.columns[0].warnings)
    epsilon = f"ε = {up(guarantee.epsilon)} at δ = {plain(guarantee.delta)}"
    return f"{mean}{what}; {epsilon}{crowd}{warnings}"


def _shortened(label: str) -> str:
    plain = _plain(label)
    return plain if len(plain) <= _LETTERS else f"{plain[: _LETTERS - 1]}…"


def _plain(text: str) -> str:
    """One line of letters; what has no shape is left out."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
