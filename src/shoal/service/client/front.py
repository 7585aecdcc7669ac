"""The two clients: the same machine, and the calls that carry out what it wants.

Neither tells a service more than the request itself: no cookies are kept, no login of the
environment is used, redirects are not followed, and all clients call themselves the same.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Generator
from concurrent.futures import Executor
from contextlib import aclosing, closing
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from shoal.accounting.guarantee import Guarantee
from shoal.errors import InvalidArgumentError, MissingExtraError
from shoal.sealing import SurveyId
from shoal.service.client.drawing import Answer, Answers
from shoal.service.client.exchange import LARGEST_REPLY, Ask, Came, Reply, Silence, Talk, Wait
from shoal.service.client.machine import Machine, Progress, untold
from shoal.service.client.outbox import Outbox
from shoal.service.client.outcomes import Flushed, Outcome, Submitted
from shoal.service.client.policy import Policy
from shoal.service.client.rows import Ledger, Place
from shoal.service.client.settings import Settings
from shoal.service.client.sources import Source, survey_id, without_login
from shoal.service.clock import Clock, system_clock
from shoal.service.closing import Closing
from shoal.service.survey import Survey

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
Transport = TypeVar("Transport")
_AGENT = "shoal/1"
_TOO_LONG = Silence("the answer is too long, or takes too long", unsent=False)
_COMPRESSED = Silence("the answer is compressed, which was not asked for", unsent=False)
_LONGEST = 5  # timeouts, that a whole exchange may take


def default_directory() -> Path:
    """Where a person's outbox is unless another place is named."""
    state = os.environ.get("XDG_STATE_HOME", "")
    return (Path(state) if state else Path.home() / ".local" / "state") / "shoal"


class _Common(Generic[Transport]):
    """What does not talk: both clients have it."""

    _carrier: ClassVar[str]  # the class of httpx that talks

    def __init__(
        self,
        directory: str | Path | None = None,
        *,
        policy: Policy | None = None,
        settings: Settings | None = None,
        transport: Transport | None = None,
        clock: Clock = system_clock,
    ) -> None:
        self._settings = settings or Settings()
        self._http = _made(self._carrier, self._settings, transport)
        place = default_directory() if directory is None else Path(directory)
        self._machine = Machine(
            outbox=Outbox(place, storage=self._settings.storage),
            policy=policy or Policy(),
            settings=self._settings,
            clock=clock,
        )

    def promised(self, survey: Survey, *, occasion: int = 1) -> Guarantee:
        """What answering costs at most, if it is allowed; nothing is drawn or sent."""
        return self._machine.promised(survey, occasion)

    def spent(self) -> Ledger:
        """What every survey has cost this person, and all of them together."""
        return self._machine.outbox.ledger()

    def progress(self, survey: Survey, *, job: str, occasion: int = 1) -> dict[str, int]:
        """How far a job is: how many were ``asked``, and how many ``people`` of them take part.

        ``delivered`` and ``waiting`` are the reports of those who take part.
        """
        return self._machine.outbox.progress(Place(survey.id, occasion, job))

    def forget(self, survey: Survey | SurveyId | str) -> int:
        """Wipe what waits for a survey; how many reports that were.

        Its occasions stay used and its price stays in the ledger: what was sent cannot be unsent,
        and a report that was made once is never made again.
        """
        return self._machine.outbox.forget(survey_id(survey))

    def opt_out(self) -> int:
        """Wipe all that waits, and answer nothing until ``opt_in``; how many reports that were."""
        return self._machine.outbox.opt_out()

    def opt_in(self) -> None:
        """Take part again."""
        self._machine.outbox.opt_in()


class Client(_Common["httpx.BaseTransport"], Closing):
    """Answers surveys: draws a report, keeps it, and sends it until it has arrived.

    ``directory`` holds the outbox; ``policy`` is what the person allows; ``settings`` how it is
    sent. ``transport`` is one of httpx, for tests and for services in the same process.
    """

    _carrier = "Client"
    _http: httpx.Client
    _sleep = staticmethod(time.sleep)

    def survey(self, source: Source, *, name: str | None = None) -> Survey:
        """The survey in a file or at an address, if it is the one of this name."""
        return self._carried_out(self._machine.survey(source, name=name))

    def report(self, survey: Source, answer: Answer, *, occasion: int = 1) -> Outcome:
        """Answer a survey, or go on with the report of this occasion if it was made before."""
        return self._carried_out(self._machine.report(survey, answer, occasion))

    def report_many(
        self,
        survey: Source,
        answers: Answers,
        *,
        job: str,
        occasion: int = 1,
        pool: Executor | None = None,
        progress: Progress = untold,
    ) -> Submitted:
        """Answers of many people, one each; the same ``job`` goes on where it was interrupted."""
        talk = self._machine.report_many(survey, answers, (job, occasion), pool=pool, told=progress)
        return self._carried_out(talk)

    def flush(self, *, everything: bool = False) -> Flushed:
        """Try what waits and is due; ``everything`` does not wait until it is."""
        return self._carried_out(self._machine.flush(everything=everything))

    def close(self) -> None:
        """Close connections and the outbox."""
        self._http.close()
        self._machine.outbox.close()

    def _carried_out(self, talk: Talk[T]) -> T:
        came: Came = None
        while True:
            try:
                wanted = talk.send(came)
            except StopIteration as stopped:
                found: T = stopped.value
                return found
            came = self._done(wanted)

    def _done(self, wanted: Ask | Wait) -> Came:
        if isinstance(wanted, Wait):
            return self._sleep(wanted.seconds)
        try:
            request = _built(self._http, wanted)
        except _foreign() as error:
            return _unsendable(error)
        body, until = bytearray(), time.monotonic() + _LONGEST * self._settings.timeout
        try:
            response = self._http.send(request, stream=True)
            with closing(response):
                if _compressed(response):
                    return _COMPRESSED
                for part in response.iter_bytes():
                    body += part
                    if len(body) > LARGEST_REPLY or time.monotonic() > until:
                        return _TOO_LONG
                return _reply(response, bytes(body))
        except _foreign() as error:
            return _silence(error)


