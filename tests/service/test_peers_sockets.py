"""The same protocol on loopback sockets, with real sealing, crashes and intruders."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peers_kit import circulant, counts, telling, walked
from shoal.errors import InvalidArgumentError
from shoal.sealing import KeyPair, MalformedError
from shoal.service.peers import Conditions, Directory, PeerSurvey
from shoal.service.peers.machine import Send, Task
from shoal.service.peers.run import Run
from shoal.service.peers.sockets import (
    Connections,
    Dialer,
    Host,
    Listener,
    RemoteHost,
    framed,
    read_frame,
)
from shoal.service.peers.survey import SERVER, Step, adjacency

run = partial(walked, transport="sockets")


def test_many_peers_on_sockets():
    seen = []
    outcome = run(
        60,
        PeerSurvey(rounds=16, submission_rounds=4),
        offline=0.2,
        seed=1,
        tap=lambda sender, to, frame: seen.append((sender, to, frame)),
    )
    assert outcome.arrived >= 59
    assert counts(outcome.batch, 60).max() == 1
    assert outcome.duplicates == outcome.rejected == 0
    assert sum(outcome.loads) == 60
    frames = [frame for _, _, frame in seen]
    assert len(frames) == 2 * (outcome.moves + outcome.arrived)
    assert len(set(frames)) == len({frame[2:34] for frame in frames}) == len(frames)
    for at_server in (False, True):
        sizes = {len(frame) for a, b, frame in seen if (SERVER in (a, b)) == at_server}
        assert len(sizes) == 1


def test_sockets_and_memory_agree():
    """A simulation's choices do not depend on what carries the bytes."""
    survey = PeerSurvey(rounds=8)
    on_sockets = run(30, survey, offline=0.2, seed=2)
    in_memory = run(30, survey, offline=0.2, seed=2, transport="memory")
    assert on_sockets.loads == in_memory.loads
    assert on_sockets.moves == in_memory.moves
    assert on_sockets.survey != in_memory.survey  # other keys, another name


def test_an_onion_on_sockets():
    outcome = run(40, PeerSurvey(rounds=16, mode="onion", hops=6), offline=0.1, seed=3)
    assert outcome.arrived >= 38
    assert counts(outcome.batch, 40).max() == 1
    assert outcome.moves <= 40 * 6


def test_cover_on_sockets_keeps_every_link_equally_busy():
    n, rounds = 12, 4
    links = Counter()
    outcome = run(
        n,
        PeerSurvey(rounds=rounds, cover=1),
        tap=lambda sender, to, _frame: links.update([(sender, to)]),
    )
    assert outcome.arrived == n
    between = {link: number for link, number in links.items() if SERVER not in link}
    assert between == {(a, b): 2 * rounds for a in range(n) for b in circulant(n)[a]}


def test_nobody_needs_a_seed():
    outcome = run(10, PeerSurvey(rounds=3, submit="single"), offline=0.0)
    assert outcome.arrived == 10


def test_the_killed_cost_no_more_than_they_held():
    n = 40
    for seed in range(3):
        outcome = run(n, PeerSurvey(rounds=8), seed=seed, killed={2: [0, 7], 4: [8, 20, 33]})
        assert 0 < outcome.killed < n
        assert n - outcome.killed <= outcome.arrived <= n
        assert counts(outcome.batch, n).max() == 1
        assert sum(outcome.standings[number].load for number in (0, 7, 8, 20, 33)) == 0


def test_several_processes():
    survey = PeerSurvey(rounds=6)
    apart = run(24, survey, offline=0.1, seed=4, processes=2)
    assert apart.loads == run(24, survey, offline=0.1, seed=4, transport="memory").loads
    assert counts(apart.batch, 24).max() == 1
    assert apart.arrived >= 23


class Mortal(RemoteHost):
    """A process that dies in the third round."""

    async def do(self, name, *arguments):
        answer = await super().do(name, *arguments)
        if name == "begin" and arguments[0].number == 3:
            self.kill()
        return answer


def test_a_process_that_dies_takes_its_own_reports_only():
    n = 24
    conditions = Conditions(seed=5, processes=2)
    task = Task(PeerSurvey(rounds=6), telling(n), conditions)
    values = np.arange(n)
    whole = Run(task, values, adjacency(circulant(n)))
    dying = Mortal(task, {number: values[number] for number in range(4)})
    living = Host(task, {number: values[number] for number in range(4, n)})
    outcome = asyncio.run(whole.on_sockets([dying, living]))
    assert n - 14 <= outcome.arrived < n
    assert counts(outcome.batch, n).max() == 1
    assert outcome.loads[:4] == (0, 0, 0, 0)
    # Everything that the living hold at the end of the walk arrives.
    assert outcome.arrived == sum(outcome.loads[4:])


