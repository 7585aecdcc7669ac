"""Figures of a shuffler's batches: of closed ones, and quarters of the open ones."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import Metric

from shoal.service.running.figures import short
from shoal.service.running.metrics import counters, gauges, two_digits
from shoal.service.shuffler.store import ShufflerStore
from shoal.service.survey import Survey

_SURVEY = ["survey"]


class BatchFigures:
    """What may be said of a shuffler's batches.

    Reports that did not open are in no batch, but they come among others: how many there were is
    told as it was when a batch closed last.
    """

    def __init__(self, store: ShufflerStore) -> None:
        self._store = store

    def figures(self) -> Iterable[Metric]:
        """All of them."""
        surveys = self._store.surveys.all()
        totals = {short(survey.id): self._store.batches.counters(survey.id) for survey in surveys}
        yield self._states(surveys)
        yield self._last_sizes(surveys)
        yield from _totals(totals)
        yield self._not_opened(surveys)
        yield self._progress(surveys)

    def _progress(self, surveys: list[Survey]) -> Metric:
        shares = {short(survey.id): self._store.progress.of(survey.id).share for survey in surveys}
        return gauges(
            "minimum_reached_ratio",
            "How much of the least crowd the open batch had lately, in quarters.",
            _SURVEY,
            (([survey], share) for survey, share in shares.items() if share is not None),
        )

    def _states(self, surveys: list[Survey]) -> Metric:
        return gauges(
            "batches",
            "Closed batches, by state.",
            ["survey", "state"],
            (
                ([short(survey.id), state], count)
                for survey in surveys
                for state, count in sorted(self._store.batches.states(survey.id).items())
            ),
        )

    def _last_sizes(self, surveys: list[Survey]) -> Metric:
        sizes = {short(survey.id): self._store.batches.last_size(survey.id) for survey in surveys}
        return gauges(
            "last_batch_reports",
            "Valid reports of the batch that closed last, to two digits.",
            _SURVEY,
            (([survey], two_digits(size)) for survey, size in sizes.items() if size is not None),
        )

    def _not_opened(self, surveys: list[Survey]) -> Metric:
        rows = [
            ([short(survey.id), reason], two_digits(count))
            for survey in surveys
            for reason, count in self._store.batches.unopened(survey.id).items()
        ]
        text = "Reports that could not be opened, when a batch closed last, to two digits."
        return counters("unopened_reports", text, ["survey", "reason"], rows)


def _totals(totals: dict[str, dict[str, int]]) -> Iterable[Metric]:
    told = {
        "batches": ("closed_batches", "Batches that were closed."),
        "reports": ("reports", "Valid reports of closed batches, to two digits."),
        "expired_batches": ("expired_batches", "Batches that died before they were large enough."),
    }
    for key, (name, text) in told.items():
        shown = two_digits if key == "reports" else float
        rows = [([survey], shown(found.get(key, 0))) for survey, found in totals.items()]
        yield counters(name, text, _SURVEY, rows)
