"""``shoal serve``: a shuffler, its worker or an analyzer, until it is asked to stop."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from shoal.cli.app import OPERATE, Commands, app
from shoal.cli.options import BareOptions, Excludes, command, option
from shoal.cli.party import MIGRATE, PROCESSES, STORE, WORK, SecretOptions
from shoal.errors import RefusedError

if TYPE_CHECKING:
    from shoal.service.keyring import Role
    from shoal.service.ops.processes import Settings

_WHERE = "Where it listens"
_MUCH = "Limits for one address"
_LOG = "Logs and metrics"

serve = typer.Typer(
    cls=Commands,
    help="""Run a shuffler, its worker or an analyzer.

    They speak plain HTTP: put a reverse proxy with TLS in front. The shuffler and the analyzer
    belong to different operators and share no machine, database, key or log.
    """,
)
app.add_typer(serve, name="serve", rich_help_panel=OPERATE)


_PORT = "The port; 0 for any free one."
_PAUSE = "Seconds to wait when there is no work."


Level = Literal["debug", "info", "warning", "error"]  # from which level on the log is written


class ProcessOptions(BareOptions):
    """Where a process of a party has its directory, its metrics and its log."""

    directory: Path = option("Its directory; its keys are in DIR/keys.", name="DIR")
    metrics_host: str = option(
        "The address for metrics and health checks.", _WHERE, "HOST", default="127.0.0.1"
    )
    metrics_port: int | None = option(
        "The port for metrics and health checks; default: none.", _WHERE
    )
    store: str | None = STORE
    migrate: bool = MIGRATE
    log: Path | None = option("File for the log; default: standard error.", _LOG)
    log_level: Level = option("Lowest level that is logged.", _LOG, default="info")
    metrics_socket: int | None = option("", hidden=True, keyword="metrics_descriptor")
    with_parent: bool = option("", hidden=True)

    def begin(self, role: Role) -> Settings:
        """Open the keys, begin to log and to follow the parent; what the process is started with.

        A directory that is not the party's is refused first.
        """
        from shoal.service.http.limits import Limits
        from shoal.service.http.server import allow_many_files
        from shoal.service.ops import logs
        from shoal.service.ops.home import Home
        from shoal.service.ops.processes import Settings, follow_parent
        from shoal.service.shuffler.worker import Pace

        home = Home(directory=self.directory, role=role, store=self.store)
        home.keyring(None)
        more: dict[str, Any] = {}
        if isinstance(self, SecretOptions):  # who takes reports in opens no envelopes
            pace = Pace(**self.arguments(Pace))
            more = {"protection": self.protection(home.keys), "pace": pace}
        if isinstance(self, ListenOptions):
            limits = Limits(**self.arguments(Limits))
            more["limits"] = replace(limits, address_rate=None) if self.behind_proxy else limits
        settings = Settings(home=home, **self.arguments(Settings), **more)
        os.umask(0o077)  # whatever is written is for this user alone
        allow_many_files()
        try:
            logs.configure(to=self.log, level=self.log_level)
        except OSError as error:
            raise RefusedError(f"cannot write to {self.log}: {error.strerror or error}") from error
        if self.with_parent:
            threading.Thread(target=follow_parent, name="parent", daemon=True).start()
        return settings


class ListenOptions(ProcessOptions):
    """Where others reach it."""

    host: str = option("The address to listen on.", _WHERE, "HOST", default="127.0.0.1")
    port: int = option(_PORT, _WHERE, default=0)
    proxy: str | None = option(
        "The proxy in front, or its network: it names every sender in the header Shoal-Sender, "
        "which is believed from there alone.",
        _WHERE,
        "ADDRESS",
    )
    behind_proxy: bool = option(
        "All requests come through a proxy that names no senders: limit no address.", _WHERE
    )
    address_connections: int = option(
        "Connections at once. An IPv6 address stands for its /64; a /56 has 4 times, a /48 "
        "16 times every limit.",
        _MUCH,
        default=256,
    )
    address_requests: int = option("Uploads at once.", _MUCH, default=64)
    address_bytes: int = option("Bytes of uploads at once.", _MUCH, default=16 << 20)
    address_rate: float = option("Reports per second.", _MUCH, default=1000.0)
    address_burst: int = option(
        "Reports that may exceed that rate in a burst.", _MUCH, default=20_000
    )
    limit_loopback: bool = option("Limit this machine's own addresses too.", _MUCH)
    socket: int | None = option("", hidden=True, keyword="descriptor")

    rules = (Excludes("proxy", ("behind_proxy",), "--proxy names senders, --behind-proxy none"),)


class ShufflerOptions(ListenOptions):
    """A shuffler that takes reports in."""

    port: int = option(_PORT, _WHERE, default=8460)
    workers: int = option("Number of processes that accept reports.", WORK, default=1)
    address_reports: int = option(
        "Reports per hour to surveys that anybody may answer.", _MUCH, default=100
    )


@command(serve, server="shoal serve")
def shuffler(options: ShufflerOptions) -> None:
    """Accept sealed reports, and hand closed batches to the analyzer. Needs no passphrase.

    It decrypts nothing: shoal serve worker does, with the same DIR.
    """
    settings = options.begin("shuffler")
    from shoal.service.ops.processes import run_intakes, run_shuffler

    if options.workers > 1:
        run_intakes(settings, options.workers, sys.argv[1:], heard=options.log is not None)
    else:
        run_shuffler(settings)


class WorkerOptions(SecretOptions, ProcessOptions):
    """A worker, which opens what the shuffler takes in."""

    processes: int = PROCESSES
    pause: float = option(_PAUSE, WORK, default=1.0)
    gather: float = option(
        "Seconds for which reports wait to be opened together.", WORK, default=600.0
    )
    gather_reports: int = option("Open them earlier once this many wait.", WORK, default=1000)


@command(serve, server="shoal serve")
def worker(options: WorkerOptions) -> None:
    """Decrypt, mix and delete the reports that the shuffler accepts. Several workers may run."""
    settings = options.begin("shuffler")
    from shoal.service.ops.processes import run_worker

    run_worker(settings)


class AnalyzerOptions(SecretOptions, ListenOptions):
    """An analyzer, which collects and publishes."""

    processes: int = PROCESSES
    port: int = option(_PORT, _WHERE, default=8461)
    shuffler_token: Path | None = option(
        "The file with the token for collecting; default: DIR/token.", WORK
    )
    no_collecting: bool = option("Only show results; shoal collect fetches them.", WORK)
    public_results: bool = option("Anybody may read results, without a token.", WORK)
    pause: float = option(_PAUSE, WORK, default=30.0)


@command(serve, server="shoal serve")
def analyzer(options: AnalyzerOptions) -> None:
    """Collect batches, publish the estimates, and show them."""
    settings = options.begin("analyzer")
    import logging

    from shoal.service.analyzer.source import TokenFile
    from shoal.service.ops import logs
    from shoal.service.ops.processes import run_analyzer
    from shoal.web import assets
    from shoal.web.pages import pages

    # Such pages take no answers: the log has it at once, and shoal doctor.
    if lacking := len(assets.unbuilt()):
        logs.say("browser_scripts_missing", level=logging.WARNING, role="analyzer", count=lacking)
    token_file = options.shuffler_token or options.directory / "token"
    run_analyzer(
        settings,
        tokens=None if options.no_collecting else TokenFile(token_file),
        public_results=options.public_results,
        pages=pages,
    )
