"""Shuffling by people passing reports to each other: graphs, walks on them, and how they mix.

>>> from shoal import network
>>> walk = network.Walk(network.random_regular(500, 16))
>>> network.rounds_for(network.WalkAccountant(walk=walk, local_epsilon=1), epsilon=0.22).rounds
8

Names are loaded when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.network.account import (
        UserEpsilons,
        WalkAccountant,
        amplify_walk,
        cost,
        rounds_for,
        user_epsilons,
        walk_profile,
    )
    from shoal.network.generators import (
        barabasi_albert,
        complete,
        erdos_renyi,
        grid,
        random_regular,
        ring,
        watts_strogatz,
    )
    from shoal.network.graph import Graph
    from shoal.network.locations import Locations
    from shoal.network.mixing import exact_mixing, spectral_mixing
    from shoal.network.profile import Reports, WalkProfile
    from shoal.network.simulation import NetworkMean, Simulation, network_mean, simulate
    from shoal.network.spectrum import SpectralBound, spectral_bound
    from shoal.network.walk import Absences, Varying, Walk
    from shoal.network.walk_table import WalkTable, table

_HOMES = {
    "Absences": "shoal.network.walk",
    "Graph": "shoal.network.graph",
    "Locations": "shoal.network.locations",
    "NetworkMean": "shoal.network.simulation",
    "Reports": "shoal.network.profile",
    "Simulation": "shoal.network.simulation",
    "SpectralBound": "shoal.network.spectrum",
    "UserEpsilons": "shoal.network.account",
    "Varying": "shoal.network.walk",
    "Walk": "shoal.network.walk",
    "WalkAccountant": "shoal.network.account",
    "WalkProfile": "shoal.network.profile",
    "WalkTable": "shoal.network.walk_table",
    "amplify_walk": "shoal.network.account",
    "barabasi_albert": "shoal.network.generators",
    "complete": "shoal.network.generators",
    "cost": "shoal.network.account",
    "erdos_renyi": "shoal.network.generators",
    "exact_mixing": "shoal.network.mixing",
    "grid": "shoal.network.generators",
    "network_mean": "shoal.network.simulation",
    "random_regular": "shoal.network.generators",
    "ring": "shoal.network.generators",
    "rounds_for": "shoal.network.account",
    "simulate": "shoal.network.simulation",
    "spectral_bound": "shoal.network.spectrum",
    "spectral_mixing": "shoal.network.mixing",
    "table": "shoal.network.walk_table",
    "user_epsilons": "shoal.network.account",
    "walk_profile": "shoal.network.account",
    "watts_strogatz": "shoal.network.generators",
}

__all__ = [
    "Absences",
    "Graph",
    "Locations",
    "NetworkMean",
    "Reports",
    "Simulation",
    "SpectralBound",
    "UserEpsilons",
    "Varying",
    "Walk",
    "WalkAccountant",
    "WalkProfile",
    "WalkTable",
    "amplify_walk",
    "barabasi_albert",
    "complete",
    "cost",
    "erdos_renyi",
    "exact_mixing",
    "grid",
    "network_mean",
    "random_regular",
    "ring",
    "rounds_for",
    "simulate",
    "spectral_bound",
    "spectral_mixing",
    "table",
    "user_epsilons",
    "walk_profile",
    "watts_strogatz",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
