"""How much a service takes: from one request, from one address, and from everybody at once.

An address is an IPv4 address, or an IPv6 network of 64 bits: one household has all of it. A larger
customer has 56 or 48 bits of network, and 256 or 65,536 such addresses; so these networks are
limited too, to 4 and 16 times what one address may have, and never to more than half of what all
together may have at once.

Addresses are kept for nothing else than this, and for a look at bursts of reports from one network,
in memory only, as hashes under a salt that is thrown away every day together with all that was
counted under it.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cache
from hashlib import blake2b
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from socket import AF_INET, AF_INET6, inet_pton
from time import monotonic
from typing import TypeAlias

from starlette.types import Scope

from shoal import checks, randomness
from shoal.errors import InvalidArgumentError
from shoal.service.http.problems import Problem, ProblemError

# What stands for an address today, from the smallest network to the largest; None: not limited.
Networks: TypeAlias = tuple[bytes, ...] | None

BY_ADDRESS = (
    "address_connections",
    "address_requests",
    "address_bytes",
    "address_rate",
    "address_burst",
    "address_reports",
    "address_refusals",
)
SENDER = b"shoal-sender"  # the header in which a proxy says for whom it asks
_REFUSALS = b"refusals"
_DAY = 86400.0
_HOUR = 3600.0
LEAST_REPORTS = 100  # of an hour, so that the largest part of them says anything
_SALT_WORDS = 4
_HASH_BYTES = 16
_IPV4_BYTES = 4
_IPV6_NETWORKS = (8, 7, 6)  # bytes of an address that say which network of 64, 56, 48 bits it is in
_SCALES = (1, 4, 16)  # times what one address may have
_IPV4_MAPPED = bytes(10) + b"\xff\xff"
_MAPPED_BITS = 8 * len(_IPV4_MAPPED)
_LOOPBACK = bytes(15) + b"\x01"
_LOOPBACK_NETWORK = 127


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What is too much.

    Of one request: ``head_bytes``, ``body_bytes``, ``reports``, and ``head_seconds`` and
    ``body_seconds`` for its head and its body to arrive; of a body that was refused before its end,
    ``discard_bytes`` and ``discard_seconds``. Of a process: ``connections``, and of all its
    requests at once ``waiting_bytes`` and ``waiting_requests``, from the first byte of a body until
    it is committed. Of one address: ``address_connections``, ``address_requests`` and
    ``address_bytes`` at once, and ``address_rate`` reports a second after a first
    ``address_burst``; an hour, ``address_reports`` to surveys that anybody may answer, and
    ``address_refusals`` wrong codes, after which a request is refused at its first.

    Behind a proxy all requests come from one address. ``proxy`` is that address, or a network that
    has it: of what comes from there, the header ``Shoal-Sender`` says for whom, and is believed
    from nowhere else. A rate of None is for a proxy that does not say it: no address is limited.
    This machine's own addresses are not limited, as a proxy may be on the same machine, unless
    ``limit_loopback``, or it is known where the proxy is.
    """

    head_bytes: int = 16 << 10
    head_seconds: float = 30.0
    connections: int = 10_000
    discard_bytes: int = 16 << 20
    discard_seconds: float = 10.0
    body_bytes: int = 8 << 20
    reports: int = 10_000
    body_seconds: float = 30.0
    waiting_bytes: int = 256 << 20
    waiting_requests: int = 4096
    address_rate: float | None = 1000.0
    address_burst: int = 20_000
    address_reports: int = 100
    address_refusals: int = 1000
    address_requests: int = 64
    address_bytes: int = 16 << 20
    address_connections: int = 256
    addresses: int = 100_000
    limit_loopback: bool = False
    proxy: str | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = {each.name: getattr(self, each.name)}
            if each.type == "int":
                checks.count(**value)
            elif str(each.type).startswith("float") and value[each.name] is not None:
                checks.positive(**value)
        if self.proxy is not None:
            try:
                _network(self.proxy)
            except ValueError:
                expected = "an address or a network, such as 127.0.0.1 or 172.30.84.0/24"
                raise InvalidArgumentError("proxy", self.proxy, expected) from None


