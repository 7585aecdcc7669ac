"""The analyzer's HTTP application: keys and surveys for everybody, results for who may read them.

It only reads: batches are collected by a worker, which may be another process. Pages for people are
made elsewhere, from what :class:`AnalyzerPages` has, and handed in as routes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from shoal.service.analyzer.description import described
from shoal.service.analyzer.handlers import Handlers
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.http.application import Application
from shoal.service.http.limits import Limits
from shoal.service.http.problems import Observe, unobserved
from shoal.service.keyring import Keyring

SHARED_PAGES = ("/embed.js",)  # that other sites put into theirs


@dataclass(frozen=True, kw_only=True)
class AnalyzerPages:
    """What pages are made from.

    ``proxied``: requests come through a reverse proxy, whose word on how they came is believed.
    """

    store: AnalyzerStore
    keyring: Keyring
    limits: Limits
    public_results: bool = False
    proxied: bool = False


Pages: TypeAlias = Callable[[AnalyzerPages], Sequence[BaseRoute]]


def no_pages(_analyzer: AnalyzerPages) -> Sequence[BaseRoute]:
    """An analyzer for programs only."""
    return ()


def analyzer_app(
    store: AnalyzerStore,
    keyring: Keyring,
    *,
    public_results: bool = False,
    limits: Limits | None = None,
    observe: Observe = unobserved,
    pages: Sequence[BaseRoute] = (),
) -> Starlette:
    """The application; results need a bearer token unless they are public.

    ``pages`` are routes for people, beside the ones for programs.
    """
    handlers = Handlers(
        store=store,
        keyring=keyring,
        limits=limits or Limits(),
        public_results=public_results,
    )
    operations, document = described(handlers)
    return Application(operations, document, observe=observe, pages=pages, shared=SHARED_PAGES)
