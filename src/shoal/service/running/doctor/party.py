"""One party's directory: permissions, room, store, keys, surveys, and work that waits."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from shoal.errors import ShoalError
from shoal.explain.text import duration, moment
from shoal.service.analyzer import tables as analyzer_schema
from shoal.service.analyzer.key_retention import longest_carried
from shoal.service.clock import Clock, system_clock
from shoal.service.db import Database
from shoal.service.db.key_lists import KeyLists
from shoal.service.db.leases import Leases
from shoal.service.db.store_id import StoreId
from shoal.service.db.surveys import Surveys
from shoal.service.db.tables import tokens
from shoal.service.errors import StoreUnavailableError, StoreVersionError
from shoal.service.keyring import KeyInfo, KeyList, Keyring, KeyringError, KeyState
from shoal.service.keyring.words import regain
from shoal.service.running.copies import copy_findings
from shoal.service.running.findings import Finding, fail, guarded, ok, warn
from shoal.service.running.home import Home
from shoal.service.running.surroundings import disk
from shoal.service.shuffler import tables as schema
from shoal.service.survey import Survey

DAY = 86_400
SOON = 14 * DAY
_OTHERS = 0o077
_UNCOLLECTED = DAY
_STUCK = 3600


@dataclass(frozen=True)
class Examined:
    """A party's parts, as far as they could be opened."""

    home: Home
    keyring: Keyring | None
    surveys: tuple[Survey, ...]


def party_findings(home: Home, clock: Clock = system_clock) -> tuple[list[Finding], Examined]:
    """What is to be said of a directory, and what was found in it."""
    found: list[Finding] = [_permissions(home.directory)]
    found.append(guarded("disk", lambda: disk(home.directory), "mount it"))
    keyring: Keyring | None = None
    try:
        keyring = Keyring.open(home.keys, protection=None, clock=clock)
        found += key_findings(keyring, clock())
    except ShoalError as error:
        found.append(fail("keys", str(error), "restore DIR/keys from a backup"))
    surveys: tuple[Survey, ...] = ()
    try:
        surveys = _store_findings(home, keyring, clock(), found)
    except (StoreVersionError, StoreUnavailableError) as error:
        advice = "start the service once with --migrate"
        if isinstance(error, StoreUnavailableError):
            advice = "see that the database runs and may be written to; reports are refused so far"
        found.append(fail("store", str(error), advice))
    return found, Examined(home, keyring, surveys)


def _permissions(directory: Path) -> Finding:
    """Whether others on this machine may read anything in it."""
    below = (path for path in sorted(directory.rglob("*")) if not path.is_symlink())
    open_ones = [path for path in below if _mode(path) & _OTHERS]
    if open_ones:
        first = open_ones[0]
        more = f", and {len(open_ones) - 1} more" if len(open_ones) > 1 else ""
        told = f"{first} has mode {_mode(first):04o}{more}"
        return fail("permissions", told, f"run chmod -R go= {directory}")
    if _mode(directory) & _OTHERS:
        told = f"others may see the names in {directory}, though nothing more"
        return warn("permissions", told, f"run chmod 700 {directory}")
    return ok("permissions", f"{directory} is for its owner alone")


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:  # gone meanwhile
        return 0


# Keys


def key_findings(keyring: Keyring, now: int) -> Iterator[Finding]:
    """How the keys are, and when they change next."""
    listed = keyring.list()
    left = listed.valid_until - now
    tend = "see that a worker runs (it tends the keys), with the identity where it looks"
    if left <= 0:
        yield fail("key list", f"its signature ended {duration(-left)} ago", tend)
    elif _ends_soon(listed, now):
        yield warn("key list", f"its signature ends in {duration(left)}", tend)
    else:
        yield ok("key list", f"signed until {duration(left)} from now")
    yield _identity(keyring, listed, now)
    lacking = keyring.lacking()
    for key in listed.keys:
        if key.number in lacking:
            yield _lost(keyring, key, lacking[key.number])
        else:
            yield _key(key, now, tend)
    try:
        protection = keyring.protection
    except KeyringError:
        return  # nothing is left of the secrets, which was said
    if protection == "none":
        advice = "make keys with a passphrase or a key file for real answers"
        yield warn("protection", "the secrets lie on the disk in the clear", advice)
    else:
        yield ok("protection", f"by {protection}")


def _ends_soon(listed: KeyList, now: int) -> bool:
    return listed.valid_until - now < (listed.valid_until - listed.issued) // 4


def _identity(keyring: Keyring, listed: KeyList, now: int) -> Finding:
    """Where the key that signs is; it may well be kept elsewhere, until the list has to be new."""
    if keyring.has_identity:
        return ok("identity", "with the keys")
    told = f"not in {keyring.directory}; bring it before {moment(listed.valid_until)} UTC"
    if not _ends_soon(listed, now):
        return ok("identity", told)
    rotate = f"shoal keys rotate {keyring.directory} --identity FILE"
    return warn("identity", told, f"{rotate}, or start the service with --identity FILE")


