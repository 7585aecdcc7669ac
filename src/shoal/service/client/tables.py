"""The tables of the outbox, and how those of earlier versions become them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.service.client import key_memory

VERSION = 3
# Columns of reports, by the version that first had them.
_NEWER = {"proxied": 2, "over": 3, "said": 3}


def _column(name: str) -> str:
    return f"{name} INTEGER NOT NULL DEFAULT 0"


_SCHEMA = f"""
CREATE TABLE surveys (
    id BLOB PRIMARY KEY, name TEXT NOT NULL, route BLOB NOT NULL, epsilon REAL NOT NULL,
    delta REAL NOT NULL, local_epsilon REAL NOT NULL, allowed INTEGER NOT NULL
);
CREATE TABLE reports (
    survey BLOB NOT NULL, job TEXT NOT NULL, occasion INTEGER NOT NULL, chunk INTEGER NOT NULL,
    state TEXT NOT NULL, outcome TEXT NOT NULL DEFAULT '', asked INTEGER NOT NULL,
    people INTEGER NOT NULL, waiting INTEGER NOT NULL, delivered INTEGER NOT NULL DEFAULT 0,
    messages BLOB, sealed BLOB, keys TEXT NOT NULL DEFAULT '', doubt INTEGER NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0, due INTEGER NOT NULL, {", ".join(map(_column, _NEWER))},
    PRIMARY KEY (survey, job, occasion, chunk)
);
CREATE TABLE jobs (
    survey BLOB NOT NULL, job TEXT NOT NULL, occasion INTEGER NOT NULL, people INTEGER NOT NULL,
    chunk INTEGER NOT NULL, secret BLOB, digest BLOB, PRIMARY KEY (survey, job, occasion)
);
CREATE TABLE consent (refused INTEGER NOT NULL);
"""


def prepared(run: Callable[[str], Any]) -> str | None:
    """Make the tables, or bring them up to this version, in a transaction; why not, if not."""
    (version,) = run("PRAGMA user_version").fetchone()
    if version > VERSION:
        return f"it is of version {version}, this program knows {VERSION}"
    if not version:
        for statement in (_SCHEMA + key_memory.SCHEMA).split(";"):
            run(statement)
    for column, since in _NEWER.items():
        if 0 < version < since:
            run(f"ALTER TABLE reports ADD COLUMN {_column(column)}")
    if version != VERSION:
        run(f"PRAGMA user_version = {VERSION}")
    return None
