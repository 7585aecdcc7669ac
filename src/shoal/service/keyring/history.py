"""Lists of one party, one after the other: what a later one may not say.

An honest ring signs a list with a later ``issued`` whenever anything changes, and uses a number
for one key only. Two documents of one ``issued``, or two keys of one number, are therefore made by
whoever has the identity, on purpose: with them a person could be given a key that nobody else has,
and be recognised by it. Both documents are signed, so whoever has the two can show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

from shoal.explain.text import moment
from shoal.service.keyring.errors import ContradictionError, KeyListError
from shoal.service.keyring.key_list import KeyList

_LIE = "its operator signed both: send nothing, and show both to others"
_LATER = "a newer one was seen: fetch it again"


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


def numbered(found: KeyList) -> dict[int, str]:
    """The fingerprint of every key of a list, by the key's number."""
    return {key.number: key.public.fingerprint for key in found.keys}


@dataclass(frozen=True, kw_only=True)
class Before:
    """What was seen of a party's lists: the last one, and the key of every number there ever was.

    ``issued`` is -1 if there was no list yet; without a ``digest`` it is a moment before which
    nothing counts, and no list's own.
    """

    issued: int = -1
    digest: bytes = b""
    keys: Mapping[int, str] = field(default_factory=dict)

    def check(self, found: KeyList) -> None:
        """Refuse a list that cannot come after what was seen."""
        self.check_keys(found)
        same = found.issued == self.issued and self.digest
        if same and digest(found.document) != self.digest:
            when = f"{moment(found.issued, seconds=True)} UTC"
            reason = f"two different lists say that they were issued at {when}"
            raise ContradictionError(reason, _LIE)
        if found.issued < self.issued:
            when, before = (
                f"{moment(issued, seconds=True)} UTC" for issued in (found.issued, self.issued)
            )
            reason = f"it was issued at {when}, one of {before} was seen before"
            raise KeyListError(reason, _LATER)

    def set_right(self, ahead: KeyList, now: int) -> Before:
        """What still counts after a last list that is ahead of ``now``: its keys, not its time.

        It came when clocks were ahead, and was the party's own. All its keys stay taken. Those of
        them that were made by now show that there were lists as late as that, so nothing from
        before the newest of them comes back.
        """
        made = [key.created for key in ahead.keys if key.created <= now]
        return replace(self, issued=max(made, default=-1), digest=b"")

    def check_keys(self, found: KeyList) -> None:
        """Refuse another key under a number that is taken."""
        for number, fingerprint in numbered(found).items():
            if self.keys.get(number, fingerprint) != fingerprint:
                reason = f"key {number} was another key before"
                raise ContradictionError(reason, _LIE)
