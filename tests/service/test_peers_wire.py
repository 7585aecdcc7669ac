"""What travels: frames, layers, the public list and the settings everybody must share."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peers_kit import circulant, telling
from shoal.errors import InvalidArgumentError
from shoal.mechanisms.response import RandomizedResponse
from shoal.network.graph import Graph
from shoal.sealing import KeyPair, NotOpenableError, SurveyId
from shoal.service.peers import Conditions, Directory, PeerSurvey, adjacency
from shoal.service.peers.machine import HOME, peel, wrap
from shoal.service.peers.survey import LAYER_BYTES, SERVER, Frame, Kind, Link, Wire

SURVEY = SurveyId.of({"name": "walk"})
PAIRS = [KeyPair.from_secret(bytes([1 + number] * 32)) for number in range(6)]
KEYS = [pair.public for pair in PAIRS]
RR = RandomizedResponse(k=4, epsilon=1.0)


def directory(n=4):
    return Directory(tuple(KEYS[:n]), adjacency(circulant(n, 1)), KEYS[5])


@given(
    st.sampled_from(Kind),
    st.integers(0, SERVER),
    st.binary(min_size=16, max_size=16),
    st.binary(max_size=40),
)
def test_frames_read_back(kind, sender, token, payload):
    frame = Frame(kind, sender, token, payload)
    assert Frame.from_bytes(frame.to_bytes()) == frame
    assert frame.receipt(3) == Frame(Kind.RECEIPT, 3, token)


@given(st.binary(max_size=60))
def test_reading_arbitrary_frames_raises_nothing_else(data):
    try:
        frame = Frame.from_bytes(data)
    except NotOpenableError:
        assert len(data) < 21 or data[0] > 2
    else:
        assert frame.to_bytes() == data


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.binary(min_size=5, max_size=30))
@settings(max_examples=20)
def test_a_path_is_peeled_peer_by_peer(path, report):
    packet = wrap(report, path, KEYS, survey=SURVEY)
    for done, (number, following) in enumerate(zip(path, [*path[1:], HOME], strict=True)):
        assert len(packet) == len(report) + LAYER_BYTES * (len(path) - done)
        for other in {*range(6)} - {number}:
            with pytest.raises(NotOpenableError):
                peel(packet, other, PAIRS[other], survey=SURVEY)
        onward, packet = peel(packet, number, PAIRS[number], survey=SURVEY)
        assert onward == following
    assert packet == report


def test_what_goes_in_and_what_comes_out_have_nothing_in_common():
    def pieces(data):
        return {data[start : start + 8] for start in range(len(data) - 7)}

    path = [0, 1, 2, 3]
    seen = [wrap(bytes(100), path, KEYS, survey=SURVEY)]
    for number in path:
        seen.append(peel(seen[-1], number, PAIRS[number], survey=SURVEY)[1])
    for first in range(len(seen)):
        for second in range(first + 1, len(seen)):
            assert not pieces(seen[first]) & pieces(seen[second])


def test_layers_belong_to_their_survey():
    packet = wrap(b"report", [0], KEYS, survey=SURVEY)
    with pytest.raises(NotOpenableError):
        peel(packet, 0, PAIRS[0], survey=SurveyId.of({"name": "other"}))


@given(st.binary(max_size=120))
def test_peeling_arbitrary_bytes_raises_nothing_else(data):
    with pytest.raises(NotOpenableError):
        peel(data, 0, PAIRS[0], survey=SURVEY)


@pytest.mark.parametrize(("round_number", "to"), [(4, 0), (3, 1)])
def test_a_frame_is_for_one_peer_in_one_round(round_number, to):
    wire = PeerSurvey(rounds=9).wire(RR, directory())
    sealed = Link(wire.hop, 3).seal(Frame(Kind.COVER, 1, bytes(16)), 0, directory())
    assert Link(wire.hop, 3).open(sealed, 0, PAIRS[0]).sender == 1
    with pytest.raises(NotOpenableError):
        Link(wire.hop, round_number).open(sealed, to, PAIRS[to])


def test_every_frame_of_a_link_has_one_size():
    for survey in (PeerSurvey(rounds=5), PeerSurvey(rounds=5, mode="onion")):
        wire = survey.wire(RR, directory())
        link = Link(wire.hop, 1)
        payload = bytes(wire.inner.size + survey.layers * LAYER_BYTES)
        frames = [
            Frame(Kind.COVER, 1, bytes(16)),
            Frame(Kind.RECEIPT, 1, bytes(16)),
            Frame(Kind.REPORT, 1, bytes(16), payload),
            Frame(Kind.REPORT, 1, bytes(16), payload[LAYER_BYTES:]),
        ]
        assert {len(link.seal(frame, 0, directory())) for frame in frames} == {wire.hop.size}


def test_whoever_disagrees_on_anything_opens_nothing():
    """The settings, the randomizer and the list are in the survey's name."""
    base = PeerSurvey(rounds=5)
    names = {
        base.wire(RR, directory()).survey,
        base.wire(replace(RR, epsilon=1.1), directory()).survey,
        base.wire(replace(RR, k=5), directory()).survey,
        base.wire(RR, directory(5)).survey,
        base.wire(RR, replace(directory(), server=KEYS[4])).survey,
        base.wire(RR, replace(directory(), keys=(*KEYS[:3], KEYS[4]))).survey,
        base.wire(RR, replace(directory(), neighbours=adjacency([[1], [0], [3], [2]]))).survey,
        *(
            replace(base, **change).wire(RR, directory()).survey
            for change in (
                {"rounds": 6},
                {"cover": 1},
                {"submit": "single"},
                {"mode": "onion"},
                {"mode": "onion", "hops": 3},
                {"submission_rounds": 2},
                {"default": 1},
            )
        ),
    }
    assert len(names) == 14
    assert base.wire(RR, directory()).survey == PeerSurvey(rounds=5).wire(RR, directory()).survey


