"""The signed list: who may say which keys are whose, and what is never believed."""

from __future__ import annotations

import contextlib
import json
from functools import cache

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.sealing import SUITES, KeyPair, MalformedError, canonical
from shoal.service.keyring import KeyInfo, KeyList, KeyListError, KeyState
from shoal.service.keyring.key_list import FUTURE_TOLERANCE, MOST_KEYS, Identity, fingerprint

NOW = 1_800_000_000
DAY = 86_400
QUICK = settings(deadline=None, derandomize=True, max_examples=80)


@cache
def identity():
    return Identity("shuffler", bytes(range(32)))


@cache
def pair(number, suite=SUITES[0]):
    return KeyPair.generate(number=number, suite=suite)


def info(number, *, begins=NOW, ends=NOW + 30 * DAY, suite=SUITES[0]):
    return KeyInfo(
        number=number,
        suite=suite,
        public=pair(number, suite).public,
        state=KeyState.PENDING,
        created=begins - 60,
        active_from=begins,
        expires_at=ends,
        deletes_at=ends + 14 * DAY,
    )


def signature(content, kind=b"shoal/1 keys\x00"):
    secret = Ed25519PrivateKey.from_private_bytes(identity().raw)
    return secret.sign(kind + canonical(content)).hex()


def signed(*keys, by=None, issued=NOW, until=NOW + 14 * DAY):
    keys = keys or (info(0),)
    return KeyList.signed(by or identity(), keys, issued=issued, valid_until=until).to_bytes()


def verified(data, *, now=NOW, role="shuffler", of=None):
    return KeyList.verified(
        data, fingerprint=of or fingerprint("shuffler", identity().public), now=now, role=role
    )


def resigned(change):
    """A list with a change that its owner signed."""
    document = json.loads(signed(info(3), info(7)))
    change(document["list"])
    document["signature"] = signature(document["list"])
    return canonical(document)


def test_what_was_signed_is_what_is_read():
    found = verified(signed(info(1), info(2, begins=NOW + 60)))
    assert [key.number for key in found.keys] == [1, 2]
    assert [key.state for key in found.keys] == [KeyState.ACTIVE, KeyState.PENDING]
    assert found.keys[0].public == info(1).public
    assert found.to_bytes() == signed(info(1), info(2, begins=NOW + 60))


def test_the_largest_list_fits():
    data = signed(*(info(number, suite=SUITES[1]) for number in range(MOST_KEYS)))
    assert len(verified(data).keys) == MOST_KEYS


def test_states_follow_the_readers_clock():
    data = signed(info(0, begins=NOW, ends=NOW + 10 * DAY), until=NOW + 100 * DAY)
    for now, state in [
        (NOW - 1, KeyState.PENDING),
        (NOW, KeyState.ACTIVE),
        (NOW + 10 * DAY, KeyState.EXPIRED),
        (NOW + 24 * DAY, KeyState.DELETED),
    ]:
        assert verified(data, now=now).keys[0].state is state


@given(place=st.integers(0, 10**6), bit=st.integers(0, 7))
@QUICK
def test_no_bit_can_be_flipped(place, bit):
    data = bytearray(signed(info(0), info(1)))
    data[place % len(data)] ^= 1 << bit
    with pytest.raises((MalformedError, KeyListError)):
        verified(bytes(data))


def test_nobody_else_signs():
    other = Identity("shuffler", bytes(32))
    with pytest.raises(KeyListError, match="somebody else"):
        verified(signed(by=other))
    document = json.loads(signed(by=other))
    document["identity"] = identity().public.hex()
    with pytest.raises(KeyListError, match="signature is wrong"):
        verified(canonical(document))


def test_a_list_is_for_one_role_even_if_one_key_signs_both():
    both = Identity("analyzer", identity().raw)
    assert both.public == identity().public
    with pytest.raises(KeyListError, match=r"\(analyzer\), not to"):
        verified(signed(by=both))
    theirs = fingerprint("analyzer", both.public)
    assert verified(signed(by=both), of=theirs, role=None).role == "analyzer"
    with pytest.raises(KeyListError, match="not of the shuffler"):
        verified(signed(by=both), of=theirs)


def test_a_signature_of_another_kind_of_document_is_none():
    document = json.loads(signed())
    document["signature"] = signature(document["list"], kind=b"")
    with pytest.raises(KeyListError, match="signature"):
        verified(canonical(document))


