"""The reference says what the code does: every public name, every parameter, nothing else.

``setup/reference.py`` lists the public modules; the pages below docs/reference/api name what they
document; Sphinx takes the text from the docstrings, which are in the style of Google.
"""

from __future__ import annotations

import builtins
import enum
import importlib
import inspect
import math
import pydoc
import re
import textwrap
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

import reference
import shoal
from repository import ROOT, text_files

COLUMNS = 88
SCREEN = 60  # lines of help(): about what a terminal shows at once
SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|References|Example|Note):$", re.MULTILINE)
ENTRY = re.compile(r"^ {4}\*{0,2}(?P<name>\w+)(?: \([^)]*\))?: \S", re.MULTILINE)
MEMBERS = re.compile(
    r"auto(?:class|exception):: (?P<name>[\w.]+)\n(?: +:.*\n)*? +:members: (?P<members>.+)"
)
THEORY = re.compile(r":doc:`(?:[^`<]*<)?/(?P<page>[\w/-]+)>?`")
CITED = re.compile(r"arXiv|Theorem \d|\b(?:19|20)\d\d\b")
PROVED = re.compile(
    r"Guarantee|Profile|Comparison|\bPlan\b|\bResult\b|OpenResult|Verdict|Fit\b|Audit\b"
)
PROVES = ("law", "profile", "calibrated", "guarantee")
INLINE = re.compile(r"(?::\w+:)?`[^`]*`")
POINTS = re.compile(r":(?:func|class|meth):`~?(?P<name>[\w.]+)`")

# What has an ε or a δ among its parameters and proves nothing about it.
NO_CLAIM = {
    "shoal.questions.edges.worthwhile": "how many bins are worth it, whatever is proved",
    "shoal.service.client.Policy": "what a person allows",
}
# What needs more than the tests have installed, and the page whose example runs where it is there.
ELSEWHERE = {"shoal.learning.torch_loop.train_module": "docs/account/training.md"}
# Taken from further inside by a page or an example, to show how something works.
INSIDE = {
    "shoal.accounting.exact.enumerate_shuffle",
    "shoal.explain.text.up_to",
    "shoal.mechanisms.registry.calibration",
    "shoal.mechanisms.base.Mechanism",
    "shoal.questions.settled.Answers",
}


@dataclass(frozen=True)
class Documented:
    """A public function or class, and the sections of its docstring."""

    name: str

    @cached_property
    def value(self):
        return reference.resolved(self.name)

    @property
    def is_class(self) -> bool:
        return inspect.isclass(self.value)

    @cached_property
    def text(self) -> str:
        # A class has its own docstring, or none: what it inherits is about another one.
        own = vars(self.value).get("__doc__") if self.is_class else self.value.__doc__
        return inspect.cleandoc(own or "")

    @cached_property
    def sections(self) -> dict[str, str]:
        parts = SECTION.split(self.text)
        return dict(zip(parts[1::2], parts[2::2], strict=True))

    def entries(self, section: str) -> list[str]:
        return [found["name"] for found in ENTRY.finditer(self.sections.get(section, ""))]

    @cached_property
    def parameters(self) -> list[str]:
        if self.is_class and issubclass(self.value, enum.Enum):
            return []
        if self.is_class and self.value.__init__ in {object.__init__, list.__init__}:
            return []
        if self.is_class and issubclass(self.value, Exception) and not _own_init(self.value):
            return []
        return [name for name in inspect.signature(self.value).parameters if name != "self"]

    @cached_property
    def code(self) -> str:
        """What runs when it is called, as far as it is in the same module."""
        if not self.is_class:
            return _reached(self.value)
        made = (vars(self.value).get(name) for name in ("__init__", "__post_init__"))
        return "\n".join(_reached(each) for each in made if inspect.isfunction(each))

    @cached_property
    def claims(self) -> bool:
        """Whether it is about an (ε, δ) that has to be proved."""
        if self.name in NO_CLAIM or (self.is_class and issubclass(self.value, Exception)):
            return False
        if {"epsilon", "delta"} & set(self.parameters):
            return True
        if self.is_class:
            return any(hasattr(self.value, name) for name in PROVES)
        returned = str(inspect.signature(self.value).return_annotation)
        return PROVED.search(returned) is not None


