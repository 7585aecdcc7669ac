"""An application made of described operations: routes, problems, and who may use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Lifespan

from shoal.service.http import openapi
from shoal.service.http.cors import CrossOrigin
from shoal.service.http.openapi import Operation
from shoal.service.http.problems import Observe, exception_handlers, unobserved


class Application(Starlette):
    """The routes of the operations and of their document, and ``pages`` that it does not have.

    ``shared`` are paths of pages that scripts of any site may read; operations say it themselves.
    """

    def __init__(
        self,
        operations: Sequence[Operation],
        document: Mapping[str, Any],
        *,
        observe: Observe = unobserved,
        lifespan: Lifespan[Starlette] | None = None,
        pages: Sequence[BaseRoute] = (),
        shared: Sequence[str] = (),
    ) -> None:
        self._operations = tuple(operations)
        self._shared = tuple(shared)
        super().__init__(
            routes=[*openapi.routes(operations, document), *pages],
            exception_handlers=exception_handlers(observe),
            lifespan=lifespan,
        )
        # Redirects would be answers that the document does not have.
        self.router.redirect_slashes = False

    def build_middleware_stack(self) -> ASGIApp:
        """All of it within, even what answers for a defect."""
        return CrossOrigin(super().build_middleware_stack(), self._operations, self._shared)