def _lost(keyring: Keyring, key: KeyInfo, why: str) -> Finding:
    """A key that opens nothing: a failure, unless few are left who seal for it."""
    path = keyring.secret_path(key.number)
    told = f"{key.state}, and its secret {why}: nothing that is sealed for it opens ({path})"
    judged = warn if key.state is KeyState.EXPIRED else fail
    return judged(f"key {key.number}", told, regain(keyring, key.number))


def _key(key: KeyInfo, now: int, tend: str) -> Finding:
    name = f"key {key.number}"
    age = f"{duration(now - key.created)} old"
    if key.state is KeyState.ACTIVE:
        left = key.expires_at - now
        if left <= 0:
            told = f"in use, {age}, and should have been replaced {duration(-left)} ago"
            return warn(name, told, tend)
        return ok(name, f"in use, {age}, for {duration(left)} more")
    if key.state is KeyState.PENDING:
        return ok(name, f"published, in use in {duration(key.active_from - now)}")
    if key.state is KeyState.DELETED:
        return ok(name, "deleted, and leaves the list when it is signed again")
    return ok(name, f"expired, {age}, still opens what was sealed before")


# The store


def _store_findings(
    home: Home, keyring: Keyring | None, now: int, found: list[Finding]
) -> tuple[Survey, ...]:
    if home.store is None and not home.default_database.exists():
        advice = "it is made when the service starts, or with its first survey"
        found.append(warn("store", "there is none yet", advice))
        return ()
    database = Database(home.url, timeout=5.0)
    try:
        revision = database.revision(home.role)
        database.require(home.role)
        found.append(ok("store", f"{database.dialect}, revision {revision}"))
        found += _directory_findings(StoreId(database, home.directory))
        surveys = tuple(Surveys(database, ()).all())
        found += _survey_findings(home, surveys, keyring, now)
        found += _token_findings(database, now)
        if home.role == "shuffler":
            found += copy_findings(surveys, KeyLists(database), now)
        waiting = _shuffler_waits if home.role == "shuffler" else _analyzer_waits
        found += waiting(database, now)
        if keyring is not None:
            found += _waits_in_vain(home, keyring, database)
    finally:
        database.close()
    return surveys


def _directory_findings(store_id: StoreId) -> Iterator[Finding]:
    """Whether the directory is the database's own, once they have been tied together."""
    if not store_id.is_bound():
        return
    try:
        store_id.check()
    except StoreVersionError as error:
        yield fail("directory", error.found, error.advice)
    else:
        yield ok("directory", "belongs to the database")


def _survey_findings(
    home: Home, surveys: tuple[Survey, ...], keyring: Keyring | None, now: int
) -> Iterator[Finding]:
    if not surveys:
        advice = f"add one: shoal survey add FILE --to {home.directory}"
        yield warn("surveys", "none", advice)
    for survey in surveys:
        name = f"survey {str(survey.id)[:12]}"
        party = survey.shuffler if home.role == "shuffler" else survey.analyzer
        if keyring is not None and party.fingerprint != keyring.fingerprint:
            advice = "make it again with the fingerprint that shoal keys show prints"
            yield fail(name, f"names another {home.role}'s keys", advice)
        elif keyring is not None and (found := _schedule(home, survey, keyring, now)) is not None:
            yield found
        elif now < survey.not_before:
            yield ok(name, f"begins in {duration(survey.not_before - now)}")
        elif now > survey.not_after:
            yield ok(name, f"over since {duration(now - survey.not_after)}")
        else:
            yield ok(name, f"open for {duration(survey.not_after - now)} more")


def _schedule(home: Home, survey: Survey, keyring: Keyring, now: int) -> Finding | None:
    """Whether the analyzer has its keys for as long as a batch may need them."""
    if home.role != "analyzer" or now > survey.not_after + survey.batches.max_age:
        return None
    name, expired = f"survey {str(survey.id)[:12]}", keyring.schedule.expired
    if expired < survey.batches.max_age:
        told = f"a batch may wait {duration(survey.batches.max_age)}, its key {duration(expired)}"
        return fail(name, told, "make keys with a longer --expired, and the survey again")
    life = survey.not_after - survey.not_before
    if survey.batches.small == "carry" and life > longest_carried(keyring):
        told = f"open for {duration(life)}: there is no room for all its keys, the oldest go"
        return warn(name, told, "make keys with a longer --active, or a survey that does not carry")
    return None


