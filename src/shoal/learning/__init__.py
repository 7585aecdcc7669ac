"""Private training: what noisy gradient descent over permuted examples gives away, and doing it.

:func:`account` says how private a run is, :func:`noise_for` how much noise a target needs,
:func:`compare` puts permutations beside sampling with replacement, Poisson sampling and a fixed
order, :func:`by_epochs` is a curve over epochs, and :func:`require` refuses a data
loader that does not do what a guarantee assumes. :func:`train` fits linear models that way.
"""

from shoal.learning.accountant import (
    Comparison,
    LearningGuarantee,
    Refused,
    Route,
    account,
    by_epochs,
    compare,
    noise_for,
)
from shoal.learning.descent import Fit, Logistic, Ridge, train
from shoal.learning.run import Sampling, require, sampling_of

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
