"""The browser client in Node: its own tests, and that it and Python understand each other."""

from __future__ import annotations

import itertools
import json
import math
import re
import subprocess
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats

import factories
import shoal
from browser_kit import chromium, node
from factories import early, example
from repository import ROOT
from service.test_survey_texts import APART, HIDDEN, SHOWN, SKIPPING, TWINS
from service_site import live
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.mechanisms import hashing
from shoal.mechanisms.carriers import CarrierHistogram
from shoal.mechanisms.counts import FairCoins
from shoal.mechanisms.grid import Duchi
from shoal.mechanisms.response import RandomizedResponse
from shoal.sealing import KeyPair, canonical
from shoal.sealing.errors import MalformedError, SealingError
from shoal.service.admission import Invited, Open
from shoal.service.client.randomize import values_of
from shoal.service.ops.invitations import codes_to_add, invite
from shoal.service.survey import NONE, Survey
from shoal.service.survey.browser import proved_epsilon
from shoal.service.survey.mechanisms import BROWSERS
from shoal.service.survey.texts import check_texts
from shoal.service.wire import Wire

CLIENT = ROOT / "clients" / "browser"
FROZEN = CLIENT / "frozen" / "v1.mjs"
VECTORS = ROOT / "tests" / "service" / "vectors"
REPORTS = json.loads((VECTORS / "reports_v1.json").read_text())["cases"]
RARE = 1e-10  # what is random is so every time: all tests together fail once in ten million runs


def run(*arguments, **options):
    """What Node writes."""
    finished = subprocess.run(
        [node().node, *map(str, arguments)],
        cwd=CLIENT,
        capture_output=True,
        encoding="utf-8",
        check=False,
        **options,
    )
    assert finished.returncode == 0, finished.stdout[-4000:] + finished.stderr[-4000:]
    return finished.stdout


def produced(jobs):
    """What the client makes of a list of jobs."""
    return json.loads(run("test/produce.mjs", input=json.dumps(jobs)))


@cache
def everything():
    """What it makes of all jobs of this file that need nobody else, by name: Node starts once."""
    jobs = {"draw": draws(1000), "seal": seals(), "change": changed(), "read": every_survey()}
    jobs["prove"] = proofs()
    jobs["values"] = grouped_answers()
    found = iter(produced([job for listed in jobs.values() for job in listed]))
    return {name: [(job, next(found)) for job in listed] for name, listed in jobs.items()}


def test_the_clients_own_tests_pass():
    """All files in one process: each would bundle the client for itself."""
    files = sorted(CLIENT.glob("test/*.test.mjs"))
    imported = "".join(f'await import("./test/{file.name}");' for file in files)
    report = run(
        "--test-reporter=tap", "--input-type=module", "-", input=imported
    )  # in one process
    assert "# fail 0" in report
    assert "# skipped 0" in report
    passed = next(line for line in report.splitlines() if line.startswith("# pass "))
    assert int(passed.split()[-1]) >= 50


# Distributions.


def _numbers(device, rows):
    """The messages of numbered ones, as they are counted."""
    return device.decode(rows)


def _bits(device, rows):
    """Rows of bits, read as a binary number: the column of the table."""
    bits = np.unpackbits(rows, axis=1)[:, : device.k].astype(np.int64)
    return bits @ (1 << np.arange(device.k)[::-1])


def _sets(device, rows):
    """Sets in the order of their sorted answers: the column of the table."""
    listed = itertools.combinations(range(device.k), device.integers["size"])
    numbers = [sum(1 << (device.k - 1 - answer) for answer in chosen) for chosen in listed]
    return np.array([numbers.index(row) for row in _bits(device, rows)])


def _hashed(device, rows):
    """Whether the bucket told is the truth's; and a few bits of the hash function."""
    functions, told = hashing.row_parts(rows, device.g)
    truth = hashing.hashed(functions, np.full(len(rows), HASHED, np.uint64), device.g)
    first, second = ((factor >> np.uint64(60)).astype(np.int64) for factor in functions)
    return 4 * (truth == told) + 2 * first + second


def _table_row(device, value):
    return device.table()[value]


def _level_row(device, value):
    """Numbers between two levels are a mixture of both."""
    share = (value - device.low) / (device.high - device.low) * (device.levels - 1)
    below = min(math.floor(share), device.levels - 2)
    table = device.table()
    return table[below] * (below + 1 - share) + table[below + 1] * (share - below)


def _hash_law(device, _value):
    true = device.odds.high / device.integers["total"]
    halves = np.array([0.5, 0.5])  # the prime is a power of two less one: 1e-18 is not seen
    return np.outer([1 - true, true], np.outer(halves, halves)).ravel()


def _envelopes(device, rows):
    """How many messages there are of each kind, as one number, a digit each."""
    found = device.decode(rows.reshape(len(rows), -1))
    ends = np.cumsum(found.sizes)
    counted = [
        np.bincount(found.messages[end - size : end], minlength=device.outputs)
        for end, size in zip(ends, found.sizes, strict=True)
    ]
    base = device.slots + 1
    return np.array(counted) @ (base ** np.arange(device.outputs))


