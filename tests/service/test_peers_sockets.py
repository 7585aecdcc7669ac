"""The same protocol on loopback sockets, with real sealing, crashes and intruders."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peers_kit import circulant, counts, telling
from shoal.errors import InvalidArgumentError
from shoal.sealing import FramingError
from shoal.service.peers import Conditions, PeerSurvey, run_peers
from shoal.service.peers.machine import Send, Task
from shoal.service.peers.run import Run
from shoal.service.peers.sockets import Dialer, Host, Listener, RemoteHost, framed, read_frame
from shoal.service.peers.survey import SERVER, adjacency


def run(n, survey, *, tap=None, **conditions):
    return run_peers(
        np.arange(n),
        randomizer=telling(n),
        graph=circulant(n),
        survey=survey,
        conditions=Conditions(**conditions),
        tap=tap,
    )


def test_a_hundred_peers_on_sockets():
    seen = []
    outcome = run(
        100,
        PeerSurvey(rounds=16, submission_rounds=4),
        offline=0.2,
        seed=1,
        tap=lambda sender, to, frame: seen.append((sender, to, frame)),
    )
    assert outcome.arrived >= 99
    assert counts(outcome.batch, 100).max() == 1
    assert outcome.duplicates == outcome.rejected == 0
    assert sum(outcome.loads) == 100
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
        run_peers(
            [0, 1, 99, 1],
            randomizer=telling(4),
            graph=circulant(4, 1),
            survey=PeerSurvey(rounds=1),
            conditions=Conditions(processes=2),
        )


class Echo:
    def receive(self, sealed):
        return bytes(reversed(sealed))


class Silent:
    def receive(self, sealed):
        del sealed


def conversation(machine, frames, *, deadline=60.0, size=4, port=None):
    """What a sender hears, and whether it believes that nothing reached the other."""

    async def talk():
        listener, heard = Listener(), []
        address = await listener.open()
        if machine is not None:
            listener.admit(machine, size)
        dialer = Dialer({1: ("127.0.0.1", port) if port else address}, deadline)
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
        listener = Listener()
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
        await Dialer({1: address}, 60.0).deliver(0, [Send(1, b"abcd")], heard.append)
        writer.close()
        listener.close()
        await asyncio.sleep(0)
        return heard

    assert asyncio.run(intrude()) == [b"dcba"]


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
    with contextlib.suppress(FramingError):
        assert all(len(payload) == 2 for payload in payloads_of(pieces, {2}))


def test_a_length_is_refused_before_its_bytes_arrive():
    async def read():
        stream = asyncio.StreamReader()
        stream.feed_data(b"\xff\xff\xff\xff")
        await asyncio.wait_for(read_frame(stream, {3}), timeout=60)

    with pytest.raises(FramingError, match="frame of 3 bytes, got 4294967295"):
        asyncio.run(read())


def test_it_runs_where_an_event_loop_runs_already():
    async def notebook():
        return run(6, PeerSurvey(rounds=2), seed=0)

    assert asyncio.run(notebook()).arrived == 6


def test_arguments_are_checked():
    survey = PeerSurvey(rounds=2)
    with pytest.raises(InvalidArgumentError, match="one for each node"):
        run_peers([0, 1], randomizer=telling(3), graph=circulant(3, 1), survey=survey)
    with pytest.raises(InvalidArgumentError, match="tap"):
        run(4, survey, processes=2, tap=lambda *_: None)
