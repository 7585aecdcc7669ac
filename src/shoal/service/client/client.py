"""The two clients: one protocol, and the calls that carry out its exchanges.

Neither tells a service more than the request itself: no cookies are kept, no login of the
environment is used, redirects are not followed, and all clients call themselves the same.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager, AbstractContextManager, aclosing, closing
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from shoal.accounting.guarantee import Guarantee
from shoal.errors import InvalidArgumentError, MissingExtraError
from shoal.sealing import SurveyId
from shoal.service.admission import Invitation
from shoal.service.client.outbox import Ledger, Outbox, ReportId
from shoal.service.client.policy import Policy, without_login
from shoal.service.client.protocol import (
    LARGEST_RESPONSE,
    Exchange,
    Flushed,
    NoResponse,
    Outcome,
    Progress,
    Protocol,
    Request,
    Response,
    Settings,
    Source,
    Submitted,
    Wait,
    no_progress,
)
from shoal.service.client.randomize import Answer, Answers
from shoal.service.clock import Clock, system_clock
from shoal.service.survey import Survey

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
Transport = TypeVar("Transport")
Reply = Response | NoResponse | None  # to a request, or to a wait

_LONGEST = 5  # timeouts, that a whole exchange may take
_TOO_LONG = "the answer is too long, or takes too long"
_HEADERS = {"user-agent": "shoal/1", "accept": "*/*", "accept-encoding": "identity"}
_POSTED = {"content-type": "application/octet-stream"}


def default_directory() -> Path:
    """Where a person's outbox is unless another place is named.

    Returns:
        ``$XDG_STATE_HOME/shoal``, or ``~/.local/state/shoal``.

    Example:
        >>> default_directory().name
        'shoal'
    """
    state = os.environ.get("XDG_STATE_HOME", "")
    return (Path(state) if state else Path.home() / ".local" / "state") / "shoal"


class BaseClient(Generic[Transport]):
    """What needs no network: both clients have it."""

    _transport_of: ClassVar[str]  # the class of httpx that sends

    def __init__(
        self,
        directory: str | Path | None = None,
        *,
        policy: Policy | None = None,
        settings: Settings | None = None,
        transport: Transport | None = None,
        clock: Clock = system_clock,
    ) -> None:
        try:
            import httpx
        except ImportError as error:
            raise MissingExtraError("the client", "client") from error
        settings = settings or Settings()
        try:
            self._http = getattr(httpx, self._transport_of)(
                cookies=CookieJar(policy=DefaultCookiePolicy(allowed_domains=[])),
                follow_redirects=False,
                headers=_HEADERS,
                proxy=settings.proxy,
                timeout=settings.timeout,
                transport=transport,
                trust_env=False,
            )
        except (ValueError, ImportError, httpx.InvalidURL) as error:
            if settings.proxy is None:
                raise
            proxy, needs = without_login(settings.proxy), "(socks5:// needs socksio)"
            expected = f"the address of a proxy, such as http://127.0.0.1:3128 {needs}"
            raise InvalidArgumentError("proxy", proxy, expected) from error
        place = default_directory() if directory is None else Path(directory)
        self._settings = settings
        self._protocol = Protocol(
            outbox=Outbox(place, storage=settings.storage),
            policy=policy or Policy(),
            settings=settings,
            clock=clock,
        )

    def promised(self, survey: Survey, *, occasion: int = 1) -> Guarantee:
        """What answering costs at most, if it is allowed; nothing is drawn or sent."""
        return self._protocol.promised(survey, occasion)

    def spent(self) -> Ledger:
        """What every survey has cost this person, and all of them together."""
        return self._protocol.outbox.ledger()

    def progress(self, survey: Survey, *, job: str, occasion: int = 1) -> dict[str, int]:
        """How far a job is: how many were ``asked``, and how many ``people`` of them take part.

        ``delivered`` and ``waiting`` are the reports of those who take part.
        """
        return self._protocol.outbox.progress(ReportId(survey.id, occasion, job))

    def forget(self, survey: Survey | SurveyId | str) -> int:
        """Wipe what waits for a survey; how many reports that were.

        Its occasions stay used and its price stays in the ledger: what was sent cannot be unsent,
        and a report that was made once is never made again. Only if nothing of it was ever sent,
        not even in vain, its price is given back, and it can be answered anew.
        """
        if isinstance(survey, str):
            survey = SurveyId.from_text(survey)
        return self._protocol.outbox.forget(survey.id if isinstance(survey, Survey) else survey)

    def opt_out(self) -> int:
        """Wipe all that waits, and answer nothing until ``opt_in``; how many reports that were."""
        return self._protocol.outbox.opt_out()

    def opt_in(self) -> None:
        """Take part again."""
        self._protocol.outbox.opt_in()


@dataclass(frozen=True)
class Returned(Generic[T]):
    """What an exchange came to: its end itself cannot pass through a thread."""

    value: T


def _advanced(exchange: Exchange[T], reply: Reply) -> Request | Wait | Returned[T]:
    """The next step of an exchange, or what it returns."""
    try:
        if isinstance(reply, NoResponse):
            return exchange.throw(reply)
        return exchange.send(reply)
    except StopIteration as stopped:
        return Returned(stopped.value)


class Client(BaseClient["httpx.BaseTransport"], AbstractContextManager["Client"]):
    """Answers surveys: draws a report, keeps it, and sends it until it has arrived.

    A report is drawn once for every occasion; every retry sends the same bytes.

    Args:
        directory: Where the outbox is; ``default_directory()`` unless given.
        policy: What the person allows; the defaults of :class:`shoal.service.client.Policy`
            unless given.
        settings: How reports are sent, as :class:`shoal.service.client.Settings`.
        transport: One of httpx, for tests and for services in the same process.
        clock: Seconds since 1970.

    Raises:
        InvalidArgumentError: The proxy of the settings is no address.
        MissingExtraError: httpx is not installed.
        OutboxError: The outbox cannot be used.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as place, Client(place) as client:
        ...     client.spent().epsilon
        0.0
    """

    _transport_of = "Client"
    _http: httpx.Client
    _sleep: Callable[[float], None] = staticmethod(time.sleep)

    def survey(self, source: Source, *, name: str | None = None) -> Survey:
        """The survey itself, in a file, or at an address.

        Args:
            source: A survey, a path, or an address that begins with http:// or https://.
            name: The id that it must have; what its address ends with unless given.

        Returns:
            The survey, whose promise was worked out here and not believed.

        Raises:
            SurveyRefusedError: It cannot be read, contradicts itself, or has another id.
            PolicyError: It breaks a limit of the person.
        """
        return self._carry_out(self._protocol.survey(source, name))

    def report(
        self,
        survey: Source,
        answer: Answer,
        *,
        occasion: int = 1,
        invitation: Invitation | str | None = None,
    ) -> Outcome:
        """Answer a survey, or go on with the report of this occasion if it was made before.

        Args:
            survey: As for ``survey``.
            answer: An answer of the survey, a number within its bounds, or a mapping from the names
                of several questions to answers.
            occasion: Which of the reports that the survey takes from one person, from 1.
            invitation: What the person was handed, if the survey is for people invited. A report
                that waits because of one goes on with another.

        Returns:
            ``Sent``, ``Queued`` (it waits for ``flush``), or ``Abstained``.

        Raises:
            InvalidArgumentError: The survey has no such answer.
            SurveyRefusedError: The survey cannot be answered: it is over, or has no such occasion.
            PolicyError: It breaks a limit of the person.
            KeysRefusedError: A party's keys cannot be trusted.
            DeliveryError: The report will not be sent any more.
        """
        return self._carry_out(self._protocol.report(survey, answer, occasion, invitation))

    def report_many(
        self,
        survey: Source,
        answers: Answers,
        *,
        job: str,
        occasion: int = 1,
        invitations: Sequence[Invitation | str] | None = None,
        pool: Executor | None = None,
        progress: Progress = no_progress,
    ) -> Submitted:
        """Answers of many people, one each; the same ``job`` goes on where it was interrupted.

        Args:
            survey: As for ``survey``.
            answers: One for each person.
            job: A name for these people.
            occasion: Which of their reports, from 1.
            invitations: Theirs in the same order, if the survey is for people invited.
            pool: Processes that seal; None seals here.
            progress: Called with the people done and all.

        Returns:
            ``Submitted``, which says how far the job is.

        Raises:
            InvalidArgumentError: There is no name, an answer that the survey does not have, or
                another number of invitations.
            ClientError: As for ``report``.
        """
        return self._carry_out(
            self._protocol.report_many(
                survey, answers, job, occasion, invitations, pool=pool, progress=progress
            )
        )

    def flush(self, *, everything: bool = False) -> Flushed:
        """Try what waits and is due.

        Args:
            everything: Try what is not due yet, too.

        Returns:
            ``Flushed``, the numbers of reports delivered, waiting, and given up.
        """
        return self._carry_out(self._protocol.flush(everything=everything))

    def _carry_out(self, exchange: Exchange[T]) -> T:
        step = _advanced(exchange, None)
        while not isinstance(step, Returned):
            step = _advanced(exchange, self._perform(step))
        return step.value

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close connections and the outbox."""
        self._http.close()
        self._protocol.outbox.close()

    def _perform(self, step: Request | Wait) -> Reply:
        if isinstance(step, Wait):
            self._sleep(step.seconds)
            return None
        deadline = time.monotonic() + _LONGEST * self._settings.timeout
        body = bytearray()
        try:
            with closing(self._http.send(_built(self._http, step), stream=True)) as response:
                _refuse_packed(response)
                for part in response.iter_bytes():
                    body += part
                    if time.monotonic() > deadline or len(body) > LARGEST_RESPONSE:
                        raise NoResponse(_TOO_LONG, unsent=False)
                return Response(response.status_code, response.headers, bytes(body))
        except _failures() as error:
            return _no_response(error)


