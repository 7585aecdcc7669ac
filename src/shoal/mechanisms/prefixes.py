"""Open answers: texts that nobody listed in advance, found by their prefixes.

A device draws one of its text's levels and one of that level's tables, looks up the cell of its
prefix there (:class:`PrefixTree`) and reports that cell as one of k answers: the level is
inside the message, so that everybody is in one crowd. The answer is reported either among uniform
dummies or by randomized response; either way the shuffled messages are as private as that protocol.

*Proof.* Fix everybody's draws: then two neighbouring data sets of texts are two data sets of cells
that differ in one person's cell at most, and the divergence of the messages is at most the
protocol's own. The draws are independent of each other and, person by person, of everybody else's
text; so the two laws of the messages are mixtures with the same weights of pairs of this kind (the
changed person's two draws may be coupled in any way), and the hockey-stick divergence is jointly
convex. Public hash tables do not depend on the data. ∎

The proof holds for any draws that depend on the person's own text only. It does *not* allow less
noise per cell for there being many levels: two texts may differ in the last symbol alone, and then
all that hides the change is the noise in two cells.

After Bassily, Nissim, Stemmer, Thakurta, "Practical Locally Private Heavy Hitters", NeurIPS 2017,
arXiv:1707.04982 (a tree of prefixes), and Luo, Wang, Yi, CCS 2022, arXiv:2111.06833 (dummies).

*The tree.* A text is the bytes of its UTF-8 form; each byte is a symbol of a public alphabet,
numbered from 1, and a text that is shorter than the public length ends with zeros: rows of small
whole numbers.

Level after level of the tree a text is cut to a prefix, the last level has the whole text. Each
level has several tables, and each table spreads its prefixes over its cells by a hash of its own:

    h(x) = W_1[x_1] xor W_2[x_2] xor ...        (the highest bits are the cell),

simple tabulation with random words W, which is three-wise independent and spreads texts over cells
much as a random function does (Pătraşcu, Thorup, "The Power of Simple Tabulation Hashing", JACM
2012, arXiv:1011.5200). The words are SHAKE-256 of a public key, the same for everybody. A child's
hash is its parent's xor a number of the symbols added: a million children cost a million xors.

*The layout.* Messages pay for cells, for each cell has its part of the noise. More tables make
collisions rarer and spread what a text sends more thinly; more cells per table keep texts apart.
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from operator import itemgetter
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting import amplification
from shoal.accounting.noise.profile import NoiseProfile
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.intervals.estimates import Estimate
from shoal.mechanisms.base import ByProfile, Mechanism, Parts, Reports
from shoal.mechanisms.detection import Background, Channel, Ladder
from shoal.mechanisms.dummies import Dummies, UniformDummies
from shoal.mechanisms.partitioned import OfAllAnswers
from shoal.mechanisms.response import RandomizedResponse
from shoal.questions.domains import Texts
from shoal.randomness import Randomness

Codes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint32]

BETA = 1e-3
MESSAGES = 10.0
LENGTH = 32
_LARGEST_LOCAL = 29.0
_ROOM = 0.99  # of the messages: the number of dummies per cell hardly depends on the cells
_CROWDING = (1 / 2, 3 / 4)  # cells of one-message trees, of the most there can be
_PROBE = 1000
MOST_FIRST = 1 << 25  # prefixes tried on the first level
MOST_CHILDREN = 1 << 16  # prefixes tried below one
MOST_TRIED = 1 << 30  # prefixes tried on a level
STRAYS = 64.0  # prefixes of nobody that are followed on a level, on average
_CHOSEN = 1 / 4  # of what may be listed wrongly: by detectors that the data choose
_WHOLE_PARTS = (0.65, 0.8, 0.5, 0.4)
_WHOLE_TABLES = (5, 24)
_INNER_TABLES = (3, 24)
_FEWEST_BUCKETS = 16
_MOST_BITS = 24
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
    """The bytes that texts are made of, and how many of them a text has at most."""

    symbols: bytes
    length: int

    def __post_init__(self) -> None:
        checks.counts(self, length=1)
        checks.refuse(self.length > LONGEST, f"length <= {LONGEST} bytes", length=self.length)
        ascending = bytes(sorted(set(self.symbols)))
        wrong = not self.symbols or 0 in self.symbols or ascending != self.symbols
        expected = "different bytes in ascending order, without the byte 0"
        checks.refuse(wrong, expected, symbols=self.symbols)

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
        sizes = np.minimum(ends - starts, self.length)
        (cut,) = np.nonzero(ends - starts > sizes)
        for _ in range(_LONGEST_CHARACTER):  # no character is cut in the middle
            inside = joined[starts[cut] + sizes[cut]] & _FIRST_TWO == _CONTINUED
            cut = cut[inside & (sizes[cut] > 0)]
            sizes[cut] -= 1
        rows = np.zeros((starts.size, self.length), dtype=np.uint8)
        for place in range(self.length):
            (there,) = np.nonzero(sizes > place)
            seen = joined[starts[there] + place]
            codes = self._numbers[seen]
            if not codes.all():
                row = int(there[np.flatnonzero(codes == 0)[0]])
                expected = f"texts of the {self.size} bytes of the alphabet"
                raise InvalidArgumentError("text", checks.not_shown(row), expected)
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
        row = error.object.count("\0", 0, error.start)
        # Without its cause, which has the text.
        raise InvalidArgumentError("text", checks.not_shown(row), expected) from None
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
        sizes, expected = (self.tables, self.buckets), f"for each of the {self.levels} levels"
        wrong = any(len(each) != self.levels for each in sizes)
        checks.refuse(wrong, f"tables and buckets {expected}", **{"tables, buckets": sizes})
        for tables, buckets in zip(self.tables, self.buckets, strict=True):
            checks.count(tables=tables)
            power = 2 <= buckets <= 1 << 30 and not buckets & (buckets - 1)
            checks.refuse(not power, "a power of two from 2 to 2^30", buckets=buckets)
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
        cells = np.empty(len(rows), dtype=np.int64)
        for start in range(0, len(rows), _CHUNK):  # so that a chunk stays in the cache
            chunk = rows[start : start + _CHUNK]
            cells[start : start + _CHUNK] = self._cells(chunk, randomness)
        return cells

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


class PrefixMechanism(Mechanism[Estimate]):
    """A prefix tree of texts whose cells are reported by an ``oracle`` for k answers.

    :class:`shoal.mechanisms.prefixes.PrefixDummies` and ``PrefixResponse`` are the two there are.
    Single cells are estimated by nobody: :func:`shoal.heavy_hitters` reads all of them.

    References:
        :doc:`/theory/dummies`; :doc:`/theory/blanket`.
    """

    tree: PrefixTree

    @property
    @abstractmethod
    def oracle(self) -> Mechanism[Estimate]:
        """What reports the cells."""

    @cached_property
    def parts(self) -> Parts[Estimate]:
        """Those of the oracle, but for the data."""
        return replace(
            self.oracle.parts,
            domain=Texts(self.tree.alphabet.length),
            estimator=OfAllAnswers(self.name, self.tree.k),
        )

    @property
    @abstractmethod
    def keep(self) -> float:
        """By how much likelier a person's own cell is counted than any other cell."""

    @abstractmethod
    def noise(self, n: int) -> float:
        """Messages that n people send to each cell whatever they hold, on average."""

    def draw(self, data: npt.ArrayLike, bits: Randomness) -> Reports:
        """A cell of each text, as the oracle reports it."""
        return self.oracle.draw(self.tree.cells(self.tree.alphabet.pack(data), bits), bits)

    def prospect(self, n: int, *, beta: float = BETA) -> Prospect:
        """What can be found among n people."""
        tree = self.tree
        return Prospect(
            tree.alphabet, tree.cuts, checks.count(n=n), beta, self.keep, self.noise(n), tree.k
        )

    def thresholds(self, n: int, *, beta: float = BETA) -> tuple[float, ...]:
        """From how many of n people on a text is sure to be found, by how many levels it has.

        Whatever people hold, with probability ``1 - beta`` at least ``heavy_hitters`` lists
        all texts with so many holders, and none that nobody holds, or says that it is not complete.
        Infinite where not even a text of everybody is sure to be found.
        """
        checks.open_probability(beta=beta)
        prospect = self.prospect(n, beta=beta)
        inner, whole = prospect.ladders(self.tree)
        return prospect.thresholds([each.signal for each in inner], [each.signal for each in whole])

    def threshold(self, n: int, *, beta: float = BETA) -> float:
        """From how many of n people on any text is sure to be found: the one for the longest."""
        return max(self.thresholds(n, beta=beta))


