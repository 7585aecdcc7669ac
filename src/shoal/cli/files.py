"""Files that commands read, and what they leave behind: all of it after success, else nothing."""

from __future__ import annotations

import csv
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.errors import RefusedError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from shoal.engines.files import Files

Write = Callable[[Path], object]


ENDINGS = {
    "plot": (".svg", ".png"),
    "report": (".html", ".htm"),
    "csv": (".csv",),
    "save": (".json",),
    "out": (".json",),
    "qr": (".html", ".htm"),
}  # of the options that write a file, by what is written to it


STANDARD_INPUT, _TERMINATED = "-", 128 + signal.SIGTERM
TABLE = (
    "A table, one person per row: CSV, TSV, JSON lines (also .gz), Parquet, Arrow; a "
    "directory or a pattern for all files of one format; - for standard input."
)
PUBLIC_LIST = (
    "Without --categories: take the answers in the data as the public list, even more than "
    "200 of them, or numbers that are not whole."
)
FORMAT = "Format of FILE, if its name does not tell; standard input is CSV by default."


@contextmanager
def table(
    places: Sequence[str],
    form: str | None,
    formats: Sequence[str] | None = None,
    *,
    elsewhere: bool = False,
) -> Iterator[Files]:
    """The files that a command reads; standard input is one of them as long as that takes."""
    from shoal.engines.files import FORMATS, Files, spooled

    if STANDARD_INPUT not in places:
        yield Files.at(places, form, formats or FORMATS, elsewhere=elsewhere)
        return
    if len(places) > 1:
        raise RefusedError("standard input (-) cannot be read together with other files")
    # Being ended leaves nothing of what people answered behind.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    try:
        with spooled(sys.stdin.buffer, form) as files:
            yield files
    finally:
        signal.signal(signal.SIGTERM, before)


def check(*, never: Path | None = None, **outputs: Path | None) -> None:
    """Refuse names and places that cannot be written to before the work begins.

    ``outputs`` are named as their options are; what is read is ``never`` written to.
    """
    paths = {option: path for option, path in outputs.items() if path is not None}
    for option, path in paths.items():
        # A name must not promise another kind of file than is written; a list of codes has no kind.
        endings = ENDINGS.get(option, ())
        if endings and path.suffix.lower() not in endings:
            kinds = " or ".join(endings)
            raise RefusedError(f"expected --{option} to be a {kinds} file, got {path}")
        if path.is_dir():
            raise RefusedError(f"cannot write to {path}: it is a directory")
        if path.exists() and not path.is_file():
            raise RefusedError(f"cannot write to {path}: it is not a regular file")
        if not path.parent.is_dir():
            raise RefusedError(f"cannot write to {path}: there is no directory {path.parent}")
        if never is not None and path.resolve() == never.resolve():
            raise RefusedError(f"cannot write to {path}: it is the input")
    if len({path.resolve() for path in paths.values()}) < len(paths):
        raise RefusedError("cannot write two outputs to the same file")


@contextmanager
def writing_to(place: Path) -> Iterator[None]:
    """A place that cannot be written to is refused in one line, with the file it failed at."""
    try:
        yield
    except OSError as error:
        where = error.filename or place
        raise RefusedError(f"cannot write to {where}: {error.strerror or error}") from error


def write(*outputs: tuple[Path | None, Write]) -> None:
    """Write under temporary names; when all went well, each file gets its own.

    A name keeps its ending, because writers look at it. Outputs without a path are left out.
    """
    staged: dict[Path, Path] = {}
    mask = os.umask(0o077)  # the permissions that new files leave out: reading means setting them
    os.umask(mask)
    try:
        for path, writer in outputs:
            if path is None:
                continue
            target = path.resolve()  # a link keeps pointing where it does
            handle, name = tempfile.mkstemp(prefix=".", suffix=target.suffix, dir=target.parent)
            os.close(handle)
            staged[target] = Path(name)
            Path(name).chmod(0o666 & ~mask)
            writer(staged[target])
        for path, temporary in staged.items():
            temporary.replace(path)
    except OSError as error:
        raise RefusedError(f"cannot write to {path}: {error.strerror or error}") from error
    finally:
        for temporary in staged.values():
            temporary.unlink(missing_ok=True)


def text(path: Path | None, make: Callable[[], str]) -> tuple[Path | None, Write]:
    """An output: text, made when it is written."""
    return path, lambda target: target.write_text(make(), encoding="utf-8", newline="")


def figure(path: Path | None, name: str, *shown: object) -> tuple[Path | None, Write]:
    """An output: one of :mod:`shoal.figures.results`, of the result of a command."""

    def draw(target: Path) -> None:
        from shoal.figures import results

        getattr(results, name)(*shown, target)

    return path, draw


def read_list(text: str, name: str = "categories") -> list[str]:
    """A public list, of answers unless another name is said: a,b,c or a file with one per line."""
    path = Path(text)
    if "," in text:
        return [part.strip() for part in text.split(",") if part.strip()]
    if not path.is_file():
        raise RefusedError(f"expected --{name} to be a list a,b,c or a file, got {text!r}")
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedError(f"cannot read {path}: {error}") from error
    return [line for line in lines if line]


def read_table(path: Path) -> npt.NDArray[np.float64]:
    """A randomizer's probabilities, a row per input: .csv (no heading, # is a comment) or .npy."""
    ending = path.suffix.lower()
    if ending not in {".csv", ".npy"}:
        raise RefusedError(f"expected --table to be a .csv or .npy file, got {path}")
    import numpy as np

    try:
        if ending == ".csv":
            return np.array(_rows(path))
        table = np.load(path, allow_pickle=False)
    except OSError as error:
        raise RefusedError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, EOFError, csv.Error) as error:
        raise RefusedError(f"cannot read {path}: {error}") from error
    if not isinstance(table, np.ndarray) or table.dtype.kind not in "fiu":
        raise RefusedError(f"cannot read {path}: it has no array of numbers")
    return table.astype(np.float64)


def _rows(path: Path) -> list[list[float]]:
    rows: list[list[float]] = []
    with path.open(encoding="utf-8-sig", newline="") as lines:
        for place, line in enumerate(lines, start=1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            cells = next(csv.reader([line]))
            if rows and len(cells) != len(rows[0]):
                raise ValueError(
                    f"line {place} has {len(cells)} entries, the first row has {len(rows[0])}"
                )
            rows.append([])
            for text in cells:
                try:
                    rows[-1].append(float(text))
                except ValueError:
                    wrong = f"{text.strip()!r} on line {place} is not a number"
                    raise ValueError(wrong) from None
    if not rows:
        raise ValueError("it has no numbers")
    return rows