def _envelope_law(device, value):
    """The law of that number, by listing what one person may send."""
    base = device.slots + 1
    law = np.zeros(base**device.outputs)
    for counts, chance in _sent(device, value).items():
        law[sum(count * base**kind for kind, count in enumerate(counts))] += chance
    return law


def _sent(device, value):
    """Chances of all counts of messages that one person sends."""
    if isinstance(device, FairCoins):
        lie = device.coins / 2
        return {(1, 0): 1 - lie, (0, 1): lie} if value == 0 else {(0, 1): 1 - lie, (1, 0): lie}
    law = {tuple(int(kind == value) for kind in range(device.outputs)): 1.0}
    if isinstance(device, shoal.UniformDummies):
        always, more = math.floor(device.dummies), device.dummies % 1
        for chance in [1.0] * always + [more] * (more > 0):
            law = _added(law, dict.fromkeys(range(device.k), chance / device.k))
        return law
    if isinstance(device, shoal.ZeroSumCount):
        law = {(value,): 1.0}
    gamma = device.gamma if isinstance(device, shoal.SparseHistogram) else 1 - device.gamma
    for kind in range(device.outputs):
        law = _added(law, {kind: gamma})
    return law


def _added(law, chances):
    """One more message, of each kind with its chance, or none."""
    found = {}
    for counts, before in law.items():
        found[counts] = found.get(counts, 0.0) + before * (1 - sum(chances.values()))
        for kind, chance in chances.items():
            more = (*counts[:kind], counts[kind] + 1, *counts[kind + 1 :])
            found[more] = found.get(more, 0.0) + before * chance
    return found


def _carried(device, rows):
    """Whether all slots are sent; and how many messages of the other answer there are, up to 2."""
    found = device.decode(rows.reshape(len(rows), -1))
    owners = np.repeat(np.arange(len(rows)), found.sizes)
    plus, minus = (
        np.minimum(np.bincount(owners[found.messages == kind], minlength=len(rows)), 2)
        for kind in (1, 3)
    )
    return 9 * (found.sizes == device.slots) + 3 * plus + minus


def _carried_law(device, value):
    """By the definition: pairs of an answer are on both sides, single messages on either."""
    assert value == 0
    counts = np.arange(40)
    ratio = math.exp(-device.central_epsilon)
    law = np.zeros((2, 3, 3))
    for pairs, chance in enumerate(stats.poisson.pmf(counts, device.pairs / device.people)):
        law[0, min(pairs, 2), min(pairs, 2)] += (1 - device.carriers) * chance
        single = stats.nbinom.pmf(counts, 1 / device.fewest, 1 - ratio)
        side = np.bincount(np.minimum(counts + pairs, 2), weights=single, minlength=3)
        law[1] += device.carriers * chance * np.outer(side, side)
    return law.ravel()


HASHED = 2
SPAN = {"low": -1.0, "high": 3.0, "epsilon": 2.0}
MECHANISMS = {
    "grr": (shoal.RandomizedResponse(k=4, epsilon=1.0), _numbers, _table_row, (0, 3)),
    "hadamard": (shoal.HadamardResponse(k=5, epsilon=1.5), _numbers, _table_row, (0, 4)),
    "projective": (
        shoal.ProjectiveGeometryResponse(k=7, epsilon=1.0),
        _numbers,
        _table_row,
        (0, 6),
    ),
    "subset": (shoal.SubsetSelection(k=5, epsilon=1.0, size=2), _sets, _table_row, (0, 4)),
    "unary": (shoal.UnaryEncoding(k=3, epsilon=1.0), _bits, _table_row, (0, 2)),
    "unary, symmetric": (
        shoal.UnaryEncoding(k=3, epsilon=2.0, symmetric=True),
        _bits,
        _table_row,
        (1,),
    ),
    "hashing": (shoal.LocalHashing(k=6, epsilon=1.0), _hashed, _hash_law, (HASHED,)),
    "duchi": (shoal.Duchi(**SPAN), _numbers, _level_row, (-1.0, 0.7, 3.0)),
    "piecewise": (shoal.Piecewise(**SPAN, levels=6), _numbers, _level_row, (-1.0, 0.7, 3.0)),
    "rounded": (shoal.RoundedResponse(**SPAN, levels=4), _numbers, _level_row, (0.7, 3.0)),
    "dummies": (shoal.UniformDummies(k=3, dummies=1.25), _envelopes, _envelope_law, (0, 2)),
    "sparse": (shoal.SparseHistogram(k=3, gamma=0.3), _envelopes, _envelope_law, (0, 2)),
    "zero-sum": (shoal.ZeroSumHistogram(k=3, gamma=0.3), _envelopes, _envelope_law, (0, 2)),
    "zero-sum-count": (shoal.ZeroSumCount(gamma=0.3), _envelopes, _envelope_law, (0, 1)),
    "coins": (FairCoins(coins=0.4), _envelopes, _envelope_law, (0, 1)),
    "carriers": (
        CarrierHistogram(
            k=2, central_epsilon=1.2, pairs=800.0, people=1000, carriers=0.5, fewest=2, most=60
        ),
        _carried,
        _carried_law,
        (0,),
    ),
}


