"""Small files for one user's eyes, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from shoal.service.running.home import HomeError


def write_private(path: Path, content: bytes) -> None:
    """Put a file there, durable and in one step."""
    temporary = path.with_name(path.name + ".new")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as target:
            target.write(content)
            target.flush()
            os.fsync(target.fileno())
        temporary.replace(path)
    except OSError as error:
        advice = "make room, or choose another directory"
        raise HomeError(path.parent, error.strerror or str(error), advice) from None
