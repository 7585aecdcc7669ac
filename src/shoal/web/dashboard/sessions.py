"""Who is logged in: a random name in a cookie, bound to the hash of a token, for some hours.

A session is nothing by itself. Its token is looked up at every request, so that one that was
revoked or has ended ends its sessions too. Sessions are in memory only: whoever was logged in when
the analyzer was started again logs in again.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import sha256
from threading import Lock

from shoal import checks, randomness
from shoal.service.clock import Clock
from shoal.service.db.tokens import Tokens, TokenScope, hashed
from shoal.service.errors import NotAuthorizedError

LIFETIME = 12 * 3600  # seconds
MOST = 1000  # at once; the oldest go
_WORDS = 4  # 256 bits: too many to try


@dataclass
class Sessions:
    """All sessions of one process."""

    tokens: Tokens
    clock: Clock
    lifetime: int = LIFETIME
    most: int = MOST
    _known: OrderedDict[bytes, tuple[bytes, int]] = field(default_factory=OrderedDict, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def __post_init__(self) -> None:
        checks.count(lifetime=self.lifetime)
        checks.count(most=self.most)

    def begin(self, token: str) -> str:
        """A session of whoever has this token, if it counts; what its cookie holds."""
        bound = hashed(token)
        self.tokens.scope(bound)  # refuses by itself
        name = randomness.secure().words(_WORDS).tobytes().hex()
        with self._lock:
            self._known[_kept(name)] = bound, self.clock() + self.lifetime
            while len(self._known) > self.most:
                self._known.popitem(last=False)
        return name

    def scope(self, name: str | None) -> TokenScope | None:
        """What the token of a session is for; None if there is no such session any more."""
        if not name:
            return None
        key = _kept(name)
        with self._lock:
            found = self._known.get(key)
        if found is None:
            return None
        bound, ends = found
        if ends > self.clock():
            try:
                return self.tokens.scope(bound)
            except NotAuthorizedError:
                pass
        self.end(name)
        return None

    def end(self, name: str | None) -> None:
        """Forget a session."""
        if name:
            with self._lock:
                self._known.pop(_kept(name), None)


def _kept(name: str) -> bytes:
    """Looked up by its hash, so that how long that takes says nothing about other names."""
    return sha256(name.encode("utf-8", "surrogatepass")).digest()
