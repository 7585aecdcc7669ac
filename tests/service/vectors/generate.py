"""Write the recorded surveys, reports and key lists anew; run it as a script.

Only for a new version of the wire format, or of a survey's configuration: what is recorded has to
open for as long as version 1 does. Keys are fixed; sealing is fresh every time.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from example_surveys import example, mechanism
from shoal.randomness import simulated
from shoal.sealing import KeyPair
from shoal.sealing.suites import HYBRID, X25519
from shoal.service.keyring.identity import Identity
from shoal.service.keyring.key_list import KeyInfo, KeyList
from shoal.service.keyring.schedule import KeyState
from shoal.service.wire import Wire

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
    slots = sent.reshape(REPORTS, survey.slots, survey.message_bytes).astype(np.uint8)
    keys = {"analyzer": analyzer.public, "shuffler": shuffler.public}
    return {
        "name": name,
        "survey": survey.to_bytes().decode(),
        "id": str(survey.id),
        "shuffler": written(shuffler),
        "analyzer": written(analyzer),
        "record_bytes": wire.record_bytes,
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


def main() -> None:
    """All files."""
    cases = [
        case("one message", example(), X25519),
        case("a number", example(mechanism("duchi")), X25519),
        case("several messages and a token", example(mechanism("dummies"), token_bytes=5), X25519),
        case("hybrid", example(suite=HYBRID.name), HYBRID),
    ]
    for name, content in (
        ("reports_v1.json", {"version": 1, "cases": cases}),
        ("keys_v1.json", {"version": 1, "lists": [key_list("shuffler"), key_list("analyzer")]}),
    ):
        (HERE / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
