"""Some of the peers, on sockets of one process and one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.randomizers.base import Randomizer
from shoal.sealing.keys import KeyPair, PublicKey
from shoal.service.peers.conditions import Conditions, Step
from shoal.service.peers.directory import Directory
from shoal.service.peers.machine import Peer, Send
from shoal.service.peers.routing import Place
from shoal.service.peers.survey import PeerSurvey, Wire
from shoal.service.peers.transport import Address, Dialer, Listener, Tap


@dataclass(frozen=True)
class Task:
    """What every peer is told before it starts, and how it will fare."""

    survey: PeerSurvey
    randomizer: Randomizer
    conditions: Conditions

    def wire(self, directory: Directory) -> Wire:
        """The survey's envelopes."""
        return self.survey.wire(self.randomizer, directory)

    def place(self, number: int, pair: KeyPair, directory: Directory, wire: Wire) -> Place:
        """Where a peer stands."""
        return Place(number, pair, directory, wire, self.conditions.randomness(number))

    def peer(self, place: Place, value: object) -> Peer:
        """A peer that holds its own value, randomized and sealed."""

        def message(answer: object) -> bytes:
            messages = self.randomizer.randomize(np.asarray([answer]), randomness=place.randomness)
            return self.randomizer.encode(messages).tobytes()

        blank = None if self.survey.submit == "all" else lambda: message(self.survey.default)
        peer = Peer(place, cover=self.survey.cover, blank=blank)
        peer.keep(message(value))
        return peer


@dataclass(frozen=True)
class Standing:
    """How a peer stands at the end of the walk."""

    load: int = 0  # reports it holds that the server can open
    stranded: int = 0  # reports it holds whose path is not over
    moves: int = 0  # hops it made reports make
    killed: int = 0  # reports it held when it was killed

    @classmethod
    def of(cls, peer: Peer) -> Standing:
        """How a peer stands between rounds."""
        return cls(load=peer.ready, stranded=peer.holding - peer.ready, moves=peer.moves)


class Host:
    """Runs the peers whose values it is given. Their secret keys never leave it."""

    def __init__(self, task: Task, values: Mapping[int, object], tap: Tap | None = None) -> None:
        self._task = task
        self._values = values
        self._tap = tap
        self._pairs = {number: KeyPair.generate() for number in values}
        self._listeners = {number: Listener() for number in values}
        self._peers: dict[int, Peer] = {}
        self._sends: dict[int, list[Send]] = {}
        self._killed: dict[int, Standing] = {}

    async def open(self) -> dict[int, tuple[Address, PublicKey]]:
        """Everybody listens; where, and with which keys."""
        return {
            number: (await listener.open(), self._pairs[number].public)
            for number, listener in self._listeners.items()
        }

    async def join(self, directory: Directory, addresses: dict[int, Address]) -> None:
        """The list is complete: everybody randomizes and seals."""
        self._dialer = Dialer(addresses, self._task.conditions.deadline, self._tap)
        self._wire = self._task.wire(directory)
        for number, value in self._values.items():
            place = self._task.place(number, self._pairs[number], directory, self._wire)
            self._peers[number] = self._task.peer(place, value)

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
        deliveries = self._deliveries()
        await asyncio.sleep(0)
        for number in step.killed & deliveries.keys():
            deliveries.pop(number).cancel()
            self._kill(number)
        await asyncio.gather(*deliveries.values())
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
        await asyncio.gather(*self._deliveries().values())

    async def close(self) -> None:
        """Nobody listens any more."""
        for listener in self._listeners.values():
            listener.close()
        await asyncio.sleep(0)

    def _deliveries(self) -> dict[int, asyncio.Task[list[int]]]:
        return {
            number: asyncio.create_task(self._delivery(peer))
            for number, peer in self._peers.items()
        }

    def _delivery(self, peer: Peer) -> Coroutine[Any, Any, list[int]]:
        return self._dialer.deliver(peer.number, self._sends.pop(peer.number), peer.receive)

    def _kill(self, number: int) -> None:
        self._killed[number] = Standing(killed=self._peers.pop(number).holding)
        self._listeners[number].close()
