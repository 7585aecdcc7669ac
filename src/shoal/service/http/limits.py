"""How much a service takes: from one request, from one address, and from everybody at once.

Addresses are kept for nothing else than this, in memory only, as hashes under a salt that is thrown
away every day together with all that was counted under it.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from socket import AF_INET, AF_INET6, inet_pton
from time import monotonic

from shoal import checks, randomness
from shoal.service.http.problems import Problem, ProblemError

_DAY = 86400.0
_SALT_WORDS = 4
_HASH_BYTES = 16
_HOST_BITS = 64  # of an IPv6 address: one household has all of them
_IPV4_BYTES = 4
_IPV4_MAPPED = bytes(10) + b"\xff\xff"
_LOOPBACK = bytes(15) + b"\x01"
_LOOPBACK_NETWORK = 127


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What is too much.

    Of one request: ``body_bytes``, ``reports``, and ``body_seconds`` for its body to arrive. Of all
    requests at once: ``waiting_bytes`` and ``waiting_requests``, from the first byte of a body
    until it is committed. Of one address: ``address_requests`` of these at once, and
    ``address_rate`` reports a second after a first ``address_burst``; a rate of None is for a
    service behind a proxy, where all requests come from one address. This machine's own address is
    not limited.
    """

    body_bytes: int = 8 << 20
    reports: int = 10_000
    body_seconds: float = 30.0
    waiting_bytes: int = 256 << 20
    waiting_requests: int = 4096
    address_rate: float | None = 1000.0
    address_burst: int = 20_000
    address_requests: int = 64
    addresses: int = 100_000

    def __post_init__(self) -> None:
        for name in (
            "body_bytes",
            "reports",
            "waiting_bytes",
            "waiting_requests",
            "address_burst",
            "address_requests",
            "addresses",
        ):
            checks.count(**{name: getattr(self, name)})
        checks.positive(body_seconds=self.body_seconds)
        if self.address_rate is not None:
            checks.positive(address_rate=self.address_rate)


class Room:
    """Bytes and requests that are held at once: of all together, and requests of one address.

    A request counts from its first byte on. One that has announced a body and sends nothing holds
    nobody up.

    >>> room = Room(Limits(waiting_bytes=10))
    >>> with room.entered() as held:
    ...     held(4)
    ...     room.share
    0.4
    >>> room.share
    0.0
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._bytes = 0
        self._requests = 0
        self._of_address: Counter[bytes] = Counter()

    @property
    def share(self) -> float:
        """How full it is, from 0 to 1."""
        full = self._bytes / self._limits.waiting_bytes
        return max(full, self._requests / self._limits.waiting_requests)

    def entered(self, address: bytes | None = None) -> _Guest:
        """Room for one request of an address; call what this gives with every piece's length."""
        return _Guest(self, address)

    def hold(self, length: int, address: bytes | None, *, first: bool) -> None:
        """Let so many bytes in, and with the first of a request its sender, or refuse."""
        if self._bytes + length > self._limits.waiting_bytes:
            raise ProblemError(_busy())
        if first:
            self._enter(address)
        self._bytes += length

    def leave(self, length: int, address: bytes | None) -> None:
        """A request that held so many bytes is answered."""
        self._bytes -= length
        self._requests -= 1
        if address is not None:
            self._of_address[address] -= 1
            if not self._of_address[address]:
                del self._of_address[address]

    def _enter(self, address: bytes | None) -> None:
        if self._requests >= self._limits.waiting_requests:
            raise ProblemError(_busy())
        if address is not None:
            if self._of_address[address] >= self._limits.address_requests:
                raise ProblemError(_crowding())
            self._of_address[address] += 1
        self._requests += 1


class _Guest:
    """One request in a room."""

    __slots__ = ("_address", "_held", "_room")

    def __init__(self, room: Room, address: bytes | None) -> None:
        self._room = room
        self._address = address
        self._held = 0

    def __enter__(self) -> Callable[[int], None]:
        return self._hold

    def __exit__(self, *_: object) -> None:
        if self._held:
            self._room.leave(self._held, self._address)

    def _hold(self, length: int) -> None:
        self._room.hold(length, self._address, first=bool(length and not self._held))
        self._held += length


class Addresses:
    """A bucket of tokens for every address that was seen today.

    A bucket that has filled up again is as good as none. The least recently seen ones go when
    there are too many.
    """

    def __init__(self, limits: Limits, *, timer: Callable[[], float] = monotonic) -> None:
        self._rate = limits.address_rate
        self._burst = limits.address_burst
        self._most = limits.addresses
        self._timer = timer
        self._begin(timer())

    def _begin(self, now: float) -> None:
        self._until = now + _DAY
        self._salt = randomness.secure().words(_SALT_WORDS).tobytes()
        # hash of an address: (tokens missing, when that was so)
        self._missing: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def charge(self, address: str | None, tokens: int) -> bytes | None:
        """Take tokens from an address's bucket, or refuse; what stands for the address today."""
        key = self.key(address)
        self.charge_key(key, tokens)
        return key

    def charge_key(self, key: bytes | None, tokens: int) -> None:
        """Take tokens from the bucket of an address that this stands for, or refuse."""
        if key is None or self._rate is None:
            return
        now = self._timer()
        missing, since = self._missing.pop(key, (0.0, now))
        missing = max(0.0, missing - (now - since) * self._rate)
        # Whoever has a full bucket may take any number: one body is never too much for good.
        if missing > 0 and missing + tokens > self._burst:
            self._missing[key] = (missing, now)
            wait = (missing - max(0, self._burst - tokens)) / self._rate
            raise ProblemError(_too_many(math.ceil(wait)))
        self._missing[key] = (missing + tokens, now)
        if len(self._missing) > self._most:
            self._missing.popitem(last=False)

    def key(self, address: str | None) -> bytes | None:
        """What stands for an address today; None for one that is not limited."""
        now = self._timer()
        if now >= self._until:
            self._begin(now)
        if self._rate is None or address is None:
            return None
        network = _network(address)
        return network and blake2b(network, key=self._salt, digest_size=_HASH_BYTES).digest()


def _network(address: str) -> bytes | None:
    """The bytes of an address that one household has; None of this machine's own addresses."""
    try:
        packed = inet_pton(AF_INET6 if ":" in address else AF_INET, address.partition("%")[0])
    except OSError:  # a socket of this machine has a path, not an address
        return None
    packed = packed.removeprefix(_IPV4_MAPPED)
    if packed == _LOOPBACK or (len(packed) == _IPV4_BYTES and packed[0] == _LOOPBACK_NETWORK):
        return None
    return packed[: _HOST_BITS // 8]


def _busy() -> Problem:
    return Problem(
        kind="busy",
        status=503,
        detail="more is being sent than can be stored; send the same bytes again later",
        retry_after=5,
        close=True,
    )


def _crowding() -> Problem:
    return Problem(
        kind="too_many",
        status=429,
        detail="too many requests at once from one place; send the same bytes again later",
        retry_after=5,
        close=True,
    )


def _too_many(seconds: int) -> Problem:
    return Problem(
        kind="too_many",
        status=429,
        detail="too many reports from one place; send the same bytes again later",
        retry_after=max(1, seconds),
    )
