"""The command itself: its groups, its help, and how it fails: one line, and exit code 2."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import shoal
from shoal.errors import ShoalError

REFUSED = 2
INTERRUPTED = 130

# The panels of ``shoal --help``.
ANALYSE, ACCOUNT, COLLECT, OPERATE = "Analyse", "Account", "Collect", "Operate"
PANELS = (ANALYSE, ACCOUNT, COLLECT, OPERATE)

EXAMPLES = """\
[bold]Examples[/bold]

  shoal plan --epsilon 1 --n 1e6 --categories 100

  shoal run answers.csv --column color --epsilon 1 --report report.html

  shoal amplify --local-epsilon 4 --n 1e5 --delta 1e-6

  shoal amplify --randomizer grr --k 24 --local-epsilon 3 --n 2e5 --rounds 30

  shoal amplify --local-epsilon 4 --n 1e5 --all

  shoal amplify --solve local-epsilon --epsilon 1 --delta 1e-6 --n 1e6

  shoal walk friends.txt --epsilon 0.1 --local-epsilon 1

  shoal peers run --peers 100 --rounds 16 --offline 0.2

  shoal test answers.csv --column color --distance 0.1 --epsilon 1

  shoal sgd --n 6e4 --noise 10 --epochs 5

  shoal audit --randomizer grr --k 2 --local-epsilon 1 --n 200 --delta 1e-3

  shoal up --simulate 5000

  shoal demo
"""

# Typer exports one of its usage errors; the base of that one is the base of all of them.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


class OneLineErrors(TyperGroup):
    """A group of commands that reports what was refused in one line on standard error.

    Anything unexpected is not caught: a traceback there is a bug report.
    """

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - Typer's own context
        """The options, flags among them without a type."""
        return _without_types(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - Typer's own context
        """Panel by panel, as they were registered in each."""
        names = super().list_commands(ctx)
        panels = {name: getattr(self.commands[name], "rich_help_panel", OPERATE) for name in names}
        return sorted(names, key=lambda name: PANELS.index(panels[name]))

    def main(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - what Typer passes on
        """Run, and exit with the status: 0, 2 if something was refused, 130 after Ctrl-C."""
        for stream in (sys.stdout, sys.stderr):
            # Where the terminal has no Greek letters, question marks are better than a traceback.
            if isinstance(stream, io.TextIOWrapper):
                with contextlib.suppress(io.UnsupportedOperation):
                    stream.reconfigure(errors="replace")
        kwargs["standalone_mode"] = False
        begins = kwargs.pop("begins", None)
        try:
            if begins is not None:
                begins()
            status = super().main(*args, **kwargs)
        except ShoalError as error:
            _refuse(str(error))
        except _UsageError as error:
            _refuse(error.format_message())  # type: ignore[attr-defined] # every usage error has it
        except (typer.Abort, KeyboardInterrupt):
            sys.exit(INTERRUPTED)
        sys.exit(status if isinstance(status, int) else 0)


def _refuse(message: str) -> None:
    sys.stderr.write(f"error: {printable(' '.join(message.split()))}\n")
    sys.exit(REFUSED)


def printable(text: str) -> str:
    """Text from a file, without what would command the terminal."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )


class Command(TyperCommand):
    """A command whose help names flags without a type."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - Typer's own context
        """The options, flags among them without a type."""
        return _without_types(super().get_params(ctx))


def _without_types(options: list[Any]) -> list[Any]:
    for option in options:
        if getattr(option, "is_flag", False):
            option.metavar = ""
    return options


def group(help_text: str) -> typer.Typer:
    """A command of commands, which by itself prints its help."""
    made = typer.Typer(help=help_text, invoke_without_command=True)

    @made.callback(help=help_text)
    def show_group(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    return made


app = typer.Typer(
    cls=OneLineErrors,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"shoal {shoal.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            metavar="",
            help="Print the version.",
        ),
    ] = False,
) -> None:
    """The shuffle model of differential privacy: how well a crowd hides each of its members."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("help", rich_help_panel=OPERATE)
def show_help(
    context: typer.Context,
    words: Annotated[list[str] | None, typer.Argument(metavar="COMMAND")] = None,
) -> None:
    """Print the help of a command: the same as shoal COMMAND --help."""
    root = context.find_root()
    typer.main.get_command(app).main([*(words or ()), "--help"], prog_name=root.info_name)


def main(begins: Callable[[], None] | None = None) -> None:
    """Run the command in ``sys.argv`` and exit with its status; ``begins`` is called before it."""
    app(prog_name="shoal", begins=begins)
