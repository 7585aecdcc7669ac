"""Services as processes of their own: started, watched, started again, and ended in good order.

A child hears of its parent's end, however that comes about, because its standard input ends then;
it then stops as it does at SIGTERM. Interrupts of the terminal reach the parent only.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from shoal.errors import ShoalError
from shoal.service.ops import logs

STOP_TIMEOUT = 45.0  # seconds until a child that was asked to stop is killed
_SHORTEST_LIFE = 5.0  # seconds; one that dies younger is not started a third time
_PAUSE = 0.1
_TAIL = 4096
_LAST_WORDS = 2.0  # seconds, if somebody else holds the pipe open
REFUSED = 2


class ChildFailedError(ShoalError):
    """A service that did not come up, or did not stay."""

    def __init__(self, name: str, status: int, last_line: str) -> None:
        self.name = name
        self.status = status
        why = last_line or f"it ended with status {status} and said nothing; see its log"
        super().__init__(f"the {name} stopped: {why}")


class TooSlowError(ShoalError):
    """Something that the services should have done by now."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what} took more than {seconds:.0f} s; see the logs, and shoal doctor")


@dataclass
class Child:
    """One service: what it is called, the words of its command, and what it is handed.

    ``heard``: what it writes where errors go is read all the time, so that it can always write,
    and its end is kept; otherwise it goes where this process's errors go.
    """

    name: str
    words: Sequence[str]
    descriptors: tuple[int, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    heard: bool = True
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    born: float = field(default=0.0, init=False)
    deaths: int = field(default=0, init=False)
    _tail: bytes = field(default=b"", init=False)
    _hearing: threading.Thread | None = field(default=None, init=False)

    def start(self) -> None:
        """Start it."""
        self.process = subprocess.Popen(  # noqa: S603 - this program, with words of our own
            [sys.executable, "-m", "shoal.cli", *self.words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE if self.heard else None,
            env=os.environ | self.variables,
            pass_fds=self.descriptors,
            start_new_session=True,
        )
        self.born = time.monotonic()
        self._tail = b""
        if self.process.stderr is not None:
            heard = (self.process.stderr.fileno(),)
            self._hearing = threading.Thread(target=self._hear, args=heard, daemon=True)
            self._hearing.start()

    def _hear(self, descriptor: int) -> None:
        with suppress(OSError):
            while piece := os.read(descriptor, _TAIL):
                self._tail = (self._tail + piece)[-_TAIL:]

    @property
    def status(self) -> int | None:
        """How it ended; None while it lives."""
        return None if self.process is None else self.process.poll()

    def last_line(self) -> str:
        """The last line it wrote where errors go, if it has ended."""
        if self._hearing is None or self.status is None:
            return ""
        self._hearing.join(_LAST_WORDS)
        text = self._tail.decode(errors="replace").strip()
        return text.splitlines()[-1].removeprefix("error: ") if text else ""

    def wait(self, deadline: float) -> None:
        """Until it has ended; by force when the time is over."""
        if self.process is None:
            return
        try:
            self.process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            logs.say("child_killed", level=logging.WARNING, role=self.name)
            self.process.kill()
            self.process.wait()

    def close(self) -> None:
        """Let go of what is left of it."""
        if self.process is not None:
            if self._hearing is not None:  # a descriptor that is closed could be another one's soon
                self._hearing.join(_LAST_WORDS)
            for pipe in (self.process.stdin, self.process.stderr):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()


class Children:
    """Several services that live and end together."""

    def __init__(self, children: Sequence[Child], *, ordered: bool = False) -> None:
        self._children = tuple(children)
        self._ordered = ordered

    def __enter__(self) -> Self:
        for child in self._children:
            child.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def check(self) -> None:
        """Start again whoever died; refuse if that does not help, or it was refused itself."""
        for child in self._children:
            status = child.status
            if status is None:
                continue
            last_line = child.last_line()
            child.close()
            young = time.monotonic() - child.born < _SHORTEST_LIFE
            child.deaths = child.deaths + 1 if young else 1
            if status == REFUSED or (young and child.deaths > 1):
                raise ChildFailedError(child.name, status, last_line)
            about = {"role": child.name, "status": status, "attempt": child.deaths}
            logs.say("child_died", level=logging.WARNING, **about)
            child.start()

    def watch(self, stop: threading.Event) -> None:
        """Keep them running until ``stop``."""
        while not stop.wait(_PAUSE):
            self.check()

    def until(
        self, ready: Callable[[], bool], timeout: float, what: str, *, pause: float = _PAUSE
    ) -> None:
        """Wait for something that they do."""
        deadline = time.monotonic() + timeout
        while not ready():
            self.check()
            if time.monotonic() > deadline:
                raise TooSlowError(what, timeout)
            time.sleep(pause)

    def stop(self, timeout: float = STOP_TIMEOUT) -> None:
        """Ask all to stop and wait; kill whoever does not.

        In order, the last one started goes first and alone: nobody has to wait for an answer of
        somebody who is gone.
        """
        living = [child for child in reversed(self._children) if child.status is None]
        for each in [[child] for child in living] if self._ordered else [living]:
            for child in each:
                if child.process is not None:  # it finishes what it has begun
                    child.process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + timeout
            for child in each:
                child.wait(deadline)
        for child in self._children:
            child.close()


def follow_parent() -> None:
    """Stop this process, as SIGTERM does, when its standard input ends: its parent is gone."""

    def wait() -> None:
        with suppress(OSError):
            while os.read(0, 1024):
                pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="parent", daemon=True).start()
