"""Files to take along: results as tables, the chart as a picture, the report, the statement."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass

from shoal.report import finite, html, statement
from shoal.report.result import Result
from shoal.service.analyzer.publish import written
from shoal.service.analyzer.results import SurveyResults, survey_results
from shoal.service.analyzer.store import AnalyzerStore
from shoal.web.assets import missing
from shoal.web.dashboard.picture import picture
from shoal.web.dashboard.snapshot import Snapshot

_JSON = "application/json"
_NUMBERS = ("share", "low", "high", "standard_error", "count", "mean", "sum")


@dataclass(frozen=True)
class File:
    """A kind of file; one that ``needs_result`` is there once all batches together have one."""

    said: str
    media_type: str
    make: Callable[[AnalyzerStore, Snapshot], bytes]
    needs_result: bool = False


def _csv(store: AnalyzerStore, snapshot: Snapshot) -> bytes:
    return survey_results(store, snapshot.survey.id).to_csv().encode()


def _json(store: AnalyzerStore, snapshot: Snapshot) -> bytes:
    return written(survey_results(store, snapshot.survey.id).to_dict())


def _parquet(store: AnalyzerStore, snapshot: Snapshot) -> bytes:
    return parquet(survey_results(store, snapshot.survey.id))


def _of_result(said: str, media_type: str, make: Callable[[Result, Snapshot], bytes]) -> File:
    def made(_store: AnalyzerStore, snapshot: Snapshot) -> bytes:
        if snapshot.result is None:
            raise missing("nothing is published yet that this file could show")
        return make(snapshot.result, snapshot)

    return File(said, media_type, made, needs_result=True)


def _statement(result: Result, _snapshot: Snapshot) -> bytes:
    text = json.dumps(finite(statement(result)), ensure_ascii=False, allow_nan=False, indent=1)
    return f"{text}\n".encode()


FILES: dict[str, File] = {
    "results.csv": File("every batch and answer, as a table", "text/csv; charset=utf-8", _csv),
    "results.json": File("the same for programs", _JSON, _json),
    "results.parquet": File("the same for data frames", "application/vnd.apache.parquet", _parquet),
    "chart.svg": _of_result(
        "the chart, to print",
        "image/svg+xml",
        lambda result, kept: picture(result, kept.answers, "svg"),
    ),
    "chart.png": _of_result(
        "the chart, as a picture",
        "image/png",
        lambda result, kept: picture(result, kept.answers, "png"),
    ),
    "report.html": _of_result(
        "a page to hand on", "text/html; charset=utf-8", lambda result, _: html(result).encode()
    ),
    "statement.json": _of_result("the privacy statement", _JSON, _statement),
}


def parquet(found: SurveyResults) -> bytes:
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
    survey = str(found.survey.id)
    for row in found.rows():
        hour = row.get("published")
        whole = {**row, "survey": survey, "published": None if hour is None else 1000 * hour}
        for name, cells in columns.items():
            cells.append(whole.get(name))
    file = io.BytesIO()
    pl.DataFrame(columns, schema=schema).write_parquet(file)
    return file.getvalue()
