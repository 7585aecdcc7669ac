"""Some of the peers, in a process of their own.

The parent tells the process what to do over a pipe: it stands for the clock that peers on machines
of their own would go by. Values go in, public keys and addresses come out.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

from shoal.sealing.keys import PublicKey
from shoal.service.peers.conditions import Step
from shoal.service.peers.directory import Directory
from shoal.service.peers.host import Host, Standing, Task
from shoal.service.peers.transport import Address

Public = dict[int, tuple[Address, PublicKey]]
_PATIENCE = 10.0


class RemoteHost:
    """A host in another process; if that dies, its peers are gone and everybody else goes on."""

    def __init__(self, task: Task, values: Mapping[int, object]) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy our event loop
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, task, values), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def alive(self) -> bool:
        """Whether the process is there."""
        return self._process.is_alive()

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        self._process.kill()
        self._process.join()

    async def open(self) -> Public:
        """Everybody listens; where, and with which keys."""
        public: Public = await self._told("open") or {}
        return public

    async def join(self, directory: Directory, addresses: dict[int, Address]) -> None:
        """The list is complete: everybody randomizes and seals."""
        await self._told("join", directory, addresses)

    async def begin(self, step: Step) -> None:
        """A round of the walk begins; nothing is sent yet."""
        await self._told("begin", step)

    async def exchange(self, step: Step) -> None:
        """Everybody sends and answers."""
        await self._told("exchange", step)

    async def deadline(self) -> None:
        """The round is over."""
        await self._told("deadline")

    async def standings(self) -> dict[int, Standing]:
        """How everybody stands at the end of the walk."""
        standings: dict[int, Standing] = await self._told("standings") or {}
        return standings

    async def submit(self, step: Step) -> None:
        """A round of submission, from beginning to end."""
        await self._told("submit", step)

    async def close(self) -> None:
        """End the process."""
        await self._told("close")
        self._connection.close()
        await asyncio.to_thread(self._process.join, _PATIENCE)
        self.kill()
        self._process.close()

    async def _told(self, name: str, *arguments: object) -> Any:  # noqa: ANN401 - what Host says
        """What the process answers, or nothing once it is dead."""
        try:
            self._connection.send((name, arguments))
            answer, failure = await asyncio.to_thread(self._connection.recv)
        except (EOFError, OSError):
            return None
        if failure is not None:
            raise failure
        return answer


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
            answer, failure = await getattr(host, name)(*arguments), None
        except Exception as error:  # noqa: BLE001 - the parent raises it again
            answer, failure = None, error
        try:
            connection.send((answer, failure))
        except OSError:
            return
