"""What every mechanism is: a frozen value that knows its sampler, messages and estimator.

Probabilities are whole numbers, so that a sampler on random bits keeps epsilon exactly: a
comparison of a float with a float can break a privacy guarantee in its last digits. Here the odds
between "this output" and "that output" are ``high : low`` with whole numbers
``high <= e^epsilon low``, checked in exact arithmetic; draws are uniform integers below their sum.
"""

# ruff: noqa: ARG002 - what is not known of a mechanism does not depend on its arguments
from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from numbers import Real
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal import randomness as sources
from shoal.accounting.law import BlanketLaw, Claim, PairLike
from shoal.errors import InvalidArgumentError
from shoal.randomness import Randomness
from shoal.values import (
    Array,
    Batch,
    Counts,
    Envelopes,
    Estimate,
    Flags,
    MeanEstimate,
    Messages,
    Span,
    VectorEstimate,
    category_codes,
)

Reports = Messages | Envelopes
Rows = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.int64]
# The whole numbers of a sampler; those that a double may not hold are written as text.
Integers: TypeAlias = dict[str, int | str | list[int] | list[str]]

LARGEST_TABLE = 4_000_000
MOST_TRIED = 64  # answers, of many
LARGEST_EPSILON = 30.0
EXACT = Context(prec=60)
_TOTAL_BITS = 52
_ROUNDING = 1e-9


class Auditable:
    """What an auditor asks of a mechanism, to know where to look; by default nothing is known.

    ``inputs`` are data; ``messages`` are an array with an entry, or a row, for each. Answers only
    guide the audit: what it proves does not rest on them.
    """

    ends_first: ClassVar[bool] = False  # the first two trial inputs are as far apart as any others

    def trial_inputs(self) -> tuple[Hashable, ...]:
        """Data worth trying."""
        expected = "the values to try (inputs), as nothing is known of the data that it takes"
        raise InvalidArgumentError("inputs", None, expected)

    def far_apart(self) -> tuple[int, ...]:
        """Answers whose messages are known to differ much."""
        return ()

    def check_input(self, value: Hashable) -> None:
        """Refuse a datum that it does not take."""

    @property
    def outputs(self) -> int | None:
        """How many messages there are, if they are whole numbers from 0."""
        return None

    def probabilities(self, inputs: Sequence[Any]) -> Array | None:
        """Pr[message y | x], one row per input x, if messages are numbers and few enough."""
        return None

    def supports(self, messages: npt.NDArray[Any], inputs: Sequence[Any]) -> Flags | None:
        """Which inputs (columns) each message (row) speaks for; None if messages do no such thing.

        A randomizer with local epsilon sends what supports its input e^epsilon times likelier.
        """
        return None

    def support_sizes(self, messages: npt.NDArray[Any]) -> npt.NDArray[np.int64] | None:
        """How many inputs each message speaks for in all, if it shows."""
        return None

    def direction(self, first: Any, second: Any) -> Array | None:  # noqa: ANN401
        """Along which direction messages tell two inputs apart, if both are vectors."""
        return None

    def true_message(self, value: Any) -> int | None:  # noqa: ANN401
        """The number of the message that holders of this datum send beside their noise."""
        return None

    def gap_estimator(self, first: Any, second: Any) -> Callable[[Batch], float] | None:  # noqa: ANN401
        """How the analyzer's estimate of a batch tells two inputs apart, as one number."""
        return None