EXTREMES = {
    **{
        f"{kind.name}, {epsilon:g}": kind(k=5, epsilon=epsilon)
        for kind in (shoal.RandomizedResponse, shoal.HadamardResponse, shoal.SubsetSelection)
        for epsilon in (1e-9, 1e-6, 30.0)
    },
    "unary, little": shoal.UnaryEncoding(k=3, epsilon=1e-6),
    "unary, symmetric, little": shoal.UnaryEncoding(k=3, epsilon=1e-6, symmetric=True),
    "duchi, little": shoal.Duchi(low=0.0, high=1.0, epsilon=1e-7),
    "sparse, cut off": shoal.SparseHistogram(k=16, gamma=0.02, most=5),
    "sparse, cut off beyond what there is": shoal.SparseHistogram(k=3, gamma=0.3, most=9),
    "sparse, a long table": shoal.SparseHistogram(k=1000, gamma=0.5),
}


@cache
def survey_of(name):
    """A survey for a mechanism, whatever it promises."""
    device = EXTREMES[name] if name in EXTREMES else MECHANISMS[name][0]
    promise = shoal.amplify(device, n=1000, delta=0.3).epsilon
    answers = tuple(f"answer {number}" for number in range(getattr(device, "k", 0)))
    return example(device, answers=answers, epsilon=1.1 * promise + 0.01, delta=0.3)


def chance(seen, law):
    """A bound of the chance that counts are so far from their law, for any number of them.

    Agrawal, "Finite-Sample Concentration of the Multinomial in Relative Entropy", IEEE Trans. Inf.
    Theory 2020 (arXiv 1904.02291), Theorem 1.2: e^-t (e t/(k - 1))^(k - 1), with t = n KL.
    """
    assert not seen[law <= 0].any(), "what cannot be sent"
    n, possible = seen.sum(), seen > 0
    shares = seen[possible] / n
    t = n * float(shares @ np.log(shares / law[possible]))
    kinds = int((law > 0).sum()) - 1
    return 1.0 if t <= kinds else math.exp(-t + kinds * (1 + math.log(t / kinds)))


def draws(people):
    """Jobs: so many answers of every mechanism, for some values."""
    return [
        {
            "job": "draw",
            "mechanism": name,
            "survey": survey_of(name).to_bytes().decode(),
            "value": value,
            "people": people,
        }
        for name, made in MECHANISMS.items()
        for value in made[3]
    ]


def check_distributions(found):
    """Draws of the client, against the law that Python states."""
    for job, drawn in found:
        device, column, law, _ = MECHANISMS[job["mechanism"]]
        rows = np.frombuffer(bytes.fromhex(drawn), dtype=np.uint8)
        rows = rows.reshape(-1, device.message_bytes)
        absent = None if device.uneven is None else device.uneven.absent
        sent = [row.tobytes() != absent for row in rows]
        assert np.array_equal(device.codec.admissible(rows), sent), job
        expected = law(device, job["value"])
        if device.slots > 1:
            rows = rows.reshape(job["people"], -1)
        seen = np.bincount(column(device, rows), minlength=expected.size)
        assert seen.sum() == job["people"]
        assert chance(seen, expected) > RARE, (job["mechanism"], job["value"], seen, expected)


def test_a_thousand_answers_of_every_mechanism_have_their_distribution():
    check_distributions(everything()["draw"])


DRAW = """async (jobs) => {
    const { survey: surveys, random } = inside;
    const hex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    const found = [];
    for (const { survey, value, people } of jobs) {
        const bytes = new TextEncoder().encode(survey);
        const device = surveys.devicesFor(await surveys.readSurvey(bytes))[0];
        let drawn = "";
        for (let i = 0; i < people; i++) drawn += hex(device.draw(value, random.below));
        found.push(drawn);
    }
    return found;
}"""


def test_a_thousand_answers_drawn_in_chromium_have_their_distribution():
    jobs, script = draws(1000), run("test/printed.mjs")
    with chromium() as browser:
        page = browser.new_page()
        # Only pages of this machine, or by TLS, have all of WebCrypto.
        page.route("**", lambda route: route.fulfill(body="", content_type="text/html"))
        page.goto("http://localhost/")
        page.add_script_tag(content=script)
        found = page.evaluate(DRAW, jobs)
    check_distributions(zip(jobs, found, strict=True))


