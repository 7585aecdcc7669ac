"""Answers of the accountant, messages, plans, runs and survey ids, written down once.

The files in ``recorded`` hold questions as data, each with its answer: of the accountant, messages
of mechanisms, plans, runs of a simulation, and documents of surveys with their ids. A change that
is not meant to touch numbers or samplers finds all of them as they were; one that improves an
answer writes the files anew (``python tests/recording.py``) and lists in its message what moved.
"""

from __future__ import annotations

import itertools
import json
import math
import zlib
from pathlib import Path

import numpy as np

import shoal
from shoal.learning import account
from shoal.mechanisms.dummies import PartitionedDummies
from shoal.mechanisms.partitioned import PartitionedResponse
from shoal.mechanisms.prefixes import PrefixDummies, PrefixResponse
from shoal.mechanisms.registry import restored
from shoal.network import Walk, WalkAccountant, complete, random_regular
from shoal.questions.kinds import KINDS
from shoal.randomness import simulated

HOME = Path(__file__).parent / "recorded"
NUMBERS, MESSAGES = HOME / "accountant.json", HOME / "messages.json"
CAPS = HOME / "caps.json"  # of PrivUnit: the best one, as one machine derived it
CAPPED = ("privunit", "privunitg")
PLANS, RESULTS, SURVEYS = (HOME / f"{name}.json" for name in ("plans", "runs", "surveys"))
PEOPLE = 37  # of each recorded output: more would tell no more
UNLISTED = {
    made.name: made
    for made in (PartitionedDummies, PartitionedResponse, PrefixDummies, PrefixResponse)
}
WORDS = ("ab", "ba", "abc", "c", "", "cab", "bca", "aaa")


# The accountant.


def subject(of):
    """What a question is about: a described mechanism, a table of probabilities, or nothing."""
    if of is None:
        return ()
    return (shoal.BlanketLaw.from_table(of),) if isinstance(of, list) else (restored(of),)


def _compare(of, given):
    rows = shoal.compare(*subject(of), **given)
    return {row.name: row.epsilon for row in rows}


def _family(of, given):
    makes = None if of is None else lambda *, epsilon: restored({**of, "epsilon": epsilon})
    return shoal.local_epsilon(makes, **given)


def _curve(of, given):
    """One point of a curve: which method, and where."""
    given = dict(given)
    method, at = given.pop("method"), given.pop("at")
    return getattr(shoal.profile(*subject(of), **given), method)(at)


def _protocol(of, given):
    """One point of the curve of a mechanism with several messages."""
    return getattr(restored(of).profile(given["n"]), given["method"])(given["at"])


def _walk(_, given):
    setting = dict(given)
    kind, n, degree, number = setting.pop("graph")
    asked = {name: setting.pop(name) for name in ("rounds", "delta") if name in setting}
    regular = kind == "regular"
    graph = random_regular(n, degree, randomness=simulated(number)) if regular else complete(n)
    return WalkAccountant(Walk(graph), **setting).guarantee(**asked).epsilon


CALLS = {
    "amplify": lambda of, given: shoal.amplify(*subject(of), **given).epsilon,
    "delta": lambda of, given: shoal.amplify(*subject(of), **given).delta,
    "lower": lambda of, given: shoal.amplify(*subject(of), **given).lower,
    "local_epsilon": _family,
    "required_n": lambda of, given: shoal.required_n(*subject(of), **given),
    "curve": _curve,
    "protocol": _protocol,
    "compare": _compare,
    "training": lambda _, given: account(**given).epsilon,
    "walk": _walk,
}


def with_crowd(given):
    """What a question says, with those who take part as a crowd."""
    crowd = {name: given[name] for name in ("honest_fraction", "participation") if name in given}
    if not crowd:
        return given
    others = {name: value for name, value in given.items() if name not in crowd}
    return others | {"crowd": shoal.Crowd(**crowd)}


def answer(call, of, given):
    """The number, or the name of the error that refuses the question."""
    try:
        return CALLS[call](of, with_crowd(given))
    except shoal.ShoalError as error:
        return type(error).__name__


def dear(call, of, given):
    """Whether the answer takes as long as fifty others."""
    gaussian = isinstance(of, dict) and of["name"].startswith("gaussian")
    return call in {"curve", "training", "walk"} or "rounds" in given or gaussian


