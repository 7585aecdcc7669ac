"""The first tables of an analyzer: steps begin here. New stores are made by the newest version's."""

from __future__ import annotations

revision = "0003"
down_revision = None
branch_labels = None
depends_on = None
