"""Which keys are not deleted yet, because a batch may still need them.

A batch that is here, or was asked for, names its key. Of others only the shuffler knows: one that
carries small batches on may close one long after its key has expired. So while a survey that allows
it is open, and until its last batch can have come, the keys that its devices sealed with are kept.
A list has room for few keys: if there are more, the oldest go, or none could take over any more.
"""

from __future__ import annotations

from collections.abc import Iterable

from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.keyring import KeyInfo, Keyring
from shoal.service.keyring.key_list import MOST_KEYS
from shoal.service.survey import Survey

# Of every suite: the one in use, the one to come, and the one that expired last.
_OWN = 3


def needed_keys(store: AnalyzerStore, keyring: Keyring) -> frozenset[int]:
    """The numbers of all keys that must not be deleted now."""
    keys = keyring.list().keys
    known = {key.number for key in keys}
    waiting = store.collections.keys_in_use() & known
    carried: set[int] = set()
    for survey in store.surveys.all():
        carried |= carried_keys(survey, keys, expired=keyring.schedule.expired, now=store.clock())
    first = [*sorted(waiting, reverse=True), *sorted(carried - waiting, reverse=True)]
    return frozenset(first[: _most(keyring)])


def carried_keys(
    survey: Survey, keys: Iterable[KeyInfo], *, expired: int, now: int
) -> frozenset[int]:
    """The keys that batches of a survey may be sealed for which the shuffler carries on."""
    last = survey.not_after + survey.batches.max_age + expired
    if survey.batches.small != "carry" or now > last:
        return frozenset()
    return frozenset(
        key.number
        for key in keys
        if key.suite == survey.suite
        and key.expires_at >= survey.not_before
        and key.active_from <= survey.not_after
    )


def longest_carried(keyring: Keyring) -> int:
    """For how many seconds a survey may carry batches on before the oldest keys have to go."""
    return _most(keyring) * keyring.schedule.active


def _most(keyring: Keyring) -> int:
    return max(1, MOST_KEYS - _OWN * len(keyring.suites))
