"""Whether all that one person sends fits into one report, before anything that large is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.protocols.base import Device
from shoal.sealing import Envelope, SurveyId
from shoal.sealing.envelope import LARGEST_CAPACITY

_ANY = SurveyId(bytes(32))  # the length of an envelope does not depend on the survey
_MOST_BITS = 8 * LARGEST_CAPACITY


def check_described(mechanism: Mapping[str, object], answers: int) -> None:
    """Refuse a description for other answers, or with numbers longer than any message."""
    k = checks.count(0, k=cast("float", mechanism.get("k", answers)))
    if k != answers:
        raise InvalidArgumentError("k", k, f"a mechanism for the {answers} answers listed")
    bits = checks.count(0, modulus_bits=cast("float", mechanism.get("modulus_bits", 0)))
    if bits > _MOST_BITS:
        raise InvalidArgumentError("modulus_bits", bits, f"at most {_MOST_BITS}")


def check_room(device: Device, *, suite: str, token_bytes: int) -> None:
    """Refuse a mechanism whose sealed messages, with a token, are too long for an envelope."""
    most = LARGEST_CAPACITY - token_bytes
    if device.message_bytes > most:
        expected = f"messages of at most {LARGEST_CAPACITY} bytes, the token included"
        raise InvalidArgumentError("message_bytes", device.message_bytes, expected)
    record = Envelope(survey=_ANY, role="inner", capacity=device.message_bytes, suite=suite).size
    if device.slots * record > most:
        room = max(0, most // record)
        expected = (
            f"at most {room} messages of a person, sealed into {record} bytes each by {suite} "
            "(take a mechanism with fewer or shorter messages)"
        )
        raise InvalidArgumentError("slots", device.slots, expected)
