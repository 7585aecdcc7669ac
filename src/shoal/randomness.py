"""The only source of randomness: privacy noise and permutations come from here.

The default draws its bits from an AES-128-CTR keystream whose key is fresh from the operating
system: a cryptographically secure generator at memory speed. A generator with a seed exists for
tests and simulations only, and has to be asked for by name.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from shoal import checks

__all__ = ["Randomness", "SecureRandomness", "secure", "simulated", "simulator"]

Words = npt.NDArray[np.uint64]

_WORD_BYTES = 8
_ALL_BITS = np.uint64((1 << 64) - 1)
_ZEROS = np.zeros(1 << 17, dtype=np.uint8)  # encrypted, they are the keystream
_RARE_BITS = 10  # a rejection once in 2^10 words costs next to nothing
_REKEY_AFTER = 1 << 36  # bytes of one keystream, far below the birthday bound of its block
_forks = [0]  # between the first process and this one


def _forked() -> None:
    _forks[0] += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


_entropy = os.urandom  # tests put keys of their own in its place


class Randomness(ABC):
    """Uniform bits, and what integers can be made of them without rounding.

    :func:`shoal.randomness.secure` and :func:`shoal.randomness.simulated` make one. A source of
    one's own has ``words``; the rest follows.

    Example:
        >>> simulated(1).below(6, 3).max() < 6
        np.True_
    """

    @abstractmethod
    def words(self, size: int) -> Words:
        """Independent uniform 64-bit words."""

    def below(self, bound: int, size: int) -> Words:
        """Independent integers, exactly uniform on 0, ..., bound - 1.

        Words at or above the largest multiple of ``bound`` are drawn again, so that no integer is
        likelier than another.
        """
        checks.refuse(not 1 <= bound <= 1 << 63, "1 <= bound <= 2^63", bound=bound)
        reach = 1 << (bound - 1).bit_length()
        # Just below a power of two some bits of the word are enough.
        near = reach - bound <= reach >> _RARE_BITS
        mask = np.uint64(reach - 1) if near else _ALL_BITS
        limit = np.uint64(bound - 1 if near else (1 << 64) // bound * bound - 1)
        drawn = self.words(size)
        drawn &= mask
        rejected = np.flatnonzero(drawn > limit) if limit != mask else np.empty(0, dtype=np.intp)
        while rejected.size:
            drawn[rejected] = self.words(rejected.size) & mask
            rejected = rejected[drawn[rejected] > limit]
        # Division by a scalar is several times quicker than the remainder.
        return drawn if near else drawn - drawn // np.uint64(bound) * np.uint64(bound)

    def bits(self, size: int) -> npt.NDArray[np.uint8]:
        """Independent fair bits, one per byte."""
        packed = self.words(-(-size // 64)).view(np.uint8)
        return np.unpackbits(packed, count=size)

    def weighted(self, weights: npt.ArrayLike, size: int) -> npt.NDArray[np.int64]:
        """Independent indices, with probabilities exactly proportional to whole weights."""
        ends = np.cumsum(np.asarray(weights, dtype=np.uint64))
        return np.searchsorted(ends, self.below(int(ends[-1]), size), side="right")

    def permutation(self, size: int) -> npt.NDArray[np.int64]:
        """A uniformly random order of 0, ..., size - 1.

        Positions are sorted by independent random keys; equal keys (probability size^2/2^65) would
        favour an order, so the keys are drawn again.
        """
        while True:
            keys = self.words(size)
            order = np.argsort(keys, kind="stable")
            ranked = keys[order]
            if not (ranked[1:] == ranked[:-1]).any():
                return order.astype(np.int64)


class SecureRandomness(Randomness):
    """An AES-CTR keystream with a key of its own from the operating system.

    What is drawn from unless something else is asked for.

    Example:
        >>> SecureRandomness().bits(4).size
        4
    """

    _process = (-1, -1)
    _used = 0

    def words(self, size: int) -> Words:
        """Independent uniform 64-bit words."""
        length = size * _WORD_BYTES
        # A forked child must not repeat its parent's stream. Numbers of processes come back, and
        # are 1 in every container; forks by other means than Python's are not counted.
        process = (os.getpid(), _forks[0])
        if self._process != process or self._used + length > _REKEY_AFTER:
            # Here: whoever only plans draws nothing, and need not load it.
            from cryptography.hazmat.primitives.ciphers import Cipher
            from cryptography.hazmat.primitives.ciphers.algorithms import AES
            from cryptography.hazmat.primitives.ciphers.modes import CTR

            self._stream = Cipher(AES(_entropy(16)), CTR(_entropy(16))).encryptor()
            self._process, self._used = process, 0
        self._used += length
        # The cipher asks for room for a block more than it writes.
        drawn = np.empty(size + 2, dtype=np.uint64)
        output = drawn.view(np.uint8).data
        for start in range(0, length, _ZEROS.size):
            part = min(_ZEROS.size, length - start)
            self._stream.update_into(_ZEROS[:part].data, output[start:])
        return drawn[:size]


class SimulatedRandomness(Randomness):
    """A seeded generator for tests and simulations. Not secure: never for real reports."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64DXSM(seed))

    def words(self, size: int) -> Words:
        """Reproducible 64-bit words."""
        return self._generator.bit_generator.random_raw(size)


secure = SecureRandomness  # a new secure source


def simulated(seed: int) -> Randomness:
    """A reproducible source, for tests and simulations only: it protects nobody.

    Args:
        seed: A whole number >= 0.

    Returns:
        The source.

    Raises:
        InvalidArgumentError: ``seed`` is negative.

    Example:
        >>> simulated(1).below(100, 3).tolist() == simulated(1).below(100, 3).tolist()
        True
    """
    checks.refuse(seed < 0, "a whole number seed >= 0", seed=seed)
    return SimulatedRandomness(seed)


def simulator(seed: int | None = None) -> np.random.Generator:
    """A statistician's generator, for simulations and made-up data: never for reports.

    Args:
        seed: The same numbers for the same one; None for others every time.

    Returns:
        A generator of NumPy.

    Example:
        >>> 0 <= simulator(1).random() < 1
        True
    """
    return np.random.Generator(np.random.PCG64DXSM(seed))


def source(randomness: Randomness | None) -> Randomness:
    """This randomness, or a secure one."""
    return secure() if randomness is None else randomness
