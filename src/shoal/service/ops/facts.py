"""The facts of a party: its directory, keys, store, surveys, and work that waits.

A running process and ``shoal doctor`` look at the same facts, the one at those that its work hangs
on, the other at all of them.
"""

from __future__ import annotations

import math
import shutil
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import sqlalchemy as sa

from shoal.explain.text import duration, moment
from shoal.sealing import SurveyId
from shoal.service.analyzer import tables as analyzer_schema
from shoal.service.analyzer.collection import Opened
from shoal.service.analyzer.store import PASSES, AnalyzerStore, LastPasses, longest_carried
from shoal.service.clock import Clock, system_clock
from shoal.service.db import tables as common
from shoal.service.db.database import Database, StoreId
from shoal.service.db.key_lists import KeyLists
from shoal.service.db.leases import Leases
from shoal.service.db.surveys import Surveys
from shoal.service.errors import StoreVersionError
from shoal.service.keyring import KeyInfo, Keyring, KeyringError, KeyState
from shoal.service.keyring.words import regain
from shoal.service.ops.health import Fact, Figure, Finding, disk, fail, figure, ok, warn
from shoal.service.ops.home import Home
from shoal.service.ops.metrics import two_digits
from shoal.service.shuffler import tables as schema
from shoal.service.shuffler.batches import DAMAGED, DEAD_LETTERS
from shoal.service.shuffler.codes import Codes
from shoal.service.shuffler.reports import GATHER_REPORTS
from shoal.service.shuffler.store import ShufflerStore
from shoal.service.survey import Survey

DAY = 86_400
SOON = 14 * DAY
_OTHERS = 0o077
_UNCOLLECTED = DAY
_STUCK = 3600
_SHOWN = 12  # digits of a name: enough to tell those of one service apart
_TEND = "start the worker (or the analyzer) with the identity: it renews the keys and their list"
_START_WORKER = "start a worker: shoal serve worker DIR"
_LOSSES = (
    (DEAD_LETTERS, "dead letters", "were given up after repeated failures"),
    (DAMAGED, "damaged reports", "changed on the disk, and are lost"),
)
_NOT_PASSED = (
    "start the analyzer (or run shoal collect); if it runs, its log says why that shuffler's lists "
    "do not come"
)
_REACH = "devices cannot send: check that a worker runs, and that it reaches the analyzer's address"
_AHEAD = (
    "devices refuse it: correct the clocks here and at the analyzer; a worker then fetches "
    "a new copy within the hour"
)
UNAVAILABLE = "check that the database runs and accepts writes; reports are refused until it does"


def directory_facts(home: Home) -> list[Fact]:
    """Who may read it, and whether there is room."""
    place = home.directory
    figures = partial(disk_figures, place)
    return [
        Fact("permissions", lambda: [_permissions(place)], ready=False),
        Fact("disk", lambda: [disk(place)], "mount it", figures=figures),
    ]


def key_facts(keyring: Keyring, clock: Clock = system_clock) -> list[Fact]:
    """How the keys are, and when they change next."""
    fact = partial(Fact, advice="restore DIR/keys from a backup")
    figures = partial(key_figures, keyring, clock)
    return [
        fact("key list", lambda: _key_list(keyring, clock())),
        fact("keys", lambda: _keys(keyring, clock()), figures=figures),
        fact("protection", lambda: _protection(keyring), ready=False),
    ]


def store_facts(
    home: Home, database: Database, keyring: Keyring | None, clock: Clock = system_clock
) -> list[Fact]:
    """What is in the database, and what waits there."""
    surveys, key_lists = Surveys(database, ()), KeyLists(database)
    fact = partial(Fact, advice=UNAVAILABLE, ready=False)
    facts = [
        fact("store", lambda: _store(home, database), ready=True),
        fact("surveys", lambda: _surveys(home, surveys.all(), keyring, clock())),
        fact("tokens", lambda: _tokens(database, clock())),
    ]
    if home.role == "shuffler":
        facts += [
            fact(
                "analyzer keys",
                lambda: copy_findings(surveys.all(), key_lists, clock()),
                ready=True,
                figures=lambda: copy_figures(surveys.all(), key_lists, clock()),
            ),
            fact("codes", lambda: _codes(Codes(database, surveys), clock())),
            fact("opening", lambda: _shuffler_waits(database, surveys, clock())),
        ]
    else:
        passes = LastPasses(home.directory / PASSES)
        facts += [
            fact("collecting", lambda: _analyzer_waits(database)),
            fact(
                "last pass",
                lambda: pass_findings(passes.ages(surveys.all(), clock())),
                ready=True,
                figures=lambda: pass_figures(passes.ages(surveys.all(), clock())),
            ),
        ]
    if keyring is not None:
        facts.append(fact("secrets", lambda: _waits_in_vain(home, keyring, database)))
    return facts


