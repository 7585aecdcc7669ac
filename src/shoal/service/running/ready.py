"""Checks of a party's own parts: its database and its keys."""

from __future__ import annotations

from shoal.service.clock import Clock, system_clock
from shoal.service.keyring import Keyring, KeyState, Role
from shoal.service.running.findings import Finding, fail, ok
from shoal.service.store import Database


def store_check(database: Database, role: Role) -> Finding:
    """Whether the database answers, and has the tables of this version."""
    database.require(role)
    return ok("store", f"revision {database.revision(role)}")


def keys_check(keyring: Keyring, clock: Clock = system_clock) -> Finding:
    """Whether there is a key in use for every suite."""
    now = clock()
    keys = keyring.list().keys
    suites = {key.suite for key in keys}
    used = {key.suite for key in keys if key.at(now).state is KeyState.ACTIVE}
    lacking = sorted(suites - used)
    if lacking:
        advice = "rotate the keys (shoal keys rotate), or set the clock"
        return fail("keys", f"no key in use for {', '.join(lacking)}", advice)
    return ok("keys", f"{len(keys)} listed, in use for {', '.join(sorted(used))}")
