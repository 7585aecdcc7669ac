"""What hides from an audit: messages that never repeat, odd numbers, inputs that nobody tries."""

from __future__ import annotations

import math

import numpy as np
import pytest

import shoal
from shoal.auditing import AuditedCodeError, Function, Neighbours, WholePipeline, audit
from shoal.auditing.auditor import Budget, farthest
from shoal.auditing.messages import (
    Binned,
    Distinct,
    Numbered,
    Parts,
    as_messages,
    binned,
    fitted,
    joined,
)
from shoal.auditing.subjects import DataSet, Listed
from shoal.errors import InvalidArgumentError
from shoal.mechanisms.dummies import PartitionedDummies
from shoal.mechanisms.partitioned import PartitionedResponse
from shoal.randomness import secure, simulated, simulator

CHEAP = {"n": 4, "delta": 0.05, "runs": 1_000}
SMALL = {**CHEAP, "inputs": [0, 1], "local_epsilon": 1.0}
COINS = simulator(12)


def flip(bit, keep=0.85):
    return bit if COINS.random() < keep else 1 - bit


def tag():
    return COINS.bytes(8)


# ------------------------------------------------------------------- messages that never repeat


@pytest.mark.parametrize(
    "dressed",
    [
        lambda bit: f"{bit}:{COINS.random()}",
        lambda bit: f"{COINS.random()},{bit}",
        lambda bit: (str(bit), COINS.random()),
        lambda bit: (COINS.random(), ("tag", COINS.random(), "yn"[bit])),
        lambda bit: {"noise": COINS.random(), "bit": bit},
        lambda bit: tag().hex() + bit * "+",
        lambda bit: bytes([bit]) + tag(),
        lambda bit: (int.from_bytes(tag()) << 1) | bit,
        lambda bit: (int.from_bytes(tag()) >> 2 << 1) | bit,
        lambda bit: (COINS.normal() * (1 + 9 * bit), COINS.random()),
        lambda bit: None if COINS.random() < 0.01 else bit + COINS.normal() / 5,
    ],
)
def test_the_part_that_tells_is_found(dressed):
    found = audit(lambda bit: dressed(flip(bit)), **SMALL)
    assert found.verdict == "violated", str(found)
    assert found.unread == 0
    assert not any("never repeat" in warning for warning in found.warnings)


def test_an_honest_part_is_not_blamed():
    found = audit(lambda bit: f"{flip(bit, 0.7)}:{COINS.random()}", **SMALL)
    assert found.verdict == "consistent"
    assert found.local_lower > 0.5


def test_messages_that_say_nothing_are_said_to():
    found = audit(lambda _bit: tag(), **SMALL)
    assert found.verdict == "consistent"
    assert found.unread > 0.99
    assert "99 % of the messages never repeat" in found.words or "100 %" in found.words
    assert found.to_dict()["unread"] == found.unread
    assert not any("never repeat" in each for each in audit(flip, **SMALL).warnings)


def test_a_part_is_chosen_for_what_it_tells_of_other_messages():
    samples = [as_messages([f"{COINS.random()}/{x}" for _ in range(2_000)]) for x in "ab"]
    coder = fitted(samples)
    assert isinstance(coder, Parts)
    first, second = (set(coder(sample).tolist()) for sample in samples)
    assert first.isdisjoint(second)
    alike = [as_messages([f"{COINS.random()}" + "x" for _ in range(2_000)]) for _ in range(2)]
    coder = fitted(alike)
    assert isinstance(coder, Distinct)
    assert coder.unread > 0.99


def test_whole_numbers_of_any_size():
    found = as_messages([2**63, -1, 2**63])
    assert found.dtype == object
    assert found.tolist() == [2**63, -1, 2**63]
    rows = as_messages([(2**64, 1), (2**64, 1)])
    assert rows.tolist() == [(2**64, 1)] * 2
    assert as_messages([2**63 - 1, -(2**63)]).dtype == np.int64
    assert audit(lambda bit: 2**64 + flip(bit), **SMALL).verdict == "violated"


def test_rows_of_unlike_kinds_are_the_same_rows():
    coder = fitted([as_messages([(0, 1), (1, 1)] * 9)])
    assert coder(as_messages([(1.0, 1.0)])).tolist() == coder(as_messages([(1, 1)])).tolist()
    mixed = joined([as_messages([(0, 1)]), as_messages(["a"])])
    assert mixed.tolist() == [(0, 1), "a"]


