"""Checks of a party's own parts: its database and its keys."""

from __future__ import annotations

from shoal.service.clock import Clock, system_clock
from shoal.service.db import Database
from shoal.service.keyring import Keyring, KeyState, Role
from shoal.service.keyring.words import regain
from shoal.service.running.findings import Finding, fail, ok, warn


def store_check(database: Database, role: Role) -> Finding:
    """Whether the database answers, and has the tables of this version."""
    database.require(role)
    return ok("store", f"revision {database.revision(role)}")


def keys_check(keyring: Keyring, clock: Clock = system_clock) -> Finding:
    """Whether there is a key in use for every suite, and the secrets are where they should be."""
    now = clock()
    keys = keyring.list().keys
    suites = {key.suite for key in keys}
    used = {key.suite for key in keys if key.at(now).state is KeyState.ACTIVE}
    lacking = sorted(suites - used)
    if lacking:
        advice = "rotate the keys (shoal keys rotate), or set the clock"
        return fail("keys", f"no key in use for {', '.join(lacking)}", advice)
    lost = _secrets_check(keyring)
    return lost or ok("keys", f"{len(keys)} listed, in use for {', '.join(sorted(used))}")


def _secrets_check(keyring: Keyring) -> Finding | None:
    """The key in use without its secret is a failure; with another one, devices are still served.

    It is told of one of them; shoal doctor tells of all.
    """
    lacking = keyring.lacking()
    lost = [key for key in keyring.list().keys if key.number in lacking]
    if not lost:
        return None
    key = next((key for key in lost if key.state is KeyState.ACTIVE), lost[0])
    judged = fail if key.state is KeyState.ACTIVE else warn
    told = f"the secret of key {key.number} ({key.state}) {lacking[key.number]}"
    return judged("keys", told, regain(keyring, key.number))
