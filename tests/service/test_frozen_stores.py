"""What earlier versions wrote to disk still opens, and goes on: it must, and so never changes."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import httpx
import pytest

from client_kit import DAY, NOW, Services, client_of, make_survey
from factories import early
from shoal.service.client import Settings
from shoal.service.client.outbox import FILE
from shoal.service.clock import ManualClock
from shoal.service.keyring import KeyList, Keyring, KeyState, Protection
from shoal.service.keyring.secrets import write_private

FROZEN = Path(__file__).parent / "frozen"
JOB = ["red"] * 30


def test_an_outbox_of_version_3_is_delivered_as_it_was_drawn(tmp_path):
    """One report sealed and in doubt, one randomized, and a job of thirty."""
    directory = tmp_path / "outbox"
    directory.mkdir(mode=0o700)
    database = sqlite3.connect(directory / FILE)
    database.executescript((FROZEN / "outbox_v3.sql").read_text())
    rows = "SELECT messages, sealed, state FROM reports JOIN surveys ON survey = id ORDER BY name"
    drawn = database.execute(rows).fetchall()
    database.close()
    posted = {}
    services = Services(early(make_survey()))

    def take(name):
        def answer(request):
            posted[name] = request.content
            reports = len(request.content) // services.wire.report_bytes
            return httpx.Response(202, json={"reports": reports, "refused": []})

        return answer

    for name in ("colours", "three", "two"):
        survey = early(make_survey(name=name))
        services.answers["shuffler", f"/v1/surveys/{survey.id}/reports"] = take(name)
    clock = ManualClock(NOW + 2 * DAY)
    with client_of(services, directory, clock, settings=Settings(tries=1)) as client:
        assert [row.waiting for row in client.spent()] == [1, 30, 1]
        flushed = client.flush(everything=True)
        assert (flushed.sent, flushed.waiting, flushed.given_up) == (32, 0, 0)
        assert client.report_many(early(make_survey(name="three")), JOB, job="x").again
    assert [state for _, _, state in drawn] == ["sealed", "randomized", "randomized"]
    assert posted["colours"] == drawn[0][1]  # in doubt: the same bytes
    for (messages, _, _), name in zip(drawn[1:], ("three", "two"), strict=True):
        size, body = services.wire.report_bytes, posted[name]
        opened = Services(early(make_survey(name=name)))
        reports = [body[start : start + size] for start in range(0, len(body), size)]
        assert b"".join(map(opened.opened, reports)) == messages


@pytest.mark.parametrize("kind", ["none", "passphrase", "keyfile"])
def test_a_ring_of_version_1_opens_and_rotates(tmp_path, kind):
    stored = json.loads((FROZEN / "keyrings_v1.json").read_text())
    directory = tmp_path / "keys"
    directory.mkdir(mode=0o700)
    for name, content in stored["rings"][kind].items():
        write_private(directory / name, content.encode())
    write_private(tmp_path / "key file", bytes.fromhex(stored["key_file"]))
    protection = {
        "none": Protection.none,
        "passphrase": lambda: Protection.passphrase(stored["passphrase"]),
        "keyfile": lambda: Protection.key_file(tmp_path / "key file"),
    }[kind]()
    now = stored["now"]
    ring = Keyring.open(directory, protection=protection, clock=ManualClock(now))
    written = json.loads(stored["rings"][kind]["index.json"])
    written.pop("local")
    assert json.loads(ring.list().to_bytes()) == written
    for number in (0, 1):
        assert ring.pair(number).public == ring.list().keys[number].public
    ring.rotate()
    shown = KeyList.verified(
        ring.list().to_bytes(), fingerprint=ring.fingerprint, now=now, role="shuffler"
    )
    states = [KeyState.EXPIRED, KeyState.ACTIVE, KeyState.PENDING]
    assert [key.state for key in shown.keys] == states
