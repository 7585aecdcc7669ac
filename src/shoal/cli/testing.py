"""``shoal test``: whether answers are as a reference says, or as those of another group."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli import files, testing_asked
from shoal.cli.options import choice, flag, number, option, whole
from shoal.cli.render import print_json, reporting
from shoal.cli.testing_asked import AskedTest, Coin, Sizes

_WHAT = "What is tested"
_WANTED = "What should be noticed, and at what price"
_HOW = "How answers are told"
_POWER = "Before there are data"
_OUT = "What to make of it"


def run_test(
    *,
    data: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A table, one person per row: CSV, Parquet, Arrow."),
    ] = None,
    column: Annotated[str | None, option("The column of answers.", _WHAT, "NAME")] = None,
    against: Annotated[
        Path | None,
        option(
            "A reference instead of uniform: a CSV of answers and probabilities (or counts).",
            _WHAT,
            "FILE",
        ),
    ] = None,
    second: Annotated[
        Path | None,
        typer.Option(
            "--with",
            metavar="FILE",
            help="A table of other people, with this column: do both answer alike?",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    by: Annotated[
        str | None, option("A column with two groups: do both answer alike?", _WHAT, "NAME")
    ] = None,
    overlap: Annotated[
        bool, flag("--overlap", "People may be in both groups: ε is for two reports.", _WHAT)
    ] = False,
    categories: Annotated[
        str | None,
        option(
            "The public list of answers: a,b,c or a file with one per line. With --power also how "
            "many.",
            _WHAT,
            "LIST",
        ),
    ] = None,
    drop_nulls: Annotated[
        bool, flag("--drop-nulls", "Leave out rows without an answer.", _WHAT)
    ] = False,
    distance: Annotated[
        float | None,
        number("The difference that matters: the share of people who answer otherwise.", _WANTED),
    ] = None,
    level: Annotated[float, number("The chance of a false alarm.", _WANTED)] = 0.05,
    epsilon: Annotated[float | None, number("ε that the test may cost.", _WANTED)] = None,
    delta: Annotated[float, number("δ.", _WANTED)] = 1e-6,
    honest_fraction: Annotated[
        float, number("The share of people that follows the protocol.", _WANTED)
    ] = 1.0,
    coin: Annotated[
        Coin, choice("Devices draw by themselves, or share public coins.", _HOW, Coin)
    ] = Coin.AUTO,
    randomizer: Annotated[
        str | None, option("What devices run, instead of the best.", _HOW, "NAME")
    ] = None,
    partitions: Annotated[int | None, whole("Public coins: so many partitions.", _HOW)] = None,
    symbols: Annotated[int | None, whole("Public coins: parts of a partition.", _HOW)] = None,
    messages_cap: Annotated[float, number("Messages one person may send on average.", _HOW)] = 1.0,
    power: Annotated[
        bool, flag("--power", "No FILE: how many people it takes to notice.", _POWER)
    ] = False,
    n: Annotated[
        Sizes | None,
        option(
            "Numbers of people to try: 1e4,3e4,1e5.", _POWER, "LIST", parser=testing_asked.sizes
        ),
    ] = None,
    trials: Annotated[int | None, whole("Simulated tests for each (400).", _POWER)] = None,
    simulations: Annotated[
        int | None, whole("Batches simulated for the threshold (1999; 100/level if more).", _OUT)
    ] = None,
    seed: Annotated[int | None, whole("Of the simulated batches; reports have none.", _OUT)] = None,
    plot: Annotated[
        Path | None,
        option("Draw the statistic among simulated ones, or the power (.svg, .png).", _OUT, "FILE"),
    ] = None,
    as_json: Annotated[bool, flag("--json", "Print JSON.", _OUT)] = False,
) -> None:
    """Whether answers are uniform, as a reference says, or alike in two groups: a private test.

    Randomizes, shuffles and decides, with the least noise that keeps ε and δ. With --power: how
    often a difference would be noticed, the hardest there is, and by how many people.
    """
    asked = AskedTest(
        data=data,
        column=column,
        against=against,
        second=second,
        by=by,
        overlap=overlap,
        categories=categories,
        drop_nulls=drop_nulls,
        distance=distance,
        level=level,
        epsilon=epsilon,
        delta=delta,
        honest_fraction=honest_fraction,
        coin=coin,
        randomizer=randomizer,
        partitions=partitions,
        symbols=symbols,
        messages_cap=messages_cap,
        simulations=simulations,
        seed=seed,
        power=power,
        sizes=() if n is None else n.people,
        trials=trials,
        plot=plot,
    )
    asked.check()
    for read in (data, against, second):
        files.check(plot=plot, never=read)
    if power:
        _answer_power(asked, as_json=as_json)
    else:
        _answer_test(asked, as_json=as_json)


def _answer_test(asked: AskedTest, *, as_json: bool) -> None:
    with reporting("testing") as progress:
        from shoal.cli import testing_answer, testing_show

        found = testing_answer.answer(asked, progress)

    def draw(path: Path) -> None:
        from shoal.cli import testing_figure

        testing_figure.draw(found, path)

    values = found.to_dict() if as_json else None
    _finish(asked, values, draw, lambda: testing_show.show(found))


def _answer_power(asked: AskedTest, *, as_json: bool) -> None:
    with reporting("simulating") as progress:
        from shoal.cli import testing_power, testing_power_show

        found = testing_power.answer(asked, progress)

    def draw(path: Path) -> None:
        from shoal.cli import testing_figure

        testing_figure.draw_power(found, path)

    values = found.to_dict() if as_json else None
    _finish(asked, values, draw, lambda: testing_power_show.show(found))


def _finish(
    asked: AskedTest,
    values: dict[str, object] | None,
    draw: files.Write,
    show: Callable[[], None],
) -> None:
    """Write the figure, and print: values for programs, or what people read."""
    with files.together() as write:
        if asked.plot is not None:
            write(asked.plot, draw)
    if values is not None:
        print_json(values)
        return
    show()
    if asked.plot is not None:
        typer.echo(f"wrote {asked.plot}")
