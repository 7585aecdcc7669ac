"""What is on disk: the randomized message until it has arrived, the answer never."""

from __future__ import annotations

import signal
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest

from client_kit import (
    DAY,
    NOW,
    Services,
    client_of,
    make_survey,
    manual_clock,
    many_answers,
)
from shoal.mechanisms.grid import Duchi
from shoal.service.client import (
    Client,
    DeliveryError,
    KeysRefusedError,
    OutboxError,
    Queued,
    Sent,
    Settings,
    SurveyRefusedError,
)
from shoal.service.client.outbox import FILE, VERSION

ONCE = Settings(tries=1)


def bytes_on_disk(directory):
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


def kept(directory):
    with sqlite3.connect(directory / FILE) as database:
        found = database.execute("SELECT messages, sealed FROM reports").fetchall()
    database.close()
    return found


def test_the_file_is_the_persons_alone(tmp_path, clock):
    services = Services(make_survey())
    directory = tmp_path / "new" / "outbox"
    with client_of(services, directory, clock) as client:
        client.report(services.survey, "red")
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {path.name for path in directory.iterdir()} == {FILE}
    assert stat.S_IMODE((directory / FILE).stat().st_mode) == 0o600


def test_the_answer_is_nowhere_on_disk(tmp_path, clock):
    """Neither its text nor, for a number, its value; not even the list of answers is."""
    services = Services(make_survey())
    services.lost_responses = 1.0
    with client_of(services, tmp_path, clock, settings=ONCE) as client:
        assert isinstance(client.report(services.survey, "marked-answer-yellow"), Queued)
        assert b"marked-answer" not in bytes_on_disk(tmp_path)
    assert b"marked-answer" not in bytes_on_disk(tmp_path)
    value = 7.123456789
    numbers = Services(make_survey(device=Duchi(low=0.0, high=10.0, epsilon=1.0), answers=()))
    numbers.lost_responses = 1.0
    with client_of(numbers, tmp_path / "number", clock, settings=ONCE) as client:
        client.report(numbers.survey, value)
    written = bytes_on_disk(tmp_path / "number")
    for order in ("<f8", ">f8"):
        assert np.array(value, dtype=order).tobytes() not in written
    assert b"7.1234" not in written


def test_a_message_waits_on_disk_and_is_wiped_when_it_has_arrived(tmp_path, clock):
    services = Services(many_answers())
    services.lost_requests = 1.0
    with client_of(services, tmp_path, clock, settings=ONCE) as client:
        client.report(services.survey, "answer 3")
        ((message, sealed),) = kept(tmp_path)
        assert sealed == services.bodies[0]
        assert services.opened(sealed) == message
        assert sealed in bytes_on_disk(tmp_path)
        services.lost_requests = 0.0
        assert client.flush(everything=True).sent == 1
        assert kept(tmp_path) == [(None, None)]
        assert sealed[50:80] not in bytes_on_disk(tmp_path)


@pytest.mark.parametrize("how", ["opt_out", "forget"])
def test_opting_out_wipes_what_waits(tmp_path, clock, how):
    services = Services(many_answers())
    services.lost_requests = 1.0
    with client_of(services, tmp_path, clock, settings=ONCE) as client:
        client.report(services.survey, "answer 3")
        ((message, sealed),) = kept(tmp_path)
        assert message
        wiped = client.opt_out() if how == "opt_out" else client.forget(services.survey)
        assert wiped == 1
        assert kept(tmp_path) == [(None, None)]
        written = bytes_on_disk(tmp_path)
        for start in range(0, len(sealed) - 16, 16):
            assert sealed[start : start + 16] not in written
        services.lost_requests = 0.0
        assert client.flush(everything=True).sent == 0
        # What was made once is never made again, and its price stays written down.
        client.opt_in()
        with pytest.raises(Exception, match="deleted on request"):
            client.report(services.survey, "answer 3")
        assert client.spent().epsilon > 0
    assert len(services.bodies) == 1