def tables():
    """Random tables of probabilities, none of them zero."""
    draw = np.random.default_rng(20)
    for inputs, outputs in itertools.product((2, 3, 5), (2, 3, 4, 6)):
        rows = draw.dirichlet(np.full(outputs, 2.0), inputs) + 0.02
        yield np.round(rows / rows.sum(axis=1, keepdims=True), 6).tolist()


def exact(table):
    """The same with rows that add up to 1 exactly, as far as floats go."""
    return [[*row[:-1], 1 - math.fsum(row[:-1])] for row in table]


def devices():
    """Randomizers with a local epsilon, small and large."""
    for k, local in itertools.product((2, 3, 10, 100, 5000), (0.3, 1.0, 3.0, 6.0)):
        for name in ("grr", "hadamard", "projective", "subset", "unary", "hashing"):
            yield {"name": name, "k": k, "epsilon": local}
    for name, local in itertools.product(
        ("laplace", "duchi", "piecewise", "rounded"), (0.5, 1.0, 2.0, 4.0)
    ):
        yield {"name": name, "low": -1.0, "high": 3.0, "epsilon": local}
    for name, dimension, local in itertools.product(
        ("privunit", "privunitg"), (2, 5, 20), (1.0, 4.0)
    ):
        yield {"name": name, "dimension": dimension, "epsilon": local}
    for sigma in (0.5, 2.0):
        yield {"name": "gaussian", "low": 0.0, "high": 1.0, "sigma": sigma}
        yield {"name": "gaussian-vectors", "dimension": 3, "norm": 1.0, "sigma": sigma}


SHAPES = {
    "dummies": [{"k": 2}, {"k": 10}, {"k": 100}],
    "sparse": [{"k": 4}, {"k": 20}],
    "zero-sum": [{"k": 3}, {"k": 12}],
    "hashed-dummies": [{"k": 50, "buckets": 8}, {"k": 1000, "buckets": 16}],
    "near-central-lean": [{"k": 2}, {"k": 10}, {"k": 100}],
    "near-central-robust": [{"k": 3}, {"k": 30}],
    "near-central-carriers": [{"k": 4}],
    "near-central": [{}],
    "zero-sum-count": [{}],
    "coins": [{}],
    "split-and-mix": [{"low": 0.0, "high": 10.0}],
    "near-central-sum": [{"low": 0.0, "high": 10.0, "levels": 4}],
    "split-and-mix-vectors": [{"dimension": 3, "bound": 1.0}],
    "gaussian": [{"low": 0.0, "high": 1.0}],
    "gaussian-vectors": [{"dimension": 3, "norm": 1.0}],
}
TARGETS = [
    {"n": 1_000, "epsilon": 1.0, "delta": 1e-6},
    {"n": 10_000, "epsilon": 0.5, "delta": 1e-7},
    {"n": 200, "epsilon": 3.0, "delta": 1e-5},
]


def protocols():
    """Mechanisms made for so many people, with their targets."""
    from shoal.mechanisms.registry import calibration

    for name, shapes in SHAPES.items():
        for shape, target in itertools.product(shapes, TARGETS):
            try:
                yield calibration(name)(**target, **shape).described(), target
            except shoal.ShoalError:
                continue


