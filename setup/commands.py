"""Write the reference of the command line, from the commands themselves.

python setup/commands.py > docs/reference/commands.md
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import typer
from typer.core import TyperCommand, TyperGroup

from shoal.cli import app

Commands = Iterator[tuple[str, TyperCommand]]

OPTION = re.compile(r"(?<![`\w-])--[a-z][a-z0-9-]*")
HEAD = """\
# Commands

Every command with its options; `shoal COMMAND --help` prints the same.
"""


def leaves() -> Commands:
    """Every command that does something, with its name."""
    return _below(typer.main.get_command(app), ())


def _below(command: object, words: tuple[str, ...]) -> Commands:
    if isinstance(command, TyperGroup):
        for name, below in command.commands.items():
            yield from _below(below, (*words, name))
    elif isinstance(command, TyperCommand):
        yield " ".join(words), command


def page() -> str:
    """The whole reference."""
    return "\n".join([HEAD, *(_section(name, command) for name, command in leaves())])


def _section(name: str, command: TyperCommand) -> str:
    summary = _marked(" ".join((command.help or "").split("\n\n")[0].split()))
    lines = [f"## shoal {name}", "", summary, ""]
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    if shown:
        lines += ["| option | what it says |", "|---|---|"]
    for each in shown:
        metavar = "" if getattr(each, "is_flag", False) else each.metavar or ""
        name = each.opts[-1] if each.opts[-1].startswith("-") else ""
        words = f"{name} {metavar}".strip()
        cells = (f"`{words}`", _marked(getattr(each, "help", None) or ""))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([*lines, ""] if shown else lines)


def _marked(text: str) -> str:
    """With options as code: prose may turn two hyphens into a dash."""
    return OPTION.sub(r"`\g<0>`", text)


if __name__ == "__main__":
    sys.stdout.write(page())
