"""Opening in bulk: what opens, what is counted, and that several processes find the same."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections import Counter
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from repository import environment
from running_kit import wait_for
from shoal import randomness
from shoal.engines.shuffling import shuffle
from shoal.mechanisms.dummies import UniformDummies
from shoal.mechanisms.response import RandomizedResponse
from shoal.sealing import SUITES, Envelope, KeyPair, MalformedError, NotOpenableError, SurveyId
from shoal.service import opening
from shoal.service.analyzer.decode import cells_of
from shoal.service.opening import Pool, ProcessesLostError, tags_of
from shoal.service.wire import Wire

HERE = Pool(0)
SURVEY = SurveyId.of({"name": "colours"})
WIRE = Wire(survey=SURVEY, shapes=((2, 2),), token_bytes=3, suite=SUITES[0])
SHUFFLER = KeyPair.from_secret(bytes(range(32)), number=9)
ANALYZER = KeyPair.from_secret(bytes(range(1, 33)), number=3)
NEXT = KeyPair.from_secret(bytes(range(2, 34)), number=4)
MESSAGES = np.arange(2 * 2 * 60, dtype=np.uint8).reshape(60, 2, 2)
RARE = 1e-7


def sealed(messages, *, wire=WIRE, shuffler=SHUFFLER, analyzer=ANALYZER):
    return [
        wire.seal(
            rows, analyzer=analyzer.public, shuffler=shuffler.public, token=bytes(wire.token_bytes)
        )
        for rows in messages
    ]


REPORTS = sealed(MESSAGES)
BODY = b"".join(REPORTS)


def cut(body, length):
    return [body[start : start + length] for start in range(0, len(body), length)]


@pytest.fixture(scope="module")
def pool():
    with Pool(2) as made:
        yield made


def test_reports_open_to_their_records_whole_and_in_another_order():
    opened = HERE.open_reports(WIRE, SHUFFLER, BODY)
    assert opened.counts == {3: 60}
    assert opened.rejected == 0
    people = cut(opened.by_key[3], WIRE.opened_bytes)
    expected = [WIRE.open_report(report, SHUFFLER)[1] for report in REPORTS]
    assert Counter(people) == Counter(expected)
    assert people != expected  # once in 60! orders


def test_the_order_of_reports_is_uniform(monkeypatch):
    source = randomness.simulated(3)
    monkeypatch.setattr(opening.randomness, "secure", lambda: source)
    rows = np.arange(4, dtype=np.uint8)[:, None]
    seen = Counter(opening._mixed(rows).tobytes() for _ in range(12_000))
    assert len(seen) == 24
    assert stats.chisquare(list(seen.values())).pvalue > RARE


def test_reports_are_kept_apart_by_the_analyzers_key():
    later = sealed(MESSAGES[:7], analyzer=NEXT)
    opened = HERE.open_reports(WIRE, SHUFFLER, b"".join(REPORTS[:5] + later))
    assert opened.counts == {3: 5, 4: 7}
    for pair, people in ((ANALYZER, 5), (NEXT, 7)):
        found = HERE.open_records(WIRE.sections[0], pair, opened.by_key[pair.public.number])
        assert found.opens.all()
        assert Counter(map(bytes, found.messages)) == Counter(
            map(bytes, MESSAGES[:people].reshape(-1, 2))
        )


def forged_reports():
    """One report for each way of being none."""
    inner = [WIRE.sections[0].inner.seal(b"ab", ANALYZER.public) for _ in range(2)]
    foreign = WIRE.sections[0].inner.seal(b"ab", NEXT.public)
    token = bytes(WIRE.token_bytes)
    flipped = bytearray(REPORTS[0])
    flipped[-1] ^= 1
    other = Wire(survey=SurveyId(bytes(32)), shapes=((2, 2),), token_bytes=3, suite=SUITES[0])
    role = Envelope(survey=SURVEY, role="inner", capacity=WIRE.outer.capacity)
    return {
        "noise": bytes(WIRE.report_bytes),
        "flipped": bytes(flipped),
        "key": sealed(MESSAGES[:1], shuffler=KeyPair.from_secret(bytes(32), number=9))[0],
        "key number": sealed(MESSAGES[:1], shuffler=NEXT)[0],
        "survey": sealed(MESSAGES[:1], wire=other)[0],
        "role": role.seal(b"".join(inner) + token, SHUFFLER.public),
        "short": WIRE.outer.seal(b"".join(inner), SHUFFLER.public),
        "several keys": WIRE.outer.seal(inner[0] + foreign + token, SHUFFLER.public),
        "version": WIRE.outer.seal(
            b"".join(b"\x02" + record[1:] for record in inner) + token, SHUFFLER.public
        ),
    }


@pytest.mark.parametrize("kind", sorted(forged_reports()))
def test_a_forged_report_is_counted_and_costs_no_other(kind):
    report = forged_reports()[kind]
    assert len(report) == WIRE.report_bytes
    opened = HERE.open_reports(WIRE, SHUFFLER, REPORTS[0] + report + REPORTS[1])
    assert opened.counts == {3: 2}
    assert opened.rejected == 1
    with pytest.raises(NotOpenableError):
        WIRE.open_report(report, SHUFFLER)
    alone = HERE.open_reports(WIRE, SHUFFLER, report)
    assert (alone.by_key, alone.counts, alone.rejected) == ({}, {}, 1)
    assert opened.unopened == alone.unopened == report


def test_reports_for_keys_that_the_analyzer_never_had_are_rejected():
    later = sealed(MESSAGES[:7], analyzer=NEXT)
    body = b"".join([later[0], *REPORTS[:5], *later[1:]])
    assert HERE.open_reports(WIRE, SHUFFLER, body).unopened == b""
    opened = Pool(0).open_reports(WIRE, SHUFFLER, body, known=[3, 9])
    assert (opened.counts, opened.rejected) == ({3: 5}, 7)
    assert opened.unopened == b"".join(later)


def test_records_open_in_their_order():
    records = [WIRE.sections[0].inner.seal(bytes([i, i]), ANALYZER.public) for i in range(20)]
    short = WIRE.sections[0].inner.seal(b"x", ANALYZER.public)
    foreign = WIRE.sections[0].inner.seal(b"xy", NEXT.public)
    outer = Envelope(survey=SURVEY, role="outer", capacity=2).seal(b"xy", ANALYZER.public)
    bad = [short, foreign, outer, bytes(WIRE.sections[0].record_bytes)]
    found = HERE.open_records(
        WIRE.sections[0], ANALYZER, b"".join([*records[:9], *bad, *records[9:], records[4]])
    )
    assert found.messages[:, 0].tolist() == [*range(20), 4]
    assert found.opens.tolist() == [True] * 9 + [False] * 4 + [True] * 12
    assert found.messages.shape == (21, 2)


def test_tags_are_hashes_of_the_records():
    records = [bytes([i]) * 7 for i in range(20)]
    tags = tags_of(memoryview(b"".join(records)), 7)
    assert tags == [sha256(record).digest()[:16] for record in records]


def test_nothing_openable_is_empty_and_well_shaped():
    found = HERE.open_records(WIRE.sections[0], ANALYZER, bytes(3 * WIRE.sections[0].record_bytes))
    assert found.messages.shape == (0, 2)
    assert found.opens.tolist() == [False] * 3


@pytest.mark.parametrize("body", [b"", b"\x01", bytes(WIRE.report_bytes + 1), BODY[:-1]])
@pytest.mark.parametrize("processes", [0, 2])
def test_a_body_that_does_not_divide_is_refused(body, processes):
    with pytest.raises(MalformedError, match="one or more records of"):
        Pool(processes).open_reports(WIRE, SHUFFLER, body)
    with pytest.raises(MalformedError, match="one or more records of"):
        Pool(processes).open_records(WIRE.sections[0], ANALYZER, body)


@given(
    st.lists(
        st.tuples(st.integers(0, WIRE.sections[0].record_bytes - 1), st.integers(0, 255)),
        min_size=1,
        max_size=8,
    )
)
def test_all_at_once_is_the_same_as_one_by_one(changes):
    body = b""
    for place, change in changes:
        record = bytearray(WIRE.sections[0].inner.seal(b"ab", ANALYZER.public))
        record[place] ^= change
        body += bytes(record)
    for found, record in zip(
        WIRE.sections[0].inner.open_all(body, ANALYZER),
        cut(body, WIRE.sections[0].record_bytes),
        strict=True,
    ):
        try:
            expected = WIRE.sections[0].inner.open(record, ANALYZER)
        except NotOpenableError:
            expected = None
        assert found == expected


def test_all_at_once_takes_details_too():
    body = WIRE.sections[0].inner.seal(b"ab", ANALYZER.public, details=b"1")
    assert WIRE.sections[0].inner.open_all(body, ANALYZER, details=b"1") == [b"ab"]
    assert WIRE.sections[0].inner.open_all(body, ANALYZER) == [None]


@pytest.mark.parametrize("suite", SUITES)
def test_every_suite_opens_and_no_other_one(suite):
    wire = Wire(survey=SURVEY, shapes=((1, 2),), token_bytes=0, suite=suite)
    shuffler, analyzer = (KeyPair.generate(number=n, suite=suite) for n in (1, 2))
    body = b"".join(sealed(MESSAGES[:3, :1], wire=wire, shuffler=shuffler, analyzer=analyzer))
    opened = HERE.open_reports(wire, shuffler, body)
    assert opened.counts == {2: 3}
    assert HERE.open_records(wire.sections[0], analyzer, opened.by_key[2]).opens.all()
    (other,) = set(SUITES) - {suite}
    strange = KeyPair.generate(number=1, suite=other)
    assert HERE.open_reports(wire, strange, body).rejected == 3


def test_what_processes_are_handed_travels():
    for suite in SUITES:
        pair = KeyPair.generate(number=5, suite=suite)
        wire = Wire(survey=SURVEY, shapes=((1, 2),), token_bytes=0, suite=suite)
        record = wire.sections[0].inner.seal(b"ab", pair.public)
        again, other = pickle.loads(pickle.dumps((pair, wire)))  # noqa: S301 - our own bytes
        assert again.public == pair.public
        assert other == wire
        assert other.sections[0].open_record(record, again) == b"ab"


def test_several_processes_find_what_one_finds(pool, monkeypatch):
    monkeypatch.setattr(opening, "CHUNK", 7)
    changed = REPORTS[0][:-1] + bytes([REPORTS[0][-1] ^ 1])
    body = BODY + bytes(WIRE.report_bytes) + changed
    here, there = (HERE.open_reports(WIRE, SHUFFLER, body), pool.open_reports(WIRE, SHUFFLER, body))
    assert (here.counts, here.rejected) == (there.counts, there.rejected) == ({3: 60}, 2)
    length = WIRE.opened_bytes
    assert Counter(cut(here.by_key[3], length)) == Counter(cut(there.by_key[3], length))
    records = here.by_key[3] + bytes(WIRE.sections[0].record_bytes)
    one, two = (
        HERE.open_records(WIRE.sections[0], ANALYZER, records),
        pool.open_records(WIRE.sections[0], ANALYZER, records),
    )
    assert one.messages.tobytes() == two.messages.tobytes()
    assert one.opens.tolist() == two.opens.tolist() == [True] * (len(one.opens) - 1) + [False]


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("reports", [1, 2, 13, 40])
def test_pieces_are_whole_all_there_and_never_too_large(monkeypatch, width, reports):
    monkeypatch.setattr(opening, "CHUNK", 6)
    body = bytes(range(reports))
    pieces = list(opening._pieces(body, 1, width))
    assert b"".join(pieces) == body
    assert all(1 <= len(piece) <= 6 for piece in pieces)
    assert len(pieces) >= min(width, reports)
    assert max(map(len, pieces)) - min(map(len, pieces)) <= 1


def test_no_more_is_taken_than_is_worked_on(pool):
    taken = done = 0

    def pieces():
        nonlocal taken
        for piece in range(40):
            taken += 1
            assert taken - done <= 2 * pool.width + 1
            yield piece

    for result in pool.map(abs, pieces()):
        assert result == done
        done += 1
    assert done == 40


def test_a_process_killed_from_outside_is_replaced(pool):
    assert list(pool.map(abs, [-1])) == [1]
    for child in list(pool._executor._processes):
        os.kill(child, signal.SIGKILL)
    assert list(pool.map(abs, range(-9, 0))) == [*range(9, 0, -1)]


def test_work_that_kills_every_process_is_an_error():
    with Pool(2) as processes, pytest.raises(ProcessesLostError, match="lack of memory"):
        list(processes.map(os._exit, [1]))


ORPHANS = """
import os, sys
from shoal.service.opening import Pool
if __name__ == "__main__":
    processes = Pool(2)
    list(processes.map(abs, range(9)))
    print(*processes._executor._processes, flush=True)
    sys.stdin.read()
