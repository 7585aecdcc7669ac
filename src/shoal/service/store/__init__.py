"""What survives a crash: a database, files that only grow or appear whole, and their laws."""

from __future__ import annotations

from importlib.util import find_spec

from shoal.errors import MissingExtraError

for _needed in ("sqlalchemy", "alembic"):
    if find_spec(_needed) is None:
        raise MissingExtraError("the service's store", "server")

# After the check, on purpose.
from shoal.service.store.database import Database  # noqa: E402
from shoal.service.store.shuffler import ShufflerStore  # noqa: E402
from shoal.service.store.values import (  # noqa: E402
    Arrival,
    BatchInfo,
    Claim,
    Extent,
    Progress,
    Receipt,
    SealedBatch,
    TokenScope,
    Transition,
)

__all__ = [
    "Arrival",
    "BatchInfo",
    "Claim",
    "Database",
    "Extent",
    "Progress",
    "Receipt",
    "SealedBatch",
    "ShufflerStore",
    "TokenScope",
    "Transition",
]
