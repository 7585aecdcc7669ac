"""The client, without a network: draw, keep, seal, keep, send, mark, in this order, once.

A report is drawn once for every (survey, occasion) and kept before anything leaves the device.
Every further try sends the same bytes: whoever sees both sees nothing new, and the shuffler counts
them once. Drawing again would show another message of the same answer, and many of those average
to the answer.

If the shuffler no longer knows the key, the same message is sealed with the new one. That is done
only while all earlier tries certainly did not arrive. Otherwise one person's message might arrive
under both keys and count twice, which was not promised: it is given up instead, and most likely did
arrive.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from shoal import checks
from shoal.accounting.guarantee import Guarantee
from shoal.errors import InvalidArgumentError, ShoalError
from shoal.explain.text import moment
from shoal.randomness import Randomness
from shoal.service.client.bulk import Keys, chunks, people_a_chunk, sealed
from shoal.service.client.drawing import Answer, Answers, Drawn, Values, draw, values_of
from shoal.service.client.errors import DeliveryError, SurveyRefusedError
from shoal.service.client.exchange import Ask, Later, Never, Taken, Talk, Wait, asked, read_reply
from shoal.service.client.keys import KeySource
from shoal.service.client.outbox import Outbox
from shoal.service.client.outcomes import Abstained, Flushed, Outcome, Queued, Sent, Submitted
from shoal.service.client.people import People
from shoal.service.client.policy import Policy
from shoal.service.client.route import Route
from shoal.service.client.rows import Debit, Place, Row
from shoal.service.client.settings import Settings
from shoal.service.client.sources import Source, survey_of
from shoal.service.clock import Clock
from shoal.service.failpoints import reached
from shoal.service.survey import Survey

Progress = Callable[[int, int], None]

_DAY = 86_400

NEEDS_PROXY = (
    "it was to go through a proxy and does not leave without one (shoal submit --proxy, in Python "
    "Settings(proxy=…))"
)
_LOST = (
    "the shuffler has deleted the key it was sealed with, and it may have arrived before; sealed "
    "anew it might count twice"
)
_OVER = (
    "by this machine's clock the survey is over; unless that is wrong, it is deleted when it is "
    "tried again in a day"
)
_DROPPED = {
    "lost": _LOST,
    "refused": "the shuffler refused it",
    "expired": "the survey was over before it could be delivered",
    "forgotten": "it was forgotten when asked to",
}


def untold(_done: int, _total: int) -> None:
    """For those who do not want to know how far a job is."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a client does, as generators of what it wants from the network."""

    outbox: Outbox
    policy: Policy
    settings: Settings
    clock: Clock
    randomness: Randomness | None = None

    @property
    def _source(self) -> KeySource:
        return KeySource(self.outbox, self.clock, compare=self.settings.compare_keys)

    def survey(self, source: Source, *, name: str | None = None) -> Talk[Survey]:
        """The survey in a file, at an address, or as it is; ``name`` is what it must hash to."""
        return (yield from survey_of(source, name=name, policy=self.policy))

    def report(self, source: Source, answer: Answer, occasion: int) -> Talk[Outcome]:
        """One person's report for one occasion."""
        survey = yield from self.survey(source)
        place = Place(survey.id, self._checked(survey, occasion))
        again = not self._drawn(survey, place, values_of(survey, [answer]))
        reached("client.randomized")
        waits = yield from self._delivered(place, Route.of(survey))
        return self._outcome(place, waits, again=again)

    def report_many(
        self,
        source: Source,
        answers: Answers,
        place: tuple[str, int],
        *,
        pool: Executor | None = None,
        told: Progress = untold,
    ) -> Talk[Submitted]:
        """Reports of many people, a chunk after the other; the same job goes on where it ended."""
        job, occasion = place
        if not job:  # the place without a name is that of one person
            raise InvalidArgumentError("job", job, "a name for these people")
        survey = yield from self.survey(source)
        first = Place(survey.id, occasion, job)
        self.promised(survey, occasion)
        values, route = values_of(survey, answers), Route.of(survey)
        begun = self.outbox.begin_job(first, People(values, people_a_chunk(route.wire)))
        waits = None
        for chunk, start, end in chunks(len(values), begun.chunk):
            here = Place(survey.id, occasion, job, chunk)
            self._drawn(survey, here, values[start:end])
            if end == len(values):
                self.outbox.end_job(first)
            reached("client.randomized")
            waits = yield from self._delivered(here, route, pool)
            told(end, len(values))
            if waits is not None:
                break
        found = self.outbox.progress(first)
        return Submitted(
            survey=str(survey.id),
            job=job,
            people=len(values),
            asked=found["asked"],
            taking_part=found["people"],
            delivered=found["delivered"],
            waiting=found["waiting"],
            reason="" if waits is None else waits.reason,
            again=begun.again,
        )

    def promised(self, survey: Survey, occasion: int) -> Guarantee:
        """What an answer costs at most, if it may be given: nothing is drawn."""
        self._checked(survey, occasion)
        found = self.policy.check(survey)
        self.policy.check_total(self.outbox.spent_besides(survey.id), found)
        return found

    def flush(self, *, everything: bool = False) -> Talk[Flushed]:
        """Try what waits and may leave by now, or everything that waits."""
        sent = waiting = given_up = 0
        reasons: dict[str, None] = {}
        now = self.clock()
        self.outbox.reckon(now)
        for place, kept in self.outbox.waiting(due=None if everything else now):
            before = self.outbox.row(place)
            try:
                waits = yield from self._delivered(place, Route.from_bytes(kept), hurry=True)
                reason = "" if waits is None else waits.reason
            except ShoalError as error:  # of this report alone: the others can go on
                reason = str(error)
            after = self.outbox.row(place)
            sent += after.delivered - before.delivered
            waiting += after.waiting
            given_up += before.waiting - after.waiting - (after.delivered - before.delivered)
            reasons[reason or _DROPPED.get(after.outcome, "")] = None
        told = tuple(reason for reason in reasons if reason)
        return Flushed(sent=sent, waiting=waiting, given_up=given_up, reasons=told)

    # Drawing.

    def _checked(self, survey: Survey, occasion: int) -> int:
        """The occasion, if the survey is open and has so many."""
        checks.count(occasion=occasion)
        now = self.clock()
        today = f"{moment(now)} (UTC)"
        if now < survey.not_before:
            reason = (
                f"survey {survey.name!r} begins on {moment(survey.not_before)}, and it is {today}"
            )
            raise SurveyRefusedError(reason, "answer it then")
        if now > survey.not_after:
            reason = (
                f"survey {survey.name!r} ended on {moment(survey.not_after)}, and it is {today}"
            )
            raise SurveyRefusedError(reason, "it takes no more answers")
        if occasion > survey.reports_per_person:
            reason = (
                f"survey {survey.name!r} takes {survey.reports_per_person} "
                f"report{'s' * (survey.reports_per_person > 1)} of one person, "
                f"and this is number {occasion}"
            )
            raise SurveyRefusedError(reason, "more would tell more than was promised")
        if survey.token_bytes:
            reason = f"survey {survey.name!r} needs tokens of {survey.token_bytes} bytes"
            raise SurveyRefusedError(reason, "this client has none to show")
        return occasion

    def _drawn(self, survey: Survey, place: Place, values: Values) -> bool:
        """Draw and keep a report, unless it is there; whether it was drawn now."""
        promised = self.policy.check(survey)
        debit = Debit(
            name=survey.name,
            epsilon=promised.epsilon,
            delta=promised.delta,
            local_epsilon=promised.local_epsilon,
            allowed=survey.reports_per_person,
        )

        def make() -> tuple[Drawn, int, int]:
            now = self.clock()
            drawn = draw(survey, values, randomness=self.randomness)
            return drawn, now, now + self.settings.drawn_delay()

        return self.outbox.draw(
            place,
            Route.of(survey),
            debit,
            admit=lambda spent: self.policy.check_total(spent, promised),
            make=make,
            proxied=self.settings.proxy is not None,
        )

    # Delivering.

    def _delivered(
        self, place: Place, route: Route, pool: Executor | None = None, *, hurry: bool = False
    ) -> Talk[Later | None]:
        """Try until it is done, or until the tries of this call are; what it waits for then."""
        waits: Later | None = None
        self.outbox.reckon(self.clock())
        for attempt in range(1, self.settings.tries + 1):
            row = self.outbox.row(place)
            if row.state == "done":
                return None
            if self.clock() > route.not_after:
                return self._ended(row)
            held = self._held(row, hurry=hurry or attempt > 1)
            if held is not None:
                return held
            waits = yield from self._tried(row, route, pool)
            if waits is None:
                return None
            seconds = self.settings.wait_after(row.tries + 1, asked=waits.retry_after)
            now = self.clock()
            self.outbox.postpone(place, now + math.ceil(seconds), now=now)
            if attempt == self.settings.tries or seconds > self.settings.patience:
                break
            yield Wait(seconds)
        return waits

    def _ended(self, row: Row) -> Later | None:
        """Nothing leaves after the end. But a clock may be wrong for a moment.

        What is wiped is gone, so it is wiped only after it was over for a day, and not seen open
        in between.
        """
        now = self.clock()
        since = min(row.over or now, now)
        if now >= since + _DAY:
            self.outbox.finish(row.place, "expired")
            return None
        self.outbox.over(row.place, since)
        return Later(_OVER, unsent=True)

    def _held(self, row: Row, *, hurry: bool) -> Later | None:
        """Why a report of a survey that is open does not leave now, if it does not."""
        if row.over:
            self.outbox.over(row.place, 0)
        if self._shows_the_address(row):
            return Later(NEEDS_PROXY, unsent=True)
        if row.due > self.clock() and not hurry:
            return Later("it leaves later", unsent=True)
        return None

    def _shows_the_address(self, row: Row) -> bool:
        """Whether it was to go through a proxy, and there is none; if there is one, it is now."""
        if self.settings.proxy is None:
            return bool(row.proxied)
        if not row.proxied:
            self.outbox.through_proxy(row.place)
        return False

    def _tried(self, row: Row, route: Route, pool: Executor | None) -> Talk[Later | None]:
        """Seal if need be, send, and mark what came of it."""
        ready = yield from self._sealed(row, route, pool)
        if isinstance(ready, Later):
            return ready
        if ready.state == "done" or not self.outbox.trying(ready):
            return Later("another process has sent or wiped it", unsent=True)
        came = yield from asked(Ask(route.url, ready.sealed))
        reached("client.sent")
        return (yield from self._marked(ready, route, read_reply(came, ready.waiting)))

    def _sealed(
        self, row: Row, route: Route, pool: Executor | None, *, fresh: bool = False
    ) -> Talk[Row | Later]:
        """The report in the bytes that are sent: as they are if they may have been sent before."""
        if row.sealed and row.doubt:
            return row
        keys = yield from self._source.keys(route, fresh=fresh)
        if isinstance(keys, Later):
            return row if row.sealed and not fresh else keys
        named = keys.named
        if row.sealed and row.keys == named:
            return row
        self._seal(row, route, keys, pool, named)
        return self.outbox.row(row.place)

    def _seal(self, row: Row, route: Route, keys: Keys, pool: Executor | None, named: str) -> None:
        reports = sealed(route.wire, row.messages, keys, pool=pool)
        self.outbox.seal(row, b"".join(reports), named)
        reached("client.sealed")

    def _marked(self, row: Row, route: Route, said: Taken | Later | Never) -> Talk[Later | None]:
        if isinstance(said, Later):
            if said.unsent:
                self.outbox.not_arrived(row)
            return said
        if isinstance(said, Never):
            self.outbox.finish(row.place, "refused")
            raise DeliveryError(str(row.place.survey), row.place.occasion, said.reason)
        taken = row.waiting - len(said.reseal) - len(said.refused)
        if not said.reseal:
            self.outbox.finish(row.place, "delivered" if taken else "refused", delivered=taken)
            if not taken:
                raise DeliveryError(str(row.place.survey), row.place.occasion, said.reason)
            return None
        if not self.outbox.keep_only(row, *self._kept(row, route, said), delivered=taken):
            self.outbox.finish(row.place, "lost", delivered=taken)
            return None
        # Ask for the keys now, so that the next try has others if there are any.
        again = yield from self._sealed(self.outbox.row(row.place), route, None, fresh=True)
        if isinstance(again, Later):
            return again
        return Later(f"the shuffler said {said.reason}", unsent=True)

    def _kept(self, row: Row, route: Route, said: Taken) -> tuple[bytes, bytes]:
        """Messages and bytes of the reports that go on."""
        wire = route.wire
        messages = _picked(row.messages, wire.slots * wire.message_bytes, said.reseal)
        return messages, _picked(row.sealed, wire.report_bytes, said.reseal)

    def _outcome(self, place: Place, waits: Later | None, *, again: bool) -> Outcome:
        row = self.outbox.row(place)
        survey, occasion = str(place.survey), place.occasion
        if waits is not None:
            return Queued(
                survey=survey, occasion=occasion, due=row.due, reason=waits.reason, again=again
            )
        if row.outcome == "delivered":
            return Sent(survey=survey, occasion=occasion, again=again)
        if row.outcome == "abstained":
            return Abstained(survey=survey, occasion=occasion, again=again)
        raise DeliveryError(survey, occasion, _DROPPED[row.outcome])


def _picked(joined: bytes, size: int, places: tuple[int, ...]) -> bytes:
    return b"".join(joined[place * size : (place + 1) * size] for place in places)