# ------------------------------------------------------------------------------- no numbers at all


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_one_odd_number_in_a_thousand_blinds_nobody(odd):
    def noisy(bit):
        return odd if COINS.random() < 1e-3 else flip(bit) + COINS.normal() / 5

    assert audit(noisy, **SMALL).verdict == "violated"
    rows = audit(lambda bit: (noisy(bit), COINS.random()), **SMALL)
    assert rows.verdict == "violated"


def test_odd_numbers_have_codes_of_their_own():
    values = np.array([*np.linspace(0, 1, 997), math.nan, math.inf, -math.inf])
    coder = binned(values, None)
    assert np.isfinite(coder.edges).all()
    ends = coder(np.array([0.0, 1.0, -math.inf, math.inf, math.nan])).tolist()
    assert ends == [0, 63, 64, 65, 66]
    assert coder.size == 67
    nothing = binned(np.full(9, math.nan), None)
    assert nothing(np.array([1.0, math.nan])).tolist() == [0, 3]


def test_what_no_number_is_equal_to_is_looked_up():
    coder = fitted([np.array([0.0, math.nan] * 50)])
    assert isinstance(coder, Distinct)
    codes = coder(np.array([math.nan, 0.0, 7.0])).tolist()
    assert sorted(codes) == [0, 1, 2]
    assert codes[2] == 2
    assert audit(lambda bit: math.nan if flip(bit) else 0.0, **SMALL).verdict == "violated"


def test_messages_of_another_kind_than_before():
    coder = Numbered(3)
    odd = as_messages([0, 2, "a", None, 1.5, 3, -1])
    assert coder(odd).tolist() == [0, 2, 3, 3, 3, 3, 3]
    assert coder(np.array([1.0, math.nan])).tolist() == [1, 3]
    assert Binned(np.array([0.5]))(as_messages(["0.1", "x", 7])).tolist() == [0, 4, 1]
    along = Binned(np.array([0.5]), np.array([1.0, 0.0]))
    assert along(as_messages(["x"])).tolist() == [4]
    assert along(np.ones((1, 3))).tolist() == [4]


# --------------------------------------------------------------------------------- which inputs


def table_with_two_odd_rows():
    table = np.full((40, 6), 1 / 6)
    table[23] = [0.5, 0.1, 0.1, 0.1, 0.1, 0.1]
    table[31] = [0.05, 0.19, 0.19, 0.19, 0.19, 0.19]
    return table


def test_rows_far_apart_are_tried():
    table = table_with_two_odd_rows()
    found = audit(table, **CHEAP, epsilon=5.0, local_epsilon=1.0)
    assert {23, 31} <= set(found.inputs)
    assert len(found.inputs) == 8
    assert found.screened == 40
    assert found.verdict == "violated"
    assert found.to_dict()["inputs"] == list(found.inputs)
    assert "23" in found.tried
    assert "of 40 screened" in found.tried


def test_the_farthest_rows_of_a_long_table():
    table = simulator(3).dirichlet(np.full(20, 30.0), size=300)
    spread = np.log(table.max(axis=0) / table.min(axis=0))
    column = int(spread.argmax())
    chosen = farthest(table, n=100, most=8)
    assert len(set(chosen)) == 8
    assert {int(table[:, column].argmax()), int(table[:, column].argmin())} <= set(chosen[:5])
    pairs = ((table[:, None] - table) ** 2).reshape(-1, 20)
    best = (pairs / table.max(axis=0)).sum(axis=1).max()
    kept = table[list(chosen)]
    shown = ((kept[:, None] - kept) ** 2 / table.max(axis=0)).sum(axis=2).max()
    assert shown > 0.6 * best


@pytest.mark.parametrize(
    ("declared", "wrong", "message"),
    [
        (shoal.RandomizedResponse(k=40, epsilon=1.0), 17, 17),
        (np.full((30, 3), 0.2) + 0.4 * np.eye(3)[np.arange(30) % 3], 22, 0),
    ],
    ids=["mechanism", "table"],
)
def test_one_wrong_input_of_many_is_found(declared, wrong, message):
    bits = secure()
    honest = Listed(declared) if isinstance(declared, np.ndarray) else declared

    def broken(values):
        return np.where(values == wrong, message, honest.randomize(values, randomness=bits))

    found = audit(Function(broken, vectorized=True), declared=declared, **CHEAP)
    assert wrong in found.inputs
    assert len(found.inputs) == (5 if honest is declared else 8)
    assert found.verdict == "violated"


