"""``shoal peers run``: real peers on this machine pass reports on, and what comes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import typer

from shoal import checks
from shoal.cli import files
from shoal.cli.app import COLLECT, Commands, app
from shoal.cli.options import Excludes, Needs, Options, command, option
from shoal.cli.render import answer, chart, console, working
from shoal.cli.walk import Submit
from shoal.errors import RefusedError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from shoal.intervals.estimates import Estimate
    from shoal.questions.settled import Coding
    from shoal.results.result import ColumnResult
    from shoal.service.peers.accounting import PeerCollection
    from shoal.values import Array

    # Everybody's answer, what answers are called, what is assumed of that, and true fractions if
    # they are no secret.
    _Answers = tuple[npt.NDArray[np.int64], tuple[str, ...], tuple[str, ...], Array | None]

_WHO = "Who takes part"
_WALK = "How reports travel"
_WHAT = "What is collected"
_PEERS, _ANSWERS = 100, 4  # if not given
_MOST_PEERS = 2000
MADE_UP = "the answers are invented, and the same seed gives the same answers"

peers = typer.Typer(cls=Commands, help="Peers that pass reports on, run for real on this machine.")
app.add_typer(peers, name="peers", rich_help_panel=COLLECT)


Mode = Literal["hop", "onion"]  # who draws the next peer


class PeersOptions(Options):
    """Who takes part, how reports travel, and what is collected."""

    peers: int | None = option("Number of peers; default: 100.", _WHO)
    degree: int = option("Number of neighbours of each peer, in a random overlay.", _WHO, default=8)
    offline: float = option("Probability that a peer is offline in a round.", _WHO, default=0.0)
    processes: int = option("Number of processes that run the peers.", _WHO, default=1)
    rounds: int = option("Number of times that reports are passed on.", _WALK, default=16)
    mode: Mode = option(
        "hop: each holder draws the next peer; onion: each sender draws the whole path.",
        _WALK,
        default="hop",
    )
    hops: int | None = option(
        "With --mode onion: hops of a path; fewer than --rounds leave time for peers that are "
        "offline.",
        _WALK,
    )
    cover: int = option(
        "Frames on every link in every round, real or dummy; 0: only real ones.", _WALK, default=0
    )
    submit: Submit = option(
        "Holders submit all reports they hold, or one message.", _WALK, default="all"
    )
    submission_rounds: int = option("Number of attempts to submit.", _WALK, default=4)
    data: Path | None = option("A table, one peer per row; default: invented answers.", _WHAT)
    column: str | None = option("Its column of answers.", _WHAT, "NAME")
    categories: str | None = option("The public list of answers: a,b,c or a file.", _WHAT, "LIST")
    public_list: bool = option(files.PUBLIC_LIST, _WHAT)
    k: int | None = option("Instead of a list: the number of answers; default: 4.", _WHAT)
    randomizer: str = option("The randomizer of the answers.", _WHAT, "NAME", default="grr")
    local_epsilon: float = option("Its ε0.", _WHAT, default=2.0, keyword="epsilon")
    delta: float | None = option("δ; default: the smaller of 1e-6 and 1/(10 n).", _WHAT)
    seed: int = option("Seed of the overlay and of invented answers.", default=0)

    rules = (
        Needs("data", ("column",), "the column with the answers"),
        Needs("column", ("data",), "the table with this column"),
        Needs("public_list", ("data",), "the table with the answers"),
        Excludes("data", ("peers", "k"), "--data has the peers and their answers"),
        Excludes("categories", ("k",), "--categories lists the answers"),
        Needs("hops", ("mode=onion",), "in hop mode every round is a hop"),
    )


@command(peers)
def run(options: PeersOptions) -> None:
    """Start peers on loopback sockets, let them walk, and estimate from what arrives."""
    with working("passing reports on"):
        column, collection = _collected(options)
    if not options.json:
        _show_run(collection)
        for part in chart(column):
            console().print(part)
        console().print()
    document = replace(
        collection.guarantee.document(), notes=column.notes, warnings=collection.warnings
    )
    notes = [*column.notes, *collection.warnings]
    keys = {"value": "answer", "frequency": "share", "low": "low", "high": "high", "truth": "truth"}
    errors = cast("Estimate", column.estimate).standard_errors.tolist()
    estimate = [  # fractions of one, not of a hundred
        {keys[key]: value for key, value in record.items() if key in keys}
        | {"standard_error": error}
        for record, error in zip(column.records(), errors, strict=True)
    ]
    values = {"estimate": estimate, **collection.to_dict(), "notes": notes}
    answer(options, values, document)


def _collected(options: PeersOptions) -> tuple[ColumnResult, PeerCollection]:
    from shoal.mechanisms.registry import family, line
    from shoal.network.generators import random_regular
    from shoal.results.result import ColumnResult
    from shoal.service.peers import Conditions, PeerSurvey
    from shoal.service.peers.accounting import collect, hops_in_time

    conditions = Conditions(offline=options.offline, processes=options.processes)
    walk = options.arguments(PeerSurvey)
    if options.mode == "onion" and options.hops is None:
        walk["hops"] = hops_in_time(options.rounds, options.offline)
    survey = PeerSurvey(**walk)
    values, labels, public, truth = (_made_up if options.data is None else _from_file)(options)
    count = checks.count(4, peers=len(values))
    if count > _MOST_PEERS:
        raise RefusedError(
            f"at most {_MOST_PEERS:,} peers fit on one machine's sockets, got {count:,}: "
            "shoal walk --simulate simulates millions of reports"
        )
    if line(options.randomizer).takes != "answers":
        raise RefusedError(f"--randomizer {options.randomizer} is not for answers")
    randomizer: Any = family(options.randomizer, k=len(labels))(epsilon=options.local_epsilon)
    collection = collect(
        values,
        randomizer=randomizer,
        graph=random_regular(count, options.degree, seed=options.seed),
        survey=survey,
        conditions=conditions,
        **options.only("delta"),
    )
    guarantee = collection.guarantee
    guarantee = replace(guarantee, assumptions=(*guarantee.assumptions, *public))
    column = ColumnResult(
        column=options.column or "made-up answers",
        labels=labels,
        estimate=collection.estimate,
        randomizer=randomizer,
        guarantee=guarantee,
        n=collection.run.arrived,
        truth=truth,
        notes=public or (MADE_UP,) * (options.data is None),
    )
    return column, replace(collection, guarantee=guarantee)


def _made_up(options: PeersOptions) -> _Answers:
    """Answers whose fractions fall like 1, 1/2, 1/3, ..."""
    import numpy as np

    from shoal.randomness import simulated

    if options.categories is None:
        count = checks.count(2, k=_ANSWERS if options.k is None else options.k)
        labels = tuple(f"answer {place}" for place in range(count))
    else:
        labels = tuple(files.read_list(options.categories))
    if len(labels) < 2:
        raise RefusedError("--categories must list at least two answers")
    people = checks.count(4, peers=_PEERS if options.peers is None else options.peers)
    seed = checks.count(0, seed=options.seed)
    weights = [10**6 // (place + 1) for place in range(len(labels))]
    codes = simulated(seed).weighted(weights, people)
    return codes, labels, (), np.bincount(codes, minlength=len(labels)) / people


def _from_file(options: PeersOptions) -> _Answers:
    import numpy as np

    from shoal.engines.tables import local
    from shoal.questions.kinds import Choice
    from shoal.questions.settled import settle

    listed = None if options.categories is None else files.read_list(options.categories)
    question = Choice(options.column or "", listed, public=options.public_list)
    table = local(options.data, question.columns)
    settled = settle(question, table)
    parts = [
        np.asarray(part, dtype=np.int64) for part in table.chunks(cast("Coding", settled.coding))
    ]
    return np.concatenate(parts), settled.labels, settled.assumptions, None


def _show_run(collection: PeerCollection) -> None:
    """Print what happened."""
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
