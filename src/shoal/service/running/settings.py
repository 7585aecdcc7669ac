"""What a service is told when it is started: everything on the command line or in variables."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from shoal import checks
from shoal.service.http.limits import Limits
from shoal.service.http.server import Background, address, adopted, listen
from shoal.service.keyring import Protection
from shoal.service.running import logs
from shoal.service.running.health import Readiness
from shoal.service.running.home import Home
from shoal.service.running.metrics import Figures, metrics_app, registry

LOCAL = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Where a process is reached: a port, or a socket that its parent opened (``descriptor``).

    Figures and health have a port or a descriptor of their own, or none.
    """

    host: str = LOCAL
    port: int = 0
    descriptor: int | None = None
    metrics_host: str = LOCAL
    metrics_port: int | None = None
    metrics_descriptor: int | None = None

    def open(self) -> socket.socket:
        """The socket; a port that is taken is refused."""
        if self.descriptor is not None:
            return adopted(self.descriptor)
        return listen(self.host, self.port)

    def open_metrics(self) -> socket.socket | None:
        """The socket of the figures, if there is one."""
        if self.metrics_descriptor is not None:
            return adopted(self.metrics_descriptor)
        if self.metrics_port is None:
            return None
        return listen(self.metrics_host, self.metrics_port, option="metrics-port")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A party's directory, how its keys are opened, where it listens, and how much it does.

    ``identity`` is where the keys' identity is, if it is not with them. ``processes`` do the
    opening. ``pause`` is how many seconds an idle worker waits. ``proxied`` is for a service that
    sees one address only, the proxy's.
    """

    home: Home
    protection: Protection | None = None
    identity: Path | None = None
    listening: Listening = Listening()
    migrate: bool = False
    processes: int = 0
    pause: float = 1.0
    proxied: bool = False

    def __post_init__(self) -> None:
        checks.count(0, processes=self.processes)
        checks.positive(pause=self.pause)

    @property
    def limits(self) -> Limits:
        """What is too much of one request, one address, and all together."""
        return Limits(address_rate=None) if self.proxied else Limits()


@contextmanager
def measured(
    listening: Listening, figures: Sequence[Figures], readiness: Readiness
) -> Iterator[None]:
    """Serve figures and health on their own port while this lasts, if there is one."""
    opened = listening.open_metrics()
    if opened is None:
        yield
        return
    with opened, Background(metrics_app(registry(figures), readiness), opened):
        logs.say("metrics_listening", address=address(opened))
        yield
