"""Tests of hypotheses are designed again and again, and few of them for another target."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def designs(calibrated_once):
    """The randomizer for a target is found once."""
