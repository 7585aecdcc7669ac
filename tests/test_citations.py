"""Every arXiv id in the repository is in one table, and stands beside the authors of that paper."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import pytest

from repository import text_files
from shoal.accounting import catalog

TABLE = Path("docs/reference/literature.md")
ID = r"\d{4}\.\d{4,5}"
ROW = re.compile(
    rf"^\| \[(?P<id>{ID})\]\(https://arxiv\.org/abs/(?P=id)\)"
    r" \| (?P<authors>[^|]+) \| (?P<title>.+) \|$",
    re.MULTILINE,
)
CITED = re.compile(rf"arxiv(?:\.org/\w+/|:\s*\"|[\s:.#*]*)(?P<id>{ID})(?!\d)", re.IGNORECASE)
# Authors stand before the id, and in a table of the calculator after it.
BEFORE, AFTER = 300, 80
WRITTEN = {".py", ".pyi", ".md", ".ts", ".ipynb", ".cff", ".toml", ".txt", ".html"}


@dataclass(frozen=True)
class Paper:
    authors: tuple[str, ...]
    key: str
    title: str

    @property
    def names(self) -> tuple[str, ...]:
        """By which text names the paper: the first authors, or its key, as in FMT21."""
        return (*self.authors[:2], *filter(None, [self.key]))


def papers() -> dict[str, Paper]:
    found = {}
    for row in ROW.finditer(text_files()[TABLE]):
        authors, _, key = row["authors"].removesuffix("**)").partition(" (**")
        names = tuple(authors.removesuffix(" et al.").split(", "))
        found[row["id"]] = Paper(names, key, row["title"])
    return found


def citations() -> list[tuple[str, str, str]]:
    """(where, id, what is written around it)."""
    cited = []
    for path, text in text_files().items():
        if path.suffix not in WRITTEN or path in {TABLE, Path("CHANGELOG.md")}:
            continue
        cited += [
            (
                f"{path}:{text.count(chr(10), 0, match.start()) + 1}",
                match["id"],
                text[max(0, match.start() - BEFORE) : match.end() + AFTER],
            )
            for match in CITED.finditer(text)
        ]
    return cited


def test_the_table_is_in_order_and_names_each_paper_once():
    listed = [row["id"] for row in ROW.finditer(text_files()[TABLE])]
    assert len(listed) == text_files()[TABLE].count("\n| [")
    assert sorted(set(listed)) == listed


def test_every_id_is_in_the_table_and_every_row_is_cited():
    known = papers()
    cited = citations()
    assert len(cited) > 100
    assert [(where, paper) for where, paper, _ in cited if paper not in known] == []
    in_catalog = {entry.citation.arxiv for entry in catalog.ENTRIES.values()}
    assert set(known) - {paper for _, paper, _ in cited} - in_catalog == set()


def test_every_id_stands_beside_an_author_of_that_paper():
    known = papers()
    wrong = [
        (where, paper)
        for where, paper, around in citations()
        if not any(re.search(rf"\b{name}\b", around) for name in known[paper].names)
    ]
    assert wrong == []


@pytest.mark.parametrize("name", catalog.ENTRIES)
def test_the_catalog_cites_as_the_table_does(name):
    citation = catalog.get(name).citation
    if citation.arxiv is None:
        return
    paper = papers()[citation.arxiv]
    families = tuple(re.sub(r"^(?:\S+\. )+", "", author) for author in citation.authors.split(", "))
    assert plain(families) == plain(paper.authors)
    assert paper.title.startswith(f"{citation.title}, {citation.venue}")


def plain(names: tuple[str, ...]) -> list[str]:
    return [unicodedata.normalize("NFC", name) for name in names]