def questions():
    """Every question: the call, what it is about, its other arguments."""
    deltas, people = (1e-3, 1e-6, 1e-10), (2, 10, 100, 1_000, 10_000, 10**6, 10**9)
    for local, n, delta in itertools.product((0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0), people, deltas):
        yield "amplify", None, {"local_epsilon": local, "n": n, "delta": delta}
    for number, device in enumerate(devices()):
        n = people[1:][number % 5]
        yield "amplify", device, {"n": n, "delta": deltas[number % 3]}
    for number, table in enumerate(map(exact, tables())):
        n = people[1:][number % 5]
        yield "amplify", table, {"n": n, "delta": 1e-6}
        yield "delta", table, {"n": n, "epsilon": 0.2}
        yield "lower", table, {"n": n, "delta": 1e-6}
    for local, n in itertools.product((0.5, 1.0, 3.0, 5.0), (20, 500, 20_000)):
        base = {"local_epsilon": local, "n": n}
        yield "delta", None, {**base, "epsilon": local / 3}
        yield "lower", None, {**base, "delta": 1e-6}
        yield "amplify", None, {**base, "delta": 1e-4, "local_delta": 1e-9}
        yield "amplify", None, {"deletion_epsilon": local, "n": n, "delta": 1e-6}
        yield "amplify", None, {**base, "delta": 1e-6, "participation": 0.3}
        yield "amplify", None, {**base, "delta": 1e-6, "honest_fraction": 0.8}
        yield "amplify", None, {**base, "delta": 1e-6, "bound": "clones"}
        if n == 500:
            yield "curve", None, {**base, "method": "renyi", "at": 16.0}
        yield "local_epsilon", None, {"epsilon": local / 4, "delta": 1e-6, "n": 100 * n}
        yield "required_n", None, {"local_epsilon": local, "epsilon": local / 4, "delta": 1e-6}
    for name, k, n in itertools.product(
        ("grr", "subset", "unary", "hadamard"), (2, 20), (300, 30_000)
    ):
        yield "local_epsilon", {"name": name, "k": k}, {"epsilon": 0.7, "delta": 1e-6, "n": n}
        device = {"name": name, "k": k, "epsilon": 2.5}
        yield "required_n", device, {"epsilon": 0.5, "delta": 10.0 / n**2}
        yield "lower", device, {"n": n, "delta": 1e-6}
        if n == 300:
            yield "curve", device, {"n": n, "method": "renyi", "at": 4.0}
            yield "amplify", device, {"n": n, "delta": 1e-6, "rounds": 5}
    for local, n in itertools.product((1.0, 4.0), (1_000, 100_000)):
        yield "compare", None, {"local_epsilon": local, "n": n, "delta": 1e-6}
        for rounds in (2, 30):
            yield "amplify", None, {"local_epsilon": local, "n": n, "delta": 1e-6, "rounds": rounds}
    for device, target in protocols():
        if device["name"].startswith("gaussian"):
            yield "amplify", device, {"n": target["n"], "delta": target["delta"]}
            continue
        yield "protocol", device, {"n": target["n"], "method": "delta", "at": target["epsilon"]}
        yield "protocol", device, {"n": target["n"], "method": "epsilon", "at": target["delta"]}
        yield "protocol", device, {"n": 2 * target["n"], "method": "delta", "at": target["epsilon"]}
    samplings = ("permutation", "replacement", "poisson", "fixed")
    for noise, sampling in itertools.product((0.8, 4.0), samplings):
        given = {"noise_multiplier": noise, "n": 2_000, "sampling": sampling, "delta": 1e-6}
        yield "training", None, {**given, "epochs": 2}
    for kind, n, rounds in itertools.product(("complete", "regular"), (50, 400), (2, 12)):
        given = {"graph": [kind, n, 6, 1], "rounds": rounds, "local_epsilon": 1.0, "delta": 1e-5}
        yield "walk", None, given


# The mechanisms.


def made(of):
    """The mechanism of a description; those that no command names are made for their target."""
    if of["name"] not in UNLISTED:
        device = restored(of)
        if of["name"] in CAPPED:  # where the error is flat, a processor's last digits choose
            best = next(best for described, best in recorded(CAPS) if described == of)
            device.__dict__["_best"] = tuple(best)
        return device
    kind = UNLISTED[of["name"]]
    parameters = {key: value for key, value in of.items() if key != "name"}
    return kind.calibrated(**parameters) if "n" in parameters else kind(**parameters)


def values(device, number):
    """What people answer: the same for a number on every machine."""
    people = np.arange(PEOPLE) * (2 * number + 3) + number
    if hasattr(device, "tree"):
        return [WORDS[i % len(WORDS)] for i in people]
    if hasattr(device, "dimension"):
        rows = (people[:, None] * (np.arange(device.dimension) + 2)) % 13 - 6.5
        if device.name.startswith("split"):
            return rows / np.abs(rows).sum(axis=1, keepdims=True) * device.bound
        return rows / np.sqrt((rows**2).sum(axis=1, keepdims=True)) * getattr(device, "norm", 1.0)
    if hasattr(device, "low"):
        return device.low + (device.high - device.low) * (people % 17) / 16
    return people % getattr(device, "k", 2)


def output(device, number):
    """A check sum of everybody's messages and, with several each, of how many they are."""
    reports = device.randomize(values(device, number), randomness=simulated(number))
    parts = (reports,) if isinstance(reports, np.ndarray) else (reports.messages, reports.sizes)
    whole = b"".join(np.ascontiguousarray(part, dtype=np.int64).tobytes() for part in parts)
    return zlib.crc32(whole)


def outputs(of):
    device = made(of)
    return [output(device, number) for number in range(8)]