def wire(layers):
    return Wire(survey=SURVEY, message_bytes=1, layers=layers)


@pytest.mark.parametrize(
    ("kind", "arguments", "named"),
    [
        (PeerSurvey, {"rounds": 0}, "rounds"),
        (PeerSurvey, {"rounds": 3, "cover": -1}, "cover"),
        (PeerSurvey, {"rounds": 3, "mode": "mix"}, "mode"),
        (PeerSurvey, {"rounds": 3, "submit": "some"}, "submit"),
        (PeerSurvey, {"rounds": 3, "submission_rounds": 0}, "submission_rounds"),
        (PeerSurvey, {"rounds": 3, "hops": 2}, "hops"),
        (PeerSurvey, {"rounds": 3, "mode": "onion", "hops": 4}, "hops"),
        (PeerSurvey, {"rounds": 3, "mode": "onion", "hops": 0}, "hops"),
        (Conditions, {"offline": 1.0}, "offline"),
        (Conditions, {"processes": 0}, "processes"),
        (Conditions, {"processes": 2, "transport": "memory"}, "processes"),
        (Conditions, {"transport": "pigeons"}, "transport"),
        (Conditions, {"deadline": 0}, "deadline"),
        (Conditions, {"seed": -1}, "seed"),
        (wire, {"layers": 2000}, "hops"),  # a path must fit a frame
    ],
)
def test_settings_are_checked(kind, arguments, named):
    with pytest.raises(InvalidArgumentError) as caught:
        kind(**arguments)
    assert caught.value.name == named


def test_graphs_come_as_lists_or_as_compressed_rows():
    graph = Graph.from_edges([(0, 1), (2, 1)])
    assert adjacency(graph) == adjacency([[1], [2, 0], [1]]) == ((1,), (0, 2), (1,))
    assert adjacency([[0, 1], [0]]) == ((0, 1), (0,))  # one's own neighbour: staying is a step


@pytest.mark.parametrize(
    "graph", [[[1], []], [[1], [1]], [[1, 1], [0]], [[1], [2], [0]], [[5], [0]], [[-1], [0]]]
)
def test_what_is_no_undirected_graph_is_refused(graph):
    with pytest.raises(InvalidArgumentError, match="graph"):
        adjacency(graph)


def test_a_list_has_a_key_for_everybody():
    with pytest.raises(InvalidArgumentError, match="3 keys"):
        Directory(tuple(KEYS[:2]), adjacency(circulant(3, 1)), KEYS[5])


def test_a_list_survives_the_way_to_another_process():
    known = directory()
    sent = pickle.dumps(known)
    assert pickle.loads(sent) == known  # noqa: S301 - our own bytes
    assert not any(pair.raw in sent for pair in PAIRS)


def test_absences_have_the_chance_they_are_said_to_have():
    steps = Conditions(offline=0.2, seed=5, killed={2: [7]}).steps(1000)
    drawn = [next(steps) for _ in range(50)]
    assert [step.number for step in drawn] == list(range(1, 51))
    assert [step.killed for step in drawn[:3]] == [frozenset(), {7}, frozenset()]
    share = sum(len(step.away) for step in drawn) / 50_000
    assert abs(share - 0.2) < 6 * np.sqrt(0.16 / 50_000)
    assert len({step.away for step in drawn}) == 50
    assert not next(Conditions(seed=5).steps(1000)).away


def test_the_telling_randomizer_tells():
    values = np.arange(100)
    assert (telling(100).randomize(values) == values).all()
