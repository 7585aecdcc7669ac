"""What ``shoal doctor`` looks at: this machine, parties' directories, addresses, and both together.

It needs no passphrase, and changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from shoal.errors import InvalidArgumentError, ShoalError
from shoal.explain.text import duration
from shoal.service.analyzer.source import TokenFile, try_token
from shoal.service.clock import Clock, system_clock
from shoal.service.db import Database
from shoal.service.db.surveys import Surveys
from shoal.service.errors import StoreUnavailableError, StoreVersionError
from shoal.service.http import outgoing
from shoal.service.http.outgoing import NoAnswerError
from shoal.service.keyring import KeyList, Keyring
from shoal.service.keyring.key_list import ROLES, unverified
from shoal.service.ops import health
from shoal.service.ops.facts import UNAVAILABLE, directory_facts, key_facts, store_facts
from shoal.service.ops.health import Fact, Finding, fail, ok, warn
from shoal.service.ops.home import Home, has_both, home_of
from shoal.service.survey import Party, Survey

TOGETHER = "both together"
_ADDRESSES = ("http://", "https://")
_TIMEOUT = 5.0
_SKEW, _LARGE_SKEW = 60, 300
_LARGEST = 1 << 20
_SILENT = ("does not answer", "start it, or check the proxy in front of it")
_WHOSE = "check that this is the address of a shuffler or an analyzer"


def examine(
    targets: Sequence[str], *, store: str | None = None, clock: Clock = system_clock
) -> health.Examination:
    """This machine, and every directory or address."""
    parts: dict[str, list[Finding]] = {health.MACHINE: list(health.machine_findings(clock))}
    parties: list[Examined] = []
    for target in targets:
        if _is_address(target):
            parts[target] = list(Remote(target.rstrip("/"), clock()).findings())
            continue
        directory = Path(target)
        both = [Home(directory=directory / role, role=role) for role in ROLES]
        for home in both if has_both(directory) else [home_of(directory, store)]:
            findings, party = party_findings(home, clock)
            findings += _others(party, clock())
            if home.role == "analyzer":
                findings += _tokens(party, clock())
            parts[f"{home.role} in {home.directory}"] = findings
            parties.append(party)
    pairs = list(apart(parties))
    if pairs:
        parts[TOGETHER] = pairs
    return health.Examination(parts)


def _is_address(target: str) -> bool:
    """Whether a target is an address; one that nothing speaks is refused."""
    if target.lower().startswith(_ADDRESSES):
        try:
            address = urlsplit(target)
            names_host = bool(address.hostname) and address.port != 0
        except ValueError:  # a port that is no number, or half of an address of IPv6
            names_host = False
        if not names_host:
            raise InvalidArgumentError("target", target, "an address with a host name")
        return True
    if "://" in target and not Path(target).exists():
        expected = f"an address with {' or '.join(_ADDRESSES)}, or a directory"
        raise InvalidArgumentError("target", target, expected)
    return False


@dataclass(frozen=True)
class Examined:
    """A party's parts, as far as they could be opened."""

    home: Home
    keyring: Keyring | None
    surveys: tuple[Survey, ...]


def party_findings(home: Home, clock: Clock = system_clock) -> tuple[list[Finding], Examined]:
    """What is to be said of a directory, and what was found in it."""
    findings = _findings(directory_facts(home))
    keyring: Keyring | None = None
    try:
        keyring = Keyring.open(home.keys, protection=None, clock=clock)
        findings += _findings(key_facts(keyring, clock))
    except ShoalError as error:
        findings.append(fail("keys", str(error), "restore DIR/keys from a backup"))
    surveys: tuple[Survey, ...] = ()
    try:
        if home.may_have_database:
            with closing(Database(home.url, timeout=_TIMEOUT)) as database:
                database.require(home.role)
                findings += _findings(store_facts(home, database, keyring, clock))
                surveys = tuple(Surveys(database, ()).all())
        else:
            advice = "the service makes it when it starts, or with its first survey"
            findings.append(warn("store", "there is none yet", advice))
    except StoreVersionError as error:
        findings.append(fail("store", str(error), "start the service once with --migrate"))
    except StoreUnavailableError as error:
        findings.append(fail("store", str(error), UNAVAILABLE))
    return findings, Examined(home, keyring, surveys)


def _findings(facts: list[Fact]) -> list[Finding]:
    return [finding for fact in facts for finding in fact.findings()]


def _tokens(party: Examined, now: int) -> Iterator[Finding]:
    """Whether there are tokens, and the shuffler of every survey takes the one for it."""
    tokens = TokenFile(party.home.directory / "token")
    try:
        tokens.check()
    except ShoalError as error:
        advice = "collecting needs it, unless --shuffler-token names another file"
        yield warn("token file", str(error), advice)
        return
    yield ok("token file", f"{tokens.path} is there")
    for survey in party.surveys:
        if now > survey.not_after + survey.batches.max_age:
            continue
        name = f"token for survey {str(survey.id)[:12]}"
        try:
            try_token(tokens, party.surveys, survey)
        except NoAnswerError as error:
            if error.__cause__ is None:  # otherwise it does not answer at all, which was said
                yield fail(name, f"{error.reason}: nothing is collected for it", error.advice)
        else:
            yield ok(name, f"{survey.shuffler.url} accepts it")