@pytest.mark.parametrize(
    "device",
    [
        shoal.SubsetSelection(k=70, epsilon=1.0),
        shoal.HashedDummies.calibrated(k=20, n=4, epsilon=3.0, delta=0.05),
        PartitionedResponse(k=30, epsilon=1.0, symbols=2, partitions=3),
    ],
    ids=lambda device: device.name,
)
def test_inputs_of_many_answers(device):
    found = audit(device, **CHEAP, epsilon=3.0, randomness=simulated(1))
    assert found.verdict == "consistent"
    assert len(set(found.inputs)) == 5
    assert found.screened == min(device.k, found.screened) <= 64


def test_bins_of_answers():
    target = {"n": 20, "epsilon": 1.0, "delta": 0.05}
    device = PartitionedDummies.calibrated(k=20, **target, symbols=2, partitions=2)
    asked = target | {"runs": 1_000}
    found = audit(device, **asked, randomness=simulated(4))
    assert found.verdict == "consistent"
    assert set(device.layout.most_apart) <= set(found.inputs)
    assert audit(device, **asked, inputs=[0, 7]).inputs == (0, 7)


# ------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize("status", [0, 1, "so long"])
def test_code_that_leaves_does_not_decide(status):
    def leave(_value):
        raise SystemExit(status)

    for device in (leave, WholePipeline(leave), Function(leave, vectorized=True)):
        with pytest.raises(AuditedCodeError, match=f"SystemExit: {status}"):
            audit(device, **SMALL)


@pytest.mark.parametrize(
    ("declared", "inputs", "words"),
    [
        (shoal.RandomizedResponse(k=3, epsilon=1.0), [0, 7], r"0 to 2.*inputs=7"),
        (shoal.RandomizedResponse(k=3, epsilon=1.0), [0, -1], r"0 to 2.*inputs=-1"),
        (shoal.RandomizedResponse(k=3, epsilon=1.0), [0, 0.5], "0 to 2"),
        (shoal.RandomizedResponse(k=3, epsilon=1.0), ["yes", "no"], "0 to 2"),
        (np.full((3, 2), 0.5), [0, 3], "0 to 2"),
        (PartitionedResponse(k=9, epsilon=1.0, symbols=2), [0, 9], "0 to 8"),
        (shoal.LocalHashing(epsilon=1.0), [0, 1], "strings"),
        (shoal.Laplace(low=0, high=1, epsilon=1.0, levels=8), [0, 2], "numbers from 0 to 1"),
        (shoal.PrivUnitG(dimension=2, epsilon=1.0), [(1.0, 0.0), (1.0,)], "tuples of 2"),
        (shoal.RandomizedResponse, [0, 1], "not a class"),
    ],
)
def test_inputs_that_the_declared_mechanism_does_not_take(declared, inputs, words):
    with pytest.raises(InvalidArgumentError, match=words):
        audit(flip, declared=declared, **CHEAP, epsilon=1.0, inputs=inputs)
    if not isinstance(declared, type):
        with pytest.raises(InvalidArgumentError, match=words):
            audit(flip, declared=declared, **CHEAP, epsilon=1.0, data=(*inputs, [inputs[1]] * 3))


def test_others_in_a_list_or_a_tuple():
    device = shoal.RandomizedResponse(k=3, epsilon=1.0)
    for others in ([1, 1, 0], (1, 1, 0), np.array([1, 1, 0])):
        found = audit(device, **CHEAP, data=(2, 0, others))
        assert found.evidence.data == "2 or 0, of the others 2 1, 1 0"
    east, west, north = (1.0, 0.0), (-1.0, 0.0), (0.0, 1.0)
    vectors = shoal.PrivUnitG(dimension=2, epsilon=1.0)
    found = audit(vectors, **CHEAP, data=(east, west, north))
    assert found.evidence.data.endswith("everybody else (0.0, 1.0)")
    found = audit(vectors, **CHEAP, data=(east, west, (north, north, east)))
    assert "of the others 2 (0.0, 1.0), 1 (1.0, 0.0)" in found.evidence.data


def test_data_of_any_kind_are_an_array():
    assert DataSet(((1, 2), (3, 4))).array.shape == (2, 2)
    assert DataSet(((1, 2), (3,))).array.tolist() == [(1, 2), (3,)]
    assert DataSet((("a", 1), ("b", 2))).array.tolist() == [("a", 1), ("b", 2)]
    assert Neighbours("a", "b", ("a",)).worlds[0].array.dtype == object


@pytest.mark.parametrize("candidates", [1, 3, 60])
@pytest.mark.parametrize("runs", [1_000, 1_499, 3_000, 50_000, 50_001, 10**6])
def test_no_more_is_spent_on_training_than_is_said(runs, candidates):
    share = 0.1 if runs > 50_000 else 0.2
    budget = Budget(runs, candidates)
    assert 0.95 * share * runs <= budget.total <= share * runs
    assert budget.compare >= 90
