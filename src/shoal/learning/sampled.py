"""Steps that draw their examples anew: with replacement between steps, or by Poisson sampling.

*With replacement*: each step draws ``batch`` of the n examples, uniformly and independently of
other steps (distinct ones within a step). With q = batch/n, replace-one and mu = 2/noise, one step
has the curve

    D_{1 + q (y - 1)} <= q D_y(N(0, 1), N(mu, 1)),   y >= 1

(Balle, Barthe, Gaboardi, "Privacy Amplification by Subsampling", NeurIPS 2018, arXiv 1807.01647,
Theorem 11). *Poisson*: each example takes part with probability q, independently. Adding or
removing one example, mu = 1/noise, the pair (1 - q) N(0, 1) + q N(mu, 1) against N(0, 1) dominates
a step, in both orders (Zhu, Dong, Wang, AISTATS 2022, arXiv 2106.08567, Theorem 11). Replacing one,
the pair (1 - q) N(0, 1) + q N(mu, 1) against (1 - q) N(0, 1) + q N(-mu, 1) does (proved in
docs/theory/permuted-sgd.md). Everything is composed by :mod:`shoal.learning.many_steps`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from shoal.accounting import gaussian
from shoal.accounting.atoms import Array
from shoal.accounting.gaussian import Cells
from shoal.accounting.search import Side
from shoal.learning import many_steps
from shoal.learning.many_steps import StepLaw

_WIDTH = 0.05  # of a cell: costs about 2e-4 of epsilon
_LOST = 1e-5  # share of delta for outputs beyond the last cell
_DEEPEST = 37.0
_SMALLEST = 1e-290
_LARGEST_MU = 15.0  # with more, ratios are too large for floats and sampling saves nobody
_MOST_CELLS = 1_500
_ROUNDING = 1e-13  # of the mass of a cell: what differences of Phi may lose
_LARGE = 30.0
_LARGEST_TAIL = 0.15  # so that cells reach at least one deviation out
_EXPONENTS = tuple(0.25 * i for i in range(2, 57))


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """What is accounted for: so many steps, each on this share of the examples."""

    noise: float
    rate: float
    steps: int
    delta: float

    @property
    def beyond(self) -> float:
        """The divergence, before sampling, of outputs that may be cut off a step."""
        return _LOST * self.delta / (self.steps * self.rate)


def replacement_epsilon(asked: Drawn) -> float:
    """epsilon of all steps, replacing one example. Never above no sampling."""
    return _composed(asked, 2 / asked.noise, lambda **step: (replacement_law(**step),))


def poisson_epsilon(asked: Drawn) -> float:
    """epsilon of all steps, adding or removing one example. Never above no sampling."""
    return _composed(asked, 1 / asked.noise, poisson_laws)


def poisson_replaced_epsilon(asked: Drawn) -> float:
    """epsilon of all Poisson-sampled steps, replacing one example. Never above no sampling."""
    return _composed(asked, 2 / asked.noise, lambda **step: (poisson_replaced_law(**step),))


def _composed(asked: Drawn, mu: float, laws: Callable[..., tuple[StepLaw, ...]]) -> float:
    """All steps under the worst of these laws; ``mu`` is what one step without sampling shows."""
    most = gaussian.epsilon(mu * math.sqrt(asked.steps), asked.delta)
    if asked.rate >= 1 or mu > _LARGEST_MU:
        return most
    made = laws(noise=asked.noise, rate=asked.rate, beyond=asked.beyond)
    return min(most, max(many_steps.epsilon(law, asked.steps, asked.delta) for law in made))


def published_epsilon(asked: Drawn) -> float:
    """Subsampling of one (eps0, delta0), then advanced composition; the best delta0.

    The analysis of Bassily, Smith, Thakurta, "Private Empirical Risk Minimization", FOCS 2014,
    arXiv 1405.7085, with exact constants: the analytic Gaussian mechanism for a step, and the
    composition of Kairouz, Oh, Viswanath 2015, arXiv 1311.0776, Theorem 3.5.
    """
    best = math.inf
    for exponent in _EXPONENTS:
        share = 10.0**-exponent  # of delta, for the deltas of the steps
        step_delta = min(0.5, share * asked.delta / (asked.rate * asked.steps))
        local = gaussian.epsilon(2 / asked.noise, step_delta)
        each = _subsampled(local, asked.rate)
        best = min(best, _advanced(each, asked.steps, (1 - share) * asked.delta))
    return best


def replacement_law(*, noise: float, rate: float, beyond: float) -> StepLaw:
    """The loss of one step with replacement; ``beyond`` is the divergence of what is cut off."""
    mu = 2 / noise
    cells = _cells(mu, mu / 2, beyond)
    ratios, masses, infinite = _split(cells, mu)
    growth = rate * (ratios - 1)
    growth[0] = 0.0  # the first cut is where both Gaussians are alike
    losses = np.log1p(growth)[1:]
    both = np.concatenate([masses[1:] * (1 + growth[1:]), masses[1:]])
    return StepLaw.of(np.concatenate([losses, -losses]), both, infinite=rate * infinite)


def poisson_laws(*, noise: float, rate: float, beyond: float) -> tuple[StepLaw, StepLaw]:
    """The loss of one Poisson-sampled step, in both orders."""
    mu = 1 / noise
    cells = _cells(mu, float(special.ndtri(max(beyond * rate, _SMALLEST))), beyond)
    ratios, masses, infinite = _split(cells, mu)
    # Below the first cut the ratio lies between 0 and its value there.
    (below, _), (below_shifted, _) = cells.tails(0.0), cells.tails(mu)
    raised = min(below, below_shifted / float(ratios[0]))
    masses[0] += raised
    growth = rate * (ratios - 1)
    losses = np.log1p(growth)
    left = (below - raised) * (1 - rate)  # where the ratio is as small as it can be
    removed = StepLaw.of(
        np.append(math.log1p(-rate), losses),
        np.append(left, masses * (1 + growth)),
        infinite=rate * infinite,
    )
    return removed, StepLaw.of(-losses, masses, infinite=below - raised)


def poisson_replaced_law(*, noise: float, rate: float, beyond: float) -> StepLaw:
    """The loss of one Poisson-sampled step when an example is replaced by its opposite.

    The pair is its own mirror image, so cells from 0 on are enough and both orders have one law.
    In each cell the ratio of the two mixtures is spread to its ends with both masses kept. Of what
    lies beyond the last cell, the second mixture's mass is given the ratio at the last cut.
    """
    mu = 1 / noise
    tail = min(max(beyond, _SMALLEST), _LARGEST_TAIL)
    cells = _cut(0.0, mu - float(special.ndtri(tail)), 2 * mu)
    apart = 2 * math.exp(-(mu**2) / 2) * np.sinh(mu * cells.edges)  # ratios of the two Gaussians
    excess = rate * apart / (1 + rate * (cells.ratios(-mu) - 1))  # of the mixtures' ratio, over 1
    alone, near, far = cells.masses(0.0), cells.masses(mu), cells.masses(-mu)
    weights = (1 - rate) * alone + rate * far
    gained = rate * (near - far) - excess[:-1] * weights + _ROUNDING * rate * (near + far)
    raised = np.clip(gained / np.diff(excess), 0.0, weights)
    masses = np.append(weights - raised, 0.0) + np.append(0.0, raised)
    (_, above), (_, above_near), (_, above_far) = map(cells.tails, (0.0, mu, -mu))
    masses[-1] += (1 - rate) * above + rate * above_far
    losses = np.log1p(excess)[1:]
    both = np.concatenate([masses[1:] * (1 + excess[1:]), masses[1:]])
    return StepLaw.of(np.concatenate([losses, -losses]), both, infinite=rate * above_near)


def _subsampled(local: float, rate: float) -> float:
    """log(1 + q (e^local - 1)), also where it is tiny or e^local too large for a float."""
    if local < _LARGE:
        return math.log1p(rate * math.expm1(local))
    return local + math.log(rate + (1 - rate) * math.exp(-local))


def _advanced(each: float, steps: int, slack: float) -> float:
    """Kairouz, Oh, Viswanath: so many steps of ``each``, at the price of ``slack``."""
    drift = steps * each * math.tanh(each / 2)
    squares = steps * each**2
    logs = min(math.log(1 / slack), math.log(math.e + math.sqrt(squares) / slack))
    return min(steps * each, drift + math.sqrt(2 * squares * logs))


def _cells(mu: float, low: float, beyond: float) -> Cells:
    return _cut(low, mu + _depth(mu, beyond), mu)


def _cut(low: float, high: float, mu: float) -> Cells:
    width = max(_WIDTH * min(1.0, 1 / mu), (high - low) / _MOST_CELLS)
    return Cells.between(low, high, width)


def _depth(mu: float, beyond: float) -> float:
    """How many deviations out N(mu, 1) may be cut off at the price of ``beyond``."""
    if beyond >= 0.5:
        return 1.0 + mu
    at = gaussian.epsilon(mu, max(beyond, _SMALLEST), side=Side.UPPER)
    return min(max(1.0, at / mu - mu / 2), _DEEPEST)


def _split(cells: Cells, mu: float) -> tuple[Array, Array, float]:
    """Ratios at the cuts and the N(0, 1)-mass each gets; what is left of N(mu, 1) at the end."""
    ratios, weights, raised = cells.ratios(mu), cells.masses(0.0), cells.raised(mu)
    masses = np.append(weights - raised, 0.0) + np.append(0.0, raised)
    (_, above), (_, above_shifted) = cells.tails(0.0), cells.tails(mu)
    masses[-1] += above
    return ratios, masses, max(0.0, above_shifted - float(ratios[-1]) * above)
