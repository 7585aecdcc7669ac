"""A step after the newest tables: what the next version would do to them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

import pytest

from shoal.service.db import migrations

BEFORE = {tree: migrations.head(tree) for tree in migrations.TREES}
COLUMN = "next"
SCRIPT = """
import sqlalchemy as sa
from alembic import op

revision, down_revision = {revision!r}, {before!r}
branch_labels = depends_on = None


def upgrade():
    column = sa.Column({column!r}, sa.Integer, nullable=False, server_default="0")
    op.add_column({table!r}, column)
"""


@dataclass(frozen=True)
class NextStep:
    """Of the shuffler's tables: where it begins and ends, and the column it adds to the extents."""

    before: str = BEFORE["shuffler"]
    revision: str = f"{int(BEFORE['shuffler']) + 1:04}"
    column: str = COLUMN


@pytest.fixture
def next_step(tmp_path, monkeypatch):
    """It adds a column to the shuffler's extents, and one to the analyzer's collections."""
    scripts = tmp_path / "scripts"
    shutil.copytree(migrations._SCRIPTS, scripts)
    for tree, table in (("shuffler", "extents"), ("analyzer", "collections")):
        before = BEFORE[tree]
        revision = f"{int(before) + 1:04}"
        script = SCRIPT.format(revision=revision, before=before, column=COLUMN, table=table)
        (scripts / tree / f"r{revision}_next.py").write_text(script, encoding="utf-8")
    monkeypatch.setattr(migrations, "_SCRIPTS", scripts)
    migrations._scripts.cache_clear()
    yield NextStep()
    migrations._scripts.cache_clear()
