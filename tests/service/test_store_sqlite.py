"""The shuffler's store on SQLite."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys

import pytest

from service.store_contract import LEASE, StoreContract, make_reports, rows_of, send
from shoal.service.db import Database
from shoal.service.errors import StoreUnavailableError
from shoal.service.shuffler import tables as schema
from shoal.service.shuffler.store import ShufflerStore


class TestSqlite(StoreContract):
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path / 'store.sqlite'}"

    @pytest.mark.usefixtures("store")
    def test_a_locked_database_acknowledges_nothing(self, url, tmp_path, survey, clock):
        impatient = Database(url, timeout=0.1)
        other = ShufflerStore(impatient, tmp_path / "shuffler", clock)
        holder = sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="locked"):
            send(other, survey, range(10))
        holder.execute("ROLLBACK")
        holder.close()
        assert send(other, survey, range(10)) == 10
        other.close()
        impatient.close()

    def test_a_full_database_acknowledges_nothing(self, database, store, survey):
        with database.read() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 2}")
        with pytest.raises(StoreUnavailableError, match="full"):
            send(store, survey, range(5000))
        assert rows_of(database, schema.waiting_tags) == 0
        with database.read() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count=1000000")
        assert send(store, survey, range(5000)) == 5000
        claim = store.reports.claim(5000, LEASE)
        assert store.reports.read(claim) == make_reports(survey, range(5000))

    @pytest.mark.parametrize("name", ["store.sqlite", "store.sqlite-wal"])
    @pytest.mark.parametrize("replaced", [False, True])
    def test_files_that_are_gone_acknowledge_nothing(
        self, database, store, survey, tmp_path, name, replaced
    ):
        """What is open still takes everything, and all of it would be gone after a restart."""
        assert send(store, survey, range(10)) == 10
        store.id.check()
        path, away = tmp_path / name, tmp_path / "away"
        path.rename(away)
        if replaced:
            shutil.copy(away, path)
        for _ in range(2):
            with pytest.raises(StoreUnavailableError, match=f"{name} was removed or replaced"):
                send(store, survey, range(10, 20))
        for look in (store.id.check, lambda: database.require("shuffler")):
            with pytest.raises(StoreUnavailableError, match="restart this process"):
                look()
        with pytest.raises(StoreUnavailableError):
            store.reports.claim(100, LEASE)
        away.replace(path)
        store.id.check()
        assert send(store, survey, range(20, 25)) == 5

    def test_a_connection_that_finds_other_files_is_not_taken_for_the_first(
        self, database, store, survey, tmp_path
    ):
        send(store, survey, range(10))
        with database.read():
            (tmp_path / "store.sqlite").rename(tmp_path / "away")
            with pytest.raises(StoreUnavailableError), database.write():
                pass  # another connection than the one that reads
        with pytest.raises(StoreUnavailableError):
            store.id.check()

    def test_what_others_do_to_the_files_in_order_is_no_mishap(
        self, database, store, survey, tmp_path
    ):
        path = tmp_path / "store.sqlite"
        send(store, survey, range(10))
        script = (
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
            "c.execute('PRAGMA wal_checkpoint(TRUNCATE)').fetchall(); c.execute('VACUUM'); "
            "c.close()"
        )
        subprocess.run([sys.executable, "-c", script, str(path)], check=True)
        assert send(store, survey, range(10, 20)) == 10
        database.close()
        assert not (tmp_path / "store.sqlite-wal").exists()  # the last one removes the log
        (tmp_path / "filler").touch()  # and its number on the disk goes to another file
        store.id.check()
        assert send(store, survey, range(20, 30)) == 10

    def test_it_is_durable_and_forgets_what_is_deleted(self, database, tmp_path):
        with database.read() as connection:
            settings = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("journal_mode", "synchronous", "secure_delete", "foreign_keys")
            }
        assert settings == {
            "journal_mode": "wal",
            "synchronous": 2,
            "secure_delete": 1,
            "foreign_keys": 1,
        }
        for path in tmp_path.glob("store.sqlite*"):
            assert path.stat().st_mode & 0o077 == 0
