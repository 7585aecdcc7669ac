"""A whole run: peers start, walk, submit, and what arrived is opened.

On sockets, or without a network: frames are then handed over within one process, and everything
else is the same, machines, envelopes, rounds, and what happens when somebody is away or a frame
gets lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.mechanisms.base import Device
from shoal.sealing.identity import SurveyId
from shoal.sealing.keys import KeyPair, PublicKey
from shoal.service.peers.machine import Collected, Collector, Peer, Send, Standing, Task
from shoal.service.peers.sockets import (
    Connections,
    Host,
    Listener,
    Public,
    RemoteHost,
    Tap,
    all_or_none,
)
from shoal.service.peers.survey import (
    SERVER,
    Adjacency,
    Conditions,
    Directory,
    Neighbours,
    PeerSurvey,
    adjacency,
)

Loss = Callable[[int, int, bytes], bool]


@dataclass(frozen=True)
class PeerRun(Collected):
    """What came of :func:`shoal.service.peers.run_peers`: what arrived, and how it got there.

    A guarantee may count on the reports that ``arrived``. The rest is for whoever runs the
    experiment: no participant sees all of it.

    Attributes:
        batch: The messages that the server has, in an order that means nothing.
        duplicates: Sealed reports that had arrived before.
        rejected: Sealed reports that do not open, or hold no message of the randomizer.
        sent: People who took part.
        standings: Of each peer, at the end of the walk.
        survey: The id of the survey.
        directory: The public list of peers.
    """

    sent: int  # people who took part
    standings: tuple[Standing, ...]  # of each peer, at the end of the walk
    survey: SurveyId
    directory: Directory

    @property
    def arrived(self) -> int:
        """n': reports that the server opened, dummies of peers without any included."""
        return len(self.batch)

    @property
    def loads(self) -> tuple[int, ...]:
        """Reports that each peer had to submit, which the server sees."""
        return tuple(each.load for each in self.standings)

    @property
    def moves(self) -> int:
        """Hops made by all reports together."""
        return sum(each.moves for each in self.standings)

    @property
    def stranded(self) -> int:
        """Reports whose path was not over in time."""
        return sum(each.stranded for each in self.standings)

    @property
    def killed(self) -> int:
        """Reports that killed peers held: no more than these went with them.

        What was in a process that died is not among them: nobody is left to tell.
        """
        return sum(each.killed for each in self.standings)


def run_peers(
    values: npt.ArrayLike,
    *,
    randomizer: Device,
    graph: Neighbours,
    survey: PeerSurvey,
    conditions: Conditions | None = None,
    tap: Tap | None = None,
) -> PeerRun:
    """Run a survey among peers, one for each value, from randomizing to opening.

    Args:
        values: One for each node, as the randomizer takes them.
        randomizer: What every device runs.
        graph: A :class:`shoal.network.Graph`, or a list of everybody's neighbours.
        survey: The settings of the walk.
        conditions: What nobody chooses; loopback sockets and nobody away unless given.
        tap: Shown every frame on every link (from, to, bytes), where all peers are in
            one process.

    Returns:
        A :class:`shoal.service.peers.PeerRun`.

    Raises:
        InvalidArgumentError: Another number of values than nodes, a graph that is
            directed, or a tap on several processes.

    Example:
        >>> import shoal
        >>> from shoal.network import complete
        >>> device = shoal.RandomizedResponse(k=2, epsilon=1.0)
        >>> where = Conditions(transport="memory")
        >>> run = run_peers(
        ...     [0, 1] * 5,
        ...     randomizer=device,
        ...     graph=complete(10),
        ...     survey=PeerSurvey(rounds=2),
        ...     conditions=where,
        ... )
        >>> run.arrived
        10
    """
    conditions = conditions or Conditions()
    rows, neighbours = np.asarray(values), adjacency(graph)
    fits = rows.ndim > 0 and len(rows) == len(neighbours)
    checks.refuse(not fits, f"{len(neighbours)}: one for each node", values=rows.shape)
    tapped = conditions.processes > 1 and tap is not None
    checks.refuse(tapped, "1, where a tap is given", processes=conditions.processes)
    run = Run(Task(survey, randomizer, conditions), rows, neighbours, tap)
    if conditions.transport == "memory":
        return run.in_memory()
    # A thread of its own, because the caller (a notebook, say) may have an event loop already.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(run.on_sockets(run.hosts()))).result()


