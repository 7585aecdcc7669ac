"""What the tests of the peers share: graphs, a randomizer that tells all, and sealing that is free.

The sealing double keeps every rule (one size, one purpose, one owner, never the same bytes twice)
and hides nothing. It is for statistics over many runs, and lives here so that the package has no
way of switching its cryptography off.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import count

import numpy as np

from shoal.mechanisms.response import RandomizedResponse
from shoal.sealing import Envelope, KeyPair, NotOpenableError
from shoal.sealing.envelope import pad, unpad
from shoal.service.peers import Conditions, Directory, PeerSurvey, adjacency, run_peers
from shoal.service.peers.machine import Task


def circulant(n, reach=4):
    """Everybody knows the ``reach`` peers on either side."""
    steps = range(-reach, reach + 1)
    return [sorted({(node + step) % n for step in steps} - {node}) for node in range(n)]


def telling(n):
    """A randomizer whose message is the value, but for a chance of n e^-30: a report's own name.

    Counts of people who all have different values are then 0 or 1, and a 2 is a report counted
    twice.
    """
    return RandomizedResponse(k=n, epsilon=30.0)


def free_sealing(monkeypatch):
    serial = count()

    def mark(envelope, key, details):
        return sha256(envelope._info(key, details) + key.raw).digest()[:16]

    def seal(self, message, key, *, details=b""):
        unique = next(serial).to_bytes(32, "big")
        padded = pad(message, self.capacity)
        return bytes([1, key.number]) + unique + padded + mark(self, key, details)

    def open_(self, envelope, pair, *, details=b""):
        if len(envelope) != self.size or envelope[-16:] != mark(self, pair.public, details):
            raise NotOpenableError
        return unpad(envelope[34:-16])

    def open_all(self, body, pair, *, details=b""):
        found = []
        for start in range(0, len(body), self.size):
            try:
                found.append(self.open(body[start : start + self.size], pair, details=details))
            except NotOpenableError:
                found.append(None)
        return found

    monkeypatch.setattr(Envelope, "seal", seal)
    monkeypatch.setattr(Envelope, "open", open_)
    monkeypatch.setattr(Envelope, "open_all", open_all)


def swarm(graph, *, randomizer=None, survey=None, seed=0, values=None):
    """Peers of a survey that hold their own reports, and the keys of the server."""
    neighbours = adjacency(graph)
    n = len(neighbours)
    survey = survey or PeerSurvey(rounds=4)
    task = Task(survey, randomizer or telling(n), Conditions(seed=seed, transport="memory"))
    server, pairs = KeyPair.generate(), [KeyPair.generate() for _ in range(n)]
    directory = Directory(tuple(pair.public for pair in pairs), neighbours, server.public)
    wire = task.wire(directory)
    values = range(n) if values is None else values
    peers = [
        task.peer(number, value, pair, directory, wire)
        for number, (value, pair) in enumerate(zip(values, pairs, strict=True))
    ]
    return peers, server


def counts(batch, n):
    return np.bincount(batch.messages, minlength=n)


def walked(n, survey, *, values=None, randomizer=None, graph=None, tap=None, **conditions):
    """A run in memory, unless another transport is named: everybody tells their own number."""
    return run_peers(
        np.arange(n) if values is None else values,
        randomizer=randomizer or telling(n),
        graph=circulant(n) if graph is None else graph,
        survey=survey,
        conditions=Conditions(**{"transport": "memory"} | conditions),
        tap=tap,
    )
