"""What to look at: this machine, directories of parties, addresses, and how they go together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from shoal.errors import InvalidArgumentError
from shoal.service.analyzer.source import SourceUnavailableError
from shoal.service.clock import Clock, system_clock
from shoal.service.running.collecting import TokenFile, TokenFileError, try_token
from shoal.service.running.doctor.machine import MACHINE, machine_findings
from shoal.service.running.doctor.party import Examined, party_findings
from shoal.service.running.doctor.remote import Remote
from shoal.service.running.embedded import Embedded
from shoal.service.running.findings import Examination, Finding, fail, ok, warn
from shoal.service.running.home import Home
from shoal.service.running.places import has_both
from shoal.service.running.registering import home_of

TOGETHER = "both together"
_ADDRESSES = ("http://", "https://")


def examine(
    targets: Sequence[str], *, store: str | None = None, clock: Clock = system_clock
) -> Examination:
    """This machine, and every directory or address."""
    parts: dict[str, list[Finding]] = {MACHINE: list(machine_findings(clock))}
    parties: list[Examined] = []
    asked = _Asked(clock)
    for target in targets:
        if _is_address(target):
            parts[target] = list(Remote(target, clock=clock).findings())
            continue
        for home in _homes(Path(target), store):
            findings, party = party_findings(home, clock)
            if home.role == "analyzer":
                findings.append(_token(home))
            findings += asked.others(party)
            if home.role == "analyzer":
                findings += _tokens(party, clock)
            parts[f"{home.role} in {home.directory}"] = findings
            parties.append(party)
    pairs = list(apart(parties))
    if pairs:
        parts[TOGETHER] = pairs
    return Examination(parts)


def _is_address(target: str) -> bool:
    """Whether a target is an address; one that nothing speaks is refused."""
    if target.lower().startswith(_ADDRESSES):
        if not _names_host(target):
            raise InvalidArgumentError("target", target, "an address with the name of a host in it")
        return True
    if "://" in target and not Path(target).exists():
        expected = f"an address with {' or '.join(_ADDRESSES)}, or a directory"
        raise InvalidArgumentError("target", target, expected)
    return False


def _names_host(address: str) -> bool:
    try:
        found = urlsplit(address)
        return bool(found.hostname) and found.port != 0
    except ValueError:  # a port that is no number, or half of an address of IPv6
        return False


def _homes(directory: Path, store: str | None) -> Iterator[Home]:
    if has_both(directory):
        embedded = Embedded(directory=directory)
        yield from (embedded.home("shuffler"), embedded.home("analyzer"))
        return
    yield home_of(directory, store)


def _token(home: Home) -> Finding:
    path = home.directory / "token"
    try:
        TokenFile(path).check()
    except TokenFileError as error:
        advice = "needed for collecting, unless --shuffler-token names another file"
        return warn("token file", str(error), advice)
    return ok("token file", f"{path} is there")


def _tokens(party: Examined, clock: Clock) -> Iterator[Finding]:
    """Whether the shuffler of every survey takes the token that there is for it."""
    now, tokens = clock(), TokenFile(party.home.directory / "token")
    for survey in party.surveys:
        if now > survey.not_after + survey.batches.max_age:
            continue
        name = f"token for survey {str(survey.id)[:12]}"
        try:
            try_token(tokens, party.surveys, survey)
        except TokenFileError:
            return  # that was said
        except SourceUnavailableError as error:
            if error.__cause__ is None:  # otherwise it does not answer at all, which was said
                yield fail(name, f"{error.reason}: nothing is collected for it", error.advice)
        else:
            yield ok(name, f"{survey.shuffler.url} takes it")


class _Asked:
    """The other parties, each asked once, whatever number of surveys it is named in."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._questions: set[str] = set()
        self._remotes: dict[str, Remote] = {}

    def others(self, party: Examined) -> Iterator[Finding]:
        """What the other party of every open survey says."""
        now = self._clock()
        for survey in party.surveys:
            other = survey.analyzer if party.home.role == "shuffler" else survey.shuffler
            question = f"{other.url} {survey.id}"
            if question in self._questions or now > survey.not_after:
                continue
            self._questions.add(question)
            remote = self._remotes.setdefault(other.url, Remote(other.url, clock=self._clock))
            yield from remote.survey(survey, other)


def apart(parties: Sequence[Examined]) -> Iterator[Finding]:
    """Whoever has both parts undoes the shuffling: nothing may be shared."""
    shufflers = [party for party in parties if party.home.role == "shuffler"]
    analyzers = [party for party in parties if party.home.role == "analyzer"]
    for shuffler in shufflers:
        for analyzer in analyzers:
            yield from _pair(shuffler, analyzer)


def _pair(shuffler: Examined, analyzer: Examined) -> Iterator[Finding]:
    trying = "fine for trying out; real parties have different operators and machines"
    if shuffler.home.url == analyzer.home.url:
        yield fail("store", "both have the same database", "give each its own: --store")
    elif all(_has_store(party) for party in (shuffler, analyzer)):
        yield ok("store", "each has its own database")
    else:
        told = "not compared: one of them is not in its directory"
        yield warn("store", told, "see that --store is another one for each")
    if _keys(shuffler) & _keys(analyzer):
        yield fail("keys", "both have the same key", "make keys for each: shoal keys new")
    else:
        yield ok("keys", "no key in common")
    one, other = shuffler.home.directory.stat(), analyzer.home.directory.stat()
    if (one.st_dev, one.st_uid) == (other.st_dev, other.st_uid):
        yield warn("apart", "both are on one disk, of one user", trying)
    else:
        yield warn("apart", "both can be seen from one machine", trying)
    known = {survey.id for survey in analyzer.surveys}
    for survey in shuffler.surveys:
        name = f"survey {str(survey.id)[:12]}"
        if survey.analyzer.fingerprint == _fingerprint(analyzer) and survey.id not in known:
            advice = f"shoal survey add FILE --to {analyzer.home.directory}"
            yield fail(name, "the analyzer does not know it", advice)
        elif survey.id in known:
            yield ok(name, "known to both")


def _has_store(party: Examined) -> bool:
    return party.home.store is not None or party.home.default_database.exists()


def _fingerprint(party: Examined) -> str | None:
    return None if party.keyring is None else party.keyring.fingerprint


def _keys(party: Examined) -> set[bytes]:
    return set() if party.keyring is None else {key.public.raw for key in party.keyring.list().keys}