def test_an_error_in_another_process_is_raised_here():
    with pytest.raises(InvalidArgumentError, match="answers 0"):
        run(4, PeerSurvey(rounds=1), values=[0, 1, 99, 1], graph=circulant(4, 1), processes=2)


class Failing:
    """A host that fails as soon as it is spoken to."""

    async def do(self, name, *arguments):
        raise OSError(name, arguments)

    async def close(self):
        pass


class Endless:
    """A host that never answers; what happened to it, in order."""

    def __init__(self):
        self.events = []

    async def do(self, name, *arguments):
        del arguments
        self.events.append(name)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # what it cleans up takes a moment
            self.events.append("over")

    async def close(self):
        self.events.append("close")


def small(n=4, **conditions):
    task = Task(PeerSurvey(rounds=1), telling(n), Conditions(**conditions))
    return Run(task, np.arange(n), adjacency(circulant(n, 1)))


@pytest.mark.parametrize("order", [1, -1])
def test_when_a_host_fails_the_others_are_over_before_they_are_closed(order):
    endless = Endless()
    with pytest.raises(OSError, match="open"):
        asyncio.run(small().on_sockets([endless, Failing()][::order]))
    assert endless.events == ["open", "over", "close"]


def test_all_hosts_are_closed_even_if_closing_one_fails():
    class Stuck(Failing):
        async def close(self):
            raise ValueError

    endless = Endless()
    with pytest.raises(ValueError, match=r"^$"):
        asyncio.run(small().on_sockets([Stuck(), endless, Stuck()]))
    assert endless.events[-1] == "close"


class OneReader:
    """A pipe to a process whose answers take their time, and how many read from it at once."""

    def __init__(self, connection):
        self._connection = connection
        self._crowded = threading.Event()
        self.read = threading.Event()
        self.readers, self.most = 0, 0
        self.send, self.close = connection.send, connection.close

    def recv(self):
        self.readers += 1
        self.most = max(self.most, self.readers)
        if self.readers > 1:
            self._crowded.set()
        self.read.set()
        self._crowded.wait(0.3)
        try:
            return self._connection.recv()
        finally:
            self.readers -= 1


def test_an_answer_that_nobody_waits_for_is_read_before_the_next_question():
    task = Task(PeerSurvey(rounds=1), telling(2), Conditions())

    async def cancel():
        host = RemoteHost(task, {0: 0, 1: 1})
        pipe = host._connection = OneReader(host._connection)
        waiting = asyncio.create_task(host.do("open"))
        await asyncio.to_thread(pipe.read.wait)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert waiting.cancelled()
        assert await host.do("standings") == {}
        closing = asyncio.create_task(host.do("standings"))
        await asyncio.sleep(0)
        closing.cancel()
        await host.close()
        return pipe.most, host

    most, host = asyncio.run(cancel())
    assert most == 1
    with pytest.raises(ValueError, match="closed"):
        host._process.is_alive()


def test_a_process_that_owes_an_answer_is_closed_after_it():
    """One host fails while another one has not answered: no thread is left to read its pipe."""
    run = small(processes=2)
    remote = RemoteHost(run.task, {0: 0, 1: 1})
    pipe = remote._connection = OneReader(remote._connection)

    class Late(Failing):
        async def do(self, name, *arguments):
            await asyncio.to_thread(pipe.read.wait)
            return await super().do(name, *arguments)

    with pytest.raises(OSError, match="open"):
        asyncio.run(run.on_sockets([remote, Late()]))
    assert pipe.most == 1


class Echo:
    def receive(self, sealed):
        return bytes(reversed(sealed))


class Silent:
    def receive(self, sealed):
        del sealed


def dialing(addresses, deadline=60.0):
    return Dialer(addresses, deadline, asyncio.Semaphore(8))


def conversation(machine, frames, *, deadline=60.0, size=4, port=None):
    """What a sender hears, and whether it believes that nothing reached the other."""

    async def talk():
        listener, heard = Listener(Connections(60.0)), []
        address = await listener.open()
        if machine is not None:
            listener.admit(machine, size)
        dialer = dialing({1: ("127.0.0.1", port) if port else address}, deadline)
        sends = [Send(1, frame) for frame in frames]
        unreached = await dialer.deliver(0, sends, heard.append)
        listener.close()
        await asyncio.sleep(0)
        return heard, unreached

    return asyncio.run(talk())