class AsyncClient(_Common["httpx.AsyncBaseTransport"]):
    """The same as :class:`Client` for programs that await; disk and noise are in a thread."""

    _carrier = "AsyncClient"
    _http: httpx.AsyncClient
    _sleep = staticmethod(asyncio.sleep)

    async def survey(self, source: Source, *, name: str | None = None) -> Survey:
        """The survey in a file or at an address, if it is the one of this name."""
        return await self._carried_out(self._machine.survey(source, name=name))

    async def report(self, survey: Source, answer: Answer, *, occasion: int = 1) -> Outcome:
        """Answer a survey, or go on with the report of this occasion if it was made before."""
        return await self._carried_out(self._machine.report(survey, answer, occasion))

    async def report_many(
        self,
        survey: Source,
        answers: Answers,
        *,
        job: str,
        occasion: int = 1,
        pool: Executor | None = None,
        progress: Progress = untold,
    ) -> Submitted:
        """Answers of many people, one each; the same ``job`` goes on where it was interrupted."""
        talk = self._machine.report_many(survey, answers, (job, occasion), pool=pool, told=progress)
        return await self._carried_out(talk)

    async def flush(self, *, everything: bool = False) -> Flushed:
        """Try what waits and is due; ``everything`` does not wait until it is."""
        return await self._carried_out(self._machine.flush(everything=everything))

    async def close(self) -> None:
        """Close connections and the outbox."""
        await self._http.aclose()
        self._machine.outbox.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _carried_out(self, talk: Talk[T]) -> T:
        came: Came = None
        while True:
            # The end of a generator cannot be raised through a thread.
            wanted, found = await asyncio.to_thread(_step, talk, came)
            if wanted is None:
                return found  # type: ignore[return-value]  # it is what the generator returned
            came = await self._done(wanted)

    async def _done(self, wanted: Ask | Wait) -> Came:
        if isinstance(wanted, Wait):
            await self._sleep(wanted.seconds)
            return None
        try:
            request = _built(self._http, wanted)
        except _foreign() as error:
            return _unsendable(error)
        try:
            async with asyncio.timeout(_LONGEST * self._settings.timeout):
                return await self._answer(request)
        except TimeoutError:
            return _TOO_LONG
        except _foreign() as error:
            return _silence(error)

    async def _answer(self, request: httpx.Request) -> Came:
        body = bytearray()
        response = await self._http.send(request, stream=True)
        async with aclosing(response):
            if _compressed(response):
                return _COMPRESSED
            async for part in response.aiter_bytes():
                body += part
                if len(body) > LARGEST_REPLY:
                    return _TOO_LONG
            return _reply(response, bytes(body))


def _step(
    talk: Generator[Ask | Wait, Came, T], came: Came
) -> tuple[Ask | Wait, None] | tuple[None, T]:
    try:
        return talk.send(came), None
    except StopIteration as stopped:
        return None, stopped.value


def _httpx() -> Any:  # noqa: ANN401 - a module
    try:
        import httpx
    except ImportError as error:
        raise MissingExtraError("the client", "client") from error
    return httpx


def _made(carrier: str, settings: Settings, transport: object) -> Any:  # noqa: ANN401 - of httpx
    httpx = _httpx()
    try:
        return getattr(httpx, carrier)(transport=transport, **_manners(settings))
    except (ValueError, ImportError, httpx.InvalidURL) as error:
        if settings.proxy is None:
            raise
        expected = "the address of a proxy, such as http://127.0.0.1:3128 (socks5:// needs socksio)"
        raise InvalidArgumentError("proxy", without_login(settings.proxy), expected) from error


def _manners(settings: Settings) -> dict[str, Any]:
    return {
        "cookies": CookieJar(policy=DefaultCookiePolicy(allowed_domains=[])),
        "follow_redirects": False,
        "headers": {"user-agent": _AGENT, "accept": "*/*", "accept-encoding": "identity"},
        "proxy": settings.proxy,
        "timeout": settings.timeout,
        "trust_env": False,
    }


def _request(wanted: Ask) -> dict[str, Any]:
    if wanted.body is None:
        return {"method": "GET", "url": wanted.url}
    headers = {"content-type": "application/octet-stream"}
    return {"method": "POST", "url": wanted.url, "content": wanted.body, "headers": headers}


def _built(http: Any, wanted: Ask) -> httpx.Request:  # noqa: ANN401 - either client of httpx
    """The request, if its address is one."""
    request: httpx.Request = http.build_request(**_request(wanted))
    _ = request.url.host  # decoded here, before anything is sent
    return request


def _foreign() -> tuple[type[Exception], ...]:
    """What httpx raises: its own, and what it lets through."""
    httpx = _httpx()
    return httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, ValueError, OSError


def _unsendable(error: Exception) -> Silence:
    return Silence(f"the address cannot be asked ({type(error).__name__})", unsent=True)


def _compressed(response: httpx.Response) -> bool:
    """Whether its bytes would have to be inflated, by who knows how much."""
    return bool(response.headers.get("content-encoding", "identity").lower() != "identity")


def _reply(response: httpx.Response, body: bytes) -> Reply:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(response.status_code, headers, body)


def _silence(error: Exception) -> Silence:
    httpx = _httpx()
    unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    return Silence(f"no answer ({type(error).__name__})", unsent=unsent)
