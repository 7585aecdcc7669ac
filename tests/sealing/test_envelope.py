"""Envelopes: one size, one purpose, one owner; and the published suite underneath."""

from __future__ import annotations

import hmac
import json
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from shoal.errors import InvalidArgumentError, ShoalError
from shoal.sealing import Envelope, KeyPair, NotOpenableError, SealingError, SurveyId, key_number
from shoal.sealing.envelope import OVERHEAD, pad, unpad

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text(encoding="utf-8"))
SURVEY = SurveyId.of({"name": "colours", "k": 4})
OTHER = SurveyId.of({"name": "colours", "k": 5})
OWNER = KeyPair.from_secret(bytes(range(32)), number=7)
INNER = Envelope(survey=SURVEY, role="inner", capacity=8)


@given(st.binary(max_size=8), st.binary(max_size=40))
def test_what_is_sealed_opens(message, details):
    sealed = INNER.seal(message, OWNER.public, details=details)
    assert len(sealed) == INNER.size == OVERHEAD + 8
    assert key_number(sealed) == 7
    assert INNER.open(sealed, OWNER, details=details) == message


def test_no_two_envelopes_of_a_message_are_alike():
    sealed = {INNER.seal(b"red", OWNER.public)[2:] for _ in range(20)}
    assert len({s[:32] for s in sealed}) == len({s[32:] for s in sealed}) == 20
    assert not any(b"red" in s for s in sealed)


