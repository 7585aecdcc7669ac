"""Whether the process lives, and whether it can do its work.

``/healthz`` answers as long as the process does. ``/readyz`` looks at the database, the keys, the
disk and the clock, and answers 503 with a problem document if one of them is not in order: a load
balancer then sends nobody here. What it found it tells on the port of the metrics; on the public
port it says no more than ready or not, and looks at most once in a second, so that asking costs
nothing.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from threading import Lock

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from shoal.sealing import Plain
from shoal.service.http.problems import Problem
from shoal.service.running.findings import Check, Finding, State, guarded, worst

_FRESH = 1.0
_PATIENCE = 5.0
_RETRY = 10
_ADVICE = "see the log of this process, and run shoal doctor"
_WAITING = 503


class Readiness:
    """All checks of a process, looked at no more than once in a second."""

    def __init__(self, checks: Sequence[tuple[str, Check]]) -> None:
        self._checks = tuple(checks)
        self._lock = Lock()
        self._until = -1.0
        self._found: list[Finding] = []

    def findings(self) -> list[Finding]:
        """What the checks found a moment ago.

        Whoever asks while somebody else looks gets what was found before: a database that takes
        its time to be gone must not hold up everybody who asks.
        """
        if self._found and time.monotonic() < self._until:
            return self._found
        if self._lock.acquire(blocking=not self._found):
            try:
                self._found = [guarded(name, check, _ADVICE) for name, check in self._checks]
                self._until = time.monotonic() + _FRESH
            finally:
                self._lock.release()
        return self._found

    def answer(self, *, detailed: bool) -> Response:
        """200, or 503 with a problem document."""
        found = self.findings()
        told = [finding.to_dict() for finding in found] if detailed else []
        if worst(found) is State.FAIL:
            bad = next(finding for finding in found if finding.state is State.FAIL)
            why = f"{bad.check}: {bad.detail}; {bad.advice}"
            extra: dict[str, Plain] = {"checks": [dict(each) for each in told]} if detailed else {}
            return _not_in_order(why if detailed else "not ready to serve; try again later", extra)
        return _plain({"status": "ready", **({"checks": told} if detailed else {})})


def _not_in_order(detail: str, extra: Mapping[str, Plain] | None = None) -> Response:
    return Problem(
        kind="not_in_order",
        status=_WAITING,
        detail=detail,
        retry_after=_RETRY,
        extra=extra or {},
    ).response()


def _plain(document: object) -> Response:
    headers = {"Cache-Control": "no-store"}
    return Response(json.dumps(document) + "\n", headers=headers, media_type="application/json")


class WithHealth:
    """An application, with ``/healthz`` and ``/readyz`` answered before it is asked."""

    def __init__(
        self,
        app: ASGIApp,
        readiness: Readiness,
        *,
        detailed: bool = False,
        patience: float = _PATIENCE,
    ) -> None:
        self._app = app
        self._readiness = readiness
        self._detailed = detailed
        self._patience = patience
        self._looking: asyncio.Task[Response] | None = None

    async def _ready(self) -> Response:
        """One look for all who ask at a time: it takes one thread, however many they are."""
        if self._looking is None or self._looking.done():
            look = run_in_threadpool(self._readiness.answer, detailed=self._detailed)
            self._looking = asyncio.ensure_future(look)
        try:
            return await asyncio.wait_for(asyncio.shield(self._looking), self._patience)
        except TimeoutError:
            return _not_in_order("nothing was found out in time; see the log, and ask again later")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the two paths, pass everything else on."""
        path = scope.get("path") if scope["type"] == "http" else None
        if path not in {"/healthz", "/readyz"} or scope["method"] not in {"GET", "HEAD"}:
            await self._app(scope, receive, send)
            return
        answer = _plain({"status": "alive"}) if path == "/healthz" else await self._ready()
        await answer(scope, receive, send)
