"""Files that a command leaves behind: all of them after success, none of them otherwise."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from shoal.cli.options import RefusedError

Write = Callable[[Path], object]


ENDINGS = {
    "plot": (".svg", ".png"),
    "report": (".html", ".htm"),
    "csv": (".csv",),
    "save": (".json",),
    "out": (".json",),
}  # of the options that write a file, by what is written to it


def check(*, never: Path | None = None, **outputs: Path | None) -> None:
    """Refuse names and places that cannot be written to before the work begins.

    ``outputs`` are named as their options are; what is read is ``never`` written to.
    """
    given = {option: path for option, path in outputs.items() if path is not None}
    for option, path in given.items():
        _require_ending(option, path)
        if path.is_dir():
            raise RefusedError(f"cannot write to {path}: it is a directory")
        if path.exists() and not path.is_file():
            raise RefusedError(f"cannot write to {path}: it is not a regular file")
        if not path.parent.is_dir():
            raise RefusedError(f"cannot write to {path}: there is no directory {path.parent}")
        if never is not None and path.resolve() == never.resolve():
            raise RefusedError(f"cannot write to {path}: it is what is read")
    if len({path.resolve() for path in given.values()}) < len(given):
        raise RefusedError("cannot write two outputs to the same file")


def _require_ending(option: str, path: Path) -> None:
    """A name must not promise another kind of file than is written."""
    endings = ENDINGS[option]
    if path.suffix.lower() not in endings:
        raise RefusedError(f"expected --{option} to be a {' or '.join(endings)} file, got {path}")


@contextmanager
def writing_to(place: Path, *, exact: bool = False) -> Iterator[None]:
    """A place that cannot be written to is refused in one line.

    It names the file that it failed at, or, if ``exact``, what was asked for.
    """
    try:
        yield
    except OSError as error:
        where = place if exact else error.filename or place
        raise RefusedError(f"cannot write to {where}: {error.strerror or error}") from error


@contextmanager
def together() -> Iterator[Callable[[Path, Write], None]]:
    """Write under temporary names; when all went well, each file gets its own.

    A name keeps its ending, because writers look at it.
    """
    staged: dict[Path, Path] = {}

    def write(path: Path, writer: Write) -> None:
        target = path.resolve()  # a link keeps pointing where it does
        with writing_to(path, exact=True):
            handle, name = tempfile.mkstemp(prefix=".", suffix=target.suffix, dir=target.parent)
            os.close(handle)
            staged[target] = Path(name)
            Path(name).chmod(0o666 & ~_mask())
            writer(staged[target])

    try:
        yield write
        for path, temporary in staged.items():
            with writing_to(path, exact=True):
                temporary.replace(path)
    finally:
        for temporary in staged.values():
            temporary.unlink(missing_ok=True)


def _mask() -> int:
    """The permissions that new files leave out (reading them means setting them)."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
