"""From what ``shoal collect`` was asked to batches collected and results shown."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial

import typer

from shoal.cli import collect_show, files, keys_secrets
from shoal.cli.collect_asked import CollectAsked
from shoal.cli.options import RefusedError
from shoal.cli.render import print_json, working
from shoal.service.analyzer import schema
from shoal.service.analyzer.collector import Pass
from shoal.service.analyzer.results import SurveyResults, survey_results
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.analyzer.worker import AnalyzerWorker
from shoal.service.clock import system_clock
from shoal.service.keyring import Protection
from shoal.service.opening import Pool
from shoal.service.running.collecting import TokenFile, sources
from shoal.service.running.home import Home
from shoal.service.running.places import refuse_both
from shoal.service.running.registering import analyzer_store, check_party, find_survey
from shoal.service.survey import Survey


@dataclass(frozen=True)
class _Opened:
    store: AnalyzerStore
    worker: AnalyzerWorker | None


def answer(asked: CollectAsked) -> None:
    """Collect, write, print."""
    # What the worker logs is said here in words.
    logging.getLogger("shoal").addHandler(logging.NullHandler())
    with _opened(asked) as parts:
        wanted = _wanted(parts.store.surveys(), asked.survey)
        if asked.again is not None:
            _ask_again(parts.store, wanted, asked.again)
        if asked.watch:
            _watch(parts, wanted, asked.every)
            return
        passes = _passed(parts, wanted)
        found = [survey_results(parts.store, survey.id) for survey in wanted]
    _write(asked, found)
    if asked.as_json:
        print_json({"surveys": [_plain(each, passes) for each in found]})
    else:
        for each in found:
            collect_show.show(each, passes.get(str(each.survey.id), Pass()))
        for path in (asked.report, asked.csv):
            if path is not None:
                typer.echo(f"wrote {path}")
    _refuse_silence(passes)


@contextmanager
def _opened(asked: CollectAsked) -> Iterator[_Opened]:
    refuse_both(asked.directory)
    home = Home(directory=asked.directory, role="analyzer", store=asked.store)
    with ExitStack() as stack:
        database = stack.enter_context(closing(home.database(migrate=asked.migrate)))
        store = analyzer_store(home, database)
        if asked.offline:
            yield _Opened(store, None)
            return
        tokens = TokenFile(asked.tokens)
        tokens.check()
        keyring = home.keyring(_protection(home, asked))
        check_party(store.surveys(), keyring, system_clock())
        pool = stack.enter_context(Pool(asked.processes))
        worker = AnalyzerWorker(store, keyring, partial(sources, tokens, store.surveys), pool)
        yield _Opened(store, stack.enter_context(worker))


def _protection(home: Home, asked: CollectAsked) -> Protection:
    return keys_secrets.for_ring(
        home.keys, passphrase_file=asked.passphrase_file, key_file=asked.key_file
    )


def _wanted(surveys: list[Survey], prefix: str | None) -> list[Survey]:
    if not surveys:
        raise RefusedError("there is no survey to collect for: add one with shoal survey add")
    return surveys if prefix is None else [find_survey(surveys, prefix)]


def _ask_again(store: AnalyzerStore, surveys: list[Survey], digits: str) -> None:
    """Let a batch that was refused be fetched once more."""
    refused = [
        (survey, each.batch)
        for survey in surveys
        for each in store.collections(survey.id)
        if each.state == schema.REFUSED
    ]
    found = [(survey, batch) for survey, batch in refused if batch.startswith(digits)]
    if not digits or len(found) != 1:
        known = ", ".join(batch[:8] for _, batch in refused) or "none"
        raise RefusedError(
            f"--again {digits}: give the first digits of one refused batch ({known})"
        )
    ((survey, batch),) = found
    store.again(survey.id, batch)


def _passed(parts: _Opened, wanted: list[Survey]) -> dict[str, Pass]:
    if parts.worker is None:
        return {}
    with working("collecting"):
        return parts.worker.collect(wanted)


def _watch(parts: _Opened, wanted: list[Survey], every: float) -> None:
    """Tell what becomes of every batch, and the same trouble once."""
    told: set[str] = set()
    while True:
        passes = _passed(parts, wanted)
        for survey in wanted:
            done = passes[str(survey.id)]
            for line in collect_show.happened(parts.store, survey, done):
                typer.echo(line)
            for line in collect_show.troubles(survey, done):
                if line not in told:
                    typer.echo(line, err=True)
                told.add(line)
        if not any(passes.values()):
            time.sleep(every)


def _write(asked: CollectAsked, found: list[SurveyResults]) -> None:
    if asked.report is None and asked.csv is None:
        return
    if len(found) != 1:
        raise RefusedError(f"--report and --csv are of one survey, not {len(found)}: give --survey")
    (only,) = found
    with files.together() as write:
        if asked.csv is not None:
            table = only.to_csv()
            write(asked.csv, lambda path: path.write_text(table, encoding="utf-8", newline=""))
        if asked.report is not None:
            result = only.result()
            if result is None:
                raise RefusedError("there is nothing to report yet: no batch was published")
            page = result.to_html()
            write(asked.report, lambda path: path.write_text(page, encoding="utf-8"))


def _plain(found: SurveyResults, passes: dict[str, Pass]) -> dict[str, object]:
    done = passes.get(str(found.survey.id), Pass())
    happened = {
        "published": list(done.published),
        "refused": list(done.refused),
        "problems": [
            {"batch": batch or None, "reason": why} for batch, why in done.problems.items()
        ],
    }
    return {**found.to_dict(), "pass": happened}


def _refuse_silence(passes: dict[str, Pass]) -> None:
    """A shuffler that does not answer is what the command failed at."""
    reasons = {done.problems[""] for done in passes.values() if "" in done.problems}
    if reasons:
        raise RefusedError("; ".join(sorted(reasons)))
