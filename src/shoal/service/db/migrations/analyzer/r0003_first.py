"""The first tables of an analyzer. Steps begin here; new stores have the newest tables at once."""

from __future__ import annotations

revision = "0003"
down_revision = None
branch_labels = None
depends_on = None
