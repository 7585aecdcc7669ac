"""Random randomizers for property-based tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st


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
