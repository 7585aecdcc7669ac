"""Reports to send: really sealed, for the keys that the shuffler shows, or only looking so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass

import httpx
import numpy as np

from shoal import randomness
from shoal.errors import ShoalError
from shoal.randomizers.base import AnswerMechanism, NumberMechanism
from shoal.service.client import Keys, seal_many
from shoal.service.client.drawing import Values
from shoal.service.client.route import Route
from shoal.service.clock import Clock, system_clock
from shoal.service.keyring.key_list import KeyList
from shoal.service.keyring.schedule import ROLES
from shoal.service.survey import Survey
from shoal.service.wire import HEADER_BYTES, VERSION, Wire

_SECONDS = 10.0  # for the keys to come
_AT_ONCE = 5000  # reports that are sealed between two signs of progress
_WORD = 8  # bytes
_STEPS = 1 << 20  # between the bounds of numbers


class NoKeysError(ShoalError):
    """A shuffler whose keys cannot be had."""

    def __init__(self, url: str, why: str) -> None:
        self.url = url
        super().__init__(f"cannot fetch the keys from {url}: {why}; is the shuffler running there?")


def fetched_keys(survey: Survey, url: str, clock: Clock = system_clock) -> Keys:
    """The keys that the shuffler at this address shows, as a device would take them."""
    route = Route.of(survey)
    parties = {"shuffler": survey.shuffler, "analyzer": survey.analyzer}
    found = {}
    with httpx.Client(timeout=_SECONDS, trust_env=False) as client:  # as what is sent later
        for role in ROLES:
            place = route.keys(role).replace(survey.shuffler.url, url, 1)
            try:
                answer = client.get(place)
            except httpx.HTTPError as error:
                raise NoKeysError(place, str(error) or type(error).__name__) from error
            if answer.status_code != httpx.codes.OK:
                raise NoKeysError(place, f"status {answer.status_code}")
            listed = KeyList.verified(
                answer.content, fingerprint=parties[role].fingerprint, now=clock(), role=role
            )
            found[role] = listed.current(survey.suite, clock())
    return Keys(found["analyzer"], found["shuffler"])


@dataclass(frozen=True)
class Reports:
    """Bodies of ``bulk`` reports each."""

    survey: Survey
    keys: Keys
    bulk: int = 1

    @property
    def body_bytes(self) -> int:
        """Bytes of every body."""
        return self.bulk * Wire.of(self.survey).report_bytes

    def fresh(
        self,
        bodies: int,
        *,
        pool: Executor | None = None,
        progress: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> list[bytes]:
        """So many bodies of reports that are sealed now, with made-up answers."""
        sealed: list[bytes] = []
        total = bodies * self.bulk
        for report in sealed_reports(self.survey, self.keys, total, pool=pool):
            sealed.append(report)
            if len(sealed) % _AT_ONCE == 0 or len(sealed) == total:
                progress(len(sealed), total)
        starts = range(0, total, self.bulk)
        return [b"".join(sealed[start : start + self.bulk]) for start in starts]

    def forger(self) -> Callable[[], bytes]:
        """A source of bodies that have the right length and key, and in which nothing opens."""
        size = Wire.of(self.survey).report_bytes
        words = -(-self.body_bytes // _WORD)
        head = np.array([VERSION, self.keys.shuffler.number], dtype=np.uint8)
        source = randomness.secure()

        def forged() -> bytes:
            table = source.words(words).view(np.uint8)[: self.body_bytes].reshape(-1, size)
            table[:, :HEADER_BYTES] = head
            return table.tobytes()

        return forged


def sealed_reports(
    survey: Survey, keys: Keys, count: int, *, pool: Executor | None = None
) -> Iterator[bytes]:
    """So many people's reports; more are asked where not all of them take part."""
    left = count
    while left > 0:
        people = min(_AT_ONCE, int(left / survey.participation) + 1)
        for report in seal_many(survey, _made_up(survey, people), keys, pool=pool)[:left]:
            left -= 1
            yield report


def _made_up(survey: Survey, people: int) -> Values:
    device, source = survey.device, randomness.secure()
    if isinstance(device, AnswerMechanism):
        return source.below(device.k, people).astype(np.int64)
    assert isinstance(device, NumberMechanism)  # noqa: S101 - a survey has one or the other
    steps = source.below(_STEPS + 1, people).astype(np.float64) / _STEPS
    return np.clip(device.low + steps * (device.high - device.low), device.low, device.high)
