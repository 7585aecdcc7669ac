"""Keys are written in one form; streams and bodies divide into pieces of checked length."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import InvalidArgumentError
from shoal.sealing import (
    Deframer,
    FramingError,
    KeyPair,
    MalformedError,
    PublicKey,
    framed,
    joined,
    records,
)

# The points of small order on Curve25519 and its twist, and unreduced forms of them
# (Bernstein, "Curve25519: new Diffie-Hellman speed records", PKC 2006; RFC 7748, section 6.1).
SMALL_ORDER = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
]


def test_pairs_and_public_keys_read_back():
    pair = KeyPair.generate(number=200)
    again = KeyPair.from_bytes(pair.to_bytes())
    assert again == pair
    assert again.to_bytes() == pair.to_bytes()
    assert PublicKey.from_bytes(pair.public.to_bytes()) == pair.public
    assert len(pair.to_bytes()) == len(pair.public.to_bytes()) == 35


def test_fresh_pairs_differ():
    assert len({KeyPair.generate().public.fingerprint for _ in range(10)}) == 10


def test_a_secret_does_not_show():
    pair = KeyPair.from_secret(bytes(range(32)))
    assert bytes(range(32)).hex() not in repr(pair)
    assert "X25519PrivateKey" not in repr(pair)


def test_the_fingerprint_names_the_key_and_not_its_number():
    raw = KeyPair.generate().public.raw
    assert PublicKey(raw, 1).fingerprint == PublicKey(raw, 2).fingerprint
    assert PublicKey(raw, 1) != PublicKey(raw, 2)


@pytest.mark.parametrize("raw", SMALL_ORDER)
def test_keys_that_seal_for_everybody_are_refused(raw):
    with pytest.raises(InvalidArgumentError, match="large order"):
        PublicKey(bytes.fromhex(raw))
    with pytest.raises(MalformedError, match="large order"):
        PublicKey.from_bytes(b"\x01\x00\x00" + bytes.fromhex(raw))


def test_wrong_keys_are_argument_errors():
    for raw in (b"", bytes(31), bytes(33)):
        with pytest.raises(InvalidArgumentError, match="32 bytes"):
            PublicKey(raw)
        with pytest.raises(InvalidArgumentError, match="32 bytes"):
            KeyPair.from_secret(raw)
    for number in (-1, 256, True, 1.5):
        with pytest.raises(InvalidArgumentError, match="number"):
            KeyPair.generate(number=number)


@given(st.binary(max_size=40) | st.binary(min_size=33, max_size=33).map(lambda b: b"\x01\x00" + b))
def test_reading_arbitrary_keys_raises_nothing_else(data):
    for kind, mark in ((PublicKey, 0), (KeyPair, 1)):
        with contextlib.suppress(MalformedError):
            assert kind.from_bytes(data).to_bytes() == data
            assert data[1] == mark


@given(st.lists(st.sampled_from([b"", b"abc", b"defgh"]), max_size=8), st.data())
def test_a_stream_may_come_in_any_pieces(payloads, data):
    stream = b"".join(framed(payload) for payload in payloads)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    deframer = Deframer({0, 3, 5})
    pieces = zip([0, *cuts], [*cuts, len(stream)], strict=True)
    got = [payload for a, b in pieces for payload in deframer.feed(stream[a:b])]
    assert got == payloads


@given(st.lists(st.binary(max_size=12), max_size=10))
def test_arbitrary_streams_raise_nothing_else(pieces):
    deframer = Deframer({2})
    with contextlib.suppress(FramingError):
        for piece in pieces:
            assert all(len(payload) == 2 for payload in deframer.feed(piece))


def test_a_length_is_refused_before_its_bytes_arrive():
    deframer = Deframer({3})
    with pytest.raises(FramingError, match="frame of 3 bytes, got 4294967295"):
        deframer.feed(b"\xff\xff\xff\xff")
    with pytest.raises(FramingError):
        deframer.feed(b"")


def test_frames_have_a_largest_size():
    with pytest.raises(InvalidArgumentError, match="at most"):
        framed(bytes((1 << 24) + 1))


@given(st.lists(st.binary(min_size=4, max_size=4), min_size=1, max_size=6))
def test_records_read_back(listed):
    assert records(joined(listed, length=4), length=4) == listed


@given(st.binary(max_size=20))
def test_a_body_is_whole_records(body):
    if body and len(body) % 4 == 0:
        assert b"".join(records(body, length=4)) == body
    else:
        with pytest.raises(FramingError, match="one or more records of 4 bytes"):
            records(body, length=4)


def test_records_of_another_length_are_an_argument_error():
    with pytest.raises(InvalidArgumentError, match="records of 4 bytes"):
        joined([b"1234", b"12345"], length=4)
