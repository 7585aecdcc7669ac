"""BBGN19: the privacy blanket with Hoeffding's and with Bennett's inequality.

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
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from shoal.accounting.catalog import Citation, Entry, Query
from shoal.accounting.search import least

# Above, γ n < 1e-6 for every n and k the library accepts, and the curves exceed 1 everywhere.
# Below, squares are no longer floats.
LARGEST_LOCAL_EPSILON = 100.0
SMALLEST_LOCAL_EPSILON = 1e-100

# log1p keeps its digits below this; above it, the plain logarithm does.
_SMALL = 0.5
# The curve must lie below the target by this much in log δ: more than its own rounding.
LOG_MARGIN = 1e-9

_DECADES = 15.0
_POINTS = 400
_LAST_FRACTION = 1 - 1e-6
_BISECTIONS = 45
_SERIES_BELOW = 1e-3
_LOG_TINY = -25.0


class LossBounds(NamedTuple):
    """What is known about L at one ε: L <= ceiling, its width, and E[L²] <= second_moment."""

    ceiling: float
    width: float
    second_moment: float


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """A blanket fraction γ, its complement ``rest`` = 1 − γ, and the bounds on L as ε varies."""

    gamma: float
    rest: float
    loss: Callable[[float], LossBounds]

    def log_transform(self, exponent: float) -> float:
        """Return log E[e^(−exponent·B)] of one user's B ~ Bern(γ)."""
        missing = -self.gamma * math.expm1(-exponent)
        if missing < _SMALL:
            return math.log1p(-missing)
        return math.log(self.rest + self.gamma * math.exp(-exponent))


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
        ceiling = x / e * math.expm1(2 * local_epsilon - epsilon)
        width = (x + 1) * 2 * math.sinh(local_epsilon)
        squares = e * math.expm1(epsilon) ** 2 + 2 * x * math.expm1(4 * local_epsilon) / e**3
        return LossBounds(ceiling, width, squares)

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
        return LossBounds(gamma * up, gamma * (up + down), gamma**2 * squares / k)

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
        ceiling = x / s * math.expm1(local_epsilon - epsilon)
        width = (x + 1) * 2 * math.sinh(local_epsilon / 2)
        squares = math.expm1(epsilon) ** 2 + (x * x + 1) * own + 2 * x * cross
        return LossBounds(ceiling, width, squares)

    return Mechanism(gamma=1 / s, rest=s_less_1 / s, loss=loss)


def hoeffding_log_delta(epsilon: float, *, blanket: Mechanism, n: int) -> float:
    """Hoeffding: with width r of the range of L and a = e^ε − 1, for 0 < ε < ε0,

        δ(ε) = r²/(4 a γ n) · (1 − γ (1 − e^(−2a²/r²)))^n.

    Proof, as followed here. Given M = m, Hoeffding gives Pr[ΣL >= t] <= exp(−2(ma+t)²/(m r²)), at
    most exp(−2m a²/r²) exp(−4at/r²); integrating over t > 0 bounds E[(ΣL)_+] by
    r²/(4a) exp(−2m a²/r²), and the mean of that over M is the power above. No condition is needed;
    there is nothing to say when the curve stays above δ all the way to ε0.
    """  # noqa: D415 - a formula follows
    a = math.expm1(epsilon)
    width = blanket.loss(epsilon).width
    front = 2 * math.log(width) - math.log(4 * a * blanket.gamma * n)
    return front + n * blanket.log_transform(2 * (a / width) ** 2)


def bennett_log_delta(epsilon: float, *, blanket: Mechanism, n: int) -> float:
    """Bennett: with L <= b, E[L²] <= c, a = e^ε − 1, u = a b/c and φ(u) = (1+u) log(1+u) − u,

        δ(ε) = b/(γ n log(1+u)) · ((1 − γ + γ e^−s)^n − (1 − γ)^n),          s = (c/b²) φ(u).

    Proof, as followed here. (e^y − 1 − y)/y² increases, so
    E[e^(λL)] <= exp(−λa + (c/b²)(e^(λb)−1−λb)) with the *second moment* c (the published statement
    has a misprint there). Choose e^(λb) = 1 + u: given M = m >= 1, Pr[ΣL >= t] <= e^(−ms − λt), so
    E[(ΣL)_+] <= e^(−ms)/λ. The mean over M >= 1 is the bracket. No condition is needed.
    """  # noqa: D415 - a formula follows
    b, _, c = blanket.loss(epsilon)
    u = math.expm1(epsilon) * b / c
    s = c / b**2 * _phi(u)
    front = math.log(b) - math.log(math.log1p(u)) - math.log(blanket.gamma * n)
    # log(1 − (1−γ)^n / (1−γ+γe^−s)^n), the factor that leaves M = 0 out; 1 − (1+y)^−n <= n y.
    log_odds = math.log(blanket.gamma) - math.log(blanket.rest) - s
    someone = math.log(n) + log_odds
    if someone >= _LOG_TINY:
        someone = math.log(-math.expm1(-n * math.log1p(math.exp(log_odds))))
    return front + n * blanket.log_transform(s) + someone


def _phi(u: float) -> float:
    # The series stops after a negative term, so it stays below φ: the safe side.
    if u < _SERIES_BELOW:
        return u * u * (1 / 2 - u * (1 / 6 - u * (1 / 12 - u / 20)))
    return (1 + u) * math.log1p(u) - u


def smallest_epsilon(
    log_delta: Callable[[float], float], *, local_epsilon: float, delta: float
) -> float | None:
    """Return the first ε below ε0 at which the curve has come down to δ, or None.

    The interval (0, ε0) is walked geometrically, so that a curve which rises again is still met
    on its first descent; the crossing is then bisected, keeping the end where the curve holds.
    """
    target = math.log(delta) - LOG_MARGIN

    def reached(epsilon: float) -> bool:
        return log_delta(epsilon) <= target

    below = 0.0
    for index in range(_POINTS + 1):
        epsilon = _LAST_FRACTION * 10 ** (-_DECADES * (1 - index / _POINTS)) * local_epsilon
        if reached(epsilon):
            return least(reached, below, epsilon, steps=_BISECTIONS) if below else epsilon
        below = epsilon
    return None


def _epsilon(log_delta: Callable[..., float], query: Query) -> float | None:
    """The first ε below ε0 where one of the two curves has come down to the query's δ."""
    if not SMALLEST_LOCAL_EPSILON <= query.local_epsilon <= LARGEST_LOCAL_EPSILON:
        return None
    curve = partial(log_delta, blanket=mechanism(query), n=query.n)
    return smallest_epsilon(curve, local_epsilon=query.local_epsilon, delta=query.delta)


_PAPER = Citation(
    "B. Balle, J. Bell, A. Gascón, K. Nissim",
    "The Privacy Blanket of the Shuffle Model",
    "CRYPTO 2019",
    "1903.02837",
    "the privacy-blanket lemma with Hoeffding's inequality",
)
hoeffding = Entry(
    "bbgn19-hoeffding",
    "Privacy blanket, Hoeffding",
    _PAPER,
    partial(_epsilon, hoeffding_log_delta),
    regime="1e-100 <= local_epsilon and an epsilon below it where its delta(epsilon) <= delta",
    scope="one fixed ε0-DP randomizer for all users; tighter for randomized response and Laplace",
)
bennett = replace(
    hoeffding,
    name="bbgn19-bennett",
    title="Privacy blanket, Bennett",
    citation=replace(_PAPER, theorem="the privacy-blanket lemma with Bennett's inequality"),
    evaluate=partial(_epsilon, bennett_log_delta),
)
