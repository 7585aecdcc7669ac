"""A whole path in layers: the origin seals one for every peer on it, and each peer peels its own.

::

    packet for the last peer  = seal(last peer, HOME sealed report)
    packet for an earlier one = seal(that peer, number of the next[4] packet for the next)

A peer learns whom it got a packet from, whom to give it to and how many layers are left. What comes
in and what goes out have no byte in common, so peers that are not neighbours on the path cannot
tell that they saw the same report. Packets shrink as they are peeled; the envelope around each hop
pads them to the size of an unpeeled one.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.sealing.envelope import OVERHEAD, Envelope
from shoal.sealing.errors import NotOpenableError
from shoal.sealing.identity import SurveyId
from shoal.sealing.keys import KeyPair, PublicKey
from shoal.service.peers.directory import SERVER
from shoal.service.peers.frames import NUMBER_BYTES

HOME = SERVER  # after the last layer: what is left goes to the server
LAYER_BYTES = OVERHEAD + NUMBER_BYTES


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
