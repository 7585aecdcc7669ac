from __future__ import annotations

import gc
import sys
from contextlib import ExitStack
from ipaddress import ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import InvalidArgumentError
from shoal.service.clock import ManualClock
from shoal.service.http.limits import Addresses, Bursts, Limits, Room
from shoal.service.http.problems import ProblemError

HERE, THERE = "203.0.113.7", "203.0.113.8"


def addresses(**limits):
    timer = ManualClock(1000.0)
    return Addresses(Limits(**limits), timer=timer), timer


def refused(buckets, address, tokens):
    with pytest.raises(ProblemError) as caught:
        buckets.charge(address, tokens)
    assert caught.value.problem.status == 429
    return caught.value.problem.retry_after


def test_a_burst_then_a_rate():
    buckets, timer = addresses(address_rate=10.0, address_burst=100)
    buckets.charge(HERE, 100)
    assert refused(buckets, HERE, 20) == 2
    timer.now += 2
    buckets.charge(HERE, 20)
    refused(buckets, HERE, 1)
    buckets.charge(THERE, 100)


def test_a_body_larger_than_the_burst_passes_a_full_bucket():
    buckets, timer = addresses(address_rate=10.0, address_burst=5)
    buckets.charge(HERE, 1000)
    assert refused(buckets, HERE, 1) == 100
    timer.now += 100
    buckets.charge(HERE, 1000)


@given(st.lists(st.tuples(st.integers(1, 50), st.floats(0, 5)), max_size=60))
def test_over_any_time_no_more_than_burst_and_rate(steps):
    buckets, timer = addresses(address_rate=10.0, address_burst=50)
    passed, began = 0, timer.now
    for tokens, pause in steps:
        timer.now += pause
        try:
            buckets.charge(HERE, tokens)
        except ProblemError as error:
            # Waiting as long as was said is enough.
            timer.now += error.problem.retry_after
            buckets.charge(HERE, tokens)
        passed += tokens
        assert passed <= 50 + 10 * (timer.now - began) + 1e-6


@pytest.mark.parametrize("address", [None, "127.0.0.1", "::1", "::ffff:127.0.0.1", "/run/s.sock"])
def test_this_machine_is_not_limited(address):
    buckets, _ = addresses(address_rate=1.0, address_burst=1)
    for _ in range(5):
        buckets.charge(address, 1000)


def test_a_household_is_one_address():
    buckets, _ = addresses(address_rate=1.0, address_burst=5)
    buckets.charge("2001:db8:0:1::1", 5)
    refused(buckets, "2001:db8:0:1:ffff::2", 1)
    buckets.charge("2001:db8:0:2::1", 5)
    buckets.charge("::ffff:203.0.113.7", 5)
    refused(buckets, HERE, 1)


def test_behind_a_proxy_nobody_is_limited_by_address():
    buckets, _ = addresses(address_rate=None, address_burst=1)
    for _ in range(5):
        buckets.charge(HERE, 1000)


def test_memory_is_bounded_and_forgotten_daily():
    buckets, timer = addresses(address_rate=1.0, address_burst=5, addresses=10)
    for last in range(100):
        buckets.charge(f"203.0.113.{last}", 5)
    assert len(buckets._missing) == 10
    refused(buckets, "203.0.113.99", 1)
    salt = buckets._salt
    timer.now += 86401
    buckets.charge(HERE, 1)
    assert len(buckets._missing) == 1
    assert buckets._salt != salt


def test_no_address_is_kept():
    buckets, _ = addresses(address_rate=1.0)
    buckets.charge(HERE, 1)
    held = [found for found in gc.get_referents(buckets._missing) if isinstance(found, bytes)]
    packed = bytes(int(part) for part in HERE.split("."))
    assert buckets._missing
    assert held
    assert all(HERE.encode() not in key and packed not in key for key in buckets._missing)
    assert all(HERE.encode() not in key for key in held)


def test_a_burst_from_one_network_is_told_when_the_hour_is_over():
    buckets, timer = addresses()
    bursts = Bursts(timer=timer)
    here, there = buckets.key(HERE), buckets.key(THERE)
    assert [bursts.count(here, 120), bursts.count(there, 40), bursts.count(None, 999)] == [None] * 3
    timer.now += 3599
    assert bursts.count(there, 40) is None
    timer.now += 1
    assert bursts.count(there, 10) == 0.5
    timer.now += 3600
    assert bursts.count(there, 1) == 0.0, "an hour of few reports says nothing"
    timer.now += 3600
    assert bursts.count(here, 5000) == 0.0
    timer.now += 3600
    assert bursts.count(here, 1) == 0.75, "whether somebody else came is not told"


def test_an_ipv6_customer_is_one_network_and_memory_is_bounded():
    buckets, timer = addresses()
    bursts = Bursts(most=3, timer=timer)
    for number in range(200):
        bursts.count(buckets.key(f"2001:db8:1:{number:x}::1"), 1)
    for number in range(100):
        bursts.count(buckets.key(f"2001:db8:{number + 2:x}::1"), 1)
    assert len(bursts._reports) == 3
    timer.now += 3600
    assert bursts.count(buckets.key(HERE), 1) == 0.5
    assert len(bursts._reports) == 1


