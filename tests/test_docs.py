"""The documentation is executed: what a page shows is what a reader gets.

In README.md and below docs/, in the order of each page and in one namespace per page,

* ``python`` blocks run; those with ``>>>`` run as doctests and must print what they show;
* in ``console`` and ``bash`` blocks every line ``$ shoal …`` runs, as the command does and without
  a shell, from a directory that holds nothing but ``examples``; it must succeed, and the lines
  below it, if there are any, must be what it prints 80 columns wide (a line ``...`` stands for any
  lines);
* a block may be left out only with a reason, in a comment on the line above it:
  ``<!-- skip: downloads a gigabyte -->``;
* a block with ``<!-- with: spark -->`` above it needs more than ``make test`` installs, and is run
  by ``make test-spark``.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import command_kit
import reference
from repository import ROOT, text_files
from shoal.service import clock

PAGES = sorted(
    path
    for path in text_files()
    if path.suffix == ".md" and (path == Path("README.md") or path.parts[0] == "docs")
)
INDEXES = [Path("docs/index.md"), Path("docs/theory/index.md")]
THEORY = [path for path in PAGES if path.parent == Path("docs/theory") and path not in INDEXES]

PYTHON = {"python", "py", "pycon"}
CONSOLE = {"console", "bash", "sh", "shell"}
PROMPT = "$ "
OF_A_SHELL = "|&;<>()$*~"
ANYTHING = "..."

FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,}) *(?P<language>[\w+-]*)[^`]*$")
WITH = re.compile(r"<!--\s*with:\s*(?P<what>\w+)\s*-->")
SKIP = re.compile(r"<!--\s*skip\b:?(?P<reason>.*?)-->")
NOT_PROSE = re.compile(r"`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]+\$", re.DOTALL)
CODE_BLOCK = re.compile(r"^ *(`{3,}|~{3,}).*?^ *\1 *$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(\s*<?(?P<target>[^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
ELSEWHERE = re.compile(r"^(?:[a-z][a-z0-9+.-]*:|//|#)", re.IGNORECASE)

# Words that belong to somebody's desk, not to the project; the brackets keep this file clean.
FORBIDDEN = re.compile(r"\.\./share[d]|bash_job[s]|/wor[k]/|TOD[O]|FIXM[E]")


@dataclass(frozen=True)
class Block:
    language: str
    source: str
    line: int
    skip: str | None
    needs: str | None = None

    @property
    def is_doctest(self) -> bool:
        return re.search(r"^>>> ", self.source, re.MULTILINE) is not None


@dataclass(frozen=True)
class Command:
    words: str
    shown: tuple[str, ...]
    line: int


def blocks(text: str) -> Iterator[Block]:
    lines = text.splitlines()
    start = 0
    while start < len(lines):
        opening = FENCE.match(lines[start])
        if not opening:
            start += 1
            continue
        end = _closing(lines, start + 1, opening["fence"])
        source = textwrap.dedent("\n".join(lines[start + 1 : end])) + "\n"
        above = lines[:start]
        language = opening["language"].lower()
        yield Block(language, source, start + 2, _comment(SKIP, above), _comment(WITH, above))
        start = end + 1


def _closing(lines: list[str], start: int, fence: str) -> int:
    for number in range(start, len(lines)):
        found = lines[number].strip()
        if found.startswith(fence) and not found.strip(fence[0]):
            return number
    message = f"the block that begins on line {start} never ends"
    raise ValueError(message)


def _comment(pattern: re.Pattern[str], above: list[str]) -> str | None:
    """What a comment just above a block says: None without one, empty if it says nothing."""
    before = next((line for line in reversed(above) if line.strip()), "")
    found = pattern.search(before)
    return found[1].strip() if found else None


def commands(block: Block) -> Iterator[Command]:
    """Each prompt line of a block, its continuations joined, with the output shown below it."""
    lines = block.source.splitlines()
    number = 0
    while number < len(lines):
        line, first = lines[number], number
        number += 1
        if not line.startswith(PROMPT):
            continue
        words = line.removeprefix(PROMPT)
        while words.endswith("\\") and number < len(lines):
            words = words[:-1] + lines[number].removeprefix("> ").lstrip()
            number += 1
        shown = []
        while number < len(lines) and not lines[number].startswith(PROMPT):
            shown.append(lines[number])
            number += 1
        yield Command(words, tuple(_trimmed(shown)), block.line + first)


def _trimmed(lines: list[str]) -> list[str]:
    """Without trailing blanks, and without blank lines at either end."""
    return textwrap.dedent("\n".join(line.rstrip() for line in lines)).strip("\n").splitlines()


def matches(shown: tuple[str, ...], printed: list[str]) -> bool:
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == ANYTHING else re.escape(line) + r"\n" for line in shown
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


class Desk:
    """Where a page is worked through; commands run at once, as if each had been typed."""

    def __init__(self) -> None:
        self._typed = 0

    def time(self) -> float:
        return time.time() + self._typed

    def shoal(self, line: str) -> command_kit.Finished:
        self._typed += 1
        _, *words = shlex.split(line)
        return command_kit.shoal(*words)


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """An empty directory to work in, with the examples in it."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    found = Desk()
    monkeypatch.setattr(clock, "time", found)
    return found


@pytest.mark.usefixtures("calibrated_once")
@pytest.mark.parametrize("page", PAGES, ids=str)
def test_page_does_what_it_shows(page, desk):
    work_through(page, desk)


