"""Graphs to try things on, and overlays to choose: complete, ring, grid, and random ones.

A random d-regular overlay with d of 16 or more mixes in a few rounds, whoever is in it. The random
graphs repeat for the same ``seed``; ``randomness`` is another source instead.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.errors import UnreachableTargetError
from shoal.network.graph import Graph, simple_graph
from shoal.randomness import Randomness, simulated
from shoal.values import Array

Edges = npt.NDArray[np.int64]

_ATTEMPTS = 100
_SWITCHES = 10_000  # draws for one switch, of which a quarter or more should do


def complete(n: int, *, loops: bool = True) -> Graph:
    """Everybody joined to everybody; with loops too, so that one round mixes exactly.

    Args:
        n: Number of nodes, at least 2.
        loops: Whether everybody is their own neighbour too.

    Returns:
        The graph.

    Raises:
        InvalidArgumentError: ``n`` is out of its range.

    Example:
        >>> complete(4).edges
        10
    """
    n = checks.count(2, n=n)
    first, second = np.triu_indices(n, k=0 if loops else 1)
    return simple_graph(n, np.column_stack([first, second]))


def ring(n: int) -> Graph:
    """A cycle; bipartite for even n.

    Args:
        n: Number of nodes, at least 3.

    Returns:
        The graph.

    Raises:
        InvalidArgumentError: ``n`` is out of its range.

    Example:
        >>> ring(5).regular, ring(4).bipartite
        (True, True)
    """
    n = checks.count(3, n=n)
    nodes = np.arange(n)
    return simple_graph(n, np.column_stack([nodes, (nodes + 1) % n]))


def grid(rows: int, columns: int) -> Graph:
    """A rectangle of nodes joined to the next in their row and column; bipartite.

    Args:
        rows: Number of rows, at least 1.
        columns: Number of columns, at least 1.

    Returns:
        The graph.

    Raises:
        InvalidArgumentError: A number is out of its range, or there is one node only.

    Example:
        >>> grid(2, 3).n, grid(2, 3).edges
        (6, 7)
    """
    rows, columns = checks.count(1, rows=rows), checks.count(1, columns=columns)
    checks.count(2, nodes=rows * columns)
    nodes = np.arange(rows * columns).reshape(rows, columns)
    across = np.column_stack([nodes[:, :-1].ravel(), nodes[:, 1:].ravel()])
    down = np.column_stack([nodes[:-1].ravel(), nodes[1:].ravel()])
    return simple_graph(rows * columns, np.concatenate([across, down]))


def random_regular(
    n: int, degree: int, *, seed: int = 0, randomness: Randomness | None = None
) -> Graph:
    """A connected graph in which everybody has ``degree`` neighbours.

    Half-edges are paired at random, and the few pairs that are loops or repetitions are
    switched with random others: uniform up to the switches' small bias.

    Args:
        n: Number of nodes, at least 4.
        degree: Neighbours of each, from 3 to n − 1; n times degree has to be even.
        seed: That of the drawing, which is public.
        randomness: What is drawn from instead.

    Returns:
        The graph.

    Raises:
        InvalidArgumentError: A number is out of its range, or n times degree is odd.
        UnreachableTargetError: No connected graph was drawn: the degree is too small.

    References:
        McKay, Wormald, "Uniform generation of random regular graphs of moderate
        degree", J. Algorithms 11, 1990.

    Example:
        >>> random_regular(20, 4).degrees.tolist() == [4] * 20
        True
    """
    n, degree = checks.count(4, n=n), checks.count(3, degree=degree)
    wrong = degree >= n or n * degree % 2
    checks.refuse(wrong, f"degree < n={n} with n * degree even", degree=degree)
    source = _source(seed, randomness)
    dense = degree > n // 2  # so that most pairs would repeat: draw who is NOT joined
    for _ in range(_ATTEMPTS):
        edges = _paired(n, n - 1 - degree if dense else degree, source)
        if dense:
            joined = np.triu(np.ones((n, n), dtype=np.bool_), k=1)
            joined[edges.min(axis=1), edges.max(axis=1)] = False
            edges = np.argwhere(joined)
        graph = simple_graph(n, edges)
        if graph.connected:
            return graph
    raise UnreachableTargetError("a connected graph", "none was drawn", "use a higher degree")


def _paired(n: int, degree: int, source: Randomness) -> Edges:
    """Edges of a simple graph in which every node has ``degree``, at most n/2, neighbours."""
    ends = source.permutation(n * degree) // max(degree, 1)
    edges = ends.reshape(-1, 2)
    keys = edges.min(axis=1) * n + edges.max(axis=1)
    order = np.argsort(keys, kind="stable")  # the same twin on every processor
    ranked = keys[order]
    wrong = edges[:, 0] == edges[:, 1]
    wrong[order[1:]] |= ranked[1:] == ranked[:-1]
    changes: Counter[int] = Counter()  # since the keys were ranked

    def key(a: int, b: int) -> int:
        return min(a, b) * n + max(a, b)

    def multiplicity(edge: int) -> int:
        low, high = np.searchsorted(ranked, edge), np.searchsorted(ranked, edge, "right")
        return int(high - low) + changes[edge]

    for place in np.flatnonzero(wrong).tolist():
        a, b = edges[place].tolist()
        if a != b and multiplicity(key(a, b)) == 1:
            continue  # its twin has been switched away
        # Replace the pair ab and a random pair cd by ac and bd, if that makes two new edges.
        for _ in range(_SWITCHES):
            other = int(source.below(len(edges), 1)[0])
            c, d = edges[other].tolist()
            new = key(a, c), key(b, d)
            simple = other != place and a != c and b != d and new[0] != new[1]
            if simple and not any(map(multiplicity, new)):
                break
        else:
            raise UnreachableTargetError("a simple graph", "no switch was found", "draw again")
        changes.subtract([key(a, b), key(c, d)])
        changes.update(new)
        edges[place], edges[other] = (a, c), (b, d)
    return edges


def erdos_renyi(
    n: int, probability: float, *, seed: int = 0, randomness: Randomness | None = None
) -> Graph:
    """Every pair is joined with the same probability, independently; often not connected.

    The gaps between joined pairs are geometric, so that the time is that of the edges.

    Args:
        n: Number of nodes, at least 2.
        probability: Of an edge, in (0, 1).
        seed: That of the drawing, which is public.
        randomness: What is drawn from instead.

    Returns:
        The graph.

    Raises:
        InvalidArgumentError: A number is out of its range.

    References:
        Batagelj, Brandes, "Efficient generation of large random networks", Phys. Rev. E
        71, 2005.

    Example:
        >>> erdos_renyi(100, 0.5, seed=1).largest_component().n
        100
    """
    n = checks.count(2, n=n)
    checks.open_probability(probability=probability)
    source, pairs = _source(seed, randomness), n * (n - 1) // 2
    chosen: list[Edges] = []
    last = -1
    while last < pairs:
        size = int((pairs - last) * probability * 1.1) + 64
        gaps = np.floor(np.log1p(-uniform(source, size)) / np.log1p(-probability))
        places = last + np.cumsum(np.minimum(gaps, pairs).astype(np.int64) + 1)
        chosen.append(places[places < pairs])
        last = int(places[-1])
    return simple_graph(n, _pairs(np.concatenate(chosen)))


def barabasi_albert(
    n: int, links: int, *, seed: int = 0, randomness: Randomness | None = None
) -> Graph:
    """Newcomers join ``links`` others, each chosen with odds of its degree: hubs grow.

    The end of a random earlier edge has those odds; it may itself have been chosen so,
    and is looked up until it is known. The first links + 1 all know each other.

    Args:
        n: Number of nodes, at least links + 2.
        links: Neighbours that a newcomer chooses, at least 1.
        seed: That of the drawing, which is public.
        randomness: What is drawn from instead.

    Returns:
        The graph.

    Raises:
        InvalidArgumentError: A number is out of its range.

    References:
        Batagelj, Brandes, "Efficient generation of large random networks", Phys. Rev. E
        71, 2005.

    Example:
        >>> graph = barabasi_albert(100, 3)
        >>> graph.connected, graph.irregularity > 1
        (True, True)
    """
    links = checks.count(1, links=links)
    n = checks.count(links + 2, n=n)
    source, founders = _source(seed, randomness), links + 1
    old = np.column_stack(np.triu_indices(founders, k=1)).ravel()  # known ends of edges
    newcomers = np.repeat(np.arange(founders, n), links)
    before = len(old) + 2 * links * (newcomers - founders)  # ends that are there when one arrives
    picks = _below_each(source, before)
    while True:
        joined = _ends(picks, old, newcomers)
        repeated = _repeats(newcomers * n + joined)
        if not repeated.size:
            break
        picks[repeated] = _below_each(source, before[repeated])
    founded = old.reshape(-1, 2)
    return simple_graph(n, np.concatenate([founded, np.column_stack([joined, newcomers])]))


def _ends(picks: Edges, old: Edges, newcomers: Edges) -> Edges:
    """The nodes at the picked places: known ones, newcomers at even places, or picks again."""
    places = picks.copy()
    while True:
        unknown = np.flatnonzero((places >= len(old)) & ((places - len(old)) % 2 == 1))
        if not unknown.size:
            break
        places[unknown] = picks[(places[unknown] - len(old)) // 2]
    fresh = places >= len(old)
    nodes = old[np.minimum(places, len(old) - 1)]
    nodes[fresh] = newcomers[(places[fresh] - len(old)) // 2]
    return nodes


def watts_strogatz(
    n: int, neighbours: int, rewired: float, *, seed: int = 0, randomness: Randomness | None = None
) -> Graph:
    """A ring of nodes joined to their nearest, some of whose edges lead elsewhere.

    Each edge keeps one end and gets another at random with probability ``rewired``;
    ends that would make a loop or a repetition are drawn again.

    Args:
        n: Number of nodes, at least twice the neighbours.
        neighbours: Of each before rewiring, an even number.
        rewired: Probability in [0, 1) that an edge leads elsewhere.
        seed: That of the drawing, which is public.
        randomness: What is drawn from instead.

    Returns:
        The graph.

    Raises:
        InvalidArgumentError: A number is out of its range.

    Example:
        >>> watts_strogatz(20, 4, 0.0).regular
        True
    """
    neighbours = checks.count(2, neighbours=neighbours)
    n = checks.count(2 * neighbours, n=n)
    checks.refuse(neighbours % 2, "an even number of neighbours", neighbours=neighbours)
    checks.closed_probability(rewired=rewired)
    source = _source(seed, randomness)
    first = np.repeat(np.arange(n), neighbours // 2)
    second = (first + np.tile(np.arange(1, neighbours // 2 + 1), n)) % n
    drawn = np.flatnonzero(uniform(source, len(first)) < rewired)
    again = drawn
    while again.size:
        second[again] = source.below(n, again.size).astype(np.int64)
        keys = np.minimum(first, second) * n + np.maximum(first, second)
        # Rewired edges come last, so that of two equal ones a rewired one is drawn again.
        order = np.argsort(np.isin(np.arange(len(first)), drawn), kind="stable")
        wrong = np.union1d(order[_repeats(keys[order])], np.flatnonzero(first == second))
        again = np.intersect1d(wrong, drawn)
    return simple_graph(n, np.column_stack([first, second]))


def _source(seed: int, randomness: Randomness | None) -> Randomness:
    return simulated(checks.count(0, seed=seed)) if randomness is None else randomness


def uniform(source: Randomness, size: int) -> Array:
    """Multiples of 2^-53 in [0, 1), all alike."""
    return (source.words(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _below_each(source: Randomness, bounds: Edges) -> Edges:
    """One number below each bound; the bias of bounds below 2^40 is under 2^-13 of a float's."""
    return np.minimum((uniform(source, len(bounds)) * bounds).astype(np.int64), bounds - 1)


def _repeats(keys: Edges) -> Edges:
    """Places of keys that have occurred before."""
    return np.setdiff1d(np.arange(keys.size), np.unique(keys, return_index=True)[1])


def _pairs(places: Edges) -> Edges:
    """The pair (i, j), i < j, at each place of the list (0,1), (0,2), (1,2), (0,3), ..."""
    second = ((1 + np.sqrt(1 + 8 * places.astype(np.float64))) / 2).astype(np.int64)
    second -= second * (second - 1) // 2 > places
    second += (second + 1) * second // 2 <= places
    return np.column_stack([places - second * (second - 1) // 2, second])
