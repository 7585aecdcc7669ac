"""Somebody else's code: functions, objects, pipelines and programs, and how they fail."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import shoal
from shoal.auditing import AuditedCodeError, Function, Program, WholePipeline, audit
from shoal.auditing.auditor import MOST_PEOPLE
from shoal.auditing.messages import Binned, Distinct, as_messages, fitted, joined
from shoal.errors import InvalidArgumentError
from shoal.randomness import simulated, simulator

CHEAP = {"n": 4, "delta": 0.05, "runs": 1_000}
SMALL = {**CHEAP, "inputs": [0, 1], "local_epsilon": 1.0}


def flipping(keep=0.7, seed=0):
    generator = simulator(seed)

    def flip(value):
        return value if generator.random() < keep else 1 - value

    return flip


def test_a_function_of_one_value():
    found = audit(flipping(), **SMALL)
    assert found.verdict == "consistent"
    assert found.claimed_local == 1
    assert found.claimed == shoal.amplify(local_epsilon=1, n=4, delta=0.05).epsilon
    assert audit(flipping(0.85), **SMALL).verdict == "violated"


def test_a_function_of_many_values():
    generator = simulator(1)

    def flip(values):
        return values ^ (generator.random(values.size) < 0.15)

    assert audit(Function(flip, vectorized=True), **SMALL).verdict == "violated"


def test_an_object_with_a_randomize_method():
    class Device:
        name = "mine"
        local_epsilon = 1.0

        def randomize(self, values, *, randomness):
            return shoal.RandomizedResponse(k=2, epsilon=1.5).randomize(
                values, randomness=randomness
            )

    found = audit(Device(), **CHEAP, inputs=[0, 1])
    assert found.name == "mine"
    assert found.claimed_local == 1
    assert found.verdict == "violated"


@pytest.mark.parametrize(
    "dressed",
    [
        lambda bit: "ab"[bit],
        lambda bit: ("x", bit),
        lambda bit: [bit, 1 - bit],
        lambda bit: np.array([bit, 0.5]),
        lambda bit: {"bit": bit},
        bool,
        float,
        str,
    ],
)
def test_messages_of_any_kind(dressed):
    flip = flipping(0.85)
    assert audit(lambda value: dressed(flip(value)), **SMALL).verdict == "violated"


def test_numbers_without_end():
    generator = simulator(2)
    found = audit(lambda value: 2 * value + generator.normal(), **SMALL)
    assert found.verdict == "violated"  # normal noise has no local epsilon
    claimed = {**CHEAP, "runs": 4_000, "inputs": [0, 1], "epsilon": 3.0}
    found = audit(lambda value: f"{value + generator.normal():.9f}", **claimed)
    assert found.verdict == "consistent"
    assert found.lower > 0.2


def test_long_rows_of_bits():
    generator = simulator(3)

    def encode(value):
        chances = np.where(np.arange(40) == value, 0.9, 0.1)
        return (generator.random(40) < chances).astype(np.uint8)

    found = audit(encode, **SMALL)
    assert found.local_lower > 2


def test_other_messages_are_one_kind():
    coder = Distinct({"a": 0, "b": 1})
    assert coder(as_messages(["b", "c", "a"])).tolist() == [1, 2, 0]
    assert coder.size == 3


def test_a_coder_for_what_was_seen():
    assert isinstance(fitted([np.arange(50) % 5, np.arange(30) % 3]), Distinct)
    numbers = np.linspace(0, 1, 10_000)
    coder = fitted([numbers, numbers + 1])
    assert isinstance(coder, Binned)
    assert np.bincount(coder(numbers)).size <= coder.size == 67
    words = as_messages([f"w{i}" for i in range(9_000)] + ["often"] * 50)
    coder = fitted([words, words])
    assert coder(as_messages(["often", "never"])).tolist() == [0, coder.size - 1]


def test_unlike_parts_are_joined():
    assert joined([np.arange(2), np.array([0.5])]).tolist() == [0, 1, 0.5]
    assert joined([np.arange(2), as_messages(["a"])]).tolist() == [0, 1, "a"]


# -------------------------------------------------------------------------------------- failures


def test_a_function_that_raises():
    def fail(_value):
        raise ZeroDivisionError("by nothing\nat all")

    with pytest.raises(
        AuditedCodeError, match=r"ZeroDivisionError: by nothing at all \(.*line \d+"
    ):
        audit(fail, **SMALL)
    calls = iter(range(15_000))  # late
    with pytest.raises(AuditedCodeError, match="StopIteration"):
        audit(lambda value: (next(calls), value)[1], **SMALL)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (Function(lambda values: values[:1], vectorized=True), "returned 1 messages for"),
        (Function(lambda values: int(values[0]), vectorized=True), "a int, not a sequence"),
        (WholePipeline(lambda _values: []), "no messages"),
        (WholePipeline(lambda _values: "abc"), "returned a str"),
        (WholePipeline(lambda _values: None), "NoneType"),
    ],
)
def test_what_is_no_message_for_everybody(code, said):
    with pytest.raises(AuditedCodeError, match=said):
        audit(code, **SMALL)


def program(tmp_path, text, **options):
    path = tmp_path / "device.py"
    path.write_text(text)
    return Program([sys.executable, str(path)], **options)


def test_a_program(tmp_path):
    flips = "for line in sys.stdin: print(int(line) ^ (random.random() < 0.15))\n"
    text = f"import random, sys\nrandom.seed(1)\n{flips}"
    assert audit(program(tmp_path, text), **SMALL).verdict == "violated"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise SystemExit('no\\nluck')", "exit status 1: luck"),
        ("import sys; sys.exit(3)", "exit status 3: no error message"),
        ("1/0", "ZeroDivisionError: division by zero"),
        ("pass", "wrote 0 lines for"),
        ("import sys\nfor line in list(sys.stdin)[1:]: print(line.strip())", "lines for"),
    ],
)
def test_a_program_that_fails(tmp_path, text, said):
    with pytest.raises(AuditedCodeError, match=said):
        audit(program(tmp_path, text), **SMALL)


def test_a_program_that_hangs(tmp_path):
    with pytest.raises(AuditedCodeError, match=r"within 0\.3 seconds"):
        audit(program(tmp_path, "import time; time.sleep(20)", timeout=0.3), **SMALL)


def test_a_program_that_cannot_be():
    for words, said in (("no-such-program --at-all", "No such file"), (["a\0b"], "null")):
        with pytest.raises(AuditedCodeError, match=said):
            audit(Program(words), **SMALL)
    for words, said in (("", "a program"), ([1, 2], "a program"), ("'", "no closing quotation")):
        with pytest.raises(InvalidArgumentError, match=said):
            Program(words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n": 0}, "n"),
        ({"delta": 1.0}, "delta"),
        ({"delta": 2.0, "epsilon": 1.0}, "delta"),
        ({"delta": 0.0}, "delta"),
        ({"runs": 10}, "runs"),
        ({"confidence": 1.0}, "confidence"),
        ({"local_epsilon": -1.0}, "local_epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"local_epsilon": None}, "a claim to audit"),
        ({"inputs": [0]}, "2 to 8 different values"),
        ({"inputs": None}, "the values to try"),
        ({"data": (0, 1, 0)}, "inputs or data"),
        ({"inputs": None, "data": (0, 1)}, "x0, x1, others"),
        ({"inputs": None, "data": (0, 0, 1)}, "two different data"),
        ({"inputs": None, "data": (0, 1, [1])}, "the data of n - 1 = 3 others"),
        ({"inputs": None, "data": (0, 1, (1, 0))}, "the data of n - 1 = 3 others"),
        ({"n": MOST_PEOPLE + 1}, "n <= 1,000,000"),
        ({"n": 1e9}, "audit fewer"),
        ({"runs": 1e9}, "runs <= 100,000,000"),
        ({"inputs": [[0], [1]]}, "tuples instead of lists"),
        ({"inputs": 5}, "2 to 8 different values"),
        ({"inputs": None, "data": 5}, "x0, x1, others"),
        ({"inputs": None, "data": ([0], [1], 0)}, "tuples instead of lists"),
    ],
)
def test_refusals(changes, words):
    with pytest.raises(InvalidArgumentError, match=words):
        audit(flipping(), **{**SMALL, **changes})


@pytest.mark.parametrize(
    ("device", "words"),
    [
        (7, "a mechanism, a table, a function"),
        ([[0.5, 0.4], [0.5, 0.5]], "sum to 1"),
        (shoal.RandomizedResponse, "not a class"),
        (int, "not a class"),
    ],
)
def test_what_cannot_be_audited(device, words):
    with pytest.raises(InvalidArgumentError, match=words):
        audit(device, **SMALL)


@pytest.mark.parametrize("kind", [Function, WholePipeline])
def test_what_is_no_function_is_none(kind):
    with pytest.raises(InvalidArgumentError, match="a function"):
        kind(7)


def test_no_delta_with_a_pure_claim():
    device, asked = shoal.RandomizedResponse(k=2, epsilon=1.0), {"n": 3, "runs": 3_000}
    found = audit(device, **asked, epsilon=1.0, delta=0.0, randomness=simulated(5))
    assert found.verdict == "consistent"
    assert 0.1 < found.lower < 1
