"""Floods of bytes that look like reports: they cost little, leave nothing, and harm nobody."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

import load_kit
from running_kit import wait_for
from service.stores import rows_of
from service_site import Shuffler
from shoal.service.shuffler import tables as schema

FORGED, ROUNDS = 10_000, 5  # so many that other memory of the process is small beside them
FLOOD = 100_000
IN_ONE_REQUEST = 100
HONEST = 2500
SECONDS = 25.0
HONEST_P99 = 250.0  # milliseconds, while nothing else runs on the machine
GROWTH = 24.0  # MB


@pytest.mark.parametrize("forged", [FORGED, pytest.param(10 * FORGED, marks=pytest.mark.slow)])
def test_a_flood_leaves_nothing_and_nobody_is_lost_in_it(tmp_path, forged):
    """Every round has honest people in it, in the same bodies; memory is that of one round."""
    shuffler = Shuffler.alone(tmp_path, minimum=20, target=ROUNDS * 8)
    honest = shuffler.reports(ROUNDS * 8)
    size = shuffler.wire.report_bytes
    worker = shuffler.worker()
    held = []
    gc.freeze()  # what is there already: it takes long to look through
    tracemalloc.start()
    try:
        for number in range(ROUNDS):
            noise = shuffler.forged(forged // ROUNDS)
            noise = bytes([1, 0]) + number.to_bytes(2, "big") + noise[4:]
            mine = honest[number * 8 : (number + 1) * 8]
            body = noise[: 7 * size] + b"".join(mine) + noise[7 * size :]
            shuffler.receive(body)
            while worker.step():
                pass
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
        gc.unfreeze()
    assert shuffler.tallies() == {"opened": len(honest), "rejected": forged}
    (batch,) = shuffler.store.batches.listed(shuffler.survey.id)
    assert batch.reports == len(honest)
    # Not a row and not a byte of the flood is kept.
    assert (
        rows_of(shuffler.database, schema.recent_tags),
        rows_of(shuffler.database, schema.tags),
    ) == (len(honest), 0)
    assert rows_of(shuffler.database, schema.extents) == 0
    assert held[-2] - held[0] < forged // ROUNDS * size // 2
    shuffler.close()


@pytest.mark.slow
def test_honest_people_are_answered_while_others_flood(tmp_path, capsys):
    machine = load_kit.Machine()
    warm_up = 20
    everybody = {"opened": HONEST, "rejected": FLOOD + warm_up * IN_ONE_REQUEST}
    with load_kit.deployed(tmp_path / "both", people=10 * HONEST) as site:

        def flooding(requests, rate):
            return load_kit.stream(
                site, requests=requests, rate=rate, bulk=IN_ONE_REQUEST, forged=1.0
            )

        honest = load_kit.stream(site, requests=HONEST, rate=HONEST / SECONDS)
        flood = flooding(FLOOD // IN_ONE_REQUEST, FLOOD / IN_ONE_REQUEST / SECONDS)
        load_kit.sent(site, flooding(warm_up, 20.0))
        wait_for(lambda: site.tallies().get("rejected", 0) == warm_up * IN_ONE_REQUEST)
        before, worker = site.memory(), site.pids["worker"]
        used = load_kit.processor_seconds(worker)
        of_honest, of_flood = load_kit.sent(site, honest, flood)
        wait_for(lambda: site.tallies() == everybody, 120)
        used = load_kit.processor_seconds(worker) - used
        after = site.memory()
    assert of_honest.statuses == {"202": HONEST}
    assert of_flood.statuses == {"202": FLOOD // IN_ONE_REQUEST}
    grown = {name: after[name] - before[name] for name in after}
    p99 = of_honest.milliseconds()["p99"]
    opened = (FLOOD + HONEST) / used
    told = ", ".join(f"{name} {more:+.1f} MB" for name, more in grown.items())
    machine.tell(
        capsys,
        f"forged flood: honest p99 {p99:.0f} ms, {opened:,.0f} rejected or opened per processor "
        f"second of the worker, memory {told}",
    )
    assert max(grown.values()) < GROWTH
    if machine.idle:
        assert p99 < HONEST_P99
