"""The same drill with a real PostgreSQL: dumped as of one snapshot, restored into another one."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict

from service_site import CROWD, Site
from shoal.errors import RefusedError
from shoal.service.errors import StoreUnavailableError
from shoal.service.ops import backup
from shoal.service.ops.backup import Writer, check
from shoal.service.ops.restore import restore


@pytest.fixture
def site(tmp_path, postgres_url):
    """Its shuffler has a database on a server."""
    found = Site(tmp_path, store=postgres_url)
    yield found
    found.close()


@pytest.mark.usefixtures("programs")
def test_a_store_on_a_server_comes_back(site, postgres_url, another_postgres_url, monkeypatch):
    site.send(site.reports(CROWD))
    site.work()
    kept = site.reports(CROWD - 2)
    site.send(kept[:5])
    site.work()
    site.send(kept[5:])
    late, real = site.reports(4), Writer.add

    def add(writer, name, path, ranges=None):
        """Reports that come once the dump is made are not in it, nor in the files."""
        if name == "store.dump":
            site.send(late)
        return real(writer, name, path, ranges)

    monkeypatch.setattr(Writer, "add", add)
    path = site.back_up("shuffler", store=postgres_url)
    assert check(path).manifest.database == "postgresql"
    before = site.batches()
    site.clock.advance(60)
    site.shuffler.close()
    there = {"store": another_postgres_url, "directory": site.directory / "b"}
    done = site.bring_back("shuffler", waiting="keep", **there)
    assert len(done.kept) == 1
    assert site.batches() == before
    assert site.send(kept) == (0, 0)
    assert site.send(late) == (4, 0)
    site.work()
    assert site.shuffler.tallies()["opened"] == 2 * CROWD + 2
    assert site.send(site.reports(1)) == (1, 0)  # numbers of rows go on where they were
    assert len(site.collect().published) == 2
    third = site.directory / "c"
    asked = site.restoring("shuffler", store=another_postgres_url, directory=third, waiting="keep")
    with pytest.raises(
        RefusedError, match="the database is not empty; give the address of an empty"
    ):
        restore(**asked, clock=site.clock)
    assert not third.exists()


def test_without_the_programs_it_says_what_to_install(site, postgres_url, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RefusedError, match="cannot run pg_dump: it is not on the PATH; install"):
        site.back_up("shuffler", store=postgres_url)


@pytest.mark.usefixtures("programs")
def test_a_server_that_does_not_answer_is_one_line(site, postgres_url):
    away = sa.make_url(postgres_url).set(database="nowhere")
    with pytest.raises(StoreUnavailableError, match="nowhere"):
        site.back_up("shuffler", store=away.render_as_string(hide_password=False))


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
