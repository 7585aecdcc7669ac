"""The browser client in Node: its own tests, and that it and Python understand each other."""

from __future__ import annotations

import itertools
import json
import math
import re
import subprocess
from functools import cache

import numpy as np
import pytest

import shoal
from browser_kit import chromium, node
from factories import example
from repository import ROOT
from service.live import live, quick_directory
from shoal.protocols.counts import FairCoins
from shoal.randomizers import hashing
from shoal.sealing import KeyPair, canonical
from shoal.sealing.errors import SealingError
from shoal.service.admission import Invited
from shoal.service.ops.invitations import codes_to_add, invite
from shoal.service.survey import Survey
from shoal.service.survey.document import InconsistentSurveyError
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
    true = device._odds.high / device.integers["total"]
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
        assert device.admissible(rows).all(), job
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
        const device = surveys.deviceFor(await surveys.readSurvey(bytes));
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
    return [wire.open_record(record, analyzer).hex() for record in wire.split(sealed)]


def seals():
    """Jobs: recorded messages, and several of one person, to be sealed."""
    cases = [case for case in REPORTS if not case["token"] and case["name"] != "hybrid"]
    dummies = survey_of("dummies")
    several = cases[0] | {"survey": dummies.to_bytes().decode(), "id": str(dummies.id)}
    sent = dummies.device.encode(dummies.device.randomize([0, 1, 2]))
    rows = sent.reshape(3, dummies.device.slots, dummies.device.message_bytes)
    cases.append(several | {"messages": [[row.tobytes().hex() for row in one] for one in rows]})
    return [
        {name: case[name] for name in ("survey", "id", "shuffler", "analyzer")}
        | {"job": "seal", "messages": messages}
        for case in cases
        for messages in case["messages"]
    ]


def test_what_the_browser_seals_opens_here():
    found = everything()["seal"]
    assert len(found) == 9
    for job, report in found:
        assert opened(job, report) == job["messages"]


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
    survey = example(admission=Invited(entitled=1000, dishonest=0)).to_bytes().decode()
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
    "question": [" ", None, "why?"],
    "answers": [
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
        return str(Survey.from_bytes(data).id)
    except InconsistentSurveyError as error:
        return "unkept" if error.unkept else "tampered"
    except SealingError:
        return "tampered"


def changed():
    """Jobs: a survey with other values, with fewer fields, and written in other ways."""
    told = example().configuration()
    documents = [canonical(told | {name: value}) for name in CHANGES for value in CHANGES[name]]
    documents += [canonical({name: told[name] for name in told if name != left}) for left in told]
    invited = example(admission=Invited(entitled=1000, dishonest=0)).configuration()
    documents += [canonical(invited | {"admission": admission}) for admission in ADMISSIONS]
    documents += [canonical(invited | more) for more in ({"dishonest": 0}, {"version": 1})]
    documents += [example().to_bytes(), example().to_bytes() + b" ", b"{}", b""]
    return [{"job": "read", "survey": data.decode()} for data in documents]


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
    assert verdicts["unkept"] == 2
    assert verdicts["tampered"] > 80


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


# The documentation.

PAGE = ROOT / "docs" / "browser-client.md"
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
    assert len(shown) == 5
    named = [line for block in shown for line in block.splitlines() if line.startswith("import")]
    assert named
    assert all(line.endswith('from "shoal-client";') for line in named)
    lines = [line for block in shown for line in block.splitlines() if line not in named]
    run("--input-type=module", "-", input="\n".join([BEFORE, *lines, AFTER]))


# The whole way.


@pytest.mark.parametrize("invited", [False, True])
def test_people_with_browsers_are_counted_by_real_services(invited):
    people = 12
    crowd = {"minimum": people, "target": people}
    if invited:
        crowd["admission"] = Invited(entitled=people, dishonest=0)
    with quick_directory() as directory, live(directory, **crowd) as service:
        shuffler, analyzer = service.shuffler_worker(), service.analyzer_worker()
        job = {
            "job": "people",
            "url": service.survey.analyzer.url,
            "id": str(service.survey.id),
            "answers": [service.survey.answers[person % 4] for person in range(people)],
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
