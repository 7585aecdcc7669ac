"""The signed list of a party's keys: what devices fetch, check and seal with.

::

    {"identity": hex, "list": {...}, "signature": hex}    canonical JSON (RFC 8785), at most 64 KiB

It says when each key is in which state, not the state itself: the document is the same bytes for
everybody, and stays the same while time passes, until a key comes or goes. A service that wanted
to recognise somebody by a key made for them alone would have to sign two different lists.

An honest ring signs a list with a later ``issued`` whenever anything changes, and uses a number
for one key only. Two documents of one ``issued``, or two keys of one number, are therefore made by
whoever has the identity, on purpose. Both documents are signed, so whoever has the two can show it.

Surveys name the identity by its fingerprint, SHA-256 of ``"shoal/1 identity" 00 role 00 key``: it
names a role too, so that what an analyzer signed is never taken for a shuffler's, not even if one
key serves both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from typing import Any, Literal, cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from shoal import checks
from shoal.explain.text import moment
from shoal.sealing import SUITES, MalformedError, Plain, PublicKey, canonical, parsed
from shoal.service.keyring.errors import ContradictionError, KeyListError

Role = Literal["shuffler", "analyzer"]
ROLES: tuple[Role, ...] = ("shuffler", "analyzer")

VERSION = 1
MOST_KEYS = 16  # of the larger suite they still fit into a document
HOUR = 3600
DAY = 24 * HOUR
FUTURE_TOLERANCE = DAY  # a list issued later is ahead of clocks that are about right
SECRET_BYTES = PUBLIC_BYTES = 32
SIGNATURE_BYTES = 64
_FINGERPRINTED = b"shoal/1 identity\x00"
_SIGNED = b"shoal/1 keys\x00"
_TIMES = ("created", "active_from", "expires_at", "deletes_at")
_FETCH = "fetch it again; if that does not help, ask its operator"
_LIE = "its operator signed both: send nothing, and show both to other people"
_LATER = "a newer one was seen before: fetch it again"


class KeyState(StrEnum):
    """What a key is good for."""

    PENDING = "pending"
    ACTIVE = "active"
    EXPIRED = "expired"
    DELETED = "deleted"


def fingerprint(role: Role, public: bytes) -> str:
    """What a survey says about the key that signs for a party: 64 hexadecimal digits."""
    return sha256(_FINGERPRINTED + role.encode() + b"\x00" + public).hexdigest()


@dataclass(frozen=True)
class Identity:
    """An Ed25519 key with the role it signs for."""

    role: Role
    raw: bytes = field(repr=False)

    def __post_init__(self) -> None:
        checks.refuse(self.role not in ROLES, f"one of {', '.join(ROLES)}", role=self.role)
        fits = len(self.raw) == SECRET_BYTES
        checks.refuse(not fits, f"a secret of {SECRET_BYTES} bytes", raw="a secret")

    @cached_property
    def public(self) -> bytes:
        """The key that everybody may know."""
        return Ed25519PrivateKey.from_private_bytes(self.raw).public_key().public_bytes_raw()


@dataclass(frozen=True, kw_only=True)
class KeyInfo:
    """A public key of a :class:`shoal.service.keyring.Keyring`, and its times (since 1970).

    Attributes:
        number: By which reports name the key.
        suite: The cryptography.
        public: The public key.
        state: "pending", "active", "expired" or "deleted".
        created: When it was made.
        active_from: From when it is used.
        expires_at: Until when.
        deletes_at: The earliest moment at which it is deleted.
        seen_expired: For how many seconds its own ring saw it expired.
    """

    number: int
    suite: str
    public: PublicKey
    state: KeyState
    created: int
    active_from: int
    expires_at: int
    deletes_at: int
    seen_expired: int = 0

    def published(self) -> dict[str, Plain]:
        """What a list says of it."""
        return {
            "number": self.number,
            "suite": self.suite,
            "public": self.public.raw.hex(),
            **{name: cast("int", getattr(self, name)) for name in _TIMES},
        }

    def to_dict(self, *, made: bool = True) -> dict[str, object]:
        """Plain values; one that is only planned has nothing public yet."""
        values = self.published() | {"state": self.state.value}
        return {name: value for name, value in values.items() if made or name != "public"}

    def at(self, now: int) -> KeyInfo:
        """With the state that its times give it."""
        state = KeyState.DELETED
        if now < self.active_from:
            state = KeyState.PENDING
        elif now < self.expires_at:
            state = KeyState.ACTIVE
        elif now < self.deletes_at:
            state = KeyState.EXPIRED
        return replace(self, state=state)


@dataclass(frozen=True, kw_only=True)
class KeyList:
    """The keys of one party, signed: whoever has the same bytes has the same keys.

    :class:`shoal.service.keyring.Keyring` signs it; ``KeyList.verified`` checks what was fetched.

    Attributes:
        role: "shuffler" or "analyzer".
        issued: Seconds since 1970 when it was signed.
        valid_until: Until when it may be relied on.
        keys: A :class:`shoal.service.keyring.KeyInfo` for each.
        identity: The public key that signed it.
        signature: Of the content.
    """

    role: Role
    issued: int
    valid_until: int
    keys: tuple[KeyInfo, ...]
    identity: bytes = field(repr=False)
    signature: bytes = field(default=b"", repr=False)

    @property
    def content(self) -> dict[str, Plain]:
        """What is signed."""
        return {
            "version": VERSION,
            "kind": "keys",
            "role": self.role,
            "issued": self.issued,
            "valid_until": self.valid_until,
            "keys": [key.published() for key in self.keys],
        }

    @cached_property
    def document(self) -> bytes:
        """The bytes that everybody has."""
        return canonical(
            {
                "identity": self.identity.hex(),
                "list": self.content,
                "signature": self.signature.hex(),
            }
        )

    def to_bytes(self) -> bytes:
        """The document, as it was signed."""
        return self.document

    @property
    def fingerprint(self) -> str:
        """What a survey has to say for this list to be the right one."""
        return fingerprint(self.role, self.identity)

    @property
    def is_signed(self) -> bool:
        """Whether the identity beside it signed it."""
        try:
            signer = Ed25519PublicKey.from_public_bytes(self.identity)
            signer.verify(self.signature, _SIGNED + canonical(self.content))
        except (InvalidSignature, ValueError):
            return False
        return True

    @classmethod
    def signed(
        cls, identity: Identity, keys: tuple[KeyInfo, ...], *, issued: int, valid_until: int
    ) -> KeyList:
        """A new list; the same bytes for the same keys and times."""
        unsigned = cls(
            role=identity.role,
            issued=issued,
            valid_until=valid_until,
            keys=keys,
            identity=identity.public,
        )
        secret = Ed25519PrivateKey.from_private_bytes(identity.raw)
        return replace(unsigned, signature=secret.sign(_SIGNED + canonical(unsigned.content)))

    @classmethod
    def verified(
        cls, data: bytes, *, fingerprint: str, now: int, role: Role | None = None
    ) -> KeyList:
        """The list in these bytes, if whom the survey names signed it and it is valid now.

        ``role`` is what the keys are wanted for. States are those at ``now``.
        """
        key_list = unverified(data)
        if key_list.fingerprint != fingerprint:
            reason = f"it belongs to {key_list.fingerprint} ({key_list.role}), not to {fingerprint}"
            raise KeyListError(reason, "somebody else answers at this address: send nothing")
        if not key_list.is_signed:
            raise KeyListError("its signature is wrong", "it was changed on its way: send nothing")
        if role is not None and role != key_list.role:
            reason = f"it has the keys of the {key_list.role}, not of the {role}"
            raise KeyListError(reason, "the survey names the wrong party: send nothing")
        here = moment(now, seconds=True)
        if now > key_list.valid_until:
            until = moment(key_list.valid_until, seconds=True)
            reason = f"it was valid until {until} UTC, and now it is {here} UTC"
            raise KeyListError(reason, _FETCH)
        if key_list.issued > now + FUTURE_TOLERANCE:
            issued = moment(key_list.issued, seconds=True)
            reason = f"it was issued at {issued} UTC, and now it is {here} UTC"
            raise KeyListError(reason, "correct this machine's clock, then fetch it again")
        return replace(key_list, keys=tuple(key.at(now) for key in key_list.keys))

    def current(self, suite: str, now: int) -> PublicKey:
        """The key to seal with: of those in use the newest."""
        checks.refuse(suite not in SUITES, f"one of {', '.join(SUITES)}", suite=suite)
        offered = [key for key in self.keys if key.suite == suite]
        usable = [key for key in offered if key.active_from <= now < key.expires_at]
        if usable:
            return max(usable, key=lambda key: (key.active_from, key.number)).public
        reason = f"none of its {len(offered)} keys for {suite} is in use at {now}"
        if not offered:
            reason = f"it has no key for {suite}"
        raise KeyListError(reason, _FETCH)


def unverified(data: bytes) -> KeyList:
    """A list as it is written, whoever signed it. States: pending.

    What is read is written again: other bytes than a ring would write are refused.
    """
    try:
        document = cast("dict[str, Any]", parsed(data))
        listed = document["list"]
        keys: tuple[KeyInfo, ...] = ()
        for stored in listed["keys"]:
            public = PublicKey(bytes.fromhex(stored["public"]), stored["number"])
            key = KeyInfo(
                number=public.number,
                suite=public.suite.name,
                public=public,
                state=KeyState.PENDING,
                **{name: stored[name] for name in _TIMES},
            )
            keys += (key,)
        key_list = KeyList(
            keys=keys,
            identity=bytes.fromhex(document["identity"]),
            signature=bytes.fromhex(document["signature"]),
            **{name: listed[name] for name in ("role", "issued", "valid_until")},
        )
        numbers = [key.number for key in keys]
        times = [[getattr(key, name) for name in _TIMES] for key in keys]
        times.append([key_list.issued, key_list.valid_until - 1])
        sound = (
            key_list.document == data
            and key_list.role in ROLES
            and (len(key_list.identity), len(key_list.signature)) == (PUBLIC_BYTES, SIGNATURE_BYTES)
            and 1 <= len(keys) <= MOST_KEYS
            and numbers == sorted(set(numbers))
            and all(type(time) is int and time >= 0 for line in times for time in line)
            and all(line == sorted(line) for line in times)
        )
    except (KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        raise MalformedError("the list of keys", f"keys of version {VERSION}, as a ring signs them")
    return key_list


@dataclass(frozen=True)
class Contradiction:
    """Two signed lists of one identity that cannot both be right."""

    fingerprint: str
    reason: str
    known: bytes
    document: bytes


def digest(document: bytes) -> bytes:
    """What is remembered of a list when the list itself is not."""
    return sha256(document).digest()


@dataclass(frozen=True, kw_only=True)
class Before:
    """What was seen of a party's lists: the last one, and the key of every number there ever was.

    ``issued`` is -1 if there was no list yet; without a ``digest`` it is a moment before which
    nothing counts, and no list's own.
    """

    issued: int = -1
    digest: bytes = b""
    keys: Mapping[int, str] = field(default_factory=dict)

    def check(self, key_list: KeyList) -> None:
        """Refuse a list that cannot come after what was seen."""
        for key in key_list.keys:
            if self.keys.get(key.number, key.public.fingerprint) != key.public.fingerprint:
                raise ContradictionError(f"key {key.number} was a different key before", _LIE)
        same = key_list.issued == self.issued and self.digest
        if same and digest(key_list.document) != self.digest:
            when = f"{moment(key_list.issued, seconds=True)} UTC"
            reason = f"two different lists have the same time of issue, {when}"
            raise ContradictionError(reason, _LIE)
        if key_list.issued < self.issued:
            when, before = (
                f"{moment(issued, seconds=True)} UTC" for issued in (key_list.issued, self.issued)
            )
            reason = f"it was issued at {when}, but one from {before} was seen before"
            raise KeyListError(reason, _LATER)

    def set_right(self, ahead: KeyList, now: int) -> Before:
        """What still counts after a last list that is ahead of ``now``: its keys, not its time.

        It came when clocks were ahead, and was the party's own. All its keys stay taken. Those of
        them that were made by now show that there were lists as late as that, so nothing from
        before the newest of them comes back.
        """
        made = [key.created for key in ahead.keys if key.created <= now]
        return replace(self, issued=max(made, default=-1), digest=b"")
