"""The same reports again and again, from people and from a shuffler that cheats."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

from service.simulation.parties import MAX_AGE, Beginning, World, survey_of
from service_site import counts_of, documents_of
from shoal.randomness import simulated
from shoal.service.client import Keys
from shoal.service.client.randomize import seal as seal_messages

ANSWERS = 100
TIMES = 10
AT_ONCE = 5_000


def reports_of(world, survey, wire, people):
    """Everybody's report, as if nobody had added noise: what arrives is known exactly."""
    party = world.shuffler
    party.step()
    keys = Keys(
        party.analyzer_keys(survey).current(survey.suite, party.clock()),
        party.keyring.list().current(survey.suite, party.clock()),
    )
    answers = (np.arange(people) % ANSWERS).astype(np.uint8)
    return seal_messages(wire, answers.tobytes(), keys)


def counted(people, admin=None):
    """How many are counted with each answer if everybody sends ten times.

    In mixed order, over several batches, and with a shuffler that dies now and then, once with
    work half done.
    """

    def make(fingerprints):
        size = people // 4
        return [survey_of("replay", fingerprints, k=ANSWERS, minimum=size // 4, target=size)]

    with tempfile.TemporaryDirectory() as directory:
        beginning = Beginning(Path(directory) / "beginning", make, admin)
        (survey,), (wire,) = beginning.surveys, beginning.wires
        with beginning.copied(Path(directory) / "world") as place:
            world = World(place, beginning.tokens)
            try:
                reports = reports_of(world, survey, wire, people)
                _send_often(world, survey, reports)
                counts = counts_of(world.analyzer.store, survey)
                documents = documents_of(world.analyzer.store, survey)
                tallies = world.shuffler.store.reports.tallies(survey.id)
            finally:
                world.close()
    assert len(counts) > 1, "one batch alone replays nothing into another"
    assert tallies["opened"] == people
    assert not tallies.get("rejected")
    assert sum(sum(each["rejected"].values()) for each in documents) == 0
    return sum(each.cells for each in counts.values()), documents


def _send_often(world, survey, reports):
    """Half of all come before the others; some come last, so that the last batch is no small one.

    Everybody comes again until the end.
    """
    people, late = len(reports), survey.batches.minimum
    half = simulated(1).permutation(people // 2)
    soon = np.tile(np.arange(people - late), TIMES)
    last = np.tile(np.arange(people - late, people), TIMES)
    soon = soon[simulated(2).permutation(len(soon))]
    everything = np.concatenate([half, half, soon, last, half])
    size = min(AT_ONCE, people // 5)
    for number, start in enumerate(range(0, len(everything), size)):
        chosen = everything[start : start + size]
        answer = world.upload(survey, b"".join(reports[each] for each in chosen))
        assert answer.json() == {"reports": len(chosen), "refused": []}
        world.shuffler.step()
        if number % 9 == 1:
            world.shuffler.store.reports.claim(10, 600)  # and dies with it
            world.revive("shuffler")
        if number % 9 == 4:
            world.analyzer.step()
            world.revive("analyzer")
        world.advance(60)
    for _ in range(3):
        world.advance(MAX_AGE)
        world.work()


def test_ten_times_eight_hundred_reports_are_eight_hundred():
    total, documents = counted(800)
    assert total.tolist() == [8] * ANSWERS
    assert sum(each["valid"] for each in documents) == 800


def test_the_same_on_postgresql(postgres_admin):
    total, _ = counted(400, postgres_admin)
    assert total.tolist() == [4] * ANSWERS


@pytest.mark.slow
def test_ten_times_a_hundred_thousand_reports_are_a_hundred_thousand():
    total, _ = counted(100_000)
    assert total.tolist() == [1000] * ANSWERS
