"""Privacy loss distributions of curves, and what floating point adds to their composition.

The samples of a curve become a pessimistic ``dp_accounting`` distribution by connecting the dots
(Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022, arXiv 2207.04380): legitimate for any convex
falling curve above the true one, and the largest convex function below certified samples is such
a curve. ``dp_accounting`` composes by FFT in floating point; the error beside a composition bounds
what that may hide, after Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed.,
Theorem 24.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from shoal import checks
from shoal.accounting.atoms import Array
from shoal.accounting.profile import Curve, Samples, convex_minorant, interpolated

CELLS_PER_SPREAD = 50
_FEWEST_CELLS = 10  # of a spread, on a grid that was not chosen for it
_THEIR_GRID = 1e-4  # of distributions that dp_accounting makes
_SAMPLES_PER_SPREAD = 20  # chords in between cost 2e-4 of a composed epsilon
LOST_MASS = 1e-18
_MOST_CELLS = 4_000_000
_TRUNCATED = 1e-15
_ROUNDED_UP = 1e-3
_FINE_SPREADS = 12  # beyond so many standard deviations of the loss a coarse curve will do
_COARSE_SAMPLES = 60
_LARGEST_LOSS = 700.0  # e^loss is a float: what is beyond counts as infinite
_UNIT = 2.0**-53
_FFT_CONSTANT = 8 * _UNIT


def natural_discretization(curve: Curve) -> float:
    """A grid fine enough to lose about 1e-4 of the loss's variance."""
    scales = (curve.spread, curve.local_epsilon, 1.0)
    return min(scale for scale in scales if scale > 0) / CELLS_PER_SPREAD


def common_grid(curve: Curve) -> float:
    """The grid of ``dp_accounting``, unless that is coarse for the curve."""
    natural = natural_discretization(curve)
    return _THEIR_GRID if CELLS_PER_SPREAD * natural >= _FEWEST_CELLS * _THEIR_GRID else natural


def distribution(curve: Curve, *, discretization: float | None = None) -> PrivacyLossDistribution:
    """The pessimistic distribution of the privacy loss of one round."""
    width = natural_discretization(curve) if discretization is None else discretization
    checks.positive(discretization=width)
    samples = _samples(curve)
    reach = samples.epsilons[-1]
    width = max(width, _coarsest(curve))
    cells = max(1, math.ceil(reach / width))
    steps = np.arange(-cells, cells + 1)
    epsilons = steps * width
    half = interpolated(samples, np.minimum(np.abs(epsilons), reach))
    x = np.exp(epsilons)
    # D_x(P, Q) = 1 - x + x D_{1/x}(Q, P), and the curve covers both orders.
    deltas = np.where(epsilons < 0, -np.expm1(epsilons) + x * half, half)
    # A loss that is infinite for certain cannot be composed: _UNIT of it is left out, and counted.
    convex = np.clip(convex_minorant(x, np.minimum(deltas, 1.0)), 0.0, 1.0 - _UNIT)
    convex = np.minimum.accumulate(convex)
    return PrivacyLossDistribution(
        pld_pmf.create_pmf_pessimistic_connect_dots(width, steps, convex)
    )


def least_error(terms: Sequence[tuple[Curve, int]]) -> float:
    """What floating point may hide at least, known before anything is composed.

    It is the part of ``_fft_error`` that does not need the power.
    """
    repeated = [(distribution(curve), rounds) for curve, rounds in terms if rounds > 1]
    return sum(_fft_error(single, single, rounds) / 3 for single, rounds in repeated)


def composed(
    terms: Sequence[tuple[Curve, int]], *, discretization: float | None = None
) -> tuple[PrivacyLossDistribution, float]:
    """Rounds of possibly different curves, composed on one common grid.

    With a bound on the delta that rounding may have hidden.
    """
    # In one order, whatever the order given: rounding must not tell them apart.
    terms = sorted(terms, key=lambda term: (natural_discretization(term[0]), term[1]))
    width = natural_discretization(terms[0][0]) if discretization is None else discretization
    width = max(width, *(_coarsest(curve) for curve, _ in terms))
    powers, error = [], 0.0
    for curve, rounds in terms:
        single = distribution(curve, discretization=width)
        powers.append(single if rounds == 1 else single.self_compose(rounds, _TRUNCATED))
        error += _fft_error(single, powers[-1], rounds) + rounds * _UNIT
    total, *others = powers
    for power in others:
        both = total.compose(power, _TRUNCATED)
        error += _fft_error(power, both, 1) + _fft_error(total, both, 1)
        total = both
    return total, error


def _coarsest(curve: Curve) -> float:
    """The finest grid that still fits into memory."""
    return 2 * float(_samples(curve).epsilons[-1]) / _MOST_CELLS


@lru_cache(maxsize=32)
def _samples(curve: Curve) -> Samples:
    """The curve up to where delta is negligible."""
    width = natural_discretization(curve)
    end = curve.epsilon(max(LOST_MASS, curve.smallest_delta * (1 + _ROUNDED_UP)))
    end = min(max(width, end), _LARGEST_LOSS)
    close = min(end, _FINE_SPREADS * CELLS_PER_SPREAD * width)
    spacing = width * CELLS_PER_SPREAD / _SAMPLES_PER_SPREAD
    fine = np.linspace(0.0, close, math.ceil(close / spacing) + 1)
    epsilons = np.unique(np.append(fine, np.linspace(close, end, _COARSE_SAMPLES)))
    return Samples(epsilons, curve.quick_deltas(epsilons))


def _fft_error(
    single: PrivacyLossDistribution, power: PrivacyLossDistribution, rounds: int
) -> float:
    """Bound on the l1 error of raising a pmf to a convolution power by FFT in double precision.

    Each transform has relative l2 error at most ``c u log2 N``; raising to the k-th power (all
    moduli are <= 1) multiplies it by k; the l1 norm is at most sqrt(N) times the l2 norm.
    """
    before, after = _probabilities(single), _probabilities(power)
    size = max(after.size, before.size, 2)
    transform = _FFT_CONSTANT * math.log2(2 * size)
    norms = rounds * (transform + _FFT_CONSTANT) * float(np.linalg.norm(before))
    norms += (transform + 2 * rounds * _FFT_CONSTANT) * float(np.linalg.norm(after))
    return math.sqrt(2 * size) * norms


def _probabilities(loss: PrivacyLossDistribution) -> Array:
    dense = loss._pmf_remove.to_dense_pmf()  # noqa: SLF001 - the library offers no public view
    return np.asarray(dense._probs, dtype=float)  # noqa: SLF001 - as above