class Mechanism(Auditable, ABC):
    """What a device runs, be it for one message or for several.

    Fields are public parameters; data and randomness are arguments.
    """

    name: ClassVar[str]

    @property
    @abstractmethod
    def local_epsilon(self) -> float:
        """The epsilon of one person's messages by themselves, as implemented (may be infinite)."""

    @property
    @abstractmethod
    def message_bits(self) -> float:
        """Information in one message, in bits."""

    @property
    @abstractmethod
    def message_bytes(self) -> int:
        """Length of every encoded message."""

    @property
    @abstractmethod
    def messages(self) -> float:
        """Expected number of messages of one person."""

    @property
    @abstractmethod
    def slots(self) -> int:
        """The most messages that one person sends: what an envelope has room for."""

    @property
    def integers(self) -> Integers:
        """The whole numbers that the sampler draws by, as this machine derives them.

        Empty where nothing is derived: the public parameters are whole numbers themselves.
        """
        return {}

    @abstractmethod
    def admissible(self, rows: Rows) -> Flags:
        """Which rows of ``message_bytes`` bytes a device can have sent as one of its messages."""

    @abstractmethod
    def randomize(self, values: npt.ArrayLike, *, randomness: Randomness | None = None) -> Reports:
        """Everybody's messages; secure randomness unless a simulation's is given."""

    @abstractmethod
    def counted(self, batch: Batch | Counts) -> Counts:
        """Counts of a batch, or counts as they are: at least of one person."""

    @property
    def reach(self) -> Span | None:
        """The least and the most that one person adds to n times an estimated fraction or mean.

        None if the limits of the estimates are exact at every level, so that nobody needs it.
        """
        return None


class TakesAnswers(Auditable):
    """Takes one of k answers, by its number."""

    k: int

    def trial_inputs(self) -> tuple[Hashable, ...]:
        """All answers, or the first one, the last one, and some in between."""
        return some_answers(self.k)

    def check_input(self, value: Hashable) -> None:
        """Refuse what is no answer."""
        whole = isinstance(value, Real | np.bool_) and float(value).is_integer()
        wrong = not whole or not 0 <= float(value) < self.k  # type: ignore[arg-type]  # a number
        expected = f"answers by their numbers 0 to {self.k - 1}, as declared"
        checks.refuse(wrong, expected, inputs=value)


class AnswerMechanism(TakesAnswers, Mechanism):
    """Collects one of k answers."""

    laplace: ClassVar[bool] = False  # independent Laplace errors, where others are nearly normal

    @property
    def one_error(self) -> bool:
        """Of two answers: whether both have one error, as their estimates always sum to 1."""
        return False

    @abstractmethod
    def estimate(self, batch: Batch | Counts) -> Estimate:
        """Unbiased estimates of the fraction of each answer."""

    @abstractmethod
    def variance(self, frequencies: npt.ArrayLike, *, n: int) -> Array:
        """Variance of each estimated fraction, given the true ones of n people."""

    def total_spread(self, own: Array, total: Array, squares: Array) -> Array:
        """At most the variance of one person's part in a weighted sum of estimated fractions.

        The weights, none negative, sum to ``total`` and their squares to ``squares``; that of the
        person's own answer is ``own``. Whatever the errors of different answers have to do with
        each other, standard deviations add up at most (mechanisms know better).
        """
        everybody, spread = np.eye(1, self.k)[0], np.full(self.k, 1 / self.k)
        largest = max(float(self.variance(f, n=1).max()) for f in (everybody, spread))
        return np.broadcast_to(total**2 * largest, np.broadcast_shapes(own.shape, total.shape))

    def total_variance(self, size: float, fraction: float, *, n: int) -> float:
        """At most the variance of the estimated fraction of n people with one of ``size`` answers.

        Which this fraction of them has; by these answers or by the others, as :meth:`totals` does.
        """
        own, sizes = np.array([0.0, 1.0]), np.array([size, self.k - size])
        direct, other = (self.total_spread(own, each, each) for each in sizes)
        spread = direct if direct.max() <= other.max() else other[::-1]
        return float((1 - fraction) * spread[0] + fraction * spread[1]) / n

    def unbiased(self, estimate: Estimate) -> Array:
        """The estimated fractions without any rule that biases them."""
        return estimate.frequencies

    def totals(
        self, estimate: Estimate, starts: Codes, stops: Codes, *, last: float = 0.0
    ) -> Estimate:
        """Fractions of people with an answer from a start up to a stop, with their errors.

        ``last`` is the weight of the last answer in totals that stop before it. What is estimated
        is the total or, as everybody has one answer, what is left of 1 by the rest: whichever has
        the smaller error, which is known before the data is. The variance is that of one report's
        part, given each answer, and at most linear in the fraction (see :meth:`total_spread`).
        """
        sums, before = np.append(0.0, np.cumsum(self.unbiased(estimate))), stops < self.k
        values = sums[stops] - sums[starts] + np.where(before, last, 0.0) * (sums[-1] - sums[-2])
        return self.sums(estimate, values, stops - starts, before=before, last=last)

    def sums(
        self,
        estimate: Estimate,
        values: Array,
        sizes: Codes,
        *,
        before: Flags | bool = False,
        last: float = 0.0,
    ) -> Estimate:
        """Fractions of people with one of so many answers, whose unbiased estimates sum to values.

        As of :meth:`totals`, whichever answers these are; ``last`` is added ``before`` the last.
        """
        beside, size = np.where(before, last, 0.0), sizes.astype(np.float64)

        def spread(own: Sequence[float], size: Array, beside: Array) -> Array:
            """Of people outside, inside and with the last answer (rows)."""
            total = size + beside
            return self.total_spread(np.minimum.outer(own, total), total, size + beside**2)

        direct = spread([0.0, 1.0, last], size, beside)
        other = spread([1.0, 0.0, 1 - last], self.k - before - size, before - beside)
        nearer = direct.max(axis=0) <= other.max(axis=0)
        nobody, everybody, some = np.where(nearer, direct, other)
        slope = everybody - nobody
        nobody = nobody + np.maximum(0.0, some - nobody - last * slope)
        values = np.where(nearer, values, values + 1 - self.unbiased(estimate).sum())
        # Linear beyond 0 and 1 too, as limits take it to be; at least half of the least there is.
        least = np.minimum(nobody, everybody) / 2
        return Estimate(
            values,
            np.sqrt(np.maximum(nobody + slope * values, least) / estimate.n),
            estimate.n,
            variance_slope=slope / estimate.n,
            step=estimate.step,
            granularity=estimate.granularity,
        )

    def gap_estimator(self, first: int, second: int) -> Callable[[Batch], float] | None:
        """The estimated fraction of one answer, less that of the other."""

        def gap(batch: Batch) -> float:
            fractions = self.estimate(batch).frequencies
            return float(fractions[first] - fractions[second])

        return gap


