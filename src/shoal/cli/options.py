"""Options as the commands declare them: what they say, where help shows them, how they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.models import OptionInfo

from shoal.cli import parsing
from shoal.cli.parsing import Choice


def number(text: str, panel: str) -> OptionInfo:
    """An option that takes a finite number."""
    return option(text, panel, "NUMBER", parsing.number)


def whole(text: str, panel: str) -> OptionInfo:
    """An option that takes a whole number, 1e5 too."""
    return option(text, panel, "WHOLE", parsing.whole)


def choice(text: str, panel: str, choices: type[Choice]) -> OptionInfo:
    """An option that takes one of a few words."""
    return option(text, panel, "|".join(choices), parsing.one_of(choices))


def option(
    text: str, panel: str, metavar: str, parser: Callable[[str], Any] | None = None
) -> OptionInfo:
    """An option with its own parser, or with Typer's."""
    made: OptionInfo = typer.Option(
        help=text, rich_help_panel=panel, metavar=metavar, parser=parser
    )
    return made


def flag(name: str, text: str, panel: str) -> OptionInfo:
    """A switch, off unless it is given."""
    made: OptionInfo = typer.Option(name, help=text, rich_help_panel=panel)
    return made
