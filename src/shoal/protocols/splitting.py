"""Numbers as random shares: what sums and sums of vectors have in common.

All arithmetic is modulo q = 2^modulus_bits. As q divides 2^64, 64-bit numbers that wrap around are
already right modulo q, in whatever parts and order they are added up.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.noise import Divergence, NoiseProfile
from shoal.accounting.noise.profile import checked_epsilon
from shoal.accounting.noise.split import LEAST_SHARES, MOST_SHARES, split_distance, split_shares
from shoal.errors import InvalidArgumentError, OutOfRegimeError
from shoal.protocols.base import Protocol, checked_messages
from shoal.protocols.polya import MOST_COUNTS, TAIL, PolyaNoise
from shoal.randomizers.base import (
    Integers,
    Rows,
    decode_integers,
    encode_integers,
    integer_width,
    integers_of,
)
from shoal.randomness import Randomness
from shoal.values import Counts, Envelopes, Messages

Whole = npt.NDArray[np.int64]
S = TypeVar("S", bound="SplitProtocol")

MOST_BITS = 62
MOST_LEVELS = 1 << 30
GUARD_BITS = 24
LEAST_GUARD_BITS = 16
_RARE = 28.0  # noise beyond what counts as plausible has a chance of about e^-28


class SplitProtocol(Protocol):
    """Whole numbers plus Pólya noise, each sent as ``shares`` random shares.

    ``people`` is how many honest people share the noise of ``epsilon``; no epsilon, no noise: then
    the sum itself is shown, and only who added what to it is hidden.
    """

    levels: int
    shares: int
    modulus_bits: int
    people: int
    epsilon: float | None

    @property
    @abstractmethod
    def coordinates(self) -> int:
        """How many sums there are."""

    @property
    @abstractmethod
    def sensitivity(self) -> int:
        """By how much one person changes the sums, in levels, all coordinates together."""

    @abstractmethod
    def _divergence(self) -> Divergence:
        """Of the noisy sums themselves."""

    @abstractmethod
    def _extremes(self, n: int) -> tuple[int, int]:
        """Least and largest sum of n people, without noise, in levels."""

    def _check(self) -> None:
        for name, least in (("levels", 1), ("people", 1), ("modulus_bits", 1)):
            object.__setattr__(self, name, checks.count(least, **{name: getattr(self, name)}))
        object.__setattr__(self, "shares", checks.count(LEAST_SHARES, shares=self.shares))
        if self.levels > MOST_LEVELS:
            raise InvalidArgumentError("levels", self.levels, "levels <= 2^30")
        if self.shares > MOST_SHARES:
            raise InvalidArgumentError("shares", self.shares, f"shares <= {MOST_SHARES}")
        if self.coordinates << self.modulus_bits > 1 << MOST_BITS:
            raise too_long(self.modulus_bits, self.coordinates)
        if self.epsilon is not None:
            checks.positive(epsilon=self.epsilon)
            checked_epsilon(self.epsilon)

    @property
    def outputs(self) -> int:
        """How many messages there are."""
        return self.coordinates << self.modulus_bits

    @property
    def messages(self) -> float:
        """Always the same number."""
        return float(self.slots)

    @property
    def slots(self) -> int:
        """The shares of every coordinate."""
        return self.coordinates * self.shares

    @property
    def message_bits(self) -> float:
        """A share, and which coordinate it belongs to."""
        return math.log2(self.coordinates) + self.modulus_bits

    @property
    def message_bytes(self) -> int:
        """Bytes of one message's number."""
        return integer_width(self.outputs)

    @cached_property
    def rate(self) -> float | None:
        """The noise has Pr[Z = z] ∝ e^(−rate |z|) in levels; rate · sensitivity <= epsilon."""
        if self.epsilon is None:
            return None
        return math.nextafter(self.epsilon / self.sensitivity, 0.0)

    @property
    def _noise(self) -> PolyaNoise | None:
        return None if self.rate is None else PolyaNoise.of(rate=self.rate, people=self.people)

    @property
    def integers(self) -> Integers:
        """What a person's share of the noise is drawn by, if there is noise."""
        return {} if self._noise is None else self._noise.either.integers("noise")

    def noise_variance(self, n: int) -> float:
        """Variance of the noise of n people in one coordinate's sum, in levels."""
        if self.rate is None:
            return 0.0
        return n / self.people * 0.5 / math.sinh(self.rate / 2) ** 2

    def profile(self, n: int) -> NoiseProfile:
        """Pure noise; what shares and sampler lack of perfection is counted as slack."""
        honest = checks.count(n=n)
        noise = self._noise
        if noise is not None and honest < self.people:
            given = {"n": honest, "people": self.people}
            instead = f"{type(self).__name__}.calibrated with n={honest}"
            raise OutOfRegimeError(f"the noise of {self.name}", "n >= people", given, instead)
        distance = split_distance(n=honest, shares=self.shares, modulus_bits=self.modulus_bits)
        # Noise of more people than it was made for only adds to that of the others.
        sampling = 0.0 if noise is None else self.people * noise.error
        return NoiseProfile(
            divergence=self._divergence() if noise else Divergence.of(_everything),
            n=honest,
            theorem="split and mix, discrete Laplace noise of all honest people together",
            scope="everybody's shares go through the shuffler one by one",
            slack=min(1.0, self.coordinates * (distance + sampling)),
        )

    def _sent(self, numbers: Whole, randomness: Randomness) -> Envelopes:
        """Noise, then shares, of rows of whole numbers, one row per person."""
        people = len(numbers)
        noise = self._noise
        if noise is not None:
            numbers = numbers + noise.draw(numbers.size, randomness).reshape(numbers.shape)
        modulus = 1 << self.modulus_bits
        drawn = randomness.below(modulus, numbers.size * (self.shares - 1)).view(np.int64)
        shares = np.empty((*numbers.shape, self.shares), dtype=np.int64)
        shares[..., :-1] = drawn.reshape(*numbers.shape, self.shares - 1)
        shares[..., -1] = (numbers - shares[..., :-1].sum(axis=-1)) & np.int64(modulus - 1)
        if self.coordinates > 1:
            places = np.arange(self.coordinates, dtype=np.int64) << np.int64(self.modulus_bits)
            shares += places[:, None]
        return Envelopes(shares.ravel(), np.full(people, self.slots, dtype=np.int64))

    def cells(self, messages: Messages) -> Whole:
        """Sums modulo 2^64, then numbers of messages, of every coordinate."""
        numbers = checked_messages(messages, self.outputs)
        if self.coordinates == 1:
            return np.array([numbers.sum(dtype=np.int64), numbers.size], dtype=np.int64)
        places = numbers >> np.int64(self.modulus_bits)
        sums = np.zeros(self.coordinates, dtype=np.int64)
        np.add.at(sums, places, numbers & np.int64((1 << self.modulus_bits) - 1))
        counts = np.bincount(places, minlength=self.coordinates)
        return np.concatenate([sums, counts.astype(np.int64)])

    def plausible(self, n: int) -> tuple[int, int]:
        """Least and largest sum that n honest people and their noise may have, in levels."""
        low, high = self._extremes(n)
        if self.rate is None:
            return low, high
        parts = math.ceil(n / self.people)
        reach = math.ceil(parts * (math.log(2 * parts * self.coordinates) + _RARE) / self.rate)
        return low - reach, high + reach

    def undetected(self, n: int) -> float:
        """Probability that an altered share leaves one sum of n people plausible, at most."""
        low, high = self.plausible(checks.count(n=n))
        return min(1.0, (high - low + 1) / (1 << self.modulus_bits))

    def sums(self, counts: Counts) -> list[int]:
        """The sums in levels, or an error if a message is missing, added or altered."""
        found, numbers = np.split(counts.cells, 2)
        expected = counts.n * self.shares
        wrong = numbers[numbers != expected]
        if wrong.size:
            reason = f"{expected} messages, {self.shares} of each of {counts.n} people"
            raise InvalidArgumentError("messages", int(wrong[0]), reason)
        low, high = self.plausible(counts.n)
        modulus = 1 << self.modulus_bits
        if high - low >= modulus:
            reason = f"more than {self.modulus_bits} bits for the sum of {counts.n} people"
            raise InvalidArgumentError("modulus_bits", self.modulus_bits, reason)
        centred = [(int(total) - low) % modulus + low for total in found]
        for total in centred:
            if total > high:
                reason = f"a sum from {low} to {high}: a share was altered, lost or forged"
                raise InvalidArgumentError("sum", total, reason)
        return centred

    def encode(self, envelopes: Envelopes) -> npt.NDArray[np.uint8]:
        """Big-endian numbers, as many in every envelope."""
        wrong = envelopes.sizes[envelopes.sizes != self.slots]
        if wrong.size:
            expected = f"{self.slots} messages of every person, at most and at least"
            raise InvalidArgumentError("envelopes", int(wrong[0]), expected)
        numbers = checked_messages(envelopes.messages, self.outputs)
        rows = encode_integers(numbers, self.message_bytes)
        return rows.reshape(len(envelopes), self.envelope_bytes)

    def decode(self, rows: npt.NDArray[np.uint8]) -> Envelopes:
        """The numbers of all slots."""
        rows = np.asarray(rows, dtype=np.uint8)
        if rows.ndim != 2 or rows.shape[1] != self.envelope_bytes:
            expected = f"rows of {self.envelope_bytes} bytes, an envelope each"
            raise InvalidArgumentError("rows", rows.shape, expected)
        flat = rows.reshape(-1, self.message_bytes)
        numbers = decode_integers(flat, self.message_bytes, self.outputs)
        return Envelopes(numbers, np.full(len(rows), self.slots, dtype=np.int64))

    def decode_slots(self, rows: Rows) -> Messages:
        """The numbers of all slots: none is empty."""
        return decode_integers(rows, self.message_bytes, self.outputs)

    def admissible(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Numbers below ``outputs``: each of them is a share."""
        return integers_of(rows, self.message_bytes) < np.uint64(self.outputs)


def fitted(make: Callable[..., S], *, n: int, epsilon: float, delta: float) -> S:
    """The protocol with the fewest shares that keeps (epsilon, delta) among n honest people.

    ``make`` lacks the bits of the modulus and the number of shares.
    """
    first = make(modulus_bits=1, shares=LEAST_SHARES)
    low, high = first.plausible(n)
    needed = (high - low + 1).bit_length()
    most = MOST_BITS - (first.coordinates - 1).bit_length()
    bits = min(needed + GUARD_BITS, most)
    if bits < needed + LEAST_GUARD_BITS:
        raise too_long(needed + LEAST_GUARD_BITS, first.coordinates)
    security = math.log2(first.coordinates * (1 + math.exp(epsilon)) / delta)
    fewest = split_shares(n=n, modulus_bits=bits, security=security)
    # What the sampler lacks may cost one share more.
    found = make(modulus_bits=bits, shares=fewest)
    if found.profile(n).delta(epsilon) > delta and fewest < MOST_SHARES:
        found = make(modulus_bits=bits, shares=fewest + 1)
    return found.kept(n=n, epsilon=epsilon, delta=delta)


def default_levels(*, n: int, epsilon: float, delta: float, sensitivity: int) -> int:
    """Levels so fine that rounding adds at most an eighth of the noise's variance.

    ``sensitivity`` is that of one level. No finer than the noise can be drawn.
    """
    people = checks.count(n=n)
    checks.target(epsilon=epsilon, delta=delta)
    wanted = math.ceil(math.sqrt(people) * max(1.0, epsilon))
    return max(1, min(wanted, math.floor(0.99 * MOST_COUNTS / TAIL * epsilon / sensitivity)))


def too_long(bits: int, coordinates: int) -> InvalidArgumentError:
    """The error for a modulus that does not fit a 64-bit word."""
    what = "" if coordinates == 1 else f" for a modulus and {coordinates} coordinates"
    expected = f"at most {MOST_BITS} bits{what} (take fewer levels, or fewer people at a time)"
    return InvalidArgumentError("modulus_bits", bits, expected)


def _everything(*, epsilon: float) -> float:
    """Without noise the sums are shown: no epsilon hides a person from somebody who knows all."""
    checks.non_negative(epsilon=epsilon)
    return 1.0
