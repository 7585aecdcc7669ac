"""What both parties keep in a database, and the files beside it that are durable first."""

from __future__ import annotations

from importlib.util import find_spec

from shoal.errors import MissingExtraError

for _needed in ("sqlalchemy", "alembic"):
    if find_spec(_needed) is None:
        raise MissingExtraError("the service's store", "server")

# After the check, on purpose.
from shoal.service.db.database import Database  # noqa: E402

__all__ = ["Database"]
