"""The name of a survey: the hash of its configuration.

A configuration is a tree of plain values. It is written in exactly one way, the JSON
Canonicalization Scheme (Rundgren, Jordan, Erdtman, RFC 8785): no spaces, keys in the order of
their UTF-16 code units, the shortest decimal that reads back as the same double, written as
ECMAScript writes it. Equal configurations therefore have equal bytes in every language, 1 and 1.0
are the same number, and any change of a value changes the name.

>>> canonical({"k": 4, "epsilon": 1.0, "name": "colour"}).decode()
'{"epsilon":1,"k":4,"name":"colour"}'
>>> str(SurveyId.of({"k": 4}))[:16]
'd5f590df13d294e5'
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeAlias

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.sealing.errors import MalformedError

Plain: TypeAlias = bool | int | float | str | Sequence["Plain"] | Mapping[str, "Plain"] | None

LARGEST_CONFIGURATION = 1 << 16
DEEPEST_CONFIGURATION = 16
_LARGEST_INTEGER = (1 << 53) - 1  # beyond it, doubles do not tell whole numbers apart
_DIGEST_BYTES = 32
_HEX_DIGEST = re.compile(r"[0-9a-f]{64}")
_TEXT = json.JSONEncoder(ensure_ascii=False)  # made once: it is asked for every name and value


@dataclass(frozen=True)
class SurveyId:
    """SHA-256 of a survey's canonical configuration."""

    digest: bytes

    def __post_init__(self) -> None:
        fits = len(self.digest) == _DIGEST_BYTES
        checks.refuse(not fits, f"{_DIGEST_BYTES} bytes", digest=self.digest)

    @classmethod
    def of(cls, configuration: Mapping[str, Plain]) -> SurveyId:
        """The name of a configuration."""
        return cls(sha256(canonical(configuration)).digest())

    @classmethod
    def from_text(cls, text: str) -> SurveyId:
        """The name written by ``str``."""
        if not _HEX_DIGEST.fullmatch(text):
            raise MalformedError("the survey's name", "64 lower-case hexadecimal digits")
        return cls(bytes.fromhex(text))

    def __str__(self) -> str:
        return self.digest.hex()


def canonical(configuration: Mapping[str, Plain]) -> bytes:
    """The one way of writing a configuration (RFC 8785, UTF-8)."""
    named = isinstance(configuration, Mapping)
    checks.refuse(not named, "a mapping of names to values", configuration=configuration)
    return _written(configuration, DEEPEST_CONFIGURATION).encode("utf-8")


def parsed(data: bytes) -> dict[str, Plain]:
    """The configuration that these bytes are the one way of writing."""
    if len(data) <= LARGEST_CONFIGURATION:
        with suppress(ValueError, OverflowError, RecursionError):  # of parser and writer
            value: dict[str, Plain] = json.loads(data.decode("utf-8"), parse_int=_whole)
            if canonical(value) == data:
                return value
    raise MalformedError("the configuration", "canonical JSON (RFC 8785) of an object")


def _whole(text: str) -> int | float:
    """A number without a point: beyond what doubles tell apart, it was written from a double."""
    value = int(text)
    return value if abs(value) <= _LARGEST_INTEGER else float(value)


def _written(value: Plain, depth: int) -> str:
    if depth < 0:
        expected = f"at most {DEEPEST_CONFIGURATION} levels of nesting"
        raise InvalidArgumentError("configuration", value, expected)
    match value:
        case str():
            try:
                value.encode("utf-8")
            except UnicodeEncodeError:
                expected = "Unicode without lone surrogates"
                raise InvalidArgumentError("text", value, expected) from None
            return _TEXT.encode(value)
        case None | bool():
            return _TEXT.encode(value)
        case int():
            expected = "whole numbers up to 2^53 - 1 (write larger ones as text)"
            checks.refuse(abs(value) > _LARGEST_INTEGER, expected, value=value)
            return str(int(value))
        case float():
            return _number(float(value))
        case Mapping():
            for key in value:
                if not isinstance(key, str):
                    raise InvalidArgumentError("key", key, "text")
            ordered = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
            members = (
                f"{_written(key, depth)}:{_written(value[key], depth - 1)}" for key in ordered
            )
            return f"{{{','.join(members)}}}"
        case Sequence() if not isinstance(value, bytes | bytearray | memoryview):
            return f"[{','.join(_written(item, depth - 1) for item in value)}]"
    expected = "plain values: text, numbers, true, false, null, lists and mappings"
    raise InvalidArgumentError("value", value, expected)


def _number(value: float) -> str:
    """ECMAScript's Number::toString, from the shortest digits that read back as the value."""
    checks.refuse(not math.isfinite(value), "finite numbers", value=value)
    if value == 0:
        return "0"  # -0 too
    # By the text alone: arithmetic of decimals would round as the calling thread has it set.
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(digits) - len(fraction) + int(exponent or 0)  # value = 0.digits * 10^point
    sign, digits = "-" * (value < 0), digits.rstrip("0")
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{point - 1:+d}"