class NumberMechanism(Mechanism):
    """Collects one number between public bounds."""

    low: float
    high: float
    ends_first = True

    def trial_inputs(self) -> tuple[Hashable, ...]:
        """Both bounds and the middle."""
        return (self.low, self.high, (self.low + self.high) / 2)

    def check_input(self, value: Hashable) -> None:
        """Refuse what is no number between the bounds."""
        inside = isinstance(value, Real) and self.low <= float(value) <= self.high
        expected = f"numbers from {self.low:g} to {self.high:g}, as declared"
        checks.refuse(not inside, expected, inputs=value)

    def gap_estimator(self, first: float, second: float) -> Callable[[Batch], float] | None:
        """The estimated mean, in the direction from one number to the other."""
        return lambda batch: float(self.estimate(batch).mean * (first - second))

    @abstractmethod
    def estimate(self, batch: Batch | Counts) -> MeanEstimate:
        """Unbiased estimate of the mean."""

    @abstractmethod
    def variance(self, *, n: int) -> float:
        """Largest variance of the estimated mean of n people, over their data."""


class VectorMechanism(Mechanism):
    """Collects one vector of so many coordinates."""

    dimension: int
    ends_first = True

    def trial_inputs(self) -> tuple[Hashable, ...]:
        """Opposite unit vectors, and one across."""
        axes = np.eye(self.dimension)
        return tuple(tuple(row.tolist()) for row in (axes[0], -axes[0], *axes[1:2]))

    def check_input(self, value: Hashable) -> None:
        """Refuse what is no tuple of so many numbers."""
        parts = value if isinstance(value, tuple) else ()
        numbers = all(isinstance(part, Real) and math.isfinite(part) for part in parts)
        expected = f"tuples of {self.dimension} finite numbers, as declared"
        checks.refuse(len(parts) != self.dimension or not numbers, expected, inputs=value)

    def gap_estimator(self, first: Any, second: Any) -> Callable[[Batch], float] | None:  # noqa: ANN401
        """The estimated mean, along the direction from one vector to the other."""
        apart = np.subtract(first, second, dtype=np.float64)
        return lambda batch: float(np.dot(self.estimate(batch).mean, apart))

    @abstractmethod
    def estimate(self, batch: Batch | Counts) -> VectorEstimate:
        """Unbiased estimate of the mean vector."""

    @abstractmethod
    def variance(self, *, n: int) -> float:
        """Largest expected squared length of the error of the mean of n people."""


