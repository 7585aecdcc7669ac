"""``shoal test``: whether answers are as a reference says, or as those of another group."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from shoal.cli import files
from shoal.cli.app import ANALYSE, app, printable
from shoal.cli.options import Excludes, Needs, OneOf, Options, Required, command, option, read_int
from shoal.cli.render import answer, console, panel, working
from shoal.engines.files import Format
from shoal.errors import RefusedError

if TYPE_CHECKING:
    from shoal.questions.kinds import Choice, Missing
    from shoal.questions.terms import Limits
    from shoal.testing import Hypothesis

_WHAT = "What is tested"
_WANTED = "The difference to detect, and its price"
_HOW = "How devices report"
_POWER = "Before you have data"


Coin = Literal["auto", "private", "public"]  # whose coins devices use


class Sizes(tuple[int, ...]):
    """Numbers of people, ascending."""

    __slots__ = ()


def read_sizes(text: str) -> Sizes:
    """Numbers of people: 1e4,3e4,1e5.

    >>> read_sizes("3e4, 1e4")
    (10000, 30000)
    """
    return Sizes(sorted({read_int(part.strip()) for part in text.split(",")}))


class TestOptions(Options):
    """What is tested, what should be noticed and at what price, and how."""

    data: str | None = option(files.TABLE, name="FILE", default=None)
    format: Format | None = option(files.FORMAT, keyword="format")
    column: str | None = option("The column of answers.", _WHAT, "NAME")
    against: Path | None = option(
        "A reference distribution instead of the uniform one: a CSV of answers and "
        "probabilities (or counts).",
        _WHAT,
        keyword="reference",
    )
    with_: str | None = option(
        "A table of other people with the same column: do both groups answer alike?",
        _WHAT,
        keyword="second",
    )
    by: str | None = option("A column with two groups: do both answer alike?", _WHAT, "NAME")
    overlap: bool = option(
        "A person may be in both groups: ε covers both reports.", _WHAT, keyword="overlapping"
    )
    categories: str | None = option(
        "The public list of answers: a,b,c or a file with one per line. With --power, also "
        "their number.",
        _WHAT,
        "LIST",
        keyword="labels",
    )
    public_list: bool = option(files.PUBLIC_LIST, _WHAT)
    drop_nulls: bool = option("Leave out rows without an answer.", _WHAT)
    distance: float | None = option(
        "The difference to detect: the fraction of people whose answers differ.", _WANTED
    )
    level: float = option("The probability of a false alarm.", _WANTED, default=0.05)
    epsilon: float | None = option("ε that the test may cost.", _WANTED)
    delta: float = option("δ.", _WANTED, default=1e-6)
    honest_fraction: float = option(
        "Fraction of people who follow the protocol.", _WANTED, default=1.0
    )
    coin: Coin = option(
        "Each device draws its own coins (private), or all share public ones.", _HOW, default="auto"
    )
    randomizer: str | None = option("What devices run; default: the best.", _HOW, "NAME")
    partitions: int | None = option("With public coins: number of partitions.", _HOW)
    symbols: int | None = option("With public coins: number of parts of a partition.", _HOW)
    messages_cap: float = option(
        "Messages that one person may send on average.", _HOW, default=1.0, keyword="messages"
    )
    power: bool = option("Without FILE: how many people the test needs.", _POWER)
    n: Sizes | None = option(
        "Numbers of people to try: 1e4,3e4,1e5.", _POWER, "LIST", parser=read_sizes
    )
    trials: int | None = option("Number of simulated tests for each; default: 400.", _POWER)
    simulations: int | None = option(
        "Number of batches simulated for the threshold; default: 1999, or 100/level if "
        "that is more."
    )
    seed: int | None = option("Seed of the simulated batches; reports have none.")
    plot: Path | None = option(
        "Draw the statistic and its simulated distribution, or the power (.svg, .png)."
    )

    rules = (
        Excludes(
            "power",
            ("data", "format", "column", "with_", "by", "overlap", "public_list", "drop_nulls"),
            "--power is for before you have data",
        ),
        Required("data", "a table with an answer per row (or give --power)", unless=("power",)),
        Excludes("power", ("randomizer",), "--power tries every device"),
        Required("column", "which column of the file to test", ("power",)),
        Needs("n", ("power",), "with a FILE its rows are the people"),
        Needs("trials", ("power",), "with a FILE one test is made"),
        Excludes(
            "against", ("with_", "by", "categories"), "--against has the reference to compare with"
        ),
        Excludes("with_", ("by",), "--with has the people to compare with"),
        Needs("overlap", ("with_", "by"), "the two groups that people may be in"),
        Required("distance", "which difference matters, as a fraction of people (0.1)"),
        Required("epsilon", "what the test may cost each person"),
    )

    def check(self) -> None:
        """The answers of --power, whether messages are exchangeable, and what is written."""
        if self.power:
            self.obey(OneOf(("categories", "against"), "--power needs the answers"))
        if self.messages_cap > 1 and (self.with_ is not None or self.by is not None):
            raise RefusedError(
                "a test of two groups takes one message per person (several messages of "
                "one person are not exchangeable): leave out --messages-cap"
            )
        files.check(plot=self.plot, never=self.against)

    def question(self) -> Choice:
        """The column that is tested."""
        from shoal.questions.kinds import Choice

        labels = None if self.categories is None else files.read_list(self.categories)
        missing: Missing | None = "drop" if self.drop_nulls else None
        asked = Choice(str(self.column), labels, public=self.public_list, missing=missing)
        return asked if self.by is None else asked.by(self.by)

    def terms(self) -> dict[str, Any]:
        """At what price, by whom, and how it is tested, as the library has it."""
        from shoal import Crowd
        from shoal.testing import Simulations, Way

        return {
            **self.only("epsilon", "delta"),
            "crowd": Crowd(honest_fraction=self.honest_fraction),
            "way": Way(**self.arguments(Way)),
            "simulations": Simulations(self.simulations, self.seed),
        }

    def limits(self) -> Limits:
        """How many messages each."""
        from shoal import Limits

        return Limits(**self.only("messages_cap"))


@command(app, ANALYSE)
def test(options: TestOptions) -> None:
    """Test privately whether answers are uniform, follow a reference, or agree in two groups.

    Randomizes, shuffles and decides, with the least noise that keeps ε and δ. With --power: how
    often the hardest difference is detected, by the number of people.
    """
    if options.power:
        _power(options)
    else:
        _verdict(options)


def _verdict(options: TestOptions) -> None:
    """Test the column."""
    with working("testing") as progress, ExitStack() as stack:
        from shoal import testing

        places = [place for place in (options.data, options.with_) if place is not None]
        if places.count(files.STANDARD_INPUT) > 1:
            raise RefusedError("standard input (-) is one table: give a file for the other one")
        tables = [stack.enter_context(files.table([each], options.format)) for each in places]
        for path in (path for table in tables for path in table.paths):
            files.check(plot=options.plot, never=path)
        terms = options.terms() | options.only("distance", "level") | {"progress": progress}
        if len(tables) > 1 or options.by is not None:
            terms |= options.only("overlap")
            result = testing.compare(tables[0], options.question(), *tables[1:], **terms)
        else:
            terms |= options.only("against") | {"limits": options.limits()}
            result = testing.run(tables[0], options.question(), **terms)
    files.write(files.figure(options.plot, "test", result.verdict))
    verdict, document = result.verdict, result.document()
    guarantee = replace(
        verdict.guarantee.document(), notes=document.notes, warnings=document.warnings
    )
    if not options.json:
        style = "bold red" if verdict.rejected else "bold green"
        console().print(printable(verdict.words), style=style)
        console().print(panel(document))
    answer(options, result.to_dict(), guarantee, options.plot)


def _power(options: TestOptions) -> None:
    """Simulate tests of every model, with the numbers of people given or some around enough."""
    with working("simulating") as progress:
        from shoal.testing.study import Study

        hypothesis, notes = _hypothesis(options)
        terms = options.terms() | options.only("trials") | {"limits": options.limits()}
        study = Study(hypothesis, **terms)
        powers = study.run(options.n or (), progress)
    files.write(files.figure(options.plot, "power", powers))
    values = powers.to_dict() | {"notes": list(notes)}
    answer(options, values, replace(powers.document(), notes=notes), options.plot)


def _hypothesis(options: TestOptions) -> tuple[Hypothesis, tuple[str, ...]]:
    """Uniform on so many answers, or the reference; and what to know of it."""
    from shoal.questions.kinds import MOST_LABELS
    from shoal.testing import Hypothesis, read_reference

    terms = options.only("distance", "level")
    if options.against is not None:
        reference = read_reference(options.against)
        return Hypothesis(reference=reference.probabilities, **terms), reference.notes
    text = options.categories or ""
    if "," in text or Path(text).is_file():
        listed = files.read_list(text)
        k = len(listed)
        twice = sorted({label for label in listed if listed.count(label) > 1})
        if twice:
            raise RefusedError(
                f"expected --categories with every answer once, got {twice[0]!r} twice"
            )
    else:
        k = read_int(text)
    if not 2 <= k <= MOST_LABELS:
        raise RefusedError(f"expected --categories from 2 to {MOST_LABELS:,}, got {k}")
    return Hypothesis(k=k, **terms), ()
