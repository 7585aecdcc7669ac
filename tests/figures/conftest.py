"""The numbers behind the figures, at few points, computed once for all tests."""

from __future__ import annotations

from functools import cache

import pytest

from shoal.figures import DRAWINGS, testing_power
from shoal.figures.drawing import Drawing


class Numbers:
    """The table of every figure, by name."""

    points = 4  # along each horizontal axis: no figure takes fewer

    def __getitem__(self, name):
        (drawing,) = (each for each in DRAWINGS if each.name == name)
        return drawing.table(self.points)


@pytest.fixture(scope="session")
def numbers():
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Drawing, "table", cache(Drawing.table))
        # How often tests notice is tested in tests/testing; here it is drawn.
        patched.setattr(testing_power, "TRIALS", 10)
        patched.setattr(testing_power, "SIMULATIONS", 99)
        yield Numbers()
