"""What is settled beforehand: who takes part, the settings, the wire, and what nobody chooses.

Inside an envelope peers say frames to each other::

    frame = kind[1] sender[4] token[16] payload

A *report* asks for a *receipt*: a frame back with the same token, which only the addressee can have
read. *Cover* looks like a report from outside and carries none; it is answered all the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from hashlib import sha256
from itertools import count
from struct import Struct, pack
from typing import Literal, TypeAlias, get_args

import numpy as np

from shoal import checks
from shoal import randomness as sources
from shoal.errors import InvalidArgumentError
from shoal.mechanisms.base import Device
from shoal.network.graph import Graph, Nodes
from shoal.randomness import Randomness
from shoal.sealing.envelope import LARGEST_CAPACITY, OVERHEAD, Envelope
from shoal.sealing.errors import NotOpenableError
from shoal.sealing.identity import Plain, SurveyId
from shoal.sealing.keys import KeyPair, PublicKey

SERVER = (1 << 32) - 1  # the number that no peer has
TOKEN_BYTES = 16
NUMBER_BYTES = 4
_HEADER = Struct(">BI16s")  # kind, sender, token
HEADER_BYTES = _HEADER.size
LAYER_BYTES = OVERHEAD + NUMBER_BYTES  # of an onion
_COIN_BITS = 53

Adjacency: TypeAlias = tuple[tuple[int, ...], ...]
Mode = Literal["hop", "onion"]
Submit = Literal["all", "single"]
Transport = Literal["sockets", "memory"]
Neighbours: TypeAlias = Sequence[Sequence[int]] | Graph


@dataclass(frozen=True)
class Directory:
    """The public list: peer i's key and neighbours, and the server's key.

    Its digest is part of the survey's name: whoever was given another list opens nothing, so nobody
    can be singled out by a list of their own.
    """

    keys: tuple[PublicKey, ...]
    neighbours: Adjacency
    server: PublicKey

    def __post_init__(self) -> None:
        people, keys = len(self.neighbours), len(self.keys)
        checks.refuse(keys != people, f"{people} keys", keys=keys)

    def __len__(self) -> int:
        return len(self.keys)

    def key(self, number: int) -> PublicKey:
        """The key of a peer, or of the server."""
        return self.server if number == SERVER else self.keys[number]

    @property
    def digest(self) -> str:
        """SHA-256 of the list, in hexadecimal digits."""
        digest = sha256(self.server.to_bytes())
        for key, neighbours in zip(self.keys, self.neighbours, strict=True):
            digest.update(key.to_bytes())
            digest.update(np.array([len(neighbours), *neighbours], dtype=">u4").tobytes())
        return digest.hexdigest()


def adjacency(graph: Neighbours) -> Adjacency:
    """Everybody's neighbours in increasing order, if they are an undirected graph.

    A node may be its own neighbour (a report then stays where it is), and must have at least one.

    >>> adjacency([[1], [2, 0], [1]])
    ((1,), (0, 2), (1,))
    """
    listed: Sequence[Sequence[int]] | list[Nodes] = (
        np.split(graph.neighbours, graph.offsets[1:-1]) if isinstance(graph, Graph) else graph
    )
    rows = tuple(tuple(sorted(int(other) for other in row)) for row in listed)
    neighbours = [frozenset(row) for row in rows]
    for node, row in enumerate(rows):
        if not row:
            raise InvalidArgumentError("graph", f"no neighbour of {node}", "a neighbour of each")
        if len(neighbours[node]) < len(row):
            raise InvalidArgumentError("graph", f"{node}: {row}", "each neighbour once")
        for other in row:
            if not 0 <= other < len(rows) or node not in neighbours[other]:
                expected = "an undirected graph: both ends list each other"
                raise InvalidArgumentError("graph", f"{node} -> {other}", expected)
    return rows


@dataclass(frozen=True, kw_only=True)
class PeerSurvey:
    """The settings of a walk among peers.

    Args:
        rounds: How often reports may move.
        mode: "hop" (whoever holds a report draws the next peer) or "onion" (its origin draws
            the whole path).
        hops: Steps of every path in onion mode; ``rounds`` unless fewer are to leave time for
            waiting.
        cover: Frames that every peer sends to every neighbour in every round, reports among
            them; 0 sends reports only.
        submit: A holder's "all", or a "single" one of its reports, chosen uniformly; where it
            has none, a dummy.
        submission_rounds: Rounds in which reports are submitted.
        default: The value that a dummy randomizes.

    Raises:
        InvalidArgumentError: A setting is out of its range, or hops in hop mode.

    Example:
        >>> PeerSurvey(rounds=8, mode="onion").layers
        8
    """

    rounds: int
    mode: Mode = "hop"
    hops: int | None = None
    cover: int = 0
    submit: Submit = "all"
    submission_rounds: int = 4
    default: Plain = 0

    def __post_init__(self) -> None:
        checks.count(1, rounds=self.rounds)
        checks.count(0, cover=self.cover)
        checks.count(1, submission_rounds=self.submission_rounds)
        checks.one_of(get_args(Mode), mode=self.mode)
        checks.one_of(get_args(Submit), submit=self.submit)
        if self.hops is not None:
            expected = "None in hop mode, where every round is a hop"
            checks.refuse(self.mode != "onion", expected, hops=self.hops)
            beyond = checks.count(1, hops=self.hops) > self.rounds
            checks.refuse(beyond, f"at most rounds={self.rounds} hops", hops=self.hops)

    @property
    def layers(self) -> int:
        """Layers around a sealed report when it sets out."""
        if self.mode == "hop":
            return 0
        return self.rounds if self.hops is None else self.hops

    def configuration(self, randomizer: Device, directory: Directory) -> dict[str, Plain]:
        """Everything that names the survey."""
        parameters = {
            field.name: getattr(randomizer, field.name)
            for field in dataclasses.fields(randomizer)  # type: ignore[arg-type]  # all of them are
            if field.init
        }
        return {
            "version": 1,
            "kind": "peers",
            "peers": dataclasses.asdict(self),
            "randomizer": {"name": randomizer.name, "parameters": parameters},
            "directory": directory.digest,
        }

    def wire(self, randomizer: Device, directory: Directory) -> Wire:
        """The envelopes of this survey."""
        survey = SurveyId.of(self.configuration(randomizer, directory))
        return Wire(survey=survey, message_bytes=randomizer.message_bytes, layers=self.layers)


@dataclass(frozen=True, kw_only=True)
class Wire:
    """The three kinds of envelope: for the server's eyes, for one hop, and for submission.

    The first holds a message and nothing else. The second and third are links: each frame is sealed
    anew for its addressee and round, so that no link ever carries the same bytes twice.
    """

    survey: SurveyId
    message_bytes: int
    layers: int = 0

    def __post_init__(self) -> None:
        largest = LARGEST_CAPACITY - HEADER_BYTES - self.inner.size
        expected = f"at most {largest // LAYER_BYTES} hops, so that a packet fits a frame"
        checks.refuse(self.layers * LAYER_BYTES > largest, expected, hops=self.layers)

    @cached_property
    def inner(self) -> Envelope:
        """A message for the server."""
        return Envelope(survey=self.survey, role="inner", capacity=self.message_bytes)

    @cached_property
    def hop(self) -> Envelope:
        """A frame between neighbours: a sealed report in its layers, or a receipt."""
        capacity = HEADER_BYTES + self.inner.size + self.layers * LAYER_BYTES
        return Envelope(survey=self.survey, role="hop", capacity=capacity)

    @cached_property
    def submission(self) -> Envelope:
        """A frame between a holder and the server: a sealed report, or a receipt."""
        capacity = HEADER_BYTES + self.inner.size
        return Envelope(survey=self.survey, role="submission", capacity=capacity)


@dataclass(frozen=True)
class Link:
    """Sealing and opening the frames of one round."""

    envelope: Envelope
    round_number: int

    def seal(self, frame: Frame, to: int, directory: Directory) -> bytes:
        """A frame for the one it is addressed to."""
        key = directory.key(to)
        return self.envelope.seal(frame.to_bytes(), key, details=self._details(to))

    def open(self, sealed: bytes, number: int, pair: KeyPair) -> Frame:
        """A frame addressed to us in this round."""
        return Frame.from_bytes(self.envelope.open(sealed, pair, details=self._details(number)))

    def _details(self, to: int) -> bytes:
        return pack(">II", self.round_number, to)


class Kind(IntEnum):
    """What a frame is."""

    COVER = 0
    REPORT = 1
    RECEIPT = 2


@dataclass(frozen=True)
class Frame:
    """One thing said, before it is sealed."""

    kind: Kind
    sender: int
    token: bytes
    payload: bytes = b""

    def to_bytes(self) -> bytes:
        """Kind, sender, token and payload, one after the other."""
        return _HEADER.pack(self.kind, self.sender, self.token) + self.payload

    @classmethod
    def from_bytes(cls, data: bytes) -> Frame:
        """The frame written by ``to_bytes``."""
        if len(data) < HEADER_BYTES or data[0] not in frozenset(Kind):
            raise NotOpenableError
        kind, sender, token = _HEADER.unpack_from(data)
        return cls(Kind(kind), sender, token, data[HEADER_BYTES:])

    def receipt(self, sender: int) -> Frame:
        """The receipt for this frame."""
        return Frame(Kind.RECEIPT, sender, self.token)


def new_token(randomness: Randomness) -> bytes:
    """Sixteen bytes that nobody guesses."""
    return randomness.words(TOKEN_BYTES // 8).tobytes()


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What no participant of a walk chooses.

    Args:
        offline: Probability in [0, 1) that a peer is away in a round, walking or submitting,
            whatever it did before.
        killed: Who is gone for good in the middle of which round of the walk.
        transport: Loopback "sockets", or "memory".
        processes: How many the sockets are in.
        deadline: Seconds until an answer no longer counts.
        seed: Makes everybody's choices those of a simulation, which protects nobody.

    Raises:
        InvalidArgumentError: A number is out of its range, or several processes of memory.

    Example:
        >>> Conditions(transport="memory", offline=0.1).processes
        1
    """

    offline: float = 0.0
    killed: Mapping[int, Collection[int]] = field(default_factory=dict)
    transport: Transport = "sockets"
    processes: int = 1
    deadline: float = 60.0
    seed: int | None = None

    def __post_init__(self) -> None:
        checks.closed_probability(offline=self.offline)
        checks.count(1, processes=self.processes)
        checks.positive(deadline=self.deadline)
        checks.one_of(get_args(Transport), transport=self.transport)
        apart = self.transport == "memory" and self.processes > 1
        checks.refuse(apart, "1, where transport='memory'", processes=self.processes)
        if self.seed is not None:
            checks.count(0, seed=self.seed)

    def randomness(self, number: int) -> Randomness:
        """A source of one's own: secure, unless the whole run is a simulation."""
        if self.seed is None:
            return sources.secure()
        return sources.simulated((self.seed << 32) + number)

    def steps(self, people: int) -> Iterator[Step]:
        """The rounds, one after the other, without end."""
        nature = self.randomness(SERVER)  # a stream of its own: the number that no peer has
        threshold = round(self.offline * (1 << _COIN_BITS))
        for number in count(1):
            coins = nature.below(1 << _COIN_BITS, people)
            away = frozenset(np.flatnonzero(coins < threshold).tolist())
            yield Step(number, away, frozenset(self.killed.get(number, ())))


@dataclass(frozen=True)
class Step:
    """One round: who is away, and who is killed in it."""

    number: int
    away: frozenset[int]
    killed: frozenset[int]