@dataclass(frozen=True)
class Run:
    """One run, about to start."""

    task: Task
    values: npt.NDArray[np.generic]
    neighbours: Adjacency
    tap: Tap | None = None
    server: KeyPair = field(default_factory=KeyPair.generate)

    def hosts(self) -> Sequence[Host | RemoteHost]:
        """Who runs which peers: one host here, or several in processes of their own."""
        numbered = dict(enumerate(self.values))
        processes = self.task.conditions.processes
        if processes == 1:
            return [Host(self.task, numbered, self.tap)]
        parts = np.array_split(np.arange(len(numbered)), processes)
        return [RemoteHost(self.task, {i: numbered[i] for i in part.tolist()}) for part in parts]

    def in_memory(self) -> PeerRun:
        """Everything in one process, without sockets."""
        pairs = {number: KeyPair.generate() for number in range(len(self.values))}
        collector = self._collector({number: pair.public for number, pair in pairs.items()})
        peers = [
            self.task.peer(number, value, pairs[number], collector.directory, collector.wire)
            for number, value in enumerate(self.values)
        ]
        network = MemoryNetwork(peers, collector, tap=self.tap)
        standings = {}
        steps = self.task.conditions.steps(len(self.values))
        for step in islice(steps, self.task.survey.rounds):
            for peer in network.walk(step.number, step.away, step.killed):
                standings[peer.number] = Standing(killed=peer.holding)
        standings |= {peer.number: Standing.of(peer) for peer in network.peers}
        for step in islice(steps, self.task.survey.submission_rounds):
            network.submit(step.number, step.away)
        return self._result(collector, standings)

    async def on_sockets(self, hosts: Sequence[Host | RemoteHost]) -> PeerRun:
        """Every peer behind a socket of its own; the rounds go on when all hosts are done."""
        listener = Listener(Connections(self.task.conditions.deadline))

        async def all_do(name: str, *arguments: object) -> dict[int, Any]:
            """What all hosts answer, by the number of the peer; dead ones answer nothing."""
            async with all_or_none() as tasks:
                answers = [tasks.create_task(host.do(name, *arguments)) for host in hosts]
            known = [answer.result() or {} for answer in answers]
            return {number: each for answer in known for number, each in answer.items()}

        async with AsyncExitStack() as closing:  # whatever happens, everything is closed
            for host in hosts:
                closing.push_async_callback(host.close)
            closing.callback(listener.close)
            public: Public = await all_do("open")
            collector = self._collector({number: key for number, (_, key) in public.items()})
            addresses = {number: address for number, (address, _) in public.items()}
            addresses[SERVER] = await listener.open()
            await all_do("join", collector.directory, addresses)
            listener.admit(collector, collector.wire.submission.size)
            steps = self.task.conditions.steps(len(self.values))
            for step in islice(steps, self.task.survey.rounds):
                await all_do("begin", step)
                await all_do("exchange", step)
                await all_do("deadline")
            standings: dict[int, Standing] = await all_do("standings")
            for step in islice(steps, self.task.survey.submission_rounds):
                collector.begin(step.number)
                await all_do("submit", step)
            return self._result(collector, standings)

    def _collector(self, keys: Mapping[int, PublicKey]) -> Collector:
        """The server, once everybody's keys are known."""
        ordered = tuple(keys[number] for number in range(len(self.values)))
        directory = Directory(ordered, self.neighbours, self.server.public)
        return Collector(self.server, directory, self.task.wire(directory))

    def _result(self, collector: Collector, standings: Mapping[int, Standing]) -> PeerRun:
        people = len(self.values)
        return PeerRun(
            **vars(collector.collect(self.task.randomizer)),
            sent=people,
            standings=tuple(standings.get(number, Standing()) for number in range(people)),
            survey=collector.wire.survey,
            directory=collector.directory,
        )


class MemoryNetwork:
    """Peers and a server that hand frames to each other.

    ``tap`` sees every frame (from, to, bytes); a frame for which ``loses`` holds does not arrive.
    """

    def __init__(
        self,
        peers: Sequence[Peer],
        collector: Collector,
        *,
        tap: Tap | None = None,
        loses: Loss | None = None,
    ) -> None:
        self._peers = {peer.number: peer for peer in peers}
        self._collector = collector
        self._tap = tap
        self._loses = loses

    @property
    def peers(self) -> Collection[Peer]:
        """Those that are left."""
        return self._peers.values()

    def walk(
        self, number: int, away: Collection[int] = (), killed: Collection[int] = ()
    ) -> list[Peer]:
        """One round of the walk. Those killed go with their frames on their way; returned."""
        sends = {
            peer: peer.begin(number, online=peer.number not in away)
            for peer in self._peers.values()
        }
        gone = [self._peers.pop(victim) for victim in killed if victim in self._peers]
        for peer, listed in sends.items():
            for send in listed:
                self._hand_over(peer, send, away)
        for peer in self._peers.values():
            peer.deadline()
        return gone

    def submit(self, number: int, away: Collection[int] = ()) -> None:
        """One round of submission."""
        self._collector.begin(number)
        for peer in self._peers.values():
            for send in peer.submit(number, online=peer.number not in away):
                self._exchange(peer, send, self._collector)

    def _hand_over(self, peer: Peer, send: Send, away: Collection[int]) -> None:
        if peer.number not in self._peers:
            return
        if send.to in away or send.to not in self._peers:
            peer.unreachable(send.to)
        else:
            self._exchange(peer, send, self._peers[send.to])

    def _exchange(self, peer: Peer, send: Send, other: Peer | Collector) -> None:
        if not self._arrives(peer.number, send.to, send.frame):
            return
        answer = other.receive(send.frame)
        if answer is not None and self._arrives(send.to, peer.number, answer):
            peer.receive(answer)

    def _arrives(self, sender: int, to: int, frame: bytes) -> bool:
        if self._tap is not None:
            self._tap(sender, to, frame)
        return self._loses is None or not self._loses(sender, to, frame)
