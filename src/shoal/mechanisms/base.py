"""What every mechanism is: a frozen value that knows its data, privacy, messages and errors.

A mechanism is made of four parts, each of which can be had by itself: the *domain* of its data, its
*privacy* (a blanket law, or the curve of everybody's messages), the *codec* of its messages, and
the *estimator* of what they say. Only how data are randomized is its own.

Probabilities are whole numbers, so that a sampler on random bits keeps epsilon exactly: a
comparison of a float with a float can break a privacy guarantee in its last digits. Here the odds
between "this output" and "that output" are ``high : low`` with whole numbers
``high <= e^epsilon low``, checked in exact arithmetic; draws are uniform integers below their sum.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Context, Decimal
from functools import partial
from typing import Any, ClassVar, Generic, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.blanket import BallProfile
from shoal.accounting.law import BlanketLaw, Claim, PairLike
from shoal.accounting.noise.profile import NoiseProfile
from shoal.accounting.profile import PrivacyProfile
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.intervals.estimates import Estimate
from shoal.mechanisms.codec import Codec, Rows, Uneven, Whole, enveloped, taken_apart
from shoal.mechanisms.estimators import E_co, Estimator
from shoal.questions.domains import Domain
from shoal.randomness import Randomness, source
from shoal.values import Array, Batch, Counts, Envelopes, Messages, Span

Reports = Messages | Envelopes
Codes = npt.NDArray[np.int64]
# The whole numbers of a sampler; those that a double may not hold are written as text.
Integers: TypeAlias = dict[str, int | str | list[int] | list[str]]

LARGEST_TABLE = 4_000_000
LARGEST_EPSILON = 30.0
EXACT = Context(prec=60)
_TOTAL_BITS = 52
_RESERVED = (2.0**-10, 2.0**-7, 2.0**-4, 2.0**-2, 2.0**-1)  # of delta, for what the sampler adds


# ------------------------------------------------------------------------------------ the privacy


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
class ByLaw:
    """One message, whose whole privacy is in its blanket law.

    ``local_epsilon`` is that of the sampler as implemented. Noise without bounds has none: then
    ``alone`` is the epsilon that a message has by itself at a delta.
    """

    local_epsilon: float
    law: Callable[[], BlanketLaw]
    alone: Callable[[float], float] | None = None


@dataclass(frozen=True)
class ByProfile:
    """What n honest people's messages reveal together, by the curve of their noise."""

    profile: Callable[[int], NoiseProfile | BallProfile]
    # Infinite where one of the messages is the truth, and only the crowd hides it.
    local_epsilon: float = math.inf
    alone: Callable[[float], float] | None = None


Privacy = ByLaw | ByProfile


# ---------------------------------------------------------------------------------- the mechanism


@dataclass(frozen=True, kw_only=True)
class Parts(Generic[E_co]):
    """What a mechanism is made of.

    ``odds`` are those that its sampler draws by, if it has any, and ``sizes`` the other whole
    numbers that it needs.
    """

    domain: Domain
    privacy: Privacy
    codec: Codec
    estimator: Estimator[E_co]
    odds: Odds | None = None
    sizes: Integers = field(default_factory=dict)
    messages: float = 1.0  # of one person, on average
    slots: int = 1  # the most messages that one person sends: what an envelope has room for
    influence: float | None = None  # see Mechanism.influence; by default it follows from the reach


