"""Where batches come from: a shuffler, and how they get onto the disk: whole, and as announced.

Everything that comes over HTTP is checked where it is used: the list here, a batch against the
digest that was announced, its header against the survey, every record by opening it. Nor is it
believed to answer in time, or ever to come to an end. A token opens a shuffler's batches, and is
read from a file when it is needed.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from shoal.errors import InvalidArgumentError, MissingExtraError, RefusedError, ShoalError
from shoal.sealing import SurveyId
from shoal.service.analyzer.collection import Collection, Offer
from shoal.service.db.files import create, disk, sync_data, sync_directory, write_all
from shoal.service.errors import (
    LeaseLostError,
    NotReadyError,
    UnknownError,
    already_collected,
    wrong_digest,
)
from shoal.service.http import outgoing
from shoal.service.http.outgoing import NoAnswerError
from shoal.service.keyring.secrets import exposed
from shoal.service.survey import Survey

try:
    import httpx
except ImportError:
    raise MissingExtraError("collecting from a shuffler", "server") from None

Made = TypeVar("Made")

LARGEST = 16 << 30  # bytes of a batch that is fetched at all
LARGEST_ANSWER = 8 << 20
MOST_OFFERS = 10_000
_RETRY = 10
_LONGEST_RETRY = 9  # digits
_LONGEST_DETAIL = 500
_TIMEOUT = 60.0
_KIND = re.compile(r"urn:shoal:problem:[a-z_]+")
READY = frozenset({"SHUFFLED", "RELEASED"})
_PIECE = 1 << 20
_FREE_SPACE = "free some space, or ask the shuffler's operator"
_DIGITS = 16  # of a survey's name, that tell it from others
_FORBIDDEN = 403
_NO_TOKEN = "no_token"  # noqa: S105 - a word of logs


def ask_for_token(survey: SurveyId) -> str:
    """What helps where there is no token for a survey."""
    return (
        "ask the shuffler's operator for a token for this survey "
        f"(shoal keys token DIR --survey {str(survey)[:_DIGITS]}), and put it into the token file"
    )


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """How slow a shuffler may be, in seconds, and in bytes a second once ``grace`` is over.

    ``head`` is the longest until the head of an answer is whole, ``silence`` the longest without a
    byte, ``listing`` the longest for all pages of a list.
    """

    head: float = 30.0
    silence: float = _TIMEOUT
    grace: float = 60.0
    rate: float = 100_000.0
    listing: float = 600.0
    clock: Callable[[], float] = time.monotonic


class HttpSource:
    """The batches of one survey at a shuffler; ``token`` gives the collector's bearer token.

    It is asked for whenever it is needed, so that a file of tokens may change meanwhile. Every
    exchange has a connection and an event loop of its own, and can be ended at any moment: by its
    time, or by :meth:`close`.
    """

    def __init__(
        self,
        url: str,
        survey: SurveyId,
        token: Callable[[], str],
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        self._where = url.rstrip("/")
        self._batches = f"{self._where}/v1/surveys/{survey}/batches"
        self._survey = survey
        self._timeouts = timeouts or Timeouts()
        self._transport = transport
        self._token = token
        self._task: asyncio.Task[Any] | None = None
        self._closed = False

    def close(self) -> None:
        """End what is under way, and ask nothing any more; called from any thread."""
        self._closed = True
        task = self._task
        if task is not None:
            with suppress(RuntimeError):  # its loop has ended by itself
                task.get_loop().call_soon_threadsafe(task.cancel)

    def offers(self) -> list[Offer]:
        """Batches that can be collected now: all of them, or the first ``MOST_OFFERS``."""
        offers: list[Offer] = []
        after: str | None = None
        ends = self._timeouts.clock() + self._timeouts.listing
        while len(offers) < MOST_OFFERS:
            if self._timeouts.clock() > ends:
                raise self._nonsense("the list of batches did not arrive in time")
            page = self._page(after)
            if not page:
                break
            names = [str(entry.get("batch")) for entry in page]
            if after is not None and min(names) <= after:
                raise self._nonsense("an endless list of batches")
            after = max(names)
            try:
                offers += [
                    Offer(
                        batch=str(entry["batch"]),
                        digest=str(entry["digest"]),
                        size=entry["bytes"],
                        key=entry.get("key"),
                    )
                    for entry in page
                    if entry.get("state") in READY
                ]
            except (KeyError, TypeError, InvalidArgumentError):
                raise self._nonsense("a list with an impossible batch") from None
        return offers[:MOST_OFFERS]

    def check(self) -> None:
        """Refuse a shuffler that gives no list for this token; nothing is asked for by that."""
        self._page(None)

    def _page(self, after: str | None) -> list[Mapping[str, Any]]:
        query = {} if after is None else {"after": after}
        answer = self._answer("GET", self._batches, params=query, headers=self._headers())
        try:
            page = json.loads(answer)["batches"]
        except (ValueError, KeyError, TypeError, RecursionError):
            page = None
        if not isinstance(page, list) or not all(isinstance(entry, dict) for entry in page):
            raise self._nonsense("no list of batches")
        return page

    @contextmanager
    def fetch(self, batch: str, request: str) -> Iterator[Iterator[bytes]]:
        """The bytes of a batch, in pieces."""
        headers = {**self._headers(), "Shoal-Request": request}
        address = f"{self._batches}/{batch}"
        with self._exchange("GET", address, headers=headers) as (answer, pieces):
            if answer.status_code != httpx.codes.OK:
                raise self._refusal(answer, next(pieces), batch)
            yield pieces

    def acknowledge(self, batch: str, request: str, digest: str) -> None:
        """The batch has arrived."""
        body = {"request": request, "digest": digest}
        address = f"{self._batches}/{batch}/ack"
        self._answer("POST", address, json=body, headers=self._headers(), batch=batch)

    def keys(self) -> bytes:
        """The list of keys that the shuffler shows to everybody."""
        return self._answer("GET", f"{self._where}/v1/keys")

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token()}"}

    def _answer(self, method: str, address: str, *, batch: str = "", **options: Any) -> bytes:  # noqa: ANN401 - what httpx takes
        with self._exchange(method, address, **options) as (answer, pieces):
            body = bytearray()
            for piece in pieces:
                body += piece
                if len(body) > LARGEST_ANSWER:
                    raise self._nonsense(f"an answer of more than {LARGEST_ANSWER} bytes")
            if not answer.is_success:
                raise self._refusal(answer, bytes(body), batch)
            return bytes(body)

    @contextmanager
    def _exchange(
        self,
        method: str,
        address: str,
        **options: Any,  # noqa: ANN401 - what httpx takes
    ) -> Iterator[tuple[httpx.Response, Iterator[bytes]]]:
        """An answer whose head is there, and its body in pieces; closed at the end."""
        with closing(asyncio.new_event_loop()) as loop:
            silence = self._timeouts.silence
            asking = httpx.AsyncClient(
                transport=self._transport, timeout=silence, **outgoing.SETTINGS
            )
            run = partial(self._run, loop)
            try:
                sending = asking.send(asking.build_request(method, address, **options), stream=True)
                late = f"no whole head of an answer within {self._timeouts.head:g} seconds"
                answer = run(sending, self._timeouts.head, late)
                try:
                    yield answer, self._pieces(answer, run)
                finally:
                    loop.run_until_complete(answer.aclose())
            except httpx.InvalidURL as error:
                raise NoAnswerError(self._where, str(error)) from error
            finally:
                loop.run_until_complete(asking.aclose())
                loop.run_until_complete(loop.shutdown_asyncgens())

    def _run(
        self,
        loop: asyncio.AbstractEventLoop,
        work: Coroutine[Any, Any, Made],
        seconds: float,
        late: str,
    ) -> Made:
        """What comes of some work, unless it is late, or this is closed meanwhile."""
        self._task = task = loop.create_task(asyncio.wait_for(work, seconds))
        if self._closed:  # who closed may not have seen the task
            loop.call_soon(task.cancel)
        try:
            return loop.run_until_complete(task)
        except (TimeoutError, asyncio.CancelledError):
            if self._closed:
                reason = "collecting ends here, and nobody waits for it"
                raise NoAnswerError(self._where, reason) from None
            raise self._nonsense(late) from None
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise NoAnswerError(self._where, reason) from error
        finally:
            self._task = None

    def _pieces(
        self, answer: httpx.Response, run: Callable[[Coroutine[Any, Any, bytes], float, str], bytes]
    ) -> Iterator[bytes]:
        """A body in pieces of a sensible size, as long as it comes fast enough."""
        if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise self._nonsense("a compressed answer, which was not requested")
        allowed, began, total = self._timeouts, self._timeouts.clock(), 0
        slow = f"fewer than {allowed.rate:,.0f} bytes a second"

        async def piece(body: AsyncIterator[bytes], end: int) -> bytes:
            nonlocal total
            waiting = []
            async for received in body:
                waiting.append(received)
                total += len(received)
                if allowed.clock() > began + allowed.grace + total / allowed.rate:
                    raise self._nonsense(slow)
                if total >= end:
                    break
            return b"".join(waiting)

        body, more = answer.aiter_bytes(), True
        while more:
            end = total + _PIECE
            # Also what is no byte of the body takes time: lengths of chunks, lines behind it.
            left = began + allowed.grace + end / allowed.rate - allowed.clock()
            yield run(piece(body, end), left, slow)
            more = total >= end

    def _refusal(self, answer: httpx.Response, body: bytes, batch: str) -> ShoalError:
        kind, detail = _problem(body)
        waiting = answer.headers.get("Retry-After", "")
        match kind:
            case "already_collected":
                return already_collected(batch)
            case "wrong_digest":
                return wrong_digest(batch, "what was received")
            case "unknown_batch":
                return UnknownError("batch", batch)
            case "not_ready":
                whole = waiting.isdecimal() and len(waiting) <= _LONGEST_RETRY
                seconds = int(waiting) if whole else _RETRY
                return NotReadyError(f"batch {batch}", detail, retry_after=seconds)
        status = answer.status_code
        if status in {401, 403}:
            reason, advice = (
                f"the shuffler refused the token ({detail})",
                ask_for_token(self._survey),
            )
            word = "token_for_another_survey" if status == _FORBIDDEN else "token_not_valid"
            return NoAnswerError(self._where, reason, advice, word=word)
        return NoAnswerError(self._where, f"status {status} ({detail})")

    def _nonsense(self, what: str) -> NoAnswerError:
        return NoAnswerError(self._where, f"it sent {what}")


def _problem(body: bytes) -> tuple[str, str]:
    """The kind and the sentence of a problem, if it is one."""
    try:
        problem = json.loads(body)
        kind, detail = str(problem["type"]), str(problem["detail"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return "", "no explanation"
    if not _KIND.fullmatch(kind):
        return "", "no explanation"
    return kind.rpartition(":")[2], _plain(detail)


def _plain(text: str) -> str:
    """What a shuffler says, on one line and without what would command a terminal."""
    line = " ".join(text[:_LONGEST_DETAIL].split())
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line
    )


# ------------------------------------------------------------------- how a batch gets onto the disk


def path_of(directory: Path, collection: Collection) -> Path:
    """Where a batch is once it is on the disk."""
    return directory / f"{collection.survey}-{collection.batch}.batch"


def download(directory: Path, collection: Collection, source: HttpSource) -> Path:
    """Fetch a batch; what does not have the digest that was announced leaves nothing behind."""
    with disk("looking for space"):
        # Refuse before the first byte what would leave too little for everything else.
        space = min(shutil.disk_usage(directory).free // 2, LARGEST)
    if collection.size > space:
        what = f"batch {collection.batch} has {collection.size:,} bytes"
        why = f"there is space for {space:,} (half of the free space, at most {LARGEST:,})"
        raise RefusedError(f"{what}, and {why}", advice=_FREE_SPACE)
    path = path_of(directory, collection)
    with disk("receiving a batch"):
        for left in directory.glob(f"{path.stem}.*"):  # by who died
            left.unlink(missing_ok=True)
        draft = path.with_suffix(f".{collection.owner}")
        file = create(draft)
        try:
            digest, length = sha256(), 0
            with source.fetch(collection.batch, collection.request) as pieces:
                for piece in pieces:
                    length += len(piece)
                    if length > collection.size:
                        excess = "more bytes than were announced"
                        raise wrong_digest(collection.batch, excess)
                    digest.update(piece)
                    write_all(file, [piece])
            sync_data(file)
            if digest.hexdigest() != collection.digest:
                raise wrong_digest(collection.batch, digest.hexdigest())
            try:
                draft.replace(path)
            except FileNotFoundError:  # somebody took this for dead
                raise LeaseLostError(f"batch {collection.batch}") from None
            sync_directory(directory)
        finally:
            os.close(file)
            draft.unlink(missing_ok=True)
    return path


def discard(path: Path) -> None:
    """Delete a batch that is not needed here any longer, if it is there."""
    with disk("deleting a batch"):
        path.unlink(missing_ok=True)


# The tokens that an analyzer collects with, and the shufflers they are for

_LARGEST_TOKEN_FILE = 1 << 16
_BOTH = 2  # words of a line that says whom its token is for
_SURVEY_DIGITS = re.compile(r"[0-9a-f]{4,64}")
_NONE = "there is no token for this survey"
_SEVERAL = (
    "the line for this survey also fits surveys of another shuffler, and a token is for "
    "one shuffler"
)
_TRIAL = 5.0  # seconds


@dataclass(frozen=True)
class TokenFile:
    """Lines with a token, and before it whom it is for; read when needed.

    That is a shuffler's address, or a survey's first digits. A line with a token alone is for
    every survey that has no line of its own. A token goes to one address only, or one shuffler
    would be handed what opens another's batches: a line that fits surveys of two shufflers is used
    for neither.
    """

    path: Path

    def check(self) -> None:
        """Refuse a file that is not there, that others may read, or without a token."""
        if not self._lines():
            advice = "put the token that shoal keys token printed into it"
            raise RefusedError(f"cannot use the tokens in {self.path}", "there is none", advice)

    def token(self, survey: Survey, known: Sequence[Survey]) -> str:
        """The token for a survey; ``known`` are all that there are."""
        lines = self._lines()
        own = [words for words in lines if len(words) == _BOTH and _fits(words[0], survey)]
        fitting = [*own, *(words for words in lines if len(words) == 1)]
        if not fitting:
            advice = ask_for_token(survey.id)
            raise NoAnswerError(survey.shuffler.url, _NONE, advice, word=_NO_TOKEN)
        for words in fitting:
            meant = [each for each in known if len(words) == 1 or _fits(words[0], each)]
            if all(each.shuffler.url == survey.shuffler.url for each in meant):
                return words[-1]
        advice = f"write the shuffler's address before the token in {self.path}"
        raise NoAnswerError(survey.shuffler.url, _SEVERAL, advice, word=_NO_TOKEN)

    def _lines(self) -> list[list[str]]:
        try:
            mode = exposed(self.path)
            if mode is not None:
                advice = (
                    f"run chmod 600 {self.path}; if other users could read it, make a new token"
                )
                raise RefusedError(
                    f"cannot use the tokens in {self.path}",
                    f"other users may read it (mode {mode:04o})",
                    advice,
                )
            with self.path.open("rb") as file:
                text = file.read(_LARGEST_TOKEN_FILE).decode()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            advice = "shoal keys token prints one: put it into a file with mode 600"
            raise RefusedError(f"cannot use the tokens in {self.path}", str(why), advice) from None
        return [words for line in text.splitlines() if (words := line.split())]


def _fits(word: str, survey: Survey) -> bool:
    if _SURVEY_DIGITS.fullmatch(word):
        return str(survey.id).startswith(word)
    return word.rstrip("/") == survey.shuffler.url.rstrip("/")


def sources(tokens: TokenFile, known: Callable[[], Sequence[Survey]], survey: Survey) -> HttpSource:
    """Where the batches of a survey come from; ``known`` gives all surveys of this analyzer."""
    return HttpSource(survey.shuffler.url, survey.id, lambda: tokens.token(survey, known()))


def try_token(tokens: TokenFile, known: Sequence[Survey], survey: Survey) -> None:
    """Refuse a token for which the shuffler of a survey gives no list of batches."""
    timeouts = Timeouts(
        head=_TRIAL, silence=_TRIAL, grace=_TRIAL, rate=LARGEST_ANSWER, listing=_TRIAL
    )
    token = partial(tokens.token, survey, known)
    HttpSource(survey.shuffler.url, survey.id, token, timeouts=timeouts).check()
