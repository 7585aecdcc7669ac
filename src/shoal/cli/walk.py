"""``shoal walk``: how private reports are that people pass on, and how many rounds it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli import files, options
from shoal.cli.options import Bounds, choice, flag, number, option, whole
from shoal.cli.render import print_json, reporting
from shoal.cli.walk_asked import Kind, Submit, View, WalkAsked

_DEVICES = "What each device runs"
_GRAPH = "The graph and the walk"
_WANTED = "How long: one of"
_AGAINST = "Against whom"
_OUT = "What to make of it"


def walk(
    *,
    graph: Annotated[
        Path,
        typer.Argument(
            metavar="GRAPH",
            help="Who knows whom, both ways: lines of two node numbers, CSV, .npz, or .gz.",
        ),
    ],
    rounds: Annotated[int | None, whole("How often reports are passed on.", _WANTED)] = None,
    epsilon: Annotated[
        float | None, number("ε; the answer is the number of rounds.", _WANTED)
    ] = None,
    delta: Annotated[float, number("δ.", _WANTED)] = 1e-6,
    local_epsilon: Annotated[
        float | None, number("ε0 of each report by itself; 1 if not given.", _DEVICES)
    ] = None,
    randomizer: Annotated[
        str | None, option("A known randomizer: grr, hadamard, laplace, …", _DEVICES, "NAME")
    ] = None,
    k: Annotated[
        int | None, whole("Its number of answers; for vectors, the dimension.", _DEVICES)
    ] = None,
    bounds: Annotated[
        Bounds | None,
        option("Bounds of a randomizer of numbers.", _DEVICES, "LOW,HIGH", options.read_bounds),
    ] = None,
    report_bytes: Annotated[int, whole("Size of a message, for the cost.", _DEVICES)] = 1024,
    largest_component: Annotated[
        bool, flag("--largest-component", "Keep the largest part that hangs together.", _GRAPH)
    ] = False,
    keep_loops: Annotated[
        bool, flag("--keep-loops", "Nodes listed as their own neighbours are.", _GRAPH)
    ] = False,
    kind: Annotated[
        Kind | None, choice("How the next holder is drawn; simple if not given.", _GRAPH, Kind)
    ] = None,
    lazy: Annotated[bool, flag("--lazy", "Short for --kind lazy: stay half the time.", _GRAPH)] = (
        False
    ),
    offline: Annotated[
        float, number("The chance that a peer misses a round; reports wait.", _GRAPH)
    ] = 0.0,
    view: Annotated[
        View,
        choice("The server sees final holders, or who passes to whom (simulated).", _AGAINST, View),
    ] = View.FINAL,
    submit: Annotated[
        Submit, choice("Holders submit all they hold, or one report.", _AGAINST, Submit)
    ] = Submit.ALL,
    collusion: Annotated[
        float, number("The chance that a new holder works for the server.", _AGAINST)
    ] = 0.0,
    user: Annotated[
        int | None, whole("Whom to follow with --view traffic: a node of the file.", _AGAINST)
    ] = None,
    runs: Annotated[int, whole("Simulated runs with --view traffic.", _AGAINST)] = 2000,
    simulate: Annotated[
        bool, flag("--simulate", "Walk it once: loads and what arrives.", _OUT)
    ] = False,
    seed: Annotated[int, whole("Of what is simulated or drawn.", _OUT)] = 0,
    plot: Annotated[
        Path | None, option("Draw ε against rounds (.svg, .png).", _OUT, "FILE")
    ] = None,
    as_json: Annotated[bool, flag("--json", "Print JSON.", _OUT)] = False,
) -> None:
    """How private reports become when people pass them on, without a shuffler.

    Without --rounds and --epsilon: the rounds that come within 10 % of a central shuffler's ε.
    """
    asked = WalkAsked(
        graph=graph,
        rounds=rounds,
        epsilon=epsilon,
        delta=delta,
        local_epsilon=local_epsilon,
        randomizer=randomizer,
        k=k,
        bounds=bounds,
        report_bytes=report_bytes,
        largest_component=largest_component,
        keep_loops=keep_loops,
        kind=kind,
        lazy=lazy,
        offline=offline,
        view=view,
        submit=submit,
        collusion=collusion,
        user=user,
        runs=runs,
        simulate=simulate,
        seed=seed,
        plot=plot,
    )
    asked.check()
    files.check(plot=plot, never=graph)
    with reporting("walking") as progress:
        from shoal.cli import walk_answer, walk_figure, walk_show

        found = walk_answer.answer(asked, progress)
    with files.together() as write:
        if plot is not None:
            write(plot, lambda path: walk_figure.draw(found, path))
    if as_json:
        print_json(found.to_dict())
        return
    walk_show.show(found)
    if plot is not None:
        typer.echo(f"wrote {plot}")