"""


def test_processes_end_with_the_one_that_started_them(tmp_path):
    script = tmp_path / "orphans.py"
    script.write_text(ORPHANS, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, str(script)],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        children = [int(child) for child in parent.stdout.readline().split()]
        parent.kill()
    assert children
    try:
        wait_for(lambda: not any(map(running, children)))
    finally:
        for child in filter(running, children):
            os.kill(child, signal.SIGKILL)


def running(process):
    """Whether a process is there and more than a name in a table."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as status:  # noqa: PTH123
            return status.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_counts_of_single_messages():
    device = RandomizedResponse(k=5, epsilon=1.0)
    rows = device.encode(np.array([0, 4, 4, 2]))
    assert cells_of(device, rows).tolist() == [1, 0, 1, 0, 2]


def test_parts_of_several_messages_add_up_to_what_the_envelopes_say():
    device = UniformDummies(k=5, dummies=1.5)
    source = randomness.simulated(4)
    envelopes = device.randomize(np.arange(50) % 5, randomness=source)
    slots = device.encode(envelopes).reshape(-1, device.message_bytes)
    mixed = slots[source.permutation(len(slots))]
    cells = cells_of(device, mixed[:30]) + cells_of(device, mixed[30:])
    assert cells.tolist() == device.tally(shuffle(envelopes)).cells.tolist()