_AGAIN = "send the same bytes again later"
_BUSY = Problem(
    "busy",
    503,
    f"reports arrive faster than they can be stored; {_AGAIN}",
    retry_after=5,
    close=True,
)
_CROWDING = Problem(
    "too_many",
    429,
    f"too many requests at once from one place; {_AGAIN}",
    retry_after=5,
    close=True,
)
_TOO_MANY = Problem("too_many", 429, f"too many reports from one place; {_AGAIN}")
_TOO_MANY_OPEN = Problem(
    "too_many",
    429,
    f"too many reports from one place for a survey that anybody may answer; {_AGAIN}",
)
_NO_SENDER = Problem(
    "no_sender",
    503,
    "the proxy in front of this service does not name who sends (header Shoal-Sender); it has to "
    "be set up to do so",
    retry_after=60,
)
_TOO_MANY_WRONG = Problem("too_many", 429, f"too many wrong codes from one place; {_AGAIN}")


class PerNetwork:
    """How much of something every network has at once: ``limit`` for one address.

    >>> open_ones = PerNetwork(2, 100)
    >>> networks = b"one address", b"its network"
    >>> open_ones.take(networks), open_ones.take(networks, 2)
    (True, False)
    """

    def __init__(self, limit: int, total: int) -> None:
        self._limits = [min(limit * scale, max(limit, total // 2)) for scale in _SCALES]
        self._amounts: dict[bytes, int] = {}

    def take(self, networks: Networks, amount: int = 1) -> bool:
        """Let so much more be had, unless it is too much for one of the networks."""
        for network, limit in zip(networks or (), self._limits, strict=False):
            if self._amounts.get(network, 0) + amount > limit:
                return False
        for network in networks or ():
            self._amounts[network] = self._amounts.get(network, 0) + amount
        return True

    def give(self, networks: Networks, amount: int = 1) -> None:
        """So much is had no more."""
        for network in networks or ():
            self._amounts[network] -= amount
            if not self._amounts[network]:
                del self._amounts[network]


class Room:
    """Bytes and requests that are held at once: of all together, and of one address.

    A request counts from its first byte on. One that has announced a body and sends nothing holds
    nobody up.

    >>> room = Room(Limits(waiting_bytes=10))
    >>> with room.entered() as hold:
    ...     hold(4)
    ...     room.share
    0.4
    >>> room.share
    0.0
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._bytes = 0
        self._requests = 0
        one_address = max(limits.address_bytes, limits.body_bytes)
        self._bytes_of = PerNetwork(one_address, limits.waiting_bytes)
        self._requests_of = PerNetwork(limits.address_requests, limits.waiting_requests)

    @property
    def share(self) -> float:
        """How full it is, from 0 to 1."""
        full = self._bytes / self._limits.waiting_bytes
        return max(full, self._requests / self._limits.waiting_requests)

    @contextmanager
    def entered(self, networks: Networks = None) -> Iterator[Callable[[int], None]]:
        """Room for one request of an address; call what this gives with every piece's length."""
        limits, taken = self._limits, 0

        def hold(length: int) -> None:
            """Let so many bytes in, and with the first of a request its sender, or refuse."""
            if not length:  # the end of a body: nothing to remember anybody for
                return
            nonlocal taken
            first = not taken
            if self._bytes + length > limits.waiting_bytes or (
                first and self._requests >= limits.waiting_requests
            ):
                raise ProblemError(_BUSY)
            if not self._bytes_of.take(networks, length):
                raise ProblemError(_CROWDING)
            if first and not self._requests_of.take(networks):
                self._bytes_of.give(networks, length)
                raise ProblemError(_CROWDING)
            self._bytes += length
            self._requests += first
            taken += length

        try:
            yield hold
        finally:
            if taken:
                self._bytes -= taken
                self._requests -= 1
                self._bytes_of.give(networks, taken)
                self._requests_of.give(networks)


@dataclass
class Addresses:
    """A bucket of tokens for every address and network that was seen today.

    A bucket that has filled up again is as good as none. The least recently seen ones go when
    there are too many.
    """

    limits: Limits
    timer: Callable[[], float] = monotonic
    _until: float = field(default=-math.inf, init=False)  # the end of the day that the salt is of
    _salt: bytes = field(default=b"", init=False)
    # which bucket, hash of a network: (tokens missing, when that was so)
    _missing: OrderedDict[bytes, tuple[float, float]] = field(
        default_factory=OrderedDict, init=False
    )

    def is_proxy(self, peer: str) -> bool:
        """Whether whoever connects is the proxy, whose word on senders is believed."""
        address, proxy = _address(peer), self.limits.proxy
        return address is not None and proxy is not None and address in _network(proxy)

    def sender(self, scope: Scope) -> str | None:
        """Where a request comes from; of one that the proxy hands on, where it says it comes from.

        A proxy that does not say it is refused: limits that are off would not be noticed.
        """
        peer: str | None = scope["client"][0] if scope.get("client") else None
        if peer is None or self.limits.proxy is None or not self.is_proxy(peer):
            return peer
        named = [value for name, value in scope["headers"] if name == SENDER]
        sender = str(named[0], "latin-1") if len(named) == 1 else ""
        if _address(sender) is None:
            raise ProblemError(_NO_SENDER)
        return sender

    def charge(self, address: str | None, tokens: int) -> Networks:
        """Take tokens from an address's buckets, or refuse; what stands for the address today."""
        key = self.key(address)
        self.charge_key(key, tokens)
        return key

    def charge_key(self, key: Networks, tokens: int) -> None:
        """Take tokens from the buckets of an address that this stands for, or refuse.

        Whoever has a full bucket may take any number: one body is never too much for good.
        """
        rate, burst = self.limits.address_rate, self.limits.address_burst
        if key is not None and rate is not None:
            wait = self._take(b"", key, tokens, rate, burst, full=0.0)
            _refuse(wait, _TOO_MANY)

    def charge_reports(self, key: Networks, reports: int) -> None:
        """Count reports to a survey that anybody may answer, or refuse all of them."""
        most = self.limits.address_reports
        wait = self._take(b"reports", key, reports, most / _HOUR, most, full=-1.0)
        _refuse(wait, _TOO_MANY_OPEN)

    def refusals_left(self, key: Networks) -> float:
        """How many wrong codes may be shown now; any number where nobody is limited."""
        most = self.limits.address_refusals
        levels = self._levels(_REFUSALS, key, most / _HOUR)
        return min((most * scale - missing for _, missing, scale in levels), default=math.inf)

    def charge_refusals(self, key: Networks, codes: int) -> None:
        """Count wrong codes, up to what may be shown: nobody waits for hours after others."""
        most = self.limits.address_refusals
        self._keep(self._levels(_REFUSALS, key, most / _HOUR), codes, most)

    def refuse_codes(self, key: Networks) -> None:
        """Refuse, unless one more wrong code may be shown."""
        left, most = self.refusals_left(key), self.limits.address_refusals
        _refuse(max(0.0, 1 - left) * _HOUR / most, _TOO_MANY_WRONG)

    def _take(
        self, bucket: bytes, key: Networks, tokens: int, rate: float, burst: int, *, full: float
    ) -> float:
        """Take tokens from a bucket of every network; seconds to wait, and nothing taken, if not.

        They are not refused while at most ``full`` tokens are missing.
        """
        wait, levels = 0.0, self._levels(bucket, key, rate)
        for _, missing, scale in levels:
            if missing > full and missing + tokens > burst * scale:
                most = burst * scale - tokens
                most = max(0, most) if full >= 0 else most
                wait = max(wait, (missing - most) / (rate * scale))
        self._keep(levels, 0 if wait else tokens, math.inf)
        return wait

    def _levels(self, bucket: bytes, key: Networks, rate: float) -> list[tuple[bytes, float, int]]:
        """A bucket of every network: its name, what is missing of it now, and its scale."""
        now, levels = self.timer(), []
        for network, scale in zip(key or (), _SCALES, strict=False):
            missing, since = self._missing.get(bucket + network, (0.0, now))
            missing = max(0.0, missing - (now - since) * rate * scale)
            levels.append((bucket + network, missing, scale))
        return levels

    def _keep(self, levels: Sequence[tuple[bytes, float, int]], tokens: int, most: float) -> None:
        """Note that so many more are missing, but no more than this of one address."""
        now = self.timer()
        for name, missing, scale in levels:
            self._missing[name] = min(missing + tokens, most * scale), now
            self._missing.move_to_end(name)
        while len(self._missing) > self.limits.addresses:
            self._missing.popitem(last=False)

    def key(self, address: str | None) -> Networks:
        """What stands for an address today; None for one that is not limited."""
        now = self.timer()
        if now >= self._until:
            self._until = now + _DAY
            self._salt = randomness.secure().words(_SALT_WORDS).tobytes()
            self._missing.clear()
        if self.limits.address_rate is None or address is None:
            return None
        try:
            packed = inet_pton(AF_INET6 if ":" in address else AF_INET, address.partition("%")[0])
        except OSError:  # a socket of this machine has a path, not an address
            return None
        packed = packed.removeprefix(_IPV4_MAPPED)
        is_ipv4 = len(packed) == _IPV4_BYTES
        is_loopback = packed == _LOOPBACK or (is_ipv4 and packed[0] == _LOOPBACK_NETWORK)
        if is_loopback and not self.limits.limit_loopback and self.limits.proxy is None:
            return None
        return tuple(
            blake2b(packed[:length], key=self._salt, digest_size=_HASH_BYTES).digest()
            for length in ((_IPV4_BYTES,) if is_ipv4 else _IPV6_NETWORKS)
        )


@dataclass
class Bursts:
    """How many of an hour's reports came from one network, in quarters and after the hour is over.

    A network is the largest that an address is in: an IPv4 address, or an IPv6 network of 48 bits.
    So many reports from one place are a class behind one router, or somebody who makes them up.
    Beyond ``most`` networks new ones are only counted together.

    Who reads the figure must not see a single report come. So it is coarse, is told of a full hour
    with at least a hundred reports only, and all reports but few are three quarters, too.

    >>> Bursts.share(70, 100), Bursts.share(100, 100), Bursts.share(9, 9)
    (0.5, 0.75, 0.0)
    """

    most: int = Limits.addresses
    timer: Callable[[], float] = monotonic
    _until: float = field(default=-math.inf, init=False)
    _total: int = field(default=0, init=False)
    _reports: dict[bytes, int] = field(default_factory=dict, init=False)

    def count(self, networks: Networks, reports: int) -> float | None:
        """Take note of reports; what is to be told of the hour that has ended, if one has."""
        if networks is None:
            return None
        now, ended = self.timer(), None
        if now >= self._until:
            if self._total:
                ended = self.share(max(self._reports.values()), self._total)
            self._until, self._total = now + _HOUR, 0
            self._reports.clear()
        self._total += reports
        network = networks[-1]
        if network in self._reports or len(self._reports) < self.most:
            self._reports[network] = self._reports.get(network, 0) + reports
        return ended

    @staticmethod
    def share(largest: int, total: int) -> float:
        """Quarters that the largest part is at least, three at most; 0 of too few."""
        return min(4 * largest // total, 3) / 4 if total >= LEAST_REPORTS else 0.0


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """An address, of IPv4 as such; None for what is none."""
    try:
        parsed = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed


@cache
def _network(text: str) -> IPv4Network | IPv6Network:
    """A network, of IPv4 as such, as addresses are; a ValueError for what is none."""
    network = ip_network(text)
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    if mapped is None or network.prefixlen < _MAPPED_BITS:
        return network
    return ip_network((mapped, network.prefixlen - _MAPPED_BITS))


def _refuse(wait: float, problem: Problem) -> None:
    if wait:
        raise ProblemError(replace(problem, retry_after=max(1, math.ceil(wait))))