@pytest.mark.parametrize(
    ("kind", "owner", "details"),
    [
        (Envelope(survey=OTHER, role="inner", capacity=8), OWNER, b"1"),
        (Envelope(survey=SURVEY, role="outer", capacity=8), OWNER, b"1"),
        (Envelope(survey=SURVEY, role="inner", capacity=9), OWNER, b"1"),
        (INNER, OWNER, b"2"),
        (INNER, OWNER, b""),
        (INNER, KeyPair.from_secret(bytes(32), number=7), b"1"),
        (INNER, KeyPair.from_secret(bytes(range(32)), number=8), b"1"),
    ],
    ids=["survey", "role", "size", "details", "no details", "key", "key number"],
)
def test_an_envelope_opens_for_its_purpose_only(kind, owner, details):
    sealed = INNER.seal(b"red", OWNER.public, details=b"1")
    with pytest.raises(NotOpenableError) as caught:
        kind.open(sealed, owner, details=details)
    assert str(caught.value) == "not openable"
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_every_flipped_bit_shuts_it():
    sealed = INNER.seal(b"red", OWNER.public)
    for position in range(len(sealed) * 8):
        flipped = bytearray(sealed)
        flipped[position // 8] ^= 1 << position % 8
        with pytest.raises(NotOpenableError):
            INNER.open(bytes(flipped), OWNER)


def test_a_sender_with_a_point_of_small_order_is_not_openable():
    sealed = INNER.seal(b"red", OWNER.public)
    with pytest.raises(NotOpenableError):
        INNER.open(sealed[:2] + bytes(32) + sealed[34:], OWNER)


@given(st.binary(max_size=2 * INNER.size) | st.binary(min_size=INNER.size, max_size=INNER.size))
def test_opening_arbitrary_bytes_raises_nothing_else(data):
    with pytest.raises(NotOpenableError):
        INNER.open(data, OWNER)
    with pytest.raises(NotOpenableError):
        INNER.open(b"\x01\x07" + data[2:], OWNER)


@given(st.binary(max_size=80))
def test_the_key_number_of_arbitrary_bytes(data):
    try:
        assert key_number(data) == data[1]
    except NotOpenableError:
        assert len(data) < OVERHEAD or data[0] != 1


@given(st.binary(max_size=20), st.integers(0, 10))
def test_padding_is_undone(message, room):
    padded = pad(message, len(message) + room)
    assert len(padded) == 3 + len(message) + room
    assert unpad(padded) == message


@given(st.binary(max_size=24) | st.binary(max_size=20).map(lambda rest: b"\x01\x00" + rest))
def test_only_padding_is_unpadded(data):
    """Whoever accepts a second form of a message lets a carrier mark it."""
    try:
        message = unpad(data)
    except SealingError:
        return
    assert pad(message, len(data) - 3) == data


@pytest.mark.parametrize(
    "padded", [b"", b"\x01\x00", b"\x02\x00\x01a", b"\x01\x00\x01ab", b"\x01\x00\x03ab"]
)
def test_padding_has_one_form(padded):
    with pytest.raises(NotOpenableError):
        unpad(padded)


def test_callers_mistakes_are_argument_errors():
    with pytest.raises(InvalidArgumentError, match="at most 8 bytes"):
        INNER.seal(b"123456789", OWNER.public)
    for role in ("", "Inner", "in ner", "inner\x00", "x" * 33):
        with pytest.raises(InvalidArgumentError, match="role"):
            Envelope(survey=SURVEY, role=role, capacity=8)
    for capacity in (-1, 1.5, 1 << 16):
        with pytest.raises(InvalidArgumentError, match="capacity"):
            Envelope(survey=SURVEY, role="inner", capacity=capacity)


def test_sealing_errors_are_of_the_family():
    assert issubclass(SealingError, ShoalError)
    assert issubclass(SealingError, ValueError)


@pytest.mark.parametrize("vector", VECTORS["envelopes"], ids=lambda vector: vector["name"])
def test_envelopes_sealed_long_ago_still_open(vector):
    owner = KeyPair.from_bytes(bytes.fromhex(vector["key_pair"]))
    assert owner.public.to_bytes().hex() == vector["public_key"]
    assert owner.public.fingerprint == vector["fingerprint"]
    survey = SurveyId.of(vector["configuration"])
    assert str(survey) == vector["survey"]
    kind = Envelope(survey=survey, role=vector["role"], capacity=vector["capacity"])
    envelope, details = bytes.fromhex(vector["envelope"]), bytes.fromhex(vector["details"])
    assert kind.open(envelope, owner, details=details).hex() == vector["message"]


class Reference:
    """HPKE in base mode written from RFC 9180, sections 4.1, 5.1 and 5.2, for one suite."""

    KEM_ID = b"KEM\x00\x20"
    HPKE_ID = b"HPKE\x00\x20\x00\x01\x00\x01"

    @staticmethod
    def extract(suite, salt, label, keying):
        data = b"HPKE-v1" + suite + label + keying
        return hmac.digest(salt or bytes(32), data, sha256)

    @staticmethod
    def expand(suite, key, label, info, length):
        data = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
        return hmac.digest(key, data + b"\x01", sha256)[:length]

    @classmethod
    def schedule(cls, shared, enc, public, info):
        extracted = cls.extract(cls.KEM_ID, b"", b"eae_prk", shared)
        secret = cls.expand(cls.KEM_ID, extracted, b"shared_secret", enc + public, 32)
        psk_hash = cls.extract(cls.HPKE_ID, b"", b"psk_id_hash", b"")
        info_hash = cls.extract(cls.HPKE_ID, b"", b"info_hash", info)
        context = b"\x00" + psk_hash + info_hash
        master = cls.extract(cls.HPKE_ID, secret, b"secret", b"")
        key = cls.expand(cls.HPKE_ID, master, b"key", context, 16)
        return key, cls.expand(cls.HPKE_ID, master, b"base_nonce", context, 12)

    @classmethod
    def open(cls, secret, enc, ciphertext, info, aad):
        private = X25519PrivateKey.from_private_bytes(secret)
        shared = private.exchange(X25519PublicKey.from_public_bytes(enc))
        public = private.public_key().public_bytes_raw()
        key, nonce = cls.schedule(shared, enc, public, info)
        return AESGCM(key).decrypt(nonce, ciphertext, aad)

    @classmethod
    def seal(cls, ephemeral, public, plaintext, info, aad):
        private = X25519PrivateKey.from_private_bytes(ephemeral)
        enc = private.public_key().public_bytes_raw()
        shared = private.exchange(X25519PublicKey.from_public_bytes(public))
        key, nonce = cls.schedule(shared, enc, public, info)
        return enc + AESGCM(key).encrypt(nonce, plaintext, aad)


def test_the_reference_reproduces_the_published_vector():
    """RFC 9180, appendix A.1.1, sequence number 0."""
    vector = {name: bytes.fromhex(text) for name, text in VECTORS["rfc9180_a_1_1"].items()}
    sealed = Reference.seal(
        vector["skEm"], vector["pkRm"], vector["pt"], vector["info"], vector["aad"]
    )
    assert sealed == vector["enc"] + vector["ct"]
    opened = Reference.open(
        vector["skRm"], vector["enc"], vector["ct"], vector["info"], vector["aad"]
    )
    assert opened == vector["pt"] == b"Beauty is truth, truth beauty"


def test_the_suite_is_the_published_one():
    """What the package seals, the reference opens, and the other way round."""
    info = b"shoal/1 inner\x00" + SURVEY.digest + b"\x07" + b"round 3"
    sealed = INNER.seal(b"red", OWNER.public, details=b"round 3")
    secret = bytes(range(32))
    padded = b"\x01\x00\x03red" + bytes(5)
    assert Reference.open(secret, sealed[2:34], sealed[34:], info, b"") == padded
    theirs = b"\x01\x07" + Reference.seal(bytes(range(1, 33)), OWNER.public.raw, padded, info, b"")
    assert INNER.open(theirs, OWNER, details=b"round 3") == b"red"