def _token_findings(database: Database, now: int) -> Iterator[Finding]:
    with database.read() as connection:
        rows = connection.execute(sa.select(tokens.c.label, tokens.c.expires)).all()
    for row in rows:
        left = row.expires - now
        name, advice = f"token {row.label}", "make a new one: shoal keys token"
        if left <= 0:
            yield warn(name, f"ended {duration(-left)} ago", advice)
        elif left < SOON:
            yield warn(name, f"ends in {duration(left)}", advice)
        else:
            yield ok(name, f"valid for {duration(left)} more")


def _shuffler_waits(database: Database, now: int) -> Iterator[Finding]:
    """Reports nobody opens, batches nobody mixes, batches nobody collects."""
    extents, batches = schema.extents.c, schema.batches.c
    with database.read() as connection:
        waiting = connection.execute(
            sa.select(sa.func.count()).select_from(schema.extents)
        ).scalar()
        held = connection.scalar(
            sa.select(sa.func.count()).where(
                Leases(database, schema.extents, lambda: now).worked_on()
            )
        )
        tried = connection.scalar(sa.select(sa.func.count()).where(extents.lease_until > now))
        rows = connection.execute(
            sa.select(batches.id, batches.state, batches.closed, batches.lease_until).where(
                batches.state.in_([schema.SEALED, schema.SHUFFLED, schema.RELEASED])
            )
        ).all()
        late = connection.execute(
            sa.select(batches.id, batches.survey, batches.since).where(
                batches.state == schema.OPEN, batches.since.is_not(None)
            )
        ).all()
        broken = connection.execute(
            sa.select(sa.func.sum(schema.counters.c.value)).where(
                schema.counters.c.name == "unreadable"
            )
        ).scalar()
    if waiting and tried and not held:
        told = "reports wait: a worker could not open them, and tries again in some minutes"
        yield warn("opening", told, "see what fails here, and work_failed in the worker's log")
    elif waiting and not held:
        advice = "start a worker: shoal serve worker DIR"
        yield warn("opening", "reports wait, and nobody opens them at the moment", advice)
    else:
        yield ok("opening", "nothing waits" if not waiting else "a worker is at it")
    for row in rows:
        yield _batch_waits(row, now)
    surveys = Surveys(database, ())
    for each in late:
        overdue = now - each.since - surveys.numbered(each.survey).survey.batches.max_age
        if overdue > _STUCK:
            advice = "start a worker: shoal serve worker DIR"
            told = f"should have closed {duration(overdue)} ago, or waited for more"
            yield warn(f"batch {each.id[:8]}", told, advice)
    if broken:
        advice = "look for errors of the disk in the system's log"
        yield warn("unreadable", f"{broken:,} reports were set aside", advice)


def _waits_in_vain(home: Home, keyring: Keyring, database: Database) -> Iterator[Finding]:
    """What came in for a key whose secret is lost."""
    if home.role == "shuffler":
        what, query = "reports", sa.select(schema.extents.c.key)
    else:
        rows = analyzer_schema.collections.c
        waiting = rows.state.in_([analyzer_schema.REQUESTED, analyzer_schema.RECEIVED])
        what, query = "batches", sa.select(rows.key).where(waiting)
    with database.read() as connection:
        needed = set(connection.scalars(query.distinct()))
    for number, why in keyring.lacking().items():
        if number in needed:
            told = f"{what} wait for it, and its secret {why}"
            yield fail(f"{what} for key {number}", told, regain(keyring, number))


def _batch_waits(row: sa.Row[*tuple[Any, ...]], now: int) -> Finding:
    name, age = f"batch {row.id[:8]}", now - (row.closed or now)
    if row.state == schema.SEALED and age > _STUCK:
        return warn(name, "closed, and not mixed yet", "start a worker: shoal serve worker DIR")
    if row.state != schema.SEALED and age > _UNCOLLECTED:
        told = f"ready since {duration(age)}, and not collected"
        return warn(name, told, "see that the analyzer runs, and that its token is valid")
    return ok(name, row.state.lower())


def _analyzer_waits(database: Database, now: int) -> Iterator[Finding]:
    """Batches that do not go on."""
    del now
    rows = analyzer_schema.collections.c
    with database.read() as connection:
        found = connection.execute(
            sa.select(rows.batch, rows.state, rows.reason, rows.acknowledged)
        ).all()
    open_ones = 0
    for row in found:
        if row.state == analyzer_schema.REFUSED:
            advice = (
                "it is not lost, the shuffler keeps it: see to the cause, then "
                f"shoal collect DIR --again {row.batch[:8]}"
            )
            yield warn(f"batch {row.batch[:8]}", f"refused: {row.reason}", advice)
        elif not (row.state == analyzer_schema.PUBLISHED and row.acknowledged):
            open_ones += 1
    if open_ones:
        advice = "they go on while shoal serve analyzer (or shoal collect) runs"
        yield warn("collecting", f"batches on their way: {open_ones}", advice)
    else:
        plural = "es" * (len(found) != 1)
        yield ok("collecting", f"{len(found)} batch{plural} so far, nothing waits")
