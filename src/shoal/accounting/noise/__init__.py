"""The noise of protocols with several messages, calibrated on exact divergences.

All of them replace one person's datum, cover both orders and count honest people only: noise of
people who may lie is no protection. A ``…_delta`` is an upper bound, tight up to rounding unless
its docstring says otherwise; its inverse returns a parameter at which that bound was evaluated.
"""

from __future__ import annotations

from shoal.accounting.noise.binary import binary_delta, binary_lambda
from shoal.accounting.noise.dummies import (
    dummies_delta,
    dummies_rho,
    hashed_dummies_delta,
    hashed_dummies_rho,
)
from shoal.accounting.noise.near_central import (
    NearCentralNoise,
    incomplete_delta,
    near_central_calibration,
    near_central_delta,
)
from shoal.accounting.noise.profile import Divergence, NoiseProfile
from shoal.accounting.noise.zero_sum import (
    BinomialComparison,
    Smoothness,
    alpha_divisor,
    alpha_of,
    binomial_comparison,
    binomial_lemma,
    binomial_smoothness_delta,
    one_bin_delta,
    one_bin_gamma,
    smoothness_delta,
    two_bin_delta,
    two_bin_gamma,
)

__all__ = [
    "BinomialComparison",
    "Divergence",
    "NearCentralNoise",
    "NoiseProfile",
    "Smoothness",
    "alpha_divisor",
    "alpha_of",
    "binary_delta",
    "binary_lambda",
    "binomial_comparison",
    "binomial_lemma",
    "binomial_smoothness_delta",
    "dummies_delta",
    "dummies_rho",
    "hashed_dummies_delta",
    "hashed_dummies_rho",
    "incomplete_delta",
    "near_central_calibration",
    "near_central_delta",
    "one_bin_delta",
    "one_bin_gamma",
    "smoothness_delta",
    "two_bin_delta",
    "two_bin_gamma",
]