@dataclass(frozen=True, kw_only=True)
class PrefixDummies(PrefixMechanism):
    """A cell of one's text among uniform dummies.

    Drawing a cell of one's own text adds nothing to what :class:`shoal.UniformDummies` on the
    cells reveals.

    Runtime: one hash of the text per person, one draw per dummy.

    Args:
        dummies: Dummies that one person sends on average, > 0.
        tree: The levels, hash tables and cells of the prefix tree.

    Raises:
        InvalidArgumentError: A parameter is out of its range.
        UnreachableTargetError: From ``calibrated``, if so few messages do not keep the target.

    References:
        Luo, Wang, Yi, CCS 2022, arXiv:2111.06833, for the dummies; :doc:`/theory/dummies`.

    Example:
        >>> target = {"n": 5_000, "epsilon": 1.0, "delta": 1e-6}
        >>> made = PrefixDummies.calibrated(**target, length=2, alphabet="ab")
        >>> made.profile(5_000).delta(1.0) <= 1e-6
        True
    """

    name: ClassVar[str] = "prefix-dummies"
    several = True
    keep = 1.0

    dummies: float
    tree: PrefixTree

    def __post_init__(self) -> None:
        object.__setattr__(self, "dummies", Dummies.checked(self.dummies))

    @cached_property
    def parts(self) -> Parts[Estimate]:
        """The privacy is that of the oracle, under a name of its own."""
        return replace(super().parts, privacy=ByProfile(self._profile))

    @classmethod
    def calibrated(
        cls,
        *,
        n: int,
        epsilon: float,
        delta: float,
        length: int = LENGTH,
        alphabet: str | bytes | None = None,
        messages_cap: float = MESSAGES,
        beta: float = BETA,
        hash_key: int = 0,
    ) -> Self:
        """The tree that finds the rarest texts among n honest people, at this many messages."""
        n = checks.count(n=n)
        checks.open_probability(beta=beta)
        checks.positive(messages_cap=messages_cap)
        checks.refuse(messages_cap <= 1, "messages_cap > 1", messages_cap=messages_cap)
        symbols = Alphabet.of(alphabet, length=length)
        cuts = longest_cuts(symbols)
        probe = UniformDummies.calibrated(k=_PROBE, n=n, epsilon=epsilon, delta=delta)
        noise = n * probe.dummies / _PROBE
        cells, fewest = (messages_cap - 1) * _ROOM * n / noise, _fewest_cells(len(cuts))
        if cells < fewest:
            least = 1 + fewest / _ROOM * noise / n
            raise UnreachableTargetError(
                f"messages_cap={messages_cap:g}",
                "so few messages pay for too few cells",
                f"the smallest cap is {math.ceil(1000 * least) / 1000:g}",
            )
        prospect = Prospect(symbols, cuts, n, beta, 1.0, noise, int(cells))
        plans = prospect.planned(cells, hash_key=hash_key)
        if not plans:
            raise _too_few(n)
        ((tree, _),) = plans
        oracle = UniformDummies.calibrated(k=tree.k, n=n, epsilon=epsilon, delta=delta)
        return cls(tree=tree, dummies=oracle.dummies)

    @cached_property
    def oracle(self) -> UniformDummies:
        """What reports the cells."""
        return UniformDummies(k=self.tree.k, dummies=self.dummies)

    def noise(self, n: int) -> float:
        """Dummies in each cell."""
        return n * self.dummies / self.tree.k

    @property
    def influence(self) -> float:
        """All slots filled with a text's cell, where people have several levels to send to.

        Half of the tables count at least, which may double it.
        """
        return 2.0 * self.slots * self.tree.levels

    def _profile(self, n: int) -> NoiseProfile:
        return replace(
            self.oracle._profile(n),  # noqa: SLF001 - its cells among the same dummies
            theorem="cells of a prefix tree among uniform dummies",
            scope="everybody sends a cell of their text among uniform dummies, each by itself",
        )


