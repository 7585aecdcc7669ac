"""An application made of described operations: routes, problems, and who may use them.

Scripts of any site may use what everybody may use (cross-origin resource sharing).
A survey's page, and pages that embed one, are on another origin than the shuffler that they send
to. A browser lets their scripts do so only if the answers say that they may. These answers say so
to everybody, in the same bytes, whether or not a request names an origin: what depends on who asks
could tell who asked. Credentials are never part of it, and what needs a token is left out: no
browser has one.

A browser asks first whether it may send bytes (a preflight). That is answered from memory, and the
answer holds for a day.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Lifespan, Message, Receive, Scope, Send

from shoal.service.http import openapi
from shoal.service.http.openapi import Document
from shoal.service.http.problems import Observe, exception_handlers, unobserved

DAY = 86400
EVERYBODY = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"retry-after"),
)
_PARAMETER = re.compile(r"\{[^}]*\}")


class Application(Starlette):
    """The routes of the operations and of their document, and ``pages`` that it does not have.

    ``shared`` are paths of pages that scripts of any site may read; operations say it themselves.
    """

    def __init__(
        self,
        document: Document,
        handlers: object,
        *,
        observe: Observe = unobserved,
        lifespan: Lifespan[Starlette] | None = None,
        pages: Sequence[BaseRoute] = (),
        shared: Sequence[str] = (),
    ) -> None:
        super().__init__(
            routes=[*openapi.routes(document, handlers), *pages],
            exception_handlers=exception_handlers(observe),
            lifespan=lifespan,
        )
        # Redirects would be answers that the document does not have.
        self.router.redirect_slashes = False
        methods: dict[str, set[str]] = {path: {"GET", "HEAD"} for path in shared}
        for operation in openapi.operations(document):
            if operation.document.get("x-cross-origin"):
                methods.setdefault(operation.path, set()).update(operation.methods)
        # As routes are matched: a parameter is anything but a slash.
        self._preflights = [
            (re.compile("[^/]+".join(map(re.escape, _PARAMETER.split(path)))), _preflight(allowed))
            for path, allowed in methods.items()
        ]

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


def _preflight(methods: Iterable[str]) -> Response:
    allowed = ", ".join(sorted({*methods, "OPTIONS"}))
    headers = {
        "access-control-allow-origin": "*",
        "access-control-allow-methods": allowed,
        "access-control-allow-headers": "content-type",
        "access-control-max-age": str(DAY),
        "allow": allowed,
    }
    return Response(status_code=204, headers=headers)
