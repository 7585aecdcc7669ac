"""``shoal serve``: a shuffler, its worker or an analyzer, until it is asked to stop."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.options import choice, flag, number, option, whole
from shoal.cli.party_options import (
    WORK,
    IdentityFile,
    KeyFile,
    Migrate,
    PassphraseFile,
    Processes,
    Store,
)

if TYPE_CHECKING:
    from shoal.service.keyring import Role
    from shoal.service.running.home import Home
    from shoal.service.running.settings import Listening, Settings

_WHERE = "Where it listens"
_LOG = "What it tells"

serve = typer.Typer(help="Run a shuffler, its worker or an analyzer.")


class Level(StrEnum):
    """From which level on the log is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="Its directory; its keys are in DIR/keys.")
]
Host = Annotated[str, option("The address to listen on.", _WHERE, "HOST")]
Port = Annotated[int, whole("The port; 0 for any that is free.", _WHERE)]
MetricsPort = Annotated[
    int | None, whole("The port of metrics and health checks; none if not given.", _WHERE)
]
MetricsHost = Annotated[str, option("The address for them.", _WHERE, "HOST")]
BehindProxy = Annotated[
    bool, flag("--behind-proxy", "All requests come from one address: no limit for it.", _WHERE)
]
Pause = Annotated[float, number("Seconds to wait when there is nothing to do.", WORK)]
Log = Annotated[Path | None, option("Write the log to a file; standard error.", _LOG, "FILE")]
LogLevel = Annotated[Level, choice("From which level on.", _LOG, Level)]
Socket = Annotated[int | None, typer.Option("--socket", hidden=True)]
MetricsSocket = Annotated[int | None, typer.Option("--metrics-socket", hidden=True)]
WithParent = Annotated[bool, typer.Option("--with-parent", hidden=True)]


@serve.callback()
def _serve() -> None:
    """Run a shuffler, its worker or an analyzer.

    They speak plain HTTP: put a reverse proxy with TLS in front. The shuffler and the analyzer
    belong to different operators and share no machine, database, key or log.
    """


@serve.command()
def shuffler(
    directory: Directory,
    *,
    host: Host = "127.0.0.1",
    port: Port = 8460,
    metrics_host: MetricsHost = "127.0.0.1",
    metrics_port: MetricsPort = None,
    behind_proxy: BehindProxy = False,
    store: Store = None,
    migrate: Migrate = False,
    workers: Annotated[int, whole("Processes that take reports in.", WORK)] = 1,
    log: Log = None,
    log_level: LogLevel = Level.INFO,
    socket: Socket = None,
    metrics_socket: MetricsSocket = None,
    with_parent: WithParent = False,
) -> None:
    """Take sealed reports in, and hand closed batches to the analyzer. Needs no passphrase.

    It opens nothing: shoal serve worker does, with the same DIR.
    """
    _prepare("shuffler", store, log, log_level, with_parent)
    from shoal.service.running.settings import Settings
    from shoal.service.running.shuffler_process import run_shuffler
    from shoal.service.running.siblings import run_siblings

    listening = _listening((host, port, socket), (metrics_host, metrics_port, metrics_socket))
    settings = Settings(
        home=_home(directory, "shuffler", store),
        listening=listening,
        migrate=migrate,
        proxied=behind_proxy,
    )
    if workers > 1:
        run_siblings(settings, workers, log=log, level=log_level.value)
    else:
        run_shuffler(settings)


@serve.command()
def worker(
    directory: Directory,
    *,
    metrics_host: MetricsHost = "127.0.0.1",
    metrics_port: MetricsPort = None,
    store: Store = None,
    migrate: Migrate = False,
    passphrase_file: PassphraseFile = None,
    key_file: KeyFile = None,
    identity: IdentityFile = None,
    processes: Processes = 0,
    pause: Pause = 1.0,
    log: Log = None,
    log_level: LogLevel = Level.INFO,
    metrics_socket: MetricsSocket = None,
    with_parent: WithParent = False,
) -> None:
    """Open, close, mix and delete what the shuffler takes in. As many as wanted may run."""
    settings = _with_keys(directory, "shuffler", store, passphrase_file, key_file, identity)
    _prepare("worker", store, log, log_level, with_parent)
    from dataclasses import replace

    from shoal.service.running.settings import Listening
    from shoal.service.running.shuffler_process import run_worker

    listening = Listening(
        metrics_host=metrics_host, metrics_port=metrics_port, metrics_descriptor=metrics_socket
    )
    run_worker(
        replace(settings, listening=listening, migrate=migrate, processes=processes, pause=pause)
    )


