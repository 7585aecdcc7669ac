"""Plans of nearly the same questions."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def plans(calibrated_once):
    """Many tests compare plans that share what was searched for."""
