"""Several processes that take reports in at one port.

One process opens the port and starts the others, which share it; who dies is started again. Each
has figures of its own: on the port of the metrics, the next one, and so on.
"""

from __future__ import annotations

import threading
from pathlib import Path

from shoal.errors import InvalidArgumentError
from shoal.service.http.server import address
from shoal.service.running import logs
from shoal.service.running.children import Child, Children
from shoal.service.running.home import STORE_VARIABLE
from shoal.service.running.server import stopping
from shoal.service.running.settings import Settings

MOST = 64


def run_siblings(settings: Settings, workers: int, *, log: Path | None, level: str) -> None:
    """So many shufflers at one port, until SIGTERM or SIGINT."""
    if not 2 <= workers <= MOST:
        raise InvalidArgumentError("workers", workers, f"2 to {MOST}")
    settings.home.database(migrate=settings.migrate).close()
    stop = threading.Event()
    with settings.listening.open() as listening, stopping(stop.set):
        descriptor = listening.fileno()
        words = [_words(settings, descriptor, number, log, level) for number in range(workers)]
        # An address of a database may have a password in it: not for the list of processes.
        variables = {STORE_VARIABLE: settings.home.store} if settings.home.store else {}
        children = [
            Child("shuffler", each, (descriptor,), variables, heard=log is not None)
            for each in words
        ]
        with Children(children) as running:
            logs.say("listening", role="shuffler", address=address(listening), count=workers)
            running.watch(stop)
    logs.say("stopped", role="shuffler")


def _words(
    settings: Settings, descriptor: int, number: int, log: Path | None, level: str
) -> list[str]:
    words = ["serve", "shuffler", str(settings.home.directory), "--socket", str(descriptor)]
    words += ["--with-parent", "--log-level", level]
    if settings.proxied:
        words += ["--behind-proxy"]
    listening = settings.listening
    if listening.metrics_port is not None:
        port = listening.metrics_port and listening.metrics_port + number
        words += ["--metrics-host", listening.metrics_host, "--metrics-port", str(port)]
    if log is not None:
        words += ["--log", str(log)]
    return words