class Randomizer(Mechanism):
    """A mechanism with one message, whose whole privacy is in its blanket law."""

    messages = 1.0
    slots = 1

    @abstractmethod
    def randomize(self, values: npt.ArrayLike, *, randomness: Randomness | None = None) -> Messages:
        """One message per value; secure randomness unless a simulation's is given."""

    @abstractmethod
    def law(self) -> BlanketLaw:
        """The blanket law of the sampler as implemented, covering every pair of inputs."""

    @abstractmethod
    def tally(self, messages: Messages) -> Counts:
        """Add up the messages: all that the estimator needs of them."""

    @abstractmethod
    def encode(self, messages: Messages) -> Rows:
        """Messages as rows of ``message_bytes`` bytes."""

    @abstractmethod
    def decode(self, rows: Rows) -> Messages:
        """Rows of bytes as messages; what no device can have sent is an error."""

    def counted(self, batch: Batch | Counts) -> Counts:
        """Counts of a batch, or counts as they are: at least of one person."""
        counts = self.tally(batch.messages) if isinstance(batch, Batch) else batch
        checks.refuse(counts.n < 1, "at least one report", batch=counts.n)
        return counts


@dataclass(frozen=True)
class Odds:
    """Whole numbers ``high : low`` with ``1 < high / low <= e^epsilon``, as close as they fit.

    ``raised`` is the weight of all likelier outputs together, ``total`` that of all outputs: draws
    are below it. ``epsilon`` is what the sampler really keeps, log(high / low) rounded up, and no
    more than the target.
    """

    high: int
    low: int
    raised: int
    total: int
    epsilon: float

    @classmethod
    def of(cls, epsilon: float, *, highs: int, lows: int) -> Odds:
        """The finest odds for which ``highs * high + lows * low`` stays below 2^52."""
        checks.at_most(LARGEST_EPSILON, epsilon=epsilon)
        ratio = EXACT.exp(Decimal(epsilon))
        low = math.floor(2.0**_TOTAL_BITS / (highs * float(ratio) + lows))
        expected = "an epsilon and a number of outputs that fit into 52 bits"
        checks.refuse(low < 1, expected, epsilon=epsilon)
        product = EXACT.multiply(ratio, Decimal(low))
        high = int(product.to_integral_value(rounding=ROUND_FLOOR, context=EXACT))
        expected = "an epsilon large enough for odds of whole numbers below 2^52"
        checks.refuse(high <= low, expected, epsilon=epsilon)
        exact = EXACT.ln(EXACT.divide(Decimal(high), Decimal(low)))
        above = min(math.nextafter(float(exact), math.inf), epsilon)
        return cls(high, low, highs * high, highs * high + lows * low, above)

    def law(
        self,
        alone: float,
        both: float,
        neither: float,
        *,
        witnesses: Callable[[], Iterable[PairLike]],
    ) -> BlanketLaw:
        """The law of inputs that raise some outputs by these odds, if one list serves all pairs.

        The blanket has mass ``alone`` where only the first of two inputs raises the output, and as
        much where only the second does, ``both`` and ``neither``.
        """
        e = self.high / self.low
        atoms = [(alone, e, 1.0), (alone, 1.0, e), (both, e, e), (neither, 1.0, 1.0)]
        return BlanketLaw(atoms, witnesses=witnesses, claim=Claim(local_epsilon=self.epsilon))


@dataclass(frozen=True)
class Support:
    """Estimation from supports: a message supports its own answer more often than any other.

    If a message supports the true answer with probability P and each other answer with probability
    Q < P, then ``(C/n - Q)/(P - Q)`` is an unbiased estimate of an answer's fraction, C being the
    number of messages that support it, with variance

        [f P (1 - P) + (1 - f) Q (1 - Q)] / (n (P - Q)^2)

    given the data (Wang, Blocki, Li, Jha, "Locally Differentially Private Protocols for Frequency
    Estimation", USENIX Security 2017).
    """

    true: float
    other: float

    def variance(self, frequencies: npt.ArrayLike, *, n: int) -> Array:
        f = np.asarray(frequencies, dtype=np.float64)
        each = f * self.true * (1 - self.true) + (1 - f) * self.other * (1 - self.other)
        return each / (n * (self.true - self.other) ** 2)


