"""Texts as rows of small whole numbers, all at once.

A text is the bytes of its UTF-8 form; each byte is a symbol of a public alphabet, numbered from 1,
and a text that is shorter than the public length ends with zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.errors import InvalidArgumentError

Codes = npt.NDArray[np.uint8]

MOST_SYMBOLS = 255
LONGEST = 256
_NUL = "\0"
_CONTINUED = 0b1000_0000  # the first two bits of a byte inside a character
_FIRST_TWO = 0b1100_0000
_LONGEST_CHARACTER = 4


@dataclass(frozen=True, kw_only=True)
class Alphabet:
    """The bytes that texts are made of, and how many of them are kept."""

    symbols: bytes
    length: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", checks.count(length=self.length))
        if self.length > LONGEST:
            raise InvalidArgumentError("length", self.length, f"length <= {LONGEST} bytes")
        if (
            not self.symbols
            or 0 in self.symbols
            or bytes(sorted(set(self.symbols))) != (self.symbols)
        ):
            expected = "different bytes in ascending order, without the byte 0"
            raise InvalidArgumentError("symbols", self.symbols, expected)

    @classmethod
    def of(cls, symbols: str | bytes | None, *, length: int) -> Alphabet:
        """The bytes of these characters; of all texts if there are none.

        >>> Alphabet.of("cab", length=3).symbols
        b'abc'
        """
        if symbols is None:
            symbols = bytes(range(1, 1 + MOST_SYMBOLS))
        if not isinstance(symbols, str | bytes):
            raise InvalidArgumentError("alphabet", symbols, "a text of all characters allowed")
        raw = symbols.encode() if isinstance(symbols, str) else symbols
        return cls(symbols=bytes(sorted(set(raw))), length=length)

    @property
    def size(self) -> int:
        """How many symbols there are, the end of a text not counted."""
        return len(self.symbols)

    @cached_property
    def _numbers(self) -> Codes:
        """The number of each byte; 0 for bytes that are no symbols."""
        numbers = np.zeros(256, dtype=np.uint8)
        numbers[list(self.symbols)] = np.arange(1, self.size + 1, dtype=np.uint8)
        return numbers

    def pack(self, texts: object) -> Codes:
        """One row of ``length`` codes for each text, cut to whole characters if it is longer.

        >>> Alphabet.of("ab", length=3).pack(["ab", "", "bbbb"]).tolist()
        [[1, 2, 0], [0, 0, 0], [2, 2, 2]]
        """
        listed = _listed(texts)
        joined = _joined(listed)
        ends = np.append(np.flatnonzero(joined == 0), joined.size)
        if ends.size != max(1, len(listed)):
            raise InvalidArgumentError("texts", "a text with the character NUL", "texts without it")
        if not len(listed):
            return np.zeros((0, self.length), dtype=np.uint8)
        starts = np.append(0, ends[:-1] + 1)
        kept = np.minimum(ends - starts, self.length)
        kept = _whole_characters(joined, starts, ends, kept)
        rows = np.zeros((starts.size, self.length), dtype=np.uint8)
        for place in range(self.length):
            (there,) = np.nonzero(kept > place)
            seen = joined[starts[there] + place]
            codes = self._numbers[seen]
            if not codes.all():
                wrong = bytes([int(seen[codes == 0][0])])
                expected = f"texts of the {self.size} bytes of the alphabet"
                raise InvalidArgumentError("byte", wrong, expected)
            rows[there, place] = codes
        return rows

    def texts(self, rows: Codes) -> tuple[str, ...]:
        """The texts of rows of codes; bytes that are no UTF-8 are shown escaped."""
        letters = np.frombuffer(b"\0" + self.symbols, dtype=np.uint8)[rows]
        return tuple(
            row.tobytes().rstrip(b"\0").decode(errors="backslashreplace") for row in letters
        )


def lengths(rows: Codes) -> npt.NDArray[np.int64]:
    """How many symbols each row has before its end."""
    found: npt.NDArray[np.int64] = np.count_nonzero(rows, axis=1).astype(np.int64)
    return found


def _listed(texts: object) -> list[str]:
    if isinstance(texts, str | bytes) or not hasattr(texts, "__iter__"):
        raise InvalidArgumentError("texts", type(texts).__name__, "a list of texts")
    turned = getattr(texts, "to_list", None) or getattr(texts, "tolist", None)
    return list(turned() if callable(turned) else texts)


def _joined(texts: list[str]) -> Codes:
    try:
        whole = _NUL.join(texts).encode()
    except TypeError as error:
        wrong = [text for text in map(type, texts) if not issubclass(text, str)]
        raise InvalidArgumentError("text", wrong[0].__name__, "texts only") from error
    except UnicodeEncodeError as error:
        expected = "texts that UTF-8 can hold"
        raise InvalidArgumentError("text", error.object[error.start], expected) from error
    return np.frombuffer(whole, dtype=np.uint8)


def _whole_characters(
    joined: Codes,
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    kept: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """How many bytes to keep so that no character is cut in the middle."""
    (cut,) = np.nonzero(ends - starts > kept)
    for _ in range(_LONGEST_CHARACTER):
        inside = joined[starts[cut] + kept[cut]] & _FIRST_TWO == _CONTINUED
        cut = cut[inside & (kept[cut] > 0)]
        kept[cut] -= 1
    return kept
