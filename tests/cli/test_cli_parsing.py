"""Numbers, typed and shown."""

from __future__ import annotations

import contextlib
import math

import pytest
import typer
from hypothesis import example, given
from hypothesis import strategies as st

from shoal.cli import options
from shoal.explain import text as numbers

POSITIVE = st.floats(min_value=1e-300, max_value=1e300)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e5", 100_000),
        ("100_000", 100_000),
        ("2.5e3", 2500),
        ("-5", -5),
        ("1.0", 1),
        ("1e15", 10**15),
    ],
)
def test_whole_numbers(text, value):
    parsed = options.read_int(text)
    assert parsed == value
    assert type(parsed) is int


def test_whole_numbers_beyond_floats_are_exact():
    assert options.read_int("9007199254740993") == 2**53 + 1


@given(st.text(max_size=12), st.sampled_from([options.read_int, options.read_number]))
@example("sNaN", options.read_int)
@example("-Infinity", options.read_int)
def test_any_text_is_a_number_or_refused(text, parse):
    with contextlib.suppress(typer.BadParameter):
        assert math.isfinite(parse(text))


@pytest.mark.parametrize("parse", [options.read_int, options.read_number])
def test_a_refusal_repeats_what_was_typed(parse):
    with pytest.raises(typer.BadParameter, match=r"such as .* got '1e5\.5'"):
        parse("1e5.5")


@given(POSITIVE)
@example(0.11815406504003383)
@example(9.9999999)
def test_bounds_are_shown_rounded_outwards(value):
    upper, lower = float(numbers.up(value)), float(numbers.down(value))
    assert value * (1 - 2e-4) <= lower <= value <= upper <= value * (1 + 2e-4)


@given(st.floats(min_value=1e-9, max_value=1e6), st.integers(min_value=0, max_value=12))
def test_columns_are_rounded_outwards(value, decimals):
    upper, lower = numbers.up_to(value, decimals), numbers.down_to(value, decimals)
    assert float(lower) <= value <= float(upper)
    assert len(upper.partition(".")[2]) == decimals


@given(POSITIVE)
def test_given_numbers_are_shown_as_they_are(value):
    assert float(numbers.plain(value)) == pytest.approx(value, rel=1e-11)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1e-6, "1e-6"), (1e20, "1e20"), (0.0, "0"), (4.0, "4"), (0.5, "0.5"), (1e-10, "1e-10")],
)
def test_numbers_are_short(value, shown):
    assert numbers.plain(value) == numbers.up(value) == numbers.down(value) == shown


@pytest.mark.parametrize(
    ("text", "value"), [("0,100", (0, 100)), ("-1.5, 2e3", (-1.5, 2000)), (" 0 ,1", (0, 1))]
)
def test_bounds(text, value):
    assert options.Bounds.read(text) == value


@pytest.mark.parametrize("text", ["", "1", "1,2,3", "2,1", "1,1", "a,b", "0,inf", "nan,1", ","])
def test_what_is_no_pair_of_bounds_is_refused(text):
    with pytest.raises(typer.BadParameter):
        options.Bounds.read(text)
