"""The import graph is the architecture: these tests read it from the syntax tree and hold it."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from repository import PACKAGE, SOURCE, project, run_python

FACADE = "shoal"
# From the bottom up. A room imports from itself and from rooms on lower lines, nothing else.
LAYERS = (
    ("errors",),
    ("checks", "explain"),
    ("values",),
    ("questions",),
    ("randomness",),
    ("accounting",),
    ("intervals",),
    ("mechanisms",),
    ("network", "engines"),
    ("estimate",),
    ("planning", "testing", "learning", "auditing", "sealing"),
    ("results",),
    ("open_answers",),
    ("pipeline",),
    ("service",),
    (FACADE,),
    ("web",),
    ("figures", "demo"),
    ("cli",),
    ("command",),
    ("__main__",),
)
RANK = {room: rank for rank, rooms in enumerate(LAYERS) for room in rooms}

# What the accountant may import: no randomness, clock, disk, network or logging.
OF_OURS = ("errors", "checks", "explain", "questions.terms", "accounting")
PURE_OURS = tuple(f"shoal.{name}" for name in OF_OURS)
PURE_THEIRS = {"numpy", "scipy", "dp_accounting"}
PURE_STANDARD = {
    "__future__",
    "abc",
    "bisect",
    "collections",
    "dataclasses",
    "decimal",
    "difflib",
    "enum",
    "fractions",
    "functools",
    "importlib",
    "inspect",
    "itertools",
    "math",
    "numbers",
    "operator",
    "re",
    "types",
    "typing",
}
CATALOG = "shoal.accounting.catalog"
HEAVY = {"scipy", "dp_accounting", "polars", "matplotlib", "jinja2"}
# Imported where they are used, and done without where they are missing.
OPTIONAL = {
    "pandas",
    "numba",
    "torch",
    "alembic",
    "httpx",
    "prometheus_client",
    "psycopg",
    "pyarrow",
    "pyspark",
    "segno",
    "sqlalchemy",
    "starlette",
    "uvicorn",
}
RANDOM_SOURCES = {"random", "secrets", "numpy.random"}
RANDOM_TYPES = {"Generator", "BitGenerator"}


@dataclass(frozen=True)
class Module:
    name: str
    path: Path
    is_package: bool

    @property
    def tree(self) -> ast.Module:
        return _parsed(self.path)


@dataclass(frozen=True)
class Import:
    importer: str
    target: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer} line {self.line} imports {self.target}"


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def modules() -> dict[str, Module]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        found[name] = Module(name, path, is_package)
    return found


@cache
def imports() -> tuple[Import, ...]:
    """Every import anywhere in the package: inside functions and under TYPE_CHECKING too."""
    return tuple(found for module in modules().values() for found in imports_of(module))


def imports_of(module: Module) -> Iterator[Import]:
    for node in ast.walk(module.tree):
        for target in _targets(node, module):
            yield Import(module.name, target, node.lineno)


def _targets(node: ast.AST, module: Module) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(names=names):
            origin = _origin(node, module)
            for alias in names:
                inner = f"{origin}.{alias.name}"
                yield inner if inner in modules() else origin
        case ast.Call(args=[ast.Constant(value=str(target)), *_]) if _is_import_module(node.func):
            yield target


def _origin(node: ast.ImportFrom, module: Module) -> str:
    if not node.level:
        return node.module or ""
    up = node.level - 1 if module.is_package else node.level
    base = module.name.split(".")[: len(module.name.split(".")) - up]
    return ".".join([*base, *([node.module] if node.module else [])])


def _is_import_module(called: ast.expr) -> bool:
    return getattr(called, "attr", getattr(called, "id", None)) in {"import_module", "__import__"}


def room(name: str) -> str:
    """The part of the map a module lies in: ``shoal.accounting.law`` is in ``accounting``."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else FACADE


def top(name: str) -> str:
    return name.partition(".")[0]


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def test_every_room_is_on_the_map():
    unknown = {room(name) for name in modules()} - set(RANK)
    assert not unknown, (
        f"src/shoal has new rooms {sorted(unknown)}: add each to LAYERS in {Path(__file__).name}, "
        "on the line of the layer it belongs to, and to the table in docs/develop/architecture.md"
    )


def test_imports_point_downwards():
    upwards = [
        str(found)
        for found in imports()
        if within(found.target, "shoal")
        and room(found.importer) != room(found.target)
        and RANK.get(room(found.target), len(LAYERS)) >= RANK.get(room(found.importer), -1)
    ]
    assert not upwards, _listed("imports that do not point to a lower layer", upwards)


