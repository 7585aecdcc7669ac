"""Requests made up from the OpenAPI documents, against running applications.

Whatever is sent, the answer is one that the document promises, and never a defect of the service.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import cache

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import http_kit
from client_kit import Owner
from http_kit import serving
from service_site import Analyzer, Shuffler
from shoal.service.analyzer.app import analyzer_app
from shoal.service.keyring.key_list import unverified
from shoal.service.survey import Party

CONFORM = (
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)
EXAMPLES = {"shuffler": 12, "analyzer": 8}
OPERATIONS = {
    "shuffler": [
        *("keys", "survey", "analyzer_keys", "send_reports", "progress"),
        *("batches", "batch", "acknowledge"),
    ],
    "analyzer": [
        *("keys", "shuffler_keys", "surveys", "survey", "promise"),
        *("results", "result", "ledger"),
    ],
}
TAKING_NOTHING = {("shuffler", "keys"), ("analyzer", "keys"), ("analyzer", "surveys")}
EVERY = [(role, name) for role, names in OPERATIONS.items() for name in names]
BATCH, REQUEST = "11" * 16, "a" * 32


def in_path(name, value):
    def replace(case):
        if name in (case.path_parameters or {}):
            case.path_parameters[name] = value

    return replace


def in_headers(headers):
    return lambda case: case.headers.update(headers)


@contextmanager
def shuffler(directory):
    """The address of a shuffler that has a batch, and parts of requests that exist there."""
    owner = Owner("analyzer", number=3)  # as the kit seals for
    party = Party(url="https://analyzer.example", fingerprint=owner.fingerprint)
    made = Shuffler.alone(directory, analyzer=party)
    made.store.key_lists.keep(unverified(owner.document()))
    made.receive(made.reports(40))
    made.work()
    (info,) = made.store.batches.listed(made.survey.id)
    made.store.batches.release(made.survey.id, info.id, REQUEST)
    reports = b"".join(made.reports(3))
    receipt = {"request": REQUEST, "digest": info.digest}

    def body(case):
        if case.method == "POST":
            case.body = reports if case.path.endswith("reports") else receipt

    real = {
        "survey": in_path("survey", str(made.survey.id)),
        "batch": in_path("batch", info.id),
        "token": in_headers(made.token()),
        "request": in_headers({"Shoal-Request": REQUEST}),
        "body": body,
    }
    with serving(made.app()) as url:
        yield url, real
    made.close()


@contextmanager
def analyzer(directory):
    """The same of an analyzer that has published, withheld and refused."""
    made = Analyzer(directory / "a")
    survey = made.asking()
    made.send(survey, [0] * 100, batch=BATCH)
    made.send(survey, [0] * 10, batch="22" * 16, seed=2)
    made.shuffler.put(survey, [bytes(53)], batch="33" * 16, lies={"sections": ((1, 53),)})
    made.collect(survey)
    made.store.key_lists.keep(unverified(Owner("shuffler").document()))
    token = made.store.tokens.add("reader", survey.id, 10**6)
    real = {
        "survey": in_path("survey", str(survey.id)),
        "batch": in_path("batch", BATCH),
        "token": in_headers({"Authorization": f"Bearer {token}"}),
    }
    with serving(analyzer_app(made.store, made.keyring)) as url:
        yield url, real
    made.close()


class Served:
    """A running party: its address, what it says can be asked, and what exists there."""

    def __init__(self, role, url, real):
        self.url, self.real, self.examples = url, real, EXAMPLES[role]
        document = http_kit.get(f"{url}/openapi.json").json()
        schema = schemathesis.openapi.from_dict(document)
        found = [item.ok() for item in schema.get_all_operations()]
        self.operations = {each.definition.raw["operationId"]: each for each in found}

    def statuses(self, name, mode):
        """Send made-up requests of one kind; the statuses that came back.

        Parts of them are replaced by such as exist, so that they get further than the first
        check: all parts in about half of the requests, and any of them in the others.
        """
        seen = set()

        @settings(
            max_examples=self.examples, suppress_health_check=list(HealthCheck), database=None
        )
        @given(
            self.operations[name].as_strategy(generation_mode=mode),
            st.just(set(self.real)) | st.sets(st.sampled_from(sorted(self.real))),
        )
        def one(case, parts):
            for part in sorted(parts):
                self.real[part](case)
            answer = case.call(base_url=self.url)
            case.validate_response(answer, checks=CONFORM)
            seen.add(answer.status_code)

        one()
        return seen


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A party by its role, which is started once."""
    with ExitStack() as stack:

        @cache
        def running(role):
            started = {"shuffler": shuffler, "analyzer": analyzer}[role]
            return Served(role, *stack.enter_context(started(tmp_path_factory.mktemp(role))))

        yield running


@pytest.mark.parametrize(("role", "names"), OPERATIONS.items())
def test_every_operation_is_tried(served, role, names):
    assert set(served(role).operations) == set(names)


@pytest.mark.parametrize(("role", "name"), EVERY)
def test_requests_as_described_are_answered_as_described(served, role, name):
    # Some of them get through to the end.
    assert served(role).statuses(name, GenerationMode.POSITIVE) & {200, 202}


@pytest.mark.parametrize(("role", "name"), [each for each in EVERY if each not in TAKING_NOTHING])
def test_requests_not_as_described_are_refused_as_described(served, role, name):
    assert any(status >= 400 for status in served(role).statuses(name, GenerationMode.NEGATIVE))