class OddsRandomizer(Randomizer):
    """A randomizer that raises some outputs by whole-number odds, and keeps epsilon by them."""

    epsilon: float

    @property
    @abstractmethod
    def _odds(self) -> Odds: ...

    @property
    def local_epsilon(self) -> float:
        """The epsilon of the sampler as implemented."""
        return self._odds.epsilon

    @property
    def integers(self) -> Integers:
        """The odds, and what the draws are below."""
        return {"high": self._odds.high, "low": self._odds.low, "total": self._odds.total}


class SupportEstimates(AnswerMechanism):
    """Estimates from how many messages support each answer, each as often as any other."""

    @property
    @abstractmethod
    def _support(self) -> Support:
        """How often a message supports the true answer, and any other."""

    def estimate(self, batch: Batch | Counts) -> Estimate:
        """Unbiased estimates of the fraction of each answer, from the messages that support it."""
        counts = self.counted(batch)
        true, other = self._support.true, self._support.other
        fractions = (counts.cells / counts.n - other) / (true - other)
        # The variance is linear in the fraction, so unbiased fractions give it without bias; an
        # answer nobody gave still has at least its noise.
        least = min(true * (1 - true), other * (1 - other)) / 2
        floor = least / (counts.n * (true - other) ** 2)
        variances = np.maximum(self._support.variance(fractions, n=counts.n), floor)
        nobody, everybody = self._support.variance([0.0, 1.0], n=counts.n).tolist()
        step = 1 / (counts.n * (true - other))
        # With few messages that lie, counts are far from normal and move in whole steps.
        lies = counts.n * other * (1 - other)
        return Estimate(
            fractions,
            np.sqrt(variances),
            counts.n,
            variance_slope=everybody - nobody,
            step=step,
            granularity=step / (1 + lies / 3),
            empty_error=math.sqrt(nobody),
        )

    @property
    def _joint(self) -> Span:
        """At most how often a message supports two other answers, and the true one and another."""
        return self._support.other, self._support.other

    def total_spread(self, own: Array, total: Array, squares: Array) -> Array:
        """Of the weights of the answers that a message supports, over P - Q."""
        true, other = self._support.true, self._support.other
        two, with_truth = self._joint
        rest, rest_squares = total - own, squares - own**2
        second = own**2 * true + rest_squares * other
        second = second + 2 * own * rest * with_truth + (rest**2 - rest_squares) * two
        mean = own * true + rest * other
        return np.asarray(np.maximum(second - mean**2, 0.0) / (true - other) ** 2)

    @property
    def one_error(self) -> bool:
        """If every message supports one of two answers."""
        both = np.array([2.0])
        return float(self.total_spread(both / 2, both, both)[0]) < _ROUNDING

    @property
    def reach(self) -> Span | None:
        """Without and with a message that supports the answer."""
        true, other = self._support.true, self._support.other
        return -other / (true - other), (1 - other) / (true - other)

    def variance(self, frequencies: npt.ArrayLike, *, n: int) -> Array:
        """Variance of each estimated fraction, given the true ones."""
        return self._support.variance(frequencies, n=n)


class CategoryRandomizer(OddsRandomizer, AnswerMechanism):
    """A randomizer of one of k answers."""

    most_answers: ClassVar[int] = checks.LARGEST_COUNT

    def __post_init__(self) -> None:
        checks.counts(self, k=2)
        checks.positive(epsilon=self.epsilon)
        checks.at_most(self.most_answers, k=self.k)
        _ = self.local_epsilon  # an epsilon that no odds can express is an error

    @abstractmethod
    def table(self) -> Array:
        """Pr[message y | answer x] for small k, one row per answer."""

    def probabilities(self, inputs: Sequence[Any]) -> Array | None:
        """Rows of the table, if it is not too long to be listed."""
        try:
            return self.table()[np.array(inputs, dtype=np.intp)]
        except InvalidArgumentError:
            return None