@serve.command()
def analyzer(
    directory: Directory,
    *,
    host: Host = "127.0.0.1",
    port: Port = 8461,
    metrics_host: MetricsHost = "127.0.0.1",
    metrics_port: MetricsPort = None,
    behind_proxy: BehindProxy = False,
    shuffler_token: Annotated[
        Path | None,
        option("The file with the token to collect with; DIR/token.", WORK, "FILE"),
    ] = None,
    no_collecting: Annotated[
        bool, flag("--no-collecting", "Only show results; shoal collect gets them.", WORK)
    ] = False,
    public_results: Annotated[
        bool, flag("--public-results", "Anybody may read results, without a token.", WORK)
    ] = False,
    store: Store = None,
    migrate: Migrate = False,
    passphrase_file: PassphraseFile = None,
    key_file: KeyFile = None,
    identity: IdentityFile = None,
    processes: Processes = 0,
    pause: Pause = 30.0,
    log: Log = None,
    log_level: LogLevel = Level.INFO,
    socket: Socket = None,
    metrics_socket: MetricsSocket = None,
    with_parent: WithParent = False,
) -> None:
    """Collect batches, publish what they tell, and show it."""
    settings = _with_keys(directory, "analyzer", store, passphrase_file, key_file, identity)
    _prepare("analyzer", store, log, log_level, with_parent)
    from dataclasses import replace

    from shoal.service.running.analyzer_process import run_analyzer
    from shoal.service.running.collecting import TokenFile
    from shoal.web.pages import pages

    _tell_of_scripts()
    listening = _listening((host, port, socket), (metrics_host, metrics_port, metrics_socket))
    tokens = None if no_collecting else TokenFile(shuffler_token or directory / "token")
    told = replace(settings, listening=listening, migrate=migrate, proxied=behind_proxy)
    run_analyzer(
        replace(told, processes=processes, pause=pause),
        tokens=tokens,
        public_results=public_results,
        pages=pages,
    )


def _prepare(
    name: str, store: str | None, log: Path | None, level: Level, with_parent: bool
) -> None:
    """Refuse what is not installed, then begin to log."""
    from shoal.cli.files import writing_to
    from shoal.service.running.extras import need_party

    need_party(f"shoal serve {name}", store)
    from shoal.service.running import children, connections, home, logs

    home.private()
    connections.allow_many_files()
    with writing_to(log or Path()):
        logs.configure(to=log, level=level.value)
    if with_parent:
        children.follow_parent()


def _tell_of_scripts() -> None:
    """Pages without their scripts take no answers: said at once, and by shoal doctor."""
    import logging

    from shoal.service.running import logs
    from shoal.web import assets

    lacking = assets.unbuilt()
    if lacking:
        told = {"role": "analyzer", "count": len(lacking)}
        logs.say("browser_scripts_missing", level=logging.WARNING, **told)


def _listening(
    main: tuple[str, int, int | None], metrics: tuple[str, int | None, int | None]
) -> Listening:
    """Where it is reached and where its figures are: host, port, and a socket of the parent's."""
    from shoal.service.running.settings import Listening

    return Listening(
        host=main[0],
        port=main[1],
        descriptor=main[2],
        metrics_host=metrics[0],
        metrics_port=metrics[1],
        metrics_descriptor=metrics[2],
    )


def _home(directory: Path, role: Role, store: str | None) -> Home:
    from shoal.service.running.home import Home
    from shoal.service.running.places import refuse_both

    refuse_both(directory)
    found = Home(directory=directory, role=role, store=store)
    found.check()
    found.check_role()
    return found


def _with_keys(
    directory: Path,
    role: Role,
    store: str | None,
    passphrase_file: Path | None,
    key_file: Path | None,
    identity: Path | None,
) -> Settings:
    """The directory with what opens its keys; asked for before anything else is done."""
    from shoal.cli import keys_secrets
    from shoal.service.running.extras import need_party

    need_party("shoal serve", store)
    from shoal.service.running.settings import Settings

    home = _home(directory, role, store)
    protection = keys_secrets.for_ring(
        home.keys, passphrase_file=passphrase_file, key_file=key_file, identity=identity
    )
    return Settings(home=home, protection=protection, identity=identity)
