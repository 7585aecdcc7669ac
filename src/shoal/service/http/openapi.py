"""An application read from its OpenAPI 3.1 document: a file beside the application's module.

Each operation is answered by the method of the handlers that its ``operationId`` names, so that
neither has what the other has not. HEAD answers what GET does, but for operations with ``x-head:
false``, which change something.

Scripts of any site may use ``x-cross-origin`` operations (cross-origin resource sharing).
A survey's page, and pages that embed one, are on another origin than the shuffler that they send
to. A browser lets their scripts do so only if the answers say that they may. These answers say so
to everybody, in the same bytes, whether or not a request names an origin: what depends on who asks
could tell who asked. Credentials are never part of it, and what needs a token is left out: no
browser has one.

A browser asks first whether it may send bytes (a preflight). That is answered from memory, and the
answer holds for a day.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Lifespan, Message, Receive, Scope, Send

from shoal.errors import ShoalError
from shoal.service.http.limits import Addresses, Limits
from shoal.service.http.problems import Observe, ProblemError, answer_to, unobserved

Document: TypeAlias = dict[str, Any]
Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
DOCUMENT_PATH = "/openapi.json"
JSON = "application/json"
BYTES = "application/octet-stream"
SURVEY_PATH = "/v1/surveys/{survey}"
DAY = 86400
EVERYBODY = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"retry-after"),
)
_TOKENS = ("401", "403")
_ANSWERED = (ProblemError, ShoalError, HTTPException, Exception)  # with a problem
_PARAMETER = re.compile(r"\{[^}]*\}")


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


async def _charged(addresses: Addresses, handler: Handler, request: Request) -> Response:
    """The answer of a handler to who may ask; who that was is known to it by the networks."""
    request.state.networks = addresses.charge(addresses.sender(request.scope), 1)
    return await handler(request)


class Application(Starlette):
    """The routes of the operations and of their document, and ``pages`` that it does not have.

    ``addresses`` limits every operation by where a request comes from. ``shared`` are paths of
    pages that scripts of any site may read; operations say it themselves.
    """

    def __init__(
        self,
        document: Document,
        handlers: object,
        *,
        addresses: Addresses | None = None,
        observe: Observe = unobserved,
        lifespan: Lifespan[Starlette] | None = None,
        pages: Sequence[BaseRoute] = (),
        shared: Sequence[str] = (),
    ) -> None:
        body = json.dumps(document, ensure_ascii=False, sort_keys=True).encode()

        async def openapi(_request: Request) -> Response:
            return Response(body, media_type=JSON, headers={"Cache-Control": "max-age=3600"})

        # A coroutine: others are run in a thread, which takes longer than all of this.
        async def refused(_request: Request, error: Exception) -> Response:
            return answer_to(error, observe)

        limited = addresses or Addresses(Limits())
        routes: list[BaseRoute] = [Route(DOCUMENT_PATH, openapi)]
        methods: dict[str, set[str]] = {path: {"GET", "HEAD"} for path in shared}
        for operation in operations(document):
            name = operation.document["operationId"]
            answer = partial(_charged, limited, getattr(handlers, name))
            route = Route(operation.path, answer, name=name)
            route.methods = set(operation.methods)
            routes.append(route)
            if operation.document.get("x-cross-origin"):
                methods.setdefault(operation.path, set()).update(operation.methods)
        super().__init__(
            routes=[*routes, *pages],
            exception_handlers=dict.fromkeys(_ANSWERED, refused),
            lifespan=lifespan,
        )
        # Redirects would be answers that the document does not have.
        self.router.redirect_slashes = False
        self._preflights = []
        for path, names in methods.items():
            # As routes are matched: a parameter is anything but a slash.
            pattern = re.compile("[^/]+".join(map(re.escape, _PARAMETER.split(path))))
            allowed = ", ".join(sorted({*names, "OPTIONS"}))
            headers = {
                "access-control-allow-origin": "*",
                "access-control-allow-methods": allowed,
                "access-control-allow-headers": "content-type",
                "access-control-max-age": str(DAY),
                "allow": allowed,
            }
            self._preflights.append((pattern, Response(status_code=204, headers=headers)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer preflights, and let all other answers say who may read them, defects included."""
        path = scope["path"] if scope["type"] == "http" else ""
        known = (made for pattern, made in self._preflights if pattern.fullmatch(path))
        preflight = next(known, None)
        if preflight is None:
            await super().__call__(scope, receive, send)
            return

        async def shared(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *EVERYBODY]
            await send(message)

        if scope["method"] == "OPTIONS":
            await preflight(scope, receive, send)
        else:
            await super().__call__(scope, receive, shared)
