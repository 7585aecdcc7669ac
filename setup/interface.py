"""What people build on, as a list: names and their parameters, commands, JSON keys, HTTP routes.

    python setup/interface.py > tests/api_0_3.json

The list of a minor version is written when it is released, and every later version is compared with
it (:func:`broken`): whatever it has must stay usable as it was. docs/develop/stability.md says what
that promises. What is new is in no list until the next minor version.

Of public classes the list has all members without an underscore, with two exceptions. Parameters of
a constructor are in it if the documentation calls it: most values are made by Shoal alone. Of
randomizers and protocols it has the constructor and the members that the documentation shows: the
others are what the engines ask them.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer.testing
from typer.core import TyperCommand

import commands
import reference
import routes
from shoal.cli import app
from shoal.mechanisms.base import Mechanism

ROOT = Path(__file__).resolve().parent.parent

# What prints JSON, with questions that are answered at once.
PRINTED = {
    "amplify": "--local-epsilon 4 --n 1e5",
    "amplify --all": "--local-epsilon 4 --n 1e5",
    "plan": "--epsilon 0.5 --n 1e4 --categories 5",
    "run": "people.csv --column color --epsilon 1",
    "sgd": "--n 300 --noise 6 --epochs 2 --delta 1e-7",
    "test": "people.csv --column color --distance 0.4 --epsilon 1 --seed 1 --simulations 99",
    "walk": "graph.txt --rounds 2 --delta 1e-3",
}
TIMES = "stages"  # what took how long: it changes with how it is done
# Methods that a dataclass, an exception or a tuple has anyway.
_GIVEN = {
    *("__class_getitem__", "__delattr__", "__eq__", "__getstate__", "__hash__", "__init__"),
    *("__init_subclass__", "__new__", "__post_init__", "__reduce__", "__replace__", "__repr__"),
    *("__setattr__", "__setstate__", "__str__", "__subclasshook__"),
}
_BY_POSITION = {"positional only", "positional or keyword"}
_BY_NAME = {"positional or keyword", "keyword only"}
_ANY_NUMBER = {"positional, any number", "keyword, any number"}
_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional only",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional or keyword",
    inspect.Parameter.VAR_POSITIONAL: "positional, any number",
    inspect.Parameter.KEYWORD_ONLY: "keyword only",
    inspect.Parameter.VAR_KEYWORD: "keyword, any number",
}

Entry = dict[str, Any]
Interface = dict[str, dict[str, Any]]


# ------------------------------------------------------------------------------------------- Python


def resolved(name: str) -> Any:  # noqa: ANN401 - whatever has that name
    """What a dotted name is; AttributeError if it is gone."""
    try:
        return reference.resolved(name)
    except ModuleNotFoundError as error:
        raise AttributeError(str(error)) from None


def described(value: object) -> Entry:
    """What can be done with a public name."""
    if inspect.isclass(value):
        return {"call": _constructor(value), "members": dict(sorted(_members(value)))}
    if inspect.isroutine(value):
        return {"call": parameters(inspect.signature(value))}
    if get_origin(value) is Literal:
        return {"values": sorted(map(str, get_args(value)))}
    return {}


def _constructor(kind: type) -> list[list[str]] | None:
    own = any("__init__" in vars(each) for each in _ours(kind)) or is_dataclass(kind)
    return parameters(inspect.signature(kind)) if own else None


def _ours(kind: type) -> list[type]:
    return [each for each in kind.__mro__ if each.__module__.split(".")[0] == "shoal"]


def _members(kind: type) -> Iterator[tuple[str, list[list[str]] | None]]:
    """Attributes, as None, and methods, with their parameters."""
    for each in reversed(_ours(kind)):
        for name in {*vars(each), *vars(each).get("__annotations__", {})}:
            special = name.startswith("__") and name.endswith("__") and name not in _GIVEN
            value = inspect.getattr_static(kind, name, None)
            is_method = isinstance(value, staticmethod | classmethod) or inspect.isfunction(value)
            if name.startswith("_") and not (special and is_method):
                continue
            if not is_method:
                yield name, None
                continue
            shown = parameters(inspect.signature(getattr(kind, name)))
            yield name, shown[inspect.isfunction(value) :]  # without self


@cache
def documentation() -> str:
    """Everything that tells people how to use Shoal."""
    places = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.py")]
    pages = (path.read_text(encoding="utf-8") for path in places)
    return "\n".join(
        [*pages, *(inspect.getdoc(resolved(name)) or "" for name in reference.public_names())]
    )


def promised(name: str, entry: Entry) -> Entry:
    """What of a public name is to stay."""
    if "members" not in entry:
        return entry
    kind = resolved(name)
    is_mechanism, is_error = issubclass(kind, Mechanism), issubclass(kind, Exception)
    is_shown = re.search(rf"\b{kind.__name__}\(", documentation())
    called = is_mechanism or (is_shown and not is_error)  # errors are caught, not made
    members = entry["members"]
    if is_mechanism:
        members = {
            member: about
            for member, about in members.items()
            if re.search(rf"\.{member}\b", documentation())
        }
    return {"call": entry["call"] if called else None, "members": members}


def parameters(signature: inspect.Signature) -> list[list[str]]:
    """Name and kind of each parameter, and its default if it has one."""
    return [
        [each.name, _KINDS[each.kind], *([_shown(each.default)] if _optional(each) else [])]
        for each in signature.parameters.values()
    ]


def _optional(parameter: inspect.Parameter) -> bool:
    return parameter.default is not inspect.Parameter.empty


def _shown(default: object) -> str:
    """A default as it is written; of what is no plain value, its kind."""
    if default is None or isinstance(default, bool | int | float | str | bytes):
        return repr(default)
    if isinstance(default, tuple):
        return f"({', '.join(map(_shown, default))})"
    return getattr(default, "__qualname__", None) or type(default).__qualname__.strip("_")


# ----------------------------------------------------------------------------------------- commands


def command(described: TyperCommand) -> Entry:
    """The options of a command, and what is given without one."""
    options = {}
    for each in described.params:
        if getattr(each, "hidden", False):
            continue
        entry = {
            "takes": "nothing" if getattr(each, "is_flag", False) else "a value",
            "required": bool(each.required),
        }
        for spelled in [*each.opts, *each.secondary_opts]:
            options[spelled] = entry
    return dict(sorted(options.items()))


def printed() -> Iterator[tuple[str, list[str]]]:
    """The keys of what each command prints with ``--json``."""
    runner = typer.testing.CliRunner()
    with tempfile.TemporaryDirectory() as place, chdir(place):
        rows = "\n".join(["color", *(("red", "green", "blue")[i % 3] for i in range(3000))])
        Path("people.csv").write_text(rows + "\n", encoding="utf-8")
        edges = [(i, (i + step) % 60) for i in range(60) for step in (1, 2, 7)]
        Path("graph.txt").write_text("".join(f"{a} {b}\n" for a, b in edges), encoding="utf-8")
        for name, question in PRINTED.items():
            words = [*name.split(), *question.split(), "--json"]
            result = runner.invoke(app, words)
            if result.exit_code:
                raise SystemExit(f"shoal {' '.join(words)}: {result.output}")
            keys = set(_keys(json.loads(result.stdout)))
            yield name, sorted(key for key in keys if not key.startswith(TIMES))


def _keys(value: object, above: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, below in value.items():
            yield f"{above}{name}"
            yield from _keys(below, f"{above}{name}.")
    elif isinstance(value, list):
        for below in value:
            yield from _keys(below, above)


# --------------------------------------------------------------------------------------------- HTTP


def operations(document: dict[str, Any]) -> Iterator[tuple[str, Entry]]:
    """What a service answers: parameters, whether they must be there, and statuses."""
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            listed = [routes.resolved(document, each) for each in about.get("parameters", [])]
            yield (
                f"{method.upper()} {path}",
                {
                    "parameters": {each["name"]: each.get("required", False) for each in listed},
                    "statuses": sorted(about["responses"]),
                },
            )


# ------------------------------------------------------------------------------ all of it, compared


def interface() -> Interface:
    """Everything that people build on, as it is now."""
    documents = {party: routes.document_of(party) for party in routes.PARTIES}
    return {
        "python": {name: described(resolved(name)) for name in reference.public_names()},
        "commands": {name: command(each) for name, each in commands.leaves()},
        "json": dict(printed()),
        "http": {
            f"{service}: {name}": entry
            for service, document in documents.items()
            for name, entry in operations(document)
        },
        "http json": {
            f"{service}: {name}": sorted(schema.get("properties", {}))
            for service, document in documents.items()
            for name, schema in document["components"]["schemas"].items()
        },
    }


def broken(before: Interface, now: Interface) -> list[str]:
    """What was usable and is no longer, a sentence each; what is new is no matter."""
    return [
        f"{name}: {fault}"
        for part, compare in _COMPARED.items()
        for name, old in before[part].items()
        for fault in (compare(old, now[part][name]) if name in now[part] else iter(["is gone"]))
    ]


def _python(old: Entry, new: Entry) -> Iterator[str]:
    if "values" in old:
        yield from (f"{each!r} is gone" for each in old["values"] if each not in new["values"])
    if old.get("call") is not None:
        yield from _call(old["call"], new.get("call"))
    for name, was in old.get("members", {}).items():
        if name not in new.get("members", {}):
            yield f"{name} is gone"
        else:
            yield from (f"{name}: {fault}" for fault in _call(was, new["members"][name]))


def _call(old: list[list[str]] | None, new: list[list[str]] | None) -> Iterator[str]:
    """Whether every call that was allowed still is, and means the same."""
    if (old is None) != (new is None):
        yield "can no longer be called" if new is None else "has to be called now"
    if old is None or new is None:
        return
    present = {each[0]: each for each in new}
    order = [each[0] for each in new if each[1] in _BY_POSITION]
    for place, (name, kind, *default) in enumerate(old):
        if name not in present:
            yield f"its parameter {name} is gone"
            continue
        _, now, *default_now = present[name]
        if kind in _ANY_NUMBER and now != kind:
            yield f"its parameter {name} takes one value only"
        if kind in _BY_POSITION and (now not in _BY_POSITION or order.index(name) != place):
            yield f"its parameter {name} has another position"
        if kind in _BY_NAME and now not in _BY_NAME:
            yield f"its parameter {name} can no longer be given by name"
        if default and not default_now:
            yield f"its parameter {name} is required now"
        elif default and default != default_now:
            yield f"its parameter {name} is {default_now[0]} by default, not {default[0]}"
    known = {each[0] for each in old}
    for name, kind, *default in new:
        if name not in known and not default and kind not in _ANY_NUMBER:
            yield f"its new parameter {name} is required"


def _command(old: Entry, new: Entry) -> Iterator[str]:
    for name, was in old.items():
        if name not in new:
            yield f"{name} is gone"
        elif new[name]["takes"] != was["takes"]:
            yield f"{name} takes {new[name]['takes']} now"
        elif new[name]["required"] and not was["required"]:
            yield f"{name} is required now"
    required = [name for name, entry in new.items() if entry["required"] and name not in old]
    yield from (f"its new {name} is required" for name in required)


def _listed(old: list[str], new: list[str]) -> Iterator[str]:
    yield from (f"{name} is gone" for name in old if name not in new)


def _route(old: Entry, new: Entry) -> Iterator[str]:
    yield from _listed(list(old["parameters"]), list(new["parameters"]))
    for name, required in new["parameters"].items():
        if required and not old["parameters"].get(name, False):
            yield f"{name} is required now"
    yield from _listed(old["statuses"], new["statuses"])


_COMPARED: dict[str, Callable[[Any, Any], Iterator[str]]] = {
    "python": _python,
    "commands": _command,
    "json": _listed,
    "http": _route,
    "http json": _listed,
}


def text(told: Interface) -> str:
    """As JSON, a line for each name, so that a change is a change of few lines."""
    parts = []
    for part, entries in told.items():
        lines = (f"    {json.dumps(name)}: {json.dumps(each)}" for name, each in entries.items())
        parts.append(f"  {json.dumps(part)}: {{\n" + ",\n".join(lines) + "\n  }")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    """Write the list of what is to stay."""
    told = interface()
    python = {name: promised(name, entry) for name, entry in told["python"].items()}
    sys.stdout.write(text(told | {"python": python}))


if __name__ == "__main__":
    main()