def work_through(page: Path, desk: Desk, having: frozenset[str] = frozenset()) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(text_files()[page]):
        if block.skip is not None:
            assert block.skip, f"{page}:{block.line}: a skipped block needs a reason"
        elif block.needs is not None and block.needs not in having:
            continue
        elif block.language in PYTHON and block.is_doctest:
            _run_doctest(block, page, namespace)
        elif block.language in PYTHON:
            _run_python(block, page, namespace)
        elif block.language in CONSOLE:
            _run_console(block, page, desk)


def _run_python(block: Block, page: Path, namespace: dict[str, Any]) -> None:
    padding = "\n" * (block.line - 1)
    code = compile(padding + block.source, str(ROOT / page), "exec", dont_inherit=True)
    exec(code, namespace)  # noqa: S102 - running our own documentation is the point


def _run_doctest(block: Block, page: Path, namespace: dict[str, Any]) -> None:
    name = f"{page}:{block.line}"
    parsed = doctest.DocTestParser().get_doctest(block.source, {}, name, str(page), block.line - 1)
    parsed.globs = namespace
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(parsed, out=report.append, clear_globs=False)
    assert not report, "".join(report)


def _run_console(block: Block, page: Path, desk: Desk) -> None:
    for command in commands(block):
        if not command.words.startswith("shoal "):
            continue
        place = f"{page}:{command.line}: $ {command.words}"
        assert not set(command.words) & set(OF_A_SHELL), f"{place}\nneeds a shell"
        finished = desk.shoal(command.words)
        assert finished.status == 0, f"{place}\n{finished.output}"
        if command.shown:
            printed = _trimmed(finished.output.splitlines())
            told = "\n".join([place, "prints:", *printed, "but the page shows:", *command.shown])
            assert matches(command.shown, printed), told


def test_every_theory_page_is_linked_from_an_index():
    linked = {
        target.resolve()
        for index in INDEXES
        if index in text_files()
        for target in _local_links(index)
    }
    lost = [str(page) for page in THEORY if (ROOT / page).resolve() not in linked]
    assert not lost, f"link them from one of {', '.join(map(str, INDEXES))}"


@pytest.mark.parametrize(
    "page", sorted(path for path in text_files() if path.suffix == ".md"), ids=str
)
def test_relative_links_lead_somewhere(page):
    broken = [str(target) for target in _local_links(page) if not target.exists()]
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_to_a_part_of_a_page_lead_to_a_heading(page):
    targets = (found["target"] for found in LINK.finditer(_prose(text_files()[page])))
    links = (target.split("#") for target in targets if "#" in target and ":" not in target)
    broken = [f"{to}#{part}" for to, part in links if part not in _anchors(page, to)]
    assert not broken


def _anchors(page: Path, target: str) -> set[str]:
    """The headings of a page; without one, also the names that the reference documents."""
    documented = (name for each in reference.pages() for name in each.names)
    return _headings(page, target) | (set() if target else set(documented))


def _headings(page: Path, target: str) -> set[str]:
    """The anchors of the headings of a page, as MyST and repository browsers make them."""
    path = Path(os.path.normpath(page.parent / target)) if target else page
    text = CODE_BLOCK.sub("", text_files().get(path, ""))
    headings = re.findall(r"^#{1,6} +(.+?) *$", text, re.MULTILINE)
    linked = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in linked}


def _local_links(page: Path) -> list[Path]:
    text = _prose(text_files()[page])
    targets = [found["target"].partition("#")[0] for found in LINK.finditer(text)]
    return [(ROOT / page).parent / target for target in targets if not ELSEWHERE.match(target)]


def _prose(text: str) -> str:
    """The page without code blocks, inline code and formulas, where brackets are not links."""
    return NOT_PROSE.sub("", CODE_BLOCK.sub("", text))


def test_nothing_mentions_a_desk_or_unfinished_work():
    found = [
        f"{path}:{number}: {line.strip()}"
        for path, text in text_files().items()
        for number, line in enumerate(text.splitlines(), start=1)
        if FORBIDDEN.search(line)
    ]
    assert not found, "\n".join(found)


SAMPLE = """\
Text with `[code](nowhere.md)`, $E[X](t)$ and [a link](there.md#part "title").

```python
x = 1
```

<!-- skip: needs a cluster -->
~~~console
$ shoal amplify \\
>     --n 10
 one  1

$ shoal demo
~~~

  ```pycon
  >>> x
  1
  ```
"""


def test_the_reader_finds_blocks_with_their_reasons():
    found = list(blocks(SAMPLE))
    assert [block.language for block in found] == ["python", "console", "pycon"]
    assert [block.skip for block in found] == [None, "needs a cluster", None]
    assert [block.is_doctest for block in found] == [False, False, True]
    assert [block.line for block in found] == [4, 9, 17]
    assert found[2].source == ">>> x\n1\n"
    assert _comment(SKIP, ["<!-- skip -->"]) == ""
    assert _comment(WITH, ["<!-- with: spark -->", ""]) == "spark"


def test_the_reader_finds_commands_with_their_output():
    first, second = commands(list(blocks(SAMPLE))[1])
    assert (first.words, first.shown, first.line) == ("shoal amplify --n 10", ("one  1",), 9)
    assert (second.words, second.shown, second.line) == ("shoal demo", (), 13)


def test_the_reader_finds_links_in_prose_only():
    assert [found["target"] for found in LINK.finditer(_prose(SAMPLE))] == ["there.md#part"]


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        (("a", "b"), ["a", "b"], True),
        (("a",), ["a", "b"], False),
        (("a", "...", "d"), ["a", "b", "c", "d"], True),
        (("...", "d"), ["d"], True),
        (("a", "..."), ["b", "a"], False),
        (("1.0",), ["1x0"], False),
    ],
)
def test_output_is_compared_line_by_line(shown, printed, same):
    assert matches(shown, printed) is same
