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
    InvalidTypeError,
    MissingExtraError,
    OutOfRegimeError,
    PrecisionError,
    ShoalError,
    UncertifiedError,
    UnreachableTargetError,
)

if TYPE_CHECKING:
    from shoal.accounting.amplification import amplify, local_epsilon, profile, required_n
    from shoal.accounting.comparison import compare
    from shoal.accounting.guarantee import Guarantee
    from shoal.accounting.law import BlanketLaw
    from shoal.accounting.profile import PrivacyProfile
    from shoal.auditing.auditor import audit
    from shoal.engines.shuffling import shuffle
    from shoal.open_answers import heavy_hitters
    from shoal.pipeline import run
    from shoal.planning.plan import Plan
    from shoal.planning.planner import plan
    from shoal.protocols.counts import FairCoins, NearCentralCount, NearCentralSum
    from shoal.protocols.dummies import HashedDummies, UniformDummies
    from shoal.protocols.split_and_mix import SplitAndMixSum, SplitAndMixVectors
    from shoal.protocols.zero_sum import SparseHistogram, ZeroSumCount, ZeroSumHistogram
    from shoal.randomizers.bits import SubsetSelection, UnaryEncoding
    from shoal.randomizers.grid import Duchi, Laplace, Piecewise, RoundedResponse
    from shoal.randomizers.hashing import LocalHashing
    from shoal.randomizers.response import (
        HadamardResponse,
        ProjectiveGeometryResponse,
        RandomizedResponse,
    )
    from shoal.randomizers.vectors import PrivUnit, PrivUnitG
    from shoal.report.result import Result
    from shoal.service.client import AsyncClient, Client
    from shoal.service.survey import Survey
    from shoal.values import Batch, Counts, Envelopes, Estimate, MeanEstimate, VectorEstimate

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "Batch",
    "BlanketLaw",
    "Client",
    "Counts",
    "Duchi",
    "Envelopes",
    "Estimate",
    "FairCoins",
    "Guarantee",
    "HadamardResponse",
    "HashedDummies",
    "InvalidArgumentError",
    "InvalidTableError",
    "InvalidTypeError",
    "Laplace",
    "LocalHashing",
    "MeanEstimate",
    "MissingExtraError",
    "NearCentralCount",
    "NearCentralSum",
    "OutOfRegimeError",
    "Piecewise",
    "Plan",
    "PrecisionError",
    "PrivUnit",
    "PrivUnitG",
    "PrivacyProfile",
    "ProjectiveGeometryResponse",
    "RandomizedResponse",
    "Result",
    "RoundedResponse",
    "ShoalError",
    "SparseHistogram",
    "SplitAndMixSum",
    "SplitAndMixVectors",
    "SubsetSelection",
    "Survey",
    "UnaryEncoding",
    "UncertifiedError",
    "UniformDummies",
    "UnreachableTargetError",
    "VectorEstimate",
    "ZeroSumCount",
    "ZeroSumHistogram",
    "__version__",
    "amplify",
    "audit",
    "compare",
    "heavy_hitters",
    "local_epsilon",
    "plan",
    "profile",
    "required_n",
    "run",
    "shuffle",
]

_HOMES = {
    "AsyncClient": "shoal.service.client",
    "Batch": "shoal.values",
    "BlanketLaw": "shoal.accounting.law",
    "Client": "shoal.service.client",
    "Counts": "shoal.values",
    "Duchi": "shoal.randomizers.grid",
    "Envelopes": "shoal.values",
    "Estimate": "shoal.values",
    "FairCoins": "shoal.protocols.counts",
    "Guarantee": "shoal.accounting.guarantee",
    "HadamardResponse": "shoal.randomizers.response",
    "HashedDummies": "shoal.protocols.dummies",
    "Laplace": "shoal.randomizers.grid",
    "LocalHashing": "shoal.randomizers.hashing",
    "MeanEstimate": "shoal.values",
    "NearCentralCount": "shoal.protocols.counts",
    "NearCentralSum": "shoal.protocols.counts",
    "Piecewise": "shoal.randomizers.grid",
    "Plan": "shoal.planning.plan",
    "PrivUnit": "shoal.randomizers.vectors",
    "PrivUnitG": "shoal.randomizers.vectors",
    "PrivacyProfile": "shoal.accounting.profile",
    "ProjectiveGeometryResponse": "shoal.randomizers.response",
    "RandomizedResponse": "shoal.randomizers.response",
    "Result": "shoal.report.result",
    "RoundedResponse": "shoal.randomizers.grid",
    "SparseHistogram": "shoal.protocols.zero_sum",
    "SplitAndMixSum": "shoal.protocols.split_and_mix",
    "SplitAndMixVectors": "shoal.protocols.split_and_mix",
    "SubsetSelection": "shoal.randomizers.bits",
    "Survey": "shoal.service.survey",
    "UnaryEncoding": "shoal.randomizers.bits",
    "UniformDummies": "shoal.protocols.dummies",
    "VectorEstimate": "shoal.values",
    "ZeroSumCount": "shoal.protocols.zero_sum",
    "ZeroSumHistogram": "shoal.protocols.zero_sum",
    "amplify": "shoal.accounting.amplification",
    "audit": "shoal.auditing.auditor",
    "compare": "shoal.accounting.comparison",
    "heavy_hitters": "shoal.open_answers",
    "local_epsilon": "shoal.accounting.amplification",
    "plan": "shoal.planning.planner",
    "profile": "shoal.accounting.amplification",
    "required_n": "shoal.accounting.amplification",
    "run": "shoal.pipeline",
    "shuffle": "shoal.engines.shuffling",
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
