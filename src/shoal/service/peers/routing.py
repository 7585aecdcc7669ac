"""Where a report goes next: drawn by whoever holds it, or by its origin for the whole path.

The next peer is uniform among *all* neighbours, whether they are there or not. Then every round's
kernel is reversible with respect to the same law (degrees) for every pattern of absences; drawing
among those present would not be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from shoal.randomness import Randomness
from shoal.sealing.errors import SealingError
from shoal.sealing.keys import KeyPair
from shoal.service.peers.directory import Directory
from shoal.service.peers.onion import HOME, peel, wrap
from shoal.service.peers.survey import Wire


@dataclass(frozen=True)
class Place:
    """Where one peer stands: its number and keys, the public list, and its own randomness."""

    number: int
    pair: KeyPair
    directory: Directory
    wire: Wire
    randomness: Randomness

    @property
    def neighbours(self) -> tuple[int, ...]:
        """The peers it talks to."""
        return self.directory.neighbours[self.number]


@dataclass(frozen=True)
class Parcel:
    """A report as a peer holds it: sealed for the server, perhaps in layers with a next peer."""

    payload: bytes
    onward: int | None = None


class Routing(Protocol):
    """How one peer's reports find their way."""

    def outset(self, report: bytes) -> Parcel:
        """The peer's own sealed report, before its first hop."""

    def arrival(self, payload: bytes) -> Parcel | None:
        """What a payload from a neighbour is, if it is anything."""

    def destination(self, parcel: Parcel) -> int | None:
        """The next peer, or none if the report's way is over."""

    def is_ready(self, parcel: Parcel) -> bool:
        """Whether the server can open what is left of it."""


@dataclass(frozen=True)
class HopRouting:
    """The holder draws."""

    place: Place

    def outset(self, report: bytes) -> Parcel:
        """As it is."""
        return Parcel(report)

    def arrival(self, payload: bytes) -> Parcel | None:
        """A sealed report has its size; more than that only the server can tell."""
        return Parcel(payload) if len(payload) == self.place.wire.inner.size else None

    def destination(self, parcel: Parcel) -> int | None:  # noqa: ARG002 - all go on alike
        """A uniformly random neighbour."""
        return _neighbour(self.place, self.place.number)

    def is_ready(self, parcel: Parcel) -> bool:  # noqa: ARG002 - as above
        """Always."""
        return True


@dataclass(frozen=True)
class OnionRouting:
    """The origin draws."""

    place: Place

    def outset(self, report: bytes) -> Parcel:
        """Wrapped for a random path of neighbours that begins here."""
        path, here = [], self.place.number
        for _ in range(self.place.wire.layers):
            here = _neighbour(self.place, here)
            path.append(here)
        packet = wrap(report, path, self.place.directory.keys, survey=self.place.wire.survey)
        return Parcel(packet, path[0])

    def arrival(self, payload: bytes) -> Parcel | None:
        """What is under our layer, if it is a sealed report or is for a neighbour."""
        place = self.place
        try:
            onward, rest = peel(payload, place.number, place.pair, survey=place.wire.survey)
        except SealingError:
            return None
        if onward == HOME:
            return Parcel(rest) if len(rest) == place.wire.inner.size else None
        return Parcel(rest, onward) if onward in place.neighbours else None

    def destination(self, parcel: Parcel) -> int | None:
        """The next peer on the path."""
        return parcel.onward

    def is_ready(self, parcel: Parcel) -> bool:
        """After the last layer."""
        return parcel.onward is None


def routing(place: Place) -> Routing:
    """One peer's routing: layers to peel mean that origins draw."""
    return OnionRouting(place) if place.wire.layers else HopRouting(place)


def _neighbour(place: Place, number: int) -> int:
    """A uniformly random neighbour of a peer."""
    neighbours = place.directory.neighbours[number]
    return neighbours[int(place.randomness.below(len(neighbours), 1)[0])]
