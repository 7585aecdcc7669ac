"""Whether what a service needs is installed: asked before anything of it is imported."""

from __future__ import annotations

from importlib.util import find_spec

from shoal.errors import MissingExtraError

SERVER = ("alembic", "httpx", "prometheus_client", "sqlalchemy", "starlette", "uvicorn")
POSTGRES = ("psycopg",)


def missing(modules: tuple[str, ...]) -> list[str]:
    """Those of the modules that cannot be imported here."""
    return [name for name in modules if find_spec(name) is None]


def need_server(feature: str) -> None:
    """Refuse in one line where the server's packages are not installed."""
    if missing(SERVER):
        raise MissingExtraError(feature, "server")


def need_party(feature: str, url: str | None) -> None:
    """The same for what opens a party's database; the driver of PostgreSQL, if that is its."""
    need_server(feature)
    if url is not None and url.startswith("postgresql") and missing(POSTGRES):
        raise MissingExtraError(f"{feature} with PostgreSQL", "postgres")
