"""Bytes from outside, whatever they are: refused by an error of ours, or what they say."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factories import example, mechanism
from shoal.errors import ShoalError
from shoal.sealing import (
    KeyPair,
    NotOpenableError,
    PublicKey,
    SurveyId,
    canonical,
    key_number,
    parsed,
    records,
)
from shoal.sealing.envelope import pad, unpad
from shoal.service import opening
from shoal.service.analyzer.decode import cells_of
from shoal.service.analyzer.source import HttpSource
from shoal.service.batch_file import BatchFile, BatchHeader
from shoal.service.client.protocol import Response, Retry, read_receipt
from shoal.service.http.problems import ProblemError
from shoal.service.keyring.key_list import KeyList, unverified
from shoal.service.peers.sockets import framed, read_frame
from shoal.service.shuffler.intake import sorted_upload
from shoal.service.survey import Survey
from shoal.service.wire import Wire

QUICK = settings(deadline=None, derandomize=True, max_examples=40)
VECTORS = Path(__file__).parent / "vectors"


@cache
def recorded():
    return json.loads((VECTORS / "reports_v1.json").read_text())["cases"]


@cache
def listed():
    return json.loads((VECTORS / "keys_v1.json").read_text())["lists"][0]


@cache
def wire(case=0):
    return Wire.of(Survey.from_bytes(recorded()[case]["survey"].encode()))


@cache
def owner(role, case=0):
    found = recorded()[case][role]
    return KeyPair.from_secret(bytes.fromhex(found["secret"]), number=found["number"])


def report(case=0):
    return bytes.fromhex(recorded()[case]["reports"][0])


@cache
def record():
    return wire().open_report(report(), owner("shuffler"))[1]


def batch():
    header = BatchHeader(
        survey=SurveyId(bytes(32)), batch="0" * 32, key=1, reports=2, sections=((4, 3),)
    )
    return header.to_bytes() + bytes(range(12))


def offered(body):
    """A shuffler's answer to an analyzer that looks for batches."""

    def served(request):
        last = "after" in request.url.params
        return httpx.Response(200, content=b'{"batches":[]}' if last else body)

    transport = httpx.MockTransport(served)
    HttpSource(
        "https://s.example", SurveyId(bytes(32)), lambda: "token", transport=transport
    ).offers()


def replied(body):
    """A shuffler's answer to a client."""
    for status in (202, 400, 503):
        response = Response(status, {}, body)
        with contextlib.suppress(Retry):
            read_receipt(response, 3)
        response.problem()


def headed(data):
    """Headers of strangers."""
    text = data.decode("latin-1")
    response = Response(503, {"cache-control": text, "retry-after": text}, b"")
    assert response.max_age >= 0
    with pytest.raises(Retry):
        read_receipt(response, 1)


