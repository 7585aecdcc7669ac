"""Every theorem name that the library can print leads to its page: docs/theory/index.md lists it.

The names are read from the source, so that a new one cannot be forgotten: string literals that are
assigned to, passed as or defaults of ``theorem``, and those that make a ``Claim`` or a ``Route``.
Of a name that is put together (``f"{theorem}, epochs composed"``) the fixed parts are listed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from repository import text_files
from shoal.accounting import catalog

INDEX = Path("docs/theory/index.md")
NAMED = {"theorem", "THEOREM", "THEOREMS", "ROUTES"}
MADE_BY = {"Claim", "Route", "SingleRoute", "_of_clones"}  # their first argument is a name
CATALOG = Path("src/shoal/accounting/catalog")  # there a theorem is that of a citation


@dataclass(frozen=True)
class Module:
    tree: ast.Module

    @cached_property
    def constants(self) -> dict[str, str]:
        """The strings that the module gives a name."""
        return {
            target.id: node.value.value
            for node in self.tree.body
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
            for target in node.targets
            if isinstance(target, ast.Name)
        }

    @cached_property
    def imported(self) -> dict[str, str]:
        """The names that the module imports, each with the module or package that it is from."""
        return {
            alias.name: node.module or ""
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    def strings(self, value: ast.AST | None) -> Iterator[str]:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value
        elif isinstance(value, ast.Name):
            home = modules().get(self.imported.get(value.id, ""), self)
            yield from [home.constants[value.id]] if value.id in home.constants else []
        elif isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
            package = self.imported.get(value.value.id, "")
            home = modules().get(f"{package}.{value.value.id}", self)
            yield from [home.constants[value.attr]] if value.attr in home.constants else []
        elif isinstance(value, ast.Dict):
            named = any(isinstance(key, ast.Name) for key in value.keys)
            for each in value.keys if named else value.values:
                yield from self.strings(each)
        elif isinstance(value, ast.JoinedStr | ast.Tuple | ast.IfExp):
            for child in ast.iter_child_nodes(value):
                yield from self.strings(child)


@cache
def modules() -> dict[str, Module]:
    """Those of our modules that may name a theorem; Starlette has routes of another kind."""
    return {
        ".".join(path.with_suffix("").parts[1:]): Module(ast.parse(text))
        for path, text in text_files().items()
        if path.suffix == ".py"
        and path.is_relative_to("src")
        and not path.is_relative_to(CATALOG)
        and "starlette" not in text
        and re.search(r"theorem|Route\(|ROUTES", text)
    }


def _given(node: ast.AST) -> Iterator[ast.expr | None]:
    """The expressions of a node that a theorem is named by."""
    if isinstance(node, ast.Assign):
        names = [
            name.id for t in node.targets for name in ast.walk(t) if isinstance(name, ast.Name)
        ]
        if NAMED & set(names):
            yield node.value
    elif isinstance(node, ast.AnnAssign):
        if isinstance(node.target, ast.Name) and node.target.id in NAMED:
            yield node.value
    elif isinstance(node, ast.Call):
        yield from (keyword.value for keyword in node.keywords if keyword.arg in NAMED)
        called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func
        if getattr(called, "id", called) in MADE_BY and node.args:
            yield node.args[0]
    elif isinstance(node, ast.arguments):
        arguments = zip(node.kwonlyargs, node.kw_defaults, strict=True)
        yield from (default for argument, default in arguments if argument.arg in NAMED)


def printed() -> set[str]:
    found = {
        text.strip(" ,;:")
        for module in modules().values()
        for node in ast.walk(module.tree)
        for value in _given(node)
        for text in module.strings(value)
    }
    titles = {entry.title for entry in catalog.ENTRIES.values() if entry.certified}
    return {name for name in found | titles if re.search(r"\w", name)}


def listed() -> dict[str, str]:
    """The names in the first column of the tables, each with what stands beside it."""
    rows = re.findall(r"^\| (`[^|]*`[^|]*) \| (.*) \|$", text_files()[INDEX], re.MULTILINE)
    return {name: rest for names, rest in rows for name in re.findall(r"`([^`]+)`", names)}


def test_every_printed_theorem_is_in_the_table_and_nothing_else():
    assert printed() == set(listed())


def test_every_theorem_in_the_table_leads_to_a_page():
    without = [name for name, rest in listed().items() if not re.search(r"\]\([\w.#/-]+\)", rest)]
    assert not without


def test_the_reader_finds_the_names_of_every_kind():
    assert {
        "privacy blanket",  # a default of a dataclass
        "privacy blanket of the density",  # a default of an argument
        "optimal clones",  # given to a function that makes a Claim
        "deletion clones",  # given to Claim
        "uniform dummies, exact divergence",  # of a class
        "blanket of holder and report",  # a constant that a Route is made of
        "blanket of reports that meet, simulated traffic",  # assigned in a tuple
        "composed as privacy loss distributions",  # in a dictionary
        "epochs composed",  # a part of an f-string
        "Gaussian mechanism, no amplification",  # a constant of another module
        "Clones, closed form",  # of the catalog
    } <= printed()
