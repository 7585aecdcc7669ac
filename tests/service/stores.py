"""What makes a shuffler's store do something, with reports that are made up: it opens none."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

import sqlalchemy as sa

from factories import example
from shoal.service.db import files, migrations
from shoal.service.db import tables as common
from shoal.service.shuffler import tables as schema
from shoal.service.shuffler.reports import Arrival
from shoal.service.survey import Batches
from shoal.service.wire import Wire

START = 1_700_000_000
HOUR = 3600
LEASE = 600


def make_survey(name="colour", *, minimum=10, target=20, max_age=HOUR, small="carry", days=30):
    batches = Batches(minimum=minimum, target=target, max_age=max_age, small=small)
    return example(name=name, opens=START, days=days, batches=batches)


def make_reports(survey, numbers):
    """As many different reports, of the right length."""
    size = Wire.of(survey).report_bytes
    return b"".join((sha256(b"%d" % number).digest() * size)[:size] for number in numbers)


def records(survey, reports):
    return bytes(Wire.of(survey).opened_bytes * reports)


def send(store, survey, numbers, key=0):
    """How many of these reports are new."""
    return store.reports.receive([Arrival(survey.id, key, make_reports(survey, numbers))]).new


def open_all(store, *, inner_key=0, rejected=0):
    """Open what waits; the first ``rejected`` reports of every claim do not open."""
    opened = 0
    while claim := store.reports.claim(1000, LEASE):
        valid = claim.count - rejected
        survey = store.surveys.get(claim.survey)
        store.reports.finish(claim, {inner_key: records(survey, valid)} if valid else {})
        opened += claim.count
    return opened


def fill(store, survey, numbers, **options):
    send(store, survey, numbers)
    return open_all(store, **options)


def draft(batch):
    """Write a batch's file; its digest."""
    with batch.draft.open("wb") as file:
        file.write(batch.header.to_bytes())
        for part in batch.parts:
            file.write(part.read_bytes())
    return sha256(batch.draft.read_bytes()).hexdigest()


def shuffle(store):
    batch = store.batches.claim(LEASE)
    digest = draft(batch)
    store.batches.finish(batch, digest)
    return batch.header.batch, digest


def states(database):
    with database.read() as connection:
        rows = connection.execute(sa.select(schema.batches.c.state, schema.batches.c.valid))
        return sorted((row.state, row.valid) for row in rows)


def rows_of(database, table):
    with database.read() as connection:
        return connection.scalar(sa.select(sa.func.count()).select_from(table))


def migrated_under_load(database, other, survey, *, begin):
    """Bring an older store up to date while another connection adds extents; how many it did."""
    database.migrate("shuffler", begin)
    with database.write() as connection:
        row = {"number": 1, "id": survey.id.digest, "configuration": survey.to_bytes()}
        connection.execute(common.surveys.insert(), row)
    begun, done = threading.Event(), threading.Event()
    insert = sa.text(
        "INSERT INTO extents (survey, key, segment, start, count) VALUES (1, 0, 'x', :start, 1)"
    )

    def add():
        added = 0
        while not done.is_set() or added < 5:
            with other.write() as connection:
                connection.execute(insert, {"start": added})
            added += 1
            begun.set()
        return added

    with ThreadPoolExecutor(1) as pool:
        adding = pool.submit(add)
        assert begun.wait(60)
        assert database.migrate("shuffler") == migrations.head("shuffler")
        done.set()
        return adding.result()


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def dying_at(place):
    def reached(name):
        if name == place:
            raise ZeroDivisionError

    return reached


def full_disk(patch, call):
    def full(*_arguments):
        raise OSError(28, "No space left on device")

    if call == "write":
        patch.setattr(files.os, "write", full)
    else:
        patch.setattr(files, "sync_data", full)


def ids(database, *wanted):
    query = sa.select(schema.batches.c.id)
    if wanted:
        query = query.where(schema.batches.c.state.in_(wanted))
    with database.read() as connection:
        return list(connection.scalars(query))
