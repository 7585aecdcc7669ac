"""A survey is its bytes: one way of writing it, one name, and nothing in it that is not checked."""

from __future__ import annotations

import dataclasses
import json
import time

import httpx
import idna
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from factories import ANALYZER, BATCHES, NAMES, SHUFFLER, early, example, mechanism
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.mechanisms.registry import by_name
from shoal.mechanisms.response import RandomizedResponse
from shoal.mechanisms.vectors import PrivUnit
from shoal.sealing import MalformedError, canonical
from shoal.service.survey import Batches, Open, Party, Stated, Survey
from shoal.service.wire import Wire

CHANGES = {
    "name": "transport",
    "question": "How did you travel home?",
    "purpose": "Planning of trains",
    "device": RandomizedResponse(k=4, epsilon=0.9),
    "answers": ("car", "bus", "bike", "walk"),
    "epsilon": 2.0,
    "delta": 2e-6,
    "reports_per_person": 2,
    "admission": Open(dishonest=1),
    "participation": 0.5,
    "not_before": 1_893_456_001,
    "not_after": 1_896_048_001,
    "shuffler": dataclasses.replace(SHUFFLER, url="https://other.example"),
    "analyzer": dataclasses.replace(ANALYZER, fingerprint="b" * 64),
    "suite": "mlkem768x25519-aes128gcm",
    "token_bytes": 1,
    "batches": dataclasses.replace(BATCHES, max_age=86_401),
}
OF_BATCHES = {"minimum": 1001, "target": 2001, "max_age": 86_401, "small": "expire"}


def test_every_change_changes_the_name_and_survives_writing():
    named = {field.name for field in dataclasses.fields(Survey) if field.init}
    assert set(CHANGES) == named - {"questions"} | {"question", "answers", "device"}
    assert set(OF_BATCHES) == {field.name for field in dataclasses.fields(Batches)}
    found = [example()]
    found += [example(**{name: value}) for name, value in CHANGES.items()]
    found += [
        example(batches=dataclasses.replace(BATCHES, **{name: value}))
        for name, value in OF_BATCHES.items()
        if name != "max_age"
    ]
    found += [early(found[0], 1), early(found[0], 2)]
    assert len({survey.id for survey in found}) == len(found)
    for survey in found:
        again = Survey.from_bytes(survey.to_bytes())
        assert again == survey
        assert again.id == survey.id


def test_numbers_that_are_equal_are_the_same_survey():
    ours = example(RandomizedResponse(k=4, epsilon=1), reports_per_person=1.0, not_after=1896048e3)
    assert ours == example()
    assert ours.to_bytes() == example().to_bytes()
    assert isinstance(ours.reports_per_person, int)
    assert isinstance(ours.not_after, int)


@pytest.mark.parametrize("name", NAMES)
def test_there_is_a_survey_for_every_mechanism(name):
    device = mechanism(name)
    survey = example(device)
    again = Survey.from_bytes(survey.to_bytes())
    assert again.device == device
    assert Wire.of(again).report_bytes < 1 << 16
    assert survey.guarantee(1000).epsilon <= 2.5


def test_a_report_that_does_not_fit_is_refused_with_what_would():
    calibrated = by_name("near-central-sum").calibrated
    many = calibrated(low=0.0, high=10.0, n=1000, epsilon=2.0, delta=1e-6)
    with pytest.raises(InvalidArgumentError, match="at most 1213 messages of a person, sealed"):
        example(many)
    fits = example(mechanism("zero-sum"), suite="mlkem768x25519-aes128gcm")
    assert Wire.of(fits).report_bytes > 5 * 1120
    with pytest.raises(InvalidArgumentError, match="at most 4 messages of a person"):
        example(mechanism("zero-sum"), token_bytes=60_000, suite="mlkem768x25519-aes128gcm")
    with pytest.raises(InvalidArgumentError, match="65535 bytes, the token included"):
        example(token_bytes=65_535)
    with pytest.raises(InvalidArgumentError, match="messages of a person"):
        example(mechanism("near-central"), suite="mlkem768x25519-aes128gcm", epsilon=10)


def _laplace(epsilon):
    return by_name("laplace")(low=0.0, high=1.0, epsilon=epsilon)


@pytest.mark.parametrize("change", [{"minimum": 10**10 + 1, "target": 10**11}, {"target": 10**11}])
def test_more_reports_than_there_are_people_are_refused(change):
    with pytest.raises(InvalidArgumentError, match="at most 10,000,000,000 reports in a batch"):
        dataclasses.replace(BATCHES, **change)


