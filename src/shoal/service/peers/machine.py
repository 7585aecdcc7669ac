"""One peer as a state machine: frames and deadlines come in, frames go out. No clock, no socket.

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
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from shoal.sealing.errors import SealingError
from shoal.service.peers.directory import SERVER
from shoal.service.peers.frames import Frame, Kind, new_token
from shoal.service.peers.routing import Parcel, Place, routing
from shoal.service.peers.survey import Link

Item = TypeVar("Item")


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


class Peer:
    """One peer's state.

    ``cover`` frames go to every neighbour in every round, or reports only where it is 0. ``blank``
    makes the message of a peer that has nothing to submit; with it, every peer submits exactly one.
    """

    def __init__(
        self, place: Place, *, cover: int = 0, blank: Callable[[], bytes] | None = None
    ) -> None:
        self._place = place
        self._routing = routing(place)
        self._cover = cover
        self._blank = blank
        self._link: Link | None = None
        self._held: list[Parcel] = []
        self._sent: dict[bytes, Transfer] = {}
        self._accepted: set[bytes] = set()
        self._lot: dict[bytes, bytes] | None = None
        self.moves = 0  # hops whose receipt came

    @property
    def number(self) -> int:
        """Its number in the directory."""
        return self._place.number

    @property
    def holding(self) -> int:
        """Reports it answers for: at rest, on their way, or being submitted."""
        if self._lot is not None:
            return len(self._lot)
        return len(self._held) + len(self._sent)

    @property
    def ready(self) -> int:
        """Of the reports it holds between rounds, those that the server can open."""
        return len(self._ready())

    def keep(self, message: bytes) -> None:
        """Seal the peer's own message for the server: the first report it holds."""
        report = self._place.wire.inner.seal(message, self._place.directory.server)
        self._held.append(self._routing.outset(report))

    def begin(self, round_number: int, *, online: bool) -> list[Send]:
        """A round of the walk begins: every report at rest sets out for its next peer."""
        if not online:
            self._link = None
            return []
        self._link = Link(self._place.wire.hop, round_number)
        queues = self._queues()
        frames: list[tuple[int, Frame]] = []
        for to, queue in queues.items():
            room = self._cover or len(queue)
            # Those in doubt went out before, so they fit again: only others are left to wait.
            self._held += [transfer.parcel for _, transfer in queue[room:]]
            frames += [(to, self._set_out(token, transfer)) for token, transfer in queue[:room]]
        return self._sealed(frames + self._covers(frames), self._link)

    def receive(self, sealed: bytes) -> bytes | None:
        """A frame came; the answer to it, if it has one. What does not open has none."""
        if self._link is None:
            return None
        try:
            frame = self._link.open(sealed, self.number, self._place.pair)
        except SealingError:
            return None
        if frame.kind is Kind.RECEIPT:
            self._settle(frame)
            return None
        if frame.sender not in self._place.neighbours or self._lot is not None:
            return None
        if frame.kind is Kind.REPORT:
            self._accept(frame)
        return self._link.seal(frame.receipt(self.number), frame.sender, self._place.directory)

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
        self._link = Link(self._place.wire.submission, round_number)
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
            to = self._routing.destination(parcel)
            if to is None:
                self._held.append(parcel)
            elif to == self.number:
                self._take_in(parcel.payload)
            else:
                queues[to].append((new_token(self._place.randomness), Transfer(to, parcel)))
        return queues

    def _set_out(self, token: bytes, transfer: Transfer) -> Frame:
        self._sent[token] = transfer
        return Frame(Kind.REPORT, self.number, token, transfer.parcel.payload)

    def _covers(self, frames: Iterable[tuple[int, Frame]]) -> list[tuple[int, Frame]]:
        """What is missing to the constant number of frames for each neighbour."""
        missing = {to: self._cover for to in self._place.neighbours if to != self.number}
        if not self._cover:
            return []
        for to, _ in frames:
            missing[to] -= 1
        return [
            (to, Frame(Kind.COVER, self.number, new_token(self._place.randomness)))
            for to, number in missing.items()
            for _ in range(number)
        ]

    def _sealed(self, frames: list[tuple[int, Frame]], link: Link) -> list[Send]:
        """The frames in random order: their order on a link says nothing."""
        directory = self._place.directory
        return [Send(to, link.seal(frame, to, directory)) for to, frame in self._shuffled(frames)]

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

    def _accept(self, frame: Frame) -> None:
        if frame.token not in self._accepted:
            self._accepted.add(frame.token)
            self._take_in(frame.payload)

    def _take_in(self, payload: bytes) -> None:
        parcel = self._routing.arrival(payload)
        if parcel is not None:
            self._held.append(parcel)

    def _drawn_lot(self) -> dict[bytes, bytes]:
        """What this peer submits, in random order, each under a token of its own."""
        reports = [parcel.payload for parcel in self._shuffled(self._ready())]
        if self._blank is not None:
            reports = reports[:1] or [
                self._place.wire.inner.seal(self._blank(), self._place.directory.server)
            ]
        return {new_token(self._place.randomness): report for report in reports}

    def _ready(self) -> list[Parcel]:
        """The reports at rest or in doubt that the server can open."""
        doubtful = [transfer.parcel for transfer in self._sent.values()]
        return [parcel for parcel in self._held + doubtful if self._routing.is_ready(parcel)]

    def _shuffled(self, items: list[Item]) -> list[Item]:
        if len(items) < 2:
            return items
        return [items[index] for index in self._place.randomness.permutation(len(items))]
