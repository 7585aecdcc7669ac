"""A survey from wherever it is: itself, a file, or an address; and whether it is the one meant."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias
from urllib.parse import SplitResult, urlsplit

from shoal.errors import InvalidArgumentError
from shoal.sealing import MalformedError, SurveyId
from shoal.service.client.errors import SurveyRefusedError
from shoal.service.client.exchange import Ask, Silence, Talk, asked, problem
from shoal.service.client.policy import Policy
from shoal.service.survey import Stated, Survey, complaint
from shoal.service.survey.hosts import public, reachable, this_machine

Source = Survey | Path | str
Near: TypeAlias = Callable[[str], bool]

_FETCHED = "/v1/surveys/"
_PAGE = "/answer/"  # where people answer it in a browser
_SECRET = re.compile(r"//[^/]*@")


def survey_of(source: Source, *, name: str | None, policy: Policy) -> Talk[Survey]:
    """The survey; ``name`` is what it has to hash to, by default what its address ends with."""
    if isinstance(source, Survey):
        _check_places(source.stated, policy, near=this_machine)
        return _meant(source, name)
    if isinstance(source, str) and source.startswith(("http://", "https://")):
        return (yield from _fetched(source, name, policy))
    data = _read(Path(source))
    return _meant(_parsed(data, policy, near=this_machine, place=str(source)), name)


def survey_id(source: Survey | SurveyId | str) -> SurveyId:
    """The name of a survey, however it is given."""
    if isinstance(source, SurveyId):
        return source
    return source.id if isinstance(source, Survey) else SurveyId.from_text(source)


def _fetched(url: str, name: str | None, policy: Policy) -> Talk[Survey]:
    url = url.rstrip("/")
    parts = _address(url)
    host = parts.hostname or ""
    policy.check_host(url, "the survey")
    ending = parts.path.rpartition("/")[2]
    try:
        meant = SurveyId.from_text(name or ending)
    except MalformedError as error:
        if name is not None:
            raise
        reason = "the address of a survey ends with its name, 64 hexadecimal digits"
        raise SurveyRefusedError(reason, "ask whoever sent it for the whole address") from error
    if ending != str(meant):  # the address of a service
        url += _FETCHED + str(meant)
    elif url.endswith(page := _PAGE + ending):  # what people are handed
        url = url.removesuffix(page) + _FETCHED + ending
    came = yield from asked(Ask(url))
    if isinstance(came, Silence) or came.status != 200:
        why = came.reason if isinstance(came, Silence) else problem(came)
        raise SurveyRefusedError(f"the survey cannot be fetched from {url}: {why}", "try again")
    found = SurveyId(sha256(came.body).digest())
    if found != meant:
        raise _other(found, meant)
    inside = not public(host)
    return _parsed(came.body, policy, near=lambda _host: inside, place=url)


def _address(url: str) -> SplitResult:
    """Where a survey may be asked for: nothing in the address says who asks."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        sound = parts.scheme == "https" or this_machine(host)
        if sound and reachable(host) and not set("?#@") & set(url):
            return parts
    except ValueError:
        pass
    expected = "an https address without user and query (http on this machine only)"
    raise InvalidArgumentError("survey", without_login(url), expected)


def without_login(url: str) -> str:
    """An address as it may be shown.

    >>> without_login("http://me:secret@proxy.example:3128")
    'http://…@proxy.example:3128'
    """
    return _SECRET.sub("//…@", url)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes().strip()
    except OSError as error:
        raise SurveyRefusedError(f"cannot read {path}: {error.strerror}", "name a file") from error


def _parsed(data: bytes, policy: Policy, *, near: Near, place: str) -> Survey:
    """The survey; what the policy does not allow anyway is refused before it is worked out."""
    try:
        stated = Stated.from_bytes(data)
        _check_places(stated, policy, near=near)
        policy.check_stated(stated)
        return Survey.from_bytes(data)
    except MalformedError as error:
        raise SurveyRefusedError(
            complaint(error, place), "ask whoever wrote it for the original"
        ) from error


def _check_places(stated: Stated, policy: Policy, *, near: Near) -> None:
    """Refuse to be sent by strangers to machines that only this one can reach.

    A survey that lies on this machine may name it, and one from a near machine any near one.
    """
    for role, party in (("shuffler", stated.shuffler), ("analyzer", stated.analyzer)):
        host = urlsplit(party.url).hostname or ""
        allowed = policy.hosts is not None and host in policy.hosts
        if not (public(host) or allowed or near(host)):
            reason = f"the {role} of this survey is on {host}, which is not on the open network"
            raise SurveyRefusedError(reason, "name it among the policy's hosts if that is meant")


def _meant(survey: Survey, name: str | None) -> Survey:
    if name is not None and survey.id != SurveyId.from_text(name):
        raise _other(survey.id, SurveyId.from_text(name))
    return survey


def _other(found: SurveyId, meant: SurveyId) -> SurveyRefusedError:
    return SurveyRefusedError(
        f"this is survey {found}, not {meant}", "it was changed, or it is another one"
    )
