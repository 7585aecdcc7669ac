"""What the bounds of BBGN19 need to know about a randomizer.

Balle, Bell, Gascón, Nissim. The Privacy Blanket of the Shuffle Model. CRYPTO 2019,
arXiv:1903.02837. Let γω = inf_x R_x be the blanket, W ~ ω, x = e^ε and

    L = (R_{x0}(W) − x R_{x1}(W)) / ω(W),          E[L] = 1 − x.

The blanket lemma says δ(ε) <= E[(L_1 + … + L_M)_+]/(γ n) with M ~ Bin(n, γ). The tail inequalities
then ask for an upper bound of L, the width of its range, and a bound of E[L²], *for every pair*
(x0, x1). With ρ = R/(γω), 1 <= ρ <= e^ε0, so γ(1 − x e^ε0) <= L <= γ(e^ε0 − x).

* **any ε0-DP randomizer**: γ is unknown. Any sub-blanket is allowed in the lemma, so it is taken to
  be e^−ε0 in M and in front, and at most 1 inside L:
  L <= e^ε0 − x e^−ε0, width (x+1)(e^ε0 − e^−ε0), E[L²] <= e^ε0 (x²+1) − 2x e^−3ε0.
* **k-ary randomized response**: γ = k/(e^ε0 + k − 1), ω uniform; all three are exact.
* **Laplace noise of scale 1/ε0 on [0, 1]**: γ = e^−ε0/2. E[L²] is largest for the pair (0, 1):
  ∫R_a²/ω is convex in a on each half of [0, 1] and larger at the ends than in the middle, and
  ∫R_a R_b/ω increases from its value 2e^{−ε0/2} − e^{−ε0} at (0, 1) as a, b move inwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from shoal.accounting.catalog.entry import Query, out_of_regime
from shoal.accounting.catalog.inversion import smallest_epsilon

CONDITION = "1e-100 <= local_epsilon and an epsilon below it where its delta(epsilon) <= delta"

# Above, γ n < 1e-6 for every n and k the library accepts, and the curves exceed 1 everywhere.
# Below, squares are no longer floats.
LARGEST_LOCAL_EPSILON = 100.0
SMALLEST_LOCAL_EPSILON = 1e-100

# log1p keeps its digits below this; above it, the plain logarithm does.
_SMALL = 0.5


@dataclass(frozen=True, kw_only=True)
class LossBounds:
    """What is known about L at one ε: L <= ceiling, its width, and E[L²] <= second_moment."""

    ceiling: float
    width: float
    second_moment: float


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """A blanket share γ, its complement ``rest`` = 1 − γ, and the bounds on L as ε varies."""

    gamma: float
    rest: float
    loss: Callable[[float], LossBounds]

    def log_transform(self, exponent: float) -> float:
        """Return log E[e^(−exponent·B)] of one user's B ~ Bern(γ)."""
        missing = -self.gamma * math.expm1(-exponent)
        if missing < _SMALL:
            return math.log1p(-missing)
        return math.log(self.rest + self.gamma * math.exp(-exponent))


class LogDelta(Protocol):
    """One of the paper's curves: log δ(ε) for a blanket and n users."""

    def __call__(self, epsilon: float, *, blanket: Mechanism, n: int) -> float:
        """Return log δ(ε), for 0 < ε < ε0."""


def epsilon_on(curve: LogDelta, query: Query, *, bound: str) -> float:
    """Return the first ε below ε0 where the curve has come down to the query's δ."""
    epsilon = None
    if SMALLEST_LOCAL_EPSILON <= query.local_epsilon <= LARGEST_LOCAL_EPSILON:
        blanket = mechanism(query)
        epsilon = smallest_epsilon(
            lambda candidate: curve(candidate, blanket=blanket, n=query.n),
            local_epsilon=query.local_epsilon,
            delta=query.delta,
        )
    if epsilon is None:
        raise out_of_regime(bound, CONDITION, query)
    return epsilon


def mechanism(query: Query) -> Mechanism:
    """Return what the query says about its randomizer."""
    if query.mechanism == "laplace":
        return laplace(local_epsilon=query.local_epsilon)
    if query.k is not None:
        return randomized_response(local_epsilon=query.local_epsilon, k=query.k)
    return generic(local_epsilon=query.local_epsilon)


def generic(*, local_epsilon: float) -> Mechanism:
    """Any ε0-DP randomizer; e (x²+1) − 2x e^−3 is written as e (x−1)² + 2x e^−3 (e⁴−1)."""
    e = math.exp(local_epsilon)

    def loss(epsilon: float) -> LossBounds:
        x = math.exp(epsilon)
        return LossBounds(
            ceiling=x / e * math.expm1(2 * local_epsilon - epsilon),
            width=(x + 1) * 2 * math.sinh(local_epsilon),
            second_moment=e * math.expm1(epsilon) ** 2
            + 2 * x * math.expm1(4 * local_epsilon) / e**3,
        )

    return Mechanism(gamma=1 / e, rest=-math.expm1(-local_epsilon), loss=loss)


def randomized_response(*, local_epsilon: float, k: int) -> Mechanism:
    """k-ary randomized response: L is k/(e+k−1) times e−x, 1−ex, or (k−2 times) 1−x."""
    scale = math.exp(local_epsilon) + k - 1
    gamma = k / scale

    def loss(epsilon: float) -> LossBounds:
        x = math.exp(epsilon)
        up = x * math.expm1(local_epsilon - epsilon)
        down = math.expm1(local_epsilon + epsilon)
        still = math.expm1(epsilon)
        squares = up * up + down * down + (k - 2) * still * still
        return LossBounds(
            ceiling=gamma * up, width=gamma * (up + down), second_moment=gamma**2 * squares / k
        )

    return Mechanism(gamma=gamma, rest=math.expm1(local_epsilon) / scale, loss=loss)


def laplace(*, local_epsilon: float) -> Mechanism:
    """Laplace noise of scale 1/ε0 on inputs in [0, 1].

    With s = e^(ε0/2), E[L²] <= (x²+1)(2s + s^−2)/3 − 2x (2/s − s^−2), written below as a sum of
    squares so that nothing cancels.
    """
    s = math.exp(local_epsilon / 2)
    s_less_1 = math.expm1(local_epsilon / 2)

    def loss(epsilon: float) -> LossBounds:
        x = math.exp(epsilon)
        own = s_less_1**2 * (2 * s + 1) / (3 * s * s)
        cross = (s_less_1 / s) ** 2
        return LossBounds(
            ceiling=x / s * math.expm1(local_epsilon - epsilon),
            width=(x + 1) * 2 * math.sinh(local_epsilon / 2),
            second_moment=math.expm1(epsilon) ** 2 + (x * x + 1) * own + 2 * x * cross,
        )

    return Mechanism(gamma=1 / s, rest=s_less_1 / s, loss=loss)
