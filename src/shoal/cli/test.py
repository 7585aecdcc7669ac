"""``shoal test``: whether answers are as a reference says, or as those of another group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from shoal.cli import files
from shoal.cli.app import ANALYSE, app, printable
from shoal.cli.options import (
    Excludes,
    Needs,
    OneOf,
    Options,
    RefusedError,
    Required,
    Rule,
    argument,
    choice,
    command,
    flag,
    number,
    option,
    read_whole,
    whole,
)
from shoal.cli.render import console, panel, print_json, remarks, reporting, show

if TYPE_CHECKING:
    from shoal.values import Array

_WHAT = "What is tested"
_WANTED = "What should be noticed, and at what price"
_HOW = "How devices report"
_POWER = "Before there are data"
_OUT = "What to make of it"


class Coin(StrEnum):
    """Whose coins devices use."""

    AUTO = "auto"
    PRIVATE = "private"
    PUBLIC = "public"


class Sizes(tuple[int, ...]):
    """Numbers of people, ascending."""

    __slots__ = ()


def read_sizes(text: str) -> Sizes:
    """Numbers of people: 1e4,3e4,1e5.

    >>> read_sizes("3e4, 1e4")
    (10000, 30000)
    """
    return Sizes(sorted({read_whole(part.strip()) for part in text.split(",")}))


@dataclass(frozen=True, kw_only=True)
class TestOptions(Options):
    """What is tested, what should be noticed and at what price, and how."""

    data: Annotated[
        Path | None, argument("A table, one person per row: CSV, Parquet, Arrow.", "FILE")
    ] = None
    column: Annotated[str | None, option("The column of answers.", _WHAT, "NAME")] = None
    against: Annotated[
        Path | None,
        option(
            "A reference instead of uniform: a CSV of answers and probabilities (or counts).",
            _WHAT,
            "FILE",
        ),
    ] = None
    with_: Annotated[
        Path | None,
        typer.Option(
            "--with",
            metavar="FILE",
            help="A table of other people, with this column: do both answer alike?",
            rich_help_panel=_WHAT,
        ),
    ] = None
    by: Annotated[
        str | None, option("A column with two groups: do both answer alike?", _WHAT, "NAME")
    ] = None
    overlap: Annotated[
        bool, flag("--overlap", "People may be in both groups: ε is for two reports.", _WHAT)
    ] = False
    categories: Annotated[
        str | None,
        option(
            "The public list of answers: a,b,c or a file with one per line. With --power also how "
            "many.",
            _WHAT,
            "LIST",
        ),
    ] = None
    drop_nulls: Annotated[
        bool, flag("--drop-nulls", "Leave out rows without an answer.", _WHAT)
    ] = False
    distance: Annotated[
        float | None,
        number(
            "The difference that matters: the fraction of people who answer otherwise.", _WANTED
        ),
    ] = None
    level: Annotated[float, number("The probability of a false alarm.", _WANTED)] = 0.05
    epsilon: Annotated[float | None, number("ε that the test may cost.", _WANTED)] = None
    delta: Annotated[float, number("δ.", _WANTED)] = 1e-6
    honest_fraction: Annotated[
        float, number("The fraction of people that follows the protocol.", _WANTED)
    ] = 1.0
    coin: Annotated[
        Coin, choice("Devices draw by themselves, or share public coins.", _HOW, Coin)
    ] = Coin.AUTO
    randomizer: Annotated[
        str | None, option("What devices run, instead of the best.", _HOW, "NAME")
    ] = None
    partitions: Annotated[int | None, whole("Public coins: so many partitions.", _HOW)] = None
    symbols: Annotated[int | None, whole("Public coins: parts of a partition.", _HOW)] = None
    messages_cap: Annotated[float, number("Messages one person may send on average.", _HOW)] = 1.0
    power: Annotated[
        bool, flag("--power", "No FILE: how many people it takes to notice.", _POWER)
    ] = False
    n: Annotated[
        Sizes | None,
        option("Numbers of people to try: 1e4,3e4,1e5.", _POWER, "LIST", read_sizes),
    ] = None
    trials: Annotated[int | None, whole("Simulated tests for each (400).", _POWER)] = None
    simulations: Annotated[
        int | None, whole("Batches simulated for the threshold (1999; 100/level if more).", _OUT)
    ] = None
    seed: Annotated[int | None, whole("Of the simulated batches; reports have none.", _OUT)] = None
    plot: Annotated[
        Path | None,
        option("Draw the statistic among simulated ones, or the power (.svg, .png).", _OUT, "FILE"),
    ] = None
    json: Annotated[bool, flag("--json", "Print JSON.", _OUT)] = False

    arguments: ClassVar[Mapping[str, str]] = {
        "reference": "against",
        "second": "with_",
        "overlapping": "overlap",
    }
    rules: ClassVar[tuple[Rule, ...]] = (
        Excludes(
            "power",
            ("column", "with_", "by", "overlap", "drop_nulls"),
            "--power is asked before there are data",
        ),
        Excludes("power", ("randomizer",), "--power tries every device"),
        Required("column", "which column of the file to test", ("power",)),
        Needs("n", ("power",), "with a FILE its rows are the people"),
        Needs("trials", ("power",), "with a FILE one test is made"),
        Excludes(
            "against", ("with_", "by", "categories"), "--against has the answers to compare with"
        ),
        Excludes("with_", ("by",), "--with has the people to compare with"),
        Needs("overlap", ("with_", "by"), "the two groups that people may be in"),
        Required("distance", "which difference matters, as a fraction of people (0.1)"),
        Required("epsilon", "what the test may cost each person"),
    )

    def check(self) -> None:
        """The table of rules, FILE, and which file is written."""
        if self.data is None and not self.power:
            raise RefusedError("FILE is missing: a table with an answer per row, or say --power")
        if self.data is not None and self.power:
            raise RefusedError("--power is asked before there are data: leave out FILE")
        Options.check(self)
        if self.power:
            OneOf(("categories", "against"), "--power needs the answers").check(self.given)
        if self.messages_cap > 1 and (self.with_ is not None or self.by is not None):
            raise RefusedError(
                "two groups are compared by one message each (several of one person are not "
                "exchangeable): leave out --messages-cap"
            )
        for path in (self.data, self.against, self.with_):
            files.check(plot=self.plot, never=path)

    @property
    def wishes(self) -> dict[str, Any]:
        """What should be noticed, at what price and how, as keywords of the library."""
        return self.only(
            "epsilon",
            "delta",
            "distance",
            "level",
            "partitions",
            "symbols",
            "messages_cap",
            "honest_fraction",
            "simulations",
            "seed",
        ) | {"coin": self.coin.value}


@command(app, ANALYSE)
def test(options: TestOptions) -> None:
    """Whether answers are uniform, as a reference says, or alike in two groups: a private test.

    Randomizes, shuffles and decides, with the least noise that keeps ε and δ. With --power: how
    often a difference would be noticed, the hardest there is, and by how many people.
    """
    if options.power:
        _power(options)
    else:
        _verdict(options)
    if options.plot is not None and not options.json:
        typer.echo(f"wrote {options.plot}")


def _verdict(options: TestOptions) -> None:
    """Test the column."""
    with reporting("testing") as progress:
        from shoal import testing
        from shoal.cli.files import read_list

        result = testing.run(
            options.data,
            reference=options.against,
            second=options.with_,
            overlapping=options.overlap,
            categories=None if options.categories is None else read_list(options.categories),
            progress=progress,
            **options.only("column", "by", "drop_nulls", "randomizer"),
            **options.wishes,
        )
    verdict = result.verdict
    if options.plot is not None:
        from shoal.figures import results

        with files.together() as write:
            write(options.plot, lambda path: results.test(verdict, path))
    if options.json:
        print_json(result.to_dict())
        return
    from rich.text import Text

    document, page = result.document(), console()
    page.print(Text(verdict.words, style="bold red" if verdict.rejected else "bold green"))
    facts = tuple((label, printable(text)) for label, text in document.facts)
    page.print(panel(replace(document, facts=facts)))
    page.print(panel(verdict.guarantee.document()))
    remarks(page, replace(document, notes=tuple(map(printable, document.notes))))


def _power(options: TestOptions) -> None:
    """Simulate tests of every model, with the numbers of people given or some around enough."""
    with reporting("simulating") as progress:
        from shoal.testing.study import Study

        reference, notes = _hypothesis(options)
        study = Study(reference=reference, **options.only("trials"), **options.wishes)
        powers = study.run(options.n or (), progress)
    document = replace(powers.document(), notes=notes)
    if options.plot is not None:
        from shoal.figures import results

        with files.together() as write:
            write(options.plot, lambda path: results.power(powers, path))
    if options.json:
        print_json(powers.to_dict() | {"notes": list(notes)})
    else:
        show(document)


def _hypothesis(options: TestOptions) -> tuple[Array, tuple[str, ...]]:
    """Uniform on so many answers, or the reference; and what to know of it."""
    import numpy as np

    from shoal.cli.files import read_list
    from shoal.engines.reading import MOST_ANSWERS
    from shoal.testing import read_reference

    if options.against is not None:
        answers = read_reference(options.against)
        return np.array(answers.probabilities), tuple(map(printable, answers.notes))
    text = options.categories or ""
    listing = "," in text or Path(text).is_file()
    k = len(set(read_list(text))) if listing else read_whole(text)
    if not 2 <= k <= MOST_ANSWERS:
        raise RefusedError(f"expected --categories from 2 to {MOST_ANSWERS:,}, got {k}")
    return np.full(k, 1 / k), ()
