"""Whatever happens in whatever order: everybody is counted at most once, nobody is lost."""

from __future__ import annotations

import logging
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from service.simulation.machine import Simulation, fast_directory, two_surveys
from service.simulation.parties import Beginning


@pytest.fixture(autouse=True)
def silence():
    """Everything that can go wrong does, and is logged: nobody wants to read or format that."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def sqlite():
    with tempfile.TemporaryDirectory(dir=fast_directory()) as directory:
        yield Beginning(Path(directory) / "beginning", two_surveys)


@pytest.fixture(scope="module")
def postgresql(postgres_admin):
    with tempfile.TemporaryDirectory(dir=fast_directory()) as directory:
        yield Beginning(Path(directory) / "beginning", two_surveys, postgres_admin)


def simulated(start, *, sequences, steps):
    """What happened, all sequences together."""

    machine = type("Begun", (Simulation,), {"beginning": start, "tally": Counter()})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=sequences,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    return machine.tally


def assert_eventful(tally, *more):
    """A simulation in which nothing happens finds nothing."""
    least = tally["sequences"] / 10
    assert min(tally[name] for name in ("published", "replays", "deaths at work")) > least, tally
    assert all(tally[name] for name in more), tally


RARE = ("withheld", "expired", "waiting", "refused", "lost leases", "asked again", "forged")


def test_on_sqlite(sqlite):
    assert_eventful(simulated(sqlite, sequences=15, steps=40))


def test_on_postgresql(postgresql):
    tally = simulated(postgresql, sequences=6, steps=40)
    assert tally["published"]
    assert tally["deaths at work"]


@pytest.mark.slow
def test_many_on_sqlite(sqlite):
    assert_eventful(simulated(sqlite, sequences=2000, steps=50), *RARE)


@pytest.mark.slow
def test_many_on_postgresql(postgresql):
    assert_eventful(simulated(postgresql, sequences=200, steps=50), *RARE)
