"""Where the command line writes: readable text, or JSON and nothing else."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from shoal.cli.group import RefusedError

if TYPE_CHECKING:
    from rich.console import Console

WIDEST = 100
PATIENCE = 2.0  # seconds without a bar


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
def reporting(what: str) -> Iterator[Callable[[int, int], None]]:
    """A spinner, and a progress bar on work over two seconds; call it with done and total."""
    from rich.console import Console
    from rich.progress import Progress, TaskID

    watched = Console(stderr=True)
    began = time.monotonic()
    shown: list[tuple[Progress, TaskID]] = []
    with ExitStack() as stack:
        spinner = stack.enter_context(watched.status(f"{what} …"))

        def tell(done: int, total: int) -> None:
            if not shown and watched.is_terminal and time.monotonic() - began > PATIENCE:
                spinner.stop()
                bar = stack.enter_context(Progress(console=watched, transient=True))
                shown.append((bar, bar.add_task(what)))
            for bar, task in shown:
                bar.update(task, completed=done, total=total)

        yield tell


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


def print_json(value: object) -> None:
    """Strict JSON: what is not finite is null."""
    from shoal.report import finite

    typer.echo(json.dumps(finite(value), ensure_ascii=False, allow_nan=False, indent=2))
