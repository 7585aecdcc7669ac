"""A survey is named by the one way of writing its configuration."""

from __future__ import annotations

import contextlib
import decimal
import json
import math
import struct
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import InvalidArgumentError
from shoal.sealing import MalformedError, SurveyId, canonical, parsed

numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
plain = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)
configurations = st.dictionaries(st.text(max_size=6), plain, max_size=6)


def test_the_example_of_the_scheme():
    """RFC 8785, section 3.2.2 and following."""
    source = r"""{
        "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals": [null, true, false]
    }"""
    expected = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert canonical(json.loads(source)).decode() == expected


@pytest.mark.parametrize(
    ("bits", "written"),
    [
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("41b3de4355555556", "333333333.3333334"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
    ],
)
def test_numbers_are_written_as_ecmascript_writes_them(bits, written):
    """RFC 8785, appendix B."""
    (value,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical({"x": value}).decode() == f'{{"x":{written}}}'


def test_keys_are_ordered_by_their_utf16_units():
    """RFC 8785, section 3.2.3: the astral sign comes before the sign U+FB33."""
    keys = ["€", "\r", "\ufb33", "1", "😀", "\x80", "ö"]
    ordered = list(json.loads(canonical(dict.fromkeys(keys, 0))))
    assert ordered == ["\r", "1", "\x80", "ö", "€", "😀", "\ufb33"]


@settings(max_examples=50)
@given(configurations)
def test_a_configuration_reads_back(configuration):
    written = canonical(configuration)
    assert parsed(written) == configuration
    assert canonical(parsed(written)) == written
    assert SurveyId.of(configuration).digest == sha256(written).digest()


@settings(max_examples=50)
@given(configurations, st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(configuration, shuffler):
    items = list(configuration.items())
    shuffler.shuffle(items)
    assert SurveyId.of(dict(items)) == SurveyId.of(configuration)


@settings(max_examples=50)
@given(configurations, configurations)
def test_any_change_changes_the_name(first, second):
    def typed(value):  # Python holds 1 and True equal; a configuration must not
        match value:
            case bool():
                return ("truth", value)
            case dict():
                return {key: typed(item) for key, item in value.items()}
            case list():
                return [typed(item) for item in value]
        return value

    assert (SurveyId.of(first) == SurveyId.of(second)) == (typed(first) == typed(second))


def test_equal_numbers_have_equal_names():
    assert SurveyId.of({"epsilon": 1}) == SurveyId.of({"epsilon": 1.0})
    assert SurveyId.of({"answers": ("a", "b")}) == SurveyId.of({"answers": ["a", "b"]})
    assert SurveyId.of({"x": 1}) != SurveyId.of({"x": True}) != SurveyId.of({"x": "1"})
    assert SurveyId.of({"x": 0.1}) != SurveyId.of({"x": math.nextafter(0.1, 1)})


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, 2**53, b"bytes", {1: 2}, {1, 2}, "\ud800", 1j, Ellipsis],
    ids=repr,
)
def test_what_has_no_one_form_is_refused(value):
    with pytest.raises(InvalidArgumentError):
        canonical({"x": value})


def test_nesting_has_an_end():
    nested = []
    for _ in range(100):
        nested = [nested]
    with pytest.raises(InvalidArgumentError, match="levels of nesting"):
        canonical({"x": nested})
    with pytest.raises(InvalidArgumentError, match="mapping"):
        canonical([1])


@pytest.mark.parametrize(
    "data",
    [
        b'{"b":1,"a":2}',
        b'{"a": 1}',
        b'{"a":1.0}',
        b'{"a":1,"a":1}',
        b'{"a":NaN}',
        b'{"a":1}\n',
        b"[1]",
        b"1",
        b"null",
        b"",
        b'"\\ud800"',
        b'{"a":"\xff"}',
        b'{"a":' + b"9" * 5000 + b"}",
        b"[" * 60_000,
        b'{"a":"' + b"x" * 70_000 + b'"}',
    ],
    ids=lambda data: repr(data[:16]),
)
def test_only_the_one_form_is_read(data):
    with pytest.raises(MalformedError):
        parsed(data)


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,0123eE+-. ntrue').map(str.encode))
def test_reading_arbitrary_bytes_raises_nothing_else(data):
    with contextlib.suppress(MalformedError):
        assert canonical(parsed(data)) == data


@given(st.text(max_size=70) | st.text(alphabet="0123456789abcdefABCDEF", min_size=64, max_size=64))
def test_names_read_back_or_are_malformed(text):
    try:
        assert str(SurveyId.from_text(text)) == text
    except MalformedError:
        assert len(text) != 64 or set(text) - set("0123456789abcdef")


def test_a_name_has_32_bytes():
    with pytest.raises(InvalidArgumentError, match="32 bytes"):
        SurveyId(bytes(31))


def test_the_calling_threads_decimals_do_not_matter():
    values = {
        "a": 0.123456789,
        "b": 1.7976931348623157e308,
        "c": -12345.678,
        "d": 1e21,
        "e": 5e-324,
    }
    written = canonical(values)
    for changes in (
        {"prec": 4},
        {"Emax": 5, "Emin": -5},
        {"rounding": decimal.ROUND_UP, "prec": 1},
    ):
        with decimal.localcontext(**changes):
            assert canonical(values) == written
    assert b"0.123456789" in written
    assert b"-12345.678" in written
