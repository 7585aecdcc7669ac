"""Files to take along: results as tables, the chart as a picture, the report, the statement."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from shoal.report import finite, html, statement
from shoal.results import Result
from shoal.service.analyzer.documents import PUBLISHED, WITHHELD, Document, written
from shoal.service.analyzer.results import ALL, SurveyResults, survey_results
from shoal.service.analyzer.store import AnalyzerStore
from shoal.web.dashboard.picture import picture
from shoal.web.dashboard.snapshot import Snapshot

_JSON = "application/json"
_NUMBERS = ("share", "low", "high", "standard_error", "count", "mean", "sum")


@dataclass(frozen=True)
class File:
    """A kind of file; None is made where nothing is published that it could show."""

    media_type: str
    make: Callable[[AnalyzerStore, Snapshot], bytes | None]


def _csv(store: AnalyzerStore, snapshot: Snapshot) -> bytes:
    return survey_results(store, snapshot.survey.id).to_csv().encode()


def _json(store: AnalyzerStore, snapshot: Snapshot) -> bytes:
    return written(survey_results(store, snapshot.survey.id).to_dict())


def _parquet(store: AnalyzerStore, snapshot: Snapshot) -> bytes:
    return parquet(survey_results(store, snapshot.survey.id))


def _of_result(make: Callable[[Result, Snapshot], bytes]) -> Callable[..., bytes | None]:
    def made(_store: AnalyzerStore, snapshot: Snapshot) -> bytes | None:
        return None if snapshot.result is None else make(snapshot.result, snapshot)

    return made


def _statement(result: Result, _snapshot: Snapshot) -> bytes:
    text = json.dumps(finite(statement(result)), ensure_ascii=False, allow_nan=False, indent=1)
    return f"{text}\n".encode()


FILES: dict[str, File] = {
    "results.csv": File("text/csv; charset=utf-8", _csv),
    "results.json": File(_JSON, _json),
    "results.parquet": File("application/vnd.apache.parquet", _parquet),
    "chart.svg": File(
        "image/svg+xml", _of_result(lambda result, kept: picture(result, kept.answers, "svg"))
    ),
    "chart.png": File(
        "image/png", _of_result(lambda result, kept: picture(result, kept.answers, "png"))
    ),
    "report.html": File(
        "text/html; charset=utf-8", _of_result(lambda result, _: html(result).encode())
    ),
    "statement.json": File(_JSON, _of_result(_statement)),
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
    for row in _rows(found):
        for name, cells in columns.items():
            cells.append(row.get(name))
    file = io.BytesIO()
    pl.DataFrame(columns, schema=schema).write_parquet(file)
    return file.getvalue()


def _rows(found: SurveyResults) -> Iterator[Document]:
    """Rows of the batches, then of all together."""
    name = str(found.survey.id)
    for document in found.batches:
        yield from _lines({**document, "survey": name, "published": 1000 * document["published"]})
    combined = found.combined()
    if combined is not None:
        status = PUBLISHED if combined["withheld"] is None else WITHHELD
        reports = sum(each["reports"] for each in found.batches if each["withheld"] is None)
        whole = {"survey": name, "batch": ALL, "status": status, "reports": reports}
        yield from _lines({**combined, **whole})


def _lines(document: Document) -> Iterator[Document]:
    if document["estimates"] is not None:
        yield from ({**document, **estimate} for estimate in document["estimates"])
    else:
        numbers = document["mean"] or {"mean": None}
        yield {**document, **numbers}