@pytest.mark.slow
def test_many_answers_of_every_mechanism_have_their_distribution():
    jobs = draws(100_000)
    check_distributions(zip(jobs, produced(jobs), strict=True))


def test_a_wrong_distribution_is_noticed():
    device = MECHANISMS["grr"][0]
    law = device.table()[0]
    other = shoal.RandomizedResponse(k=4, epsilon=1.7).table()[0]
    assert chance(np.round(1000 * law), law) == 1.0
    assert chance(np.round(1000 * other), law) < RARE


# The wire.


def opened(case, report):
    """The messages in a report, opened by Python."""
    wire = Wire.of(Survey.from_bytes(case["survey"].encode()))
    shuffler, analyzer = (
        KeyPair.from_secret(bytes.fromhex(case[role]["secret"]), number=case[role]["number"])
        for role in ("shuffler", "analyzer")
    )
    number, sealed = wire.open_report(bytes.fromhex(report), shuffler)
    assert number == analyzer.public.number
    return [
        section.open_record(record, analyzer).hex()
        for section in wire.sections
        for record in section.split(sealed[section.start : section.end])
    ]


def seals():
    """Jobs: recorded messages, and several of one person, to be sealed."""
    cases = [case for case in REPORTS if not case["token"] and case["name"] != "hybrid"]
    dummies = survey_of("dummies")
    several = cases[0] | {"survey": dummies.to_bytes().decode(), "id": str(dummies.id)}
    sent = dummies.device.encode(dummies.device.randomize([0, 1, 2]))
    rows = sent.reshape(3, dummies.device.slots, dummies.device.message_bytes)
    cases.append(several | {"messages": [[row.tobytes().hex() for row in one] for one in rows]})
    some = survey_of("carriers")
    several = cases[0] | {"survey": some.to_bytes().decode(), "id": str(some.id)}
    several["absent"] = some.device.uneven.absent.hex()
    rows = some.device.encode(some.device.randomize([0, 1, 0, 1]))  # a byte each
    cases.append(several | {"messages": [[f"{byte:02x}" for byte in row] for row in rows]})
    apart = factories.several()
    both = cases[0] | {"survey": apart.to_bytes().decode(), "id": str(apart.id)}
    cases.append(both | {"messages": [["01", "02"]], "slots": [1, 1]})
    return [
        {
            name: case[name]
            for name in ("survey", "id", "shuffler", "analyzer", "slots", "absent")
            if name in case
        }
        | {"job": "seal", "messages": messages}
        for case in cases
        for messages in case["messages"]
    ]


def test_what_the_browser_seals_opens_here():
    found = everything()["seal"]
    assert len(found) == 14
    for job, report in found:
        assert opened(job, report) == [
            each for each in job["messages"] if each != job.get("absent")
        ]
        assert len(report) == 2 * Wire.of(Survey.from_bytes(job["survey"].encode())).report_bytes


@pytest.mark.parametrize("case", [case for case in REPORTS if case["name"] != "hybrid"])
def test_the_frozen_client_is_still_understood(case):
    asked = {name: case[name] for name in ("survey", "token")}
    for role in ("shuffler", "analyzer"):
        asked[role] = {name: case[role][name] for name in ("public", "number")}
    report = run(FROZEN, input=json.dumps(asked | {"messages": case["messages"][0]}))
    assert len(report) == 2 * case["report_bytes"]
    assert opened(case, report) == case["messages"][0]


