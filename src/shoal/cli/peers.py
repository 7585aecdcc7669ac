"""``shoal peers run``: real peers on this machine pass reports on, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from shoal.cli.app import COLLECT, app, group
from shoal.cli.options import (
    Excludes,
    Needs,
    Options,
    RefusedError,
    Rule,
    choice,
    command,
    flag,
    number,
    option,
    whole,
)
from shoal.cli.render import console, print_json, show, working
from shoal.cli.walk import Submit

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from shoal.service.peers.collection import PeerCollection
    from shoal.values import Array, Estimate

_WHO = "Who takes part"
_WALK = "How reports travel"
_WHAT = "What is collected"
_OUT = "What to make of it"
_PEERS, _ANSWERS = 100, 4  # unless said
_MOST_PEERS = 2000
_SHOWN = 30  # answers in the chart
MADE_UP = "the answers are made up, the same for the same seed"

peers = group("Peers that pass reports on, run for real on this machine.")
app.add_typer(peers, name="peers", rich_help_panel=COLLECT)


class Mode(StrEnum):
    """Who draws the next peer."""

    HOP = "hop"
    ONION = "onion"


@dataclass(frozen=True, kw_only=True)
class PeersOptions(Options):
    """Who takes part, how reports travel, and what is collected."""

    peers: Annotated[int | None, whole("How many peers; 100 if not given.", _WHO)] = None
    degree: Annotated[int, whole("Neighbours of each, in a random overlay.", _WHO)] = 8
    offline: Annotated[float, number("The probability to be away in a round.", _WHO)] = 0.0
    processes: Annotated[int, whole("Processes that the peers are spread over.", _WHO)] = 1
    rounds: Annotated[int, whole("How often reports are passed on.", _WALK)] = 16
    mode: Annotated[
        Mode, choice("Holders draw the next peer, or origins the whole path.", _WALK, Mode)
    ] = Mode.HOP
    hops: Annotated[
        int | None, whole("With --mode onion: steps of a path; fewer leave time.", _WALK)
    ] = None
    cover: Annotated[int, whole("Frames on every link in every round; 0: reports.", _WALK)] = 0
    submit: Annotated[
        Submit, choice("Holders submit all they hold, or one message.", _WALK, Submit)
    ] = Submit.ALL
    submission_rounds: Annotated[int, whole("Attempts to submit.", _WALK)] = 4
    data: Annotated[
        Path | None, option("A table, one peer a row; made-up answers if none.", _WHAT, "FILE")
    ] = None
    column: Annotated[str | None, option("Its column of answers.", _WHAT, "NAME")] = None
    categories: Annotated[
        str | None, option("The public list of answers: a,b,c or a file.", _WHAT, "LIST")
    ] = None
    k: Annotated[int | None, whole("Instead: so many answers; 4 if not given.", _WHAT)] = None
    randomizer: Annotated[str, option("A randomizer of answers.", _WHAT, "NAME")] = "grr"
    local_epsilon: Annotated[float, number("Its ε0.", _WHAT)] = 2.0
    delta: Annotated[float, number("δ.", _WHAT)] = 1e-6
    seed: Annotated[int, whole("Of the overlay and of made-up answers.", _OUT)] = 0
    json: Annotated[bool, flag("--json", "Print JSON.", _OUT)] = False

    arguments: ClassVar[Mapping[str, str]] = {"epsilon": "local_epsilon"}
    rules: ClassVar[tuple[Rule, ...]] = (
        Needs("data", ("column",), "which column of the table"),
        Needs("column", ("data",), "the table it is a column of"),
        Excludes("data", ("peers", "k"), "--data says who takes part and what they say"),
        Excludes("categories", ("k",), "--categories says how many answers there are"),
    )

    def check(self) -> None:
        """The table of rules; hops are those of onions."""
        Options.check(self)
        if self.hops is not None and self.mode is not Mode.ONION:
            raise RefusedError("--hops needs --mode onion: in hop mode every round is a hop")


@command(peers)
def run(options: PeersOptions) -> None:
    """Start peers on loopback sockets, let them walk, and estimate from what arrives."""
    with working("passing reports on"):
        question, collection = _collected(options)
    if options.json:
        notes = [*question.notes, *collection.warnings]
        values = {"estimate": question.to_dicts(collection.estimate), **collection.to_dict()}
        print_json(values | {"notes": notes})
    else:
        _show(question, collection)


@dataclass(frozen=True, eq=False)
class _Question:
    """Everybody's answer, what the answers are called, and their fractions if it is no secret."""

    values: npt.NDArray[np.int64]
    labels: tuple[str, ...]
    notes: tuple[str, ...]
    truth: Array | None = None

    def to_dicts(self, estimate: Estimate) -> list[dict[str, object]]:
        """The estimate of each answer: fractions of one, not of a hundred."""
        from shoal.report.charts import LEVEL

        low, high = estimate.interval(LEVEL)
        return [
            {
                "answer": label,
                "share": float(estimate.frequencies[place]),
                "standard_error": float(estimate.standard_errors[place]),
                "low": float(low[place]),
                "high": float(high[place]),
                **({} if self.truth is None else {"truth": float(self.truth[place])}),
            }
            for place, label in enumerate(self.labels)
        ]