@dataclass(frozen=True, kw_only=True)
class PrefixResponse(PrefixMechanism):
    """A cell of one's text by randomized response: one message per person.

    Drawing a cell of one's own text adds nothing to what :class:`shoal.RandomizedResponse` on
    the cells reveals.

    Args:
        tree: The levels, hash tables and cells of the prefix tree.
        epsilon: Local ε of one report, in (0, 30]; the sampler keeps at most this.

    Raises:
        InvalidArgumentError: A parameter is out of its range.
        UnreachableTargetError: From ``calibrated``, if one message does not keep the target.

    References:
        :doc:`/theory/blanket`.

    Example:
        >>> target = {"n": 5_000, "epsilon": 1.0, "delta": 1e-6}
        >>> made = PrefixResponse.calibrated(**target, length=2, alphabet="ab")
        >>> len(made.randomize(["a", "ab"]))
        2
    """

    name: ClassVar[str] = "prefix-grr"

    tree: PrefixTree
    epsilon: float

    def __post_init__(self) -> None:
        _ = self.oracle

    @classmethod
    def calibrated(
        cls,
        *,
        n: int,
        epsilon: float,
        delta: float,
        length: int = LENGTH,
        alphabet: str | bytes | None = None,
        beta: float = BETA,
        hash_key: int = 0,
    ) -> Self:
        """The tree that finds the rarest texts among n honest people, with one message each."""
        n = checks.count(n=n)
        checks.open_probability(beta=beta)
        symbols = Alphabet.of(alphabet, length=length)
        cuts = longest_cuts(symbols)
        probe = UniformDummies.calibrated(k=_PROBE, n=n, epsilon=epsilon, delta=delta)
        most = _PROBE / probe.dummies  # messages without any truth, so many to a cell

        def response(k: int) -> RandomizedResponse:
            local = amplification.local_epsilon(
                lambda *, epsilon: RandomizedResponse(k=k, epsilon=epsilon),
                epsilon=epsilon,
                delta=delta,
                n=n,
                cap=_LARGEST_LOCAL,
            )
            return RandomizedResponse(k=k, epsilon=local)

        plans: list[tuple[PrefixTree, float]] = []
        for crowding in _CROWDING:
            cells = crowding * most
            trial = response(max(2, int(cells)))
            keep, noise = _keep(trial), n * _lie(trial)
            prospect = Prospect(symbols, cuts, n, beta, keep, noise, trial.k)
            plans += prospect.planned(cells, hash_key=hash_key)
        if not plans:
            raise _too_few(n)
        tree, _ = min(plans, key=itemgetter(1))
        return cls(tree=tree, epsilon=response(tree.k).epsilon)

    @cached_property
    def oracle(self) -> RandomizedResponse:
        """What reports the cells."""
        return RandomizedResponse(k=self.tree.k, epsilon=self.epsilon)

    @property
    def keep(self) -> float:
        """The probability of the truth, less that of a given lie."""
        return _keep(self.oracle)

    def noise(self, n: int) -> float:
        """Lies in each cell."""
        return n * _lie(self.oracle)

    @property
    def influence(self) -> float:
        """One message that is never a lie, where people have several levels to send to."""
        return 2.0 * self.tree.levels / self.keep