class Mechanism(ABC, Generic[E_co]):
    """What a device runs, be it for one message or for several.

    Fields are public parameters; data and randomness are arguments.
    """

    name: ClassVar[str]
    # Whether a report is an envelope of messages, or a message.
    several: ClassVar[bool] = False
    # How batches are filled up, if the shuffler may see how many messages somebody sends.
    uneven: Uneven | None = None
    # Whether it takes public coins, which may be drawn once the data are fixed.
    public_coins: ClassVar[bool] = False
    # Whether message x is what holders of datum x send beside their noise.
    truthful: ClassVar[bool] = False
    # In template text: the sentences in which a survey says what leaves a device, and how.
    words: ClassVar[str] = """
{% set leaves %}
  What leaves your device is drawn by chance from your answer.
{% endset %}
{% set how %}
  Your device draws what it sends by the public rules of {{ device.name }}.
{% endset %}
"""

    @property
    @abstractmethod
    def parts(self) -> Parts[E_co]:
        """Its domain, its privacy, its codec and its estimator."""

    @abstractmethod
    def draw(self, data: Any, bits: Randomness) -> Reports:  # noqa: ANN401 - what the domain reads
        """The report of each datum."""

    def randomize(self, values: npt.ArrayLike, *, randomness: Randomness | None = None) -> Reports:
        """Everybody's report; secure randomness unless a simulation's is given."""
        return self.draw(self.domain.read(values), source(randomness))

    def __getstate__(self) -> dict[str, Any]:
        """The public parameters: what follows from them is not sent along."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # a data class
        return {field.name: getattr(self, field.name) for field in fields}

    def described(self) -> dict[str, object]:
        """The name and the public parameters, as plain values."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # a data class
        names = [field.name for field in fields if field.init]
        return {"name": self.name, **{name: getattr(self, name) for name in names}}

    @property
    def odds(self) -> Odds:
        """The odds that the sampler draws by; a mechanism without any has no use for them."""
        assert self.parts.odds is not None  # noqa: S101 - they are among the parts
        return self.parts.odds

    @property
    def integers(self) -> Integers:
        """The whole numbers that the sampler draws by, as this machine derives them.

        Empty where nothing is derived: the public parameters are whole numbers themselves.
        """
        odds, sizes = self.parts.odds, self.parts.sizes
        drawn = {} if odds is None else {"high": odds.high, "low": odds.low, "total": odds.total}
        return {**sizes, **drawn}

    @property
    def domain(self) -> Domain:
        """The data that it takes."""
        return self.parts.domain

    @property
    def codec(self) -> Codec:
        """How its messages are written, and added up."""
        return self.parts.codec

    @property
    def estimator(self) -> Estimator[E_co]:
        """What its messages say."""
        return self.parts.estimator

    # Who is asked for it

    @classmethod
    def candidates(cls, wanted: Wanted) -> list[Candidate]:
        """What a planner has to try for a question.

        By default the mechanism for these data at its largest local epsilon, or, where it has
        none, ``calibrated`` for so many people.
        """
        calibrated = getattr(cls, "calibrated", None)
        if calibrated is None:
            return [Candidate(cls.name, partial(cls, **wanted.domain.arguments))]
        made = partial(calibrated, **wanted.domain.arguments)
        return [Candidate(cls.name, calibrated=made)]

    @classmethod
    def unrivalled(cls, wanted: Wanted, local_epsilon: float) -> bool:  # noqa: ARG003
        """Whether no other message, at about this local epsilon, has a smaller error."""
        return False

    @classmethod
    def fitting(cls, domain: Domain, *, epsilon: float) -> Device:
        """The mechanism for the data of a domain, with this local epsilon."""
        makes: Any = cls  # a data class, with the domain's arguments among its fields
        made: Device = makes(**domain.arguments, epsilon=epsilon)
        return made

    def fitted(self, domain: Domain) -> Device:  # noqa: ARG002
        """This mechanism as it takes the data of a domain: itself, if there is no other way."""
        return self

    def surveyed(self, *, n: int, epsilon: float, delta: float) -> Device:  # noqa: ARG002
        """What a service collects by for the same target: this, unless another costs it less."""
        return self

    def kept(self, *, n: int, epsilon: float, delta: float) -> Self:
        """This mechanism, if n honest people's messages keep the target; else an error."""
        reached = self.profile(n).delta(epsilon)
        if reached <= delta:
            return self
        raise UnreachableTargetError(
            f"epsilon={epsilon:g} at delta={delta:g}",
            f"{self.name} among n={n} honest people has delta={reached:.3g}",
            "ask for a larger epsilon or delta, or for more people",
        )

    # What it reveals

    @property
    def local_epsilon(self) -> float:
        """The epsilon of one person's messages by themselves, as implemented (may be infinite)."""
        return self.parts.privacy.local_epsilon

    def law(self) -> BlanketLaw:
        """The blanket law of one message, covering every pair of inputs."""
        law = getattr(self.parts.privacy, "law", None)
        if law is None:
            expected = f"a randomizer with a blanket law (that of {self.name} is a profile)"
            raise InvalidArgumentError("randomizer", self.name, expected)
        return law()  # type: ignore[no-any-return]

    def profile(self, n: int) -> PrivacyProfile | NoiseProfile | BallProfile:
        """The privacy of n honest people's messages, after shuffling, as implemented."""
        curve = getattr(self.parts.privacy, "profile", None)
        return PrivacyProfile(self.law(), n) if curve is None else curve(n)

    # What it sends

    @property
    def law_levels(self) -> int:
        """How many kinds of pairs of inputs its law tells apart: to compose many takes long."""
        return 1

    @property
    def messages(self) -> float:
        """Messages of one person, on average."""
        return self.parts.messages

    @property
    def slots(self) -> int:
        """The most messages that one person sends: what an envelope has room for."""
        return self.parts.slots

    @property
    def influence(self) -> float | None:
        """The most that one dishonest person adds to one answer's estimated count, or to the sum.

        None where it is not known.
        """
        own, reach = self.parts.influence, self.parts.estimator.reach
        return own if own is not None or reach is None else max(map(abs, reach))

    @property
    def outputs(self) -> int | None:
        """How many messages there are, if they are whole numbers from 0."""
        return self.parts.codec.outputs

    @property
    def message_bits(self) -> float:
        """Information in one message, in bits."""
        return self.parts.codec.message_bits

    @property
    def message_bytes(self) -> int:
        """Length of every encoded message."""
        return self.parts.codec.message_bytes

    @property
    def envelope_bytes(self) -> int:
        """Length of everything that one person sends, before it is sealed."""
        return self.slots * self.message_bytes

    def encode(self, reports: Reports) -> Rows:
        """Reports as rows of bytes: a message, or as many as an envelope has slots."""
        if isinstance(reports, Envelopes):
            return enveloped(self.parts.codec, reports, self.slots)
        return self.parts.codec.encode(reports)

    def decode(self, rows: Rows) -> Reports:
        """Rows of bytes as reports; what no device can have sent is an error."""
        if not self.several:
            return self.parts.codec.decode(rows)
        filling = None if self.uneven is None else self.uneven.filling
        return taken_apart(self.parts.codec, rows, self.slots, filling)

    def cells(self, messages: Messages) -> Whole:
        """Add up messages, whosever they are."""
        return self.parts.codec.cells(messages)

    def tally(self, reports: Reports | Batch) -> Counts:
        """Add up the messages of so many people: all that the estimator needs of them."""
        if isinstance(reports, Batch):
            return Counts(self.parts.codec.cells(reports.messages), reports.n)
        messages = reports.messages if isinstance(reports, Envelopes) else reports
        return Counts(self.parts.codec.cells(messages), len(reports))

    # What it says

    def counted(self, batch: Batch | Counts) -> Counts:
        """Counts of a batch, or counts as they are: at least of one person."""
        if isinstance(batch, Batch):
            expected = "a batch that says how many people sent it (shoal.shuffle makes one)"
            unknown = self.several and batch.people is None
            checks.refuse(unknown, expected, batch=repr(batch))
            batch = self.tally(batch)
        checks.refuse(batch.n < 1, "at least one report", batch=batch.n)
        return batch

    def estimate(self, batch: Batch | Counts) -> E_co:
        """Unbiased estimates of what everybody has, with their errors."""
        return self.parts.estimator.estimate(self.counted(batch))

    def variance(self, frequencies: npt.ArrayLike | None = None, *, n: int) -> Any:  # noqa: ANN401
        """Of each estimated fraction of n people, given the true ones.

        Of a mean, or a mean vector: the largest (expected squared length of the) error over all
        data, without any fractions.
        """
        return self.parts.estimator.variance(frequencies, n=n)

    @property
    def reach(self) -> Span | None:
        """The least and the most that one person adds to n times an estimated fraction or mean.

        None if the limits of the estimates are exact at every level, so that nobody needs it.
        """
        return self.parts.estimator.reach

    # What an auditor may know of it: this guides an audit, whose proofs do not rest on it.

    def probabilities(self, inputs: Sequence[Any]) -> Array | None:  # noqa: ARG002
        """Pr[message y | x], one row per input x, if messages are numbers and few enough."""
        return None

    def far_apart(self) -> tuple[int, ...]:
        """Answers whose messages are known to differ much."""
        return ()

    def true_message(self, value: Any) -> int | None:  # noqa: ANN401
        """The number of the message that holders of this datum send beside their noise."""
        return value if self.truthful else None