def _own_init(kind: type) -> bool:
    return any("__init__" in vars(each) for each in kind.__mro__ if each.__module__[:5] == "shoal")


def _reached(function) -> str:
    """The source of a function and of the private ones that it calls, from one to the next."""
    pending, sources = [function], {}
    while pending:
        each = pending.pop()
        sources[each] = _source(each)
        module = vars(importlib.import_module(each.__module__))
        called = (module.get(name) for name in re.findall(r"\b(_\w+)\(", sources[each]))
        pending += [one for one in called if inspect.isfunction(one) and one not in sources]
    return "\n".join(sources.values())


def _source(function) -> str:
    try:
        return textwrap.dedent(inspect.getsource(function))
    except OSError:  # made by dataclass
        return ""


def _public() -> list[str]:
    """One name for each public function and class: the shortest."""
    names: dict[int, str] = {}
    for name in sorted(reference.public_names(), key=lambda name: (name.count("."), name)):
        value = reference.resolved(name)
        if inspect.isclass(value) or inspect.isfunction(value):
            names.setdefault(id(value), name)
    return sorted(names.values())


PUBLIC = _public()


@cache
def documented(name: str) -> Documented:
    return Documented(name)


@cache
def page_names() -> tuple[str, ...]:
    return tuple(name for page in reference.pages() for name in page.names)


def _identity(name: str) -> object:
    """The same for one function or class under several names; plain data has one name."""
    value = reference.resolved(name)
    return id(value) if inspect.isclass(value) or inspect.isfunction(value) else name


def test_every_public_name_has_a_place_in_the_reference():
    shown = {_identity(name) for name in page_names()}
    assert not [name for name in reference.public_names() if _identity(name) not in shown]


def test_the_reference_has_nothing_that_is_not_public():
    unknown = set(page_names()) - set(reference.public_names())
    assert not unknown, "add the name to a public module, or take it off the page"


def test_no_name_is_documented_twice():
    names = [_identity(name) for name in page_names()]
    assert len(names) == len(set(names))


def test_the_pages_are_those_that_the_index_lists():
    found = {path.stem for path in reference.PAGES.glob("*.md")} - {"index"}
    assert found == set(reference.ORDER)


def test_the_index_is_that_of_the_docstrings():
    kept = (reference.PAGES / "index.md").read_text(encoding="utf-8")
    assert kept == reference.index(), "python setup/reference.py > docs/reference/api/index.md"


@pytest.mark.parametrize("page", reference.ORDER)
def test_members_that_a_page_lists_exist_and_say_something(page):
    for found in MEMBERS.finditer(reference.Page(page).text):
        kind = reference.resolved(found["name"])
        for member in found["members"].split(","):
            value = inspect.getattr_static(kind, member.strip())
            said = inspect.getdoc(getattr(kind, member.strip())) or inspect.getdoc(value)
            assert said, f"{found['name']}.{member.strip()}"


def begins_with_one_sentence(name):
    first = documented(name).text.split("\n\n")[0]
    assert first.endswith((".", "?")), first
    assert "\n" not in first, "one line"


def has_every_parameter_and_no_other(name):
    about = documented(name)
    args, attributes = about.entries("Args"), about.entries("Attributes")
    if about.is_class:
        assert sorted({*args, *attributes} & {*about.parameters}) == sorted(about.parameters)
        assert not set(args) - set(about.parameters), "documented, and no parameter"
        for attribute in set(attributes) - set(about.parameters):
            known = hasattr(about.value, attribute) or attribute in about.value.__annotations__
            assert known, f"{attribute} is no attribute"
    else:
        assert args == about.parameters, "in the order of the signature"


