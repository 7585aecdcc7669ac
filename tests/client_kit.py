"""A survey with its operators in one process: what they receive is really opened."""

from __future__ import annotations

import hashlib
from pathlib import Path

import httpx

from factories import DAY, example
from shoal.mechanisms.response import RandomizedResponse
from shoal.randomness import simulated
from shoal.sealing import KeyPair, SurveyId, key_number
from shoal.service.client import Client, Settings
from shoal.service.clock import ManualClock
from shoal.service.keyring.key_list import Identity, KeyInfo, KeyList, KeyState, fingerprint
from shoal.service.wire import Wire

NOW = 1_800_000_000
SHUFFLER, ANALYZER = "https://shuffler.example", "https://analyzer.example"
QUICK = Settings(wait=1.0, tries=40, patience=1e6)


class Owner:
    """Whoever has keys: an identity, and pairs by number."""

    def __init__(self, role, number=0):
        self.role = role
        self.identity = Identity(role, hashlib.sha256(role.encode()).digest())
        self.first = self.newest = number
        self.issued = NOW - DAY
        self.max_age = 3600

    @property
    def fingerprint(self):
        return fingerprint(self.role, self.identity.public)

    def pair(self, number):
        return KeyPair.from_secret(
            hashlib.sha256(f"{self.role} {number}".encode()).digest(), number=number
        )

    def rotate(self, *, forget=True):
        """A new key; the old ones are deleted, or live on."""
        self.newest += 1
        self.first = self.newest if forget else self.first
        self.issued += 1

    def document(self, identity=None):
        keys = tuple(
            KeyInfo(
                number=number,
                suite=self.pair(number).public.suite.name,
                public=self.pair(number).public,
                state=KeyState.ACTIVE,
                created=NOW - DAY,
                active_from=NOW - DAY + number,
                expires_at=NOW + 100 * DAY,
                deletes_at=NOW + 200 * DAY,
            )
            for number in range(self.first, self.newest + 1)
        )
        until = NOW + 300 * DAY
        made = KeyList.signed(
            identity or self.identity, keys, issued=self.issued, valid_until=until
        )
        return made.to_bytes()


class Services:
    """A shuffler and an analyzer that answer httpx, and fail as they are told to."""

    def __init__(self, survey, *, log=None, seed=1):
        self.survey = survey
        self.wire = Wire.of(survey)
        self.shuffler, self.analyzer = Owner("shuffler"), Owner("analyzer")
        self.randomness = simulated(seed)
        self.lost_requests = self.lost_responses = 0.0
        self.log = log
        self.bodies, self.requests = [], []
        self.seen, self.messages = set(), []
        self.spent, self.refused_codes = {}, {}  # codes by report; why others are refused
        self.answers = {}  # what a path answers instead

    @property
    def transport(self):
        return httpx.MockTransport(self.handle)

    def happens(self, share):
        return int(self.randomness.below(1000, 1)[0]) < 1000 * share

    def handle(self, request):
        self.requests.append(request)
        place = (request.url.host.partition(".")[0], request.url.path)
        if place in self.answers:
            answer = self.answers[place]
            return answer(request) if callable(answer) else answer
        if request.method == "POST":
            return self.post(request)
        copy = place[1].endswith("/keys/analyzer")
        if place[1].startswith("/v1/surveys/") and not copy:
            return httpx.Response(200, content=self.survey.to_bytes())
        owner = self.analyzer if copy or place == ("analyzer", "/v1/keys") else self.shuffler
        headers = {"cache-control": f"max-age={owner.max_age}"}
        return httpx.Response(200, content=owner.document(), headers=headers)

    def post(self, request):
        self.bodies.append(request.content)
        if self.log is not None:
            with Path(self.log).open("a") as file:
                file.write(request.content.hex() + "\n")
        if self.happens(self.lost_requests):
            raise httpx.ReadTimeout("lost on the way", request=request)
        found = self.take(request.content)
        if self.happens(self.lost_responses):
            raise httpx.ReadError("the answer was lost", request=request)
        return httpx.Response(202, json=found)

    def take(self, body):
        length = self.wire.report_bytes
        size = length + self.survey.admission.code_bytes
        assert len(body) % size == 0
        refused = []
        for index in range(len(body) // size):
            record = body[index * size : (index + 1) * size]
            report, code = record[:length], record[length:]
            number = key_number(report)
            if code in self.refused_codes:
                refused.append({"index": index, "reason": self.refused_codes[code]})
            elif code and self.spent.setdefault(code, report) != report:
                refused.append({"index": index, "reason": "code_spent"})
            elif not self.shuffler.first <= number <= self.shuffler.newest:
                refused.append({"index": index, "reason": "unknown_key"})
            elif report not in self.seen:
                self.seen.add(report)
                self.messages += [self.opened(report)]
        return {"reports": len(body) // size, "refused": refused}

    def opened(self, report):
        """The messages in a report, as the analyzer reads them."""
        number = key_number(report)
        inner, sealed = self.wire.open_report(report, self.shuffler.pair(number))
        pair = self.analyzer.pair(inner)
        return b"".join(
            section.open_record(record, pair)
            for section in self.wire.sections
            for record in section.split(sealed[section.start : section.end])
        )

    def show(self, role, answer):
        """What the shuffler shows devices as this party's list, instead of the list."""
        path = f"/v1/surveys/{self.survey.id}/keys/analyzer"
        self.answers["shuffler", path if role == "analyzer" else "/v1/keys"] = answer

    def hosts(self):
        """Whom a device has talked to."""
        return {request.url.host for request in self.requests}

    def posts(self):
        return [request for request in self.requests if request.method == "POST"]


ANSWERS = ("red", "green", "blue", "marked-answer-yellow")


def make_survey(**changes):
    """A survey of four colours that is open now."""
    fields = {
        "name": "colours",
        "question": "Which colour do you like best?",
        "purpose": "To paint a wall.",
        "answers": ANSWERS,
        "minimum": 500,
        "target": 1000,
        "epsilon": 1.0,
        "shuffler": Owner("shuffler").fingerprint,
        "analyzer": Owner("analyzer").fingerprint,
    }
    return example(opens=NOW - DAY, days=31, **fields | changes)


def many_answers(k=1000, **changes):
    """A survey in which a message drawn again is another one."""
    return make_survey(
        device=RandomizedResponse(k=k, epsilon=0.5),
        answers=tuple(f"answer {number}" for number in range(k)),
        name="many",
        **changes,
    )


class Timeless:
    """A clock that goes on while a client sleeps."""

    def __init__(self, client, clock):
        self.slept = []
        self.clock = clock
        client._sleep = self

    def __call__(self, seconds):
        self.slept.append(seconds)
        self.clock.advance(int(seconds) + 1)


def client_of(services, directory, clock, *, settings=QUICK, **options):
    """A client of these services whose waits cost no time."""
    client = Client(
        directory, transport=services.transport, clock=clock, settings=settings, **options
    )
    Timeless(client, clock)
    return client


def manual_clock():
    return ManualClock(NOW)


def survey_name(text):
    return SurveyId(hashlib.sha256(text.encode()).digest())
