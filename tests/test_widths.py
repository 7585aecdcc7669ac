"""How wide the interfaces are, read from the syntax tree: parameters, long functions, type tests.

A question, or a mechanism, is one class and one line of a registry. Whatever else asks which one it
has is a place that the next one has to be added to: there are few of them, and these tests keep it
so.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from repository import PACKAGE

ROOMS = (
    "accounting",
    "questions",
    "mechanisms",
    "network",
    "engines",
    "planning",
    "testing",
    "learning",
    "auditing",
    "figures",
    "cli",
)
MOST_PARAMETERS = 12
MOST_LINES = 60
MOST_ANCESTORS = 5
MOST_TESTS = 15

Function = ast.FunctionDef | ast.AsyncFunctionDef
_ASKS = {"isinstance", "issubclass"}
_OF_CLASSES = {"type", "__class__"}


# ------------------------------------------------------------------------------------ the measures


def functions(tree: ast.AST) -> Iterator[Function]:
    """Every function and method, those inside others among them."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def is_public(function: Function) -> bool:
    """A name without an underscore before it, or what makes an instance."""
    return function.name == "__init__" or not function.name.startswith("_")


def parameters(function: Function, options: dict[str, int]) -> int:
    """How many arguments one can give; ``**`` of a typed dictionary counts as its keys."""
    given = function.args
    listed = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    receivers = [each for each in listed[:1] if each.arg in {"self", "cls"}]
    packed = 0
    if given.kwarg is not None:
        packed = sum(options.get(name, 0) for name in names(given.kwarg.annotation))
    return len(listed) - len(receivers) + packed


def typed_dictionaries(*trees: ast.Module) -> dict[str, int]:
    """The number of keys of every TypedDict by its name, those it inherits among them."""
    found: dict[str, int] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases = {name for base in node.bases for name in names(base)}
                if "TypedDict" in bases or bases & set(found):
                    own = sum(isinstance(each, ast.AnnAssign) for each in node.body)
                    found[node.name] = own + sum(found.get(base, 0) for base in bases)
    return found


def lines(function: Function) -> int:
    """From the first statement to the last, without the docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return function.end_lineno - body[0].lineno + 1 if body and function.end_lineno else 0


def names(node: ast.AST | None) -> set[str]:
    """What is named anywhere in an expression; of ``a.b`` both."""
    inside = () if node is None else ast.walk(node)
    return {
        each.id if isinstance(each, ast.Name) else each.attr
        for each in inside
        if isinstance(each, ast.Name | ast.Attribute)
    }


def classes(*trees: ast.Module) -> set[str]:
    """The names of all classes."""
    return {n.name for tree in trees for n in ast.walk(tree) if isinstance(n, ast.ClassDef)}


def groups(known: set[str], statements: Iterable[ast.AST]) -> set[str]:
    """Names for several classes at once: tuples, unions and tables of them."""
    found = set()
    for node in statements:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=value):
                pass
            case _:
                continue
        if isinstance(value, ast.Tuple | ast.BinOp | ast.Dict) and names(value) & known:
            found.add(name)
    return found


def type_tests(tree: ast.AST, known: set[str]) -> Iterator[tuple[int, str]]:
    """Where code asks which of these classes it has: by a test, a pattern or a table of classes."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=asked), args=[_, kinds]) if asked in _ASKS:
                tested = names(kinds)
            case ast.MatchClass(cls=kind):
                tested = names(kind)
            case ast.Compare() if names(node) & _OF_CLASSES:
                tested = names(node)
            case ast.Dict(keys=keys):
                tested = {key.id for key in keys if isinstance(key, ast.Name)}
            case ast.Call(func=ast.Attribute(attr="register"), args=[ast.Name(id=kind)]):
                tested = {kind}
            case _:
                continue
        if tested & known:
            yield node.lineno, ", ".join(sorted(tested & known))


# ------------------------------------------------------------------------------------- the package


