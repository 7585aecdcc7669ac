"""The analyzer's HTTP application: keys and surveys for everybody, results for who may read them.

It only reads: batches are collected by a worker, which may be another process.
"""

from __future__ import annotations

from starlette.applications import Starlette

from shoal.service.analyzer.description import described
from shoal.service.analyzer.handlers import Handlers
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.http import openapi
from shoal.service.http.limits import Limits
from shoal.service.http.problems import Observe, exception_handlers, unobserved
from shoal.service.keyring import Keyring


def analyzer_app(
    store: AnalyzerStore,
    keyring: Keyring,
    *,
    public_results: bool = False,
    limits: Limits | None = None,
    observe: Observe = unobserved,
) -> Starlette:
    """The application; results need a bearer token unless they are public."""
    handlers = Handlers(
        store=store,
        keyring=keyring,
        limits=limits or Limits(),
        public_results=public_results,
    )
    operations, document = described(handlers)
    return Starlette(
        routes=openapi.routes(operations, document),
        exception_handlers=exception_handlers(observe),
    )
