"""The shuffler's HTTP application: keys and surveys for everybody, batches for the analyzer.

Of a request nothing is kept but the reports in its body: no address, no header, no query, no time.
The bytes of what is answered to an upload are the same for reports that are new and for such that
were sent before; the time it takes is not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool

from shoal.service.clock import Clock, system_clock
from shoal.service.http.limits import Addresses, Limits
from shoal.service.http.problems import Observe, unobserved
from shoal.service.keyring import Keyring
from shoal.service.shuffler.description import described
from shoal.service.shuffler.handlers import Handlers
from shoal.service.shuffler.intake import Intake
from shoal.service.shuffler.uploads import UploadApplication, Uploads
from shoal.service.store import ShufflerStore


def shuffler_app(
    store: ShufflerStore,
    keyring: Keyring,
    *,
    limits: Limits | None = None,
    clock: Clock = system_clock,
    observe: Observe = unobserved,
) -> Starlette:
    """The application; when it ends, what it took in is committed and its segment is closed."""
    intake = Intake(store, observe=observe)
    limits = limits or Limits()
    addresses = Addresses(limits)
    uploads = Uploads(
        keyring=keyring,
        intake=intake,
        addresses=addresses,
        limits=limits,
        clock=clock,
        observe=observe,
    )
    handlers = Handlers(
        store=store,
        keyring=keyring,
        uploads=uploads,
        addresses=addresses,
        limits=limits,
        clock=clock,
    )
    operations, document = described(handlers)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(intake.close)
        await run_in_threadpool(store.close)

    app = UploadApplication(operations, document, observe=observe, lifespan=lifespan)
    app.uploads = uploads
    return app