def _collected(options: PeersOptions) -> tuple[_Question, PeerCollection]:
    from shoal import checks
    from shoal.engines.columns import PUBLIC
    from shoal.network.generators import random_regular
    from shoal.randomizers.base import CategoryRandomizer
    from shoal.randomizers.registry import family
    from shoal.service.peers import Conditions, PeerSurvey
    from shoal.service.peers.collection import collect, hops_in_time

    conditions = Conditions(offline=options.offline, processes=options.processes)
    hops = options.hops
    if options.mode is Mode.ONION and hops is None:
        hops = hops_in_time(options.rounds, options.offline)
    survey = PeerSurvey(
        rounds=options.rounds,
        mode=options.mode.value,
        hops=hops,
        cover=options.cover,
        submit=options.submit.value,
        submission_rounds=options.submission_rounds,
    )
    question = _made_up(options) if options.data is None else _from_file(options)
    count = checks.count(4, peers=len(question.values))
    if count > _MOST_PEERS:
        raise RefusedError(
            f"at most {_MOST_PEERS:,} peers fit on one machine's sockets, got {count:,}: "
            "shoal walk --simulate walks millions of reports"
        )
    make = family(options.randomizer, k=len(question.labels))
    randomizer = make(epsilon=options.local_epsilon)
    if not isinstance(randomizer, CategoryRandomizer):
        raise RefusedError(f"--randomizer {options.randomizer} is not for answers")
    collection = collect(
        question.values,
        randomizer=randomizer,
        graph=random_regular(count, options.degree, seed=options.seed),
        survey=survey,
        conditions=conditions,
        delta=options.delta,
    )
    public = [note for note in question.notes if note in PUBLIC]
    stated = collection.guarantee
    assumed = replace(stated, assumptions=(*stated.assumptions, *public))
    return question, replace(collection, guarantee=assumed)


def _made_up(options: PeersOptions) -> _Question:
    """Answers whose fractions fall like 1, 1/2, 1/3, ..."""
    import numpy as np

    from shoal import checks
    from shoal.cli.files import read_list
    from shoal.randomness import simulated

    if options.categories is None:
        count = checks.count(2, k=_ANSWERS if options.k is None else options.k)
        labels = tuple(f"answer {place}" for place in range(count))
    else:
        labels = tuple(read_list(options.categories))
    if len(labels) < 2:
        raise RefusedError("--categories has to list at least two answers")
    people = checks.count(4, peers=_PEERS if options.peers is None else options.peers)
    seed = checks.count(0, seed=options.seed)
    ends = np.cumsum([10**6 // (place + 1) for place in range(len(labels))])
    drawn = simulated(seed).below(int(ends[-1]), people).astype(np.int64)
    codes = np.searchsorted(ends, drawn, side="right")
    return _Question(codes, labels, (MADE_UP,), np.bincount(codes, minlength=len(labels)) / people)


def _from_file(options: PeersOptions) -> _Question:
    import numpy as np

    from shoal.cli.files import read_list
    from shoal.engines import columns
    from shoal.engines.columns import Choices

    column = columns.column(options.data, options.column or "")
    if options.categories is None:
        coded = Choices.found(column, drop_nulls=False)
    else:
        coded = Choices.listed(column, read_list(options.categories), drop_nulls=False)
    values = np.concatenate([np.asarray(part, dtype=np.int64) for part in coded.chunks()])
    return _Question(values, coded.labels, coded.notes)


# ------------------------------------------------------------------------------ for people


def _show(question: _Question, collection: PeerCollection) -> None:
    """Print what happened, the estimate and the guarantee."""
    from rich.text import Text

    from shoal.cli.run import bars
    from shoal.report import charts

    run, survey = collection.run, collection.survey
    onion = survey.mode == "onion"
    hops = f", {survey.layers} hops" if onion else ""
    stranded = f", {run.stranded:,} stranded on unfinished paths" if onion else ""
    what = "reports" if survey.submit == "all" else "messages, dummies among them,"
    page = console()
    page.print(
        f"{run.sent:,} peers with {int(collection.graph.degrees.max())} neighbours each, "
        f"{survey.rounds} rounds in {survey.mode} mode{hops}, "
        f"{collection.conditions.offline:.0%} away in a round"
    )
    page.print(
        f"{run.moves:,} hops in {collection.seconds:.1f} s; {run.arrived:,} {what} arrived, "
        f"{run.duplicates:,} duplicates, {run.rejected:,} rejected{stranded}; at most "
        f"{max(run.loads):,} held by one peer"
    )
    page.print()
    rows = charts.items(question.labels, collection.estimate, question.truth)
    page.print(bars(rows[:_SHOWN]))
    truth = "" if question.truth is None else "; ◆ true fraction"
    page.print(Text(f"█ fraction, ▒ its 95 % interval{truth}", style="dim"))
    page.print()
    document = collection.guarantee.document()
    show(replace(document, notes=question.notes, warnings=collection.warnings))
