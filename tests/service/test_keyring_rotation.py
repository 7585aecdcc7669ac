"""What time does to keys, and what wrong clocks must not do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import InvalidArgumentError
from shoal.sealing import KeyPair
from shoal.service.keyring import KeyringError, KeyState, Schedule, rotation
from shoal.service.keyring.key_list import MOST_KEYS
from shoal.service.keyring.rotation import Ring

START = 1_800_000_000
HOUR, DAY = 3600, 86_400
YEAR = 365 * DAY
PAIRS = [KeyPair.generate(number=number) for number in range(256)]
SUITE = PAIRS[0].public.suite.name
PENDING, ACTIVE, EXPIRED = KeyState.PENDING, KeyState.ACTIVE, KeyState.EXPIRED


class Model:
    """A ring as a service keeps it, with a true time and a clock that may be wrong."""

    def __init__(self, schedule=None):
        self.ring = Ring(schedule=schedule or Schedule(), looked=START)
        self.true, self.wrong = START, 0
        self.deleted = {}
        self.add(begins=self.now)

    @property
    def now(self):
        return self.true + self.wrong

    def add(self, **how):
        ring = rotation.added(self.ring, PAIRS[self.ring.unused].public, self.now, **how)
        self.ring = rotation.settled(ring, self.now)

    def tick(self, keep=()):
        ring = rotation.passed(self.ring, self.now, keep)
        for key in ring.keys:
            if key.state is KeyState.DELETED:
                self.deleted[key.number] = self.true
        for begins in rotation.due_successors(ring, self.now).values():
            if rotation.has_room(ring):
                new = PAIRS[ring.unused].public
                ring = rotation.added(ring, new, self.now, begins=begins)
        self.ring = rotation.settled(ring, self.now)

    def after(self, seconds):
        self.true += seconds
        self.tick()

    def days(self, count):
        for _ in range(count):
            self.after(DAY)

    def act(self, step, amount):
        if step == "after":
            self.after(amount)
        elif step == "wait":
            self.true += amount  # nobody looks
        elif step == "jump":
            self.wrong += amount
        elif step == "rotate" and rotation.has_room(self.ring):
            self.add()
        elif step == "retire":
            self.retire(self.ring.keys[amount % len(self.ring.keys)].number)

    def retire(self, number):
        self.ring = rotation.settled(rotation.seen(self.ring, self.now), self.now)
        if rotation.needs_replacement(self.ring, number) is None:
            ring = rotation.retired(self.ring, number, self.now, delete=False)
            self.ring = rotation.settled(ring, self.now)

    def states(self):
        return {key.number: key.state for key in self.ring.keys}

    def key(self, number):
        return self.ring.find(number)

    def accepts(self, number):
        found = self.ring.find(number)
        return found is not None and rotation.accepts(found, self.ring, self.now)


def test_a_life():
    model = Model()
    assert model.states() == {0: ACTIVE}
    assert model.key(0).expires_at == START + 30 * DAY
    assert model.key(0).deletes_at == START + 44 * DAY
    model.days(28)
    model.after(23 * HOUR - 1)
    assert model.states() == {0: ACTIVE}
    model.after(1)  # a day ahead, so that lists that devices keep have it
    assert model.states() == {0: ACTIVE, 1: PENDING}
    assert model.key(1).active_from == model.key(0).expires_at == START + 30 * DAY
    model.after(DAY + HOUR - 1)
    assert model.states() == {0: ACTIVE, 1: PENDING}
    model.after(1)
    assert model.states() == {0: EXPIRED, 1: ACTIVE}
    assert model.key(0).deletes_at == START + 44 * DAY
    model.days(13)
    model.after(DAY - HOUR - 1)
    assert model.accepts(0)
    model.after(1)
    assert not model.accepts(0)  # and yet it opens what it took
    assert model.states() == {0: EXPIRED, 1: ACTIVE}
    model.after(HOUR - 1)
    assert model.states() == {0: EXPIRED, 1: ACTIVE}
    model.after(1)
    assert model.states() == {1: ACTIVE}


def test_a_year_forward_deletes_nothing():
    model = Model()
    model.wrong = YEAR
    model.tick()
    assert model.states() == {0: ACTIVE, 1: PENDING}
    model.after(HOUR)
    assert model.states() == {0: EXPIRED, 1: ACTIVE}
    model.days(5)
    model.wrong = 2 * YEAR
    model.tick()
    assert model.states()[0] is EXPIRED  # the jump counted for one day of the fourteen
    model.wrong = 0
    model.days(8)  # the first of them goes into the clock that was set back
    assert model.states()[0] is EXPIRED
    model.days(1)
    assert model.deleted == {0: START + HOUR + 14 * DAY}


def test_after_a_jump_is_undone_times_are_drawn_in():
    model = Model()
    model.wrong = YEAR
    model.tick()
    assert model.key(1).active_from == START + YEAR + HOUR
    model.wrong = 0
    model.tick()
    assert model.key(1).active_from == model.key(0).expires_at == START + DAY + HOUR
    model.after(DAY + HOUR)
    assert model.states() == {0: EXPIRED, 1: ACTIVE}
    assert model.key(1).expires_at <= model.now + 30 * DAY
    assert model.key(0).deletes_at == model.now + 14 * DAY


@pytest.mark.parametrize("back", [DAY, YEAR])
def test_a_clock_set_back_takes_nothing_out_of_use(back):
    model = Model()
    model.add()
    model.after(HOUR)
    assert model.states() == {0: EXPIRED, 1: ACTIVE}
    model.wrong = -back
    assert model.accepts(0)
    assert model.accepts(1)
    model.tick()
    assert model.states() == {0: EXPIRED, 1: ACTIVE}
    assert model.key(1).active_from <= model.now
    assert model.key(0).deletes_at == model.now + 14 * DAY
    model.days(14)
    assert model.deleted == {0: START + HOUR + 14 * DAY}


def test_a_service_that_was_away_keeps_what_waits_for_it():
    model = Model()
    model.add()
    model.after(HOUR)
    model.after(100 * DAY)
    # One day of the hundred counts; the key in use meanwhile gets its successor.
    assert model.states() == {0: EXPIRED, 1: ACTIVE, 2: PENDING}
    model.days(12)
    assert 0 not in model.deleted
    model.days(1)
    assert 0 in model.deleted


def test_a_key_that_is_needed_is_not_deleted():
    model = Model()
    model.add()
    model.after(HOUR)
    for _ in range(20):
        model.true += DAY
        model.tick(keep={0})
    assert model.states()[0] is EXPIRED
    assert not model.accepts(0)
    assert model.now < model.key(0).deletes_at <= model.now + HOUR
    model.tick()
    assert 0 in model.deleted


def test_rotating_twice_leaves_one_key_after_the_other():
    model = Model()
    model.add()
    model.true += 60
    model.add()
    assert model.states() == {0: ACTIVE, 1: PENDING, 2: PENDING}
    assert model.key(1).expires_at == model.key(2).active_from == START + 60 + HOUR
    model.after(HOUR)
    assert model.states() == {0: EXPIRED, 1: EXPIRED, 2: ACTIVE}


def test_retiring_the_key_in_use_starts_the_next_at_once():
    model = Model()
    model.add()
    model.retire(0)
    assert model.states() == {0: EXPIRED, 1: ACTIVE}
    assert model.key(0).expires_at == model.key(1).active_from == START
    assert model.key(0).deletes_at == START + 14 * DAY
    model.days(13)
    again = rotation.retired(model.ring, 0, model.now, delete=False)
    assert again == model.ring  # its time does not begin anew


def test_a_retired_key_is_kept_as_long_as_any_other():
    model = Model()
    model.true += 10 * DAY  # nobody looked: that is no part of its time
    model.add()
    model.retire(0)
    model.days(13)
    model.after(DAY - HOUR - 1)
    assert model.accepts(0)
    model.after(HOUR)
    assert model.states()[0] is EXPIRED
    model.after(1)
    assert 0 in model.deleted


def test_rotating_by_hand_does_not_wait_for_what_is_planned():
    model = Model()
    model.days(29)
    assert model.states() == {0: ACTIVE, 1: PENDING}
    assert model.key(1).active_from == START + 30 * DAY
    model.add()
    begins = model.now + HOUR
    assert model.key(1).active_from == model.key(2).active_from == begins
    assert model.key(0).expires_at == model.key(1).expires_at == begins
    model.after(HOUR)
    assert model.states() == {0: EXPIRED, 1: EXPIRED, 2: ACTIVE}


def test_retiring_a_pending_key_leaves_the_one_in_use():
    model = Model()
    model.add()
    assert rotation.needs_replacement(model.ring, 1) is None
    model.retire(1)
    assert model.states() == {0: ACTIVE}
    model.tick()
    assert model.states() == {0: ACTIVE, 2: PENDING}


def test_the_last_key_needs_a_replacement():
    model = Model()
    assert rotation.needs_replacement(model.ring, 0) == SUITE
    with pytest.raises(KeyringError, match="key 5 cannot decrypt here: this key ring has keys 0"):
        rotation.needs_replacement(model.ring, 5)


def test_numbers_end():
    model = Model()
    model.ring = Ring(schedule=Schedule(), looked=START, unused=255)
    model.add(begins=model.now)
    assert model.states() == {255: ACTIVE}
    with pytest.raises(KeyringError, match="make a new key ring"):
        rotation.check_room(model.ring)
    model.days(31)
    assert model.states() == {255: ACTIVE}  # the last key stays in use
    assert model.key(255).expires_at > model.now


def test_lists_do_not_grow_without_end():
    model = Model()
    for _ in range(MOST_KEYS - 1):
        model.add()
    with pytest.raises(KeyringError, match="retire one"):
        rotation.check_room(model.ring)


@pytest.mark.parametrize(
    "wrong", [{"pending": 0}, {"active": HOUR}, {"active": 2 * DAY}, {"expired": 200 * DAY}]
)
def test_schedules_that_cannot_work_are_refused(wrong):
    with pytest.raises(InvalidArgumentError):
        Schedule(**wrong)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("after"), st.integers(0, 12 * HOUR)),
        st.tuples(st.just("wait"), st.integers(0, 5 * DAY)),
        st.tuples(st.just("jump"), st.sampled_from([-YEAR, -DAY, -HOUR, HOUR, DAY, YEAR])),
        st.tuples(st.just("rotate"), st.just(0)),
        st.tuples(st.just("retire"), st.integers(0, 3)),
    ),
    min_size=10,
    max_size=60,
)


@given(STEPS)
@settings(deadline=None, derandomize=True, max_examples=80)
def test_whatever_clocks_do_a_key_that_was_handed_out_is_kept(steps):
    """A device seals with a key it was handed; for the expired period at least, it is accepted.

    Each jump of the clock may cost a day, and no more, however far it goes.
    """
    model = Model()
    schedule = model.ring.schedule
    handed, jumps = {}, 0
    for step, amount in steps:
        model.act(step, amount)
        jumps += step == "jump"
        model_holds(model)
        for key in model.ring.keys:
            if key.state is ACTIVE:
                handed[key.number] = (model.true, jumps)
        for number, (when, before) in handed.items():
            age = model.true - when + (jumps - before) * schedule.believed
            if age < schedule.expired - schedule.closing:
                assert model.accepts(number), (number, age)


def model_holds(model):
    """What is true at every moment."""
    keys = model.ring.keys
    assert ACTIVE in {key.state for key in keys}
    numbers = [key.number for key in keys]
    assert numbers == sorted(set(numbers))
    assert model.ring.unused > max(numbers)
    assert not set(numbers) & set(model.deleted)
    for key in keys:
        assert key.created <= key.active_from <= key.expires_at <= key.deletes_at
    settled = rotation.settled(model.ring, model.now)
    assert rotation.settled(settled, model.now) == settled
