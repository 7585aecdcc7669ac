"""Keys are written in one form; bodies divide into records of one length."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import InvalidArgumentError
from shoal.sealing import KeyPair, MalformedError, PublicKey, records

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


@given(st.lists(st.binary(min_size=4, max_size=4), min_size=1, max_size=6))
def test_records_read_back(listed):
    assert records(b"".join(listed), length=4) == listed


@given(st.binary(max_size=20))
def test_a_body_is_whole_records(body):
    if body and len(body) % 4 == 0:
        assert b"".join(records(body, length=4)) == body
    else:
        with pytest.raises(MalformedError, match="one or more records of 4 bytes"):
            records(body, length=4)