# The directory


def _permissions(directory: Path) -> Finding:
    """Whether others on this machine may read anything in it."""
    below = (path for path in sorted(directory.rglob("*")) if not path.is_symlink())
    open_ones = [path for path in below if _mode(path) & _OTHERS]
    if open_ones:
        first = open_ones[0]
        more = f", and {len(open_ones) - 1} more" if len(open_ones) > 1 else ""
        detail = f"{first} has mode {_mode(first):04o}{more}"
        return fail("permissions", detail, f"run chmod -R go= {directory}")
    if _mode(directory) & _OTHERS:
        detail = f"other users can list the files in {directory}, but not read them"
        return warn("permissions", detail, f"run chmod 700 {directory}")
    return ok("permissions", f"only its owner can read {directory}")


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:  # gone meanwhile
        return 0


def disk_figures(directory: Path) -> Iterator[Figure]:
    """Free room, coarse: reports have one length, so bytes would count them."""
    yield figure("disk_free_bytes", two_digits(shutil.disk_usage(directory).free))


# The keys


def _key_list(keyring: Keyring, now: int) -> Iterator[Finding]:
    """How long its signature counts, and where the identity is that signs the next one.

    That may well be kept elsewhere, until the list has to be new.
    """
    listed = keyring.list()
    left = listed.valid_until - now
    soon = left < (listed.valid_until - listed.issued) // 4
    if left <= 0:
        yield fail("key list", f"its signature expired {duration(-left)} ago", _TEND)
    elif soon:
        yield warn("key list", f"its signature expires in {duration(left)}", _TEND)
    else:
        yield ok("key list", f"its signature is valid for {duration(left)} more")
    away = (
        f"not in {keyring.directory}; needed to sign the list before "
        f"{moment(listed.valid_until)} UTC"
    )
    if keyring.has_identity or not soon:
        yield ok("identity", "with the keys" if keyring.has_identity else away)
    else:
        rotate = f"shoal keys rotate {keyring.directory} --identity FILE"
        yield warn("identity", away, f"{rotate}, or start the service with --identity FILE")


def _keys(keyring: Keyring, now: int) -> Iterator[Finding]:
    """Every key; without one in use and its secret, nothing that is sealed now can be opened.

    A lost secret of a key to come is a failure that stops nothing yet; few seal for an expired one.
    """
    keys, lacking = keyring.list().keys, keyring.lacking()
    used = {key.suite for key in keys if key.at(now).state is KeyState.ACTIVE}
    unused = sorted({key.suite for key in keys} - used)
    if unused:
        advice = "rotate the keys (shoal keys rotate), or correct the clock"
        yield fail("keys", f"no key in use for {', '.join(unused)}", advice, stops=True)
    for key in keys:
        if key.number not in lacking:
            yield _key(key, now)
            continue
        name, advice = f"key {key.number}", regain(keyring, key.number)
        detail = (
            f"{key.state}, and its secret {lacking[key.number]}: nothing sealed for it can "
            f"be decrypted ({keyring.secret_path(key.number)})"
        )
        if key.state is KeyState.EXPIRED:
            yield warn(name, detail, advice)
        else:
            yield fail(name, detail, advice, stops=key.state is KeyState.ACTIVE)


def _key(key: KeyInfo, now: int) -> Finding:
    name = f"key {key.number}"
    age = f"{duration(now - key.created)} old"
    if key.state is KeyState.ACTIVE:
        left = key.expires_at - now
        if left <= 0:
            detail = f"in use, {age}, {duration(-left)} overdue for replacement"
            return warn(name, detail, _TEND)
        return ok(name, f"in use, {age}, for {duration(left)} more")
    if key.state is KeyState.PENDING:
        return ok(name, f"published, will be in use in {duration(key.active_from - now)}")
    if key.state is KeyState.DELETED:
        return ok(name, "deleted, still listed until the list is signed again")
    return ok(name, f"expired, {age}, still decrypts what was sealed before")


