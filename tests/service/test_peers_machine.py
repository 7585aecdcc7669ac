"""One peer's rules: who draws, what stays, what is in doubt; nothing is lost, nothing doubled."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peers_kit import circulant, counts, free_sealing, swarm, telling, walked
from shoal.mechanisms.bits import UnaryEncoding
from shoal.mechanisms.hashing import LocalHashing
from shoal.randomness import simulated
from shoal.service.peers import Collector, MemoryNetwork, PeerSurvey
from shoal.service.peers.machine import wrap
from shoal.service.peers.survey import SERVER, Frame, Kind, Link

TRIANGLE = [[1, 2], [0, 2], [0, 1]]
PAIR = [[1], [0]]
SURVEYS = {
    "hop": PeerSurvey(rounds=6),
    "onion": PeerSurvey(rounds=6, mode="onion", hops=3),
    "covered": PeerSurvey(rounds=6, cover=1),
    "covered onion": PeerSurvey(rounds=6, mode="onion", hops=3, cover=2),
}


def network_of(graph, *, survey=None, seed=0, **wires):
    peers, server = swarm(graph, survey=survey, seed=seed)
    collector = Collector(pair=server, directory=peers[0].directory, wire=peers[0].wire)
    return MemoryNetwork(peers, collector, **wires), collector, peers


def collected(network, collector, n, *, first=100, rounds=1):
    for number in range(first, first + rounds):
        network.submit(number)
    return collector.collect(telling(n))


def test_a_report_changes_hands_when_it_is_acknowledged():
    (one, two), _ = swarm(PAIR)
    (send,) = one.begin(1, online=True)
    assert two.begin(1, online=True)[0].to == 0
    assert send.to == 1
    assert one.holding == two.holding == 1
    receipt = two.receive(send.frame)
    assert (one.holding, two.holding) == (1, 2)
    assert one.receive(receipt) is None
    assert (one.holding, two.holding, one.moves) == (0, 2, 1)


def test_nobody_moves_twice_in_a_round():
    network, _, _ = network_of(circulant(12, 2))
    for number in range(1, 5):
        network.walk(number)
        assert sum(peer.moves for peer in network.peers) == 12 * number


@pytest.mark.parametrize("mode", ["hop", "onion"])
def test_a_report_stays_when_either_end_is_away(mode):
    survey = PeerSurvey(rounds=4, mode=mode)
    network, _, _ = network_of(PAIR, survey=survey)
    network.walk(1, away={0})
    network.walk(2, away={1})
    network.walk(3, away={0, 1})
    assert [(peer.holding, peer.moves) for peer in network.peers] == [(1, 0), (1, 0)]
    network.walk(4)
    assert [(peer.holding, peer.moves) for peer in network.peers] == [(1, 1), (1, 1)]


def test_the_next_peer_is_drawn_among_all_neighbours(monkeypatch):
    """Half of them away: half of the reports stay. Whoever draws among those present never stays.

    Each count is binomial; the limits are six standard deviations.
    """
    free_sealing(monkeypatch)
    star = [[1, 2, 3, 4], [0], [0], [0], [0]]
    where = Counter()
    trials = 300
    for seed in range(trials):
        network, _, _ = network_of(star, seed=seed)
        before = {peer.number: peer.holding for peer in network.peers}
        network.walk(1, away={1, 2})
        loads = {peer.number: peer.holding - before[peer.number] for peer in network.peers}
        # Reports of 3 and 4 go to the middle; that of the middle stays, or goes to 3 or 4.
        assert loads[1] == loads[2] == 0
        where["stays"] += loads[0] == 2
        where[3] += loads[3] == 0
        where[4] += loads[4] == 0
    assert where["stays"] + where[3] + where[4] == trials
    for place, chance in (("stays", 1 / 2), (3, 1 / 4), (4, 1 / 4)):
        spread = np.sqrt(trials * chance * (1 - chance))
        assert abs(where[place] - trials * chance) < 6 * spread


def test_holders_follow_the_stationary_law(monkeypatch):
    """After a long walk with absences, loads are proportional to degrees (chi-square)."""
    free_sealing(monkeypatch)
    graph = [[1, 2, 3, 4, 5], [0, 2], [0, 1, 3], [0, 2], [0], [0]]
    degrees = np.array([len(row) for row in graph])
    loads = np.zeros(6)
    for seed in range(60):
        survey = PeerSurvey(rounds=40, submission_rounds=1)
        loads += walked(6, survey, graph=graph, offline=0.3, seed=seed).loads
    expected = loads.sum() * degrees / degrees.sum()
    assert loads.sum() == 360
    assert ((loads - expected) ** 2 / expected).sum() < 40  # 1.5e-7


def test_a_lost_receipt_leaves_the_sender_in_doubt_and_nothing_twice():
    (one, two), _ = swarm(PAIR)
    (send,) = one.begin(1, online=True)
    two.begin(1, online=True)
    assert two.receive(send.frame) is not None
    one.deadline()
    two.deadline()
    assert (one.holding, two.holding) == (1, 2)
    again = one.begin(2, online=True)
    two.begin(2, online=True)
    assert [each.to for each in again] == [1]
    assert again[0].frame != send.frame
    receipt = two.receive(again[0].frame)
    assert two.holding == 2
    one.receive(receipt)
    assert one.holding == 0


def test_doubt_outlasts_the_other_ones_absence():
    """Asked again, the same peer under the same token; drawing again could double the report."""
    for seed in range(8):
        peers, _ = swarm(TRIANGLE, seed=seed)
        one, wire = peers[0], peers[0].wire
        (send,) = one.begin(1, online=True)
        asked = {(send.to, Link(wire.hop, 1).open(send.frame, send.to, peers[send.to].pair).token)}
        one.deadline()
        for number in (2, 3):
            (again,) = one.begin(number, online=True)
            link, pair = Link(wire.hop, number), peers[again.to].pair
            asked.add((again.to, link.open(again.frame, again.to, pair).token))
            one.unreachable(again.to)
            one.deadline()
        assert len(asked) == one.holding == 1


def test_what_never_left_draws_again():
    drawn = Counter()
    for seed in range(40):
        (one, _, _), _ = swarm(TRIANGLE, seed=seed)
        (send,) = one.begin(1, online=True)
        one.unreachable(send.to)
        one.deadline()
        (again,) = one.begin(2, online=True)
        drawn[send.to == again.to] += 1
    assert min(drawn.values()) > 3  # of 40 fair coins


def test_the_order_of_frames_on_a_link_says_nothing(monkeypatch):
    """A report among cover is first, second or third with the same chance: six deviations."""
    free_sealing(monkeypatch)
    places_of_report = Counter()
    for seed in range(300):
        (one, two), _ = swarm(PAIR, survey=PeerSurvey(rounds=1, cover=3), seed=seed)
        link = Link(one.wire.hop, 1)
        sends = one.begin(1, online=True)
        kinds = [link.open(send.frame, 1, two.pair).kind for send in sends]
        places_of_report[kinds.index(Kind.REPORT)] += 1
    assert sorted(places_of_report) == [0, 1, 2]
    assert all(abs(n - 100) < 6 * np.sqrt(300 * 2 / 9) for n in places_of_report.values())


def test_a_layer_that_leads_off_the_graph_is_dropped():
    square = [[1, 3], [0, 2], [1, 3], [2, 0]]
    peers, _ = swarm(square, survey=PeerSurvey(rounds=2, mode="onion"))
    wire, directory = peers[0].wire, peers[0].directory
    link = Link(wire.hop, 1)
    report = wire.inner.seal(b"\x00", directory.server)
    peers[1].begin(1, online=True)
    for path, accepted in (([1, 2], 1), ([1, 3], 0), ([1, 1], 0), ([1], 1), ([2, 1], 0)):
        packet = wrap(report, path, directory.keys, survey=wire.survey)
        held = peers[1].holding
        frame = Frame(Kind.REPORT, 0, sha256(packet).digest()[:16], packet)
        assert peers[1].receive(link.seal(frame, 1, directory)) is not None
        assert peers[1].holding - held == accepted


def test_what_is_in_doubt_at_the_end_is_submitted_twice_and_counted_once():
    lost = []

    def loses(sender, to, frame):
        receipt_of_first = (sender, to) == (1, 0) and len(lost) < 1 and SERVER not in (sender, to)
        if receipt_of_first:
            lost.append(frame)
        return receipt_of_first

    # Peer 0 sends first, so the first frame from 1 to 0 is the receipt.
    network, collector, _ = network_of(PAIR, loses=loses)
    network.walk(1)
    assert sum(peer.holding for peer in network.peers) == 3
    result = collected(network, collector, 2)
    assert result.duplicates == 1
    assert counts(result.batch, 2).tolist() == [1, 1]


@pytest.mark.parametrize("kind", SURVEYS)
@given(st.data())
@settings(max_examples=8)
def test_nothing_is_lost_or_counted_twice_whatever_gets_lost(kind, data):
    """Frames and receipts vanish at will; with enough rounds to submit, everybody counts once."""
    coins = simulated(data.draw(st.integers(0, 10**6)))
    share = data.draw(st.sampled_from([0.1, 0.3, 0.6]))

    def loses(_sender, _to, _frame):
        return int(coins.below(1000, 1)[0]) < 1000 * share

    n = 6
    survey = SURVEYS[kind]
    with pytest.MonkeyPatch.context() as patched:
        free_sealing(patched)
        network, collector, _ = network_of(circulant(n, 2), survey=survey, loses=loses)
        for number in range(1, survey.rounds + 1):
            network.walk(number)
        stranded = sum(
            parcel.onward is not None
            for peer in network.peers
            for parcel in [*peer._held, *(transfer.parcel for transfer in peer._sent.values())]
        )
        result = collected(network, collector, n, rounds=60)
    arrived = counts(result.batch, n)
    assert arrived.max() <= 1
    assert result.rejected == 0
    assert n - stranded <= arrived.sum() <= n
    if survey.mode == "hop":
        assert arrived.tolist() == [1] * n


def test_the_killed_cost_what_they_held(monkeypatch):
    free_sealing(monkeypatch)
    n = 30
    survey = PeerSurvey(rounds=8)
    for seed in range(5):
        run = walked(n, survey, seed=seed, killed={3: [0, 1], 5: [2, 9, 17]})
        assert 0 < run.killed < n
        assert run.arrived == n - run.killed
        assert counts(run.batch, n).max() == 1
        assert [run.standings[number].load for number in (0, 1, 2, 9, 17)] == [0] * 5


def test_no_link_carries_plaintext_or_the_same_bytes_twice():
    """Every eight bytes on every link, report, receipt and cover alike, occur once."""
    n = 12
    randomizer = UnaryEncoding(k=128, epsilon=2.0)
    messages = []

    class Spying(UnaryEncoding):
        def encode(self, rows):
            encoded = super().encode(rows)
            messages.extend(row.tobytes() for row in encoded)
            return encoded

    spying = Spying(k=randomizer.k, epsilon=randomizer.epsilon)
    for survey in SURVEYS.values():
        frames = []
        who = {"values": np.arange(n) % 5, "randomizer": spying, "graph": circulant(n, 2)}
        walked(n, survey, **who, offline=0.2, tap=lambda *seen, kept=frames: kept.append(seen))
        hops = [frame for sender, to, frame in frames if SERVER not in (sender, to)]
        submissions = [frame for sender, to, frame in frames if SERVER in (sender, to)]
        assert len({len(frame) for frame in hops}) == 1
        assert len({len(frame) for frame in submissions}) == 1
        pieces = Counter(
            frame[start : start + 8] for _, _, frame in frames for start in range(2, len(frame) - 7)
        )
        assert max(pieces.values()) == 1
        for message in messages:
            assert not any(message[start : start + 8] in pieces for start in range(9))
        assert len(messages) == n
        messages.clear()


def test_the_sealed_report_itself_is_on_no_link():
    network, _, _ = network_of(circulant(6, 2), tap=lambda *seen: frames.append(seen[2]))
    frames = []
    reports = [parcel.payload for peer in network.peers for parcel in peer._held]
    for number in range(1, 5):
        network.walk(number)
    network.submit(5)
    assert len(frames) >= 2 * 6 * 5
    assert not any(report[2:10] in frame for report in reports for frame in frames)


@pytest.mark.parametrize("kind", ["covered", "covered onion"])
def test_with_cover_every_link_is_as_busy_as_every_other(kind):
    survey = SURVEYS[kind]
    seen = Counter()
    network, _, _ = network_of(
        circulant(10, 2), survey=survey, tap=lambda sender, to, _frame: seen.update([(sender, to)])
    )
    for number in range(1, survey.rounds + 1):
        away = {number, number + 3}
        network.walk(number, away=away)
        present = {*range(10)} - away
        links = {(a, b) for a in present for b in circulant(10, 2)[a] if b in present}
        # As many frames as cover says, and as many receipts for the other one's.
        assert dict(seen) == dict.fromkeys(links, 2 * survey.cover)
        seen.clear()


def test_what_does_not_fit_under_the_cover_waits():
    peers, _ = swarm([[1], [0]], survey=PeerSurvey(rounds=3, cover=1))
    one, two = peers
    for _ in range(4):
        one.keep(b"\x00")
    sends = one.begin(1, online=True)
    two.begin(1, online=True)
    assert len(sends) == 1
    one.receive(two.receive(sends[0].frame))
    one.deadline()
    assert (one.holding, one.moves) == (4, 1)


def test_more_doubts_than_cover_do_not_multiply():
    survey = PeerSurvey(rounds=9, cover=1)
    (one, two), _ = swarm([[1], [0]], survey=survey)
    one.keep(b"\x01")
    for number in (1, 2, 3):  # nothing is answered: the one report in doubt is said again
        two.begin(number, online=True)
        (send,) = one.begin(number, online=True)
        two.receive(send.frame)
        one.deadline()
        two.deadline()
    assert one.holding == 2
    assert two.holding == 2


def test_staying_is_a_step_where_one_is_ones_own_neighbour():
    for mode in ("hop", "onion"):
        survey = PeerSurvey(rounds=8, mode=mode)
        complete = [[0, 1, 2]] * 3
        network, collector, _ = network_of(complete, survey=survey, seed=4)
        for number in range(1, 9):
            network.walk(number)
        assert 0 < sum(peer.moves for peer in network.peers) < 24
        assert counts(collected(network, collector, 3).batch, 3).tolist() == [1, 1, 1]


def test_single_submission_is_one_each_with_dummies():
    n = 40
    survey = PeerSurvey(rounds=10, submit="single", default=7, submission_rounds=3)
    run = walked(n, survey, values=np.full(n, 3), seed=1)
    empty = sum(load == 0 for load in run.loads)
    assert 5 < empty < 30
    assert run.arrived == n
    assert counts(run.batch, n)[[3, 7]].tolist() == [n - empty, empty]


@pytest.mark.parametrize("submit", ["all", "single"])
def test_a_holder_submits_in_random_order_or_a_uniform_one(monkeypatch, submit):
    free_sealing(monkeypatch)
    first = Counter()
    survey = PeerSurvey(rounds=1, submit=submit)
    for seed in range(300):
        (one, _), server = swarm(PAIR, survey=survey, seed=seed)
        one.keep(b"\x01")
        one.keep(b"\x01")
        collector = Collector(pair=server, directory=one.directory, wire=one.wire)
        order = [parcel.payload for parcel in one._held]
        link = Link(one.wire.submission, 2)
        sends = one.submit(2, online=True)
        opened = [link.open(send.frame, SERVER, server).payload for send in sends]
        assert sorted(opened) == sorted(order) or (submit == "single" and len(opened) == 1)
        first[order.index(opened[0])] += 1
        collector.begin(2)
        for send in sends:
            one.receive(collector.receive(send.frame))
        assert one.holding == 0
    # Each is first with chance 1/3: six standard deviations.
    assert len(first) == 3
    assert all(abs(number - 100) < 6 * np.sqrt(300 * 2 / 9) for number in first.values())


def test_who_was_away_submits_later():
    network, collector, _ = network_of(TRIANGLE)
    network.submit(10, away={1, 2})
    network.submit(11, away={1})
    assert [peer.holding for peer in network.peers] == [0, 1, 0]
    network.submit(12)
    result = collector.collect(telling(3))
    assert counts(result.batch, 3).tolist() == [1, 1, 1]
    assert result.duplicates == 0


def test_the_server_gives_no_order_away():
    """Messages come in the order of digests of sealed reports, whoever submitted them when."""
    orders = set()
    for seed in range(12):
        network, collector, _ = network_of(TRIANGLE, seed=seed)
        orders.add(tuple(collected(network, collector, 3).batch.messages.tolist()))
    assert len(orders) > 2


def test_frames_that_are_not_for_us_have_no_answer():
    (one, two, three), _ = swarm(TRIANGLE)
    (send,) = one.begin(1, online=True)
    assert two.receive(send.frame) is None  # no round
    two.begin(2, online=True)
    assert two.receive(send.frame) is None  # another round
    two.begin(1, online=False)
    assert two.receive(send.frame) is None  # away
    for peer in (two, three):
        peer.begin(1, online=True)
    other = three if send.to == 1 else two
    assert other.receive(send.frame) is None  # another addressee
    assert two.holding == three.holding == 1


def test_strangers_and_forged_receipts_change_nothing():
    square = [[1, 3], [0, 2], [1, 3], [2, 0]]
    peers, _ = swarm(square)
    link, directory = Link(peers[0].wire.hop, 1), peers[0].directory
    (send,) = peers[0].begin(1, online=True)
    stranger = Frame(Kind.REPORT, 2, bytes(16), bytes(peers[0].wire.inner.size))
    assert peers[0].receive(link.seal(stranger, 0, directory)) is None
    for sender in (1, 3):
        forged = Frame(Kind.RECEIPT, sender, bytes(16))
        assert peers[0].receive(link.seal(forged, 0, directory)) is None
    heard = link.open(send.frame, send.to, peers[send.to].pair)
    wrong = Frame(Kind.RECEIPT, 4 - send.to, heard.token)  # the other neighbour's word
    peers[0].receive(link.seal(wrong, 0, directory))
    assert peers[0].holding == 1


@given(st.binary(max_size=400))
def test_arbitrary_frames_have_no_answer(data):
    peer, collector = FUZZED["peer"], FUZZED["collector"]
    peer.begin(1, online=True)
    collector.begin(1)
    assert peer.receive(data) is None
    assert collector.receive(data) is None


@given(st.binary(max_size=200))
def test_arbitrary_content_of_genuine_envelopes_does_no_harm(data):
    """Whoever knows a peer's key can say anything to it."""
    for (one, _), server in (FUZZED["hop"], FUZZED["onion"]):
        wire, directory = one.wire, one.directory
        collector = Collector(pair=server, directory=directory, wire=wire)
        one.begin(1, online=True)
        collector.begin(1)
        for envelope, machine, to in ((wire.hop, one, 0), (wire.submission, collector, SERVER)):
            details = (1).to_bytes(4, "big") + to.to_bytes(4, "big")
            for content in (data, b"\x01\x00\x00\x00\x01" + data, b"\x02\x00\x00\x00\x01" + data):
                fitting = content[: envelope.capacity]
                answer = machine.receive(envelope.seal(fitting, directory.key(to), details=details))
                assert answer is None or len(answer) == envelope.size
        one.deadline()
        result = collector.collect(telling(2))
        assert len(result.batch) == 0


