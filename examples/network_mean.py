"""A mean of vectors without a shuffler: peers pass reports on. Takes the file of a plot, if any."""

from __future__ import annotations

import math
import sys
from functools import partial

import matplotlib.pyplot as plt
import numpy as np

import shoal
from shoal.network.generators import random_regular
from shoal.network.locations import spectral_mixing
from shoal.network.simulation import network_mean, simulate
from shoal.network.spectrum import spectral_bound
from shoal.network.walk import Walk

PEOPLE, NEIGHBOURS, ROUNDS, RUNS = 10_000, 16, 50, 5
EPSILONS, DELTA = (0.25, 0.5, 1.0), 1e-6
privunit = partial(shoal.PrivUnit, dimension=50)
local_epsilon = partial(shoal.local_epsilon, privunit, n=PEOPLE)


def main() -> None:
    """The error at one (epsilon, delta): without amplification, with a shuffler, by walking."""
    walk = Walk(random_regular(PEOPLE, NEIGHBOURS))
    mixing = spectral_mixing(walk, spectral_bound(walk), ROUNDS)
    # Mixed reports are as private as shuffled ones; what is missing from that adds to delta.
    unmixed = PEOPLE / 2 * math.sqrt(mixing.chi_squared.max())
    found = np.empty((4, len(EPSILONS)))
    for i, epsilon in enumerate(EPSILONS):
        rest = DELTA - mixing.failure - (1 + math.exp(epsilon)) * unmixed
        walked = partial(_error, walk, local_epsilon(epsilon=epsilon, delta=rest), rounds=ROUNDS)
        central = local_epsilon(epsilon=epsilon, delta=DELTA)
        found[:, i] = _error(walk, epsilon), _error(walk, central), walked(), walked("single")
    print("error of the mean at epsilon =", *(f"{each:>7g}" for each in EPSILONS))
    ways = "no amplification", "central shuffler", "network, all", "network, single"
    for way, errors in zip(ways, found, strict=True):
        print(f"{way:<30}", *(f"{each:7.3f}" for each in errors))
        plt.semilogy(EPSILONS, errors, marker="o", label=way)
    plt.gca().set(xlabel="epsilon", ylabel=f"error of the mean of {PEOPLE:,} people")
    plt.legend()
    for path in sys.argv[1:]:
        plt.savefig(path)


def _error(walk: Walk, local: float, submit: str = "all", *, rounds: int = 0) -> float:
    vectors = np.cos(np.linspace(0, 2, PEOPLE)[:, None] * np.linspace(0, 1, 50))
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    walks = (simulate(walk, rounds, seed=run, submit=submit) for run in range(RUNS))
    estimate = partial(network_mean, vectors, randomizer=privunit(epsilon=local), walk=walk)
    misses = [estimate(walked).mean - vectors.mean(axis=0) for walked in walks]
    return float(np.square(misses).sum(axis=1).mean()) ** 0.5


if __name__ == "__main__":
    main()
