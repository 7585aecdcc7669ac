"""Everything that can happen to a collection, in any order: a machine for hypothesis."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from service.simulation.parties import (
    AFTER,
    BEFORE,
    DAY,
    HALF,
    HOUR,
    MAX_AGE,
    OK,
    ROLES,
    Beginning,
    Killed,
    World,
    dying,
    survey_of,
)
from service.simulation.witness import Person, Witness
from shoal.service.errors import LeaseLostError, UnreadableError
from shoal.service.failpoints import NAMES
from shoal.service.keyring import KeyringError
from shoal.service.opening import Pool
from shoal.service.shuffler.worker import Pace, ShufflerWorker

ANSWERS = 200
MINIMUM, TARGET = 8, 24
LEASE = 600
INTAKE = [name for name in NAMES if name.startswith("intake.")]
WORK = [name for name in NAMES if name.startswith(("opening.", "batch.", "shuffle.", "purge."))]
COLLECTING = [name for name in NAMES if name.startswith(("collect.", "analysis.", "release."))]

surveys = st.sampled_from([0, 1])
faults = st.sampled_from([OK, OK, OK, BEFORE, AFTER])
picks = st.integers(0, 10_000)


def two_surveys(fingerprints):
    """One whose small batches wait for more, one whose small batches die."""
    return [
        survey_of(small, fingerprints, k=ANSWERS, minimum=MINIMUM, target=TARGET, small=small)
        for small in ("carry", "expire")
    ]


_sealed: dict[tuple[object, ...], tuple[bytes, bytes]] = {}


def seal(wire, answer, keys, *, sound):
    """A person's record and report; those for the first keys are made once for all worlds."""
    name = (wire.survey, answer, keys["analyzer"].number, keys["shuffler"].number, sound)
    first = name[2:4] == (0, 0)
    if first and name in _sealed:
        return _sealed[name]
    message = np.array([answer], dtype=np.uint8).tobytes()
    record = wire.sections[0].inner.seal(message, keys["analyzer"])
    if not sound:
        record = record[:-1] + bytes([record[-1] ^ 1])
    made = record, wire.outer.seal(record, keys["shuffler"])
    if first:
        _sealed[name] = made
    return made


class Slow:
    """A store for a worker that says later what it has done."""

    def __init__(self, store):
        self._store = store
        self.later = []
        self.reports = SlowNoun(store.reports, self.later)
        self.batches = SlowNoun(store.batches, self.later)

    def __getattr__(self, name):
        return getattr(self._store, name)


class SlowNoun:
    """Reports or batches whose work is finished later."""

    def __init__(self, noun, later):
        self._noun, self._later = noun, later

    def __getattr__(self, name):
        return getattr(self._noun, name)

    def finish(self, *words):
        self._later.append(partial(self._noun.finish, *words))


