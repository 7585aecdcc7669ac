"""Hours of load, and a clock that is wrong for a day.

``SHOAL_SOAK_SECONDS`` (1800) and ``SHOAL_SOAK_RATE`` (2000 requests a second) say how long and how
much. One command, whose last line sums it up::

    python -m pytest -m slow tests/service/test_system_soak.py
"""

from __future__ import annotations

import os

import pytest

import load_kit
from factories import DAY
from running_kit import opened

SECONDS = int(os.environ.get("SHOAL_SOAK_SECONDS", "1800"))
RATE = float(os.environ.get("SHOAL_SOAK_RATE", "2000"))
FORGED, REPLAYED = 0.5, 0.49  # what is left is sealed before
WARM = max(15.0, 0.1 * SECONDS)
GROWTH = 0.05
LARGEST_WAL = 100 << 20
BATCH = 600  # people


@pytest.mark.slow
def test_memory_and_journal_stay_as_they_are(tmp_path, capsys):
    machine = load_kit.Machine()
    with load_kit.deployed(tmp_path / "both", people=BATCH) as site:
        wanted = load_kit.stream(
            site,
            requests=int(RATE * SECONDS),
            rate=RATE,
            connections=128,
            forged=FORGED,
            replayed=REPLAYED,
        )
        with load_kit.sampled(site, max(0.5, SECONDS / 600)) as samples:
            (found,) = load_kit.sent(site, wanted)
        published = site.local.published()
        embedded = site.embedded
    kinds = {kind: len(seconds) for kind, seconds in found.seconds.items()}
    grown = {name: samples.growth(name, WARM) for name in samples.memory[0]}
    figures = found.milliseconds()
    memory = ", ".join(
        f"{name} {samples.memory[-1][name]:.0f} MB ({share:+.1%})" for name, share in grown.items()
    )
    machine.tell(
        capsys,
        f"soak: {SECONDS} s at {found.rate:,.0f} of {RATE:,.0f} requests a second; "
        f"p50 {figures['p50']:.0f} ms, p99 {figures['p99']:.0f} ms, max {figures['max']:.0f} ms; "
        f"{memory}; journal at most {max(samples.wal) / 1e6:.0f} MB; {published} batches; "
        f"answers {dict(found.statuses)}",
    )
    assert set(found.statuses) <= {"202"} | (set() if machine.idle else {"unanswered"})
    if machine.idle:
        assert found.rate > 0.95 * RATE
    assert max(samples.wal) < LARGEST_WAL
    assert max(grown.values()) < GROWTH
    # Each report once, whatever was sent how often; and nothing that was forged.
    counted = opened(embedded)
    if "unanswered" not in found.statuses:
        assert counted == {"opened": kinds["fresh"], "rejected": kinds["forged"]}
    assert counted["opened"] <= kinds["fresh"]


def test_a_clock_that_was_set_back_a_day_loses_and_repeats_nobody(shuffler):
    """What is acknowledged in the wrong day counts once, when the right one is back."""
    app = shuffler.app()
    people = shuffler.reports(40)

    def post(body):
        return shuffler.ask(body, app=app)

    assert post(b"".join(people[:10])).status_code == 202
    shuffler.work()
    shuffler.clock.advance(1 - DAY)
    answers = [post(report) for report in people[5:20]]
    refused = [answer for answer in answers if answer.json().get("refused")]
    assert {answer.status_code for answer in answers} == {202}
    # A key that is not in use yet, as this clock has it, takes nothing: so it is said.
    assert len(refused) in {0, len(answers)}
    shuffler.work()
    shuffler.clock.advance(DAY - 1)
    for report in people:
        assert post(report).json() == {"reports": 1, "refused": []}
    shuffler.work()
    (batch,) = shuffler.store.batches.listed(shuffler.survey.id)
    assert batch.reports == 40
    assert shuffler.tallies() == {"opened": 40}