def test_nothing_leaves_after_opting_out(tmp_path, clock):
    """Not even what is about to be sent, by another process, at that moment."""
    services = Services(make_survey())
    with (
        client_of(services, tmp_path, clock) as client,
        client_of(services, tmp_path, clock) as other,
    ):
        handle = services.handle

        def opts_out(request):
            other.opt_out()
            return handle(request)

        client._http = httpx.Client(transport=httpx.MockTransport(opts_out))
        with pytest.raises(DeliveryError, match="deleted on request"):
            client.report(services.survey, "red")
    assert services.requests
    assert services.posts() == []


def test_opting_out_and_wiping_are_one(tmp_path, clock, monkeypatch):
    services = Services(make_survey())
    services.lost_requests = 1.0
    with client_of(services, tmp_path, clock, settings=ONCE) as client:
        client.report(services.survey, "red")
        outbox = client._protocol.outbox
        with monkeypatch.context() as patched:
            patched.setattr(outbox, "_wipe", None)  # died there
            with pytest.raises(TypeError):
                client.opt_out()
        services.lost_requests = 0.0
        outbox._change("INSERT INTO consent VALUES (1)")  # by a process that is half through
        assert client.flush(everything=True).sent == 0
        assert len(services.bodies) == 1
        client.opt_in()
        assert client.flush(everything=True).sent == 1  # neither was done


def test_opting_out_is_done_even_if_the_file_cannot_be_made_smaller(tmp_path, clock):
    services = Services(make_survey())
    with (
        client_of(services, tmp_path, clock) as client,
        client_of(services, tmp_path, clock) as other,
    ):
        client.report(services.survey, "red")
        client._protocol.outbox._run("PRAGMA busy_timeout = 10")
        wipe = client._protocol.outbox._compact

        def busy():
            with other._protocol.outbox._transaction():
                wipe()

        client._protocol.outbox._compact = busy
        assert client.opt_out() == 0
        with pytest.raises(SurveyRefusedError, match="opted out"):
            client.report(services.survey, "red")


def test_old_lists_of_keys_stay_known_after_opting_out(tmp_path, clock):
    services = Services(make_survey(reports_per_person=2))
    with client_of(services, tmp_path, clock) as client:
        client.report(services.survey, "red")
        client.opt_out()
        client.opt_in()
        services.shuffler.issued -= 10
        clock.advance(2 * DAY)
        with pytest.raises(KeysRefusedError, match="issued"):
            client.report(services.survey, "red", occasion=2)
    assert len(services.bodies) == 1


def test_a_whole_job_is_wiped_too(tmp_path, clock):
    services = Services(many_answers())
    services.lost_requests = 1.0
    with client_of(services, tmp_path, clock, settings=ONCE) as client:
        client.report_many(services.survey, ["answer 3"] * 300, job="a")
        ((message, sealed),) = kept(tmp_path)
        assert len(message) == 600
        assert message[:40] in bytes_on_disk(tmp_path)
        assert client.forget(str(services.survey.id)) == 300
        written = bytes_on_disk(tmp_path)
        for start in range(0, len(sealed), 4000):
            assert sealed[start : start + 40] not in written
        assert message[:40] not in written


def test_who_opted_out_is_not_asked(tmp_path, clock):
    services = Services(make_survey())
    with client_of(services, tmp_path, clock) as client:
        client.opt_out()
        client.opt_out()
    with client_of(services, tmp_path, clock) as client:
        with pytest.raises(SurveyRefusedError, match="opted out; opt in again"):
            client.report(services.survey, "red")
        with pytest.raises(SurveyRefusedError, match="opted out"):
            client.report_many(services.survey, ["red"], job="a")
        assert services.requests == []
        client.opt_in()
        assert isinstance(client.report(services.survey, "red"), Sent)


