"""What is public, and the index of its reference: one line a name, from the docstrings.

python setup/reference.py > docs/reference/api/index.md
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGES = Path(__file__).resolve().parent.parent / "docs" / "reference" / "api"

# Every module that people import from, with its public names: all of them (the names in its
# __all__, or those it brings together), or these. Whatever is not here may change at any time.
MODULES: dict[str, tuple[str, ...] | None] = {
    "shoal": None,
    "shoal.accounting.comparison": ("Comparison", "Comparisons"),
    "shoal.auditing": None,
    "shoal.estimate": None,
    "shoal.estimate.means": ("Mean",),
    "shoal.estimate.hitters": ("HeavyHitters", "heavy_hitters"),
    "shoal.figures": None,
    "shoal.learning": None,
    "shoal.learning.torch_loop": ("ModuleFit", "train_module"),
    "shoal.network": None,
    "shoal.open_answers": None,
    "shoal.pipeline": None,
    "shoal.planning": None,
    "shoal.planning.joint": ("JointPlan", "Part", "plan_together"),
    "shoal.mechanisms.prefixes": ("PrefixDummies", "PrefixMechanism", "PrefixResponse"),
    "shoal.questions.domains": ("Ball", "Cells", "Interval", "Sphere"),
    "shoal.questions.edges": ("Edges", "worthwhile"),
    "shoal.randomness": None,
    "shoal.service.client": None,
    "shoal.service.keyring": ("KeyInfo", "KeyList", "KeyListError", "Keyring", "Protection"),
    "shoal.service.peers": ("Conditions", "PeerRun", "PeerSurvey", "run_peers"),
    "shoal.service.peers.accounting": ("KnownConditions", "Whereabouts", "guarantee"),
    "shoal.service.survey": None,
    "shoal.testing": None,
}

HEAD = """\
# Python reference

Every public name, by topic. `help(shoal.amplify)` prints the same text as its page. A name that is
not here is internal and may change at any time. [Commands](../commands.md) have their own page.
"""
DIRECTIVE = re.compile(r"^\.\. auto(?P<kind>\w+):: (?P<name>[\w.]+)$", re.MULTILINE)
TITLE = re.compile(r"^# (?P<title>.+)$", re.MULTILINE)
ROLE = re.compile(r":\w+:`~?(?:[^`<]*\.)?(?P<name>[^`.<]+?)(?: <[^`]*>)?`")
LITERAL = re.compile(r"``(?P<text>[^`]+)``")
ORDER = (
    "accounting",
    "mechanisms",
    "questions",
    "running",
    "planning",
    "estimates",
    "testing",
    "learning",
    "network",
    "auditing",
    "collecting",
    "randomness",
    "errors",
)


@dataclass(frozen=True)
class Page:
    """A page of the reference, and the names that it documents, in its order."""

    name: str

    @property
    def text(self) -> str:
        return (PAGES / f"{self.name}.md").read_text(encoding="utf-8")

    @property
    def title(self) -> str:
        found = TITLE.search(self.text)
        return found["title"] if found else self.name

    @property
    def names(self) -> list[str]:
        return [found["name"] for found in DIRECTIVE.finditer(self.text)]


def pages() -> list[Page]:
    """The pages in their order."""
    return [Page(name) for name in ORDER]


def resolved(name: str) -> object:
    """What a dotted name is."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def public_names() -> list[str]:
    """The dotted names of everything public; what several modules have is under each."""
    return [
        f"{module}.{name}" for module, names in MODULES.items() for name in names or _own(module)
    ]


def _own(module: str) -> list[str]:
    content = importlib.import_module(module)
    listed = getattr(content, "__all__", None)
    if listed is not None:
        return [name for name in listed if name != "__version__"]
    return sorted(
        name
        for name, value in vars(content).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    )


def summary(name: str) -> str:
    """The first sentence of a name's docstring, as Markdown; nothing of plain data."""
    value = resolved(name)
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return ""
    text = (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ")
    text = ROLE.sub(lambda found: f"`{found['name']}`", text)
    return LITERAL.sub(lambda found: f"`{found['text']}`", text).replace("|", "\\|")


def lines() -> Iterator[str]:
    """The index."""
    yield HEAD
    for page in pages():
        yield f"\n## {page.title}\n\n| name | what it is |\n|---|---|\n"
        for name in page.names:
            shown = name.removeprefix("shoal.")
            yield f"| [`{shown}`](#{name}) | {summary(name)} |\n"


def index() -> str:
    """The index as a page of Markdown."""
    return "".join(lines()).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(index())
