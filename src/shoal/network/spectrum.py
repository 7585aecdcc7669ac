"""How fast a walk forgets where it began: an upper bound on its second largest eigenvalue.

λ = max(|λ_2|, |λ_n|) of P. A computed eigenvalue is no bound, not even with its residual added: a
residual proves that an eigenvalue is near, not that none is larger (an expander with a clique
hanging on one node shows nothing of the clique to a few steps of any iteration). Three proofs:

- ``dense``: all eigenvalues, proved by Cholesky factorisations; small graphs;
- ``inertia``: an L D Lᵀ factorisation counts the eigenvalues above a number; sparse graphs whose
  factors stay sparse;
- ``random``: random starts and a Chebyshev recurrence; any graph, with a failure probability that
  belongs into δ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.network.certificates import dense, inertia, random_start
from shoal.network.certificates.operator import Operator, cube_points
from shoal.network.walk import Walk
from shoal.randomness import Randomness, secure

Method = Literal["auto", "dense", "inertia", "random"]

FAILURE = 1e-12
PRECISION = 0.02

_DENSE_NODES = 1500
_FACTORING = 1e9  # products that take about a second
_POWER_SLACK = 1e-13


@dataclass(frozen=True)
class SpectralBound:
    """|λ_i| <= value for all i >= 2, but for a probability ``failure`` over the method's coins."""

    value: float
    failure: float
    method: str

    @property
    def gap(self) -> float:
        """A lower bound on the spectral gap 1 - λ."""
        return 1 - self.value

    def decay(self, rounds: int) -> float:
        """λ^t, rounded up."""
        power = self.value ** checks.count(0, rounds=rounds)
        return min(power * (1 + _POWER_SLACK), 1.0)


def spectral_bound(
    walk: Walk,
    *,
    method: Method = "auto",
    failure: float = FAILURE,
    precision: float = PRECISION,
    randomness: Randomness | None = None,
) -> SpectralBound:
    """An upper bound on the size of every eigenvalue of the walk but the first.

    ``failure`` is the largest failure probability of the random method, which alone has one.
    ``precision`` is how far the bound may be above the truth, relative to the gap: a wish, that
    tiny gaps or large degrees may not grant; the bound is one all the same.
    """
    if method not in get_args(Method):
        raise InvalidArgumentError("method", method, "'auto', 'dense', 'inertia' or 'random'")
    checks.open_probability(failure=failure, precision=precision)
    operator = Operator.of(walk)
    source = secure() if randomness is None else randomness
    chosen = _choice(operator) if method == "auto" else method
    if chosen == "dense":
        return SpectralBound(min(dense.certified(operator), 1.0), 0.0, chosen)
    if chosen == "inertia":
        start = cube_points(operator.n, 1, source)[:, 0]
        suggested = operator.estimate(start, precision=precision)
        value = inertia.certified(operator, suggested=suggested, precision=precision)
        return SpectralBound(min(value, 1.0), 0.0, chosen)
    value = random_start.certified(
        operator, failure=failure, precision=precision, randomness=source
    )
    return SpectralBound(min(value, 1.0), failure, chosen)


def _choice(operator: Operator) -> str:
    if operator.n <= _DENSE_NODES:
        return "dense"
    return "inertia" if inertia.work(operator.matrix) <= _FACTORING else "random"
