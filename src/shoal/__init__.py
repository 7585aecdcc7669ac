"""Shoal: the shuffle model of differential privacy, from theorem to running service.

>>> import shoal
>>> round(shoal.amplify(local_epsilon=4, n=100_000, delta=1e-6).epsilon, 4)
0.1182

Names are loaded when first used: importing this package loads no heavy dependency.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from shoal.errors import (
    InvalidArgumentError,
    InvalidTableError,
    MissingExtraError,
    OutOfRegimeError,
    PrecisionError,
    ShoalError,
    UnreachableTargetError,
)

if TYPE_CHECKING:
    from shoal.accounting.amplification import amplify, local_epsilon, profile, required_n
    from shoal.accounting.comparison import compare
    from shoal.accounting.guarantee import Guarantee
    from shoal.accounting.law import BlanketLaw
    from shoal.accounting.profile import PrivacyProfile
    from shoal.randomizers.response import RandomizedResponse

__version__ = "0.1.0"

__all__ = [
    "BlanketLaw",
    "Guarantee",
    "InvalidArgumentError",
    "InvalidTableError",
    "MissingExtraError",
    "OutOfRegimeError",
    "PrecisionError",
    "PrivacyProfile",
    "RandomizedResponse",
    "ShoalError",
    "UnreachableTargetError",
    "__version__",
    "amplify",
    "compare",
    "local_epsilon",
    "profile",
    "required_n",
]

_HOMES = {
    "BlanketLaw": "shoal.accounting.law",
    "Guarantee": "shoal.accounting.guarantee",
    "PrivacyProfile": "shoal.accounting.profile",
    "RandomizedResponse": "shoal.randomizers.response",
    "amplify": "shoal.accounting.amplification",
    "compare": "shoal.accounting.comparison",
    "local_epsilon": "shoal.accounting.amplification",
    "profile": "shoal.accounting.amplification",
    "required_n": "shoal.accounting.amplification",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
