from __future__ import annotations

import json

import pytest
from starlette.responses import Response

from shoal.service.admission import CODE_PROBLEMS, Invited, Open
from shoal.service.analyzer import app as analyzer
from shoal.service.analyzer.decode import REASONS
from shoal.service.analyzer.results import PUBLISHED, WITHHELD
from shoal.service.http import openapi
from shoal.service.shuffler import app as shuffler
from shoal.service.shuffler.intake import UNKNOWN_KEY, UNKNOWN_VERSION

ANSWER = {"200": {"description": "A thing."}}
DOCUMENT = {
    "openapi": "3.1.0",
    "paths": {
        "/things/{name}": {
            "get": {"operationId": "look", "responses": ANSWER, "x-cross-origin": True},
            "post": {"operationId": "change", "responses": ANSWER},
        },
        "/once": {"get": {"operationId": "look", "responses": ANSWER, "x-head": False}},
    },
}


class Handlers:
    async def look(self, _request):
        return Response()

    async def change(self, _request):
        return Response()


def test_the_routes_are_the_operations_and_the_document():
    made = openapi.Application(DOCUMENT, Handlers()).routes
    assert {(route.path, method) for route in made for method in route.methods} == {
        ("/things/{name}", "GET"),
        ("/things/{name}", "HEAD"),
        ("/things/{name}", "POST"),
        ("/once", "GET"),
        ("/openapi.json", "GET"),
        ("/openapi.json", "HEAD"),
    }


@pytest.mark.parametrize("service", [shuffler, analyzer])
def test_every_operation_is_a_method_and_every_reference_leads_somewhere(service):
    document = openapi.read(service.__file__)
    names = [operation.document["operationId"] for operation in openapi.operations(document)]
    assert len(names) == len(set(names))
    for name in names:
        assert callable(getattr(service.Handlers, name))
    for reference in set(_references(document)):
        _, *steps = reference.split("/")
        place = document
        for step in steps:
            place = place[step]
        assert place
    written = json.dumps(document)
    for kind in ("parameters", "responses", "schemas"):
        for name in document["components"][kind]:
            assert f"#/components/{kind}/{name}" in written, name


def _references(part):
    if isinstance(part, dict):
        for name, value in part.items():
            if name == "$ref":
                yield value
            yield from _references(value)
    elif isinstance(part, list):
        for value in part:
            yield from _references(value)


def test_of_public_results_nothing_wants_a_token():
    before, after = (openapi.read(analyzer.__file__, public=public) for public in (False, True))
    secured = [each for each in openapi.operations(before) if "security" in each.document]
    assert {each.path.removeprefix(openapi.SURVEY_PATH) for each in secured} == {
        "/results",
        "/results/{batch}",
        "/ledger",
    }
    for each in openapi.operations(after):
        assert "security" not in each.document
        assert not {"401", "403"} & each.document["responses"].keys()


def test_words_that_documents_list_are_those_that_are_answered():
    schemas = openapi.read(shuffler.__file__)["components"]["schemas"]
    refused = schemas["Receipt"]["properties"]["refused"]["items"]["properties"]
    assert set(refused["reason"]["enum"]) == {UNKNOWN_VERSION, UNKNOWN_KEY, *CODE_PROBLEMS}
    schemas = openapi.read(analyzer.__file__)["components"]["schemas"]
    result = schemas["Result"]["properties"]
    assert set(result["rejected"]["required"]) == set(REASONS)
    assert set(result["status"]["enum"]) == {PUBLISHED, WITHHELD}
    assert result["reports_per_person_is"]["enum"] == [Open.enforced, Invited.enforced]
    kinds = [kind.kind for kind in (Open, Invited)]
    assert schemas["Admission"]["properties"]["kind"]["enum"] == kinds
