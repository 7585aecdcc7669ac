"""The protocol on TCP sockets, with asyncio.

Whoever wants to say something connects. The one connected to, if it takes part in this round, first
sends an empty frame; only then are frames sent, and each is answered on the same connection. So a
sender without that greeting knows that nothing of its own was heard, which is the difference
between a report that stays and one that is in doubt.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

from shoal.sealing.errors import FramingError
from shoal.sealing.framing import Deframer, framed
from shoal.service.peers.machine import Send

LOOPBACK = "127.0.0.1"
GREETING = b""

Tap = Callable[[int, int, bytes], None]
Address = tuple[str, int]


class Machine(Protocol):
    """Anything that answers frames: a peer, or the server."""

    def receive(self, sealed: bytes) -> bytes | None:
        """A frame came; the answer to it, if it has one."""


class Listener:
    """A port that answers frames for a machine, while one is in."""

    def __init__(self) -> None:
        self._machine: Machine | None = None
        self._frame_size = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Transport] = set()

    async def open(self, host: str = LOOPBACK) -> Address:
        """Listen on a free port, with nobody in."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Answering(self), host, 0)
        address: Address = self._server.sockets[0].getsockname()[:2]
        return address

    def admit(self, machine: Machine, frame_size: int) -> None:
        """The machine is in: frames of its one size are for it."""
        self._machine = machine
        self._frame_size = frame_size

    def leave(self) -> None:
        """Nobody is in: no greeting for whoever connects."""
        self._machine = None

    def close(self) -> None:
        """Stop listening, and drop whoever is connected."""
        self.leave()
        for connection in list(self._connections):
            connection.abort()
        if self._server is not None:
            self._server.close()

    def joined(self, connection: asyncio.Transport) -> Deframer:
        """Somebody connected: greet them if somebody is in."""
        self._connections.add(connection)
        if self._machine is None:
            connection.abort()
        else:
            connection.write(framed(GREETING))
        return Deframer({self._frame_size})

    def answer(self, frame: bytes) -> bytes | None:
        """The machine's answer to a frame."""
        return None if self._machine is None else self._machine.receive(frame)

    def left(self, connection: asyncio.Transport) -> None:
        """Somebody is gone."""
        self._connections.discard(connection)


class _Answering(asyncio.Protocol):
    """One connection that somebody else made."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection = cast("asyncio.Transport", transport)
        self._deframer = self._listener.joined(self._connection)

    def data_received(self, data: bytes) -> None:
        try:
            frames = self._deframer.feed(data)
        except FramingError:
            self._connection.abort()
            return
        answers = (self._listener.answer(frame) for frame in frames)
        self._connection.writelines(framed(answer) for answer in answers if answer is not None)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why does not matter
        self._listener.left(self._connection)


class _Asking(asyncio.Protocol):
    """One connection that we made, to send frames and hear the answers."""

    def __init__(self, frames: Sequence[bytes], hear: Callable[[bytes], None]) -> None:
        self._frames = frames
        self._hear = hear
        self._expected = len(frames)
        self._deframer = Deframer({len(GREETING), *(len(frame) for frame in frames)})
        self.greeted = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._deframer.feed(data):
                self._heard(frame)
        except FramingError:
            self._finish()

    def _heard(self, frame: bytes) -> None:
        if frame == GREETING:
            if not self.greeted:
                self.greeted = True
                self._connection.writelines(framed(sent) for sent in self._frames)
            return
        self._hear(frame)
        self._expected -= 1
        if not self._expected:
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why does not matter
        self._finish()

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


@dataclass(frozen=True)
class Dialer:
    """Delivers one machine's frames: where everybody is, how long to wait, who may look."""

    addresses: dict[int, Address]
    deadline: float
    tap: Tap | None = None
    # One process has so many file descriptors and no more.
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(128))

    async def deliver(
        self, number: int, sends: Iterable[Send], hear: Callable[[bytes], object]
    ) -> list[int]:
        """Send frames, pass their answers on, and return those to whom nothing was said."""
        by_addressee: dict[int, list[bytes]] = defaultdict(list)
        for send in sends:
            by_addressee[send.to].append(send.frame)
        greeted = await asyncio.gather(
            *(self._converse(number, to, frames, hear) for to, frames in by_addressee.items())
        )
        return [to for to, there in zip(by_addressee, greeted, strict=True) if not there]

    async def _converse(
        self, number: int, to: int, frames: list[bytes], hear: Callable[[bytes], object]
    ) -> bool:
        """One connection, from greeting to last answer; whether the other was there at all."""

        def overheard(answer: bytes) -> None:
            self._watch(to, number, [answer])
            hear(answer)

        asking = _Asking(frames, overheard)
        async with self.slots:
            try:
                async with asyncio.timeout(self.deadline):
                    await _finished(asking, self.addresses[to])
            except (OSError, TimeoutError):
                pass  # not there, or not answering: what was greeted and not answered is in doubt
        if asking.greeted:
            self._watch(number, to, frames)
        return asking.greeted

    def _watch(self, sender: int, to: int, frames: list[bytes]) -> None:
        if self.tap is not None:
            for frame in frames:
                self.tap(sender, to, frame)


async def _finished(asking: _Asking, address: Address) -> None:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(lambda: asking, *address)
    try:
        await asking.done
    finally:
        transport.abort()
