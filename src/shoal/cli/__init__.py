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
    survey,
    test,
    up,
    walk,
)
from shoal.cli.app import OPERATE, app, main
from shoal.cli.loadtest import loadtest

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
    "survey",
    "test",
    "up",
    "walk",
]

app.command(rich_help_panel=OPERATE)(loadtest)
