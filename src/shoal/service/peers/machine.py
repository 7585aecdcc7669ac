"""Peers and server as state machines: frames in, frames out. No clock, no socket.

A round begins (:meth:`Peer.begin`), frames are exchanged (:meth:`Peer.receive`), the deadline ends
it (:meth:`Peer.deadline`). Everything sets out when a round begins, and a frame is for one round
only: what arrives goes on in the next, and every report makes at most one hop a round.

A hop is complete when the receiver has accepted; the sender lets go when it has the receipt.

* The addressee was not there (:meth:`Peer.unreachable`): the report stays, and draws again.
* It was there but no receipt came: the sender cannot know. It keeps the report *in doubt* and says
  the same again, with the same token, in the next rounds. A receiver that knows the token accepts
  nothing a second time and sends the receipt again. So a lost frame delays a hop and a lost receipt
  delays nothing; neither loses or doubles a report.
* Still in doubt when the walk is over: the sender submits it, and if the receiver has it after all,
  the server sees equal sealed reports and counts one.

The next peer is uniform among *all* neighbours, whether they are there or not. Then every round's
kernel is reversible with respect to the same law (degrees) for every pattern of absences; drawing
among those present would not be. Whoever holds a report draws it; in onion mode, its origin draws
the whole path and seals a layer for every peer on it, and each peer peels its own::

    packet for the last peer  = seal(last peer, HOME sealed report)
    packet for an earlier one = seal(that peer, number of the next[4] packet for the next)

A peer learns whom it got a packet from, whom to give it to and how many layers are left. What comes
in and what goes out have no byte in common, so peers that are not neighbours on the path cannot
tell that they saw the same report. Packets shrink as they are peeled; the envelope around each hop
pads them to the size of an unpeeled one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TypeVar

import numpy as np

from shoal.mechanisms.base import Device
from shoal.randomness import Randomness
from shoal.sealing.envelope import OVERHEAD, Envelope
from shoal.sealing.errors import NotOpenableError, SealingError
from shoal.sealing.identity import SurveyId
from shoal.sealing.keys import KeyPair, PublicKey
from shoal.service.peers.survey import (
    NUMBER_BYTES,
    SERVER,
    Conditions,
    Directory,
    Frame,
    Kind,
    Link,
    PeerSurvey,
    Wire,
    new_token,
)
from shoal.values import Batch, Envelopes

HOME = SERVER  # after the last layer: what is left goes to the server

Item = TypeVar("Item")


def wrap(
    report: bytes, path: Sequence[int], keys: Sequence[PublicKey], *, survey: SurveyId
) -> bytes:
    """The packet for the first peer of the path."""
    packet, onward = report, HOME
    for number in reversed(path):
        message = onward.to_bytes(NUMBER_BYTES, "big") + packet
        layer = _layer(survey, len(message))
        packet, onward = layer.seal(message, keys[number], details=_to(number)), number
    return packet


def peel(packet: bytes, number: int, pair: KeyPair, *, survey: SurveyId) -> tuple[int, bytes]:
    """Whom the rest is for, and the rest."""
    capacity = len(packet) - OVERHEAD
    if capacity < NUMBER_BYTES:
        raise NotOpenableError
    message = _layer(survey, capacity).open(packet, pair, details=_to(number))
    if len(message) != capacity:
        raise NotOpenableError
    return int.from_bytes(message[:NUMBER_BYTES], "big"), message[NUMBER_BYTES:]


def _layer(survey: SurveyId, capacity: int) -> Envelope:
    return Envelope(survey=survey, role="onion", capacity=capacity)


def _to(number: int) -> bytes:
    return number.to_bytes(NUMBER_BYTES, "big")


@dataclass(frozen=True)
class Parcel:
    """A report as a peer holds it: sealed for the server, perhaps in layers with a next peer."""

    payload: bytes
    onward: int | None = None


@dataclass(frozen=True)
class Send:
    """An output: these bytes to that peer, or to the server."""

    to: int
    frame: bytes


@dataclass(frozen=True)
class Transfer:
    """A report on its way: to whom, and whether it may be there already."""

    to: int
    parcel: Parcel
    in_doubt: bool = False


@dataclass(eq=False, repr=False)
class Peer:
    """One peer: its number and keys, the public list, its own randomness, and what it holds.

    ``cover`` frames go to every neighbour in every round, or reports only where it is 0. ``blank``
    makes the message of a peer that has nothing to submit; with it, every peer submits exactly one.
    """

    number: int
    pair: KeyPair
    directory: Directory
    wire: Wire
    randomness: Randomness
    cover: int = 0
    blank: Callable[[], bytes] | None = None
    moves: int = field(default=0, init=False)  # hops whose receipt came
    _link: Link | None = field(default=None, init=False)
    _held: list[Parcel] = field(default_factory=list, init=False)
    _sent: dict[bytes, Transfer] = field(default_factory=dict, init=False)
    _accepted: set[bytes] = field(default_factory=set, init=False)
    _lot: dict[bytes, bytes] | None = field(default=None, init=False)

    @property
    def neighbours(self) -> tuple[int, ...]:
        """The peers it talks to."""
        return self.directory.neighbours[self.number]

    @property
    def holding(self) -> int:
        """Reports it answers for: at rest, on their way, or being submitted."""
        if self._lot is not None:
            return len(self._lot)
        return len(self._held) + len(self._sent)

    @property
    def ready(self) -> list[Parcel]:
        """The reports at rest or in doubt that the server can open."""
        doubtful = [transfer.parcel for transfer in self._sent.values()]
        return [parcel for parcel in self._held + doubtful if parcel.onward is None]

    def keep(self, message: bytes) -> None:
        """Seal the peer's own message for the server: the first report it holds.

        In onion mode it is wrapped for a random path from here.
        """
        wire, directory = self.wire, self.directory
        report, path = wire.inner.seal(message, directory.server), [self.number]
        for _ in range(wire.layers):
            path.append(self._neighbour(path[-1]))
        onward = path[1] if wire.layers else None
        packet = wrap(report, path[1:], directory.keys, survey=wire.survey)
        self._held.append(Parcel(packet, onward))

    def begin(self, round_number: int, *, online: bool) -> list[Send]:
        """A round of the walk begins: every report at rest sets out for its next peer."""
        if not online:
            self._link = None
            return []
        self._link = Link(self.wire.hop, round_number)
        queues = self._queues()
        frames: list[tuple[int, Frame]] = []
        for to, queue in queues.items():
            room = self.cover or len(queue)
            # Those in doubt went out before, so they fit again: only others are left to wait.
            self._held += [transfer.parcel for _, transfer in queue[room:]]
            self._sent |= dict(queue[:room])
            frames += [
                (to, Frame(Kind.REPORT, self.number, token, transfer.parcel.payload))
                for token, transfer in queue[:room]
            ]
        return self._sealed(frames + self._covers(frames), self._link)

    def receive(self, sealed: bytes) -> bytes | None:
        """A frame came; the answer to it, if it has one. What does not open has none."""
        if self._link is None:
            return None
        try:
            frame = self._link.open(sealed, self.number, self.pair)
        except SealingError:
            return None
        if frame.kind is Kind.RECEIPT:
            self._settle(frame)
            return None
        if frame.sender not in self.neighbours or self._lot is not None:
            return None
        if frame.kind is Kind.REPORT and frame.token not in self._accepted:
            self._accepted.add(frame.token)
            self._take_in(frame.payload)
        return self._link.seal(frame.receipt(self.number), frame.sender, self.directory)

    def unreachable(self, to: int) -> None:
        """Nothing of this round reached that peer: what set out for it has not left."""
        for token, transfer in list(self._sent.items()):
            if transfer.to == to and not transfer.in_doubt:
                self._held.append(transfer.parcel)
                del self._sent[token]

    def deadline(self) -> None:
        """The round is over: what has no receipt is in doubt."""
        self._link = None
        self._sent = {
            token: replace(transfer, in_doubt=True) for token, transfer in self._sent.items()
        }

    def submit(self, round_number: int, *, online: bool) -> list[Send]:
        """A round of submission begins: everything that the server has not confirmed goes to it."""
        if self._lot is None:
            self._lot = self._drawn_lot()
        if not online:
            self._link = None
            return []
        self._link = Link(self.wire.submission, round_number)
        frames = [
            (SERVER, Frame(Kind.REPORT, self.number, token, report))
            for token, report in self._lot.items()
        ]
        return self._sealed(frames, self._link)

    def _queues(self) -> dict[int, list[tuple[bytes, Transfer]]]:
        """This round's transfers by addressee, those in doubt first, the others in random order."""
        queues: dict[int, list[tuple[bytes, Transfer]]] = defaultdict(list)
        for token, transfer in self._sent.items():
            queues[transfer.to].append((token, transfer))
        resting, self._held = self._shuffled(self._held), []
        for parcel in resting:
            to = parcel.onward if self.wire.layers else self._neighbour(self.number)
            if to is None:
                self._held.append(parcel)
            elif to == self.number:
                self._take_in(parcel.payload)
            else:
                queues[to].append((new_token(self.randomness), Transfer(to, parcel)))
        return queues

    def _covers(self, frames: Iterable[tuple[int, Frame]]) -> list[tuple[int, Frame]]:
        """What is missing to the constant number of frames for each neighbour."""
        sent = Counter(to for to, _ in frames)
        return [
            (to, Frame(Kind.COVER, self.number, new_token(self.randomness)))
            for to in self.neighbours
            if to != self.number
            for _ in range(sent[to], self.cover)
        ]

    def _sealed(self, frames: list[tuple[int, Frame]], link: Link) -> list[Send]:
        """The frames in random order: their order on a link says nothing."""
        shuffled = self._shuffled(frames)
        return [Send(to, link.seal(frame, to, self.directory)) for to, frame in shuffled]

    def _settle(self, receipt: Frame) -> None:
        """A receipt came: the report is no longer ours. Only its addressee can say so."""
        if self._lot is not None:
            if receipt.sender == SERVER:
                self._lot.pop(receipt.token, None)
            return
        transfer = self._sent.get(receipt.token)
        if transfer is not None and transfer.to == receipt.sender:
            del self._sent[receipt.token]
            self.moves += 1

    def _take_in(self, payload: bytes) -> None:
        """Hold what came, if it is anything: a sealed report, or one with a next neighbour.

        A sealed report has its size; more than that only the server can tell.
        """
        onward = HOME
        if self.wire.layers:
            try:
                onward, payload = peel(payload, self.number, self.pair, survey=self.wire.survey)
            except SealingError:
                return
        if onward in self.neighbours:
            self._held.append(Parcel(payload, onward))
        elif onward == HOME and len(payload) == self.wire.inner.size:
            self._held.append(Parcel(payload))

    def _neighbour(self, number: int) -> int:
        """A uniformly random neighbour of a peer."""
        neighbours = self.directory.neighbours[number]
        return neighbours[int(self.randomness.below(len(neighbours), 1)[0])]

    def _drawn_lot(self) -> dict[bytes, bytes]:
        """What this peer submits, in random order, each under a token of its own."""
        reports = [parcel.payload for parcel in self._shuffled(self.ready)]
        if self.blank is not None:
            reports = reports[:1] or [self.wire.inner.seal(self.blank(), self.directory.server)]
        return {new_token(self.randomness): report for report in reports}

    def _shuffled(self, items: list[Item]) -> list[Item]:
        if len(items) < 2:
            return items
        return [items[index] for index in self.randomness.permutation(len(items))]


