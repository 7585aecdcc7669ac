"""The command line: it parses, calls and prints; the mathematics is elsewhere.

``shoal plan`` advises, ``shoal run`` collects, ``shoal amplify`` accounts, ``shoal walk``,
``shoal overlay`` and ``shoal peers`` do without a shuffler, ``shoal test`` tests a distribution,
``shoal sgd`` accounts for training, ``shoal audit`` checks a claim from outside. ``shoal survey``,
``shoal keys``, ``shoal serve``, ``shoal submit`` and ``shoal collect`` are the service,
``shoal doctor``, ``shoal loadtest``, ``shoal backup`` and ``shoal restore`` keep it in order, and
``shoal up`` is all of it. ``shoal figures`` draws, ``shoal demo`` shows around.
Nothing heavy is imported before a command needs it, so that ``shoal --help`` is there at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

import shoal
from shoal.cli.amplify import amplify
from shoal.cli.audit import audit
from shoal.cli.backup import backup
from shoal.cli.collect import collect
from shoal.cli.demo import demo
from shoal.cli.doctor import doctor
from shoal.cli.figures import figures
from shoal.cli.group import OneLineErrors
from shoal.cli.keys import keys
from shoal.cli.keys_token import keys_token
from shoal.cli.keys_tokens import keys_revoke, keys_tokens
from shoal.cli.loadtest import loadtest
from shoal.cli.overlay import overlay
from shoal.cli.peers import peers
from shoal.cli.plan import plan
from shoal.cli.restore import restore
from shoal.cli.run import run
from shoal.cli.serve import serve
from shoal.cli.sgd import sgd
from shoal.cli.submit import submit
from shoal.cli.survey import survey
from shoal.cli.survey_add import survey_add
from shoal.cli.survey_registered import survey_list, survey_remove
from shoal.cli.testing import run_test
from shoal.cli.up import up
from shoal.cli.walk import walk

__all__ = ["app", "main"]

EXAMPLES = """\
[bold]Examples[/bold]

  shoal plan --epsilon 1 --n 1e6 --categories 100

  shoal run answers.csv --column color --epsilon 1 --report report.html

  shoal amplify --local-epsilon 4 --n 1e5 --delta 1e-6

  shoal amplify --randomizer grr --k 24 --local-epsilon 3 --n 2e5 --rounds 30

  shoal amplify --local-epsilon 4 --n 1e5 --all

  shoal amplify --solve local-epsilon --epsilon 1 --delta 1e-6 --n 1e6

  shoal walk friends.txt --epsilon 0.1 --local-epsilon 1

  shoal overlay --n 1e5 --degree 16

  shoal peers run --peers 100 --rounds 16 --offline 0.2

  shoal test answers.csv --column color --distance 0.1 --epsilon 1

  shoal sgd --n 6e4 --noise 10 --epochs 5

  shoal audit --randomizer grr --k 2 --local-epsilon 1 --n 200 --delta 1e-3

  shoal up --simulate 5000

  shoal demo
"""

app = typer.Typer(
    cls=OneLineErrors,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog=EXAMPLES,
)
app.command()(plan)
app.command()(run)
app.command()(amplify)
app.command()(audit)
app.command("test")(run_test)
app.command()(sgd)
app.command()(walk)
app.command()(overlay)
app.add_typer(peers, name="peers")
survey.command("add")(survey_add)
survey.command("list")(survey_list)
survey.command("remove")(survey_remove)
app.add_typer(survey, name="survey")
keys.command("token")(keys_token)
keys.command("tokens")(keys_tokens)
keys.command("revoke")(keys_revoke)
app.add_typer(keys, name="keys")
app.add_typer(serve, name="serve")
app.command()(submit)
app.command()(collect)
app.command()(up)
app.command()(doctor)
app.command()(loadtest)
app.command()(backup)
app.command()(restore)
app.command()(figures)
app.command()(demo)


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
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """The shuffle model of differential privacy: how well a crowd hides each of its members."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(begins: Callable[[], None] | None = None) -> None:
    """Run the command in ``sys.argv`` and exit with its status; ``begins`` is called before it."""
    app(prog_name="shoal", begins=begins)
