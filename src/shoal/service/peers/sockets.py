"""The protocol on TCP sockets, with asyncio, in one process or several.

Whoever wants to say something connects. The one connected to, if it takes part in this round, first
sends an empty frame; only then are frames sent, and each is answered on the same connection. So a
sender without that greeting knows that nothing of its own was heard, which is the difference
between a report that stays and one that is in doubt. A frame comes after its length in four
big-endian bytes.

A host runs some of the peers on one event loop. One in a process of its own is told what to do over
a pipe, which stands for the clock that peers on machines of their own would go by. Values go in,
public keys and addresses come out.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol

from shoal.sealing.errors import MalformedError
from shoal.sealing.keys import KeyPair, PublicKey
from shoal.service.peers.machine import Peer, Send, Standing, Task
from shoal.service.peers.survey import Directory, Step

LOOPBACK = "127.0.0.1"
GREETING = b""
PREFIX_BYTES = 4
# One process has so many file descriptors and no more. What it takes is never filled by peers that
# follow the protocol, as all processes together make no more connections than that.
_MOST_TAKEN = 256
_MOST_MADE = 128
_TIMEOUT = 10.0
_CUT_OFF = (MalformedError, EOFError, OSError, TimeoutError)

Tap = Callable[[int, int, bytes], None]  # sees every frame: from, to, bytes
Address = tuple[str, int]
Public = dict[int, tuple[Address, PublicKey]]


class Machine(Protocol):
    """Anything that answers frames: a peer, or the server."""

    def receive(self, sealed: bytes) -> bytes | None:
        """A frame came; the answer to it, if it has one."""


def framed(payload: bytes) -> bytes:
    """A frame: the payload after its length.

    >>> framed(b"abc").hex()
    '00000003616263'
    """
    return len(payload).to_bytes(PREFIX_BYTES, "big") + payload


async def read_frame(stream: asyncio.StreamReader, lengths: Collection[int]) -> bytes:
    """The payload of the next frame. Of another length it is refused before its bytes arrive."""
    length = int.from_bytes(await stream.readexactly(PREFIX_BYTES), "big")
    if length not in lengths:
        raise MalformedError(
            f"a frame of {length} bytes", f"one of {' or '.join(map(str, sorted(lengths)))}"
        )
    return await stream.readexactly(length)


@asynccontextmanager
async def all_or_none() -> AsyncIterator[asyncio.TaskGroup]:
    """Tasks of which none goes on when one fails; what the first one raised, not a group of it."""
    try:
        async with asyncio.TaskGroup() as tasks:
            yield tasks
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


class Connections:
    """What a process has taken: so many connections, each for so many seconds.

    Nobody who follows the protocol needs a connection for longer. When there are too many, the one
    that has been silent longest makes room.
    """

    def __init__(self, deadline: float, most: int = _MOST_TAKEN) -> None:
        self.deadline = deadline
        self._most = most
        self._silent: dict[asyncio.StreamWriter, Listener] = {}  # the longest silent one first

    def add(self, connection: asyncio.StreamWriter, listener: Listener) -> None:
        """Somebody connected."""
        if len(self._silent) >= self._most:
            self.end(next(iter(self._silent)))
        self._silent[connection] = listener

    def heard(self, connection: asyncio.StreamWriter) -> None:
        """A whole frame came of it."""
        if connection in self._silent:  # what came before it made room may be read after that
            self._silent[connection] = self._silent.pop(connection)

    def end(self, connection: asyncio.StreamWriter) -> None:
        """Drop it; what has come of it can still be read."""
        self._silent.pop(connection, None)
        connection.transport.abort()

    def end_all(self, listener: Listener) -> None:
        """Drop whoever is connected to one listener."""
        for connection in [each for each, to in self._silent.items() if to is listener]:
            self.end(connection)


class Listener:
    """A port that answers frames for a machine, while one is in."""

    def __init__(self, connections: Connections) -> None:
        self._machine: Machine | None = None
        self._frame_size = 0
        self._server: asyncio.Server | None = None
        self._connections = connections

    async def open(self, host: str = LOOPBACK) -> Address:
        """Listen on a free port, with nobody in."""
        self._server = await asyncio.start_server(self._answer, host, 0)
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
        self._connections.end_all(self)
        if self._server is not None:
            self._server.close()

    async def _answer(self, frames: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        """Somebody connected: greet them if somebody is in, and answer their frames."""
        self._connections.add(answers, self)
        try:
            async with asyncio.timeout(self._connections.deadline):
                greeted = self._machine is not None
                if greeted:
                    answers.write(framed(GREETING))
                while greeted:
                    frame = await read_frame(frames, {self._frame_size})
                    self._connections.heard(answers)
                    answer = None if self._machine is None else self._machine.receive(frame)
                    if answer is not None:
                        answers.write(framed(answer))
        except _CUT_OFF:
            pass
        finally:
            self._connections.end(answers)


@dataclass(frozen=True)
class Dialer:
    """Delivers one machine's frames: where everybody is, how long to wait, who may look.

    ``slots`` are the connections that it has at once.
    """

    addresses: dict[int, Address]
    deadline: float
    slots: asyncio.Semaphore
    tap: Tap | None = None

    async def deliver(
        self, number: int, sends: Iterable[Send], hear: Callable[[bytes], object]
    ) -> list[int]:
        """Send frames, pass their answers on, and return those to whom nothing was said."""
        by_addressee: dict[int, list[bytes]] = defaultdict(list)
        for send in sends:
            by_addressee[send.to].append(send.frame)
        async with all_or_none() as tasks:
            greeted = {
                to: tasks.create_task(self._converse(number, to, frames, hear))
                for to, frames in by_addressee.items()
            }
        return [to for to, there in greeted.items() if not there.result()]

    async def _converse(
        self, number: int, to: int, frames: list[bytes], hear: Callable[[bytes], object]
    ) -> bool:
        """One connection, from greeting to last answer; whether the other was there at all."""
        greeted, unanswered = False, len(frames)
        lengths = {len(GREETING), *map(len, frames)}
        async with self.slots:
            # Not there, or not answering: what was greeted and not answered is in doubt.
            with suppress(*_CUT_OFF):
                async with asyncio.timeout(self.deadline):
                    answers, connection = await asyncio.open_connection(*self.addresses[to])
                    try:
                        while unanswered:
                            answer = await read_frame(answers, lengths)
                            if answer != GREETING:
                                self._watch(to, number, [answer])
                                hear(answer)
                                unanswered -= 1
                            elif not greeted:
                                greeted = True
                                self._watch(number, to, frames)
                                connection.writelines(map(framed, frames))
                    finally:
                        connection.transport.abort()
        return greeted

    def _watch(self, sender: int, to: int, frames: list[bytes]) -> None:
        if self.tap is not None:
            for frame in frames:
                self.tap(sender, to, frame)


class Host:
    """Runs the peers whose values it is given. Their secret keys never leave it."""

    def __init__(self, task: Task, values: Mapping[int, object], tap: Tap | None = None) -> None:
        self._task = task
        self._values = values
        self._tap = tap
        self._pairs = {number: KeyPair.generate() for number in values}
        connections = Connections(task.conditions.deadline)
        self._listeners = {number: Listener(connections) for number in values}
        self._peers: dict[int, Peer] = {}
        self._sends: dict[int, list[Send]] = {}
        self._killed: dict[int, Standing] = {}

    async def do(self, name: str, *arguments: object) -> Any:  # noqa: ANN401 - what it answers
        """One of the steps below, by its name: a host in another process hears only that."""
        return await getattr(self, name)(*arguments)

    async def open(self) -> Public:
        """Everybody listens; where, and with which keys."""
        return {
            number: (await listener.open(), self._pairs[number].public)
            for number, listener in self._listeners.items()
        }

    async def join(self, directory: Directory, addresses: dict[int, Address]) -> None:
        """The list is complete: everybody randomizes and seals."""
        conditions = self._task.conditions
        slots = max(1, min(_MOST_MADE, _MOST_TAKEN // conditions.processes))
        self._dialer = Dialer(addresses, conditions.deadline, asyncio.Semaphore(slots), self._tap)
        self._wire = self._task.wire(directory)
        for number, value in self._values.items():
            pair = self._pairs[number]
            self._peers[number] = self._task.peer(number, value, pair, directory, self._wire)

    async def begin(self, step: Step) -> None:
        """A round of the walk begins; nothing is sent yet."""
        for number, peer in self._peers.items():
            self._sends[number] = peer.begin(step.number, online=number not in step.away)
            if number in step.away:
                self._listeners[number].leave()
            else:
                self._listeners[number].admit(peer, self._wire.hop.size)

    async def exchange(self, step: Step) -> None:
        """Everybody sends and answers; those killed go in the middle of it."""
        async with all_or_none() as tasks:
            deliveries = self._deliveries(tasks)
            await asyncio.sleep(0)
            for number in step.killed & deliveries.keys():
                deliveries.pop(number).cancel()
                self._killed[number] = Standing(killed=self._peers.pop(number).holding)
                self._listeners[number].close()
        for number, delivery in deliveries.items():
            for to in delivery.result():
                self._peers[number].unreachable(to)

    async def deadline(self) -> None:
        """The round is over."""
        for peer in self._peers.values():
            peer.deadline()

    async def standings(self) -> dict[int, Standing]:
        """How everybody stands at the end of the walk."""
        living = {number: Standing.of(peer) for number, peer in self._peers.items()}
        return living | self._killed

    async def submit(self, step: Step) -> None:
        """A round of submission, from beginning to end."""
        for number, peer in self._peers.items():
            self._listeners[number].leave()
            self._sends[number] = peer.submit(step.number, online=number not in step.away)
        async with all_or_none() as tasks:
            self._deliveries(tasks)

    async def close(self) -> None:
        """Nobody listens any more."""
        for listener in self._listeners.values():
            listener.close()
        await asyncio.sleep(0)

    def _deliveries(self, tasks: asyncio.TaskGroup) -> dict[int, asyncio.Task[list[int]]]:
        return {
            number: tasks.create_task(
                self._dialer.deliver(number, self._sends.pop(number), peer.receive)
            )
            for number, peer in self._peers.items()
        }


class RemoteHost:
    """A host in another process; if that dies, its peers are gone and everybody else goes on.

    One thread of its own asks, reads the answer, and only then asks again: where nobody waits for
    an answer any more, it is read all the same, and nothing else is read in its place.
    """

    def __init__(self, task: Task, values: Mapping[int, object]) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy our event loop
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, task, values), daemon=True)
        self._process.start()
        theirs.close()
        self._thread = ThreadPoolExecutor(1)

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        self._process.kill()
        self._process.join()

    async def do(self, name: str, *arguments: object) -> Any:  # noqa: ANN401 - what Host answers
        """What the process answers, or nothing once it is dead."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._request, name, *arguments)

    async def close(self) -> None:
        """End the process, after the answer that it owes."""
        ending = asyncio.get_running_loop().run_in_executor(self._thread, self._end)
        self._thread.shutdown(wait=False)
        await asyncio.shield(ending)  # or it would not begin while an answer is owed

    def _request(self, name: str, *arguments: object) -> Any:  # noqa: ANN401 - what Host answers
        try:
            self._connection.send((name, arguments))
            answer, failure = self._connection.recv()
        except (EOFError, OSError):
            return None
        if failure is not None:
            raise failure
        return answer

    def _end(self) -> None:
        try:
            self._request("close")
        finally:
            self._connection.close()
            self._process.join(_TIMEOUT)
            self.kill()
            self._process.close()


def _serve(connection: Connection, task: Task, values: Mapping[int, object]) -> None:
    asyncio.run(_obey(connection, Host(task, values)))


async def _obey(connection: Connection, host: Host) -> None:
    """Do what the parent says until it says close, or is gone itself."""
    name = ""
    while name != "close":
        try:
            name, arguments = await asyncio.to_thread(connection.recv)
        except EOFError:
            name, arguments = "close", ()
        try:
            answer, failure = await host.do(name, *arguments), None
        except Exception as error:  # noqa: BLE001 - the parent raises it again
            answer, failure = None, error
        try:
            connection.send((answer, failure))
        except OSError:
            return
