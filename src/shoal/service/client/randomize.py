"""From an answer to what may leave the device: the coin, the noise, the seals, and nothing else.

An answer that cannot be used is refused without repeating it: errors end up in logs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal import randomness as sources
from shoal.errors import InvalidArgumentError
from shoal.explain.text import plain
from shoal.randomizers.base import AnswerMechanism, NumberMechanism
from shoal.randomness import Randomness
from shoal.sealing import PublicKey
from shoal.service.client.errors import NOTHING_SENT, ClientError
from shoal.service.survey import Survey
from shoal.service.wire import Wire

Values = npt.NDArray[np.int64] | npt.NDArray[np.float64]
Answer = str | float
Answers = Sequence[Answer] | Values

_COIN_BITS = 62
_NOT_SHOWN = "(not shown)"
_LISTED = 20
_FINGERPRINT_DIGITS = 32
_PIECE = 500  # reports that one process seals at a time


@dataclass(frozen=True, eq=False)
class Drawn:
    """The messages of those who take part, person after person, and how many were asked.

    ``codes`` are what people invited show beside their reports.
    """

    asked: int
    people: int
    messages: bytes
    codes: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Keys:
    """The keys a report is sealed with."""

    analyzer: PublicKey
    shuffler: PublicKey

    @property
    def named(self) -> str:
        """Which keys they are: a number alone could be that of another key one day."""
        return ",".join(
            f"{key.number}:{key.fingerprint[:_FINGERPRINT_DIGITS]}"
            for key in (self.analyzer, self.shuffler)
        )


def values_of(survey: Survey, answers: Answers) -> Values:
    """Answers as the survey's mechanism takes them: their numbers, or numbers within bounds.

    An array holds them already. A number outside the bounds is refused: counted as the nearest
    bound, it would not be what the person said.
    """
    device = survey.device
    if isinstance(device, AnswerMechanism):
        if isinstance(answers, np.ndarray):
            return _checked_codes(answers, device.k)
        codes = {answer: code for code, answer in enumerate(survey.answers)}
        coded = [codes.get(answer, -1) if isinstance(answer, str) else -1 for answer in answers]
        if -1 in coded:
            listed = ", ".join(map(repr, survey.answers[:_LISTED]))
            more = ", …" if len(survey.answers) > _LISTED else ""
            raise InvalidArgumentError("answer", _NOT_SHOWN, f"one of the answers {listed}{more}")
        return np.array(coded, dtype=np.int64)
    assert isinstance(device, NumberMechanism)  # noqa: S101 - a survey has one or the other
    if isinstance(answers, np.ndarray) and answers.dtype.kind in "iuf":
        numbers = answers.astype(np.float64)
    else:
        numbers = np.array([_number(answer) for answer in answers], dtype=np.float64)
    within = (device.low <= numbers) & (numbers <= device.high)  # NaN is not
    expected = f"a number from {device.low:g} to {device.high:g}"
    checks.refuse(numbers.ndim != 1 or not within.all(), expected, answer=_NOT_SHOWN)
    return numbers


def column_values(survey: Survey, table: Path, column: str, *, drop_nulls: bool = False) -> Values:
    """A column of a table as the survey's mechanism takes it: one person per row.

    No answer is repeated in what is refused.
    """
    from shoal.engines import columns

    device, read = survey.device, columns.column(table, column)
    if isinstance(device, AnswerMechanism):
        rows, nulls = read.size()
        codes = list(read.codes(survey.answers, none=None, other=-1))
        values: Values = np.concatenate([*codes, np.empty(0, dtype=np.int64)])
        wrong = int((values < 0).sum())
        what = "have an answer that the survey does not"
    else:
        assert isinstance(device, NumberMechanism)  # noqa: S101 - a survey has one or the other
        rows, nulls = read.numeric_size()
        values = np.concatenate([*read.numbers(), np.empty(0, dtype=np.float64)])
        wrong = int(((values < device.low) | (values > device.high)).sum())
        what = f"are no number from {plain(device.low)} to {plain(device.high)}"
    if wrong:
        raise ClientError(f"{wrong:,} of {rows:,} rows of {column} {what}: {NOTHING_SENT}")
    if nulls and not drop_nulls:
        raise ClientError(
            f"{nulls:,} of {rows:,} rows of {column} have no answer: --drop-nulls (in Python "
            f"drop_nulls=True) leaves them out; {NOTHING_SENT}"
        )
    if not values.size:
        raise ClientError(f"column {column} has no answers: {NOTHING_SENT}")
    return values


def draw(
    survey: Survey, values: Values, codes: bytes = b"", *, randomness: Randomness | None = None
) -> Drawn:
    """Toss everybody's coin and randomize the values of those who take part.

    The probability of taking part is rounded down to a multiple of 2^-62, so it is at most what
    the survey promises. ``codes`` are one for each value, if people are invited.
    """
    taking_part = values
    if survey.participation < 1:
        source = sources.secure() if randomness is None else randomness
        odds = np.uint64(math.floor(survey.participation * (1 << _COIN_BITS)))
        coins = source.below(1 << _COIN_BITS, len(values)) < odds
        taking_part = values[coins]
        if codes:
            table = np.frombuffer(codes, dtype=np.uint8).reshape(len(values), -1)
            codes = table[coins].tobytes()
    if not taking_part.size:
        return Drawn(len(values), 0, b"")
    device = survey.device
    rows = device.encode(device.randomize(taking_part, randomness=randomness))  # type: ignore[arg-type]
    messages = np.ascontiguousarray(rows).tobytes()
    return Drawn(len(values), int(taking_part.size), messages, codes)


def seal_many(
    survey: Survey,
    values: Values,
    keys: Keys,
    *,
    randomness: Randomness | None = None,
    pool: Executor | None = None,
) -> list[bytes]:
    """Everybody's randomized and sealed report; those who do not take part have none.

    ``values`` are what the mechanism takes: numbers of answers, or numbers within bounds.
    """
    drawn = draw(survey, values, randomness=randomness)
    return seal(Wire.of(survey), drawn.messages, keys, pool=pool)


def seal(wire: Wire, messages: bytes, keys: Keys, *, pool: Executor | None = None) -> list[bytes]:
    """Reports of messages that were drawn: ``slots`` of them make one."""
    size = _PIECE * wire.slots * wire.message_bytes
    pieces = [messages[start : start + size] for start in range(0, len(messages), size)]
    mapped = map if pool is None or len(pieces) < 2 else pool.map
    return list(chain.from_iterable(mapped(_seal_piece, repeat(wire), pieces, repeat(keys))))


def _seal_piece(wire: Wire, messages: bytes, keys: Keys) -> list[bytes]:
    rows = np.frombuffer(messages, dtype=np.uint8)
    people = rows.reshape(-1, wire.slots, wire.message_bytes)
    return [wire.seal(slots, analyzer=keys.analyzer, shuffler=keys.shuffler) for slots in people]


def _checked_codes(codes: Values, k: int) -> npt.NDArray[np.int64]:
    whole = codes.ndim == 1 and codes.dtype.kind in "iu"
    fits = whole and ((codes >= 0) & (codes < k)).all()
    expected = f"a one-dimensional array of whole numbers 0, ..., {k - 1}"
    checks.refuse(not fits, expected, answers=_NOT_SHOWN)
    return codes.astype(np.int64)


def _number(answer: Answer) -> float:
    try:
        return math.nan if isinstance(answer, bool) else float(answer)
    except (TypeError, ValueError):
        return math.nan
