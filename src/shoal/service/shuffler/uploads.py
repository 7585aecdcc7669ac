"""The way of an upload, which is all that nearly every request is.

A person's report is a request of its own. To find its route, wrap it up and unwrap it again, as a
framework does for any request, takes longer than to check, hash and commit the report. So the
application hands an upload for a survey that it has met over to here, before anything else is done
with it. The other way in is the route that the document describes, for surveys not met before; it
leads here too, so that there is one order of checks, and every answer has the same bytes whichever
way its request came.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from shoal.errors import ShoalError
from shoal.sealing import Plain
from shoal.service.clock import Clock
from shoal.service.errors import SurveyClosedError
from shoal.service.http import requests
from shoal.service.http.application import EVERYBODY, Application
from shoal.service.http.limits import Addresses, Limits, Networks, Room
from shoal.service.http.openapi import BYTES, JSON, SURVEY_PATH
from shoal.service.http.problems import Observe, ProblemError, answer_to
from shoal.service.keyring import Keyring
from shoal.service.shuffler.intake import Intake
from shoal.service.shuffler.sorting import sorted_upload
from shoal.service.survey import Survey
from shoal.service.wire import Wire

REPORTS_PATH = f"{SURVEY_PATH}/reports"


@dataclass(frozen=True)
class Asked:
    """A survey that requests are about, with what is derived from it once."""

    survey: Survey
    wire: Wire
    body: bytes

    @classmethod
    def of(cls, survey: Survey) -> Asked:
        """What is derived."""
        return cls(survey, Wire.of(survey), survey.to_bytes())


class Uploads:
    """Takes reports in; ``addresses`` are what other requests are limited by, too."""

    def __init__(
        self,
        *,
        keyring: Keyring,
        intake: Intake,
        addresses: Addresses,
        limits: Limits,
        clock: Clock,
        observe: Observe,
    ) -> None:
        self._keyring = keyring
        self._intake = intake
        self._addresses = addresses
        self._room = Room(limits)
        self._limits = limits
        self._clock = clock
        self._observe = observe
        self._of_path: dict[str, Asked] = {}

    def meet(self, asked: Asked) -> None:
        """From now on uploads for this survey need no route."""
        self._of_path[REPORTS_PATH.replace("{survey}", str(asked.survey.id))] = asked

    def about(self, scope: Scope) -> Asked | None:
        """The survey that a request is an upload for, if it was met before."""
        if scope["type"] == "http" and scope["method"] == "POST":
            return self._of_path.get(scope["path"])
        return None

    async def take(self, asked: Asked, scope: Scope, receive: Receive, key: Networks) -> Response:
        """Keep reports; the answer comes when they are durable. ``key`` is of who was charged."""
        self._check_open(asked.survey)
        limits = self._limits
        requests.expect(scope["headers"], BYTES, limit=limits.body_bytes)
        with self._room.entered(key) as hold:
            body = await requests.read(
                receive, limit=limits.body_bytes, seconds=limits.body_seconds, hold=hold
            )
            upload = sorted_upload(
                body, wire=asked.wire, accepts=self._accepts, most=limits.reports
            )
            if upload.reports > 1:
                self._addresses.charge_key(key, upload.reports - 1)
            self._observe("queue", self._room.share, "")
            await self._intake.commit(upload.arrivals)
        if upload.reports == 1 and not upload.refused:
            return _ONE_KEPT
        for reason, places in upload.refused.items():
            self._observe("refused_reports", len(places), reason)
        return small(upload.document(), 202)

    def _accepts(self, number: int) -> bool:
        """Whether reports for a key are taken; none is acknowledged that could not be opened."""
        if not self._keyring.accepts(number):
            return False
        self._keyring.check_secret(number)
        return True

    async def answer(self, asked: Asked, scope: Scope, receive: Receive, send: Send) -> None:
        """Take reports without a route, and say so or why not, as the route would."""
        defect = None
        try:
            key = self._addresses.charge(scope["client"][0] if scope["client"] else None, 1)
            answer = await self.take(asked, scope, receive, key)
        except Exception as error:  # noqa: BLE001 - whoever asked is told, whatever it was
            answer = answer_to(error, self._observe)
            defect = None if isinstance(error, ProblemError | ShoalError) else error
        # A copy: whoever is further out may write into it.
        start = {**_ONE_KEPT_START} if answer is _ONE_KEPT else _start_of(answer)
        await send(start)
        await send({"type": "http.response.body", "body": answer.body})
        if defect is not None:
            raise defect  # for the server's log

    def _check_open(self, survey: Survey) -> None:
        now = self._clock()
        if now < survey.not_before:
            raise SurveyClosedError(str(survey.id), "it has not begun")
        if now > survey.not_after:
            raise SurveyClosedError(str(survey.id), "it is over")


class UploadApplication(Application):
    """An application that is asked first for uploads."""

    uploads: Uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take it, or leave it to the routes."""
        asked = self.uploads.about(scope)
        if asked is None:
            await super().__call__(scope, receive, send)
        else:
            await self.uploads.answer(asked, scope, receive, send)


def small(document: Mapping[str, Plain], status: int = 200) -> Response:
    """A small document that nobody is to keep."""
    body = json.dumps(document, separators=(",", ":")).encode()
    return Response(body, status, media_type=JSON, headers=requests.NOT_KEPT)


def _start_of(answer: Response) -> dict[str, object]:
    headers = [*answer.raw_headers, *EVERYBODY]
    return {"type": "http.response.start", "status": answer.status_code, "headers": headers}


_ONE_KEPT = small({"reports": 1, "refused": []}, 202)
_ONE_KEPT_START = _start_of(_ONE_KEPT)
