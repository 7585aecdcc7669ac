"""No option is accepted and ignored: its command reads it, or hands it to what it calls."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from functools import cache

import pytest

from shoal.cli import _COMMANDS
from shoal.cli.options import BareOptions, option


class Forgotten(BareOptions):
    """One that nothing reads."""

    forgotten: int | None = option("Nothing.")


def kinds(kind: type[BareOptions] = BareOptions) -> Iterator[type[BareOptions]]:
    """All classes of options."""
    for each in kind.__subclasses__():
        yield each
        yield from kinds(each)


def texts(node: ast.AST) -> set[str]:
    """All text in a piece of code."""
    constants = (each for each in ast.walk(node) if isinstance(each, ast.Constant))
    return {each.value for each in constants if isinstance(each.value, str)}


@cache
def reached(module: str) -> set[str]:
    """What functions of a module read of options, name in text, or call with all that fits."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    listed = {
        each.targets[0].id: texts(each.value)
        for each in tree.body
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)
    }
    names: set[str] = set()
    for function in (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)):
        names |= texts(function)
        imported = {}
        for node in (*ast.walk(function), *tree.body):
            if isinstance(node, ast.ImportFrom):
                imported |= {
                    each.asname or each.name: (node.module, each.name) for each in node.names
                }
            elif isinstance(node, ast.Name):
                names |= listed.get(node.id, set())
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in {"options", "self"}:
                names.add(node.attr)
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "arguments":
                place, name = imported[ast.unparse(node.args[0])]
                callee = getattr(importlib.import_module(place), name)
                names |= {*inspect.signature(callee).parameters}
    return names


def ignored(kind: type[BareOptions]) -> list[str]:
    """The options of a class that nothing reads where it and its bases are."""
    modules = {each.__module__ for each in kind.__mro__ if issubclass(each, BareOptions)}
    names = reached("shoal.cli.render").union(*map(reached, modules - {__name__}))
    return [
        name for name, declared in kind.declared.items() if not {name, declared.keyword} & names
    ]


@pytest.mark.parametrize("command", _COMMANDS)
def test_every_option_reaches_what_its_command_does(command):
    own = [kind for kind in kinds() if kind.__module__ == f"shoal.cli.{command}"]
    assert own
    assert {kind.__name__: ignored(kind) for kind in own} == {kind.__name__: [] for kind in own}


def test_one_that_is_forgotten_is_noticed():
    assert ignored(Forgotten) == ["forgotten"]