SENDERS = (
    *(None, HERE, THERE, "2001:db8::2", "2001:db8:1::1"),
    *(f"2001:db8:0:{each:x}::1" for each in (*range(6), *range(0x100, 0x106))),  # of one customer
)
OURS = {  # for all together, and for one address
    "bytes": ("waiting_bytes", 40, 3),
    "requests": ("waiting_requests", 40, 4),
}
STEPS = st.tuples(st.integers(0, 40), st.sampled_from(SENDERS), st.sampled_from([0, 1, 2, 3]))


def networks_of(sender):
    """Those that a sender is in, each with how many times more it may have than an address."""
    if sender is None:
        return {}
    lengths = zip((32,) if ":" not in sender else (64, 56, 48), (1, 4, 16), strict=False)
    return {ip_network((sender, length), strict=False): scale for length, scale in lengths}


def fits(held, sender, kind, more):
    """Whether there is room for more, of all together and of each network of a sender's."""
    _, total, one = OURS[kind]
    everybody = sum(each[kind] for each in held.values())
    if everybody + more > total:
        return "busy"
    for network, scale in networks_of(sender).items():
        theirs = sum(each[kind] for each in held.values() if network in networks_of(each["of"]))
        if theirs + more > min(one * scale, max(one, total // 2)):
            return "too_many"
    return None


@settings(max_examples=200)
@given(st.lists(STEPS, max_size=80))
def test_room_is_for_everybody_and_each_network_has_its_part(steps):
    """A request counts from its first byte on, and until it ends, whatever happens to it."""
    total = {name: number for name, number, _ in OURS.values()}
    limits = Limits(**total, body_bytes=2, address_bytes=3, address_requests=4)
    room, (buckets, _), held, entered = Room(limits), addresses(), {}, {}
    with ExitStack() as stack:
        for number, whoever, length in steps:
            if number not in entered:
                context = room.entered(buckets.key(whoever))
                entered[number] = whoever, stack.enter_context(context)
            sender, hold = entered[number]
            before = held.get(number, {"of": sender, "bytes": 0, "requests": 0})
            first = not before["bytes"]
            kinds = [fits(held, sender, "bytes", length), fits(held, sender, "requests", first)]
            wrong = next((kind for kind in ("busy", "too_many") if kind in kinds), None)
            if not length or wrong is None:
                hold(length)
                grown = {"bytes": before["bytes"] + length, "requests": 1}
                held |= {number: before | grown} if length else {}
            else:
                with pytest.raises(ProblemError) as caught:
                    hold(length)
                problem = caught.value.problem
                assert (problem.kind, problem.close) == (wrong, True)
                assert problem.retry_after
            full = (sum(each[kind] for each in held.values()) / OURS[kind][1] for kind in OURS)
            assert room.share == max(full)
    assert room.share == 0
    assert not room._bytes_of._amounts
    assert not room._requests_of._amounts


def test_an_address_has_another_name_every_day():
    buckets, timer = addresses()
    here = buckets.key(HERE)
    assert here not in {None, buckets.key(THERE)}
    timer.now += 86401
    assert buckets.key(HERE) != here
    assert buckets.key("127.0.0.1") is None
    assert addresses(address_rate=None)[0].key(HERE) is None


def test_larger_networks_have_more_and_not_without_end():
    """65,536 addresses of one customer are no 65,536 customers."""
    buckets, _ = addresses(address_rate=1.0, address_burst=10)
    for last in range(4):
        buckets.charge(f"2001:db8:0:{last:x}::1", 10)  # one network of 56 bits
    refused(buckets, "2001:db8:0:5::1", 1)
    refused(buckets, "2001:db8:0:6::1", 1)  # whoever is refused has taken nothing
    for third in range(1, 4):
        for last in range(4):
            buckets.charge(f"2001:db8:0:{third:x}0{last:x}::1", 10)
    assert refused(buckets, "2001:db8:0:900::1", 5) == 1  # the network of 48 bits has 16 a second
    buckets.charge("2001:db8:1::1", 10)


def test_this_machine_is_limited_if_it_is_said():
    buckets, _ = addresses(address_rate=1.0, address_burst=5, limit_loopback=True)
    buckets.charge("127.0.0.2", 5)
    refused(buckets, "127.0.0.2", 1)
    buckets.charge("127.0.0.3", 5)
    buckets.charge("::1", 5)
    refused(buckets, "::1", 1)


@pytest.mark.parametrize("wrong", [{"body_bytes": 0}, {"address_rate": 0}, {"body_seconds": -1}])
def test_limits_are_checked(wrong):
    with pytest.raises(InvalidArgumentError):
        Limits(**wrong)


def test_one_bucket_is_small():
    buckets, _ = addresses()
    buckets.charge(HERE, 1)
    ((key, value),) = buckets._missing.items()
    assert sys.getsizeof(key) + sys.getsizeof(value) < 200
