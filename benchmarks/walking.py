"""Steps per second of a million reports on two cores, and seconds of the accountant of walks.

Also a run among peers, on sockets and with real sealing.
"""

from __future__ import annotations

import math
import resource
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import peer
from result import Result

from shoal.mechanisms.response import RandomizedResponse
from shoal.network.account import WalkAccountant
from shoal.network.generators import random_regular
from shoal.network.graph import Graph
from shoal.network.simulation import EngineName, simulate
from shoal.network.spectrum import spectral_bound
from shoal.network.walk import Walk
from shoal.service.peers import Conditions, PeerSurvey, run_peers

NODES, DEGREE = 10**6, 16
CORES = 2
LEAST = 40.0  # million steps a second
TIMES_FASTER = 30.0
REPETITIONS = 3
STEPS = 10**8  # of one repetition
PLAIN_NODES = 10**5  # a graph that NetworkX makes in seconds
PLAIN_ROUNDS = 3
DELTA, LOCAL_EPSILON = 1e-6, 1.0
MIXED = 0.6  # of log(n)/gap rounds, after which the worst off are nearly mixed
WORST_SECONDS = ((10**4, 5.0), (6 * 10**4, 120.0))  # for so many people, at most
MILLION_ROUNDS = 24
MILLION_SECONDS, MILLION_GIGABYTES = 180.0, 8.0
PEERS, PEER_DEGREE, PEER_SECONDS = 100, 8, 10.0
PEER_SURVEY = PeerSurvey(rounds=16)

_SCRIPT = """
import json, random, sys, time
import networkx, numpy
edges = numpy.load(sys.argv[1]).tolist()
graph = networkx.Graph(edges)
lists = {node: list(near) for node, near in graph.adjacency()}

def plain(node):
    return random.choice(list(graph[node]))

def prepared(node):
    return random.choice(lists[node])

speeds = {}
for step in (plain, prepared):
    held = list(graph)
    start = time.process_time()
    for _ in range(int(sys.argv[2])):
        held = [step(node) for node in held]
    speeds[step.__name__] = len(held) * int(sys.argv[2]) / (time.process_time() - start) / 1e6
print(json.dumps(speeds))
"""


def everything(*, graph: Path | None = None) -> Iterator[Result]:
    """Speeds on a random regular graph, on a graph of one's own, and NetworkX's."""
    overlay = Walk(random_regular(NODES, DEGREE))
    heading = f"steps of {NODES:.0e} reports, {DEGREE}-regular graph (the clock's time, best of 3)"
    fastest = 0.0
    for result in _speeds(heading, overlay, least=LEAST):
        fastest = max(fastest, result.value or 0.0)
        yield result
    if graph is not None:
        walk = Walk(Graph.read(graph, largest_component=True))
        yield from _speeds(f"steps of {walk.n:,} reports on {graph.name}", walk)
    yield from _beside_plain_walk(fastest)
    if graph is not None:
        yield from _worst_person(graph)
    yield from _a_million(overlay)
    yield _peers()


def _speeds(heading: str, walk: Walk, *, least: float | None = None) -> Iterator[Result]:
    yield _speed(heading, walk, "numpy", CORES)
    if find_spec("numba") is None:
        note = "numba is not installed: pip install '.[network]'"
        yield Result(heading=heading, what="numba", value=None, unit="M/s", note=note)
        return
    yield _speed(heading, walk, "numba", 1)
    yield _speed(heading, walk, "numba", CORES, least=least)


