"""An OpenAPI 3.1 document and the routes of an application, made from one list of operations.

An :class:`Operation` is a path, a method, the function that answers, and what it takes and gives.
:func:`routes` and :func:`document` read the same list, so neither can have what the other has not.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shoal.service.http.problems import MEDIA_TYPE as PROBLEM
from shoal.service.http.problems import PREFIX

Schema: TypeAlias = Mapping[str, Any]
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
DOCUMENT_PATH = "/openapi.json"
JSON = "application/json"
BYTES = "application/octet-stream"


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One thing beside the body that a request carries."""

    name: str
    place: Literal["path", "query", "header"]
    schema: Schema
    description: str
    required: bool = True

    def document(self) -> dict[str, Any]:
        """As the document has it."""
        return {
            "name": self.name,
            "in": self.place,
            "required": self.required,
            "description": self.description,
            "schema": self.schema,
        }


@dataclass(frozen=True, kw_only=True)
class Content:
    """A body, sent or answered: its media types, each with a schema."""

    description: str
    media: Mapping[str, Schema]

    def document(self) -> dict[str, Any]:
        """As the document has it."""
        content = {name: {"schema": schema} for name, schema in self.media.items()}
        return {"description": self.description, "content": content}


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method of one path.

    ``answer`` comes with ``status`` if all is well; ``problems`` maps other ones to what they mean
    here. ``head`` says whether HEAD answers too, which only what changes nothing may do.
    ``secured`` operations want a bearer token. ``cross_origin`` ones may be used by scripts of any
    site (see :mod:`shoal.service.http.application`).
    """

    path: str
    method: Literal["GET", "POST"] = "GET"
    endpoint: Endpoint
    summary: str
    description: str = ""
    parameters: Sequence[Parameter] = ()
    body: Content | None = None
    answer: Content
    status: int = 200
    problems: Mapping[int, str] = field(default_factory=dict)
    secured: bool = False
    head: bool = True
    cross_origin: bool = False

    @property
    def name(self) -> str:
        """The operation's name in the document."""
        return self.endpoint.__name__.strip("_")

    def route(self) -> Route:
        """What the application serves."""
        route = Route(self.path, self.endpoint, methods=[self.method], name=self.name)
        if not self.head and route.methods:
            route.methods.discard("HEAD")
        return route

    def document(self) -> dict[str, Any]:
        """What the document says."""
        problems = {str(status): _problem(text) for status, text in self.problems.items()}
        found: dict[str, Any] = {
            "operationId": self.name,
            "summary": self.summary,
            "responses": {str(self.status): self.answer.document(), **problems},
        }
        if self.description:
            found["description"] = inspect.cleandoc(self.description)
        if self.parameters:
            found["parameters"] = [parameter.document() for parameter in self.parameters]
        if self.body is not None:
            found["requestBody"] = {**self.body.document(), "required": True}
        if self.secured:
            found["security"] = [{"bearer": []}]
        return found


def document(
    operations: Iterable[Operation],
    *,
    title: str,
    version: str,
    description: str = "",
    schemas: Mapping[str, Schema] | None = None,
) -> dict[str, Any]:
    """The OpenAPI 3.1 document of these operations; ``schemas`` may be referred to by name."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        methods = paths.setdefault(operation.path, {})
        methods[operation.method.lower()] = operation.document()
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version, "description": inspect.cleandoc(description)},
        "paths": paths,
        "components": {
            "schemas": {"Problem": PROBLEM_SCHEMA, **(schemas or {})},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def routes(operations: Iterable[Operation], described: Mapping[str, Any]) -> list[Route]:
    """The routes of these operations, and the one of their document."""
    body = json.dumps(described, ensure_ascii=False, sort_keys=True).encode()

    async def openapi(_request: Request) -> Response:
        return Response(body, media_type=JSON, headers={"Cache-Control": "max-age=3600"})

    return [*(operation.route() for operation in operations), Route(DOCUMENT_PATH, openapi)]


def as_json(description: str, schema: Schema) -> Content:
    """A body that is JSON."""
    return Content(description=description, media={JSON: schema})


def as_bytes(description: str, *, least: int = 0) -> Content:
    """A body of any bytes, so many at least."""
    schema = {"type": "string", "format": "binary", "minLength": least}
    return Content(description=description, media={BYTES: schema})


def reference(name: str) -> Schema:
    """A schema by its name in the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def record(properties: Mapping[str, Schema]) -> Schema:
    """An object with these members and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def array(items: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": items}


def digits(count: int) -> Schema:
    """So many lower-case hexadecimal digits."""
    return {"type": "string", "pattern": f"^[0-9a-f]{{{count}}}$"}


def count(minimum: int = 0, maximum: int | None = None) -> Schema:
    """A whole number."""
    above = {} if maximum is None else {"maximum": maximum}
    return {"type": "integer", "minimum": minimum, **above}


TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
PROBLEM_SCHEMA: Schema = {
    "type": "object",
    "description": "Problem details (RFC 9457).",
    "properties": {
        "type": {"type": "string", "pattern": f"^{re.escape(PREFIX)}[a-z_]+$"},
        "title": TEXT,
        "status": count(400, 599),
        "detail": TEXT,
        "retry_after": count(0),
    },
    "required": ["type", "title", "status", "detail"],
}


def _problem(text: str) -> dict[str, Any]:
    return Content(description=text, media={PROBLEM: reference("Problem")}).document()


# What both services have.

SURVEY_PATH = "/v1/surveys/{survey}"
OBJECT: Schema = {"type": "object"}
EVERYWHERE = {
    429: "Too many requests from one place.",
    503: "The store is unavailable, or too much is waiting: send the same again later.",
}
UNKNOWN = {404: "No such survey.", **EVERYWHERE}
TOKENS = {401: "No token that counts.", 403: "A token for another survey."}

SURVEY = Parameter(
    name="survey",
    place="path",
    schema=digits(64),
    description="The survey's name: SHA-256 of its canonical configuration.",
)
BATCH = Parameter(name="batch", place="path", schema=digits(32), description="The batch's id.")


def keys_operation(endpoint: Endpoint, whose: Literal["shuffler", "analyzer"]) -> Operation:
    """The service's own list of keys."""
    return Operation(
        path="/v1/keys",
        endpoint=endpoint,
        summary=f"The {whose}'s public keys, signed; the same bytes for everybody.",
        answer=as_json("The list.", OBJECT),
        problems=EVERYWHERE,
        cross_origin=True,
    )


def survey_operation(endpoint: Endpoint) -> Operation:
    """A whole survey."""
    return Operation(
        path=SURVEY_PATH,
        endpoint=endpoint,
        summary="The survey's canonical configuration: its SHA-256 is the survey's name.",
        parameters=[SURVEY],
        answer=as_json("The survey.", OBJECT),
        problems=UNKNOWN,
        cross_origin=True,
    )
