"""Surveys, mechanisms and parties to test with: each is made in one way, here.

Whoever needs another says what it differs in: who owns the keys, how small a batch is.
"""

from __future__ import annotations

from shoal.mechanisms import registry
from shoal.mechanisms.response import RandomizedResponse
from shoal.service.admission import OpenFraction
from shoal.service.survey import NONE, Batches, Open, Party, Question, Survey

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
    batches. ``target`` is the minimum if only that is said. Parties may be fingerprints. It is of
    version 1, with a fraction of ``dishonest`` reports, unless it has another ``admission``.
    """
    device = RandomizedResponse(k=4, epsilon=1.0) if device is None else device
    k = getattr(device, "k", 0)
    asked = {
        "text": fields.pop("question", "How did you travel to work?"),
        "answers": ANSWERS[:k] if k <= len(ANSWERS) else tuple(f"answer {i}" for i in range(k)),
        "device": device,
    }
    asked |= {name: fields.pop(name) for name in ("answers", "device") if name in fields}
    about = {
        "name": "travel",
        "questions": (Question(**asked),),
        "purpose": "Planning of bus lines",
        "batches": _batches(fields),
        "epsilon": 2.5,
        "delta": 1e-6,
        "not_before": opens,
        "not_after": opens + days * DAY,
        "shuffler": SHUFFLER,
        "analyzer": ANALYZER,
    } | fields
    about.setdefault("admission", OpenFraction(dishonest=about.pop("dishonest", 0.0)))
    for role in ("shuffler", "analyzer"):
        if isinstance(about[role], str):
            about[role] = party(role, about[role])
    return Survey(**about)


def several(devices=None, **fields):
    """A survey with a question for each of these devices, the last answer of which is to skip."""
    devices = devices or (
        RandomizedResponse(k=4, epsilon=1.0),
        RandomizedResponse(k=3, epsilon=0.8),
    )
    questions = tuple(
        Question(
            name=f"q{number}",
            text=f"Question {number}?",
            answers=(*(f"a{i}" for i in range(device.k - 1)), NONE) if hasattr(device, "k") else (),
            device=device,
        )
        for number, device in enumerate(devices)
    )
    fields = {"admission": Open(dishonest=0), "epsilon": 4.0, **fields}
    return example(questions=questions, **fields)


def by_groups(name="", epsilon=1.0):
    """A question whose answers are counted by groups; one of several if it has a name."""
    none = (NONE,) if name else ()
    answers, groups = ("yes", "no", *none), ("north", "south", "east", *none)
    return Question(
        name=name,
        text="Do you agree?",
        answers=answers,
        by="Your region",
        groups=groups,
        device=RandomizedResponse(k=len(answers) * len(groups), epsilon=epsilon),
    )


def _batches(fields):
    """Takes what is said of batches out of the other fields."""
    names = [name for name in ("minimum", "target", "max_age", "small") if name in fields]
    said = {name: fields.pop(name) for name in names}
    if not said:
        return BATCHES
    smallest = said.get("minimum", BATCHES.minimum)
    return Batches(**{"minimum": smallest, "target": smallest, "max_age": DAY} | said)
