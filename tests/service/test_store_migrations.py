"""Tables change under a store that works, and never by accident."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from service.stores import (
    LEASE,
    START,
    make_reports,
    make_survey,
    migrated_under_load,
    send,
)
from service_site import at_once
from shoal.errors import InvalidArgumentError
from shoal.service.analyzer import tables as analyzer_schema
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.clock import ManualClock
from shoal.service.db import Database, migrations
from shoal.service.db import tables as common
from shoal.service.db.database import FILE
from shoal.service.errors import StoreUnavailableError, StoreVersionError
from shoal.service.shuffler import tables as schema
from shoal.service.shuffler.store import ShufflerStore

FROZEN = Path(__file__).parent / "frozen"
pytestmark = pytest.mark.usefixtures("every_migration")


@pytest.fixture
def database(url):
    database = Database(url, timeout=60)
    yield database
    database.close()


@pytest.fixture
def other(database):
    """Another process."""
    other = Database(database._engine.url.render_as_string(hide_password=False), timeout=60)
    yield other
    other.close()


def differences(database, tree, metadata):
    with database.read() as connection:
        options = {"version_table": f"{tree}_revision", "compare_server_default": True}
        context = MigrationContext.configure(connection, opts=options)
        return compare_metadata(context, [common.METADATA, metadata])


@pytest.mark.parametrize(
    ("tree", "metadata"),
    [("shuffler", schema.METADATA), ("analyzer", analyzer_schema.METADATA)],
)
def test_a_new_store_has_the_tables_of_this_version(database, tree, metadata):
    assert database.revision(tree) is None
    assert database.migrate(tree) == migrations.head(tree) == database.revision(tree)
    database.require(tree)
    assert differences(database, tree, metadata) == []
    assert database.migrate(tree) == migrations.head(tree)


@pytest.mark.parametrize(
    ("revision", "later"),
    [
        ("0004", [schema.waiting_tags, schema.recent_tags, *schema.OF_PEOPLE]),
        ("0005", [schema.recent_tags, *schema.OF_PEOPLE]),
    ],
    ids=["before gatherings", "before codes"],
)
def test_a_shufflers_older_tables_are_brought_up_to_date(database, revision, later):
    database.migrate("shuffler")
    with database.write() as connection:
        for table in later:
            table.drop(connection)
        older = sa.text("UPDATE shuffler_revision SET version_num = :revision")
        connection.execute(older, {"revision": revision})
    assert database.revision("shuffler") == revision
    assert database.migrate("shuffler") == migrations.head("shuffler")
    assert differences(database, "shuffler", schema.METADATA) == []


BEFORE_RECENT = (
    "DROP TABLE recent_tags",
    "DROP TABLE recent_codes",
    "DROP TABLE codes",
    "DROP TABLE waiting_codes",
    "DROP TABLE parts",
    (
        "CREATE TABLE codes (survey INTEGER NOT NULL, hash BLOB NOT NULL, state INTEGER NOT NULL, "
        "bound BLOB, PRIMARY KEY (survey, hash))"
    ),
    (
        "CREATE TABLE waiting_codes (survey INTEGER NOT NULL, hash BLOB NOT NULL, "
        "bound BLOB NOT NULL, extent BIGINT NOT NULL, PRIMARY KEY (survey, hash))"
    ),
    "CREATE INDEX waiting_codes_of_an_extent ON waiting_codes (extent)",
    (
        "CREATE TABLE parts (name TEXT NOT NULL PRIMARY KEY, batch TEXT NOT NULL "
        "REFERENCES batches (id), count BIGINT NOT NULL)"
    ),
    "CREATE INDEX ix_parts_batch ON parts (batch)",
    "UPDATE shuffler_revision SET version_num = '0006'",
)


def test_what_led_from_a_code_to_a_report_goes(database):
    """Which codes are spent, which wait and which parts there are stays, in no order."""
    database.migrate("shuffler")
    kind = {"sqlite": "BLOB", "postgresql": "BYTEA"}[database.dialect.name]
    codes = [(b"%016d" % number, number % 3, bytes([number]) * 16) for number in (7, 2, 5, 3)]
    codes += [(b"%016d" % 4, 0, None)]
    batch = {"id": "b", "survey": 1, "inner_key": 0, "state": "OPEN", "valid": 3}
    parts = [("two", 1000), ("one", 999)]
    with database.write() as connection:
        for statement in BEFORE_RECENT:
            connection.execute(sa.text(statement.replace("BLOB", kind)))
        survey = {"number": 1, "id": b"1" * 32, "configuration": b""}
        connection.execute(common.surveys.insert(), survey)
        connection.execute(schema.batches.insert(), batch)
        for hashed, state, bound in codes:
            values = {"hash": hashed, "state": state, "bound": bound}
            connection.execute(
                sa.text("INSERT INTO codes VALUES (1, :hash, :state, :bound)"), values
            )
        waiting = "INSERT INTO waiting_codes VALUES (1, :hash, :hash, 77)"
        connection.execute(sa.text(waiting), {"hash": b"%016d" % 4})
        for name, count in parts:
            row = {"name": name, "count": count}
            connection.execute(sa.text("INSERT INTO parts VALUES (:name, 'b', :count)"), row)
    assert database.migrate("shuffler") == migrations.head("shuffler")
    assert differences(database, "shuffler", schema.METADATA) == []
    place = "ctid" if database.dialect.name == "postgresql" else "hash"
    with database.read() as connection:
        ordered = sa.select(schema.codes).order_by(sa.text(place))
        found = [(bytes(row.hash), row.state, row.spent) for row in connection.execute(ordered)]
        waits = connection.execute(sa.select(schema.waiting_codes)).all()
        grow = dict(connection.execute(sa.select(schema.parts.c.name, schema.parts.c.grows)).all())
    assert found == sorted((hashed, state, bound is not None) for hashed, state, bound in codes)
    assert [(row.survey, bytes(row.hash), row.extent) for row in waits] == [(1, b"%016d" % 4, 77)]
    assert grow == {"one": True, "two": False}
    if database.dialect.name == "sqlite":  # zeros are where they were
        content = Path(database._engine.url.database).read_bytes()
        assert not [bound for _, _, bound in codes if bound is not None and bound in content]


def test_an_analyzers_first_tables_are_brought_up_to_date(database):
    database.migrate("analyzer")
    row = {"survey": 1, "batch": "11" * 16, "request": "22" * 16, "digest": "33" * 32, "size": 1}
    with database.write() as connection:
        connection.execute(common.surveys.insert(), {"number": 1, "id": b"1", "configuration": b""})
        for table, column in (("collections", "warning"), ("results", "published")):
            connection.execute(sa.text(f"ALTER TABLE {table} DROP COLUMN {column}"))
        result = {"batch": "11" * 16, "document": b'{"published":3600,"life":{"published":1}}'}
        insert = sa.text(
            "INSERT INTO results (survey, batch, document) VALUES (1, :batch, :document)"
        )
        connection.execute(insert, result)
        if database.dialect.name == "postgresql":  # of SQLite there is a dump, below
            known = (
                "DROP CONSTRAINT known_state, ADD CONSTRAINT known_state CHECK (state <> 'HELD')"
            )
            connection.execute(sa.text(f"ALTER TABLE collections {known}"))
        connection.execute(sa.text("UPDATE analyzer_revision SET version_num = '0003'"))
    assert database.migrate("analyzer") == migrations.head("analyzer")
    assert differences(database, "analyzer", analyzer_schema.METADATA) == []
    with database.write() as connection:
        connection.execute(analyzer_schema.collections.insert(), row | {"state": "HELD"})
        assert connection.execute(
            sa.select(analyzer_schema.results.c.published)
        ).scalars().all() == [3600]
    with pytest.raises(sa.exc.IntegrityError), database.write() as connection:
        connection.execute(sa.text("UPDATE collections SET state = 'LOST'"))


@pytest.mark.parametrize(
    ("tree", "revision", "metadata"),
    [("shuffler", "0004", schema.METADATA), ("analyzer", "0003", analyzer_schema.METADATA)],
)
def test_a_store_made_before_the_first_steps_became_one_opens(tmp_path, tree, revision, metadata):
    """The dump is of a store that came to its revision by several steps."""
    path = tmp_path / "store.sqlite"
    dump = FROZEN / f"{tree}_{revision}.sql"
    with closing(sqlite3.connect(path)) as made:
        made.executescript(dump.read_text(encoding="utf-8"))
    database = Database(f"sqlite:///{path}")
    assert database.revision(tree) == revision
    assert database.migrate(tree) == migrations.head(tree)
    assert differences(database, tree, metadata) == []
    with database.read() as connection:
        name = connection.scalar(sa.select(common.store.c.id))
    (tmp_path / FILE).write_text(name, encoding="utf-8")
    store_of = ShufflerStore if tree == "shuffler" else AnalyzerStore
    store = store_of(database, tmp_path, ManualClock(1_800_000_000))
    (survey,) = store.surveys.all()
    (token,) = store.tokens.listed()
    assert token.survey == survey.id
    if tree == "shuffler":
        (batch,) = store.batches.listed(survey.id)
        assert (batch.state, batch.reports) == ("SHUFFLED", 30)
        assert store.reports.claim(10, LEASE).count == 2
        store.close()
    else:
        (document,) = store.results.survey(survey.id).documents
        assert store.ledger.spent(survey.id)["epsilon"] == document["epsilon"]
        (collection,) = store.collections.of(survey.id)
        assert collection.finished
        with database.write() as connection:
            connection.execute(analyzer_schema.collections.update().values(state="HELD"))
        assert store.collections.find(survey.id, collection.batch).state == "HELD"
    database.close()


def test_older_tables_are_refused_until_they_are_migrated(database, tmp_path, next_step):
    clock = ManualClock(START)
    with pytest.raises(StoreVersionError, match=r"is empty, .*--migrate"):
        ShufflerStore(database, tmp_path, clock)
    database.migrate("shuffler", next_step.before)
    with pytest.raises(StoreVersionError, match=rf"at revision {next_step.before}, .*--migrate"):
        ShufflerStore(database, tmp_path, clock)
    database.migrate("shuffler")
    ShufflerStore(database, tmp_path, clock)


def test_newer_tables_are_refused_and_left_alone(database, tmp_path):
    database.migrate("shuffler")
    with database.write() as connection:
        connection.execute(sa.text("UPDATE shuffler_revision SET version_num = '9999'"))
    for refused in (
        lambda: database.migrate("shuffler"),
        lambda: database.require("shuffler"),
        lambda: ShufflerStore(database, tmp_path, ManualClock(START)),
    ):
        with pytest.raises(StoreVersionError, match=r"9999, .* newer version of Shoal"):
            refused()
    with database.read() as connection:
        revision = connection.scalar(sa.text("SELECT version_num FROM shuffler_revision"))
    assert revision == "9999"


def test_shuffler_and_analyzer_share_no_database(database):
    database.migrate("shuffler")
    with pytest.raises(StoreVersionError, match="a database of its own"):
        database.migrate("analyzer")
    with pytest.raises(StoreVersionError, match="a database of its own"):
        database.require("analyzer")
    with pytest.raises(InvalidArgumentError):
        database.migrate("relay")


def test_a_live_store_is_migrated_and_keeps_what_it_has(database, other, tmp_path, next_step):
    """Reports of the old version wait, another connection adds more while the tables change."""
    survey = make_survey()
    added = migrated_under_load(database, other, survey, begin=next_step.before)
    (tmp_path / "shuffler" / "segments").mkdir(parents=True)
    (tmp_path / "shuffler" / "segments" / "x.segment").touch()
    store = ShufflerStore(database, tmp_path / "shuffler", ManualClock(START))
    claim = store.reports.claim(10**6, LEASE)
    assert (claim.survey, claim.count, claim.attempts) == (survey.id, added, 0)
    store.reports.dead_letter(claim)
    send(store, survey, range(3))
    assert store.reports.read(store.reports.claim(10, LEASE)) == make_reports(survey, range(3))
    store.close()


def test_a_step_that_fails_changes_nothing(database, monkeypatch, next_step):
    database.migrate("shuffler", next_step.before)
    from alembic import op

    real = op.add_column

    def failing(*arguments, **options):
        real(*arguments, **options)
        raise ZeroDivisionError

    monkeypatch.setattr(op, "add_column", failing)
    with pytest.raises(ZeroDivisionError):
        database.migrate("shuffler")
    monkeypatch.undo()
    assert database.revision("shuffler") == next_step.before
    with database.read() as connection:
        columns = {column["name"] for column in sa.inspect(connection).get_columns("extents")}
    assert next_step.column not in columns
    assert database.migrate("shuffler") == migrations.head("shuffler")


def test_two_that_migrate_at_once_both_succeed(database, other):
    ended = at_once(lambda i: (database, other)[i].migrate("shuffler"), 2)
    assert ended == [migrations.head("shuffler")] * 2
    assert differences(database, "shuffler", schema.METADATA) == []


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://x/y", "nonsense"])
def test_databases_of_other_kinds_are_refused(url):
    with pytest.raises(InvalidArgumentError, match="sqlite:///path or postgresql"):
        Database(url)


def test_a_password_is_not_in_the_refusal():
    with pytest.raises(InvalidArgumentError) as refused:
        Database("mysql://me:hunter2@host/db")
    assert "hunter2" not in str(refused.value)


def test_a_database_that_cannot_be_opened_is_unavailable(tmp_path):
    with pytest.raises(StoreUnavailableError, match="No such file"):
        Database(f"sqlite:///{tmp_path}/missing/store.sqlite")
    (tmp_path / "noise.sqlite").write_bytes(b"no database at all" * 100)
    database = Database(f"sqlite:///{tmp_path}/noise.sqlite")
    with pytest.raises(StoreUnavailableError, match="not a database"):
        database.migrate("shuffler")
    database.close()


def test_a_wrong_question_is_not_an_unavailable_store(database):
    database.migrate("shuffler")
    with pytest.raises(sa.exc.IntegrityError), database.write() as connection:
        connection.execute(common.surveys.insert(), {"id": None, "configuration": b""})
