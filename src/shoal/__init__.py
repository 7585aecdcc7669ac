"""Shoal: the shuffle model of differential privacy, from theorem to running service.

>>> import shoal
>>> round(shoal.amplify(local_epsilon=4, n=100_000, delta=1e-6).epsilon, 4)
0.1182

Names are loaded when first used: importing this package loads no heavy dependency. Their types are
in ``__init__.pyi``.
"""

from __future__ import annotations

import importlib

from shoal import checks as checks  # which every module asks for: it need not be looked for below

__version__ = "0.3.0"

_HOMES = {
    name: f"shoal.{module}"
    for module, names in {
        "accounting.amplification": "amplify local_epsilon profile required_n",
        "accounting.comparison": "compare",
        "accounting.guarantee": "Guarantee",
        "accounting.law": "BlanketLaw",
        "accounting.profile": "PrivacyProfile",
        "auditing.auditor": "audit",
        "engines.shuffling": "shuffle",
        "errors": "EngineError InvalidArgumentError InvalidTypeError MissingExtraError "
        "OutOfRegimeError PrecisionError RefusedError ShoalError UncertifiedError "
        "UnreachableTargetError",
        "open_answers": "heavy_hitters",
        "pipeline": "run",
        "planning.plans": "Plan plan",
        "questions.file": "read_questions write_questions",
        "questions.kinds": "Bins Choice Choices Find Groups Number Scale Text Vector",
        "questions.terms": "Crowd Limits Named Person",
        "mechanisms.counts": "FairCoins NearCentralCount NearCentralSum",
        "mechanisms.dummies": "HashedDummies UniformDummies",
        "mechanisms.histograms": "LeanHistogram NearCentralHistogram RobustHistogram",
        "mechanisms.split_and_mix": "SplitAndMixSum SplitAndMixVectors",
        "mechanisms.zero_sum": "SparseHistogram ZeroSumCount ZeroSumHistogram",
        "mechanisms.bits": "SubsetSelection UnaryEncoding",
        "mechanisms.gaussian": "Gaussian GaussianVectors",
        "mechanisms.grid": "Duchi Laplace Piecewise RoundedResponse",
        "mechanisms.hashing": "LocalHashing",
        "mechanisms.response": "HadamardResponse ProjectiveGeometryResponse RandomizedResponse",
        "mechanisms.vectors": "PrivUnit PrivUnitG",
        "results.result": "Result",
        "service.client": "AsyncClient Client",
        "service.survey": "Survey",
        "intervals.estimates": "Estimate MeanEstimate VectorEstimate",
        "values": "Batch Counts Envelopes",
    }.items()
    for name in names.split()
}
__all__ = sorted([*_HOMES, "__version__"])  # noqa: PLE0605 - read from the one list there is


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