def _protection(keyring: Keyring) -> Iterator[Finding]:
    try:
        protection = keyring.protection
    except KeyringError:
        return  # nothing is left of the secrets, which was said
    if protection == "none":
        advice = "for real answers, make keys protected by a passphrase or a key file"
        yield warn("protection", "the secrets are stored unencrypted", advice)
    else:
        yield ok("protection", f"by {protection}")


def key_figures(keyring: Keyring, clock: Clock = system_clock) -> Iterator[Figure]:
    """How old each key is, how long it is still used, and how many would open nothing."""
    now = clock()
    for key in keyring.list().keys:
        labels = {"key": str(key.number), "state": key.at(now).state.value}
        yield figure("key_age_seconds", max(0, now - key.created), **labels)
        yield figure("key_active_seconds_left", max(0, key.expires_at - now), **labels)
    yield figure("missing_secrets", len(keyring.lacking()))


# The store


def _store(home: Home, database: Database) -> Iterator[Finding]:
    """Whether it answers, has the tables of this version, and the directory belongs to it."""
    database.require(home.role)
    yield ok("store", f"{database.dialect.name}, revision {database.revision(home.role)}")
    with database.read() as connection:
        bound = connection.scalar(sa.select(common.store.c.bound))
    if not bound:
        return
    try:
        StoreId(database, home.directory).check()
    except StoreVersionError as error:
        yield fail("directory", error.found, error.advice, stops=True)
    else:
        yield ok("directory", "belongs to the database")


def _surveys(
    home: Home, surveys: list[Survey], keyring: Keyring | None, now: int
) -> Iterator[Finding]:
    if not surveys:
        advice = f"add one: shoal survey add FILE --to {home.directory}"
        yield warn("surveys", "none", advice)
    for survey in surveys:
        name = f"survey {short(survey.id)}"
        party = survey.shuffler if home.role == "shuffler" else survey.analyzer
        if keyring is not None and party.fingerprint != keyring.fingerprint:
            advice = "make the survey again with the fingerprint that shoal keys show prints"
            yield fail(name, f"names another {home.role}'s keys", advice)
        elif keyring is not None and (finding := _schedule(survey, keyring, now)) is not None:
            yield finding
        elif now < survey.not_before:
            yield ok(name, f"begins in {duration(survey.not_before - now)}")
        elif now > survey.not_after:
            yield ok(name, f"over since {duration(now - survey.not_after)}")
        else:
            yield ok(name, f"open for {duration(survey.not_after - now)} more")


def _schedule(survey: Survey, keyring: Keyring, now: int) -> Finding | None:
    """Whether the analyzer has its keys for as long as a batch may need them."""
    max_age = survey.batches.max_age
    if keyring.role != "analyzer" or now > survey.not_after + max_age:
        return None
    name, expired = f"survey {short(survey.id)}", keyring.schedule.expired
    if expired < max_age:
        detail = (
            f"a batch may wait {duration(max_age)}, but its key is deleted after "
            f"{duration(expired)}"
        )
        return fail(name, detail, "make keys with a longer --expired, then make the survey again")
    life = survey.not_after - survey.not_before
    if survey.batches.small == "carry" and life > longest_carried(keyring):
        detail = (
            f"open for {duration(life)}: the list cannot hold all its keys, so the oldest are "
            "deleted"
        )
        advice = "make keys with a longer --active, or a survey whose small batches are deleted"
        return warn(name, detail, advice)
    return None


def _tokens(database: Database, now: int) -> Iterator[Finding]:
    with database.read() as connection:
        rows = connection.execute(sa.select(common.tokens.c.label, common.tokens.c.expires)).all()
    for row in rows:
        left = row.expires - now
        name, advice = f"token {row.label}", "make a new one: shoal keys token"
        if left <= 0:
            yield warn(name, f"expired {duration(-left)} ago", advice)
        elif left < SOON:
            yield warn(name, f"expires in {duration(left)}", advice)
        else:
            yield ok(name, f"valid for {duration(left)} more")


# The codes of people invited


def _codes(codes: Codes, now: int) -> Iterator[Finding]:
    """How many there are for every survey that is not over: without any nobody can answer."""
    for survey in codes.surveys.all():
        if not survey.admission.code_bytes or now > survey.not_after:
            continue
        name, totals = f"codes of {short(survey.id)}", codes.totals(survey.id)
        counted = f"{totals.registered:,} of {totals.places:,} registered"
        if totals.registered:
            yield ok(name, counted)
        else:
            advice = "register the file of codes that shoal invite wrote: shoal invite add DIR FILE"
            yield warn(name, f"{counted}: nobody can answer", advice)


