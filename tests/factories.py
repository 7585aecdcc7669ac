"""Surveys, mechanisms and parties to test with: each is made in one way, here.

Whoever needs another says what it differs in: who owns the keys, how small a batch is.
"""

from __future__ import annotations

from shoal.mechanisms import registry
from shoal.mechanisms.response import RandomizedResponse
from shoal.questions.kinds import Choice, Groups, Number
from shoal.sealing import canonical
from shoal.service.survey import Batches, Item, Open, Party, Survey

DAY = 86_400
OPENS = 1_893_456_000
SHUFFLER = Party(url="https://shuffler.example", fingerprint="5" * 64)
ANALYZER = Party(url="https://analyzer.example", fingerprint="a" * 64)
BATCHES = Batches(minimum=1000, target=2000, max_age=DAY)
ANSWERS = ("car", "bus", "bike", "foot")
NAMES = tuple(
    name
    for name in registry.names("answers", "bits", "numbers")
    if not registry.line(name).by_sigma
)
_SHAPES = {
    "dummies": {"k": 4},
    "sparse": {"k": 4},
    "zero-sum": {"k": 4},
    "hashed-dummies": {"k": 4, "buckets": 2},
    "near-central-lean": {"k": 4, "inflation": 1.5},
    "near-central-robust": {"k": 4},
    "near-central-carriers": {"k": 4},
    "split-and-mix": {"low": 0.0, "high": 10.0},
    "near-central-sum": {"low": 0.0, "high": 10.0, "levels": 1},
}


def mechanism(name):
    """Of a name: for four answers (or two), or for numbers from 0 to 10."""
    known = registry.line(name)
    if known.several:
        made = registry.calibration(name)
        return made(n=1000, epsilon=2.0, delta=1e-6, **_SHAPES.get(name, {}))
    numbers = known.takes == "numbers"
    shape = {"low": 0.0, "high": 10.0} if numbers else {"k": 4}
    return registry.by_name(name)(epsilon=1.0, **shape)


def party(role, fingerprint):
    """Known by a fingerprint alone, at the address that everybody has in examples."""
    return Party(url=f"https://{role}.example", fingerprint=fingerprint)


def example(device=None, *, opens=OPENS, days=30, **fields):
    """A survey that is fine, but for what is changed.

    Besides its fields: from when on and how many ``days`` it is open, and the fields of its
    batches. ``target`` is the minimum if only that is said. Parties may be fingerprints. Anybody
    may answer, and so many people are ``dishonest``, unless it has an ``admission``; a fraction of
    the reports makes it a survey of version 1.
    """
    device = fields.pop("device", device) or RandomizedResponse(k=4, epsilon=1.0)
    k = getattr(device, "k", 0)
    answers = ANSWERS[:k] if k <= len(ANSWERS) else tuple(f"answer {i}" for i in range(k))
    text = fields.pop("question", "How did you travel to work?")
    about = {
        "name": "travel",
        "questions": (item(device, fields.pop("answers", answers), text=text, missing="refuse"),),
        "purpose": "Planning of bus lines",
        "batches": _batches(fields),
        "epsilon": 2.5,
        "delta": 1e-6,
        "not_before": opens,
        "not_after": opens + days * DAY,
        "shuffler": SHUFFLER,
        "analyzer": ANALYZER,
    } | fields
    dishonest = about.pop("dishonest", 0)
    fraction = 0 < dishonest < 1
    about.setdefault("admission", Open(dishonest=0 if fraction else dishonest))
    for role in ("shuffler", "analyzer"):
        if isinstance(about[role], str):
            about[role] = party(role, about[role])
    return early(Survey(**about), dishonest=dishonest) if fraction else Survey(**about)


def item(device, answers=(), name="answer", **about):
    """A question with these answers, or a number between the bounds of the mechanism."""
    if answers:
        return Item(Choice(name, answers, **about), device)
    low, high = getattr(device, "low", 0.0), getattr(device, "high", 1.0)
    return Item(Number(name, low, high, text=about["text"]), device)


def several(devices=None, **fields):
    """A survey with a question for each of these devices, which people may skip."""
    devices = devices or (
        RandomizedResponse(k=4, epsilon=1.0),
        RandomizedResponse(k=3, epsilon=0.8),
    )
    questions = tuple(
        item(
            device,
            [f"a{i}" for i in range(getattr(device, "k", 0) - 1)],
            f"q{number}",
            text=f"Question {number}?",
        )
        for number, device in enumerate(devices)
    )
    return example(questions=questions, **{"epsilon": 4.0, **fields})


def by_groups(name="", epsilon=1.0):
    """A question whose answers are counted by groups; one of several if it has a name."""
    missing = "cell" if name else "refuse"
    groups = Groups("group", ["north", "south", "east"], text="Your region", missing=missing)
    asked = Choice(
        name or "answer", ["yes", "no"], text="Do you agree?", groups=groups, missing=missing
    )
    return Item(asked, RandomizedResponse(k=12 if name else 6, epsilon=epsilon))


def early(survey, version=1, *, dishonest=0):
    """The same survey as a document of this earlier version says it, and of the first, how many."""
    told, parts = {**survey.configuration(), "version": version}, []
    for each, stored in zip(survey.questions, told.pop("questions"), strict=True):
        part = {**stored, "question": each.text, "answers": list(each.answers)}
        part |= {"by": each.by, "groups": list(each.groups)} if each.groups else {}
        parts.append(part | ({"name": each.name} if survey.several else {}))
    told |= {"questions": parts} if survey.several else parts[0]
    if version == 1:
        del told["admission"]
        told["dishonest"] = dishonest
    return Survey.from_bytes(canonical(told))


def _batches(fields):
    """Takes what is said of batches out of the other fields."""
    names = [name for name in ("minimum", "target", "max_age", "small") if name in fields]
    said = {name: fields.pop(name) for name in names}
    if not said:
        return BATCHES
    smallest = said.get("minimum", BATCHES.minimum)
    return Batches(**{"minimum": smallest, "target": smallest, "max_age": DAY} | said)
