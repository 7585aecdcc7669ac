"""The shuffler's store on SQLite."""

from __future__ import annotations

import sqlite3

import pytest

from service.store_contract import LEASE, StoreContract, make_reports, rows_of, send
from shoal.service.errors import StoreUnavailableError
from shoal.service.store import Database, Receipt, ShufflerStore, schema


class TestSqlite(StoreContract):
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path / 'store.sqlite'}"

    @pytest.mark.usefixtures("store")
    def test_a_locked_database_acknowledges_nothing(self, url, tmp_path, survey, clock):
        impatient = Database(url, patience=0.1)
        other = ShufflerStore(impatient, tmp_path / "shuffler", clock, node="other")
        holder = sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="locked"):
            send(other, survey, range(10))
        holder.execute("ROLLBACK")
        holder.close()
        assert send(other, survey, range(10)) == Receipt(10, 0)
        other.close()
        impatient.close()

    def test_a_full_database_acknowledges_nothing(self, database, store, survey):
        with database.read() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 2}")
        with pytest.raises(StoreUnavailableError, match="full"):
            send(store, survey, range(5000))
        assert rows_of(database, schema.tags) == 0
        with database.read() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count=1000000")
        assert send(store, survey, range(5000)) == Receipt(5000, 0)
        claim = store.claim_extents(5000, LEASE)
        assert store.read(claim) == make_reports(survey, range(5000))

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
