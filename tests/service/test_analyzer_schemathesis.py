"""Requests made up from the analyzer's OpenAPI document: always answered as it promises."""

from __future__ import annotations

import httpx
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

from analyzer_kit import Analyzer
from client_kit import Owner
from http_kit import serving
from shoal.service.analyzer.app import analyzer_app
from shoal.service.keyring.key_list import unverified

BATCH = "11" * 16
EXAMPLES = 12
PARTS = ("survey", "batch", "token")
CONFORM = (
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)
OPERATIONS = [
    "keys",
    "shuffler_keys",
    "surveys",
    "survey",
    "promise",
    "results",
    "result",
    "ledger",
]


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Values that exist, so that made-up requests get further than the first check."""
    analyzer = Analyzer(tmp_path_factory.mktemp("analyzer") / "a")
    survey = analyzer.asking()
    analyzer.send(survey, [0] * 100, batch=BATCH)
    analyzer.send(survey, [0] * 10, batch="22" * 16, seed=2)
    analyzer.shuffler.put(survey, [bytes(53)], batch="33" * 16, lies={"record_bytes": 53})
    analyzer.collect(survey)
    analyzer.store.keep_copy(unverified(Owner("shuffler").document()))
    token = analyzer.store.tokens.add("reader", survey.id, 10**6)
    with serving(analyzer_app(analyzer.store, analyzer.keyring)) as url:
        bearer = {"Authorization": f"Bearer {token}"}
        yield {"survey": str(survey.id), "batch": BATCH, "token": bearer, "url": url}
    analyzer.close()


@pytest.fixture(scope="module")
def operations(real):
    document = httpx.get(f"{real['url']}/openapi.json").json()
    schema = schemathesis.openapi.from_dict(document)
    found = [item.ok() for item in schema.get_all_operations()]
    return {each.definition.raw["operationId"]: each for each in found}


def check(operation, real, mode):
    statuses = set()

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None)
    @given(
        operation.as_strategy(generation_mode=mode),
        st.just(set(PARTS)) | st.sets(st.sampled_from(PARTS)),
    )
    def one(case, parts):
        for name in ("survey", "batch"):
            if name in parts and name in (case.path_parameters or {}):
                case.path_parameters[name] = real[name]
        if "token" in parts:
            case.headers.update(real["token"])
        answer = case.call(base_url=real["url"])
        case.validate_response(answer, checks=CONFORM)
        statuses.add(answer.status_code)

    one()
    return statuses


def test_every_operation_is_tried(operations):
    assert set(operations) == set(OPERATIONS)


@pytest.mark.parametrize("name", OPERATIONS)
def test_requests_as_described_are_answered_as_described(operations, real, name):
    assert 200 in check(operations[name], real, GenerationMode.POSITIVE)


@pytest.mark.parametrize(
    "name", ["shuffler_keys", "survey", "promise", "results", "result", "ledger"]
)
def test_requests_not_as_described_are_refused_as_described(operations, real, name):
    assert any(status >= 400 for status in check(operations[name], real, GenerationMode.NEGATIVE))