def test_the_frozen_client_refuses_a_survey_of_version_2():
    case = next(case for case in REPORTS if case["name"] == "one message")
    survey = early(example(admission=Invited(entitled=1000, dishonest=0)), 2).to_bytes().decode()
    asked = case | {"survey": survey, "messages": case["messages"][0]}
    refused = subprocess.run(
        [node().node, str(FROZEN)],
        input=json.dumps(asked),
        cwd=CLIENT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert "not a report of this survey" in refused.stderr


def test_the_frozen_client_knows_nothing_of_the_package():
    imported = [
        line for line in FROZEN.read_text(encoding="utf-8").splitlines() if "import" in line
    ]
    assert [line for line in imported if not line.startswith("//")] == [
        'import { Aes128Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "@hpke/core";'
    ]


# Surveys.

CHANGES = {
    "name": ["", "x", "x" * 2001, "é" * 2000, 5, "\x1c\x1f", "\x85", "\ufeff \ufeff", "\u200b"],
    "question": [" ", None, "why?", *HIDDEN.values(), *SHOWN],
    "purpose": ["one\ntwo", 'a "quote"', "\\"],
    "answers": [
        *(["x", *pair, "z"] for pair in TWINS),
        *([*texts, *"wxyz"][:4] for texts in APART),
        ["a", "b", "c", "\x1d"],
        [],
        ["a"],
        ["a", "b", "c", "d"],
        ["a", "b", "c", "c"],
        ["a", "b", "c", "d", "e"],
    ],
    "epsilon": [0, -1, "1", None, 7, 0.001],
    "delta": [0, 1, 2, 1e-40, 1e-3],
    "dishonest": [-0.1, 0.5, 0.999, 1, 2],
    "participation": [0, 0.5, 1.5, 1e-17, 5e-324],
    "reports_per_person": [0, 1.5, 2, 1001, True],
    "not_before": [-1, 1.5, 10],
    "not_after": [0, 1_893_456_000, 1_893_456_001, 10**15, 10**15 + 1],
    "token_bytes": [-1, 1.5],
    "slots": [0, 2],
    "message_bytes": [0, 2],
    "version": [0, 2, "1"],
    "kind": ["keys"],
    "suite": ["none"],
    "sampler": [{}, {"high": 1}, [], None],
    "mechanism": [{}, {"name": "grr"}, {"name": "none"}, [], None, {"name": "grr", "k": 4}],
    "batches": [
        {"max_age": 1, "minimum": 1000, "small": "expire", "target": 1000},
        {"max_age": 1, "minimum": 1, "small": "expire", "target": 1000},
        {"max_age": 0, "minimum": 1000, "small": "expire", "target": 1000},
        {"max_age": 1, "minimum": 1000, "small": "no", "target": 1000},
        {"max_age": 1, "minimum": 1000, "small": "carry", "target": 999},
        {"max_age": 1, "minimum": 1000, "small": "carry"},
        {"max_age": 1, "minimum": 1000, "small": ["carry"], "target": 1000},
        {"max_age": 10**15, "minimum": 1000, "small": "carry", "target": 1000},
        {"max_age": 10**15 + 1, "minimum": 1000, "small": "carry", "target": 1000},
    ],
    "shuffler": [
        {"fingerprint": "5" * 64, "url": url}
        for url in (
            "https://other.example:8443/path",
            "http://127.0.0.1:8000",
            "http://[::1]:8000",
            "http://other.example",
            "https://other.example/",
            "https://Other.example",
            "https://user@other.example",
            "https://other.example?x",
            "https://other .example",
            "ftp://other.example",
            "",
            "https://other.example:443",
            "https://other.example:80",
            "http://localhost:80",
            "http://localhost:443",
            "https://other.example/a/../b",
            "https://other.example/.../%2e.",
            "https://other.example/%7E'(a)|[b];c=d:$&*+,!",
            *(f"https://other.example/a{letter}b" for letter in '"<>^`{}@\\'),
            "https://other.example/" + "a" * 1978,
            "https://other.example/" + "a" * 1979,
            "https://[2001:db8:0:0:1::1]",
            "https://[2001:db8::1:0:0:1]",
            "https://[::ffff:1.2.3.4]",
            "https://[::ffff:102:304]",
            "https://0x7f",
            "https://other.0xa",
            "https://other.example.",
            "https://.other",
            "https://o..r",
            "https://o_r.example",
            "https://-o.example",
            "https://o-.example",
            "https://o--r.0-1.x",
            f"https://{'a' * 63}.example",
            f"https://{'a' * 64}.example",
            f"https://{'.'.join(['a' * 62] * 4)}.b",
            f"https://{'.'.join(['a' * 62] * 4)}.cd",
        )
    ],
    "analyzer": [
        {"fingerprint": "5" * 63, "url": "https://other.example"},
        {"url": "https://x.y"},
        5,
    ],
    "extra": [1],
}


ADMISSIONS = [
    {"kind": "open", "dishonest": 0},
    {"kind": "open", "dishonest": 10},
    {"kind": "open", "dishonest": 1000},
    {"kind": "open", "dishonest": 10**15 + 1},
    {"kind": "open", "dishonest": 0.5},
    {"kind": "open", "dishonest": -1},
    {"kind": "open", "dishonest": True},
    {"kind": "open"},
    {"kind": "open", "dishonest": 0, "entitled": 2000},
    {"kind": "invited", "dishonest": 0, "entitled": 1000},
    {"kind": "invited", "dishonest": 10, "entitled": 2000},
    {"kind": "invited", "dishonest": 0, "entitled": 999},
    {"kind": "invited", "dishonest": 2000, "entitled": 2000},
    {"kind": "invited", "dishonest": 0, "entitled": 10**10 + 1},
    {"kind": "invited", "dishonest": 0},
    {"kind": "tokens", "dishonest": 0},
    "open",
    None,
]


def verdict(data):
    """What Python says of it: its name, that it is no survey, or that its promise is not kept."""
    try:
        survey = Survey.from_bytes(data)
        check_texts(survey)
        return str(survey.id)
    except InvalidArgumentError:
        return "tampered"
    except MalformedError as error:
        unkept = isinstance(error.contradiction, UnreachableTargetError)
        return "unkept" if unkept else "tampered"
    except SealingError:
        return "tampered"


def changed():
    """Jobs: a survey with other values, with fewer fields, and written in other ways."""
    told = early(example()).configuration()
    documents = [canonical(told | {name: value}) for name in CHANGES for value in CHANGES[name]]
    documents += [canonical({name: told[name] for name in told if name != left}) for left in told]
    late = example(admission=Invited(entitled=1000, dishonest=0))
    invited = early(late, 2).configuration()
    for whole in (invited, late.configuration()):
        documents += [canonical(whole | {"admission": admission}) for admission in ADMISSIONS]
    documents += [canonical(invited | more) for more in ({"dishonest": 0}, {"version": 1})]
    documents += [early(example()).to_bytes(), example().to_bytes() + b" ", b"{}", b""]
    documents += map(canonical, present_changed())
    documents += map(canonical, several_changed())
    documents += map(canonical, grouped_changed())
    return [{"job": "read", "survey": data.decode()} for data in documents]


def present_changed():
    """Questions as the present version has them, and those that it has not."""
    response = RandomizedResponse(k=3, epsilon=1.0)
    told = factories.several((response, Duchi(low=0.0, high=10.0, epsilon=1.0))).configuration()
    first, second = told["questions"]
    asked, number = first["question"], second["question"]
    area = {"column": "area", "labels": ["n", "s"], "other": False, "text": "Where?"}
    among = replace(factories.several(), questions=(factories.by_groups("by"),)).configuration()
    (grouped,) = among["questions"]
    yield told
    yield among
    for questions in (
        [first],
        [],
        [first] * 2,
        [first, first | {"more": 1}],
        {"a": first},
        [1],
        None,
    ):
        yield told | {"questions": questions}
    for change in (
        *({"kind": kind} for kind in ("scale", "number", None)),
        *({"name": name} for name in ("q1", "", "a b", "Q-2.x_", 1)),
        *({"text": text} for text in ("", " ", 1, "x" * 2001, "How?")),
        *({"labels": listed} for listed in (["a"], ["a", "b", "c"], [], "ab", 2, None, ["b", "a"])),
        *({"labels": ["a", text]} for text in ("", "b", "B", "a", NONE, *SKIPPING)),
        *({"missing": missing} for missing in ("refuse", "cell", "drop", None)),
        {"missing": "refuse", "labels": ["a", "b", "c"]},
        {"missing": "refuse", "labels": ["a", "b", NONE]},
        *({"other": other} for other in (True, None, 0)),
        *({"groups": groups} for groups in (area, {}, None, "ab")),
        {"weight": 2},
        {"choose": "grr"},
        {"public": True},
    ):
        yield told | {"questions": [first | {"question": asked | change}, second]}
    for change in (
        {"low": 1},
        {"low": None},
        {"missing": "refuse"},
        {"labels": []},
        {"name": "q0"},
    ):
        yield told | {"questions": [first, second | {"question": number | change}]}
    inside = grouped["question"]["groups"]
    for change in (
        *({"labels": listed} for listed in (["a", "b"], ["a", "b", "b"], ["a", "b", NONE], "abc")),
        *({"labels": ["a", "b", text]} for text in ("c", " ", "x" * 201, *SKIPPING)),
        *({"text": text} for text in ("", 1, "x" * 2001, "Where from?")),
        *({"column": column} for column in ("by", "", "a place", 1)),
        {"missing": "refuse"},
        {"other": True},
        {"find": 3},
    ):
        changed = grouped["question"] | {"groups": inside | change}
        yield among | {"questions": [grouped | {"question": changed}]}


def several_changed():
    """A survey with several questions, with other ones, and as other versions have it."""
    numbers = (RandomizedResponse(k=3, epsilon=1.0), Duchi(low=0.0, high=10.0, epsilon=1.0))
    told = early(factories.several(numbers), 3).configuration()
    yield told
    yield told | {"admission": {"kind": "invited", "dishonest": 10, "entitled": 2000}}
    first, second = told["questions"]
    yield told | {"questions": [first, second | {"name": "Q-2.x_"}]}
    for questions in (
        [first],
        [],
        [first] * 2,
        [first, first | {"name": ""}],
        [first, first | {"name": "a b"}],
        [first, first | {"name": "x" * 41}],
        [first, first | {"name": 1}],
        [first, first | {"name": "x", "answers": ["a", "b", "c"]}],
        [first, first | {"name": "x", "answers": ["a", NONE]}],
        *(
            [first, first | {"name": "x", "answers": ["a", text, NONE]}]
            for text in ("b", "B", *SKIPPING)
        ),
        [first, second | {"answers": [NONE]}],
        [first, second | {"more": 1}],
        [first, second | {"answers": None}],
        [first, second | {"answers": ""}],
        [first, second | {"by": "Where?"}],
        [first, second | {"mechanism": second["mechanism"] | {"low": "0"}}],
        [first, second | {"mechanism": second["mechanism"] | {"low": "x"}}],
        [first, second | {"slots": 2}],
        [first, second | {"sampler": {}}],
        [first, {name: second[name] for name in second if name != "name"}],
        [first | {"name": f"q{number}"} for number in range(21)],
        {"a": first, "b": second},
        [1, 2],
        "ab",
        None,
    ):
        yield told | {"questions": questions}
    for change in (
        *({"version": version} for version in (1, 2, 4)),
        {"question": "Which?"},
        {"answers": []},
        {"admission": {"kind": "open", "dishonest": 0.5}},
        {"dishonest": 0},
        *({"reports_per_person": reports} for reports in (2, 501)),
        *({"delta": delta} for delta in (1e-9, 9e-10)),
    ):
        yield told | change


def grouped_changed():
    """Surveys that count by groups, alone and among several questions, and changes of them."""
    told = early(example(questions=(factories.by_groups(),)), 3).configuration()
    first = factories.several().questions[0]
    among = replace(factories.several(), questions=(first, factories.by_groups("by")))
    among = early(among, 3).configuration()
    changes = [
        *({"version": version} for version in (1, 2)),
        *({"groups": groups} for groups in ([], "abc", 3, [1, 2, 3], ["north", "south"])),
        *({"groups": ["a", "b", third]} for third in ("a", " ", "x" * 201)),
        *({"by": by} for by in ("", " ", 1, "x" * 2001, "Where from?")),
        {"answers": ["yes", "no", "maybe"]},
        {"answers": ["yes"], "groups": ["a", "b", "c", "d", "e", "f"]},
        {"answers": ["a", "b", "c", "d", "e", "f"], "groups": ["yes"]},
        {"questions": among["questions"]},
    ]
    for whole, part in ((told, told), (among, among["questions"][1])):
        for change in ({}, *changes, *({name: None} for name in ("by", "groups"))):
            left = {name for name in ("by", "groups") if change == {name: None}}
            other = {name: value for name, value in (part | change).items() if name not in left}
            yield other if part is told else whole | {"questions": [whole["questions"][0], other]}
    yield told | {"delta": 1e-12}
    yield {name: value for name, value in told.items() if name != "admission"} | {"dishonest": 0}
    texts = [f"g{number}" for number in range(101)]
    large = {"answers": texts[:100], "groups": texts}
    response = RandomizedResponse(k=10_100, epsilon=1.0)
    numbers = {"sampler": dict(response.integers), "message_bytes": response.message_bytes}
    yield told | large | numbers | {"mechanism": told["mechanism"] | {"k": 10_100}}


def test_both_take_and_refuse_the_same_surveys():
    verdicts = {"taken": 0, "unkept": 0, "tampered": 0}
    for job, there in everything()["change"]:
        here = verdict(job["survey"].encode())
        verdicts[here if here in verdicts else "taken"] += 1
        if here == "tampered":
            assert there in ("tampered", "unsupported"), job
        elif here != "unkept":  # a promise is another question than whether it is a survey
            assert there == here, job
    assert verdicts["taken"] > 10
    assert verdicts["unkept"] == 3
    assert verdicts["tampered"] > 80


def grouped_answers():
    """Jobs: answers to surveys by groups, alone and among several questions, and what is none."""
    question, first = factories.by_groups(), factories.several().questions[0]
    among = replace(factories.several(), questions=(first, factories.by_groups("by")))
    pairs = [*itertools.product(question.groups, question.answers), ("north", None), (None, "no")]
    pairs += [(None, None), ("yes", "north"), ("north",), ("north", "yes", "no"), "yes", "north", 1]
    alone = example(questions=(question,), admission=Open(dishonest=0))
    named = [{"by": pair} for pair in pairs] + [{"q0": "a1"}, {"by": None}, {"q0": ["a1", "a1"]}]
    return [
        {"job": "values", "survey": survey.to_bytes().decode(), "answers": answers}
        for survey, answers in ((alone, pairs), (among, named))
    ]


def test_both_have_the_same_codes_of_groups_and_answers():
    for job, there in everything()["values"]:
        survey = Survey.from_bytes(job["survey"].encode())
        for answer, codes in zip(job["answers"], there, strict=True):
            try:
                here = [
                    int(each) for each in np.atleast_1d(values_of(survey, [answer])[0].tolist())
                ]
            except InvalidArgumentError:
                here = "refused"
            assert codes == here, answer
    assert sum(codes != "refused" for codes in there) == 11


def every_survey():
    """Jobs: a survey of every mechanism that the client knows, and with numbers that are rare."""
    names = (*MECHANISMS, *EXTREMES)
    return [{"job": "read", "survey": survey_of(name).to_bytes().decode()} for name in names]


def test_surveys_of_every_mechanism_are_read():
    found = dict(zip((*MECHANISMS, *EXTREMES), everything()["read"], strict=True))
    _job, long = found.pop("sparse, a long table")
    assert long == "unsupported"  # the survey has its hash alone
    for name, (_job, there) in found.items():
        assert there == str(survey_of(name).id), name


def proofs():
    """Jobs: surveys of one round of every mechanism, and of several, of questions or of reports."""
    response, hadamard = shoal.RandomizedResponse, shoal.HadamardResponse(k=20, epsilon=2.0)
    asked = [
        (response(k=3, epsilon=1.0), shoal.Duchi(low=0.0, high=1.0, epsilon=2.0)),
        (hadamard, response(k=4, epsilon=4.0)),
        (response(k=3, epsilon=0.5),) * 20,
    ]
    found = [factories.several(devices, minimum=1000, epsilon=40.0) for devices in asked]
    found.append(example(response(k=4, epsilon=2.0), reports_per_person=4, epsilon=40.0))
    found += [survey_of(name) for name in MECHANISMS]
    return [{"job": "prove", "survey": survey.to_bytes().decode()} for survey in found]


def test_python_knows_what_browsers_prove():
    unproved = set()
    for job, there in everything()["prove"]:
        survey = Survey.from_bytes(job["survey"].encode())
        here = proved_epsilon(survey.devices, survey.terms, survey.batches.minimum)
        if there is None:  # JSON has no infinity
            assert here == math.inf
            unproved.add(survey.device.name)
        else:
            assert here == pytest.approx(there, rel=1e-9), survey.devices
    assert unproved == {
        "dummies",
        "sparse",
        "zero-sum",
        "zero-sum-count",
        "near-central-carriers",
    }


def test_the_browsers_own_bound_of_several_rounds_is_one_and_close():
    for job, proved in everything()["prove"]:
        survey = Survey.from_bytes(job["survey"].encode())
        if survey.several or survey.reports_per_person > 1:
            epsilon = survey.guarantee(survey.batches.minimum).epsilon
            assert epsilon * (1 - 5e-4) <= proved <= 1.02 * epsilon


def test_browsers_run_what_python_says_they_do():
    sources = ((CLIENT / "src" / f"{name}mechanisms.ts").read_text() for name in ("", "more_"))
    known = [re.findall(r'^  \["([a-z-]+)", \[', source, re.MULTILINE) for source in sources]
    assert sorted(itertools.chain(*known)) == sorted(BROWSERS)


# The documentation.

PAGE = ROOT / "docs/collect/browser-client.md"
BLOCK = re.compile(r"^```js\n(.*?)^```", re.MULTILINE | re.DOTALL)
BEFORE = """
import { NOW, Services, ShoalClient, ShoalError } from "./test/kit.mjs";
const services = await Services.open();
const { id } = services;
globalThis.fetch = services.fetch;
Date.now = () => 1000 * NOW;
console.assert = (holds) => { if (!holds) throw new Error("not as the page says"); };
"""
AFTER = "if (services.posts.length !== 1) throw new Error('sent more than once');"


def test_what_the_page_about_it_shows_is_so():
    shown = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(shown) == 4
    named = [line for block in shown for line in block.splitlines() if line.startswith("import")]
    assert named
    assert all(line.endswith('from "shoal-client";') for line in named)
    lines = [line for block in shown for line in block.splitlines() if line not in named]
    run("--input-type=module", "-", input="\n".join([BEFORE, *lines, AFTER]))


# The whole way.


@pytest.mark.parametrize("who", ["open", "invited", "several", "carriers"])
def test_people_with_browsers_are_counted_by_real_services(tmp_path, who):
    people = 12
    crowd = {"minimum": people, "target": people}
    invited, questions = who in ("invited", "several"), 3 if who == "several" else 1
    if who == "carriers":
        crowd["device"] = CarrierHistogram.calibrated(k=4, n=people, epsilon=8.0, delta=1e-6)
        crowd["epsilon"] = 8.0
    if invited:
        crowd["admission"] = Invited(entitled=people, dishonest=0)
    if questions > 1:
        asked = (*factories.several().questions, factories.by_groups("by", epsilon=0.1))
        crowd |= {"questions": asked, "epsilon": 2.0}
    with live(tmp_path, **crowd) as service:
        shuffler, analyzer = service.shuffler_worker(), service.analyzer_worker()
        job = {
            "job": "people",
            "url": service.survey.analyzer.url,
            "id": str(service.survey.id),
            "answers": [
                {
                    "q0": service.survey.questions[0].answers[person % 4],
                    "by": ["north", None if person % 2 else "yes"],
                }
                if questions > 1
                else service.survey.answers[person % 4]
                for person in range(people)
            ],
            "now": service.clock(),
        }
        if invited:
            handed = invite(service.survey, people)
            codes_to_add(service.survey, handed).apply(service.shuffler.store.codes)
            job["invitations"] = [str(each.invitation) for each in handed]
        (states,) = produced([job])
        assert states == ["sent"] * people
        shuffler.step()
        (passed,) = analyzer.collect().values()
        assert passed.problems == {}
        (batch,) = passed.published
        result = service.result(batch)
        assert (result["status"], result["valid"]) == ("published", people)
        assert not any(result["rejected"].values())
