"""Files to take along: results as tables, the chart as a picture, the report, the statement."""

from __future__ import annotations

import io
import json
import textwrap
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Literal, cast

from shoal.explain.text import finite, measured, plain, up
from shoal.report.result import Result, statement
from shoal.service.analyzer.results import SurveyResults, written
from shoal.service.analyzer.store import AnalyzerStore
from shoal.values import MeanEstimate
from shoal.web.snapshot import Answer, Snapshot

Kind = Literal["svg", "png"]

_JSON = "application/json"
_NUMBERS = ("share", "low", "high", "standard_error", "count", "mean", "sum")
_MOST_BARS = 40
_WIDTH = 8.0  # inches
_BAR, _PALE, _INK, _QUIET = "#5a9bd3", "#c3d9ec", "#10263a", "#555555"
_LETTERS = 40
_DOTS = 144  # per inch
_RC: dict[Any, Any] = {
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.edgecolor": _QUIET,
    "svg.fonttype": "none",  # letters stay letters, and are drawn in whatever font has them
    "svg.hashsalt": "shoal",
}
_drawing = Lock()  # settings of the library are everybody's


@dataclass(frozen=True)
class File:
    """A kind of file; one that ``needs_result`` is there once all batches together have one."""

    description: str
    media_type: str
    make: Callable[[AnalyzerStore, Snapshot], bytes]
    needs_result: bool = True


def _results(store: AnalyzerStore, snapshot: Snapshot) -> SurveyResults:
    return store.results.survey(snapshot.survey.id)


def _statement(_store: AnalyzerStore, snapshot: Snapshot) -> bytes:
    values = finite(statement(cast("Result", snapshot.result)))
    return f"{json.dumps(values, ensure_ascii=False, allow_nan=False, indent=1)}\n".encode()


FILES: dict[str, File] = {
    "results.csv": File(
        "every batch and answer, as a table",
        "text/csv; charset=utf-8",
        lambda store, snapshot: _results(store, snapshot).to_csv().encode(),
        needs_result=False,
    ),
    "results.json": File(
        "the same for programs",
        _JSON,
        lambda store, snapshot: written(_results(store, snapshot).to_dict()),
        needs_result=False,
    ),
    "results.parquet": File(
        "the same for data frames",
        "application/vnd.apache.parquet",
        lambda store, snapshot: parquet(_results(store, snapshot)),
        needs_result=False,
    ),
    "chart.svg": File(
        "the chart, to print", "image/svg+xml", lambda _, snapshot: picture(snapshot, "svg")
    ),
    "chart.png": File(
        "the chart, as a picture", "image/png", lambda _, snapshot: picture(snapshot, "png")
    ),
    "report.html": File(
        "a page to hand on",
        "text/html; charset=utf-8",
        lambda _, snapshot: cast("Result", snapshot.result).to_html().encode(),
    ),
    "statement.json": File("the privacy statement", _JSON, _statement),
}


def parquet(results: SurveyResults) -> bytes:
    """One row per batch and answer, and those of all batches together."""
    import polars as pl

    schema: dict[str, pl.DataType] = {
        "survey": pl.String(),
        "batch": pl.String(),
        "status": pl.String(),
        "published": pl.Datetime("ms", "UTC"),
        "answer": pl.String(),
        **dict.fromkeys(_NUMBERS, pl.Float64()),
        "reports": pl.Int64(),
        "valid": pl.Int64(),
        "honest": pl.Int64(),
        "epsilon": pl.Float64(),
        "delta": pl.Float64(),
    }
    columns: dict[str, list[object]] = {name: [] for name in schema}
    survey = str(results.survey.id)
    for row in results.rows():
        hour = row.get("published")
        whole = {**row, "survey": survey, "published": None if hour is None else 1000 * hour}
        for name, cells in columns.items():
            cells.append(whole.get(name))
    file = io.BytesIO()
    pl.DataFrame(columns, schema=schema).write_parquet(file)
    return file.getvalue()


def picture(snapshot: Snapshot, kind: Kind) -> bytes:
    """The chart, its question above and its guarantee below."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    result, listed = cast("Result", snapshot.result), snapshot.answers
    shown = listed[:_MOST_BARS]
    estimate = result.estimate
    with _drawing, mpl.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # letters that the font lacks are boxes
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        rows = max(len(shown), 2)
        figure = Figure(figsize=(_WIDTH, 1.9 + 0.26 * rows), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        if isinstance(estimate, MeanEstimate):
            _draw_mean(axes, estimate)
        else:
            _draw_bars(axes, shown)
        title = textwrap.fill(_plain(result.only.column), 80, max_lines=4)
        figure.suptitle(title, fontsize=11, x=0.02, ha="left", parse_math=False)
        figure.supxlabel(_below(result, len(listed) - len(shown)), fontsize=8, color=_QUIET)
        file = io.BytesIO()
        about = {"Date": None} if kind == "svg" else {}
        figure.savefig(file, format=kind, dpi=_DOTS, metadata=about)
    return file.getvalue()


def _below(result: Result, more: int) -> str:
    guarantee = result.guarantee
    what = f"95 % intervals, of the noise alone, among those who answered; {result.n:,} reports"
    rest = f"; {more:,} answers more" if more > 0 else ""
    return f"{what}{rest}; ε = {up(guarantee.epsilon)} at δ = {plain(guarantee.delta)}"


def _draw_bars(axes: Any, shown: Sequence[Answer]) -> None:  # noqa: ANN401 - of the library
    places = range(len(shown))
    colors = [_BAR if answer.significant else _PALE for answer in shown]
    reach = [
        [max(0.0, answer.value - answer.low) for answer in shown],
        [max(0.0, answer.high - answer.value) for answer in shown],
    ]
    axes.barh(places, [answer.value for answer in shown], color=colors, height=0.7)
    axes.errorbar(
        [answer.value for answer in shown],
        places,
        xerr=reach,
        fmt="none",
        ecolor=_INK,
        elinewidth=1,
        capsize=2.5,
    )
    axes.set_yticks(places, [_shortened(answer.label) for answer in shown])
    for label in axes.get_yticklabels():
        label.set_parse_math(False)
    axes.invert_yaxis()
    axes.axvline(0, color=_QUIET, linewidth=0.8)
    axes.set_xlabel("fraction, %")


def _draw_mean(axes: Any, estimate: MeanEstimate) -> None:  # noqa: ANN401 - of the library
    low, high = estimate.interval()
    axes.errorbar(
        [estimate.mean],
        [0],
        xerr=[[estimate.mean - low], [high - estimate.mean]],
        fmt="o",
        color=_BAR,
        ecolor=_INK,
        capsize=4,
    )
    axes.set_yticks([])
    margin = (high - low) / 2
    mean, first, last = (measured(each, margin) for each in (estimate.mean, low, high))
    axes.set_xlabel(f"mean: {mean}, from {first} to {last}")


def _shortened(label: str) -> str:
    plain = _plain(label)
    return plain if len(plain) <= _LETTERS else f"{plain[: _LETTERS - 1]}…"


def _plain(text: str) -> str:
    """One line of letters; what has no shape is left out."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
