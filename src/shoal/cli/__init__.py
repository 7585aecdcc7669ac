"""The command line: it parses, calls and prints; the mathematics is elsewhere.

A module a command: its options are the fields of a dataclass (:mod:`shoal.cli.options`), and
importing it here registers it. Nothing heavy is imported before a command needs it, so that
``shoal --help`` is there at once.
"""

from __future__ import annotations

from shoal.cli import (
    amplify,
    audit,
    backup,
    collect,
    doctor,
    keys,
    peers,
    serve,
    sgd,
    submit,
    walk,
)
from shoal.cli.app import ACCOUNT, ANALYSE, COLLECT, OPERATE, app, main
from shoal.cli.demo import demo
from shoal.cli.figures import figures
from shoal.cli.loadtest import loadtest
from shoal.cli.plan import plan
from shoal.cli.run import run
from shoal.cli.survey import survey
from shoal.cli.survey_add import survey_add
from shoal.cli.survey_registered import survey_list, survey_remove
from shoal.cli.testing import run_test
from shoal.cli.up import up

__all__ = [
    "amplify",
    "app",
    "audit",
    "backup",
    "collect",
    "doctor",
    "keys",
    "main",
    "peers",
    "serve",
    "sgd",
    "submit",
    "walk",
]

app.command(rich_help_panel=ANALYSE)(plan)
app.command(rich_help_panel=ANALYSE)(run)
app.command("test", rich_help_panel=ANALYSE)(run_test)
app.command(rich_help_panel=ANALYSE)(demo)
app.command(rich_help_panel=ACCOUNT)(figures)
app.add_typer(survey, name="survey", rich_help_panel=COLLECT)
survey.command("add")(survey_add)
survey.command("list")(survey_list)
survey.command("remove")(survey_remove)
app.command(rich_help_panel=COLLECT)(up)
app.command(rich_help_panel=OPERATE)(loadtest)