@cache
def trees() -> dict[str, ast.Module]:
    """Every module of the package by its place in it."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def of_room(*rooms: str) -> dict[str, ast.Module]:
    """The modules of some rooms; a room may be one file."""
    wanted = {place: tree for place, tree in trees().items() if room(place) in rooms}
    assert {room(place) for place in wanted} == set(rooms)
    return wanted


def room(place: str) -> str:
    """``planning`` of ``planning/plans.py``, and ``pipeline`` of ``pipeline.py``."""
    return Path(place).parts[0].removesuffix(".py")


def found(known: set[str]) -> list[str]:
    """Every type test on these classes in the whole package."""
    wanted = known | groups(known, (node for tree in trees().values() for node in tree.body))
    return [
        f"{place}:{line} {what}"
        for place, tree in trees().items()
        for line, what in type_tests(tree, wanted | groups(known, ast.walk(tree)))
    ]


def listed(heading: str, wide: list[str]) -> str:
    return "\n  ".join([f"{heading}:", *wide])


def test_no_public_function_takes_many_parameters():
    options = typed_dictionaries(*trees().values())
    wide = [
        f"{place}:{function.lineno} {function.name} takes {parameters(function, options)}"
        for place, tree in trees().items()
        for function in functions(tree)
        if is_public(function) and parameters(function, options) > MOST_PARAMETERS
    ]
    assert not wide, listed(f"more than {MOST_PARAMETERS} parameters", wide)


def test_no_function_is_long():
    long = [
        f"{place}:{function.lineno} {function.name} has {lines(function)}"
        for place, tree in trees().items()
        for function in functions(tree)
        if lines(function) > MOST_LINES
    ]
    assert not long, listed(f"more than {MOST_LINES} lines of body", long)


def test_few_places_ask_which_question_it_is():
    kinds = classes(*of_room("questions").values())
    assert {"Choice", "Number", "Scale", "Groups"} <= kinds
    tests = found(kinds)
    assert len(tests) <= MOST_TESTS, listed("type tests on questions", tests)


def test_few_places_ask_which_mechanism_it_is():
    kinds = classes(*of_room("mechanisms").values())
    assert {"Mechanism", "RandomizedResponse", "ZeroSumHistogram"} <= kinds
    tests = found(kinds | {"Device"})
    assert len(tests) <= MOST_TESTS, listed("type tests on mechanisms", tests)


def ancestors(kind: type) -> list[str]:
    """The class and those of ours that it is made of."""
    return [each.__qualname__ for each in kind.__mro__ if each.__module__.startswith("shoal")]


@pytest.mark.parametrize("package", ROOMS)
def test_no_class_is_made_of_many(package):
    home = importlib.import_module(f"shoal.{package}")
    modules = [home] + [
        importlib.import_module(each.name)
        for each in pkgutil.walk_packages(home.__path__, f"{home.__name__}.")
    ]
    kinds = {
        kind
        for module in modules
        for kind in vars(module).values()
        if inspect.isclass(kind) and kind.__module__.startswith("shoal")
    }
    assert kinds
    deep = [" < ".join(ancestors(each)) for each in kinds if len(ancestors(each)) > MOST_ANCESTORS]
    assert not deep, listed(f"more than {MOST_ANCESTORS} classes of ours", deep)


# --------------------------------------------------------------------- what the measures would find


SAMPLE = '''
class Few(TypedDict):
    a: int
    b: int
class More(Few):
    c: int
class Red: ...
class Blue: ...
COLORS = (Red, Blue)
ANY: TypeAlias = Red | Blue
TABLE = {"red": Red}
def wide(self, a, /, b, *rest, c=1, **options: Unpack[More]): ...
def asks(value):
    """Many
    ways."""
    isinstance(value, Red | str)
    issubclass(value, (colors.Blue, int))
    isinstance(value, COLORS) or isinstance(value, ANY)
    type(value) is Red
    value.__class__ == Blue
    {Red: 1, Blue: 2}.get(type(value))
    match value:
        case Red() | colors.Blue(): ...
    isinstance(value, str)
    type(value) is int
    local = (Red, str)
    return isinstance(value, (*TABLE.values(), *local))
asks.register(Red)
'''


def test_the_measures_find_what_they_are_for():
    tree = ast.parse(SAMPLE)
    options = typed_dictionaries(tree)
    assert options == {"Few": 2, "More": 3}
    wide, asks = functions(tree)
    assert parameters(wide, options) == 6
    assert (lines(wide), lines(asks)) == (1, 12)
    known = {"Red", "Blue"}
    both = groups(known, tree.body)
    assert both == {"COLORS", "ANY", "TABLE"}
    assert groups(known, ast.walk(tree)) == both | {"local"}
    tests = sorted(type_tests(tree, known | both | {"local"}))
    assert [line - asks.lineno for line, _ in tests] == [3, 4, 5, 5, 6, 7, 8, 10, 10, 14, 15]
    assert tests[0][1] == "Red"
