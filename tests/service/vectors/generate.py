"""Write the recorded surveys, reports and key lists anew; run it as a script.

Only for a new version of the wire format, or of a survey's configuration: what is recorded has to
open for as long as version 1 does. Keys are fixed; sealing is fresh every time.

``mechanisms_v1.json`` is for clients in other languages: what every mechanism makes of given draws,
byte for byte, and what the accountant says of small surveys. ``admission_v1.json`` has invitations,
the codes that they give, and surveys of version 2. ``compositions_v1.json`` has surveys with
several questions, and what is proved of them by the accountant and in browsers. Arguments name the
files to write; all of them otherwise.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

import shoal
from factories import early, example, mechanism, several
from shoal.mechanisms.counts import FairCoins
from shoal.randomness import Randomness, simulated
from shoal.sealing import KeyPair
from shoal.sealing.keys import HYBRID, X25519
from shoal.service.admission import Invitation, Invited, Open
from shoal.service.keyring.key_list import Identity, KeyInfo, KeyList, KeyState
from shoal.service.survey import Batches
from shoal.service.survey.browser import proved_epsilon
from shoal.service.survey.design import Design
from shoal.service.wire import Wire
from shoal.values import attributes

HERE = Path(__file__).parent
REPORTS = 3
VALUES = [0, 1, 1]


def pair(suite, name, number):
    """A key that is the same every time."""
    length = suite.secret_bytes
    secret = bytes((7 * place + len(name) + number) % 256 for place in range(length))
    return KeyPair.from_secret(secret, number=number)


def written(key):
    """Both halves of a key."""
    return {
        "number": key.public.number,
        "secret": key.raw.hex(),
        "public": key.public.raw.hex(),
    }


def case(name, survey, suite):
    """A survey, its keys, and reports with what is in them."""
    shuffler, analyzer = pair(suite, "shuffler", 3), pair(suite, "analyser", 250)
    wire = Wire.of(survey)
    drawn = simulated(1)
    token = bytes(range(survey.token_bytes))
    sent = survey.device.encode(survey.device.randomize(VALUES, randomness=drawn))
    slots = sent.reshape(REPORTS, survey.device.slots, survey.device.message_bytes).astype(np.uint8)
    keys = {"analyzer": analyzer.public, "shuffler": shuffler.public}
    return {
        "name": name,
        "survey": survey.to_bytes().decode(),
        "id": str(survey.id),
        "shuffler": written(shuffler),
        "analyzer": written(analyzer),
        "record_bytes": wire.sections[0].record_bytes,
        "report_bytes": wire.report_bytes,
        "token": token.hex(),
        "messages": [[row.tobytes().hex() for row in person] for person in slots],
        "reports": [wire.seal(person, token=token, **keys).hex() for person in slots],
    }


def key_list(role):
    """A list of two keys, as it is published."""
    identity = Identity(role, bytes(range(32)))
    keys = tuple(
        KeyInfo(
            number=number,
            suite=suite.name,
            public=pair(suite, role, number).public,
            state=KeyState.ACTIVE,
            created=1000,
            active_from=1000,
            expires_at=2000,
            deletes_at=3000,
        )
        for number, suite in ((3, X25519), (4, HYBRID))
    )
    made = KeyList.signed(identity, keys, issued=1000, valid_until=2000)
    return {
        "role": role,
        "fingerprint": made.fingerprint,
        "document": made.to_bytes().decode(),
        "now": 1500,
        "current": {key.suite: key.public.raw.hex() for key in keys},
    }


def reports():
    """Surveys and reports of every shape."""
    several_messages = example(mechanism("dummies"), token_bytes=5)
    cases = [
        case("one message", early(example()), X25519),
        case("a number", early(example(mechanism("duchi"))), X25519),
        case("several messages and a token", early(several_messages), X25519),
        case("hybrid", early(example(suite=HYBRID.name)), HYBRID),
    ]
    return {"version": 1, "cases": cases}


def key_lists():
    """One list of each party."""
    return {"version": 1, "lists": [key_list("shuffler"), key_list("analyzer")]}


class Recorded(Randomness):
    """A seeded source that writes down every whole number it was asked for."""

    def __init__(self, seed):
        self.source = simulated(seed)
        self.calls = []

    def words(self, size):
        raise AssertionError(f"{size} words are not recorded")

    def below(self, bound, size):
        drawn = self.source.below(bound, size)
        self.calls += [f"{number} of {bound}" for number in drawn.tolist()]
        return drawn

    def bits(self, size):
        return self.below(2, size).astype(np.uint8)


def made():
    """Mechanisms with messages of one byte and of several, by a name for each."""
    numbers = {"low": -1.0, "high": 3.0, "epsilon": 2.0}
    target = {"n": 1000, "epsilon": 2.0, "delta": 1e-6}
    return {
        "grr": shoal.RandomizedResponse(k=4, epsilon=1.0),
        "grr, two bytes": shoal.RandomizedResponse(k=300, epsilon=3.0),
        "hadamard, one block": shoal.HadamardResponse(k=5, epsilon=1.0),
        "hadamard, blocks": shoal.HadamardResponse(k=20, epsilon=3.0),
        "projective, plane": shoal.ProjectiveGeometryResponse(k=3, epsilon=1.0),
        "projective, space": shoal.ProjectiveGeometryResponse(k=20, epsilon=1.5),
        "hashing": shoal.LocalHashing(k=6, epsilon=1.0),
        "duchi": shoal.Duchi(**numbers),
        "piecewise": shoal.Piecewise(**numbers),
        "rounded": shoal.RoundedResponse(**numbers, levels=5),
        "dummies": shoal.UniformDummies(k=5, dummies=2.25),
        "dummies, always": shoal.UniformDummies(k=5, dummies=3.0),
        "sparse": shoal.SparseHistogram.calibrated(k=5, **target),
        "zero-sum": shoal.ZeroSumHistogram.calibrated(k=5, **target),
        "zero-sum-count": shoal.ZeroSumCount.calibrated(**target),
        "coins": FairCoins.calibrated(**target),
    }


def survey_of(device, **fields):
    """A survey for it, whatever it promises."""
    k = getattr(device, "k", 0)
    at_all = shoal.amplify(device, n=1000, delta=1e-6).epsilon
    answers = tuple(f"answer {number}" for number in range(k))
    return early(example(device, answers=answers, epsilon=2 * at_all, **fields))


def draws(name, device):
    """Reports of every kind of value, with the numbers that they were made of."""
    k = getattr(device, "k", 0)
    values = range(min(k, 6)) if k else (device.low, 0.7, device.high)
    found = []
    for seed in range(4):
        for value in values:
            source = Recorded(seed)
            sent = device.encode(device.randomize([value], randomness=source)).ravel()
            if name == "sparse" and len(set(source.calls)) < len(source.calls):
                continue  # what is drawn again, in which order, is not part of the format
            drawn = ", ".join(source.calls)
            found.append({"value": value, "drawn": drawn, "messages": sent.tobytes().hex()})
    return found


def rows(k):
    """Bits of k answers as one message."""
    patterns = [[(number >> place) & 1 for place in range(k)] for number in (0, 1, 5, 1 << (k - 1))]
    packed = [np.packbits(np.array(bits, dtype=np.uint8)).tobytes().hex() for bits in patterns]
    assert all(len(row) == 2 * -(-k // 8) for row in packed)
    return [{"bits": bits, "row": row} for bits, row in zip(patterns, packed, strict=True)]


def promised(device):
    """What the accountant says of some crowds, from both sides."""
    crowds = []
    for n, delta in ((100, 1e-6), (1000, 1e-6), (20_000, 1e-9), (1_000_000, 1e-6)):
        found = shoal.amplify(device, n=n, delta=delta)
        crowds.append({"n": n, "delta": delta, "epsilon": found.epsilon, "lower": found.lower})
    return {"survey": survey_of(device).to_bytes().decode(), "crowds": crowds}


def mechanisms():
    """All that a client in another language has to agree with."""
    listed = [
        {
            "name": name,
            "survey": survey_of(device).to_bytes().decode(),
            "local_epsilon": None if np.isinf(device.local_epsilon) else device.local_epsilon,
            "draws": draws(name, device),
        }
        for name, device in made().items()
    ]
    unary, subset = shoal.UnaryEncoding(k=11, epsilon=1.0), shoal.SubsetSelection(k=11, epsilon=1.0)
    bits = [
        {
            "name": device.name,
            "survey": survey_of(device).to_bytes().decode(),
            "local_epsilon": device.local_epsilon,
            "rows": rows(11),
        }
        for device in (unary, shoal.UnaryEncoding(k=11, epsilon=1.0, symmetric=True), subset)
    ]
    laws = [
        shoal.RandomizedResponse(k=2, epsilon=1.0),
        shoal.RandomizedResponse(k=10, epsilon=3.0),
        shoal.HadamardResponse(k=20, epsilon=2.0),
        shoal.ProjectiveGeometryResponse(k=20, epsilon=2.0),
        unary,
        subset,
        shoal.LocalHashing(k=6, epsilon=2.0),
        shoal.Piecewise(low=0.0, high=1.0, epsilon=2.0, levels=16),
        FairCoins.calibrated(n=1000, epsilon=2.0, delta=1e-6),
    ]
    wire = Wire.of(early(example()))
    keys = [pair(X25519, "shuffler", number).public for number in (0, 3, 255)]
    return {
        "version": 1,
        "mechanisms": listed,
        "bits": bits,
        "bounds": [promised(device) for device in laws],
        "infos": [
            {
                "role": kind.role,
                "survey": str(wire.survey),
                "number": key.number,
                "info": kind._info(key, b"").hex(),
            }
            for kind in (wire.sections[0].inner, wire.outer)
            for key in keys
        ],
    }


def spellings(invitation):
    """Ways in which people write and paste an invitation."""
    text = str(invitation)
    bare = text.replace("-", "")
    return [
        text,
        text.lower(),
        f" {bare[:14]} {bare[14:]}\n",
        bare.replace("0", "o").replace("1", "l"),
        bare.replace("0", "O").replace("1", "I"),
        f"https://analyzer.example/answer/{'0' * 64}#{text}",
    ]


def mistyped(invitation):
    """What is no invitation: something else, one letter more or less, another, or two swapped."""
    text = str(invitation)
    other = "X" if text[3] != "X" else "Y"
    swapped = f"{text[1]}{text[0]}{text[2:]}"
    changed = [f"{text[:3]}{other}{text[4:]}", f"U{text[1:]}"]
    return ["", "#", text[:-1], f"{text}0", *changed, text * 2, *[swapped] * (swapped != text)]


def admissions():
    """Invitations with their codes, and surveys that say who may report."""
    asked = [
        example(admission=Open(dishonest=0)),
        example(admission=Open(dishonest=100)),
        example(admission=Open(dishonest=7), reports_per_person=3),
        example(admission=Invited(entitled=1000, dishonest=0)),
        example(admission=Invited(entitled=400, dishonest=30), reports_per_person=3),
    ]
    surveys = [early(survey, 2) for survey in asked]
    secrets = (bytes(16), bytes([255]) * 16, bytes(range(16)), bytes(range(1, 256, 16)))
    invitations = [Invitation(secret) for secret in secrets]
    return {
        "version": 1,
        "surveys": [
            {
                "survey": survey.to_bytes().decode(),
                "id": str(survey.id),
                "honest": survey.honest(survey.batches.minimum),
                "crowd": survey.honest(survey.batches.minimum) // survey.reports_per_person,
            }
            for survey in surveys
        ],
        "invitations": [
            {
                "secret": invitation.secret.hex(),
                "spellings": spellings(invitation),
                "mistyped": mistyped(invitation),
                "codes": [
                    {
                        "survey": str(surveys[-1].id),
                        "occasion": occasion,
                        "code": invitation.code(surveys[-1].id, occasion).hex(),
                    }
                    for occasion in (1, 2, 257, 1000)
                ],
            }
            for invitation in invitations
        ],
    }


def four():
    """Four questions at the largest epsilon that pages answer for, in the smallest crowd."""
    asked = [("yes", "no"), ("a", "b", "c"), tuple("12345")]
    questions = [
        shoal.Choice(f"q{i}", answers, text=f"Question {i}?") for i, answers in enumerate(asked)
    ]
    questions.append(shoal.Number("q3", 0.0, 10.0, text="How many?"))
    design = Design(
        epsilon=2.0,
        delta=1e-6,
        batches=Batches(minimum=100, target=200, max_age=3600),
        admission=Open(dishonest=0),
        questions=tuple(questions),
    )
    base = example()
    about = attributes(base, "name", "purpose", "not_before", "not_after", "shuffler", "analyzer")
    return early(design.survey(**about), 3)


def asked_together(drawn):
    """A survey with 2 to 8 questions of different kinds, local epsilons and crowds."""
    devices = []
    for _ in range(drawn.randint(2, 8)):
        local = round(drawn.choice((0.3, 0.5, 1, 1.5, 2, 3, 4)) * drawn.uniform(0.8, 1), 3)
        k = drawn.choice((2, 3, 4, 6, 12, 40))
        kinds = (
            shoal.RandomizedResponse(k=k, epsilon=local),
            shoal.RandomizedResponse(k=k, epsilon=local),
            shoal.HadamardResponse(k=max(3, k), epsilon=local),
            shoal.SubsetSelection(k=max(3, k), epsilon=local),
            shoal.ProjectiveGeometryResponse(k=max(4, k), epsilon=local),
            shoal.LocalHashing(k=k, epsilon=local),
            shoal.UnaryEncoding(k=k, epsilon=local),
            shoal.Duchi(low=0.0, high=1.0, epsilon=local),
            shoal.Piecewise(low=0.0, high=1.0, epsilon=local),
        )
        devices.append(drawn.choice(kinds))
    reports = drawn.choice((1, 1, 1, 3))
    least = reports * drawn.choice((100, 150, 300, 1000, 3000, 20_000, 200_000))
    delta = drawn.choice((1e-5, 1e-6, 1e-8))
    fields = {"minimum": least, "delta": delta, "reports_per_person": reports}
    return early(several(tuple(devices), epsilon=60.0, **fields), 3)


def compositions():
    """Surveys with several questions: what the accountant proves of them, and what browsers do."""
    drawn = random.Random(31)  # noqa: S311 - the same every time
    surveys = [four(), *(asked_together(drawn) for _ in range(15))]
    return {
        "version": 1,
        "surveys": [
            {
                "survey": survey.to_bytes().decode(),
                "epsilon": survey.guarantee(survey.batches.minimum).epsilon,
                "proved": proved_epsilon(survey.devices, survey.terms, survey.batches.minimum),
            }
            for survey in surveys
        ],
    }


def main() -> None:
    """All files, or those that were named."""
    contents = {
        "reports_v1.json": reports,
        "keys_v1.json": key_lists,
        "mechanisms_v1.json": mechanisms,
        "admission_v1.json": admissions,
        "compositions_v1.json": compositions,
    }
    for name in sys.argv[1:] or contents:
        content = json.dumps(contents[name](), indent=1)
        (HERE / name).write_text(content + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
