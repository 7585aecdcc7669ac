"""Keys of both parties change while people send: nobody is refused, nothing is mixed up."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sqlalchemy as sa

from factories import DAY
from service_site import HOUR, live, telling
from shoal.service.batch_file import BatchFile
from shoal.service.client import Queued, Settings
from shoal.service.client.protocol import NoResponse, Request
from shoal.service.keyring import KeyState
from shoal.service.shuffler import tables as schema
from shoal.service.shuffler.reports import Arrival

DEVICES = 2
PEOPLE = 2  # that a device sends for in one go
STEP = 44 * HOUR
# Longer than the life of two keys: pending, 30 days active, 14 days expired, deleted.
STEPS = 28
SETTINGS = Settings(tries=5, wait=0.01, longest_wait=0.02)
EVERYBODY = DEVICES * PEOPLE * STEPS


@pytest.fixture
def service(tmp_path):
    with live(tmp_path, **telling(EVERYBODY, minimum=2, target=8)) as found:
        yield found


def numbers(keyring, *states):
    return {info.number for info in keyring.list().keys if info.state in states}


class Load:
    """Devices that send at every step, each for people whose answers nobody else gives."""

    def __init__(self, service):
        self.service = service
        self.devices = [service.client(f"device {number}", SETTINGS) for number in range(DEVICES)]
        self.bodies = []
        for device in self.devices:
            device._http.event_hooks["request"].append(self._seen)

    def _seen(self, request):
        if request.method == "POST":
            self.bodies.append((self.service.clock(), request.read()))

    def send(self, device, step):
        first = (step * DEVICES + device) * PEOPLE
        sent = self.devices[device].report_many(
            self.service.survey, np.arange(first, first + PEOPLE), job=f"step {step}"
        )
        assert (sent.delivered, sent.waiting, sent.finished) == (PEOPLE, 0, True), sent


def check_batches(service, seen):
    """Every released file holds records of the one key that it names."""
    for path in (service.shuffler.directory / "batches").glob("*.batch"):
        batch = BatchFile.read(path.read_bytes())
        heads = {record[1] for record in service.wire.sections[0].split(bytes(batch.body))}
        assert heads == {batch.header.key}
        seen.add(batch.header.key)


def test_keys_of_both_parties_change_under_load(service):
    load = Load(service)
    shuffler, analyzer = service.shuffler_worker(upkeep=0), service.analyzer_worker()
    keys_of_batches, deleted = set(), set()
    with ThreadPoolExecutor(DEVICES) as pool:
        for step in range(STEPS):
            sending = [pool.submit(load.send, device, step) for device in range(DEVICES)]
            if step in {10, 22}:  # by hand too, in the middle of it all
                service.shuffler.keyring.rotate()
                service.analyzer.keyring.rotate()
            shuffler.step()
            for each in sending:
                each.result()
            service.clock.advance(STEP)
            while shuffler.step():
                pass
            check_batches(service, keys_of_batches)
            (passed,) = analyzer.collect().values()
            assert (passed.refused, passed.problems) == ((), {})
            deleted = service.shuffler.keyring.gone()
    finish(service, shuffler, analyzer)
    used = {body[1] for _, body in load.bodies}
    assert len(used) >= 3
    assert len(keys_of_batches) >= 3
    assert deleted & used
    check_counts(service)
    check_deleted(service, load, deleted & used)


def finish(service, shuffler, analyzer):
    """Whoever is in a batch that is large enough is released in time."""
    for _ in range(4):
        service.clock.advance(DAY)
        while shuffler.step():
            pass
        analyzer.step()


def check_counts(service):
    """Everybody is in one batch, or waits alone for a second one with the same old key."""
    total, people = np.zeros(EVERYBODY), 0
    for document in service.results():
        assert document["status"] == "published"
        total += np.round([row["count"] for row in document["estimates"]])
        people += document["valid"]
    assert set(total.tolist()) <= {0.0, 1.0}
    assert total.sum() == people
    waiting = EVERYBODY - people
    assert waiting <= len(service.analyzer.keyring.gone()) + len(
        numbers(service.analyzer.keyring, KeyState.EXPIRED)
    )


def check_deleted(service, load, deleted):
    """What a deleted key sealed is refused, and would not open; nothing is remembered of it."""
    for number in deleted:
        with service.shuffler.database.read() as connection:
            for table in (schema.tags, schema.waiting_tags):
                kept = sa.select(sa.func.count()).where(table.c.key == number)
                assert connection.execute(kept).scalar() == 0
    replayed = [body for _, body in load.bodies if body[1] in deleted]
    assert replayed
    before = service.shuffler.store.reports.tallies(service.survey.id)["opened"]
    for body in replayed:
        answer = service.post(body).json()
        assert [each["reason"] for each in answer["refused"]] == ["unknown_key"] * PEOPLE
    # Whoever brings it past the door gains nothing.
    service.shuffler.store.reports.receive(
        [Arrival(service.survey.id, replayed[0][1], replayed[0])]
    )
    shuffler = service.shuffler_worker()
    while shuffler.step():
        pass
    assert service.shuffler.store.reports.tallies(service.survey.id)["opened"] == before


@pytest.mark.parametrize(("unsent", "sent"), [(True, 1), (False, 0)])
def test_a_device_that_slept_through_a_rotation_sends_nothing_twice(service, unsent, sent):
    """It sealed and tried, and comes back when the key is deleted.

    If the first try certainly did not arrive, the same message is sealed with the new key. If it
    may have arrived, nothing is sent any more.
    """
    device = service.client("sleeper", Settings(tries=1, wait=0.01))
    shuffler = service.shuffler_worker()
    original, tried = device._perform, []

    def offline(wanted):
        if isinstance(wanted, Request) and wanted.body:
            tried.append(wanted.body)
            return NoResponse("nobody answers", unsent=unsent)
        return original(wanted)

    device._perform = offline
    assert isinstance(device.report(service.survey, "answer 7"), Queued)
    device._perform = original
    for _ in range(30):
        service.clock.advance(2 * DAY)
        shuffler.step()
        service.analyzer.keyring.tick()
    assert tried[0][1] in service.shuffler.keyring.gone()
    outcome = device.flush(everything=True)
    assert (outcome.sent, outcome.waiting, outcome.given_up) == (sent, 0, 1 - sent)