REFUSED = [
    ({"name": " "}, "name"),
    ({"name": "\ufeff \ufeff"}, "name"),
    ({"question": "x" * 2001}, "text"),
    ({"answers": ("a", "b", "c")}, "one of 3 answers"),
    ({"answers": ("a", "b", "c", "c")}, "every answer once"),
    ({"answers": ("a", "b", "c", " ")}, "answers of 1 to 200"),
    ({"device": RandomizedResponse(k=4, epsilon=1.0), "answers": ()}, "a number from 0 to 1"),
    ({"epsilon": 0}, "epsilon > 0"),
    ({"delta": 1}, "0 < delta < 1"),
    ({"reports_per_person": 0}, "1 <= reports_per_person"),
    ({"reports_per_person": 1001}, "at most 1000 reports"),
    ({"delta": 9e-31}, "delta >= 1e-30"),
    (
        {"device": _laplace(5.1), "answers": (), "reports_per_person": 2},
        "at most 5 for each of several",
    ),
    (
        {"device": _laplace(1.0), "answers": (), "reports_per_person": 2},
        "at most 8 for several reports of one person by laplace",
    ),
    ({"participation": 0}, "0 < participation <= 1"),
    ({"not_after": 1_893_456_000}, "later than"),
    ({"suite": "rot13"}, "x25519-aes128gcm"),
    ({"token_bytes": -1}, "token_bytes"),
    (
        {"analyzer": Party(url="https://analyzer.example", fingerprint=SHUFFLER.fingerprint)},
        "the analyzer's fingerprint to differ from the shuffler's",
    ),
]


@pytest.mark.parametrize(("change", "said"), REFUSED, ids=lambda x: str(x)[:30])
def test_what_makes_no_sense_is_refused(change, said):
    with pytest.raises(InvalidArgumentError, match=said):
        example(**change)


def test_a_promise_that_the_smallest_batch_does_not_keep_is_refused():
    least = example().guarantee(1000).epsilon
    assert example(epsilon=least).epsilon == least
    with pytest.raises(UnreachableTargetError, match=r"minimum=1000 reports gives 0\.117"):
        example(epsilon=least * (1 - 1e-6))
    few = Batches(minimum=3, target=4, max_age=1)
    with pytest.raises(UnreachableTargetError, match="nobody to hide 4 of one person"):
        example(batches=few, reports_per_person=4)


def test_vectors_are_not_for_surveys():
    device = PrivUnit(dimension=4, epsilon=1.0)
    assert device.domain.takes == "vectors"
    with pytest.raises(InvalidArgumentError, match="answers or for numbers"):
        example(device, answers=())


ADDRESSES = [
    "http://shuffler.example",
    "https://shuffler.example/",
    "https://user@shuffler.example",
    "https://shuffler.example?x=1",
    "https://shuffler.example#x",
    "https://",
    "shuffler.example",
    "https://[::1",
    "https://shuffler.example:99999",
    "https://shuffler.example:x",
    "https://shuffler.example/a b",
    "https://shuffler.example\n",
    "https://shüffler.example",
    "https://shuffler.example\\@evil.example",
    "https://" + "x" * 2000,
    "ftp://localhost",
    # What a client could never reach.
    "https://1.2.3.400",
    "https://01.2.3.4",
    "https://1.2.3",
    "https://0x7f",
    "https://a.0x",
    "https://xn--a",
    "https://xn--",
    "https://xn--.example",
    "https://[v1.x]",
    "https://[fe80::1%25eth0]",
    "https://a..example",
    "https://a.example.",
    "https://-a.example",
    "https://a_b.example",
    "https://" + "a" * 64 + ".example",
    # Other ways of writing the same.
    "https://Shuffler.example",
    "HTTPS://shuffler.example",
    "https://shuffler.example:",
    "https://shuffler.example:0443",
]


@pytest.mark.parametrize("url", ADDRESSES)
def test_addresses_that_are_none(url):
    with pytest.raises(InvalidArgumentError):
        Party(url=url, fingerprint="0" * 64)


@pytest.mark.parametrize(
    "url",
    [
        "https://a.example:8443/shoal",
        "http://127.0.0.1:443",
        "https://a.example:80/%7e/.../a|b",
        "http://[::1]:8000",
        "https://[2001:db8::1:0:0:1]",
        "https://[::ffff:102:304]",
        "https://[2001:db8::1]",
        "https://192.0.2.1",
        "https://xn--bcher-kva.example",
        "https://xn--fa-hia.example",
        "https://r3---x.example",
    ],
)
def test_addresses(url):
    assert Party(url=url, fingerprint="0" * 64).url == url
    assert httpx.URL(url).host
    with pytest.raises(InvalidArgumentError, match="64 lower-case"):
        Party(url=url, fingerprint="A" * 64)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://a.example:443", "without :443, the default of https"),
        ("http://localhost:80/x", "without :80, the default of http"),
        ("https://[0:0:0:0:0:0:0:1]", r"the machine \[::1\]"),
        ("https://[2001:db8:0:0:1::1]", r"the machine \[2001:db8::1:0:0:1\]"),
        ("https://[::ffff:1.2.3.4]:8443", r"the machine \[::ffff:102:304\]"),
        ("https://a.example/a/../b", "without . or .. between slashes"),
        ("https://a.example/.", "without . or .. between slashes"),
        ("https://a.example/%2E./b", "without . or .. between slashes"),
        *((f"https://a.example/a{letter}b", "without any of") for letter in '"<>^`{}'),
    ],
)
def test_addresses_that_browsers_write_otherwise(url, words):
    with pytest.raises(InvalidArgumentError, match=f"{words}.*, as browsers write it"):
        Party(url=url, fingerprint="0" * 64)


