"""``shoal collect``: an analyzer pulls what its shufflers have ready, and shows the results."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from shoal import checks
from shoal.cli import files
from shoal.cli.app import COLLECT, app, printable
from shoal.cli.options import MASTER, Engine, Excludes, Needs, Options, command, option
from shoal.cli.party import MIGRATE, PROCESSES, STORE, WORK, SecretOptions
from shoal.cli.render import console, print_json, print_lines, show_result, working
from shoal.errors import RefusedError
from shoal.service.clock import system_clock

if TYPE_CHECKING:
    from shoal.service.analyzer.cluster import Cluster
    from shoal.service.analyzer.collect import AnalyzerWorker, Pass
    from shoal.service.analyzer.results import SurveyResults
    from shoal.service.analyzer.store import AnalyzerStore
    from shoal.service.survey import Survey

_WHAT = "What is collected"
_NAME = 8  # digits of a batch's name that tell it from the others


class CollectOptions(SecretOptions, Options):
    """What is collected, how, and what is made of it."""

    directory: Path = option("The analyzer's directory; its keys are in DIR/keys.", name="DIR")
    survey: str | None = option("Only this survey: the first digits of its id.", _WHAT, "ID")
    token_file: Path | None = option(
        "File with the shufflers' tokens (shoal keys token); default: DIR/token.", _WHAT
    )
    again: str | None = option(
        "Fetch a refused batch again: the first digits of its id.", _WHAT, "BATCH"
    )
    release: str | None = option(
        "Publish a held batch after a look at it: the first digits of its id.", _WHAT, "BATCH"
    )
    offline: bool = option("Contact nobody: show what is already published.", _WHAT)
    store: str | None = STORE
    migrate: bool = MIGRATE
    processes: int = PROCESSES
    engine: Engine | None = option(
        "What decrypts the records: processes on this machine (local, the default) or Spark.", WORK
    )
    master: str | None = option(
        MASTER,
        WORK,
        "URL",
    )
    executor_dir: Path | None = option(
        "With --engine spark: DIR as the executors see it, with its keys; default: DIR.",
        WORK,
        "PATH",
    )
    watch: bool = option("Keep collecting until interrupted.", WORK)
    every: float = option("With --watch: seconds between two rounds.", WORK, default=30.0)
    report: Path | None = option("Write a report to hand on (.html).")
    csv: Path | None = option("Write the estimates (.csv).")

    rules = (
        Excludes("offline", ("watch", "again", "engine"), "--offline contacts nobody"),
        Needs("master", ("engine=spark",), "the engine with a master"),
        Needs("executor_dir", ("engine=spark",), "the engine with executors"),
        Excludes("watch", ("report", "csv", "json"), "--watch never ends"),
        Excludes("again", ("release",), "--again is for a refused batch, --release for a held one"),
    )

    def check(self) -> None:
        """Numbers, and files that cannot be written."""
        checks.positive(every=self.every)
        files.check(report=self.report, csv=self.csv)


@command(app, COLLECT, server="shoal collect")
def collect(options: CollectOptions) -> None:
    """Fetch closed batches from the shuffler, decrypt and count them, and publish the estimates.

    Each batch is published once, however often this runs or is interrupted.
    """
    from shoal.service.analyzer.collect import Pass
    from shoal.service.analyzer.source import TokenFile
    from shoal.service.analyzer.store import AnalyzerStore
    from shoal.service.ops import administration
    from shoal.service.ops.home import Home, check_party, refuse_both
    from shoal.service.ops.processes import collector

    logging.getLogger("shoal").addHandler(logging.NullHandler())  # what is logged is printed here
    refuse_both(options.directory)
    home = Home(directory=options.directory, role="analyzer", store=options.store)
    tokens = TokenFile(options.token_file or options.directory / "token")
    with closing(home.database(migrate=options.migrate)) as database:
        store = AnalyzerStore(database, home.directory, system_clock)
        surveys, passes = store.surveys.all(), dict[str, Pass]()
        if not surveys:
            raise RefusedError("there is no survey to collect for: add one with shoal survey add")
        if options.survey is not None:
            surveys = [store.surveys.get(administration.survey_name(store, options.survey))]
        if options.release is not None:
            released = administration.release(store, surveys, options.release)
            typer.echo(
                f"released batch {released[:_NAME]}: its result says that the operator did",
                err=True,
            )
        if not options.offline:
            tokens.check()
            keyring = home.keyring(options.protection(home.keys), identity=options.identity)
            check_party(store.surveys.all(), keyring, system_clock())
            if options.again is not None:
                administration.ask_again(store, surveys, options.again)
            with ExitStack() as stack:
                shown = None if options.watch else stack.enter_context(working("collecting"))
                cluster = stack.enter_context(_cluster(options, home.directory, shown))
                worker = stack.enter_context(
                    collector(store, keyring, tokens, options.processes, cluster=cluster)
                )
                if options.watch:
                    _watch(store, worker, surveys, options.every)
                passes = worker.collect(surveys)
        results = [store.results.survey(survey.id) for survey in surveys]
    _write(options, results)
    pairs = [(each, passes.get(str(each.survey.id), Pass())) for each in results]
    if options.json:
        print_json({"surveys": [each.to_dict() | {"pass": done.to_dict()} for each, done in pairs]})
    else:
        for each, done in pairs:
            _show(each, done)
        for path in (options.report, options.csv):
            if path is not None:
                typer.echo(f"wrote {path}")
    # A shuffler that does not answer is what the command failed at.
    silent = {done.problems[""] for done in passes.values() if "" in done.problems}
    if silent:
        raise RefusedError("; ".join(sorted(silent)))


@contextmanager
def _cluster(
    options: CollectOptions, directory: Path, progress: Callable[..., None] | None
) -> Iterator[Cluster | None]:
    """The session of Spark that opens records, if it is to."""
    if options.engine != "spark":
        yield None
        return
    from shoal.engines import spark_session
    from shoal.service.analyzer.cluster import Cluster, Mount

    seen = options.executor_dir or directory.resolve()
    files = (options.passphrase_file, options.key_file)
    mount = Mount(seen, *(path and path.absolute() for path in files))
    with spark_session.session(options.master, progress) as session:
        yield Cluster(session, directory, mount)


def _watch(
    store: AnalyzerStore, worker: AnalyzerWorker, surveys: list[Survey], every: float
) -> None:
    """Print what becomes of every batch, and the same problem once, without an end."""
    printed: set[str] = set()
    while True:
        with working("collecting"):
            passes = worker.collect(surveys)
        for survey in surveys:
            name, done = printable(survey.name), passes[str(survey.id)]
            sentences = store.results.survey(survey.id, documents=False).sentences() if done else {}
            for batch in (*done.published, *done.refused, *done.held):
                print_lines(f"{name}: {sentences[batch]}")
            for problem in problems(done):
                line = f"{name}: {problem}"
                if line not in printed:
                    typer.echo(line, err=True)
                printed.add(line)
        if not any(passes.values()):
            time.sleep(every)


def _write(options: CollectOptions, results: list[SurveyResults]) -> None:
    if options.report is None and options.csv is None:
        return
    if len(results) != 1:
        raise RefusedError(
            f"--report and --csv take one survey, and there are {len(results)}: give --survey"
        )
    (only,) = results
    result = only.result
    if result is None and options.report is not None:
        raise RefusedError("there is nothing to report yet: no batch has been published")
    outputs = [files.text(options.csv, only.to_csv)]
    if result is not None:
        outputs.append(files.text(options.report, result.to_html))
    files.write(*outputs)


def _show(results: SurveyResults, done: Pass) -> None:
    """Print what happened to the batches, and what all of them say together."""
    from rich.padding import Padding
    from rich.text import Text

    survey = results.survey
    aside = {each.batch for each in (*results.refused, *results.held)}
    lines = [
        (f"{'new: ' * (batch in done.published)}{printable(sentence)}", "red" * (batch in aside))
        for batch, sentence in results.sentences().items()
    ]
    lines += [(problem, "yellow") for problem in problems(done)]
    page = console()
    page.print(f"{printable(survey.name)} ({str(survey.id)[:16]})", style="bold")
    for line, style in lines:
        page.print(Padding(Text(line, style=style), (0, 0, 0, 2)))
    page.print()
    result = results.result
    if result is not None:
        show_result(result)
    elif results.counts:
        page.print("the batches cannot be combined into one estimate: --json shows each of them")
    elif results.held:
        page.print("no estimates yet: every batch that could be published is held")
    else:
        page.print(f"no estimates yet: a batch needs {survey.batches.minimum:,} valid reports")
    page.print()


def problems(done: Pass) -> Iterator[str]:
    """A line for everything that waits."""
    for batch, reason in done.problems.items():
        yield f"{f'batch {batch[:_NAME]} waits: ' if batch else ''}{printable(reason)}"