def test_every_import_of_ours_exists():
    missing = [
        str(found)
        for found in imports()
        if within(found.target, "shoal") and found.target not in modules()
    ]
    assert not missing, _listed("imports of modules that do not exist", missing)


def test_accounting_is_pure():
    impure = [
        str(found)
        for found in imports()
        if within(found.importer, "shoal.accounting") and not _is_pure(found.target)
    ]
    assert not impure, _listed("accounting must stay numbers in, numbers out", impure)


def _is_pure(target: str) -> bool:
    if within(target, "shoal"):
        return any(within(target, allowed) for allowed in PURE_OURS)
    return top(target) in PURE_THEIRS | PURE_STANDARD and target not in RANDOM_SOURCES


def test_only_one_module_draws_randomness():
    elsewhere = [
        str(found)
        for found in imports()
        if found.importer != "shoal.randomness" and found.target in RANDOM_SOURCES
    ]
    elsewhere += [
        f"{name} line {line} uses {source}"
        for name, module in modules().items()
        if name != "shoal.randomness"
        for line, source in _random_attributes(module.tree)
    ]
    assert not elsewhere, _listed("randomness comes from shoal.randomness alone", elsewhere)


def _random_attributes(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Uses of ``np.random.…``, its types aside, and of ``os.urandom``."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(
                value=ast.Attribute(value=ast.Name(id="np" | "numpy"), attr="random"), attr=used
            ) if used not in RANDOM_TYPES:
                yield node.lineno, f"numpy.random.{used}"
            case ast.Attribute(value=ast.Name(id="os"), attr="urandom"):
                yield node.lineno, "os.urandom"


def test_theorems_do_not_see_each_other():
    """A catalog module that states a theorem is imported by the index alone; lemmas are shared."""
    crossed = [
        str(found)
        for found in imports()
        if found.importer.startswith(f"{CATALOG}.") and found.target in theorems()
    ]
    assert not crossed, _listed("share through a module that states no theorem", crossed)


@cache
def theorems() -> frozenset[str]:
    """The catalog modules that make an ``Entry``; the rest are its definition and shared lemmas."""
    return frozenset(
        name
        for name, module in modules().items()
        if name.startswith(f"{CATALOG}.")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        for part in (node.func, *node.args)
        if isinstance(part, ast.Name) and part.id == "Entry"
    )


def test_the_catalog_has_theorems():
    assert theorems()


def test_only_the_index_sees_the_whole_catalog():
    past_the_index = [
        str(found)
        for found in imports()
        if found.target in theorems() and not within(found.importer, CATALOG)
    ]
    assert not past_the_index, _listed(f"import from {CATALOG}, its index", past_the_index)


def test_imports_are_the_declared_dependencies():
    """Nothing is used that is not declared, and nothing is declared that is not used."""
    declared = {_import_name(requirement) for requirement in project()["dependencies"]}
    used = {top(found.target) for found in imports()} - sys.stdlib_module_names - {"shoal"}
    assert used - OPTIONAL == declared
    extras = project()["optional-dependencies"]
    kept = {_import_name(name) for key in extras if key != "dev" for name in extras[key]}
    assert used & OPTIONAL <= kept


def _import_name(requirement: str) -> str:
    return re.split(r"[^\w-]", requirement, maxsplit=1)[0].replace("-", "_").lower()


def test_importing_shoal_loads_nothing_heavy():
    code = "import json, sys, shoal; print(json.dumps(sorted(sys.modules)))"
    loaded = {top(name) for name in json.loads(run_python(code))}
    assert "shoal" in loaded
    assert not loaded & HEAVY


def test_dir_shows_the_public_names_and_no_others():
    code = "import json, shoal; print(json.dumps([shoal.__all__, dir(shoal)]))"
    public, shown = json.loads(run_python(code))
    assert len(public) == len(set(public))
    assert {name for name in shown if not _is_private(name)} == set(public)


def _is_private(name: str) -> bool:
    return name.startswith("_") and name != "__version__"


def test_the_reader_sees_hidden_imports():
    source = (
        "from __future__ import annotations\n"
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from shoal.cli import main\n"
        "def late():\n    import scipy.special\n    from ..errors import ShoalError\n"
        "    import_module('shoal.web')\n"
    )
    module = Module("shoal.accounting.law", Path("law.py"), is_package=False)
    found = {target for node in ast.walk(ast.parse(source)) for target in _targets(node, module)}
    expected = {"__future__", "typing", "shoal.cli", "scipy.special", "shoal.errors", "shoal.web"}
    assert found == expected


def _listed(heading: str, lines: list[str]) -> str:
    return "\n  ".join([f"{heading}:", *lines])