@settings(deadline=None, derandomize=True, max_examples=300)
@given(
    st.text("ab1-.xnü:[]%@", min_size=1, max_size=12)
    | st.builds("xn--{}".format, st.text("abc12-", max_size=6))
)
def test_what_is_an_address_can_be_asked(host):
    try:
        party = Party(url=f"https://{host}", fingerprint="0" * 64)
    except InvalidArgumentError:
        return
    labels = [label for label in host.split(".") if label.startswith("xn--")]
    try:
        assert httpx.URL(party.url).host
    except idna.IDNAError:
        # Rules on what stands next to what, and scripts of newer tables: rare, and not sent.
        assert labels


def test_what_is_stated_is_read_without_the_promise(monkeypatch):
    survey = example(reports_per_person=2, participation=0.5)
    data = survey.to_bytes()
    monkeypatch.setattr(Survey, "guarantee", None)
    stated = Stated.from_bytes(data)
    assert all(getattr(stated, name) == getattr(survey, name) for name in vars(stated))
    assert stated.local_epsilon == pytest.approx(2.0)
    for broken in (b"{}", canonical(json.loads(data) | {"delta": "x"})):
        with pytest.raises(MalformedError):
            Stated.from_bytes(broken)


@pytest.mark.parametrize("read", [Stated.from_bytes, Survey.from_bytes])
@pytest.mark.parametrize("data", [b"", b"{", b'{"b": 1}', b"[]"])
def test_what_is_no_document_does_not_contradict_itself(read, data):
    with pytest.raises(MalformedError) as refused:
        read(data)
    assert refused.value.contradiction is None


def test_reading_a_survey_is_quick():
    data = example(RandomizedResponse(k=4, epsilon=1.01)).to_bytes()
    started = time.process_time()
    for _ in range(20):
        Survey.from_bytes(data)
    assert time.process_time() - started < 2.0  # it takes 1 ms


# What outsiders may write: anything at any place.
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**16), 10**16)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from([0, 1, 2, 3, 1e15, 1e300, 5e-324, "grr", "https://[x", "carry"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


def _places(value, path=()):
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _places(value[key], (*path, key))


@st.composite
def mutated(draw, data):
    """A configuration with something else, something more or something less at one place."""
    value = json.loads(data)
    path = draw(st.sampled_from([place for place in _places(value) if place]))
    *above, last = path
    inside = value
    for key in above:
        inside = inside[key]
    match draw(st.sampled_from(("replace", "remove", "add"))):
        case "replace":
            inside[last] = draw(PLAIN)
        case "remove":
            del inside[last]
        case "add" if isinstance(inside, dict):
            inside[draw(st.text(max_size=6))] = draw(PLAIN)
        case "add":
            inside.append(draw(PLAIN))
    try:
        return canonical(value)
    except InvalidArgumentError:
        return b"{}"


@pytest.mark.parametrize("name", ["grr", "duchi", "dummies", "split-and-mix"])
@settings(
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(drawn=st.data())
def test_what_is_not_exactly_a_survey_is_malformed(name, drawn):
    data = drawn.draw(mutated(example(mechanism(name)).to_bytes()))
    try:
        found = Survey.from_bytes(data)
    except MalformedError:
        return
    assert found.to_bytes() == data


HOSTILE = [
    ("grr", {"k": 10**15}),
    ("unary", {"k": 10**12}),
    ("subset", {"k": 10**9, "size": 10**8}),
    ("hashing", {"buckets": 10**15}),
    ("laplace", {"levels": 10**12}),
    ("laplace", {"epsilon": 5e-324}),
    ("piecewise", {"levels": 10**12}),
    ("rounded", {"levels": 10**12}),
    ("rounded", {"low": -1e308, "high": 1e308}),
    ("dummies", {"dummies": 1e300}),
    ("sparse", {"most": 10**15}),
    ("near-central", {"pairs": 1e300}),
    ("near-central", {"people": 10**15}),
    ("near-central-lean", {"pairs": 1e300}),
    ("near-central-lean", {"shape": 1e-300}),
    ("near-central-robust", {"people": 10**15}),
    ("near-central-robust", {"rate": 1e-300}),
    ("split-and-mix", {"modulus_bits": 10**12}),
    ("split-and-mix", {"shares": 10**12}),
    ("coins", {"coins": 1e15}),
]


@pytest.mark.parametrize(("name", "change"), HOSTILE, ids=str)
def test_numbers_beyond_any_sense_are_refused_at_once(name, change):
    configuration = json.loads(example().to_bytes())
    device = mechanism(name)
    (asked,) = configuration["questions"]
    asked["question"] = example(device).only.question.to_dict()
    asked["mechanism"] = device.described() | change
    started = time.process_time()
    with pytest.raises(MalformedError):
        Survey.from_bytes(canonical(configuration))
    assert time.process_time() - started < 3.0
