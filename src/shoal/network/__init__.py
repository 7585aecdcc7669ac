"""Shuffling by people passing reports to each other: graphs, walks on them, and how they mix.

>>> from shoal import network
>>> walk = network.Walk(network.random_regular(500, 16))
>>> network.rounds_for(network.WalkAccountant(walk, local_epsilon=1), epsilon=0.22).rounds
8
"""

from shoal.network.account import UserEpsilons as UserEpsilons
from shoal.network.account import WalkAccountant as WalkAccountant
from shoal.network.account import cost as cost
from shoal.network.account import rounds_for as rounds_for
from shoal.network.account import user_epsilons as user_epsilons
from shoal.network.generators import barabasi_albert as barabasi_albert
from shoal.network.generators import complete as complete
from shoal.network.generators import erdos_renyi as erdos_renyi
from shoal.network.generators import grid as grid
from shoal.network.generators import random_regular as random_regular
from shoal.network.generators import ring as ring
from shoal.network.generators import watts_strogatz as watts_strogatz
from shoal.network.graph import Graph as Graph
from shoal.network.locations import Locations as Locations
from shoal.network.locations import exact_mixing as exact_mixing
from shoal.network.locations import spectral_mixing as spectral_mixing
from shoal.network.profile import Reports as Reports
from shoal.network.profile import WalkProfile as WalkProfile
from shoal.network.simulation import NetworkMean as NetworkMean
from shoal.network.simulation import Simulation as Simulation
from shoal.network.simulation import network_mean as network_mean
from shoal.network.simulation import simulate as simulate
from shoal.network.spectrum import SpectralBound as SpectralBound
from shoal.network.spectrum import spectral_bound as spectral_bound
from shoal.network.walk import Absences as Absences
from shoal.network.walk import Varying as Varying
from shoal.network.walk import Walk as Walk
from shoal.network.walk_table import WalkTable as WalkTable
from shoal.network.walk_table import table as table
