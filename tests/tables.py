"""Random randomizers for property-based tests, and whether two laws are the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from shoal.accounting.profile import PrivacyProfile


def check_same_curve(mine, theirs, n):
    """Two laws have the same delta where it is about 1e-2, and where it is about 1e-6.

    One part in 1e3 of delta is less than one in 1e4 of the epsilon that it belongs to.
    """
    first, second = PrivacyProfile(mine, n), PrivacyProfile(theirs, n)
    for deviations in (2.0, 4.5):
        epsilon = min(deviations * first.spread, 0.7 * first.local_epsilon)
        assert first.delta(epsilon) == pytest.approx(second.delta(epsilon), rel=1e-3)


@st.composite
def randomizer_tables(draw, *, inputs=3, outputs=(3, 5), spread=2.0, zeros=False):
    """A table of probabilities; with ``zeros``, some entries are impossible outputs."""
    columns = draw(st.integers(*outputs))
    weight = st.floats(-spread / 2, spread / 2)
    logs = draw(st.lists(weight, min_size=inputs * columns, max_size=inputs * columns))
    table = np.exp(np.array(logs)).reshape(inputs, columns)
    if zeros:
        holes = draw(st.sets(st.integers(0, inputs * columns - 1), max_size=4))
        table.ravel()[sorted(holes)] = 0.0
        table[table.sum(axis=1) == 0] = 1.0
    return table / table.sum(axis=1, keepdims=True)


def random_table(rng, *, inputs=3, zeros=False):
    """The same from a NumPy generator, for fixed-size sweeps."""
    columns = int(rng.integers(3, 6))
    table = np.exp(rng.uniform(-1.5, 1.5, size=(inputs, columns)))
    if zeros:
        table[rng.random(table.shape) < 0.2] = 0.0
        table[table.sum(axis=1) == 0] = 1.0
    return table / table.sum(axis=1, keepdims=True)