Device: TypeAlias = Mechanism[Any]  # what a device may run, whatever it estimates


@dataclass(frozen=True, kw_only=True)
class CategoryRandomizer(Mechanism[Estimate]):
    """One message for one of k answers, by a local epsilon."""

    most_answers: ClassVar[int] = checks.LARGEST_COUNT

    k: int
    epsilon: float

    def __post_init__(self) -> None:
        checks.counts(self, k=2)
        checks.positive(epsilon=self.epsilon)
        checks.at_most(self.most_answers, k=self.k)
        _ = self.parts  # an epsilon that no odds can express is an error

    @abstractmethod
    def table(self) -> Array:
        """Pr[message y | answer x] for small k, one row per answer."""

    def probabilities(self, inputs: Sequence[Any]) -> Array | None:
        """Rows of the table, if it is not too long to be listed."""
        try:
            return self.table()[np.array(inputs, dtype=np.intp)]
        except InvalidArgumentError:
            return None


# ----------------------------------------------------------------------------- for the planner


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a mechanism is wanted for: these data of n people, for about this epsilon.

    Of ``messages`` one person may send so many on average; infinitely many if any number will do.
    """

    domain: Domain
    n: int
    epsilon: float = 1.0
    messages: float = 1.0


@dataclass(frozen=True)
class Candidate:
    """What makes a mechanism of ``epsilon=``, or the reason why it is out of question.

    What has no local epsilon, as most mechanisms with several messages, is ``calibrated`` for so
    many people instead: it is made of ``n=``, ``epsilon=`` and ``delta=``.
    """

    name: str
    family: Callable[..., Device] | None = None
    remark: str = ""
    largest_epsilon: float = 25.0
    calibrated: Callable[..., Device] | None = None


def check_table(outputs: int, **rows: int) -> None:
    """Refuse a table that is too large to be listed."""
    ((name, count),) = rows.items()
    expected = f"{name} times {outputs} outputs <= {LARGEST_TABLE} for a table"
    checks.refuse(count * outputs > LARGEST_TABLE, expected, **rows)


def margins(delta: float) -> tuple[float, ...]:
    """Targets a little below delta, to be tried in turn: the rest is for what the sampler adds."""
    return tuple(delta * (1 - part) for part in _RESERVED)
