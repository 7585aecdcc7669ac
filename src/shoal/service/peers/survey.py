"""What all peers agree on beforehand: the protocol's settings, and the envelopes that follow."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.randomizers.base import Randomizer
from shoal.sealing.envelope import LARGEST_CAPACITY, Envelope
from shoal.sealing.identity import Plain, SurveyId
from shoal.sealing.keys import KeyPair
from shoal.service.peers.directory import Directory
from shoal.service.peers.frames import HEADER_BYTES, NUMBER_BYTES, Frame
from shoal.service.peers.onion import LAYER_BYTES

Mode = Literal["hop", "onion"]
Submit = Literal["all", "single"]
_ROUND_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class PeerSurvey:
    """The settings of a walk.

    ``rounds``: how often reports may move. ``mode``: ``hop`` (whoever holds a report draws the next
    peer) or ``onion`` (its origin draws the whole path). ``hops``: steps of every path in onion
    mode, ``rounds`` unless fewer are to leave time for waiting. ``cover``: frames that every peer
    sends to every neighbour in every round, reports among them; 0 sends reports only. ``submit``:
    a holder's ``all``, or a ``single`` one of its reports, chosen uniformly; where it has none, a
    dummy: the randomized ``default``.
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
        if self.mode not in get_args(Mode):
            raise InvalidArgumentError("mode", self.mode, "'hop' or 'onion'")
        if self.submit not in get_args(Submit):
            raise InvalidArgumentError("submit", self.submit, "'all' or 'single'")
        if self.hops is not None:
            self._check_hops(self.hops)

    def _check_hops(self, hops: int) -> None:
        if self.mode != "onion":
            expected = "None in hop mode, where every round is a hop"
            raise InvalidArgumentError("hops", hops, expected)
        if checks.count(1, hops=hops) > self.rounds:
            raise InvalidArgumentError("hops", hops, f"at most rounds={self.rounds} hops")

    @property
    def layers(self) -> int:
        """Layers around a sealed report when it sets out."""
        if self.mode == "hop":
            return 0
        return self.rounds if self.hops is None else self.hops

    def configuration(self, randomizer: Randomizer, directory: Directory) -> dict[str, Plain]:
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

    def wire(self, randomizer: Randomizer, directory: Directory) -> Wire:
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
        if self.layers * LAYER_BYTES > largest:
            expected = f"at most {largest // LAYER_BYTES} hops, so that a packet fits a frame"
            raise InvalidArgumentError("hops", self.layers, expected)

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
        return self.round_number.to_bytes(_ROUND_BYTES, "big") + to.to_bytes(NUMBER_BYTES, "big")
