"""Work that one party does at a time: claimed for a while, taken over when the while is over.

Every claim has an owner of its own, so that a claim that was taken over never finishes, whoever
made it. A lease that ends further in the future than any lease may is left from before the clock
was set back, and counts as over.
"""

from __future__ import annotations

import sqlalchemy as sa

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.service.store.files import fresh_name

LONGEST_LEASE = 3600
_FAILED = "failed "  # no node is called so: a space is in no name of a machine


def new_owner(node: str) -> str:
    """A name for a claim of this node."""
    return f"{node}/{fresh_name()}"


def mark(owner: str) -> str:
    """The part of an owner's name that no other claim has."""
    return owner.rpartition("/")[2]


def failed(owner: str) -> str:
    """What the owner of a claim that failed is called for the rest of its lease."""
    return _FAILED + owner


def worked_on(table: sa.Table, now: int) -> sa.ColumnElement[bool]:
    """Rows that somebody is at, as far as is known."""
    owner = table.c.owner
    mine = sa.and_(owner.is_not(None), owner.not_like(_FAILED + "%"))
    return sa.and_(mine, sa.not_(free(table, now)))


def lease_end(now: int, seconds: int) -> int:
    """When a lease that begins now ends."""
    if checks.count(lease_seconds=seconds) > LONGEST_LEASE:
        raise InvalidArgumentError("lease_seconds", seconds, f"at most {LONGEST_LEASE} s; renew it")
    return now + seconds


def free(table: sa.Table, now: int) -> sa.ColumnElement[bool]:
    """Rows that may be claimed."""
    until = table.c.lease_until
    return sa.or_(table.c.owner.is_(None), until <= now, until > now + LONGEST_LEASE)
