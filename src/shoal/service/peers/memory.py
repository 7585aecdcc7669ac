"""The protocol without a network: frames are handed over within one process.

For simulations and tests. Everything else is the same: machines, envelopes, rounds, and what
happens when somebody is away or a frame gets lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from shoal.service.peers.collector import Collector
from shoal.service.peers.machine import Peer, Send

Tap = Callable[[int, int, bytes], None]
Loss = Callable[[int, int, bytes], bool]


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

    def kill(self, number: int) -> Peer | None:
        """A peer is gone for good, with all it holds."""
        return self._peers.pop(number, None)

    def walk(
        self, number: int, away: Collection[int] = (), killed: Collection[int] = ()
    ) -> list[Peer]:
        """One round of the walk. Those killed go with their frames on their way; returned."""
        sends = {
            peer: peer.begin(number, online=peer.number not in away)
            for peer in self._peers.values()
        }
        gone = [self.kill(victim) for victim in killed]
        for peer, listed in sends.items():
            for send in listed:
                self._hand_over(peer, send, away)
        for peer in self._peers.values():
            peer.deadline()
        return [peer for peer in gone if peer is not None]

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