def test_a_full_outbox_takes_nothing_and_sends_nothing(tmp_path, clock):
    services = Services(make_survey())
    services.lost_requests = 1.0
    small = Settings(tries=1, storage=1 << 17)
    with client_of(services, tmp_path, clock, settings=small) as client:
        drawn = 0
        full = None
        while full is None and drawn < 100:
            try:
                client.report_many(services.survey, ["red"] * 100, job=f"job {drawn}")
                drawn += 1
            except OutboxError as error:
                full = str(error)
        assert 0 < drawn < 100
        assert "it is full, or the disk is: free some space" in full
        assert "allow more" not in full  # no option of the command does
        assert full.endswith("nothing was sent")
        assert (tmp_path / FILE).stat().st_size < 1.5 * (1 << 17)
        sent = len(services.bodies)
        with pytest.raises(OutboxError):
            client.report_many(services.survey, ["red"] * 1500, job="one more")
        assert len(services.bodies) == sent
        services.lost_requests = 0.0
        assert client.flush(everything=True).sent == drawn * 100
        assert isinstance(client.report(services.survey, "red"), Sent)  # there is room again
    assert len(services.messages) == drawn * 100 + 1


def test_a_disk_that_cannot_be_written_to_is_said(tmp_path, clock):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutboxError, match="cannot be used"):
        client_of(Services(make_survey()), tmp_path / "file", clock)
    (tmp_path / FILE).write_bytes(b"this is no database" * 100)
    with pytest.raises(OutboxError, match="not a database"):
        client_of(Services(make_survey()), tmp_path, clock)


@pytest.mark.parametrize(
    ("version", "unknown"),
    [(1, ["proxied", "over", "said", "codes"]), (2, ["over", "said", "codes"]), (3, ["codes"])],
    ids=["first", "second", "third"],
)
def test_an_outbox_of_an_earlier_version_goes_on(tmp_path, clock, version, unknown):
    """The first did not know of proxies; what waits is sent, and what comes is remembered."""
    services = Services(make_survey(reports_per_person=2, epsilon=2.0))
    with client_of(services, tmp_path, clock, settings=Settings(delay=3600)) as client:
        client.report(services.survey, "red")
    with sqlite3.connect(tmp_path / FILE) as database:
        for column in unknown:
            database.execute(f"ALTER TABLE reports DROP COLUMN {column}")
        database.execute(f"PRAGMA user_version = {version}")
    database.close()
    proxied = Settings(delay=3600, proxy="http://127.0.0.1:1")
    with client_of(services, tmp_path, clock, settings=proxied) as client:
        client.report(services.survey, "red", occasion=2)
    with client_of(services, tmp_path, clock) as client:
        flushed = client.flush(everything=True)
        assert (flushed.sent, flushed.waiting) == (1, 1)
    with sqlite3.connect(tmp_path / FILE) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (VERSION,)
    database.close()


def test_an_outbox_of_a_later_version_is_left_alone(tmp_path, clock):
    client_of(Services(make_survey()), tmp_path, clock).close()
    with sqlite3.connect(tmp_path / FILE) as database:
        database.execute("PRAGMA user_version = 9")
    database.close()
    with pytest.raises(OutboxError, match="version 9"):
        client_of(Services(make_survey()), tmp_path, clock)


def test_threads_and_clients_draw_once(tmp_path, clock, drawn):
    services = Services(many_answers())
    clients = [client_of(services, tmp_path, clock) for _ in range(3)]
    with ThreadPoolExecutor(6) as pool:
        outcomes = list(
            pool.map(
                lambda turn: clients[turn % 3].report(services.survey, f"answer {turn}"), range(6)
            )
        )
    for client in clients:
        client.flush(everything=True)
        client.close()
    assert drawn == [1]
    assert sum(not outcome.again for outcome in outcomes) == 1
    assert len(services.messages) == 1
    assert len(set(services.bodies)) == 1


# ------------------------------------------------------------------------- dying on the way


