"""Our intervals against balls of an independent arithmetic, over random questions."""

import math

import numpy as np
import pytest

import certificate
from shoal.accounting import integral
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.errors import UnreachableTargetError

# Of twenty blocks of a hundred questions one is asked every time.
SLOW = [pytest.param(block, marks=pytest.mark.slow) for block in range(1, 20)]


def log_uniform(rng, low, high):
    return float(np.exp(rng.uniform(math.log(low), math.log(high))))


def clone_pair(rng):
    local = log_uniform(rng, 1e-6, 300)
    kind = str(rng.choice(["optimal clones", "clones"]))
    law = BlanketLaw.generic(local) if kind == "optimal clones" else BlanketLaw.clones(local)

    def balls(n, epsilon):
        return [certificate.clone_delta(local, blanket=kind, n=n, epsilon=epsilon)]

    return law, int(log_uniform(rng, 1, 1e6)), balls


def random_table(rng, *, zeros=False):
    shapes = [(2, 2, 2_000), (2, 3, 60), (3, 3, 40), (3, 4, 12)]
    inputs, outputs, most = shapes[rng.choice(4, p=[0.7, 0.1, 0.1, 0.1])]
    spread = log_uniform(rng, 1e-6, 300)
    table = np.exp(rng.uniform(0, spread, (inputs, outputs)))
    if zeros:
        table[0, 0] = 0.0
    table /= table.sum(axis=1, keepdims=True)
    return table, int(log_uniform(rng, 1, most))


def of_table(table, n):
    def balls(people, epsilon):
        pairs = certificate.table_pairs(table.tolist())
        return [
            certificate.pair_delta(atoms, n=people, epsilon=epsilon) for atoms in pairs.values()
        ]

    return BlanketLaw.from_table(table), n, balls


def nearly_equal_outputs(rng):
    """Outputs whose ratios agree to many digits, which the law takes for one."""
    table, n = random_table(rng)
    noise = 1 + log_uniform(rng, 1e-16, 1e-9) * rng.uniform(-1, 1, (len(table), 2))
    split = table[:, :1] / 2 * noise
    table = np.column_stack([split, table[:, 1:]])
    table /= table.sum(axis=1, keepdims=True)
    return of_table(table, min(n, 40 if table.shape[1] == 3 else 8))


def near_lattice(rng):
    """Values in a ratio of 1 to -j, up to as little as 1e-15."""
    j = int(rng.integers(1, 5))
    local = log_uniform(rng, 1e-3, 5)
    e = math.exp(local)
    lie = 1 / (e + 1) * (1 + log_uniform(rng, 1e-15, 1e-3))
    table = np.array([[1 - lie, lie], [lie, 1 - lie]])
    law, n, balls = of_table(table, int(log_uniform(rng, 2, 2_000)))
    x = (e + 1 / j) / (1 + e / j)
    return law, n, balls, math.log(x)


def question(index):
    rng = np.random.default_rng([2026, index])
    match index % 5:
        case 0 | 1:
            law, n, balls = clone_pair(rng)
        case 2:
            table, n = random_table(rng, zeros=index % 20 == 2)
            law, n, balls = of_table(table, n)
        case 3:
            law, n, balls = nearly_equal_outputs(rng)
        case _:
            law, n, balls, epsilon = near_lattice(rng)
            return law, n, balls, epsilon, None
    delta = log_uniform(rng, rng.choice([1e-100, 1e-9]), 0.1)
    try:
        return law, n, balls, PrivacyProfile(law, n).epsilon(delta), delta
    except UnreachableTargetError:
        return law, n, balls, float(rng.uniform(0, 5)), None


@pytest.mark.parametrize("block", [0, *SLOW])
def test_our_interval_holds_the_ball(block):
    for index in range(100 * block, 100 * (block + 1)):
        law, n, balls, epsilon, delta = question(index)
        truth = max(balls(n, epsilon), key=float)
        pairs = [pair for pair in law.pairs if epsilon < pair.local_epsilon]
        assert_holds([integral.enclose(pair, n=n, epsilon=epsilon) for pair in pairs], truth)
        if all(pair.values(epsilon).max(initial=0.0) > 0 for pair in pairs):
            # The contour, where the terms would have been listed.
            assert_holds([contour(pair, n, epsilon) for pair in pairs], truth)
        profile = PrivacyProfile(law, n)
        assert not truth > profile.delta(epsilon)
        if delta is not None:
            assert not truth > delta
            assert profile.lower_delta(epsilon) <= delta


def contour(pair, n, epsilon):
    covered = integral.contour(pair, n, epsilon).plus(pair.lost_divergence(epsilon))
    return covered.down_by(n * pair.dropped * (1 + math.exp(epsilon)))


def assert_holds(enclosures, truth):
    """The largest of the intervals meets the ball, which is a million times narrower."""
    assert not truth > max((enclosure.upper for enclosure in enclosures), default=0.0)
    assert not truth < max((enclosure.lower for enclosure in enclosures), default=0.0)
