"""The shuffler's store on PostgreSQL."""

from __future__ import annotations

import pytest

from service.store_contract import StoreContract, rows_of, send
from shoal.service.errors import StoreUnavailableError
from shoal.service.shuffler import tables as schema


class TestPostgresql(StoreContract):
    @pytest.fixture
    def url(self, postgres_url):
        return postgres_url

    def test_it_is_durable(self, database):
        with database.read() as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"

    def test_without_its_server_it_acknowledges_nothing(
        self, postgres_server, database, store, survey
    ):
        send(store, survey, range(5))
        postgres_server.stop()
        try:
            for attempt in (
                lambda: send(store, survey, range(10)),
                lambda: store.reports.claim(10, 60),
                store.batches.advance,
            ):
                with pytest.raises(StoreUnavailableError):
                    attempt()
        finally:
            postgres_server.ensure_postgres_running()
        assert rows_of(database, schema.waiting_tags) == 5
        assert send(store, survey, range(10)) == 5
