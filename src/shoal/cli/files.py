"""Files that a command leaves behind: all of them after success, none of them otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from shoal.cli.group import RefusedError
from shoal.cli.output import writing_to

Write = Callable[[Path], object]


def check(*paths: Path | None, never: Path | None = None) -> None:
    """Refuse places that cannot be written to before the work begins, and the input itself."""
    given = [path for path in paths if path is not None]
    for path in given:
        if path.is_dir():
            raise RefusedError(f"cannot write to {path}: it is a directory")
        if not path.parent.is_dir():
            raise RefusedError(f"cannot write to {path}: there is no directory {path.parent}")
        if never is not None and path.resolve() == never.resolve():
            raise RefusedError(f"cannot write to {path}: it is what is read")
    if len({path.resolve() for path in given}) < len(given):
        raise RefusedError("cannot write two outputs to the same file")


@contextmanager
def together() -> Iterator[Callable[[Path, Write], None]]:
    """Write under temporary names; when all went well, each file gets its own.

    A name keeps its ending, because writers look at it.
    """
    staged: dict[Path, Path] = {}

    def write(path: Path, writer: Write) -> None:
        staged[path] = path.with_name(f".{os.getpid()}.{path.name}")
        with writing_to(path):
            writer(staged[path])

    try:
        yield write
        for path, temporary in staged.items():
            with writing_to(path):
                temporary.replace(path)
    finally:
        for temporary in staged.values():
            temporary.unlink(missing_ok=True)
