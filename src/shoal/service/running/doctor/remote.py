"""Services at an address: whether they answer, what time they have, what they collect for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from email.utils import parsedate_to_datetime

import httpx

from shoal.errors import ShoalError
from shoal.explain.text import duration
from shoal.service.clock import Clock, system_clock
from shoal.service.keyring import KeyList
from shoal.service.keyring.key_list import unverified
from shoal.service.running.findings import Finding, State, fail, ok, warn
from shoal.service.survey import Party, Survey

_TIMEOUT = 5.0
_SKEW, _LARGE_SKEW = 60, 300
_LARGEST = 1 << 20
_SILENT, _CLOCK = "silent", "clock"


class Remote:
    """A service, asked as anybody may ask it."""

    def __init__(self, url: str, *, clock: Clock = system_clock) -> None:
        self.url = url.rstrip("/")
        self._clock = clock
        self._told: set[str] = set()

    def findings(self) -> Iterator[Finding]:
        """Alive, ready, in time, with a list of keys."""
        answer = self._asked("/readyz")
        if answer is None:
            yield self._silent()
            return
        if answer.status_code == httpx.codes.NOT_FOUND:
            advice = "see whether this is the address of a shuffler or an analyzer"
            yield warn(self.url, "answers, but has no /readyz", advice)
        elif not answer.is_success:
            yield fail(self.url, "answers, and is not ready", "run shoal doctor DIR where it runs")
        else:
            yield ok(self.url, "ready")
        yield self.clock(answer)
        yield self._keys(None)

    def _silent(self) -> Finding:
        return fail(self.url, "does not answer", "start it, or look at the proxy in front of it")

    def clock(self, answer: httpx.Response) -> Finding:
        """Its clock against ours, by the header Date."""
        name = f"{self.url} clock"
        try:
            theirs = int(parsedate_to_datetime(answer.headers["Date"]).timestamp())
        except (KeyError, ValueError):
            return warn(name, "it does not say what time it is", "let the proxy pass Date on")
        skew = theirs - self._clock()
        told = f"{skew:+d} s against this machine"
        if abs(skew) > _LARGE_SKEW:
            return fail(name, told, "set the clock that is wrong (NTP)")
        if abs(skew) > _SKEW:
            return warn(name, told, "set the clock that is wrong (NTP)")
        return ok(name, told)

    def _keys(self, party: Party | None) -> Finding:
        """Its list of keys: signed by whom a survey names, and valid."""
        name, now = f"{self.url} keys", self._clock()
        answer = self._asked("/v1/keys")
        if answer is None or not answer.is_success:
            advice = "see whether this is the address of a shuffler or an analyzer"
            return fail(name, "no list of keys", advice)
        try:
            wanted = (party or unverified(answer.content)).fingerprint
            listed = KeyList.verified(answer.content, fingerprint=wanted, now=now)
        except ShoalError as error:
            return fail(name, str(error), "send nothing there until this is explained")
        left = duration(listed.valid_until - now)
        return ok(name, f"{listed.role}, {wanted[:12]}…, signed for {left} more")

    def survey(self, survey: Survey, party: Party) -> Iterator[Finding]:
        """Whether it is the party that a survey names, and collects for it.

        What holds for all surveys is said with the first of them.
        """
        if _SILENT in self._told:
            return
        answer = self._asked(f"/v1/surveys/{survey.id}")
        name = f"{self.url} survey {str(survey.id)[:12]}"
        if answer is None:
            self._told.add(_SILENT)
            yield replace(self._silent(), state=State.WARN)
            return
        if _CLOCK not in self._told:
            yield self.clock(answer)
        if party.fingerprint not in self._told:
            yield self._keys(party)
        self._told |= {_CLOCK, party.fingerprint}
        if not answer.is_success:
            yield fail(name, "is not known there", "add it there: shoal survey add")
        elif answer.content != survey.to_bytes():
            yield fail(name, "is another one there", "somebody answers for the service: find out")
        else:
            yield ok(name, "is collected there")

    def _asked(self, path: str) -> httpx.Response | None:
        """The answer with its status, date and body; none if it does not come to an end."""
        body = bytearray()
        try:
            with httpx.stream("GET", self.url + path, timeout=_TIMEOUT, trust_env=False) as answer:
                for piece in answer.iter_bytes():
                    body += piece
                    if len(body) > _LARGEST:
                        return None
        except (httpx.HTTPError, httpx.InvalidURL):
            return None
        date = {name: answer.headers[name] for name in ("Date",) if name in answer.headers}
        return httpx.Response(answer.status_code, headers=date, content=bytes(body))
