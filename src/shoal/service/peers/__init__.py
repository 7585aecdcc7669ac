"""Network shuffling run for real: peers pass sealed reports on until nobody knows whose they are.

Everybody randomizes a value and seals it for the server. For a number of rounds every peer hands
each report it holds to a random neighbour; then the holders submit what they hold (Liew, Takahashi,
Takagi, Kato, Cao, Yoshikawa, "Network Shuffling: Privacy Amplification via Random Walks", SIGMOD
2022, arXiv 2204.03919). The protocol is a state machine without clock or socket
(:mod:`shoal.service.peers.machine`); transports carry its bytes.
"""

from __future__ import annotations

from shoal.service.peers.machine import Collected, Collector, Peer, Send
from shoal.service.peers.run import MemoryNetwork, PeerRun, run_peers
from shoal.service.peers.survey import Conditions, Directory, PeerSurvey, Wire, adjacency

__all__ = [
    "Collected",
    "Collector",
    "Conditions",
    "Directory",
    "MemoryNetwork",
    "Peer",
    "PeerRun",
    "PeerSurvey",
    "Send",
    "Wire",
    "adjacency",
    "run_peers",
]
