"""Whether the shuffler has the analyzers' keys: without them devices wait, and send nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import Metric

from shoal.service.clock import Clock, system_clock
from shoal.service.db.key_lists import KeyLists
from shoal.service.running.findings import Finding, fail, ok, warn, worst
from shoal.service.running.metrics import gauge
from shoal.service.shuffler.store import ShufflerStore
from shoal.service.survey import Survey

_CHECK = "analyzer keys"
_REACH = "devices wait: see that a worker runs, and that it reaches the analyzer's address"
_AHEAD = (
    "devices refuse it: set the clocks here and at the analyzer right; a worker then fetches a new "
    "one within the hour, which takes its place"
)
_DAY = 86_400
_SHOWN = 12


def copy_findings(surveys: Iterable[Survey], key_lists: KeyLists, now: int) -> Iterator[Finding]:
    """The copy of every analyzer of a survey that is not over, and whether one contradicted."""
    still = [survey for survey in surveys if now <= survey.not_after]
    parties = {survey.analyzer.fingerprint: survey.analyzer for survey in still}
    for name, party in parties.items():
        check = f"keys of {party.url}"
        found = key_lists.find(name)
        if found is None:
            yield warn(check, "there is no copy yet", _REACH)
        elif found.valid_until < now:
            yield warn(check, "the copy's signature has ended", _REACH)
        elif not found.is_usable(now):
            ahead = -(-(found.issued - now) // _DAY)
            yield fail(check, f"the copy's date is {ahead} days ahead of this clock", _AHEAD)
        else:
            days = (found.valid_until - now) // _DAY
            yield ok(check, f"copied, signed for {days} days more")
    for each in key_lists.contradictions():
        told = f"{each.fingerprint[:_SHOWN]}… signed lists that contradict each other"
        advice = f"{each.reason}: both are in the table contradictions; talk to its operator"
        yield fail(_CHECK, told, advice)


def copies_check(store: ShufflerStore, clock: Clock = system_clock) -> Finding:
    """The worst of it in one line, for those who ask whether the process is ready.

    Reports that were sealed before are taken without any copy, so this is never a failure: one
    would have a load balancer send them nowhere.
    """
    found = list(copy_findings(store.surveys.all(), store.key_lists, clock()))
    bad = [each for each in found if each.state is worst(found)]
    if not bad or not bad[0].advice:
        return ok(_CHECK, f"{len(found)} copied")
    return warn(_CHECK, f"{bad[0].check}: {bad[0].detail}", bad[0].advice)


def copy_figures(store: ShufflerStore, clock: Clock = system_clock) -> Iterable[Metric]:
    """How many analyzers' lists are lacking, and how many were refused as contradictions."""
    now = clock()
    names = {each.analyzer.fingerprint for each in store.surveys.all() if now <= each.not_after}
    kept = {name: store.key_lists.find(name) for name in names}
    lacking = sum(copy is None or not copy.is_usable(now) for copy in kept.values())
    yield gauge(
        "lacking_key_lists", "Analyzers without a copy of their keys that devices take.", lacking
    )
    yield gauge(
        "contradicting_key_lists",
        "Signed lists of analyzers that contradict each other.",
        len(store.key_lists.contradictions()),
    )