def one_message(name):
    """What an analyzer does with messages that opened: admit, then decode."""
    device = mechanism(name)

    def decode(data):
        width = device.message_bytes
        rows = np.frombuffer(data[: len(data) // width * width], np.uint8).reshape(-1, width)
        kept = rows[device.codec.admissible(rows)]
        assert len(kept) <= len(rows)
        if len(kept):
            cells_of(device, kept)

    return decode


PAGE = {"batches": [{"batch": "0" * 32, "digest": "0" * 64, "bytes": 5, "state": "SHUFFLED"}]}
TAKEN = {"reports": 3, "refused": [{"index": 1, "reason": "unknown_key"}]}


def frames(data):
    async def read():
        stream = asyncio.StreamReader()
        stream.feed_data(data)
        stream.feed_eof()
        with contextlib.suppress(EOFError):
            while True:
                await read_frame(stream, {3, 8})

    asyncio.run(read())


@dataclass(frozen=True)
class Decoder:
    """What reads bytes, bytes that it reads, and whether they are JSON."""

    read: Any
    sample: Any
    is_json: bool = False


DECODERS = {
    "envelope": Decoder(lambda data: wire().outer.open(data, owner("shuffler")), report),
    "hybrid envelope": Decoder(
        lambda data: wire(3).outer.open(data, owner("shuffler", 3)), lambda: report(3)
    ),
    "key number": Decoder(key_number, report),
    "padding": Decoder(unpad, lambda: pad(b"message", 20)),
    "records": Decoder(lambda data: records(data, length=7), lambda: bytes(21)),
    "frames": Decoder(frames, lambda: framed(b"abc") * 2),
    "public key": Decoder(PublicKey.from_bytes, owner("shuffler").public.to_bytes),
    "hybrid public key": Decoder(PublicKey.from_bytes, owner("shuffler", 3).public.to_bytes),
    "key pair": Decoder(KeyPair.from_bytes, lambda: owner("shuffler").to_bytes()),
    "hybrid key pair": Decoder(KeyPair.from_bytes, lambda: owner("shuffler", 3).to_bytes()),
    "name": Decoder(
        lambda data: SurveyId.from_text(data.decode("latin-1")), lambda: b"0123456789abcdef" * 4
    ),
    "configuration": Decoder(parsed, lambda: example().to_bytes(), is_json=True),
    "survey": Decoder(Survey.from_bytes, lambda: example().to_bytes(), is_json=True),
    "report": Decoder(lambda data: wire().open_report(data, owner("shuffler")), report),
    "record": Decoder(lambda data: wire().sections[0].open_record(data, owner("analyzer")), record),
    "reports": Decoder(
        lambda data: opening.Pool(0).open_reports(wire(), owner("shuffler"), data),
        lambda: report() * 2,
    ),
    "sealed records": Decoder(
        lambda data: opening.Pool(0).open_records(wire().sections[0], owner("analyzer"), data),
        lambda: record() * 3,
    ),
    "upload": Decoder(
        lambda data: sorted_upload(data, wire=wire(), accepts=lambda key: key < 9, most=100),
        lambda: report() * 2,
    ),
    "list of keys": Decoder(
        lambda data: KeyList.verified(data, fingerprint=listed()["fingerprint"], now=1500),
        listed()["document"].encode,
        is_json=True,
    ),
    "unverified list": Decoder(unverified, listed()["document"].encode, is_json=True),
    "batch": Decoder(BatchFile.read, batch),
    "batch header": Decoder(BatchHeader.from_bytes, lambda: batch()[18:-12], is_json=True),
    "page of batches": Decoder(offered, lambda: canonical(PAGE), is_json=True),
    "answer to an upload": Decoder(replied, lambda: canonical(TAKEN), is_json=True),
    "headers": Decoder(headed, lambda: b"max-age=300, public"),
    "answers": Decoder(one_message("grr"), lambda: bytes([0, 1, 2, 3, 4])),
    "hashed answers": Decoder(one_message("hashing"), lambda: bytes(40)),
    "sets of answers": Decoder(one_message("subset"), lambda: bytes(8)),
    "numbers": Decoder(one_message("piecewise"), lambda: bytes(16)),
    "slots": Decoder(one_message("dummies"), lambda: bytes([0, 1, 2, 3, 4, 5])),
    "shares": Decoder(one_message("zero-sum"), lambda: bytes([0, 1, 2, 3, 4, 5])),
}
each = pytest.mark.parametrize("name", DECODERS)


def ours(decoder, data):
    """Run it: an error of Shoal, a problem to be told over HTTP, or none."""
    with contextlib.suppress(ShoalError, ProblemError):
        decoder.read(data)


@each
def test_the_sample_is_read(name):
    decoder = DECODERS[name]
    decoder.read(decoder.sample())


@each
@QUICK
@given(data=st.binary(max_size=300))
def test_any_bytes(name, data):
    ours(DECODERS[name], data)


@st.composite
def damaged(draw, sample):
    """Bytes that were right before somebody touched them."""
    data = bytearray(sample)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(("flip", "cut", "insert", "repeat"))):
            case "flip" if place < len(data):
                data[place] ^= draw(st.integers(1, 255))
            case "cut":
                del data[place : place + draw(st.integers(1, 20))]
            case "insert":
                data[place:place] = draw(st.binary(min_size=1, max_size=5))
            case "repeat":
                data += data[place : place + draw(st.integers(1, 200))]
    return bytes(data)


@each
@QUICK
@given(drawn=st.data())
def test_damaged_bytes(name, drawn):
    decoder = DECODERS[name]
    ours(decoder, drawn.draw(damaged(decoder.sample())))


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["0" * 64, "0" * 32, 10**400, 2**53, 1e308, -0.0, "\ud800", "9" * 500])
)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=4,
)


@st.composite
def rewritten(draw, sample):
    """JSON with another value at one place; canonical only by chance, as a stranger writes it."""
    value = json.loads(sample)
    inside, last = value, None
    above = None
    while isinstance(inside, dict | list) and inside and (last is None or draw(st.booleans())):
        keys = sorted(inside) if isinstance(inside, dict) else range(len(inside))
        above, last = inside, draw(st.sampled_from(list(keys)))
        inside = above[last]
    above[last] = draw(TREES)
    spaced = draw(st.booleans())
    separators = (", ", ": ") if spaced else (",", ":")
    ordered = not isinstance(value, dict) or all(isinstance(key, str) for key in value)
    return json.dumps(value, sort_keys=ordered, separators=separators, ensure_ascii=False).encode(
        "utf-8", "surrogatepass"
    )


@pytest.mark.parametrize("name", [name for name, found in DECODERS.items() if found.is_json])
@settings(deadline=None, derandomize=True, max_examples=150)
@given(drawn=st.data())
def test_json_of_strangers(name, drawn):
    decoder = DECODERS[name]
    ours(decoder, drawn.draw(rewritten(decoder.sample())))


DEEP = [b"[" * 100_000, b'{"a":' * 50_000, b'{"x":' + b"9" * 60_000 + b"}", b"\xff" * 70_000]


@pytest.mark.parametrize("name", [name for name, found in DECODERS.items() if found.is_json])
@pytest.mark.parametrize("data", DEEP, ids=["lists", "objects", "digits", "no text"])
def test_deep_and_long_documents(name, data):
    ours(DECODERS[name], data)


NO_SIZES = [
    b"1e999",
    b"-1e999",
    b"1e30",
    b"1" + b"0" * 30,
    b"-1",
    b"true",
    b"5.0",
    b"NaN",
    b"null",
    b"[]",
    b'"x"',
    b"9" * 5000,
]


@pytest.mark.parametrize("size", NO_SIZES)
def test_an_announced_size_that_is_none(size):
    body = canonical(PAGE).replace(b'"bytes":5', b'"bytes":' + size)
    with pytest.raises(ShoalError):
        offered(body)


@QUICK
@given(data=st.binary(max_size=200))
def test_an_envelope_never_says_why(data):
    with pytest.raises(NotOpenableError) as caught:
        wire().outer.open(data, owner("shuffler"))
    assert str(caught.value) == "not openable"
    assert caught.value.__cause__ is None
