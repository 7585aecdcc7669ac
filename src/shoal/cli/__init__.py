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
    demo,
    doctor,
    figures,
    keys,
    peers,
    plan,
    run,
    serve,
    sgd,
    submit,
    test,
    up,
    walk,
)
from shoal.cli.app import COLLECT, OPERATE, app, main
from shoal.cli.loadtest import loadtest
from shoal.cli.survey import survey
from shoal.cli.survey_add import survey_add
from shoal.cli.survey_registered import survey_list, survey_remove

__all__ = [
    "amplify",
    "app",
    "audit",
    "backup",
    "collect",
    "demo",
    "doctor",
    "figures",
    "keys",
    "main",
    "peers",
    "plan",
    "run",
    "serve",
    "sgd",
    "submit",
    "test",
    "up",
    "walk",
]

app.add_typer(survey, name="survey", rich_help_panel=COLLECT)
survey.command("add")(survey_add)
survey.command("list")(survey_list)
survey.command("remove")(survey_remove)
app.command(rich_help_panel=OPERATE)(loadtest)
