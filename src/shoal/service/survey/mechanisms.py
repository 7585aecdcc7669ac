"""Which mechanisms a survey may have, and which of them browsers run besides the Python client.

A mechanism is in one of the two lists, or no survey has it. A survey with one of ``PYTHON`` is
answered by ``shoal submit`` and :class:`shoal.Client` alone, which is said when it is written. What
draws for tables only (:func:`shoal.mechanisms.registry.noisy`) is in neither.
"""

from __future__ import annotations

BROWSERS = (
    "grr",
    "hadamard",
    "projective",
    "subset",
    "unary",
    "hashing",
    "duchi",
    "piecewise",
    "rounded",
    "dummies",
    "sparse",
    "zero-sum",
    "near-central-carriers",
    "zero-sum-count",
    "coins",
)
PYTHON = (
    "laplace",
    "hashed-dummies",
    "near-central",
    "near-central-lean",
    "near-central-robust",
    "near-central-sum",
    "split-and-mix",
)
SURVEYS = (*BROWSERS, *PYTHON)
