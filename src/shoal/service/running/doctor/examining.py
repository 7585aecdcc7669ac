"""What to look at: this machine, directories of parties, addresses, and how they go together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from shoal.service.clock import Clock, system_clock
from shoal.service.running.collecting import TokenFile, TokenFileError
from shoal.service.running.doctor.machine import machine_findings
from shoal.service.running.doctor.party import Examined, party_findings
from shoal.service.running.doctor.remote import Remote
from shoal.service.running.embedded import Embedded
from shoal.service.running.findings import Finding, State, fail, ok, warn, worst
from shoal.service.running.home import KEYS, Home
from shoal.service.running.registering import home_of

MACHINE = "this machine"
TOGETHER = "both together"


@dataclass(frozen=True)
class Examination:
    """What was found, under the name of what was looked at."""

    parts: dict[str, list[Finding]]

    @property
    def state(self) -> State:
        """The worst of it."""
        return worst([finding for findings in self.parts.values() for finding in findings])

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return {
            "state": self.state.value,
            "checks": [
                {"of": name, **finding.to_dict()}
                for name, findings in self.parts.items()
                for finding in findings
            ],
        }


def examine(
    targets: Sequence[str], *, store: str | None = None, clock: Clock = system_clock
) -> Examination:
    """This machine, and every directory or address."""
    parts: dict[str, list[Finding]] = {MACHINE: list(machine_findings(clock))}
    parties: list[Examined] = []
    asked: set[str] = set()
    for target in targets:
        if target.startswith(("http://", "https://")):
            parts[target] = list(Remote(target, clock=clock).findings())
            continue
        for home in _homes(Path(target), store):
            findings, party = party_findings(home, clock)
            if home.role == "analyzer":
                findings.append(_token(home))
            findings += _others(party, asked, clock)
            parts[f"{home.role} in {home.directory}"] = findings
            parties.append(party)
    pairs = list(apart(parties))
    if pairs:
        parts[TOGETHER] = pairs
    return Examination(parts)


def _homes(directory: Path, store: str | None) -> Iterator[Home]:
    embedded = Embedded(directory=directory)
    both = [embedded.home("shuffler"), embedded.home("analyzer")]
    if not (directory / KEYS).exists() and all(home.keys.exists() for home in both):
        yield from both
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


def _others(party: Examined, asked: set[str], clock: Clock) -> Iterator[Finding]:
    """What the other party of every open survey says."""
    now = clock()
    other = "analyzer" if party.home.role == "shuffler" else "shuffler"
    for survey in party.surveys:
        url = (survey.analyzer if other == "analyzer" else survey.shuffler).url
        question = f"{url} {survey.id}"
        if question in asked or now > survey.not_after:
            continue
        asked.add(question)
        yield from Remote(url, clock=clock).survey(survey, other)


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
