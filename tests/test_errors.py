"""Errors carry values, and take them along to another process."""

from __future__ import annotations

import copy
import pickle

import pytest

import shoal
from shoal.errors import RefusedError
from shoal.learning import Logistic
from shoal.mechanisms.prefixes import Alphabet
from shoal.sealing.errors import MalformedError, NotOpenableError

ERRORS = [
    shoal.InvalidArgumentError("k", 1, "k >= 2"),
    shoal.InvalidTypeError("randomizer", "ndarray of shape (2, 2)", "a randomizer"),
    shoal.OutOfRegimeError("a bound", "n >= 10", {"n": 3, "delta": 1e-6}, "another"),
    shoal.UnreachableTargetError("epsilon=1", "too few people", "ask more"),
    shoal.PrecisionError("delta", 1e-30, 1e-20, "take another method"),
    shoal.UncertifiedError(0.0, float("inf")),
    shoal.EngineError("Spark", "no Java", "install one"),
    shoal.MissingExtraError("walking", "network"),
    NotOpenableError(),
    MalformedError("a key", "32 bytes"),
    RefusedError("--n is missing"),
    RefusedError("cannot use DIR", "it is a file", "name a directory"),
]


def pickled(error):
    return pickle.loads(pickle.dumps(error))  # noqa: S301 - of our own


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("again", [pickled, copy.copy])
def test_errors_survive_pickling(error, again):
    error.add_note("seen twice")
    other = again(error)
    assert type(other) is type(error)
    assert str(other) == str(error)
    assert other.args == error.args
    assert vars(other) == vars(error)
    assert getattr(other, "msg", None) == getattr(error, "msg", None)


def test_every_public_error_is_tried():
    public = {getattr(shoal, name) for name in shoal.__all__ if name.endswith("Error")}
    assert public - {shoal.ShoalError} <= {type(error) for error in ERRORS}


# What a device does with two people's data; the second's is none that it takes.
SECRET = 98_765
TEXT = "Ω secret"
REFUSING = {
    "answer": lambda: shoal.RandomizedResponse(k=3, epsilon=1.0).randomize([1, SECRET]),
    "several messages": lambda: shoal.LeanHistogram.calibrated(
        k=3, n=1000, epsilon=1.0, delta=1e-6
    ).randomize([1, SECRET]),
    "number": lambda: shoal.Laplace(low=0, high=1, epsilon=1.0).randomize([0.5, SECRET]),
    "unit vector": lambda: shoal.PrivUnit(dimension=2, epsilon=1.0).randomize(
        [[1.0, 0.0], [0.0, SECRET]]
    ),
    "vector": lambda: shoal.GaussianVectors(dimension=2, norm=1.0, sigma=1.0).randomize(
        [[1.0, 0.0], [0.0, SECRET]]
    ),
    "shares": lambda: shoal.SplitAndMixVectors.calibrated(
        dimension=2, bound=1.0, n=1000, epsilon=1.0, delta=1e-6
    ).randomize([[1.0, 0.0], [0.0, SECRET]]),
    "open domain": lambda: shoal.LocalHashing(epsilon=1.0).randomize(["a", SECRET]),
    "text": lambda: Alphabet.of("ab", length=9).pack(["ab", TEXT]),
    "no text": lambda: Alphabet.of(None, length=9).pack(["ab", f"{TEXT}\ud800"]),
    "label": lambda: Logistic(labels=("a", "b")).reading(["a", TEXT]),
}


@pytest.mark.parametrize("refusing", REFUSING.values(), ids=REFUSING)
def test_an_error_names_the_row_of_a_datum_and_never_the_datum(refusing):
    with pytest.raises(shoal.InvalidArgumentError) as caught:
        refusing()
    error = caught.value
    assert "row 1" in str(error)
    assert error.__cause__ is None
    shown = f"{error} {vars(error)}"
    for part in (str(SECRET), "Ω", "\\xce", "xce", "secret", "\ud800"):
        assert part not in shown