class Simulation(RuleBasedStateMachine):
    """People, a shuffler, an analyzer; subclasses say where it begins, and share a tally."""

    beginning: ClassVar[Beginning]
    tally: ClassVar[Counter[str]]

    def __init__(self):
        super().__init__()
        self._stack = ExitStack()
        place = Path(tempfile.mkdtemp(prefix="shoal-"))
        self._stack.callback(place.rmdir)
        copy = self._stack.enter_context(self.beginning.copied(place / "world"))
        self.world = World(copy, self.beginning.tokens)
        self._stack.callback(self.world.close)
        self.surveys, self.wires = self.beginning.surveys, self.beginning.wires
        self.witness = Witness(self.world, self.surveys)
        self.held = []
        self.latest = dict.fromkeys(ROLES, 0)
        self.keys = {}
        self.world.shuffler.step()
        self._take_keys()

    # People

    def _take_keys(self):
        """Both lists are the shuffler's to hand out; if one is too old, the last one is used."""
        party, survey = self.world.shuffler, self.surveys[0]
        lists = {"shuffler": party.keyring.list, "analyzer": lambda: party.analyzer_keys(survey)}
        for role, found in lists.items():
            with suppress(KeyringError):
                self.keys[role] = found().current(survey.suite, party.clock())

    @rule()
    def people_take_new_keys(self):
        self._take_keys()

    def _person(self, survey, *, sound=True):
        answer = sum(each.survey == survey for each in self.witness.people)
        if answer >= ANSWERS:
            return None
        record, report = seal(self.wires[survey], answer, self.keys, sound=sound)
        person = Person(survey, answer, record, report, sound)
        self.witness.meet(person)
        return person

    def _upload(self, survey, people, fault=OK):
        """Send reports of people; who is told that theirs arrived is not to be lost."""
        if not people:
            return
        self.world.line.faults.append(fault)
        now, asked = self.world.shuffler.clock(), self.surveys[survey]
        for each in people:
            # Lost on its way, it never was sent; refused, it was not either.
            accepted = self.world.shuffler.keyring.accepts(each.report[1])
            each.sent |= fault != BEFORE and now <= asked.not_after and accepted
        answer = self.world.upload(asked, b"".join(each.report for each in people))
        assert not self.world.line.faults
        if answer is None:
            assert fault != OK or self.world.line.killed
            return
        if now > asked.not_after:
            assert answer.status_code == 403
            return
        said = answer.json()
        assert answer.status_code == 202, said
        assert said["reports"] == len(people)
        assert {each["reason"] for each in said["refused"]} <= {"unknown_key"}
        refused = {each["index"] for each in said["refused"]}
        for index, each in enumerate(people):
            assert self.world.shuffler.keyring.accepts(each.report[1]) is (index not in refused)
            each.taken |= index not in refused

    @rule(
        survey=surveys,
        count=st.integers(1, 20),
        spoiled=st.sampled_from([0, 0, 0, 1, 5]),
        fault=faults,
    )
    def new_people(self, survey, count, spoiled, fault):
        people = [self._person(survey, sound=number >= spoiled) for number in range(count)]
        self._upload(survey, [each for each in people if each], fault)
        self.tally["uploads"] += 1

    @precondition(lambda self: self.witness.people)
    @rule(survey=surveys, chosen=st.lists(picks, min_size=1, max_size=15), fault=faults)
    def the_same_reports_again(self, survey, chosen, fault):
        before = [each for each in self.witness.people if each.survey == survey]
        if before:
            self._upload(survey, [before[pick % len(before)] for pick in chosen], fault)
            self.tally["replays"] += len(chosen)

    @precondition(lambda self: self.witness.people)
    @rule(
        survey=surveys,
        kind=st.sampled_from(["length", "bit", "survey", "number"]),
        pick=picks,
        where=picks,
    )
    def a_report_that_is_none(self, survey, kind, pick, where):
        before = [each for each in self.witness.people if each.survey == survey]
        if not before or self.world.shuffler.clock() > self.surveys[survey].not_after:
            return
        report, to = bytearray(before[pick % len(before)].report), survey
        if kind == "length":
            del report[where % len(report) :]
        elif kind == "bit":
            place = where % (8 * len(report))
            report[place // 8] ^= 1 << place % 8
        elif kind == "survey":
            to = 1 - survey
        else:
            report[1] = (report[1] + 1 + where % 4) % 256
        answer = self.world.upload(self.surveys[to], bytes(report))
        assert answer.status_code == (400 if kind == "length" else 202)
        self.tally["forged"] += 1

    # Time and keys

    @rule(
        seconds=st.sampled_from([60, LEASE, HOUR, MAX_AGE, DAY, 3 * DAY, -HOUR, -DAY]),
        roles=st.sampled_from([ROLES, ROLES, ROLES[:1], ROLES[1:]]),
    )
    def a_clock_jumps(self, seconds, roles):
        self.latest = {role: max(self.latest[role], self.world.clocks[role]()) for role in ROLES}
        self.world.advance(seconds, roles)

    @rule(role=st.sampled_from(ROLES))
    def keys_are_rotated(self, role):
        with suppress(KeyringError):
            getattr(self.world, role).keyring.rotate()

    @rule()
    def keys_are_looked_after(self):
        self.world.shuffler.keyring.tick(keep=self.world.shuffler.store.reports.waiting_keys())
        self.world.analyzer.keyring.tick(keep=self.world.analyzer.store.collections.keys_in_use())

    @rule()
    def a_week_without_work(self):
        """Long enough that keys are replaced and deleted, but for those that are needed."""
        for _ in range(5):
            self.world.advance(36 * HOUR)
            self.keys_are_looked_after()

    # Work

    @rule(times=st.integers(1, 3))
    def the_shuffler_works(self, times):
        for _ in range(times):
            self.world.shuffler.step()
        self.witness.look_at_shuffler()

    @rule(lost=st.lists(st.sampled_from([OK, OK, BEFORE, AFTER, HALF]), max_size=6))
    def the_analyzer_works(self, lost):
        self.world.line.faults.extend(lost)
        self.world.analyzer.step()
        self.world.line.faults.clear()
        self.witness.look_at_analyzer()

    @rule(
        survey=surveys,
        count=st.integers(MINIMUM // 2, MINIMUM),
        spoiled=st.sampled_from([0, 0, 2]),
        lost=faults,
    )
    def everything_goes_well(self, survey, count, spoiled, lost):
        """But for one answer, maybe: without such days hardly any batch would be published."""
        self._take_keys()
        people = [self._person(survey, sound=number >= spoiled) for number in range(count)]
        self._upload(survey, [each for each in people if each])
        self.the_shuffler_works(1)
        self.world.advance(MAX_AGE)
        self.the_shuffler_works(1)
        self.the_analyzer_works([OK, OK, lost])

    @rule()
    def files_are_deleted(self):
        self.world.shuffler.store.batches.purge()
        self.world.shuffler.store.garbage.collect()
        self.witness.look_at_shuffler()

    @rule()
    def somebody_slow_claims_reports(self):
        store = self.world.shuffler.store
        self._claimed(store.reports.claim(1000, LEASE), ShufflerWorker._finish)

    @rule()
    def somebody_slow_claims_a_batch(self):
        self._claimed(self.world.shuffler.store.batches.claim(LEASE), ShufflerWorker._write)

    def _claimed(self, work, do):
        """All of the work is done now, but for saying so."""
        if work is None:
            return
        party = self.world.shuffler
        slow = Slow(party.store)
        with suppress(KeyringError):  # a key that is pending again: the clock was set back
            do(ShufflerWorker(slow, party.keyring, Pool(0), party.clock, pace=Pace(gather=0)), work)
        self.held += [(party, finish) for finish in slow.later]

    # Who holds what, and what was collected, is not the same whenever the same is drawn: batches
    # have random names, which decide their order. So neither is a precondition, which has to be.

    @rule(pick=picks)
    def somebody_slow_is_done(self, pick):
        if self.held:
            self._finish(*self.held.pop(pick % len(self.held)))

    def _finish(self, party, finish):
        if party is not self.world.shuffler:
            return  # died with its process
        try:
            finish()
        except LeaseLostError:
            self.tally["lost leases"] += 1
        except UnreadableError:
            self.tally["drafts deleted"] += 1  # with the lease, by whoever cleaned up
        self.witness.look_at_shuffler()

    @rule()
    def somebody_slow_is_overtaken(self):
        held, self.held = self.held, []
        self.somebody_slow_claims_reports()
        self.world.advance(MAX_AGE)
        self.world.shuffler.store.batches.advance()
        self.somebody_slow_claims_a_batch()
        self.world.advance(LEASE)
        self.the_shuffler_works(2)
        for work in self.held:
            self._finish(*work)
        self.held = held

    @rule(survey=surveys, pick=picks, same=st.booleans())
    def a_batch_is_asked_for_again(self, survey, pick, same):
        infos = self.world.shuffler.store.batches.listed(self.surveys[survey].id)
        collected = [info for info in infos if info.state != "SHUFFLED"]
        if not collected:
            return
        info = collected[pick % len(collected)]
        request = self.witness.requests[info.id] if same else f"{pick:032x}"
        answer = self.world.fetch(self.surveys[survey], info.id, request)
        self.tally["asked again"] += 1
        if same and info.state == "RELEASED":
            assert answer.status_code == 200
            place = self.world.place.of("shuffler") / "batches"
            assert answer.content == next(place.glob(f"{info.id}-*")).read_bytes()
        else:
            assert answer.status_code == 409

    # Deaths

    @rule(role=st.sampled_from(ROLES))
    def a_party_dies(self, role):
        self.world.revive(role)
        self.tally["deaths"] += 1

    @rule(survey=surveys, count=st.integers(1, 10), point=st.sampled_from(INTAKE))
    def the_shuffler_dies_taking_reports(self, survey, count, point):
        people = [self._person(survey) for _ in range(count)]
        with dying(point):
            self._upload(survey, [each for each in people if each])
        self._after_death("shuffler", died=self.world.line.killed)

    @rule(point=st.sampled_from(WORK))
    def the_shuffler_dies_working(self, point):
        died = False
        try:
            with dying(point):
                for _ in range(3):
                    self.world.shuffler.step()
        except Killed:
            died = True
        self._after_death("shuffler", died=died)
        self.witness.look_at_shuffler()

    @rule(point=st.sampled_from(COLLECTING))
    def somebody_dies_collecting(self, point):
        try:
            with dying(point):
                self.world.analyzer.step()
        except Killed:
            self._after_death("analyzer", died=True)
        self._after_death("shuffler", died=self.world.line.killed)
        self.witness.look_at_analyzer()

    def _after_death(self, role, *, died):
        self.tally["deaths at work"] += died
        if died:
            self.world.revive(role)

    # The end

    def teardown(self):
        try:
            if sys.exc_info()[0] is None:
                self._end()
        finally:
            self._stack.close()

    def _end(self):
        """Nothing goes wrong any more, and time passes."""
        self.held.clear()
        for role in ROLES:
            clock = self.world.clocks[role]
            clock.now = max(clock.now, self.latest[role])
        for seconds in (HOUR, MAX_AGE, HOUR):
            self.world.advance(seconds)
            self._until_idle(self.world.shuffler)
            self.witness.look_at_shuffler()
        self._until_idle(self.world.analyzer)
        self.world.advance(HOUR)
        self._until_idle(self.world.shuffler)
        self.witness.look_at_the_end()
        self.tally.update(self.witness.seen)
        self.tally["sequences"] += 1

    def _until_idle(self, party):
        for _ in range(50):
            if not party.step():
                return
        message = "there is always something to do"
        raise AssertionError(message)
