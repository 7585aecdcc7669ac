"""Requests made up from the OpenAPI document, against the running application.

Whatever is sent, the answer is one that the document promises, and never a defect of the service.
"""

from __future__ import annotations

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

from client_kit import Owner
from http_kit import serving
from shoal.service.keyring.key_list import unverified
from shoal.service.survey import Party
from shuffler_kit import client_of, made, post

REQUEST = "a" * 32
EXAMPLES = 20
PARTS = ("survey", "batch", "token", "request", "body")
CONFORM = (
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)
OPERATIONS = [
    *("keys", "survey", "analyzer_keys", "send_reports", "progress"),
    *("batches", "batch", "acknowledge"),
]


@pytest.fixture(scope="module")
def shuffler(tmp_path_factory):
    owner = Owner("analyzer", number=3)  # as the kit seals for
    analyzer = Party(url="https://analyzer.example", fingerprint=owner.fingerprint)
    found = made(tmp_path_factory.mktemp("shuffler"), analyzer=analyzer)
    found.store.copies.keep(unverified(owner.document()))
    yield found
    found.close()


@pytest.fixture(scope="module")
def url(shuffler):
    with serving(shuffler.app()) as address, client_of(address) as client:
        post(client, shuffler, shuffler.reports(40))
        shuffler.work()
        yield address


@pytest.fixture(scope="module")
def real(shuffler, url):  # noqa: ARG001 - the batch is made with the server
    """Values that exist, so that made-up requests get further than the first check."""
    (info,) = shuffler.store.batches(shuffler.survey.id)
    shuffler.store.release(shuffler.survey.id, info.id, REQUEST)
    return {
        "survey": str(shuffler.survey.id),
        "batch": info.id,
        "token": shuffler.token(),
        "reports": b"".join(shuffler.reports(3)),
        "ack": {"request": REQUEST, "digest": info.digest},
    }


@pytest.fixture(scope="module")
def schema(url):
    with client_of(url) as client:
        return schemathesis.openapi.from_dict(client.get("/openapi.json").json())


def operation(schema, name):
    found = {item.ok().definition.raw["operationId"]: item.ok() for item in all_of(schema)}
    assert set(found) == set(OPERATIONS)
    return found[name]


def all_of(schema):
    return list(schema.get_all_operations())


def made_real(case, real, parts):
    """Replace some parts of a made-up request by such as exist."""
    for name in ("survey", "batch"):
        if name in parts and name in (case.path_parameters or {}):
            case.path_parameters[name] = real[name]
    if "token" in parts:
        case.headers.update(real["token"])
    if "request" in parts:
        case.headers["Shoal-Request"] = REQUEST
    if "body" in parts and case.method == "POST":
        case.body = real["reports" if case.path.endswith("reports") else "ack"]


def check(schema, url, real, name, mode):
    """Send requests of one kind; the statuses that came back."""
    statuses = set()
    cases = operation(schema, name).as_strategy(generation_mode=mode)

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None)
    @given(cases, st.just(set(PARTS)) | st.sets(st.sampled_from(PARTS)))
    def one(case, parts):
        made_real(case, real, parts)
        answer = case.call(base_url=url)
        case.validate_response(answer, checks=CONFORM)
        statuses.add(answer.status_code)

    one()
    return statuses


@pytest.mark.parametrize("name", OPERATIONS)
def test_requests_as_described_are_answered_as_described(schema, url, real, name):
    statuses = check(schema, url, real, name, GenerationMode.POSITIVE)
    assert statuses & {200, 202}  # some of them got through to the end


@pytest.mark.parametrize("name", OPERATIONS[1:])
def test_requests_not_as_described_are_refused_as_described(schema, url, real, name):
    statuses = check(schema, url, real, name, GenerationMode.NEGATIVE)
    assert any(status >= 400 for status in statuses)