def mechanisms():
    yield from devices()
    yield from (device for device, _ in protocols())
    for symbols, partitions in itertools.product((2, 4), (1, 5)):
        yield {
            "name": "partitioned",
            "k": 24,
            "epsilon": 1.5,
            "symbols": symbols,
            "partitions": partitions,
            "coins": 3,
        }
        yield {
            "name": "partitioned-dummies",
            "k": 24,
            "n": 1000,
            "epsilon": 1.0,
            "delta": 1e-6,
            "symbols": symbols,
            "partitions": partitions,
        }
    for name in ("prefix-dummies", "prefix-grr"):
        yield {
            "name": name,
            "n": 5_000,
            "epsilon": 1.0,
            "delta": 1e-6,
            "length": 3,
            "alphabet": "abc",
        }


# Plans, runs and surveys.


def asking(kind, **fields):
    """A question, as a file has it."""
    return {"kind": kind, "name": "asked", **fields}


def askings():
    """What plans are made for: answers, numbers and vectors, and how they are limited."""
    kinds = [asking("choice", labels=k) for k in (2, 3, 5, 20, 300, 20_000)]
    kinds += [asking("number", low=low, high=high) for low, high in ((0.0, 1.0), (-3.0, 100.0))]
    kinds += [asking("vector", coordinates=2), asking("vector", coordinates=30, norm=2.5)]
    for number, (kind, n) in enumerate(itertools.product(kinds, (200, 10_000, 10**6))):
        yield {"question": kind, "n": n, "epsilon": (1.0, 0.3, 3.0)[number % 3]}
    several = [asking("choice", labels=k) for k in (2, 6, 500)]
    several += [asking("number", low=0.0, high=10.0)]
    for kind, cap, n in itertools.product(several, (2.0, 40.0, "any"), (1_000, 50_000)):
        yield {"question": kind, "n": n, "epsilon": 1.0, "limits": {"messages": cap}}
    kinds = (
        asking("choice", labels=4),
        asking("number", low=0.0, high=1.0),
        asking("vector", coordinates=3, norm=1.0),
    )
    for kind in kinds:
        given = {"question": kind, "n": 5_000, "epsilon": 1.0}
        yield {**given, "limits": {"local_epsilon": 1.5}}
        yield {**given, "delta": 1e-8, "crowd": {"honest_fraction": 0.9}}
        yield {**given, "epsilon": 0.5, "crowd": {"participation": 0.5}}


def question(of):
    """The question of a file."""
    return KINDS[of["kind"]].from_dict(of)


def terms(given):
    """The terms among what is given, from plain values."""
    kinds = {"crowd": shoal.Crowd.from_dict, "limits": shoal.Limits.from_dict}
    kinds |= {"person": lambda it: shoal.Person(**it), "mechanism": lambda it: shoal.Named(**it)}
    return {name: kinds[name](it) if name in kinds else it for name, it in given.items()}


def planned(given):
    """The options in their order, each with what it runs and its errors; and the ε that is kept."""
    given = terms(given)
    try:
        made = shoal.plan(question(given.pop("question")), **given)
    except shoal.ShoalError as error:
        return type(error).__name__
    options = [
        [
            each.name,
            None if each.randomizer is None else each.randomizer.described(),
            None if each.errors is None else [each.errors.l2, each.errors.linf, each.errors.cell],
        ]
        for each in made.options
    ]
    return {"options": options, "epsilon": made.guarantee.epsilon}