@dataclass(frozen=True)
class Task:
    """What every peer is told before it starts, and how it will fare."""

    survey: PeerSurvey
    randomizer: Device
    conditions: Conditions

    def wire(self, directory: Directory) -> Wire:
        """The survey's envelopes."""
        return self.survey.wire(self.randomizer, directory)

    def peer(
        self, number: int, value: object, pair: KeyPair, directory: Directory, wire: Wire
    ) -> Peer:
        """A peer that holds its own value, randomized and sealed."""
        randomness = self.conditions.randomness(number)

        def message(answer: object) -> bytes:
            messages = self.randomizer.randomize(np.asarray([answer]), randomness=randomness)
            return self.randomizer.encode(messages).tobytes()

        blank = None if self.survey.submit == "all" else lambda: message(self.survey.default)
        peer = Peer(number, pair, directory, wire, randomness, self.survey.cover, blank)
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
        ready = len(peer.ready)
        return cls(load=ready, stranded=peer.holding - ready, moves=peer.moves)


@dataclass(frozen=True)
class Collected:
    """What arrived: the messages, in an order that means nothing, and what was left out."""

    batch: Batch
    duplicates: int  # sealed reports that had arrived before
    rejected: int  # sealed reports that do not open, or hold no message of the randomizer


@dataclass(eq=False, repr=False)
class Collector:
    """The server: collects the submissions of one survey.

    Reports are kept under their digests and given out in the order of these: who submitted what,
    and when, is not kept. A sealed report cannot be changed and still open, so equal digests are
    all there is to repetition.
    """

    pair: KeyPair
    directory: Directory
    wire: Wire
    _link: Link | None = field(default=None, init=False)
    _reports: dict[bytes, bytes] = field(default_factory=dict, init=False)
    _duplicates: int = field(default=0, init=False)

    def begin(self, round_number: int) -> None:
        """A round of submission begins."""
        self._link = Link(self.wire.submission, round_number)

    def receive(self, sealed: bytes) -> bytes | None:
        """A frame came; the receipt for it. What does not open has none."""
        if self._link is None:
            return None
        try:
            frame = self._link.open(sealed, SERVER, self.pair)
        except SealingError:
            return None
        is_report = frame.kind is Kind.REPORT and len(frame.payload) == self.wire.inner.size
        if not is_report or frame.sender >= len(self.directory):
            return None
        digest = sha256(frame.payload).digest()
        self._duplicates += digest in self._reports
        self._reports[digest] = frame.payload
        return self._link.seal(frame.receipt(SERVER), frame.sender, self.directory)

    def collect(self, randomizer: Device) -> Collected:
        """Open everything that arrived."""
        self._link = None
        width, rows = self.wire.message_bytes, []
        for _, report in sorted(self._reports.items()):
            try:
                message = self.wire.inner.open(report, self.pair)
                row = np.frombuffer(message, dtype=np.uint8).reshape(1, width)
                randomizer.decode(row)
            except ValueError:  # it does not open, or holds no message of the randomizer
                continue
            rows.append(row)
        messages = randomizer.decode(np.array(rows, dtype=np.uint8).reshape(len(rows), width))
        rejected = len(self._reports) - len(rows)
        assert not isinstance(messages, Envelopes)  # noqa: S101 - one message each
        return Collected(Batch(messages), duplicates=self._duplicates, rejected=rejected)
