from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.sealing import SUITES, SurveyId
from shoal.service.http.problems import ProblemError
from shoal.service.shuffler.intake import sorted_upload
from shoal.service.wire import Wire

WIRE = Wire(survey=SurveyId(bytes(range(32))), shapes=((1, 4),), token_bytes=0, suite=SUITES[0])
SIZE = WIRE.report_bytes
ACCEPTED = {0, 7, 200}


def body_of(heads):
    """A report for each (version, key number), told apart by its last bytes."""
    table = np.zeros((len(heads), SIZE), dtype=np.uint8)
    table[:, :2] = heads
    table[:, -2:] = [divmod(index, 256) for index in range(len(heads))]
    return table.tobytes()


def sort(body, most=10_000):
    return sorted_upload(body, wire=WIRE, accepts=ACCEPTED.__contains__, most=most)


heads = st.tuples(st.sampled_from([1, 1, 1, 0, 2]), st.sampled_from([0, 7, 200, 3, 255]))


@given(st.lists(heads, min_size=1, max_size=60))
def test_every_report_is_kept_once_under_its_key_or_refused_with_its_place(given_heads):
    body = body_of(given_heads)
    reports = [body[start : start + SIZE] for start in range(0, len(body), SIZE)]
    upload = sort(body)
    expected = {}
    refused = []
    for index, (version, key) in enumerate(given_heads):
        if version != 1:
            refused.append({"index": index, "reason": "unknown_version"})
        elif key not in ACCEPTED:
            refused.append({"index": index, "reason": "unknown_key"})
        else:
            expected.setdefault(key, []).append(reports[index])
    assert {item.key: item.reports for item in upload.arrivals} == {
        key: b"".join(found) for key, found in expected.items()
    }
    assert all(item.survey == WIRE.survey for item in upload.arrivals)
    document = upload.document()
    assert document["reports"] == len(given_heads)
    assert sorted(document["refused"], key=lambda item: item["index"]) == refused


def test_the_usual_body_is_not_copied():
    body = body_of([(1, 7)] * 50)
    (arrival,) = sort(body).arrivals
    assert arrival.reports is body


def test_accepts_is_asked_once_for_each_key_however_many_reports():
    asked = []
    sorted_upload(
        body_of([(1, number % 5) for number in range(3000)]),
        wire=WIRE,
        accepts=lambda number: bool(asked.append(number)) or True,
        most=10_000,
    )
    assert asked == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("length", [0, 1, SIZE - 1, SIZE + 1, 10 * SIZE - 1])
def test_broken_lengths_say_what_the_length_is(length):
    with pytest.raises(ProblemError) as caught:
        sort(bytes(length))
    assert caught.value.problem.status == 400
    assert caught.value.problem.extra == {"report_bytes": SIZE}
    assert str(SIZE) in caught.value.problem.detail


def test_too_many_reports():
    sort(body_of([(1, 0)] * 20), most=20)
    with pytest.raises(ProblemError) as caught:
        sort(body_of([(1, 0)] * 21), most=20)
    assert caught.value.problem.status == 413
    assert caught.value.problem.extra == {"limit": 20}