PrefixCollector = PrefixDummies | PrefixResponse


def _keep(response: RandomizedResponse) -> float:
    return math.expm1(response.local_epsilon) * _lie(response)


def _lie(response: RandomizedResponse) -> float:
    return 1 / (math.exp(response.local_epsilon) + response.k - 1)


def _too_few(n: int) -> UnreachableTargetError:
    return UnreachableTargetError(
        f"open answers of n={n} people",
        "not even a text that all of them hold would be sure to stand out",
        "it takes more people, a larger epsilon or more messages, or shorter texts",
    )


def longest_cuts(alphabet: Alphabet) -> tuple[int, ...]:
    """The longest prefixes whose extensions can all be tried.

    >>> longest_cuts(Alphabet.of("abcdefghijklmnopqrstuvwxyz012345", length=12))
    (5, 8, 11, 12)
    """
    size = math.log(max(alphabet.size, 2))
    first, step = (max(1, int(math.log(most + 0.5) / size)) for most in (MOST_FIRST, MOST_CHILDREN))
    if alphabet.length > (longest := first + (MOST_LEVELS - 1) * step):
        expected = f"length <= {longest} with {alphabet.size} symbols"
        raise InvalidArgumentError("length", alphabet.length, expected)
    return (*range(first, alphabet.length, step), alphabet.length)


