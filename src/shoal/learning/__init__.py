"""Private training: what noisy gradient descent over permuted examples gives away, and doing it.

:func:`account` says how private a run is, :func:`noise_for` how much noise a target needs,
:func:`compare` puts permutations beside sampling with replacement, Poisson sampling and a fixed
order, :func:`by_epochs` is a curve over epochs, and :func:`require` refuses a data
loader that does not do what a guarantee assumes. :func:`train` fits linear models that way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.learning.accountant import account, by_epochs, compare, noise_for
from shoal.learning.guarantee import Comparison, LearningGuarantee, Refused, Route, Sampling
from shoal.learning.loaders import require, sampling_of

if TYPE_CHECKING:
    from shoal.learning.descent import Fit, train
    from shoal.learning.losses import Logistic, Ridge

__all__ = [
    "Comparison",
    "Fit",
    "LearningGuarantee",
    "Logistic",
    "Refused",
    "Ridge",
    "Route",
    "Sampling",
    "account",
    "by_epochs",
    "compare",
    "noise_for",
    "require",
    "sampling_of",
    "train",
]

_TRAINING = {
    "Fit": "shoal.learning.descent",
    "train": "shoal.learning.descent",
    "Logistic": "shoal.learning.losses",
    "Ridge": "shoal.learning.losses",
}


def __getattr__(name: str) -> object:
    """What training needs is loaded when it is first asked for."""
    if name not in _TRAINING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_TRAINING[name]), name)
