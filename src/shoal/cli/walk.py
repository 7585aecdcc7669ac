"""``shoal walk``: how private reports are that people pass on, and how many rounds it takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from shoal import checks
from shoal.cli import files
from shoal.cli.app import ACCOUNT, app
from shoal.cli.options import Bounds, Excludes, Needs, Options, Required, command, option
from shoal.cli.render import answer, working
from shoal.errors import RefusedError

if TYPE_CHECKING:
    from shoal.network.graph import Graph

_DEVICES = "What each device runs"
_GRAPH = "The graph and the walk"
_CHOSEN = "A graph that is chosen"
_WANTED = "How long: one of"
_AGAINST = "Against whom"
_ONE_AT_A_TIME = "adversaries are analysed one at a time"
_PROBABILITIES = ("collusion", "offline")
_PLOTTED = 14  # points of a curve
_RUNS = 2_000  # of a simulation, unless they are chosen


Kind = Literal["simple", "lazy", "metropolis"]  # how the next holder is drawn


View = Literal["final", "traffic"]  # what the server sees


Submit = Literal["all", "single"]  # what holders hand in


class WalkOptions(Options):
    """The graph, the walk on it, and the adversary; or the graphs to compare."""

    graph: Path | None = option(
        "Who knows whom, both ways: lines of two node numbers, as text, CSV or .npz (also .gz).",
        name="GRAPH",
        default=None,
    )
    rounds: int | None = option("Number of times that reports are passed on.", _WANTED)
    epsilon: float | None = option("ε; the answer is the number of rounds.", _WANTED)
    delta: float | None = option("δ; default: the smaller of 1e-6 and 1/(10 n).", _WANTED)
    local_epsilon: float | None = option("ε0 of each report by itself; default: 1.", _DEVICES)
    randomizer: str | None = option(
        "A randomizer by name: grr, hadamard, laplace, …", _DEVICES, "NAME"
    )
    k: int | None = option("Number of answers; for vectors, the dimension.", _DEVICES)
    bounds: Bounds | None = option("Bounds of a randomizer of numbers.", _DEVICES)
    report_bytes: int | None = option(
        "Size of a message in bytes, for the cost; default: 1024.", _DEVICES
    )
    largest_component: bool = option("Keep only the largest connected component.", _GRAPH)
    keep_loops: bool = option("Keep edges from a node to itself.", _GRAPH)
    kind: Kind | None = option("How the next holder is drawn; default: simple.", _GRAPH)
    lazy: bool = option("Short for --kind lazy: a report stays half of the time.", _GRAPH)
    offline: float | None = option(
        "Probability that a peer is offline in a round; its reports wait.", _GRAPH
    )
    overlay: bool = option("Instead of GRAPH: compare graphs to build for --n people.", _CHOSEN)
    n: int | None = option("Number of people: 100000 or 1e5.", _CHOSEN)
    degree: int | None = option("Largest number of neighbours of a peer; default: 16.", _CHOSEN)
    view: View | None = option(
        "The server sees the final holders, or all traffic between peers (simulated).", _AGAINST
    )
    submit: Submit | None = option("Holders submit all reports they hold, or one.", _AGAINST)
    collusion: float | None = option(
        "Probability that a new holder works for the server.", _AGAINST
    )
    user: int | None = option(
        "With --view traffic: the person to account for, a node of the file.", _AGAINST
    )
    runs: int | None = option(
        "With --view traffic: number of simulated runs; default: 2000.", _AGAINST
    )
    simulate: bool = option("Simulate one walk: loads, and reports that arrive.")
    seed: int | None = option("Seed of everything that is simulated or drawn.")
    plot: Path | None = option("Draw ε against rounds (.svg, .png).")

    rules = (
        Excludes(
            "overlay",
            (
                *("rounds", "randomizer", "k", "bounds", "report_bytes", "largest_component"),
                *("keep_loops", "kind", "lazy", "offline", "view", "submit", "collusion", "user"),
                *("runs", "simulate", "plot"),
            ),
            "--overlay compares graphs to build, against a server that sees final holders",
        ),
        Excludes("overlay", ("graph",), "--overlay compares graphs to build"),
        Required("n", "how many people pass reports on", when=("overlay",)),
        Required("graph", "a file of who knows whom (or give --overlay)", ("overlay",)),
        Needs("n", ("overlay",), "a graph already has its people"),
        Needs("degree", ("overlay",), "a graph already has its neighbours"),
        Excludes("rounds", ("epsilon",), "--rounds computes ε, --epsilon computes the rounds"),
        Needs("k", ("randomizer",), "the randomizer with k answers"),
        Needs("bounds", ("randomizer",), "the randomizer of numbers"),
        Excludes("lazy", ("kind=simple", "kind=metropolis"), "give --lazy or --kind, not both"),
        Excludes("view=traffic", ("submit=single", "collusion"), _ONE_AT_A_TIME),
        Excludes("submit=single", ("collusion",), _ONE_AT_A_TIME),
        Excludes(
            "view=traffic",
            ("epsilon", "offline"),
            "--view traffic is simulated at given --rounds, with everybody online",
        ),
        Required(
            "rounds",
            "there is no default against this adversary",
            unless=("epsilon",),
            when=("view=traffic", "submit=single", "collusion"),
        ),
        Needs("user", ("view=traffic",), "otherwise the answer holds for everybody"),
    )

    def only(self, *names: str) -> dict[str, Any]:
        """A probability of 0 is the same as none."""
        options = super().only(*names).items()
        return {name: value for name, value in options if value or name not in _PROBABILITIES}


@command(app, ACCOUNT)
def walk(options: WalkOptions) -> None:
    """How private reports become when people pass them on, without a shuffler.

    Without --rounds and --epsilon: the rounds that come within 10 % of a central shuffler's ε.
    With --overlay: rounds, messages and loads of graphs that could be built.
    """
    files.check(plot=options.plot, never=options.graph)
    with working("comparing" if options.overlay else "walking") as progress:
        if options.overlay:
            from shoal.network import overlays

            names = ("n", "degree", "epsilon", "delta", "local_epsilon", "seed")
            result: Any = overlays.compare(**options.only(*names), progress=progress)
        else:
            result = _walked(options, progress)
    files.write(files.figure(options.plot, "walk", result))
    answer(options, result, result.document(), options.plot)


def _walked(options: WalkOptions, progress: Any) -> Any:  # noqa: ANN401 - no heavy imports
    from shoal.network.account import WalkAccountant
    from shoal.network.walk import Walk
    from shoal.network.walk_table import table

    kind = "lazy" if options.lazy else options.kind or "simple"
    graph = _graph(options, kind)
    settings = {"runs": _RUNS} | options.only("view", "submit", "collusion", "runs")
    accountant = WalkAccountant(Walk(graph, kind=kind), **_devices(options), **settings)
    names = ("rounds", "epsilon", "delta", "offline", "report_bytes", "seed")
    more: dict[str, Any] = {}
    if options.user is not None:
        places = (graph.labels == options.user).nonzero()[0]
        if not places.size:
            raise RefusedError(
                f"expected --user to be a node of {options.graph}, got {options.user}"
            )
        more["user"] = int(places[0])
    if options.plot is not None and not options.collusion and options.submit != "single":
        more["steps"] = [(place + 1) / _PLOTTED for place in range(_PLOTTED)]
    return table(
        accountant,
        **options.only(*names),
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
            f"node {name} of {path} has no neighbour: leave it out, or give --largest-component"
        )
    if not graph.connected:
        raise RefusedError(
            f"{path} has {graph.components:,} components that no report can leave: give "
            "--largest-component"
        )
    if graph.bipartite and kind == "simple":
        raise RefusedError(
            f"{path} is bipartite: after an even number of rounds every report is back on "
            "its own side; give --lazy"
        )
    return graph


def _devices(options: WalkOptions) -> dict[str, Any]:
    """What the devices run, as keywords of the accountant."""
    local = 1.0 if options.local_epsilon is None else options.local_epsilon
    checks.positive(local_epsilon=local)
    if options.randomizer is None:
        return {"local_epsilon": local}
    from shoal.mechanisms.registry import family

    make = family(options.randomizer, k=options.k, bounds=options.bounds)
    return {"randomizer": make(epsilon=local)}