# The shuffler's copies of the analyzers' keys: without them devices wait, and send nothing


def copy_findings(surveys: Iterable[Survey], key_lists: KeyLists, now: int) -> Iterator[Finding]:
    """The copy of every analyzer of a survey that is not over, and whether one contradicted.

    Nothing of it stops the service: reports that were sealed before are taken without any copy.
    """
    parties = {
        each.analyzer.fingerprint: each.analyzer for each in surveys if now <= each.not_after
    }
    for name, party in parties.items():
        check = f"keys of {party.url}"
        copy = key_lists.find(name)
        if copy is None:
            yield warn(check, "there is no copy yet", _REACH)
        elif copy.valid_until < now:
            yield warn(check, "the copy's signature has expired", _REACH)
        elif not copy.is_usable(now):
            ahead = -(-(copy.issued - now) // DAY)
            yield fail(check, f"the copy's date is {ahead} days ahead of this clock", _AHEAD)
        else:
            days = (copy.valid_until - now) // DAY
            yield ok(check, f"copied, its signature is valid for {days} more days")
    for each in key_lists.contradictions():
        detail = f"{each.fingerprint[:_SHOWN]}… signed lists that contradict each other"
        advice = (
            f"{each.reason}: both lists are in the table contradictions; ask the analyzer's "
            "operator"
        )
        yield fail("analyzer keys", detail, advice)


def copy_figures(surveys: Iterable[Survey], key_lists: KeyLists, now: int) -> Iterator[Figure]:
    """How many analyzers' lists are lacking, and how many were refused as contradictions."""
    names = {each.analyzer.fingerprint for each in surveys if now <= each.not_after}
    copies = [key_lists.find(name) for name in names]
    lacking = sum(copy is None or not copy.is_usable(now) for copy in copies)
    yield figure("lacking_key_lists", lacking)
    yield figure("contradicting_key_lists", len(key_lists.contradictions()))


# Work that waits


def _shuffler_waits(database: Database, surveys: Surveys, now: int) -> Iterator[Finding]:
    """Reports nobody opens, batches nobody mixes, batches nobody collects."""
    extents, batches, tally = schema.extents.c, schema.batches.c, schema.counters.c
    count = sa.select(sa.func.count())
    with database.read() as connection:
        sums = sa.select(sa.func.sum(extents.count)).group_by(extents.survey, extents.key)
        waiting = max(connection.scalars(sums), default=0)
        leased = connection.scalar(
            count.where(Leases(database, schema.extents, lambda: now).worked_on())
        )
        tried = connection.scalar(count.where(extents.lease_until > now))
        living = (schema.OPEN, schema.SEALED, schema.SHUFFLED, schema.RELEASED)
        columns = (batches.id, batches.survey, batches.state, batches.since, batches.closed)
        rows = connection.execute(sa.select(*columns).where(batches.state.in_(living))).all()
        by_name = sa.select(tally.name, sa.func.sum(tally.value)).group_by(tally.name)
        totals = {str(name): int(total) for name, total in connection.execute(by_name)}
    if not waiting or leased:
        yield ok("opening", "a worker is opening reports" if waiting else "nothing waits")
    elif tried:
        detail = "a worker failed to open the waiting reports, and retries in some minutes"
        yield warn(
            "opening",
            detail,
            "fix the failed checks here, and look for work_failed in the worker's log",
        )
    elif waiting < GATHER_REPORTS:
        yield ok("opening", "reports wait for more, to be opened together")
    else:
        yield warn("opening", "reports wait, and no worker is opening them", _START_WORKER)
    for row in rows:
        name, age = f"batch {row.id[:8]}", now - (row.closed or now)
        if row.state == schema.OPEN:
            max_age = surveys.numbered(row.survey).survey.batches.max_age
            overdue = 0 if row.since is None else now - row.since - max_age
            if overdue > _STUCK:
                detail = f"should have closed {duration(overdue)} ago"
                yield warn(name, detail, _START_WORKER)
        elif row.state == schema.SEALED and age > _STUCK:
            yield warn(name, "closed, but not mixed yet", _START_WORKER)
        elif row.state != schema.SEALED and age > _UNCOLLECTED:
            detail = f"ready for {duration(age)}, but not collected"
            yield warn(name, detail, "check that the analyzer runs, and that its token is valid")
        else:
            yield ok(name, row.state.lower())
    for counter, name, what in _LOSSES:
        if totals.get(counter):
            advice = "look for disk errors in the system's log"
            yield warn(name, f"{totals[counter]:,} reports {what}", advice)


def _analyzer_waits(database: Database) -> Iterator[Finding]:
    """Batches that do not go on."""
    rows = analyzer_schema.collections.c
    with database.read() as connection:
        batches = connection.execute(
            sa.select(rows.batch, rows.state, rows.reason, rows.warning, rows.acknowledged)
        ).all()
    on_their_way = 0
    for row in batches:
        if row.state == analyzer_schema.REFUSED:
            advice = (
                "nothing is lost, the shuffler keeps it: fix the cause, then run shoal "
                f"collect DIR --again {row.batch[:8]}"
            )
            yield warn(f"batch {row.batch[:8]}", f"refused: {row.reason}", advice)
        elif row.state == analyzer_schema.HELD:
            advice = (
                "ask the shuffler's operator about bursts from one network; to publish it "
                f"anyway: shoal collect DIR --release {row.batch[:8]}"
            )
            yield warn(f"batch {row.batch[:8]}", f"held: {row.warning}", advice)
        elif not (row.state == analyzer_schema.PUBLISHED and row.acknowledged):
            on_their_way += 1
    if on_their_way:
        advice = "they continue while shoal serve analyzer (or shoal collect) runs"
        yield warn("collecting", f"batches in progress: {on_their_way}", advice)
    else:
        plural = "es" * (len(batches) != 1)
        yield ok("collecting", f"{len(batches)} batch{plural} so far, nothing waits")


def pass_findings(ages: Mapping[str, float]) -> Iterator[Finding]:
    """When every shuffler was last gone through whole; results are shown in any case."""
    for url, age in ages.items():
        if age <= _STUCK:
            yield ok("last pass", f"{url} {duration(age)} ago")
            continue
        detail = f"{url} {duration(age)} ago" if math.isfinite(age) else f"{url} never"
        yield warn("last pass", detail, _NOT_PASSED)


def pass_figures(ages: Mapping[str, float]) -> Iterator[Figure]:
    """The same in seconds."""
    for url, age in ages.items():
        yield figure("last_pass_age_seconds", age, shuffler=url)


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
            detail = f"{what} wait for this key, and its secret {why}"
            yield fail(f"{what} for key {number}", detail, regain(keyring, number))


# Metrics of what the stores have


def short(survey: SurveyId) -> str:
    """The first digits of a survey's name."""
    return str(survey)[:_SHOWN]


def batch_figures(store: ShufflerStore) -> Iterator[Figure]:
    """What may be said of a shuffler's batches: of closed ones, and quarters of the open ones.

    Reports that did not open are in no batch, but they come among others: how many there were is
    told as it was when a batch closed last.
    """
    batches = store.batches
    for survey in store.surveys.all():
        each, total = partial(figure, survey=short(survey.id)), batches.counters(survey.id)
        for state, count in sorted(batches.states(survey.id).items()):
            yield each("batches", count, state=state)
        for reason, count in batches.unopened(survey.id).items():
            yield each("unopened_reports", two_digits(count), reason=reason)
        yield each("closed_batches", total.get("batches", 0))
        yield each("reports", two_digits(total.get("reports", 0)))
        yield each("expired_batches", total.get("expired_batches", 0))
        size, reached = batches.last_size(survey.id), store.progress.of(survey.id).share
        if size is not None:
            yield each("last_batch_reports", two_digits(size))
        if reached is not None:
            yield each("minimum_reached_ratio", reached)


def ledger_figures(store: AnalyzerStore) -> Iterator[Figure]:
    """What was published, what it cost, and what was left out of it."""
    for survey in store.surveys.all():
        each, spent = partial(figure, survey=short(survey.id)), store.ledger.spent(survey.id)
        yield each("ledger_epsilon", spent["epsilon"] or 0.0)
        analyzer = math.inf if spent["analyzer_epsilon"] is None else spent["analyzer_epsilon"]
        yield each("ledger_analyzer_epsilon", analyzer if spent["opened"] else 0.0)
        yield each("published_batches", spent["batches"])
        states: Counter[str] = Counter()
        rejected: Counter[str] = Counter()
        for collection in store.collections.of(survey.id):
            states[collection.state] += 1
            if isinstance(collection, Opened):
                rejected.update(collection.rejected)
        for state, count in sorted(states.items()):
            yield each("collections", count, state=state)
        for reason, count in rejected.items():
            yield each("rejected_records", two_digits(count), reason=reason)
