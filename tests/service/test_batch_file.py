"""A batch file is read exactly as it was written, or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.sealing import MalformedError, SurveyId, canonical
from shoal.service.batch_file import MAGIC, BatchFile, BatchHeader

HEADER = BatchHeader(
    survey=SurveyId(bytes(range(32))),
    batch="0123456789abcdef" * 2,
    key=7,
    reports=3,
    sections=((6, 5),),
)
BODY = bytes(range(30))
WHOLE = HEADER.to_bytes() + BODY


def test_its_bytes_are_these():
    written = (
        b'{"batch":"0123456789abcdef0123456789abcdef","key":7,"record_bytes":5,"records":6,'
        b'"reports":3,"survey":"' + bytes(range(32)).hex().encode() + b'"}'
    )
    assert HEADER.to_bytes() == b"shoal/1 batch\n" + len(written).to_bytes(4, "big") + written


SEVERAL = replace(HEADER, sections=((6, 5), (3, 2)))


def test_sections_of_several_questions_lie_one_after_the_other():
    body = bytes(range(36))
    written = SEVERAL.to_bytes()
    assert b'"sections":[{"record_bytes":5,"records":6},{"record_bytes":2,"records":3}]' in written
    found = BatchFile.read(written + body)
    assert found.header == SEVERAL
    assert SEVERAL.records == 9
    assert [bytes(section) for section in found.sections] == [body[:30], body[30:]]
    for wrong in (body[:-1], body + b"?"):
        with pytest.raises(MalformedError):
            BatchFile.read(written + wrong)


def test_it_is_read_from_bytes_and_files(tmp_path):
    path = tmp_path / "batch"
    path.write_bytes(WHOLE)
    for source in (WHOLE, path):
        found = BatchFile.read(source)
        assert found.header == HEADER
        assert bytes(found.body) == BODY


@pytest.mark.parametrize(
    "change",
    [
        {"batch": "0123"},
        {"batch": "0123456789ABCDEF" * 2},
        {"key": -1},
        {"key": 256},
        {"key": True},
        {"reports": 0},
        {"sections": ((0, 5),)},
        {"sections": ((2, 5),)},
        {"sections": ((6, 0),)},
        {"sections": ((6, 10**16),)},
        {"sections": ((6.0, 5),)},
        {"sections": ((6, 5), (2, 5))},
        {"sections": ((6, 5), (3, True))},
    ],
)
def test_headers_that_say_nothing_possible_are_refused(change):
    with pytest.raises(MalformedError):
        replace(HEADER, **change)


def written(header):
    data = canonical(header)
    return MAGIC + len(data).to_bytes(4, "big") + data


PLAIN = {
    "survey": str(HEADER.survey),
    "batch": HEADER.batch,
    "key": 7,
    "reports": 3,
    "records": 6,
    "record_bytes": 5,
}


BARE = {name: PLAIN[name] for name in ("survey", "batch", "key", "reports")}


@pytest.mark.parametrize(
    "header",
    [
        {**PLAIN, "more": 1},
        {name: value for name, value in PLAIN.items() if name != "key"},
        {**PLAIN, "survey": 1},
        {**PLAIN, "survey": "00"},
        {**PLAIN, "batch": None},
        {**PLAIN, "reports": "3"},
        {**PLAIN, "reports": True},
        {**PLAIN, "records": 5.5},
        {**PLAIN, "sections": [{"records": 6, "record_bytes": 5}]},
        {**BARE, "sections": []},
        {**BARE, "sections": [{"records": 6, "record_bytes": 5}]},
        {**BARE, "sections": {"records": 6, "record_bytes": 5}},
        {**BARE, "sections": [{"records": 3, "record_bytes": 5}, {"records": 3}]},
        {**BARE, "sections": [{"records": 3, "record_bytes": 5}, 3]},
        {**BARE, "sections": [{"records": 3, "record_bytes": 5, "more": 1}] * 2},
        {**BARE, "sections": [{"records": 3, "record_bytes": "5"}] * 2},
        BARE,
    ],
)
def test_headers_have_these_fields_and_kinds(header):
    with pytest.raises(MalformedError):
        BatchFile.read(written(header) + BODY)
    assert BatchFile.read(written(PLAIN) + BODY).header == HEADER


def test_an_announced_length_is_not_believed():
    for length in (4097, (1 << 32) - 1, len(HEADER.to_bytes())):
        with pytest.raises(MalformedError):
            BatchFile.read(MAGIC + length.to_bytes(4, "big") + WHOLE[len(MAGIC) + 4 :])


def test_an_empty_file_is_no_batch(tmp_path):
    path = tmp_path / "batch"
    path.touch()
    with pytest.raises(MalformedError):
        BatchFile.read(path)


@settings(max_examples=400)
@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_read_as_what_it_is(position, change):
    data = bytearray(WHOLE)
    data[position] ^= change
    try:
        found = BatchFile.read(bytes(data))
    except MalformedError:
        return
    assert found.header.to_bytes() + bytes(found.body) == bytes(data)


@given(st.integers(0, len(WHOLE) - 1), st.binary(max_size=8))
def test_a_file_cut_short_or_longer_is_refused(length, more):
    with pytest.raises(MalformedError):
        BatchFile.read(WHOLE[:length])
    if more:
        with pytest.raises(MalformedError):
            BatchFile.read(WHOLE + more)


@given(st.binary(max_size=300))
def test_any_bytes_after_the_magic_are_refused(data):
    with pytest.raises(MalformedError):
        BatchFile.read(MAGIC + data)
