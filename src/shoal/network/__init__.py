"""Shuffling by people passing reports to each other: graphs, walks on them, and how they mix.

>>> from shoal import network
>>> walk = network.Walk(network.random_regular(500, 16))
>>> network.rounds_for(network.WalkAccountant(walk=walk, local_epsilon=1), epsilon=0.22).rounds
8
"""

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
from shoal.network.locations import Locations, exact_mixing, spectral_mixing
from shoal.network.profile import Reports, WalkProfile
from shoal.network.simulation import NetworkMean, Simulation, network_mean, simulate
from shoal.network.spectrum import SpectralBound, spectral_bound
from shoal.network.walk import Absences, Varying, Walk
from shoal.network.walk_table import WalkTable, table

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
