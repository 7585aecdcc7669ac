"""Answers of the accountant, messages, plans, runs and survey ids, written down once.

The files in ``recorded`` hold questions as data, each with its answer: of the accountant, messages
of mechanisms, plans, runs of a simulation, and documents of surveys with their ids. A change that
is not meant to touch numbers or samplers finds all of them as they were; one that improves an
answer writes the files anew (``python tests/recording.py``) and lists in its message what moved.
A new question is a line in a file, with no answer (``null``) until then.
"""

from __future__ import annotations

import json
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


# Plans, runs and surveys.


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


def promised(document):
    """The id of a survey's document, and the ε of a batch of its least and of twice that size."""
    survey = shoal.Survey.from_bytes(document.encode())
    least = survey.batches.minimum
    return [str(survey.id), *(survey.guarantee(n).epsilon for n in (least, 2 * least))]


def recorded(path):
    return json.loads(path.read_text(encoding="utf-8"))


def _answered(path, now):
    """The file, each of its questions with the answer of now."""
    rows = [[*row[:-1], now(*row[:-1])] for row in recorded(path)]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    _answered(NUMBERS, answer)
    _answered(CAPS, lambda of: list(restored(of)._best))
    _answered(MESSAGES, outputs)
    _answered(PLANS, planned)
    _answered(RESULTS, ran)
    _answered(SURVEYS, promised)
