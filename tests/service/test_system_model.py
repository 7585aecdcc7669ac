"""Whatever happens in whatever order: everybody is counted at most once, nobody is lost."""

from __future__ import annotations

import logging
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from service.simulation.machine import Simulation, two_surveys
from service.simulation.parties import Beginning


@pytest.fixture(autouse=True)
def silence():
    """Everything that can go wrong does, and is logged: nobody wants to read or format that."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory):
    return Beginning(tmp_path_factory.mktemp("sqlite") / "beginning", two_surveys)


@pytest.fixture(scope="module")
def postgresql(tmp_path_factory, postgres_admin):
    return Beginning(
        tmp_path_factory.mktemp("postgresql") / "beginning", two_surveys, postgres_admin
    )


COMMON = ("published", "replays", "deaths at work")
ATTEMPTS = 4


def simulated(start, *, sequences, steps, rare=()):
    """Run so many sequences; and as many again while too little happened in them.

    What happens is drawn, and a simulation in which nothing happens finds nothing.
    """
    tally = Counter()
    for attempt in range(ATTEMPTS):
        # By another name, other sequences are drawn.
        machine = type(f"Begun{attempt}", (Simulation,), {"beginning": start, "tally": tally})
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=sequences,
                stateful_step_count=steps,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
        if eventful(tally, rare):
            return
    pytest.fail(f"too little happened: {tally}")


def eventful(tally, rare):
    least = tally["sequences"] / 10
    return min(tally[name] for name in COMMON) > least and all(tally[name] for name in rare)


RARE = ("withheld", "expired", "waiting", "refused", "lost leases", "asked again", "forged")


def test_on_sqlite(sqlite):
    simulated(sqlite, sequences=5, steps=40)


def test_on_postgresql(postgresql):
    simulated(postgresql, sequences=4, steps=40)


@pytest.mark.slow
def test_many_on_sqlite(sqlite):
    simulated(sqlite, sequences=2000, steps=50, rare=RARE)


@pytest.mark.slow
def test_many_on_postgresql(postgresql):
    simulated(postgresql, sequences=200, steps=50, rare=RARE)