def test_an_answered_conversation():
    assert conversation(Echo(), [b"abcd", b"wxyz"]) == ([b"dcba", b"zyxw"], [])


def test_nobody_in_means_nothing_said():
    assert conversation(None, [b"abcd"]) == ([], [1])
    assert conversation(None, [b"abcd"], port=1) == ([], [1])  # nobody even listens


def test_no_answer_is_not_absence():
    # Whether the greeting comes before a short deadline is up to the machine.
    assert any(
        conversation(Silent(), [b"abcd"], deadline=deadline) == ([], [])
        for deadline in (0.3, 3, 60)
    )
    assert conversation(Echo(), [b"too long"]) == ([], [])  # dropped for its size, after greeting


def test_intruders_are_dropped_and_nobody_else_notices():
    async def intrude():
        listener = Listener(Connections(60.0))
        address = await listener.open()
        listener.admit(Echo(), 4)
        for junk in (b"\xff" * 8, framed(b"wrong size"), b"\x00\x00\x00\x00"):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(junk)
            assert await reader.read(4) == framed(b"")
            assert await reader.read() == b""
            writer.close()
        reader, writer = await asyncio.open_connection(*address)
        writer.write(framed(b"ab")[:5])  # a frame that never ends
        heard = []
        await dialing({1: address}).deliver(0, [Send(1, b"abcd")], heard.append)
        writer.close()
        listener.close()
        await asyncio.sleep(0)
        return heard

    assert asyncio.run(intrude()) == [b"dcba"]


def test_a_failure_to_hear_ends_all_conversations():
    async def fail():
        connections = Connections(60.0)
        echo, silent = Listener(connections), Listener(connections)
        addresses = {1: await echo.open(), 2: await silent.open()}
        echo.admit(Echo(), 4)
        silent.admit(Silent(), 4)
        sends = [Send(1, b"abcd"), Send(2, b"abcd")]
        with pytest.raises(ZeroDivisionError):
            await dialing(addresses).deliver(0, sends, lambda _: 1 / 0)
        left = [task.get_coro().__qualname__ for task in asyncio.all_tasks()]
        echo.close()
        silent.close()
        await asyncio.sleep(0)
        return left

    assert not [name for name in asyncio.run(fail()) if name.startswith("Dialer.")]


@pytest.mark.parametrize("phase", ["exchange", "submit"])
def test_a_delivery_that_fails_ends_the_others_of_its_host(phase):
    over = []

    class Waiting:
        async def deliver(self, number, sends, hear):
            del sends, hear
            if number == 1:
                raise ZeroDivisionError
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                over.append(number)

    async def fail():
        host, run = Host(small().task, dict.fromkeys(range(3), 0)), small(3)
        public = await host.open()
        collector = run._collector({number: key for number, (_, key) in public.items()})
        await host.join(collector.directory, {})
        host._dialer = Waiting()
        step = Step(1, frozenset(), frozenset())
        await host.begin(step)
        try:
            with pytest.raises(ZeroDivisionError):
                await getattr(host, phase)(step)
            return sorted(over)
        finally:
            await host.close()

    assert asyncio.run(fail()) == [0, 2]


def connected(use, *, machine=None, **bounds):
    """What comes of using a listener with small bounds."""

    async def talk():
        listener = Listener(Connections(**{"deadline": 60.0, **bounds}))
        address = await listener.open()
        listener.admit(machine or Echo(), 4)
        try:
            return await use(address)
        finally:
            listener.close()
            await asyncio.sleep(0)

    return asyncio.run(talk())


async def greeted(address):
    reader, writer = await asyncio.open_connection(*address)
    assert await reader.readexactly(4) == framed(b"")
    return reader, writer


async def answered(reader, writer):
    writer.write(framed(b"abcd"))
    return await reader.readexactly(8) == framed(b"dcba")


def test_a_silent_connection_ends_at_its_deadline():
    async def wait(address):
        reader, writer = await greeted(address)
        with contextlib.closing(writer):
            return await asyncio.wait_for(reader.read(), timeout=60)

    assert connected(wait, deadline=0.05) == b""


