"""Errors carry values, and take them along to another process."""

from __future__ import annotations

import copy
import pickle

import pytest

import shoal
from shoal.cli.options import RefusedError
from shoal.sealing.errors import FramingError, MalformedError, NotOpenableError

ERRORS = [
    shoal.InvalidArgumentError("k", 1, "k >= 2"),
    shoal.InvalidTableError("table", [[1.0]], "rows that sum to 1"),
    shoal.InvalidTypeError("randomizer", "ndarray of shape (2, 2)", "a randomizer"),
    shoal.OutOfRegimeError("a bound", "n >= 10", {"n": 3, "delta": 1e-6}, "another"),
    shoal.UnreachableTargetError("epsilon=1", "too few people", "ask more"),
    shoal.PrecisionError("delta", 1e-30, 1e-20, "take another method"),
    shoal.UncertifiedError(0.0, float("inf")),
    shoal.EngineError("Spark", "no Java", "install one"),
    shoal.MissingExtraError("walking", "network"),
    NotOpenableError(),
    FramingError(7, "8 bytes"),
    MalformedError("a key", "32 bytes"),
    RefusedError("--n is missing"),
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
