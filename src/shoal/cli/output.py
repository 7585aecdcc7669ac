"""Where the command line writes: readable text, or JSON and nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from shoal.cli.group import RefusedError

if TYPE_CHECKING:
    from rich.console import Console

WIDEST = 100


def console() -> Console:
    """Standard output: no wider than is good to read, nothing in it read as markup."""
    from rich.console import Console

    found = Console(highlight=False, markup=False, emoji=False)
    found.width = min(found.width, WIDEST)
    return found


def working(what: str) -> AbstractContextManager[object]:
    """A spinner on standard error while something takes its time; silent if nobody watches."""
    from rich.console import Console

    return Console(stderr=True).status(f"{what} …")


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[str], None]]:
    """A progress bar on standard error; call what it gives with the name of each next thing."""
    from rich.console import Console
    from rich.progress import Progress

    watched = Console(stderr=True)
    with Progress(console=watched, transient=True, disable=not watched.is_terminal) as bar:
        task = bar.add_task(what, total=total, completed=-1)

        def next_is(name: str) -> None:
            bar.update(task, advance=1, description=f"{what} {name}")

        yield next_is


@contextmanager
def writing_to(place: Path) -> Iterator[None]:
    """A place that cannot be written to is refused in one line."""
    try:
        yield
    except OSError as error:
        where = error.filename or place
        raise RefusedError(f"cannot write to {where}: {error.strerror or error}") from error


def print_json(value: object) -> None:
    """Strict JSON: what is not finite is null."""
    typer.echo(json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, indent=2))


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