FUZZED = {
    "hop": swarm(PAIR),
    "onion": swarm(PAIR, survey=PeerSurvey(rounds=2, mode="onion")),
}
FUZZED["peer"] = FUZZED["hop"][0][1]
FUZZED["collector"] = network_of(PAIR)[1]


def test_reports_without_a_message_are_left_out_and_counted():
    n = 3
    network, collector, peers = network_of(TRIANGLE)
    wire, directory = peers[0].wire, peers[0].directory
    link = Link(wire.submission, 50)
    collector.begin(50)
    bad = [
        bytes(wire.inner.size),
        wire.inner.seal(b"", directory.server),
        wire.inner.seal(b"\x03", directory.server),  # no answer of three
        wire.inner.seal(b"\x00", directory.keys[1]),
    ]
    for number, payload in enumerate(bad):
        token = sha256(payload).digest()[:16]
        frame = Frame(Kind.REPORT, number % n, token, payload)
        assert collector.receive(link.seal(frame, SERVER, directory)) is not None
    result = collected(network, collector, n)
    assert result.rejected == 4
    assert counts(result.batch, n).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "randomizer", [UnaryEncoding(k=20, epsilon=2.0), LocalHashing(k=20, epsilon=2.0)]
)
def test_any_randomizer_with_one_message_can_walk(randomizer):
    n = 20
    run = walked(n, PeerSurvey(rounds=3), values=np.arange(n) % 4, randomizer=randomizer)
    assert run.arrived == n
    assert randomizer.estimate(run.batch).frequencies.shape == (20,)
