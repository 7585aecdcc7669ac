"""The command line: it parses, calls and prints; the mathematics is elsewhere.

A module a command: its options are the fields of a class (:mod:`shoal.cli.options`), and importing
it here registers it. Nothing heavy is imported before a command needs it, so that ``shoal --help``
is there at once.
"""

from __future__ import annotations

from importlib import import_module

from shoal.cli.app import app, main

__all__ = ["app", "main"]

# In the order of ``shoal --help``.
_COMMANDS = (
    *("plan", "run", "test", "demo", "amplify", "sgd", "audit", "walk", "figures"),
    *("survey", "invite", "submit", "collect", "up", "peers", "serve", "keys", "doctor", "backup"),
)

for _name in _COMMANDS:
    import_module(f"shoal.cli.{_name}")