class NumberRandomizer(Randomizer, NumberMechanism):
    """A randomizer of one number between public bounds."""


class Numbered(Mechanism):
    """A message is a whole number below ``outputs``, sent big-endian."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many messages there are."""

    @property
    def codes(self) -> int:
        """How many numbers are sent: those of the messages, and perhaps that of an empty slot."""
        return self.outputs

    @property
    def message_bits(self) -> float:
        """log2 of how many numbers are sent."""
        return math.log2(self.codes)

    @property
    def message_bytes(self) -> int:
        """Bytes of one message's number."""
        return integer_width(self.codes)


class NumberedMessages(Numbered, Randomizer):
    """A randomizer whose message is a whole number below ``outputs``."""

    def tally(self, messages: Messages) -> Counts:
        """How often each message was sent."""
        codes = category_codes(messages, self.outputs)
        return Counts(np.bincount(codes, minlength=self.outputs).astype(np.int64), codes.size)

    def encode(self, messages: Messages) -> Rows:
        """The messages' numbers, big-endian."""
        return encode_integers(category_codes(messages, self.outputs), self.message_bytes)

    def decode(self, rows: Rows) -> Messages:
        """The messages' numbers."""
        return decode_integers(rows, self.message_bytes, self.outputs)

    def admissible(self, rows: Rows) -> Flags:
        """Numbers below ``outputs``: each of them is sent now and then."""
        return integers_of(rows, self.message_bytes) < np.uint64(self.outputs)


def some_answers(k: int) -> tuple[int, ...]:
    """All of k answers, or the first one, the last one, and some in between."""
    return tuple(np.linspace(0, k - 1, min(k, MOST_TRIED)).astype(np.int64).tolist())


def check_table(outputs: int, **rows: int) -> None:
    """Refuse a table that is too large to be listed."""
    ((name, count),) = rows.items()
    expected = f"{name} times {outputs} outputs <= {LARGEST_TABLE} for a table"
    checks.refuse(count * outputs > LARGEST_TABLE, expected, **rows)


def source(randomness: Randomness | None) -> Randomness:
    """This randomness, or a secure one."""
    return sources.secure() if randomness is None else randomness


def encode_integers(messages: Messages, width: int) -> Rows:
    """Whole numbers as big-endian rows of ``width`` bytes."""
    wide = np.asarray(messages).astype(">u8")
    return np.ascontiguousarray(wide[:, None].view(np.uint8)[:, 8 - width :])


def decode_integers(rows: Rows, width: int, limit: int) -> Messages:
    """Big-endian rows as whole numbers below ``limit``."""
    numbers = integers_of(rows, width)
    checks.every(numbers < np.uint64(limit), f"messages below {limit}", message=numbers)
    return numbers.astype(np.int64)


def integers_of(rows: Rows, width: int) -> npt.NDArray[np.uint64]:
    """Big-endian rows of at most eight bytes as whole numbers, whatever they are."""
    wide = np.zeros((len(rows), 8), dtype=np.uint8)
    wide[:, 8 - width :] = checked_rows(rows, width)
    return wide.view(">u8").ravel().astype(np.uint64)


def checked_rows(rows: Rows, width: int) -> Rows:
    """Rows of so many bytes, or an error saying what they are instead."""
    rows = np.asarray(rows, dtype=np.uint8)
    wrong = rows.ndim != 2 or rows.shape[1] != width
    checks.refuse(wrong, f"rows of {width} bytes", rows=rows.shape)
    return rows


def byte_rows(messages: Messages, width: int) -> Rows:
    """Messages that are rows of so many bytes, or an error saying what they are instead."""
    rows = np.asarray(messages)
    wrong = rows.dtype != np.uint8 or rows.ndim != 2 or rows.shape[1] != width
    kind = f"{rows.dtype} of shape {rows.shape}"
    checks.refuse(wrong, f"uint8 rows of {width} bytes", rows=kind)
    return rows.astype(np.uint8, copy=False)


def integer_width(limit: int) -> int:
    """Bytes that hold every whole number below ``limit``."""
    return max(1, -(-(limit - 1).bit_length() // 8))