def answered(outbox, log, what, answer):
    """What a device does, as a process of its own."""
    services = Services(many_answers(), log=log)
    client = Client(outbox, transport=services.transport, clock=manual_clock())
    if what == "report":
        return type(client.report(services.survey, answer)).__name__
    return client.report_many(services.survey, [answer] * 50, job="file").delivered


@pytest.fixture
def device(forks):
    def run(directory, log, what, answer, failpoint=None):
        """How a device ended that may die, and what it was answered."""
        asked = {"outbox": str(directory), "log": str(log), "what": what, "answer": answer}
        (ended,) = forks.run(
            "service.client.test_client_outbox.answered", asked | {"point": failpoint}
        )
        return ended

    return run


@pytest.mark.parametrize(
    ("what", "failpoint"),
    [
        ("report", "client.randomized"),
        ("report", "client.sealed"),
        ("report", "client.sent"),
        ("many", "client.sent"),
        pytest.param("many", "client.randomized", marks=pytest.mark.slow),
        pytest.param("many", "client.sealed", marks=pytest.mark.slow),
    ],
)
def test_a_device_that_dies_goes_on_with_the_same_message(tmp_path, clock, device, what, failpoint):
    outbox, log = tmp_path / "outbox", tmp_path / "log"
    assert device(outbox, log, what, "answer 1", failpoint) == (-signal.SIGKILL, None)
    ((message, sealed),) = kept(outbox)
    assert message
    assert any(sealed) == (failpoint != "client.randomized")  # until then, room for it
    assert log.exists() == (failpoint == "client.sent")
    # The next process answers otherwise, and what the first has drawn is sent all the same.
    services = Services(many_answers(), log=log)
    with client_of(services, outbox, clock) as client:
        if what == "report":
            assert isinstance(client.report(services.survey, "answer 2"), Sent)
        else:
            assert client.report_many(services.survey, ["answer 2"] * 50, job="file").finished
        assert client.flush(everything=True).sent == 0
    bodies = [bytes.fromhex(line) for line in log.read_text().split()]
    assert len(bodies) == 1 + (failpoint == "client.sent")
    assert len(set(bodies)) == 1
    assert b"".join(services.messages) == message
    if any(sealed):
        assert bodies[0] == sealed
    assert kept(outbox) == [(None, None)]


def test_another_process_learns_nothing_of_the_answer(tmp_path, clock, device):
    """It may ask again, and gets the same outcome whatever it guesses; nothing tells which."""
    outbox, log = tmp_path / "outbox", tmp_path / "log"
    assert device(outbox, log, "report", "answer 1") == (0, "Sent")
    before = (outbox / FILE).read_bytes()
    services = Services(many_answers())
    with client_of(services, outbox, clock) as client:
        told = {client.report(services.survey, guess) for guess in ("answer 1", "answer 2")}
    assert told == {Sent(survey=str(services.survey.id), occasion=1, again=True)}
    assert services.requests == []
    assert (outbox / FILE).read_bytes() == before
    with sqlite3.connect(outbox / FILE) as database:
        (row,) = database.execute("SELECT * FROM reports").fetchall()
    database.close()
    pairs = (services.analyzer.pair(0), services.shuffler.pair(0))
    keys = ",".join(f"0:{pair.public.fingerprint[:32]}" for pair in pairs)
    place = (services.survey.id.digest, "", 1, 0)
    counts = (1, 1, 0, 1)  # asked, taking part, waiting, delivered
    done = ("done", "delivered", *counts, None, None, keys, 1, 1, NOW, 0, 0, NOW, None)
    assert row == (*place, *done)


def test_a_clock_that_jumps_back_loses_nothing(tmp_path, clock):
    services = Services(make_survey())
    services.lost_requests = 1.0
    with client_of(services, tmp_path, clock, settings=ONCE) as client:
        client.report(services.survey, "red")
        services.lost_requests = 0.0
        clock.advance(-DAY // 2)
        assert client.flush().sent == 0  # not due
        clock.advance(3600)
        assert client.flush().sent == 1  # no wait after a try is longer