def says_what_is_returned_and_raised(name):
    about = documented(name)
    if not about.is_class:
        returned = inspect.signature(about.value).return_annotation
        assert ("Returns" in about.sections) == (returned not in {None, "None"})
        said = INLINE.sub("", about.sections.get("Returns", ""))
        assert ":" not in said.strip().split("\n")[0], "what is before a colon is taken for a type"
    raises = re.search(r"^\s+raise\b|\bchecks\.\w+\(", about.code, re.MULTILINE)
    assert "Raises" in about.sections or not raises
    for error in about.entries("Raises"):
        kind = getattr(shoal, error, None) or getattr(builtins, error, None) or _error(error)
        assert issubclass(kind, Exception), error


def _error(name: str) -> type:
    named = [each for each in reference.public_names() if each.rpartition(".")[2] == name]
    assert named, f"{name} is no public error"
    return reference.resolved(named[0])


def names_the_theorem_of_an_epsilon_that_is_claimed(name):
    text = documented(name).text
    assert THEORY.search(text) or CITED.search(text) or not documented(name).claims


def links_to_pages_that_exist(name):
    for found in THEORY.finditer(documented(name).text):
        assert (ROOT / "docs" / f"{found['page']}.md").exists(), found["page"]


def has_an_example_that_runs(name):
    """Its own, or that of the public name that it points to as where it comes from."""
    about = documented(name)
    assert "+SKIP" not in about.text
    if _has_example(name):
        return
    assert about.is_class, "every function has an example of its own"
    named = [found["name"] for found in POINTS.finditer(about.text)]
    shown = [each for each in named if each in PUBLIC and _has_example(each)]
    assert shown, "no example, and no public name in the docstring that has one"


def _has_example(name: str) -> bool:
    if name in ELSEWHERE:
        return name.rpartition(".")[2] in text_files()[Path(ELSEWHERE[name])]
    return ">>> " in documented(name).text


def fits_a_screen(name):
    if documented(name).is_class:
        return
    text = pydoc.plain(pydoc.render_doc(documented(name).value)).rstrip()
    lines = text.splitlines()[2:]  # a title and a blank line come first
    assert max(len(line) for line in lines[1:]) <= COLUMNS, "wider than the screen"
    height = sum(max(1, math.ceil(len(line) / COLUMNS)) for line in lines)
    assert height <= SCREEN


@pytest.mark.parametrize("name", PUBLIC)
def test_a_docstring_says_what_it_should(name):
    begins_with_one_sentence(name)
    has_every_parameter_and_no_other(name)
    says_what_is_returned_and_raised(name)
    names_the_theorem_of_an_epsilon_that_is_claimed(name)
    links_to_pages_that_exist(name)
    has_an_example_that_runs(name)
    fits_a_screen(name)


IMPORT = re.compile(
    r"^(?:>>> )?from (?P<module>shoal[\w.]*) import (?P<names>[\w, ]+)$", re.MULTILINE
)
FOR_USERS = ("start", "analyse", "account", "collect", "operate")
SHOWN = sorted(
    path
    for path in text_files()
    if path == Path("README.md")
    or (path.parts[0] == "docs" and path.parts[1] in FOR_USERS and path.suffix == ".md")
    or (path.parts[0] == "examples" and path.suffix == ".py")
)


@pytest.mark.parametrize("path", SHOWN, ids=str)
def test_what_people_are_shown_to_import_is_public(path):
    public = {id(reference.resolved(name)) for name in reference.public_names()}
    for found in IMPORT.finditer(text_files()[path]):
        for name in found["names"].split(","):
            dotted = f"{found['module']}.{name.strip()}"
            value = getattr(importlib.import_module(found["module"]), name.strip(), None)
            known = inspect.ismodule(value) or f"{dotted}" in reference.MODULES
            assert known or id(value) in public or dotted in INSIDE, dotted


def test_what_is_taken_from_inside_is_shown_somewhere():
    texts = "\n".join(text_files()[path] for path in SHOWN)
    lines = [(found["module"], found["names"]) for found in IMPORT.finditer(texts)]
    shown = {f"{module}.{name.strip()}" for module, names in lines for name in names.split(",")}
    assert shown >= INSIDE