def _others(party: Examined, now: int) -> Iterator[Finding]:
    """What the other parties of open surveys say, each asked once."""
    others: dict[Party, list[Survey]] = defaultdict(list)
    for survey in party.surveys:
        if now <= survey.not_after:
            other = survey.analyzer if party.home.role == "shuffler" else survey.shuffler
            others[other].append(survey)
    for other, surveys in others.items():
        yield from Remote(other.url, now).surveys(surveys, other.fingerprint)


@dataclass(frozen=True)
class Remote:
    """A service, asked as anybody may ask it."""

    url: str
    now: int

    def findings(self) -> Iterator[Finding]:
        """Alive, ready, in time, with a list of keys."""
        answer = self._get("/readyz")
        if answer is None:
            yield fail(self.url, *_SILENT)
            return
        if answer.status_code == httpx.codes.NOT_FOUND:
            yield warn(self.url, "answers, but has no /readyz", _WHOSE)
        elif not answer.is_success:
            yield fail(self.url, "answers, but is not ready", "run shoal doctor DIR where it runs")
        else:
            yield ok(self.url, "ready")
        yield self.clock(answer)
        yield self._keys()

    def surveys(self, surveys: Sequence[Survey], fingerprint: str) -> Iterator[Finding]:
        """Whether it is the party that surveys name, and collects for them."""
        for place, survey in enumerate(surveys):
            answer = self._get(f"/v1/surveys/{survey.id}")
            if answer is None:
                yield warn(self.url, *_SILENT)
                return
            if place == 0:
                yield self.clock(answer)
                yield self._keys(fingerprint)
            name = f"{self.url} survey {str(survey.id)[:12]}"
            if not answer.is_success:
                yield fail(
                    name,
                    "the service there does not have it",
                    "register it there: shoal survey add",
                )
            elif answer.content != survey.to_bytes():
                advice = (
                    "somebody may be impersonating the service: find out before anything is sent"
                )
                yield fail(name, "the service there has a different one", advice)
            else:
                yield ok(name, "the service there collects for it")

    def clock(self, answer: httpx.Response) -> Finding:
        """Its clock against ours, by the header Date."""
        name = f"{self.url} clock"
        try:
            theirs = int(parsedate_to_datetime(answer.headers["Date"]).timestamp())
        except (KeyError, ValueError):
            return warn(name, "its answers carry no time", "make the proxy pass the header Date on")
        skew = theirs - self.now
        detail = f"{skew:+d} s against this machine"
        if abs(skew) > _LARGE_SKEW:
            return fail(name, detail, "correct the wrong clock (NTP)")
        if abs(skew) > _SKEW:
            return warn(name, detail, "correct the wrong clock (NTP)")
        return ok(name, detail)

    def _keys(self, fingerprint: str | None = None) -> Finding:
        """Its list of keys: signed by whom a survey names, and valid."""
        name, answer = f"{self.url} keys", self._get("/v1/keys")
        if answer is None or not answer.is_success:
            return fail(name, "no list of keys", _WHOSE)
        try:
            signer = fingerprint or unverified(answer.content).fingerprint
            listed = KeyList.verified(answer.content, fingerprint=signer, now=self.now)
        except ShoalError as error:
            return fail(name, str(error), "send nothing there until you know why")
        left = duration(listed.valid_until - self.now)
        return ok(name, f"{listed.role}, {signer[:12]}…, signature valid for {left} more")

    def _get(self, path: str) -> httpx.Response | None:
        """The answer with its status, date and body; none if it does not come to an end."""
        try:
            return outgoing.whole(self.url + path, seconds=_TIMEOUT, largest=_LARGEST)
        except NoAnswerError:
            return None


def apart(parties: Sequence[Examined]) -> Iterator[Finding]:
    """Whoever has both parts undoes the shuffling: nothing may be shared."""
    shufflers, analyzers = (
        [party for party in parties if party.home.role == role] for role in ROLES
    )
    for shuffler, analyzer in product(shufflers, analyzers):
        homes = (shuffler.home, analyzer.home)
        if shuffler.home.url == analyzer.home.url:
            yield fail("store", "both have the same database", "give each its own: --store")
        elif all(home.may_have_database for home in homes):
            yield ok("store", "each has its own database")
        else:
            detail = "not compared: one database is not in its directory"
            yield warn("store", detail, "check that --store differs for each")
        if _public(shuffler) & _public(analyzer):
            yield fail("keys", "both have the same key", "make keys for each: shoal keys new")
        else:
            yield ok("keys", "no key in common")
        one, other = (home.directory.stat() for home in homes)
        same = (one.st_dev, one.st_uid) == (other.st_dev, other.st_uid)
        detail = (
            "both are on one disk and belong to one user"
            if same
            else "both can be read from one machine"
        )
        trying = "fine for trying out; for real answers, use two operators and two machines"
        yield warn("apart", detail, trying)
        known = {survey.id for survey in analyzer.surveys}
        fingerprint = None if analyzer.keyring is None else analyzer.keyring.fingerprint
        for survey in shuffler.surveys:
            name = f"survey {str(survey.id)[:12]}"
            if survey.id in known:
                yield ok(name, "known to both")
            elif survey.analyzer.fingerprint == fingerprint:
                advice = f"shoal survey add FILE --to {analyzer.home.directory}"
                yield fail(name, "the analyzer does not know it", advice)


def _public(party: Examined) -> set[bytes]:
    return set() if party.keyring is None else {key.public.raw for key in party.keyring.list().keys}
