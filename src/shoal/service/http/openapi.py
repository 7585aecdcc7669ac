"""The routes of an application, read from its OpenAPI 3.1 document: a file beside the application.

Each operation is answered by the method of the handlers that its ``operationId`` names, so that
neither has what the other has not. ``x-cross-origin`` operations may be used by scripts of any site
(see :mod:`shoal.service.http.application`). HEAD answers what GET does, but for operations with
``x-head: false``, which change something.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

Document: TypeAlias = dict[str, Any]
DOCUMENT_PATH = "/openapi.json"
JSON = "application/json"
BYTES = "application/octet-stream"
SURVEY_PATH = "/v1/surveys/{survey}"
_TOKENS = ("401", "403")


class Operation(NamedTuple):
    """One method of one path, and what the document says of it."""

    path: str
    methods: frozenset[str]
    document: dict[str, Any]


def read(application: str, *, public: bool = False) -> Document:
    """The document beside an application's module; of a ``public`` one no operation wants a token.

    The document says so, and that such a refusal does not come.
    """
    document: Document = json.loads(Path(application).with_name("openapi.json").read_bytes())
    if public:
        for operation in operations(document):
            if operation.document.pop("security", None):
                for status in _TOKENS:
                    operation.document["responses"].pop(status)
    return document


def operations(document: Document) -> Iterator[Operation]:
    """All operations of a document."""
    for path, methods in document["paths"].items():
        for name, about in methods.items():
            head = {"HEAD"} if name == "get" and about.get("x-head", True) else set()
            yield Operation(path, frozenset({name.upper(), *head}), about)


def routes(document: Document, handlers: object) -> list[Route]:
    """The routes of the operations, and the one of their document."""
    body = json.dumps(document, ensure_ascii=False, sort_keys=True).encode()

    async def openapi(_request: Request) -> Response:
        return Response(body, media_type=JSON, headers={"Cache-Control": "max-age=3600"})

    made = [Route(DOCUMENT_PATH, openapi)]
    for operation in operations(document):
        name = operation.document["operationId"]
        route = Route(operation.path, getattr(handlers, name), name=name)
        route.methods = set(operation.methods)
        made.append(route)
    return made
