"""``shoal walk``: how private reports are that people pass on, and how many rounds it takes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from shoal import checks
from shoal.cli import files
from shoal.cli.app import ACCOUNT, app
from shoal.cli.options import (
    Bounds,
    Excludes,
    Needs,
    Options,
    RefusedError,
    Required,
    Rule,
    argument,
    choice,
    command,
    flag,
    leave_out,
    number,
    option,
    read_bounds,
    whole,
)
from shoal.cli.render import print_json, reporting, show

if TYPE_CHECKING:
    from shoal.network.graph import Graph

_DEVICES = "What each device runs"
_GRAPH = "The graph and the walk"
_CHOSEN = "A graph that is chosen"
_WANTED = "How long: one of"
_AGAINST = "Against whom"
_OUT = "What to make of it"
_PLOTTED = 14  # points of a curve


class Kind(StrEnum):
    """How the next holder is drawn."""

    SIMPLE = "simple"
    LAZY = "lazy"
    METROPOLIS = "metropolis"


class View(StrEnum):
    """What the server sees."""

    FINAL = "final"
    TRAFFIC = "traffic"


class Submit(StrEnum):
    """What holders hand in."""

    ALL = "all"
    SINGLE = "single"


@dataclass(frozen=True, kw_only=True)
class WalkOptions(Options):
    """The graph, the walk on it, and the adversary; or the graphs to compare."""

    graph: Annotated[
        Path | None,
        argument(
            "Who knows whom, both ways: lines of two node numbers, CSV, .npz, or .gz.", "GRAPH"
        ),
    ] = None
    rounds: Annotated[int | None, whole("How often reports are passed on.", _WANTED)] = None
    epsilon: Annotated[float | None, number("ε; the answer is the number of rounds.", _WANTED)] = (
        None
    )
    delta: Annotated[float | None, number("δ; 1e-6 if not given.", _WANTED)] = None
    local_epsilon: Annotated[
        float | None, number("ε0 of each report by itself; 1 if not given.", _DEVICES)
    ] = None
    randomizer: Annotated[
        str | None, option("A known randomizer: grr, hadamard, laplace, …", _DEVICES, "NAME")
    ] = None
    k: Annotated[
        int | None, whole("Its number of answers; for vectors, the dimension.", _DEVICES)
    ] = None
    bounds: Annotated[
        Bounds | None,
        option("Bounds of a randomizer of numbers.", _DEVICES, "LOW,HIGH", read_bounds),
    ] = None
    report_bytes: Annotated[
        int | None, whole("Size of a message, for the cost; 1024 if not given.", _DEVICES)
    ] = None
    largest_component: Annotated[
        bool, flag("--largest-component", "Keep the largest part that hangs together.", _GRAPH)
    ] = False
    keep_loops: Annotated[
        bool, flag("--keep-loops", "Nodes listed as their own neighbours are.", _GRAPH)
    ] = False
    kind: Annotated[
        Kind | None, choice("How the next holder is drawn; simple if not given.", _GRAPH, Kind)
    ] = None
    lazy: Annotated[bool, flag("--lazy", "Short for --kind lazy: stay half the time.", _GRAPH)] = (
        False
    )
    offline: Annotated[
        float | None, number("The probability that a peer misses a round; reports wait.", _GRAPH)
    ] = None
    overlay: Annotated[
        bool, flag("--overlay", "Instead of GRAPH: which graph to build for --n people.", _CHOSEN)
    ] = False
    n: Annotated[int | None, whole("How many people: 100000 or 1e5.", _CHOSEN)] = None
    degree: Annotated[
        int | None, whole("Neighbours that a peer may have; 16 if not given.", _CHOSEN)
    ] = None
    view: Annotated[
        View | None,
        choice("The server sees final holders, or who passes to whom (simulated).", _AGAINST, View),
    ] = None
    submit: Annotated[
        Submit | None, choice("Holders submit all they hold, or one report.", _AGAINST, Submit)
    ] = None
    collusion: Annotated[
        float | None, number("The probability that a new holder works for the server.", _AGAINST)
    ] = None
    user: Annotated[
        int | None, whole("Whom to follow with --view traffic: a node of the file.", _AGAINST)
    ] = None
    runs: Annotated[
        int | None, whole("Simulated runs with --view traffic; 2000 if not given.", _AGAINST)
    ] = None
    simulate: Annotated[bool, flag("--simulate", "Walk it once: loads and what arrives.", _OUT)] = (
        False
    )
    seed: Annotated[int | None, whole("Of what is simulated or drawn.", _OUT)] = None
    plot: Annotated[Path | None, option("Draw ε against rounds (.svg, .png).", _OUT, "FILE")] = None
    json: Annotated[bool, flag("--json", "Print JSON.", _OUT)] = False

    rules: ClassVar[tuple[Rule, ...]] = (
        Excludes(
            "overlay",
            (
                *("rounds", "randomizer", "k", "bounds", "report_bytes", "largest_component"),
                *("keep_loops", "kind", "lazy", "offline", "view", "submit", "collusion", "user"),
                *("runs", "simulate", "plot"),
            ),
            "--overlay compares graphs to build, against a server that sees final holders",
        ),
        Needs("n", ("overlay",), "a graph says itself how many people there are"),
        Needs("degree", ("overlay",), "a graph says itself who knows whom"),
        Excludes("rounds", ("epsilon",), "--rounds asks for ε and --epsilon for rounds"),
        Needs("k", ("randomizer",), "what it belongs to"),
        Needs("bounds", ("randomizer",), "what they belong to"),
    )

    def check(self) -> None:
        """The table of rules, and what depends on the graph and the adversary."""
        Options.check(self)
        if self.overlay:
            if self.graph is not None:
                raise RefusedError("--overlay compares graphs to build: leave out GRAPH")
            Required("n", "how many people pass reports on").check(self.given)
        elif self.graph is None:
            raise RefusedError(
                "GRAPH is missing: a file that says who knows whom (or say --overlay)"
            )
        else:
            self._check_walk()

    def _check_walk(self) -> None:
        if self.lazy and self.kind not in {None, Kind.LAZY}:
            raise RefusedError(f"give --lazy or --kind {self.kind}, not both")
        special = {
            "--view traffic": self.view is View.TRAFFIC,
            "--submit single": self.submit is Submit.SINGLE,
            "--collusion": bool(self.collusion),
        }
        named = [name for name, chosen in special.items() if chosen]
        if len(named) > 1:
            raise RefusedError(f"{' and '.join(named)} are analysed one at a time: leave out one")
        if named:
            missing = f"{named[0]} has no limit to come close to"
            Required("rounds", missing, ("epsilon",)).check(self.given)
        if self.view is View.TRAFFIC:
            why = "--view traffic is simulated at given --rounds, with everybody online"
            leave_out([*filter(self.given.get, self.given)], ("epsilon", "offline"), why)
        elif self.user is not None:
            raise RefusedError("--user needs --view traffic: other answers are for everybody")


@command(app, ACCOUNT)
def walk(options: WalkOptions) -> None:
    """How private reports become when people pass them on, without a shuffler.

    Without --rounds and --epsilon: the rounds that come within 10 % of a central shuffler's ε.
    With --overlay: rounds, messages and loads of graphs that could be built.
    """
    files.check(plot=options.plot, never=options.graph)
    with reporting("comparing" if options.overlay else "walking") as progress:
        result = (_compared if options.overlay else _walked)(options, progress)
    if options.plot is not None:
        from shoal.figures import results

        with files.together() as write:
            write(options.plot, lambda path: results.walk(result, path))
    if options.json:
        print_json(result.to_dict())
        return
    show(result.document())
    if options.plot is not None:
        typer.echo(f"wrote {options.plot}")


def _compared(options: WalkOptions, progress: Any) -> Any:  # noqa: ANN401 - no heavy imports
    from shoal.network import overlays

    names = ("n", "degree", "epsilon", "delta", "local_epsilon", "seed")
    return overlays.compare(**options.only(*names), progress=progress)


def _walked(options: WalkOptions, progress: Any) -> Any:  # noqa: ANN401 - no heavy imports
    from shoal.network.walk import Walk
    from shoal.network.walk_table import table

    kind = Kind.LAZY if options.lazy else options.kind or Kind.SIMPLE
    graph = _graph(options, kind)
    names = ("rounds", "epsilon", "delta", "submit", "collusion", "runs", "offline", "report_bytes")
    more: dict[str, Any] = {}
    if options.user is not None:
        places = (graph.labels == options.user).nonzero()[0]
        if not places.size:
            raise RefusedError(
                f"expected --user to be a node of {options.graph}, got {options.user}"
            )
        more["user"] = int(places[0])
    if options.plot is not None and not options.collusion and options.submit is not Submit.SINGLE:
        more["steps"] = [(place + 1) / _PLOTTED for place in range(_PLOTTED)]
    return table(
        Walk(graph, kind=kind.value),
        **_devices(options),
        **options.only(*names, "view", "seed"),
        simulation=options.simulate,
        **more,
        progress=progress,
    )


def _graph(options: WalkOptions, kind: Kind) -> Graph:
    """The graph, if a walk on it can mix; else an error that says which option helps."""
    from shoal.network.graph import Graph

    path = Path(options.graph or "")
    graph = Graph.read(
        path, largest_component=options.largest_component, keep_loops=options.keep_loops
    )
    isolated = (graph.degrees == 0).nonzero()[0]
    if isolated.size:
        name = graph.labels[isolated[0]]
        raise RefusedError(
            f"node {name} of {path} has no neighbour: leave it out, or say --largest-component"
        )
    if not graph.connected:
        raise RefusedError(
            f"{path} falls into {graph.components:,} parts that no report can leave: say "
            "--largest-component"
        )
    if graph.bipartite and kind is Kind.SIMPLE:
        raise RefusedError(
            f"{path} is bipartite: after an even number of rounds reports are back on their own "
            "side, however many there are; say --lazy"
        )
    return graph


def _devices(options: WalkOptions) -> dict[str, Any]:
    """What the devices run, as keywords of the accountant."""
    local = 1.0 if options.local_epsilon is None else options.local_epsilon
    checks.positive(local_epsilon=local)
    if options.randomizer is None:
        return {"local_epsilon": local}
    from shoal.randomizers.registry import family

    make = family(options.randomizer, k=options.k, bounds=options.bounds)
    return {"randomizer": make(epsilon=local)}