@dataclass(frozen=True)
class Prospect:
    """What can be found among n people, whatever they hold.

    With probability ``beta`` at most something goes wrong: half of it that a text is missed, half
    that one is listed that nobody holds. A text of c of the n people has a part c/n of the first
    half, since all c together are n at most, and the same on each level that it has to pass. Of
    the second half, texts with each number of levels have the same part: 1/4 of it for the
    detector that the data choose, 3/4 for the one that holds whatever they are.

    Texts of an ``alphabet`` are cut after ``cuts`` symbols. ``keep`` is the probability of the
    truth, ``noise`` what each of ``cells`` cells has.
    """

    alphabet: Alphabet
    cuts: tuple[int, ...]
    n: int
    beta: float
    keep: float
    noise: float
    cells: int

    @property
    def levels(self) -> int:
        """How many levels there are."""
        return len(self.cuts)

    def added(self, level: int) -> int:
        """By how many symbols a prefix of this level is longer than that of the one before."""
        return self.cuts[level] - (self.cuts[level - 1] if level else 0)

    def endings(self, level: int) -> range:
        """By how many symbols whole texts are longer than a prefix of the level before."""
        return range(self.added(level) + (level == self.levels - 1))

    def _inner_candidates(self, level: int, parents: float) -> float:
        """Prefixes to be tried on an inner level."""
        return parents * float(self.alphabet.size) ** self.added(level)

    def ladders(self, tree: PrefixTree) -> tuple[list[Ladder], list[Ladder]]:
        """The detectors of the inner levels, and those of whole texts with 1, 2, ... levels."""
        inner: list[Ladder] = []
        parents = [1]
        for level, size in enumerate(zip(tree.tables[:-1], tree.buckets[:-1], strict=True)):
            near = inner[-1] if inner else None
            detectors = self.ladder(level + 2, *size, inner=True, parents=parents[-1], near=near)
            inner.append(detectors)
            parents.append(self.followed(level, inner[-1]))
        whole: list[Ladder] = []
        for depth in range(1, tree.levels + 1):
            near = whole[-1] if whole else None
            size = tree.tables[-1], tree.buckets[-1]
            whole.append(self.ladder(depth, *size, parents=parents[depth - 1], near=near))
        return inner, whole

    def ladder(
        self,
        depth: int,
        tables: int,
        buckets: int,
        *,
        parents: int,
        inner: bool = False,
        near: Ladder | None = None,
    ) -> Ladder:
        """The detectors of texts with ``depth`` levels, below so many prefixes.

        They look at whole texts, of at least one level; or at the prefixes of the inner level
        ``depth - 2``, whose texts all go on to the next.
        """
        sent, false = self.keep, self.whole_false(depth, parents, chosen=False)
        if inner:
            sent, false = self.keep / depth, self.inner_false(depth - 2, parents)
        return Ladder.built(
            Channel(tables, buckets, cells=self.cells, n=self.n, noise=self.noise, sent=sent),
            false=false,
            # The probability that a text may be missed, for each of its messages.
            missed=self.beta * depth / (2 * self.levels * self.keep * self.n),
            most=self.n * self.keep / depth,
            near=near,
        )

    def followed(self, level: int, detectors: Ladder) -> int:
        """The most prefixes of a level that are followed to the next: twice as many as expected.

        That is, as people have messages for at the top's signal, and strays.
        """
        standing_out = self.n * detectors.channel.sent / detectors.top
        most = int(MOST_TRIED / self._inner_candidates(level + 1, 1))
        return min(math.ceil(2 * (STRAYS + standing_out)), max(most, 1))

    def inner_false(self, level: int, parents: int) -> float:
        """The fraction of prefixes of nobody that may pass: this costs time only."""
        return min(1.0, STRAYS / self._inner_candidates(level, parents))

    def whole_false(self, depth: int, parents: int, *, chosen: bool) -> float:
        """The fraction of texts of nobody that may pass a detector that the data chose, or not."""
        size = float(self.alphabet.size)
        candidates = parents * sum(size**added for added in self.endings(depth - 1))
        part = _CHOSEN if chosen else 1 - _CHOSEN
        return part * self.beta / (2 * self.levels * candidates)

    def thresholds(self, inner: list[float], whole: list[float]) -> tuple[float, ...]:
        """In people, by the number of levels: a text's messages go to all of its levels alike."""
        return tuple(
            depth * max([last, *inner[: depth - 1]]) / self.keep
            for depth, last in enumerate(whole, start=1)
        )

    def planned(self, cells: float, *, hash_key: int) -> list[tuple[PrefixTree, float]]:
        """The layout within so many cells that finds the rarest of the longest texts, and how rare.

        Nothing if there are too few cells for any, or not even a text of everybody would be found.
        """
        last = self.levels
        best = Reach(math.inf, math.inf)
        tables: tuple[int, ...] = ()
        buckets: tuple[int, ...] = ()
        for part in _WHOLE_PARTS if last > 1 else (1.0,):
            sizes: Iterable[tuple[int, tuple[int, ...]]] = [(0, ())]
            if last > 1:
                sizes = _sizes(_INNER_TABLES, last - 1, (1 - part) * cells)
            inners = [(*self._inner_reach(*size), *size) for size in sizes]
            if not inners:
                continue
            inner, parents, each, inner_buckets = min(inners, key=itemgetter(0))
            if not inner < best:
                continue
            for more, (wide,) in _sizes(_WHOLE_TABLES, 1, part * cells):
                detectors = self.ladder(last, more, wide, parents=parents)
                false = self.whole_false(last, parents, chosen=True)
                reach = inner | Reach.of(detectors, false=false)
                if reach < best:
                    best, tables = reach, (*[each] * (last - 1), more)
                    buckets = (*inner_buckets, wide)
        if math.isinf(best.worst):
            return []
        cut = partial(PrefixTree, alphabet=self.alphabet, cuts=self.cuts, hash_key=hash_key)
        return [(cut(tables=tables, buckets=buckets), last * best.worst / self.keep)]

    def _inner_reach(self, tables: int, buckets: tuple[int, ...]) -> tuple[Reach, int]:
        """What passes the inner levels, of which the worst are tried, and how many are followed."""
        reach, parents = Reach(0.0, 0.0), 1
        near: Ladder | None = None
        for level in sorted({0, 2, len(buckets) - 1} & set(range(len(buckets)))):
            size = tables, buckets[level]
            near = self.ladder(level + 2, *size, inner=True, parents=parents, near=near)
            reach |= Reach.of(near, false=self.inner_false(level, parents))
            parents = self.followed(level, near)
        return reach, parents