def test_talking_on_and_on_does_not_prolong_a_connection():
    async def talk(address):
        reader, writer = await greeted(address)
        with contextlib.closing(writer), contextlib.suppress(EOFError, ConnectionError):
            while await answered(reader, writer):
                pass
        return True

    assert connected(talk, deadline=0.05)


def test_when_there_are_too_many_the_longest_silent_one_makes_room():
    async def crowd(address):
        first, second, third = [await greeted(address) for _ in range(3)]
        assert await answered(*first)  # so that the second is silent longest
        fourth = await greeted(address)
        assert await asyncio.wait_for(second[0].read(), timeout=60) == b""
        assert [await answered(*each) for each in (first, third, fourth)] == [True] * 3
        for _, writer in (first, second, third, fourth):
            writer.close()
        return True

    assert connected(crowd, most=3)


def test_those_who_say_nothing_do_not_keep_others_out():
    """More of them than a listener takes: whoever follows the protocol is answered."""
    silent = []

    async def crowd(address):
        for _ in range(3):
            silent.extend([await greeted(address) for _ in range(10)])
            heard = []
            unreached = await dialing({1: address}).deliver(0, [Send(1, b"abcd")], heard.append)
            assert (heard, unreached) == ([b"dcba"], [])
        for reader, _ in silent[:-4]:
            assert await reader.read() == b""
        for _, writer in silent:
            writer.close()
        return True

    assert connected(crowd, most=4)


def test_listeners_of_one_process_share_its_room():
    async def talk():
        connections = Connections(60.0, most=2)
        one, other = Listener(connections), Listener(connections)
        addresses = [await one.open(), await other.open()]
        for listener in (one, other):
            listener.admit(Echo(), 4)
        first, second = await greeted(addresses[0]), await greeted(addresses[0])
        third = await greeted(addresses[1])
        assert await first[0].read() == b""
        assert await answered(*second)
        one.close()  # and the others' connections go on
        assert await second[0].read() == b""
        assert await answered(*third)
        other.close()
        for _, writer in (first, second, third):
            writer.close()
        await asyncio.sleep(0)

    asyncio.run(talk())


@pytest.mark.parametrize("processes", [1, 2, 3, 1000])
def test_peers_that_follow_the_protocol_never_fill_the_room(processes):
    async def slots():
        host = Host(Task(PeerSurvey(rounds=1), telling(2), Conditions(processes=processes)), {})
        await host.join(Directory((), (), KeyPair.generate().public), {})
        return host._dialer.slots._value

    assert 1 <= asyncio.run(slots()) <= max(1, 256 // processes)


def payloads_of(pieces, lengths):
    """What is read of a stream that comes in these pieces, and ends."""

    async def read():
        stream, got = asyncio.StreamReader(), []
        for piece in pieces:
            stream.feed_data(piece)
        stream.feed_eof()
        while True:
            try:
                got.append(await read_frame(stream, lengths))
            except EOFError:
                return got

    return asyncio.run(read())


@given(st.lists(st.sampled_from([b"", b"abc", b"defgh"]), max_size=8), st.data())
def test_a_stream_may_come_in_any_pieces(payloads, data):
    stream = b"".join(framed(payload) for payload in payloads)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = zip([0, *cuts], [*cuts, len(stream)], strict=True)
    assert payloads_of([stream[a:b] for a, b in pieces], {0, 3, 5}) == payloads


@given(st.lists(st.binary(max_size=12), max_size=10))
def test_arbitrary_streams_raise_nothing_else(pieces):
    with contextlib.suppress(MalformedError):
        assert all(len(payload) == 2 for payload in payloads_of(pieces, {2}))


def test_a_length_is_refused_before_its_bytes_arrive():
    async def read():
        stream = asyncio.StreamReader()
        stream.feed_data(b"\xff\xff\xff\xff")
        await asyncio.wait_for(read_frame(stream, {3}), timeout=60)

    with pytest.raises(
        MalformedError, match="frame of 4294967295 bytes is malformed: expected one of 3"
    ):
        asyncio.run(read())


def test_it_runs_where_an_event_loop_runs_already():
    async def notebook():
        return run(6, PeerSurvey(rounds=2), seed=0)

    assert asyncio.run(notebook()).arrived == 6


def test_arguments_are_checked():
    survey = PeerSurvey(rounds=2)
    with pytest.raises(InvalidArgumentError, match="one for each node"):
        run(3, survey, values=[0, 1], graph=circulant(3, 1))
    with pytest.raises(InvalidArgumentError, match="tap"):
        run(4, survey, processes=2, tap=lambda *_: None)
