"""What the tests of the client share: a survey's operators, a clock, and who was drawn for."""

from __future__ import annotations

import pytest

from client_kit import Services, client_of, make_survey, manual_clock
from shoal.mechanisms.response import RandomizedResponse


@pytest.fixture
def clock():
    return manual_clock()


@pytest.fixture
def services():
    return Services(make_survey())


@pytest.fixture
def client(services, tmp_path, clock):
    with client_of(services, tmp_path, clock) as found:
        yield found


@pytest.fixture
def drawn(monkeypatch):
    """For how many people randomized response was drawn, time by time."""
    sizes = []
    original = RandomizedResponse.randomize

    def counted(self, values, *, randomness=None):
        sizes.append(len(values))
        return original(self, values, randomness=randomness)

    monkeypatch.setattr(RandomizedResponse, "randomize", counted)
    return sizes