def _speed(
    heading: str, walk: Walk, engine: EngineName, threads: int, *, least: float | None = None
) -> Result:
    """Millions of steps per second of the clock, the best of several: others share the machine."""
    rounds = -(-STEPS // walk.n)
    simulate(walk, 1, seed=0, engine=engine)  # compiles
    times = []
    for seed in range(REPETITIONS):
        start = time.perf_counter()
        simulate(walk, rounds, seed=seed, engine=engine, threads=threads)
        times.append(time.perf_counter() - start)
    return Result(
        heading=heading,
        what=f"{engine}, {threads} thread" + ("s" if threads > 1 else ""),
        value=walk.n * rounds / min(times) / 1e6,
        unit="M/s",
        at_least=least,
    )


def _beside_plain_walk(ours: float) -> Iterator[Result]:
    heading = f"the same in plain Python over a NetworkX graph of {PLAIN_NODES:.0e} nodes"
    plain = random_regular(PLAIN_NODES, DEGREE)
    edges = np.column_stack([plain.rows, plain.neighbours])
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "edges.npy"
        np.save(path, edges[edges[:, 0] < edges[:, 1]])
        theirs = peer.answer(_SCRIPT, str(path), str(PLAIN_ROUNDS))
    if isinstance(theirs, str):
        yield Result(heading=heading, what="random.choice", value=None, note=theirs)
        return
    names = {"plain": "choice of list(graph[node])", "prepared": "choice of lists made beforehand"}
    for name, what in names.items():
        yield Result(heading=heading, what=what, value=theirs[name], unit="M/s")
        yield Result(
            heading=heading,
            what="times faster",
            value=ours / theirs[name],
            unit="x",
            at_least=TIMES_FASTER,
        )


def _worst_person(graph: Path) -> Iterator[Result]:
    """ε of everybody after one number of rounds: eigenpairs, laws and certificate."""
    walk = Walk(Graph.read(graph, largest_component=True))
    gap = 1 - spectral_bound(walk).value
    rounds = math.ceil(MIXED * math.log(walk.n) / gap)
    heading = f"accounting for the worst off of {walk.n:,} people on {graph.name}"
    allowed = next((seconds for people, seconds in WORST_SECONDS if walk.n <= people), None)
    start = time.process_time()
    accountant = WalkAccountant(walk, local_epsilon=LOCAL_EPSILON)
    epsilon = accountant.profile(rounds).epsilon(DELTA)
    central = accountant.reports.central(walk.n).epsilon(DELTA)
    yield Result(
        heading=heading,
        what=f"epsilon after {rounds:,} rounds",
        value=time.process_time() - start,
        unit="s",
        at_most=allowed,
        note=f"epsilon {epsilon:.4f}, a shuffler's {central:.4f}",
    )
    start = time.process_time()
    accountant.profile(rounds + 1).epsilon(DELTA)
    yield Result(
        heading=heading, what="after one round more", value=time.process_time() - start, unit="s"
    )


def _a_million(walk: Walk) -> Iterator[Result]:
    """The same from the eigenvalue gap alone, where nothing else is affordable."""
    heading = f"accounting for {walk.n:.0e} people, {DEGREE}-regular graph, by the gap"
    start = time.process_time()
    accountant = WalkAccountant(walk, local_epsilon=LOCAL_EPSILON, method="spectral")
    epsilon = accountant.profile(MILLION_ROUNDS).epsilon(DELTA)
    yield Result(
        heading=heading,
        what=f"epsilon after {MILLION_ROUNDS} rounds",
        value=time.process_time() - start,
        unit="s",
        at_most=MILLION_SECONDS,
        note=f"epsilon {epsilon:.5f}",
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    yield Result(
        heading=heading,
        what="memory of the whole process, at most",
        value=peak,
        unit="GB",
        at_most=MILLION_GIGABYTES,
    )


def _peers() -> Result:
    """Every fifth peer away in a round: keys, sealed reports, receipts and submission."""
    start = time.perf_counter()
    run = run_peers(
        np.arange(PEERS) % 4,
        randomizer=RandomizedResponse(k=4, epsilon=LOCAL_EPSILON),
        graph=random_regular(PEERS, PEER_DEGREE),
        survey=PEER_SURVEY,
        conditions=Conditions(offline=0.2, seed=1),
    )
    return Result(
        heading=f"{PEERS} peers on sockets of one process (the clock's time)",
        what=f"{PEER_SURVEY.rounds} rounds, {run.moves:,} hops",
        value=time.perf_counter() - start,
        unit="s",
        at_most=PEER_SECONDS,
        note=f"{run.arrived} reports arrived",
    )
