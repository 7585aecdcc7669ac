from __future__ import annotations

import json

from starlette.responses import Response

from shoal.service.http.openapi import (
    JSON,
    TEXT,
    Content,
    Operation,
    Parameter,
    array,
    as_bytes,
    as_json,
    count,
    digits,
    document,
    record,
    reference,
    routes,
)


async def look(_request):
    return Response()


async def _change(_request):
    return Response()


NAME = Parameter(name="name", place="path", schema=digits(4), description="Its name.")
OPERATIONS = [
    Operation(
        path="/things/{name}",
        endpoint=look,
        summary="Look.",
        parameters=[NAME],
        answer=as_json("A thing.", reference("Thing")),
        problems={404: "No such thing."},
    ),
    Operation(
        path="/things/{name}",
        method="POST",
        endpoint=_change,
        summary="Change.",
        description="""
        Really.
        """,
        parameters=[NAME],
        body=as_bytes("How.", least=1),
        answer=Content(description="Done.", media={JSON: count(), "text/csv": TEXT}),
        status=202,
        secured=True,
    ),
    Operation(
        path="/once",
        endpoint=look,
        summary="Once.",
        answer=as_json("A thing.", reference("Thing")),
        head=False,
    ),
]
THING = record({"a": count(1, 2), "b": array(digits(2))})


def test_the_document_says_what_the_operations_say():
    made = document(OPERATIONS, title="T", version="1", schemas={"Thing": THING})
    assert json.loads(json.dumps(made)) == made
    assert set(made["paths"]) == {"/things/{name}", "/once"}
    both = made["paths"]["/things/{name}"]
    assert set(both) == {"get", "post"}
    assert both["get"]["operationId"] == "look"
    assert "security" not in both["get"]
    assert both["get"]["responses"]["404"]["content"].keys() == {"application/problem+json"}
    assert both["post"]["operationId"] == "change"
    assert both["post"]["description"] == "Really."
    assert both["post"]["security"] == [{"bearer": []}]
    assert both["post"]["requestBody"]["required"]
    assert both["post"]["responses"] == {
        "202": {
            "description": "Done.",
            "content": {
                "application/json": {"schema": {"type": "integer", "minimum": 0}},
                "text/csv": {"schema": {"type": "string"}},
            },
        }
    }
    assert made["components"]["schemas"]["Thing"]["required"] == ["a", "b"]


def test_the_routes_are_the_operations_and_the_document():
    made = routes(OPERATIONS, document(OPERATIONS, title="T", version="1"))
    found = {(route.path, method) for route in made for method in route.methods}
    assert found == {
        ("/things/{name}", "GET"),
        ("/things/{name}", "HEAD"),
        ("/things/{name}", "POST"),
        ("/once", "GET"),
        ("/openapi.json", "GET"),
        ("/openapi.json", "HEAD"),
    }