def table(n):
    """People with a color, a city, an age and a speed; some without a color."""
    number = np.arange(n)
    return {
        "color": [None if i % 41 == 7 else ("red", "green", "blue")[i * i % 7 % 3] for i in number],
        "city": [("north", "south")[i % 5 // 3] for i in number],
        "age": [float(i * 13 % 90) for i in number],
        "speed": [float(i * 7 % 11) / 11 for i in number],
        "id": [int(i * 3 % (n // 2)) for i in number],
    }


COLOR, SPEED = asking("choice", name="color"), asking("number", name="speed", low=0.0, high=1.0)
CITY = asking("choice", name="city")
AGE = asking("bins", name="age", low=0, high=100)
MOVED = asking("vector", name="moved", coordinates=["age", "speed"], norm=100.0)
BY_CITY = {"column": "city"}
ONE = {"epsilon": 1.0}
RUNS = (
    {"questions": [COLOR], **ONE},
    {"questions": [COLOR | {"labels": ["red", "green"]}], **ONE},
    {"questions": [COLOR | {"missing": "drop"}], **ONE},
    {"questions": [COLOR], **ONE, "limits": {"messages": 30.0}},
    {"questions": [COLOR | {"choose": "subset"}], **ONE},
    {
        "questions": [COLOR],
        **ONE,
        "crowd": {"honest_fraction": 0.8},
        "limits": {"local_epsilon": 1.0},
    },
    {"questions": [COLOR], "mechanism": {"name": "grr", "epsilon": 2.0}},
    {"questions": [SPEED], **ONE},
    {"questions": [SPEED], "mechanism": {"name": "laplace", "epsilon": 1.0}},
    {"questions": [AGE | {"bins": 10, "quantiles": [0.5]}], **ONE},
    {"questions": [AGE | {"bins": 64, "tree": True}], **ONE, "limits": {"messages": 30.0}},
    {"questions": [AGE | {"bins": "auto", "ranges": [[10, 40]]}], **ONE},
    {
        "questions": [asking("bins", name="age", bins=[0, 18, 40, 100], groups=BY_CITY)],
        **ONE,
    },
    {"questions": [COLOR | {"groups": BY_CITY}], **ONE},
    {
        "questions": [COLOR | {"groups": BY_CITY | {"labels": ["north", "south", "west"]}}],
        "epsilon": 2.0,
    },
    {"questions": [COLOR, CITY], **ONE},
    {"questions": [COLOR | {"weight": 2.0}, CITY], **ONE},
    {"questions": [COLOR, CITY], **ONE, "limits": {"each": True}},
    {"questions": [COLOR, SPEED], **ONE},
    {"questions": [COLOR], **ONE, "person": {"column": "id"}},
    {"questions": [COLOR], "epsilon": 2.0, "person": {"column": "id", "reports": 2}},
    {"questions": [MOVED], **ONE},
    {"questions": [MOVED | {"choose": "gaussian-vectors"}], **ONE},
    {"questions": [COLOR], **ONE, "compare_truth": True},
)


def ran(given):
    """What a run of a simulation estimates, and the guarantee of all of it."""
    given = terms(given)
    asked = list(map(question, given.pop("questions")))
    result = shoal.run(table(6_000), asked, randomness=simulated(7), **given)
    columns = [
        {
            "labels": list(each.labels),
            "n": each.n,
            "randomizer": each.randomizer.described(),
            "rows": [
                [value for value in row.values() if isinstance(value, float)]
                for row in each.records()[:12]
            ],
        }
        for each in result.columns
    ]
    kept = result.guarantee
    return {"columns": columns, "guarantee": [kept.epsilon, kept.delta, kept.n, kept.theorem]}


def surveys():
    """Documents of all versions."""
    import factories
    from shoal.service.admission import Invited, Open

    yield from (factories.example(factories.mechanism(name)) for name in ("grr", "hadamard"))
    for name in ("duchi", "unary", "near-central-robust", "split-and-mix"):
        yield factories.example(factories.mechanism(name), question="How far?", epsilon=8.0)
    yield factories.example(admission=Open(dishonest=3))
    yield factories.example(
        admission=Invited(entitled=3_000, dishonest=2), reports_per_person=2, epsilon=4.0
    )
    yield factories.example(participation=0.5, dishonest=0.1, small="expire")
    yield factories.several()
    yield factories.several(reports_per_person=2, epsilon=8.0)
    yield factories.example(questions=(factories.by_groups(),), admission=Open(dishonest=0))
    yield factories.several(
        devices=(factories.mechanism("grr"), factories.mechanism("duchi")), participation=0.9
    )


def promised(document):
    """The id of a survey's document, and the ε of a batch of its least and of twice that size."""
    survey = shoal.Survey.from_bytes(document.encode())
    least = survey.batches.minimum
    return [str(survey.id), *(survey.guarantee(n).epsilon for n in (least, 2 * least))]


def recorded(path):
    return json.loads(path.read_text(encoding="utf-8"))


def _write(path, rows):
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    _write(NUMBERS, ([call, of, given, answer(call, of, given)] for call, of, given in questions()))
    capped = [of for of in mechanisms() if of["name"] in CAPPED]
    _write(CAPS, ([of, list(restored(of)._best)] for of in capped))
    _write(MESSAGES, ([of, outputs(of)] for of in mechanisms()))
    _write(PLANS, ([given, planned(given)] for given in askings()))
    _write(RESULTS, ([given, ran(given)] for given in RUNS))
    documents = (survey.to_bytes().decode() for survey in surveys())
    _write(SURVEYS, ([document, promised(document)] for document in documents))