class AsyncClient(
    BaseClient["httpx.AsyncBaseTransport"], AbstractAsyncContextManager["AsyncClient"]
):
    """The same as :class:`shoal.Client` for programs that await; disk and noise are in a thread.

    Args:
        directory: Where the outbox is; ``default_directory()`` unless given.
        policy: What the person allows; the defaults of :class:`shoal.service.client.Policy`
            unless given.
        settings: How reports are sent, as :class:`shoal.service.client.Settings`.
        transport: One of httpx, for tests and for services in the same process.
        clock: Seconds since 1970.

    Raises:
        InvalidArgumentError: The proxy of the settings is no address.
        MissingExtraError: httpx is not installed.
        OutboxError: The outbox cannot be used.

    Example:
        >>> import asyncio, tempfile
        >>> async def spent(place):
        ...     async with AsyncClient(place) as client:
        ...         return client.spent().epsilon
        >>> with tempfile.TemporaryDirectory() as place:
        ...     asyncio.run(spent(place))
        0.0
    """

    _transport_of = "AsyncClient"
    _http: httpx.AsyncClient
    _sleep: Callable[[float], Awaitable[None]] = staticmethod(asyncio.sleep)

    async def survey(self, source: Source, *, name: str | None = None) -> Survey:
        """As :meth:`shoal.Client.survey`."""
        return await self._carry_out(self._protocol.survey(source, name))

    async def report(
        self,
        survey: Source,
        answer: Answer,
        *,
        occasion: int = 1,
        invitation: Invitation | str | None = None,
    ) -> Outcome:
        """As :meth:`shoal.Client.report`."""
        return await self._carry_out(self._protocol.report(survey, answer, occasion, invitation))

    async def report_many(
        self,
        survey: Source,
        answers: Answers,
        *,
        job: str,
        occasion: int = 1,
        invitations: Sequence[Invitation | str] | None = None,
        pool: Executor | None = None,
        progress: Progress = no_progress,
    ) -> Submitted:
        """As :meth:`shoal.Client.report_many`."""
        return await self._carry_out(
            self._protocol.report_many(
                survey, answers, job, occasion, invitations, pool=pool, progress=progress
            )
        )

    async def flush(self, *, everything: bool = False) -> Flushed:
        """As :meth:`shoal.Client.flush`."""
        return await self._carry_out(self._protocol.flush(everything=everything))

    async def _carry_out(self, exchange: Exchange[T]) -> T:
        step = await asyncio.to_thread(_advanced, exchange, None)
        while not isinstance(step, Returned):
            reply = await self._perform(step)
            step = await asyncio.to_thread(_advanced, exchange, reply)
        return step.value

    async def close(self) -> None:
        """Close connections and the outbox."""
        await self._http.aclose()
        self._protocol.outbox.close()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _perform(self, step: Request | Wait) -> Reply:
        if isinstance(step, Wait):
            await self._sleep(step.seconds)
            return None
        body = bytearray()
        try:
            request = _built(self._http, step)
            async with (
                asyncio.timeout(_LONGEST * self._settings.timeout),
                aclosing(await self._http.send(request, stream=True)) as response,
            ):
                _refuse_packed(response)
                async for part in response.aiter_bytes():
                    body += part
                    if len(body) > LARGEST_RESPONSE:
                        raise NoResponse(_TOO_LONG, unsent=False)
                return Response(response.status_code, response.headers, bytes(body))
        except TimeoutError:
            return NoResponse(_TOO_LONG, unsent=False)
        except _failures() as error:
            return _no_response(error)


def _failures() -> tuple[type[Exception], ...]:
    """What httpx raises: its own, and what it lets through."""
    import httpx

    return NoResponse, httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, ValueError, OSError


def _no_response(error: Exception) -> NoResponse:
    if isinstance(error, NoResponse):
        return error
    import httpx

    unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    return NoResponse(f"no answer ({type(error).__name__})", unsent=unsent)


def _built(http: Any, request: Request) -> httpx.Request:  # noqa: ANN401 - either client of httpx
    method, headers = ("GET", None) if request.body is None else ("POST", _POSTED)
    try:
        built: httpx.Request = http.build_request(
            method, request.url, content=request.body, headers=headers
        )
        _ = built.url.host  # decoded here, before anything is sent
    except _failures() as error:
        reason = f"the address cannot be asked ({type(error).__name__})"
        raise NoResponse(reason, unsent=True) from error
    return built


def _refuse_packed(response: httpx.Response) -> None:
    """Refuse bytes that would have to be inflated, by who knows how much."""
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise NoResponse("the answer is compressed, which was not asked for", unsent=False)