def test_a_list_has_its_time():
    data = signed(until=NOW + DAY)
    assert verified(data, now=NOW + DAY)
    with pytest.raises(KeyListError, match="fetch it again"):
        verified(data, now=NOW + DAY + 1)
    assert verified(data, now=NOW - FUTURE_TOLERANCE)
    with pytest.raises(KeyListError, match="clock"):
        verified(data, now=NOW - FUTURE_TOLERANCE - 1)


def test_the_newest_key_in_use_is_the_one_to_seal_with():
    found = verified(
        signed(
            info(0, ends=NOW + 10),
            info(1, begins=NOW + 5, ends=NOW + 20),
            info(2, begins=NOW + 15),
            info(9, suite=SUITES[1]),
        )
    )
    used = [found.current(SUITES[0], NOW + later).number for later in (0, 4, 5, 12, 15, 19, 25)]
    assert used == [0, 0, 1, 1, 2, 2, 2]
    assert found.current(SUITES[1], NOW).number == 9


def test_without_a_key_in_use_it_says_what_to_do():
    found = verified(signed(info(0, begins=NOW + 60)))
    with pytest.raises(KeyListError, match=r"none of its 1 keys .* fetch it again"):
        found.current(SUITES[0], NOW)
    with pytest.raises(KeyListError, match="it has no key for mlkem"):
        found.current(SUITES[1], NOW)
    with pytest.raises(ValueError, match="one of x25519"):
        found.current("rot13", NOW)


CHANGES = {
    "another version": lambda found: found.update(version=2),
    "a version that is no number": lambda found: found.update(version=True),
    "another kind": lambda found: found.update(kind="survey"),
    "another role": lambda found: found.update(role="collector"),
    "a role that is a list": lambda found: found.update(role=["shuffler"]),
    "more": lambda found: found.update(more=1),
    "less": lambda found: found.pop("issued"),
    "no keys": lambda found: found.update(keys=[]),
    "keys that are no list": lambda found: found.update(keys={"0": 1}),
    "too many keys": lambda found: found.update(keys=found["keys"] * 9),
    "the same key twice": lambda found: found.update(keys=found["keys"][:1] * 2),
    "the wrong order": lambda found: found["keys"].reverse(),
    "a key that is none": lambda found: found.update(keys=[7]),
    "over before it begins": lambda found: found.update(valid_until=found["issued"]),
    "a time that is no number": lambda found: found.update(issued="now"),
    "a time that is true": lambda found: found.update(issued=True),
    "half a second": lambda found: found.update(issued=NOW + 0.5),
    "a number below zero": lambda found: found["keys"][0].update(number=-1),
    "a number above 255": lambda found: found["keys"][1].update(number=256),
    "times out of order": lambda found: found["keys"][0].update(expires_at=1),
    "the other suite": lambda found: found["keys"][0].update(suite=SUITES[1]),
    "a key cut short": lambda found: found["keys"][0].update(public="00"),
    "a key of small order": lambda found: found["keys"][0].update(public="00" * 32),
    "a key in capitals": lambda found: found["keys"][0].update(
        public=found["keys"][0]["public"].upper() + ""
    ),
    "a key with spaces": lambda found: found["keys"][0].update(public=" " + "09" * 32),
    "a key that is a number": lambda found: found["keys"][0].update(public=9),
    "a key with a name": lambda found: found["keys"][0].update(name="x"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_even_its_owner_cannot_sign_nonsense(change):
    with pytest.raises(MalformedError):
        verified(resigned(change))


def test_size_is_limited_before_anything_is_read():
    with pytest.raises(MalformedError):
        verified(b"[" * 10**6)
    with pytest.raises(MalformedError):
        verified(signed() + b" ")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
NAMES = st.sampled_from(["list", "identity", "signature", "keys", "role", "version", "number"])


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
@QUICK
def test_noise_is_refused_in_one_way(data):
    with pytest.raises((MalformedError, KeyListError)):
        verified(data)


@given(st.data())
@QUICK
def test_any_part_replaced_by_anything_is_refused_or_read(data):
    """Whatever stands where, only the two errors come out, even if the owner signed it."""
    document = json.loads(signed(info(3), info(7)))
    place = document
    while True:
        key = data.draw(st.sampled_from(sorted(place)) if isinstance(place, dict) else st.just(0))
        inner = place[key]
        if not isinstance(inner, dict | list) or data.draw(st.booleans()):
            break
        place = inner
    place[key] = data.draw(JSON)
    try:
        if isinstance(document["list"], dict):
            document["signature"] = signature(document["list"])
        written = canonical(document)
    except ValueError:
        written = json.dumps(document).encode()
    with contextlib.suppress(MalformedError, KeyListError):
        verified(written)
