"""Reports on the wire: one length, two layers, bound to their survey, opened by their owners."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factories import NAMES, early, example, mechanism
from shoal.errors import InvalidArgumentError
from shoal.randomness import simulated
from shoal.sealing import SUITES, KeyPair, NotOpenableError, SurveyId
from shoal.service.keyring.key_list import KeyList
from shoal.service.survey import Survey
from shoal.service.wire import Wire

HERE = Path(__file__).parent
REPORTS = json.loads((HERE / "vectors" / "reports_v1.json").read_text())["cases"]
LISTS = json.loads((HERE / "vectors" / "keys_v1.json").read_text())["lists"]
FROZEN = HERE / "frozen" / "v1_client.py"


def keys(suite=SUITES[0]):
    return (KeyPair.generate(number=number, suite=suite) for number in (1, 2))


def slots(survey, value=1, seed=3):
    sent = survey.device.randomize([value], randomness=simulated(seed))
    return survey.device.encode(sent).reshape(survey.device.slots, survey.device.message_bytes)


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("name", ["grr", "unary", "duchi", "dummies", "split-and-mix"])
def test_what_is_sealed_opens_layer_by_layer(name, suite):
    survey = example(mechanism(name), suite=suite, token_bytes=7)
    wire = Wire.of(survey)
    shuffler, analyzer = keys(suite)
    messages = slots(survey)
    report = wire.seal(
        messages, analyzer=analyzer.public, shuffler=shuffler.public, token=b"7 bytes"
    )
    assert len(report) == wire.report_bytes
    number, sealed = wire.open_report(report, shuffler)
    assert number == 2
    assert len(sealed) == wire.opened_bytes
    assert b"7 bytes" not in sealed  # the token stays with the shuffler
    records = wire.sections[0].split(sealed)
    assert [len(record) for record in records] == [
        wire.sections[0].record_bytes
    ] * survey.device.slots
    found = [wire.sections[0].open_record(record, analyzer) for record in records]
    assert found == [row.tobytes() for row in messages]


@pytest.mark.parametrize("name", NAMES)
def test_everybodys_report_has_one_length(name):
    survey = example(mechanism(name))
    wire = Wire.of(survey)
    shuffler, analyzer = keys()
    seen = set()
    for value in (0, 1):
        for seed in range(3 if survey.device.slots < 50 else 1):
            messages = slots(survey, value, seed)
            sealed = wire.seal(messages, analyzer=analyzer.public, shuffler=shuffler.public)
            seen.add(len(sealed))
    assert seen == {wire.report_bytes}


def test_two_reports_of_the_same_message_share_nothing_but_their_header():
    wire = Wire.of(example())
    shuffler, analyzer = keys()
    first, second = (
        wire.seal(np.zeros((1, 1), np.uint8), analyzer=analyzer.public, shuffler=shuffler.public)
        for _ in range(2)
    )
    assert first[:2] == second[:2] == bytes([1, 1])
    assert sum(a == b for a, b in zip(first[2:], second[2:], strict=True)) < 10
    records = [wire.open_report(report, shuffler)[1] for report in (first, second)]
    assert records[0] != records[1]


def reported(survey, shuffler, analyzer, **changes):
    wire = Wire.of(survey)
    return wire.seal(slots(survey), analyzer=analyzer.public, shuffler=shuffler.public, **changes)


def test_nothing_opens_with_another_key_survey_or_role():
    survey, other = example(), example(name="another")
    wire, shuffler, analyzer = Wire.of(survey), *keys()
    report = reported(survey, shuffler, analyzer)
    _, record = wire.open_report(report, shuffler)
    renumbered = KeyPair.from_secret(shuffler.raw, number=9)
    for pair in (analyzer, KeyPair.generate(number=1), renumbered):
        with pytest.raises(NotOpenableError):
            wire.open_report(report, pair)
    with pytest.raises(NotOpenableError):
        Wire.of(other).open_report(report, shuffler)
    with pytest.raises(NotOpenableError):
        Wire.of(other).sections[0].open_record(record, analyzer)
    with pytest.raises(NotOpenableError):
        wire.sections[0].open_record(record, shuffler)
    # The right key and the wrong layer.
    same = KeyPair.from_secret(analyzer.raw, number=2)
    with pytest.raises(NotOpenableError):
        wire.outer.open(record, same)
    assert wire.sections[0].open_record(record, same)


def test_slots_come_back_in_the_order_they_were_sealed_in():
    survey = example(mechanism("split-and-mix"))
    wire, shuffler, analyzer = Wire.of(survey), *keys()
    messages = slots(survey)
    report = wire.seal(messages[::-1], analyzer=analyzer.public, shuffler=shuffler.public)
    _, sealed = wire.open_report(report, shuffler)
    found = [
        wire.sections[0].open_record(record, analyzer) for record in wire.sections[0].split(sealed)
    ]
    assert found == [row.tobytes() for row in messages[::-1]]
    assert found != [row.tobytes() for row in messages]


def test_slots_for_several_keys_of_the_analyzer_are_refused():
    survey = example(mechanism("dummies"))
    wire, shuffler, analyzer = Wire.of(survey), *keys()
    second = KeyPair.generate(number=3)
    records = [
        wire.sections[0].inner.seal(row.tobytes(), (analyzer, second)[place % 2].public)
        for place, row in enumerate(slots(survey))
    ]
    mixed = wire.outer.seal(b"".join(records), shuffler.public)
    assert len(mixed) == wire.report_bytes
    with pytest.raises(NotOpenableError):
        wire.open_report(mixed, shuffler)


def test_a_report_that_is_not_full_or_of_another_version_is_refused():
    wire, shuffler, analyzer = Wire.of(example()), *keys()
    record = wire.sections[0].inner.seal(b"\x00", analyzer.public)
    for inside in (b"", record[:-1], b"\x02" + record[1:]):
        with pytest.raises(NotOpenableError):
            wire.open_report(wire.outer.seal(inside, shuffler.public), shuffler)
    with pytest.raises(NotOpenableError):
        wire.sections[0].open_record(wire.sections[0].inner.seal(b"", analyzer.public), analyzer)


def test_arguments_of_the_wrong_size_are_told():
    survey = example(token_bytes=4)
    wire, shuffler, analyzer = Wire.of(survey), *keys()
    ours = {"analyzer": analyzer.public, "shuffler": shuffler.public}
    with pytest.raises(InvalidArgumentError, match="1 rows of 1 bytes"):
        wire.seal(np.zeros((2, 1), np.uint8), token=b"1234", **ours)
    with pytest.raises(InvalidArgumentError, match="4 bytes"):
        wire.seal(np.zeros((1, 1), np.uint8), **ours)
    hybrid = KeyPair.generate(suite=SUITES[1])
    with pytest.raises(InvalidArgumentError, match="a key for x25519"):
        wire.seal(np.zeros((1, 1), np.uint8), token=b"1234", **ours | {"analyzer": hybrid.public})
    with pytest.raises(InvalidArgumentError, match="65535"):
        Wire(survey=SurveyId(bytes(32)), shapes=((2000, 1),), token_bytes=0, suite=SUITES[0])


@settings(deadline=None, derandomize=True, max_examples=100)
@given(place=st.integers(0, 106), flip=st.integers(1, 255))
def test_every_changed_byte_is_noticed(place, flip):
    case = REPORTS[0]
    wire, shuffler, _ = opened_by(case)
    report = bytearray.fromhex(case["reports"][0])
    report[place] ^= flip
    with pytest.raises(NotOpenableError):
        wire.open_report(bytes(report), shuffler)


def opened_by(case):
    """The wire of a recorded case, and both pairs."""
    survey = Survey.from_bytes(case["survey"].encode())
    pairs = (
        KeyPair.from_secret(bytes.fromhex(case[role]["secret"]), number=case[role]["number"])
        for role in ("shuffler", "analyzer")
    )
    return Wire.of(survey), *pairs


def opens(case, report, messages):
    wire, shuffler, analyzer = opened_by(case)
    number, sealed = wire.open_report(report, shuffler)
    assert number == case["analyzer"]["number"]
    assert [
        wire.sections[0].open_record(record, analyzer).hex()
        for record in wire.sections[0].split(sealed)
    ] == messages


@pytest.mark.parametrize("case", REPORTS, ids=lambda case: case["name"])
def test_recorded_reports_open(case):
    survey = Survey.from_bytes(case["survey"].encode())
    wire, shuffler, analyzer = opened_by(case)
    assert str(survey.id) == case["id"] == sha256(case["survey"].encode()).hexdigest()
    assert (wire.sections[0].record_bytes, wire.report_bytes) == (
        case["record_bytes"],
        case["report_bytes"],
    )
    assert shuffler.public.raw.hex() == case["shuffler"]["public"]
    assert analyzer.public.raw.hex() == case["analyzer"]["public"]
    for report, messages in zip(case["reports"], case["messages"], strict=True):
        assert len(report) == 2 * case["report_bytes"]
        opens(case, bytes.fromhex(report), messages)


def test_a_survey_is_written_as_it_was_recorded():
    """Whatever changes these bytes gives every survey a new name, and orphans what is under way."""
    assert early(example()).to_bytes().decode() == REPORTS[0]["survey"]
    assert str(example().id) == "1dd056dbaef56db448652663484cffe80407e2d98fbe69de41fbaf78690b7293"


@pytest.mark.parametrize("case", REPORTS, ids=lambda case: case["name"])
def test_the_frozen_client_is_still_understood(case):
    asked = {name: case[name] for name in ("survey", "shuffler", "analyzer", "token")}
    for role in ("shuffler", "analyzer"):
        asked[role] = {name: case[role][name] for name in ("public", "number")}
    finished = subprocess.run(
        [sys.executable, "-I", str(FROZEN)],
        input=json.dumps(asked | {"messages": case["messages"][0]}),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    opens(case, bytes.fromhex(finished.stdout), case["messages"][0])


def test_the_frozen_client_knows_nothing_of_shoal():
    source = FROZEN.read_text(encoding="utf-8")
    assert "import shoal" not in source
    assert "from shoal" not in source


@pytest.mark.parametrize("recorded", LISTS, ids=lambda recorded: recorded["role"])
def test_recorded_lists_of_keys_verify(recorded):
    found = KeyList.verified(
        recorded["document"].encode(), fingerprint=recorded["fingerprint"], now=recorded["now"]
    )
    assert found.role == recorded["role"]
    for suite, public in recorded["current"].items():
        assert found.current(suite, recorded["now"]).raw.hex() == public
