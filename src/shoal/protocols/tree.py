"""Texts, and a prefix tree laid out in cells: which cell a text falls into, by public hash tables.

A text is the bytes of its UTF-8 form; each byte is a symbol of a public alphabet, numbered from 1,
and a text that is shorter than the public length ends with zeros: rows of small whole numbers.

Level after level of the tree a text is cut to a prefix, the last level has the whole text. Each
level has several tables, and each table spreads its prefixes over its cells by a hash of its own:

    h(x) = W_1[x_1] xor W_2[x_2] xor ...        (the highest bits are the cell),

simple tabulation with random words W, which is three-wise independent and spreads texts over cells
much as a random function does (Pătraşcu, Thorup, "The Power of Simple Tabulation Hashing", JACM
2012, arXiv:1011.5200). The words are SHAKE-256 of a public key, the same for everybody. A child's
hash is its parent's xor a number of the symbols added: a million children cost a million xors.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.randomness import Randomness

Codes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint32]

MOST_SYMBOLS = 255
LONGEST = 256
MOST_LEVELS = 40  # the least common multiple of all numbers up to it fits into a word
_CONTINUED = 0b1000_0000  # the first two bits of a byte inside a character
_FIRST_TWO = 0b1100_0000
_LONGEST_CHARACTER = 4
_WORD_BITS = 32
_CHUNK = 1 << 15


@dataclass(frozen=True, kw_only=True)
class Alphabet:
    """The bytes that texts are made of, and how many of them are kept."""

    symbols: bytes
    length: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", checks.count(length=self.length))
        checks.refuse(self.length > LONGEST, f"length <= {LONGEST} bytes", length=self.length)
        ascending = bytes(sorted(set(self.symbols)))
        if not self.symbols or 0 in self.symbols or ascending != self.symbols:
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
        if isinstance(texts, str | bytes) or not hasattr(texts, "__iter__"):
            raise InvalidArgumentError("texts", type(texts).__name__, "a list of texts")
        turned = getattr(texts, "to_list", None) or getattr(texts, "tolist", None)
        listed = list(turned() if callable(turned) else texts)
        joined = _joined(listed)
        ends = np.append(np.flatnonzero(joined == 0), joined.size)
        if ends.size != max(1, len(listed)):
            raise InvalidArgumentError("texts", "a text with the character NUL", "texts without it")
        if not listed:
            return np.zeros((0, self.length), dtype=np.uint8)
        starts = np.append(0, ends[:-1] + 1)
        kept = np.minimum(ends - starts, self.length)
        (cut,) = np.nonzero(ends - starts > kept)
        for _ in range(_LONGEST_CHARACTER):  # no character is cut in the middle
            inside = joined[starts[cut] + kept[cut]] & _FIRST_TWO == _CONTINUED
            cut = cut[inside & (kept[cut] > 0)]
            kept[cut] -= 1
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


def _joined(texts: list[str]) -> Codes:
    try:
        whole = "\0".join(texts).encode()
    except TypeError as error:
        wrong = [text for text in map(type, texts) if not issubclass(text, str)]
        raise InvalidArgumentError("text", wrong[0].__name__, "texts only") from error
    except UnicodeEncodeError as error:
        expected = "texts that UTF-8 can hold"
        raise InvalidArgumentError("text", error.object[error.start], expected) from error
    return np.frombuffer(whole, dtype=np.uint8)


@dataclass(frozen=True, kw_only=True)
class PrefixTree:
    """Levels of prefixes, each with its tables.

    ``cuts[i]`` symbols are the prefix of level i, the last being ``alphabet.length``: the whole
    text. Level i has ``tables[i]`` tables of ``buckets[i]`` cells, a power of two.

    A text has the levels whose prefixes it fills (``cuts[i]`` <= its length), and the last.
    """

    alphabet: Alphabet
    cuts: tuple[int, ...]
    tables: tuple[int, ...]
    buckets: tuple[int, ...]
    hash_key: int = 0

    def __post_init__(self) -> None:
        ends = (0, *self.cuts)
        if not self.cuts or any(b <= a for a, b in pairwise(ends)) or self.cuts[-1] != self.length:
            expected = f"ascending cuts, the last of them the length {self.length}"
            raise InvalidArgumentError("cuts", self.cuts, expected)
        checks.refuse(self.levels > MOST_LEVELS, f"at most {MOST_LEVELS} levels", cuts=self.cuts)
        if not len(self.tables) == len(self.buckets) == self.levels:
            expected = f"tables and buckets for each of the {self.levels} levels"
            raise InvalidArgumentError("tables, buckets", (self.tables, self.buckets), expected)
        for tables, buckets in zip(self.tables, self.buckets, strict=True):
            checks.count(tables=tables)
            if not 2 <= buckets <= 1 << 30 or buckets & (buckets - 1):
                expected = "a power of two from 2 to 2^30"
                raise InvalidArgumentError("buckets", buckets, expected)
        checks.count(0, hash_key=self.hash_key)

    @property
    def length(self) -> int:
        """The most symbols of a text."""
        return self.alphabet.length

    @property
    def levels(self) -> int:
        """How many levels there are, the whole text among them."""
        return len(self.cuts)

    @property
    def k(self) -> int:
        """How many cells there are."""
        return sum(t * b for t, b in zip(self.tables, self.buckets, strict=True))

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """The first row of tables of each level."""
        return tuple(np.cumsum((0, *self.tables[:-1])).tolist())

    @cached_property
    def _buckets(self) -> npt.NDArray[np.int64]:
        """The cells of each table."""
        return np.repeat(np.array(self.buckets), self.tables).astype(np.int64)

    @cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """The first cell of each table, and the number of cells."""
        return np.append(0, np.cumsum(self._buckets))

    @cached_property
    def shifts(self) -> Words:
        """By how many bits each table's hashes are too long."""
        bits = [int(buckets).bit_length() - 1 for buckets in self._buckets]
        return np.array([_WORD_BITS - bit for bit in bits], dtype=np.uint32)

    @property
    def words(self) -> Words:
        """The random words, one for each table, place and code; none beyond a level's prefix."""
        shape = (len(self._buckets), self.length, self.alphabet.size + 1)
        cuts = tuple(np.repeat(np.array(self.cuts), self.tables).tolist())
        return _words(self.hash_key, shape, cuts)

    def depths(self, rows: Codes) -> npt.NDArray[np.int64]:
        """How many levels each text has."""
        inner = np.array(self.cuts[:-1], dtype=np.int64)
        lengths = np.count_nonzero(rows, axis=1)
        return np.asarray(1 + np.searchsorted(inner, lengths, side="right"), dtype=np.int64)

    def cells(self, rows: Codes, randomness: Randomness) -> npt.NDArray[np.int64]:
        """A cell of each text: of one of its levels and one of that level's tables, at random.

        Exactly uniform: the draws are whole numbers below multiples of all numbers of choices.
        """
        found = np.empty(len(rows), dtype=np.int64)
        for start in range(0, len(rows), _CHUNK):  # so that a chunk stays in the cache
            chunk = rows[start : start + _CHUNK]
            found[start : start + _CHUNK] = self._cells(chunk, randomness)
        return found

    def _cells(self, rows: Codes, randomness: Randomness) -> npt.NDArray[np.int64]:
        depths = self.depths(rows)
        drawn = _choice(depths, self.levels, randomness)
        level = np.where(drawn == depths - 1, self.levels - 1, drawn)
        tables = np.array(self.tables, dtype=np.int64)[level]
        table = np.array(self.firsts, dtype=np.int64)[level]
        table += _choice(tables, max(self.tables), randomness)
        return self.cell_of(rows, table)

    def cell_of(self, rows: Codes, table: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The cell of each text in the table given for it."""
        words = self.words
        flat = words.reshape(-1)
        place_size = words.shape[2]
        at = table * (words.shape[1] * place_size)
        hashed = np.zeros(len(rows), dtype=np.uint32)
        for place in range(self.length):
            hashed ^= flat[at + place * place_size + rows[:, place]]
        return self.starts[table] + (hashed >> self.shifts[table])


def _choice(
    counts: npt.NDArray[np.int64], most: int, randomness: Randomness
) -> npt.NDArray[np.int64]:
    """A uniform choice among ``counts[i]`` <= most, for each i."""
    common = math.lcm(*range(1, most + 1))
    drawn = randomness.below(common, counts.size).astype(np.int64)
    return drawn // (common // counts)


@lru_cache(maxsize=4)
def _words(key: int, shape: tuple[int, int, int], cuts: tuple[int, ...]) -> Words:
    size = math.prod(shape)
    label = f"shoal prefix tree {key} {shape}"
    stream = hashlib.shake_256(label.encode()).digest(4 * size)
    words = np.frombuffer(stream, dtype="<u4").astype(np.uint32).reshape(shape)
    beyond = np.arange(shape[1]) >= np.array(cuts)[:, None]
    words[beyond] = 0
    words.flags.writeable = False
    return words
