"""The public names, pinned: adding or removing one is a decision, and this is where it shows."""

from __future__ import annotations

import ast
import inspect

import pytest

import shoal
from repository import PACKAGE

PUBLIC = [
    "AsyncClient",
    "Batch",
    "Bins",
    "BlanketLaw",
    "Choice",
    "Choices",
    "Client",
    "Counts",
    "Crowd",
    "Duchi",
    "EngineError",
    "Envelopes",
    "Estimate",
    "FairCoins",
    "Find",
    "Gaussian",
    "GaussianVectors",
    "Groups",
    "Guarantee",
    "HadamardResponse",
    "HashedDummies",
    "InvalidArgumentError",
    "InvalidTypeError",
    "Laplace",
    "LeanHistogram",
    "Limits",
    "LocalHashing",
    "MeanEstimate",
    "MissingExtraError",
    "Named",
    "NearCentralCount",
    "NearCentralHistogram",
    "NearCentralSum",
    "Number",
    "OutOfRegimeError",
    "Person",
    "Piecewise",
    "Plan",
    "PrecisionError",
    "PrivUnit",
    "PrivUnitG",
    "PrivacyProfile",
    "ProjectiveGeometryResponse",
    "RandomizedResponse",
    "RefusedError",
    "Result",
    "RobustHistogram",
    "RoundedResponse",
    "Scale",
    "ShoalError",
    "SparseHistogram",
    "SplitAndMixSum",
    "SplitAndMixVectors",
    "SubsetSelection",
    "Survey",
    "Text",
    "UnaryEncoding",
    "UncertifiedError",
    "UniformDummies",
    "UnreachableTargetError",
    "Vector",
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
    "read_questions",
    "required_n",
    "run",
    "shuffle",
    "write_questions",
]
DOCUMENTED = [name for name in PUBLIC if name != "__version__"]
ERRORS = [name for name in PUBLIC if name.endswith("Error")]
# What may come without its name: what is run, what is read, and what is asked of it.
BY_POSITION = {"data", "device", "family", "path", "question", "questions", "randomizer", "reports"}
FUNCTIONS = [name for name in DOCUMENTED if name.islower()]


def test_the_public_names_are_these():
    assert sorted(shoal.__all__) == PUBLIC


def test_type_checkers_see_the_same_names():
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    homes = {name.asname: node.module for node in imports for name in node.names}
    assert homes == shoal._HOMES


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_public_name_is_documented(name):
    documentation = getattr(shoal, name).__doc__
    assert documentation
    assert not documentation.startswith(f"{name}("), "a signature made by dataclass says nothing"


@pytest.mark.parametrize("name", ERRORS)
def test_every_public_error_is_a_shoal_error(name):
    assert issubclass(getattr(shoal, name), shoal.ShoalError)


def test_every_error_is_public():
    from shoal import errors

    defined = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.ShoalError)
    }
    assert defined == set(ERRORS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_functions_take_their_numbers_by_name(name):
    parameters = inspect.signature(getattr(shoal, name)).parameters.values()
    assert inspect.Parameter.VAR_POSITIONAL not in [each.kind for each in parameters]
    keyword = inspect.Parameter.KEYWORD_ONLY
    positional = {each.name for each in parameters if each.kind != keyword}
    assert positional <= BY_POSITION


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = shoal.no_such_name
