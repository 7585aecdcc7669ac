"""The command itself: its groups, its help, and how it fails: one line, and exit code 2."""

from __future__ import annotations

import codecs
import contextlib
import io
import shutil
import sys
import unicodedata
from functools import partial
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import shoal
from shoal.errors import ShoalError

# Frames need room, and letters to draw them with.
COLUMNS, NARROW = shutil.get_terminal_size().columns, 60
FRAMED = COLUMNS >= NARROW and "utf" in str(getattr(sys.stdout, "encoding", "utf")).lower()

REFUSED = 2
INTERRUPTED = 130

# The panels of ``shoal --help``.
ANALYSE, ACCOUNT, COLLECT, OPERATE = "Analyse", "Account", "Collect", "Operate"
PANELS = (ANALYSE, ACCOUNT, COLLECT, OPERATE)

_EXAMPLES = (
    "plan --epsilon 1 --n 1e6 --categories 100",
    "run answers.csv --column color --epsilon 1 --report report.html",
    "amplify --local-epsilon 4 --n 1e5 --delta 1e-6",
    "amplify --randomizer grr --k 24 --local-epsilon 3 --n 2e5 --rounds 30",
    "amplify --local-epsilon 4 --n 1e5 --all",
    "amplify --solve local-epsilon --epsilon 1 --delta 1e-6 --n 1e6",
    "walk friends.txt --epsilon 0.1 --local-epsilon 1",
    "peers run --peers 100 --rounds 16 --offline 0.2",
    "test answers.csv --column color --distance 0.1 --epsilon 1",
    "sgd --n 6e4 --noise 10 --epochs 5",
    "audit --randomizer grr --k 2 --local-epsilon 1 --n 200 --delta 1e-3",
    "up --simulate 5000",
    "demo",
)

# Typer exports one of its usage errors; the base of that one is the base of all of them.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

# What is written where a terminal lacks Greek letters, signs, lines and blocks.
_GREEK = {"ε": "eps", "δ": "delta", "α": "alpha", "λ": "lambda", "ρ": "rho", "σ": "sigma"}
_SIGNS = {"…": "...", "–": "-", "—": "-", "−": "-", "×": "x", "·": "*", "±": "+-", "→": "->"}
_COMPARED = {"≤": "<=", "≥": ">=", "≠": "!=", "≈": "~", "∞": "inf", "√": "sqrt ", "’": "'"}
_DRAWN = {"█": "#", "▒": ":", "◆": "*", "●": "o", "━": "=", "─": "-", "├": "|", "┤": "|", "┊": "|"}
_ASCII = _GREEK | _SIGNS | _COMPARED | _DRAWN


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """Letters that an encoding lacks, in words or as the nearest sign it has."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = unicodedata.normalize("NFKD", error.object[error.start : error.end])
    words = (_ASCII.get(each, each) for each in letters if not unicodedata.combining(each))
    return "".join(word if word.isascii() else "?" for word in words), error.end


codecs.register_error("shoal.ascii", _in_ascii)


def printable(text: str, keep: str = "") -> str:
    """Text without what would command the terminal, in letters that it has."""
    shown = "".join(each if each.isprintable() or each in keep else "\ufffd" for each in text)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return shown.encode(encoding, "shoal.ascii").decode(encoding)


class Ours:
    """What all commands have: flags without a type, and refusals in one line on standard error.

    Anything unexpected is not caught: a traceback there is a bug report.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - Typer's own
        """The help; without frames in letters that the terminal has, texts below narrow options."""
        for option in self.get_params(ctx):  # type: ignore[attr-defined] # of Typer's classes
            if getattr(option, "is_flag", False):
                option.metavar = ""
        if formatter.width < NARROW:
            formatter.write_dl = partial(formatter.write_dl, col_max=2)
        super().format_help(ctx, formatter)  # type: ignore[misc] # of Typer's classes
        formatter.buffer = [printable(part, keep="\n") for part in formatter.buffer]

    def main(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - what Typer passes on
        """Run, and exit with the status: 0, 2 if something was refused, 130 after Ctrl-C."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                with contextlib.suppress(io.UnsupportedOperation):
                    stream.reconfigure(errors="shoal.ascii")
        kwargs["standalone_mode"] = False
        begins = kwargs.pop("begins", None)
        try:
            if begins is not None:
                begins()
            status = super().main(*args, **kwargs)  # type: ignore[misc] # of Typer's classes
        except (ShoalError, _UsageError) as error:
            message = getattr(error, "format_message", error.__str__)()
            sys.stderr.write(f"error: {printable(' '.join(message.split()))}\n")
            sys.exit(REFUSED)
        except (typer.Abort, KeyboardInterrupt):
            sys.exit(INTERRUPTED)
        sys.exit(status if isinstance(status, int) else 0)


class Commands(Ours, TyperGroup):
    """The commands, panel by panel; without one of them, the help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - Typer's own
        """Read the words, or show which there may be."""
        return super().parse_args(ctx, args or ([] if ctx.resilient_parsing else ["--help"]))

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - Typer's own context
        """As they were registered in each panel."""
        names = super().list_commands(ctx)
        panels = {name: getattr(self.commands[name], "rich_help_panel", None) for name in names}
        return sorted(names, key=lambda name: PANELS.index(panels[name] or OPERATE))


class Command(Ours, TyperCommand):
    """One command."""


app = typer.Typer(
    cls=Commands,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich" if FRAMED else None,
    epilog="\n\n".join(["Examples", *(f"  shoal {words}" for words in _EXAMPLES)]) + "\n",
    context_settings={"help_option_names": ["-h", "--help"], "terminal_width": COLUMNS},
)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[
        bool, typer.Option("--version", metavar="", help="Print the version.")
    ] = False,
) -> None:
    """The shuffle model of differential privacy: how well a crowd hides each of its members."""
    if version:
        typer.echo(f"shoal {shoal.__version__}")
        raise typer.Exit


@app.command("help", rich_help_panel=OPERATE)
def show_help(
    context: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="Whose help.")
    ] = None,
) -> None:
    """Print the help of a command: the same as shoal COMMAND --help."""
    root = context.find_root()
    typer.main.get_command(app).main([*(words or ()), "--help"], prog_name=root.info_name)


# Run the command in ``sys.argv`` and exit with its status; ``begins`` is called before it.
main = partial(app, prog_name="shoal")