@dataclass(frozen=True)
class Reach:
    """The messages that it takes to pass, at worst and where no two others hold the same text.

    Fewer tables are better for the one, more for the other; real crowds are between.
    """

    worst: float
    thin: float

    @classmethod
    def of(cls, detectors: Ladder, *, false: float) -> Reach:
        """That of the detectors of one level."""
        thin = detectors.chosen(Background.thin(detectors.channel), false=false)
        return cls(detectors.signal, math.inf if thin is None else thin.signal)

    def __or__(self, other: Reach) -> Reach:
        return Reach(max(self.worst, other.worst), max(self.thin, other.thin))

    def __lt__(self, other: Reach) -> bool:
        return self.worst**2 * self.thin < other.worst**2 * other.thin


def _fewest_cells(levels: int) -> float:
    """The least number of cells for which there is a layout."""
    whole = _WHOLE_TABLES[0] * _FEWEST_BUCKETS
    if levels == 1:
        return float(whole)
    inner = _INNER_TABLES[0] * sum(_shrinking(levels - 1, _FEWEST_BUCKETS))
    return min(max(whole / part, inner / (1 - part)) for part in _WHOLE_PARTS)


def _sizes(
    allowed: tuple[int, int], levels: int, cells: float
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Numbers of tables for each of some levels, and the cells of a table on each of them."""
    for bits in range(_FEWEST_BUCKETS.bit_length() - 1, _MOST_BITS):
        buckets = _shrinking(levels, 1 << bits)
        tables = int(cells / sum(buckets))
        if allowed[0] <= tables <= allowed[1]:
            yield tables, buckets


def _shrinking(levels: int, first: int) -> tuple[int, ...]:
    """Fewer cells on deeper levels, whose texts have more levels to send to."""
    halvings = (((level + 2) // 2).bit_length() - 1 for level in range(levels))
    return tuple(max(_FEWEST_BUCKETS, first >> halving) for halving in halvings)
