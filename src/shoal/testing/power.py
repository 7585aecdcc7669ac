"""Predicted power, and the distributions against which it is predicted.

Let M be the form of the statistic, Σ the covariance of one person's messages under the hypothesis,
Σ' that under an alternative, and δ the change of their mean. To leading order T/n is a quadratic
form of normal variables less its mean: with n' = n − 1 its cumulants are

    hypothesis    0,          2 tr((MΣ)²),                        8 tr((MΣ)³),
    alternative   n' δ'Mδ,    2 tr((MΣ')²) + 4n' δ'MΣ'Mδ,         8 tr((MΣ')³) + 24n' δ'MΣ'MΣ'Mδ.

Either is taken for a χ², shifted and scaled, with the same three cumulants (Pearson, Biometrika 46,
1959; Imhof, Biometrika 48, 1961). The third is not computed: tr(A³) is taken as tr(A²)²/tr(A), as
it is if all eigenvalues are equal (for the hypothesis that is Satterthwaite's χ², Biometrics
Bulletin 2, 1946), and δ'MΣ'MΣ'Mδ as (δ'MΣ'Mδ)²/δ'Mδ. Both are at most the truth. Two batches of n
and n' people are worth 1/(1/n + 1/n') in place of n − 1.

Measured for 158 made-up references (zeros and tiny probabilities among them), devices and distances
at powers from 0.2 to 0.95, 6000 trials each: within 3.5 points for 300 people or more, 5 for 100,
10 for 30. With fewer people the statistic has few different values and ties decide: predictions
were up to 7 points too low and 23 too high.

The threshold is taken as known. With 100/level simulations it nearly is; with fewer the power is
lower than predicted.

**The hardest alternatives.** A test with weights w sees Σ_j w_j d_j² of a departure d = p − q. At
total variation α, what is gained and what is lost sum to α each, and no answer loses more than the
q_j it has: an answer with q_j = 0 may only gain. Which d has the least signal?

**Which answers lose.** Let u_j = 1/w_j. For given answers that gain, the cheapest gains are A u_j,
A such that they sum to α, and the cheapest losses min(q_j, B u_j), B such that they do. A and B are
the multipliers of the two sums. With x_+ = max(x, 0), duality gives for *every* departure

    Σ_j w_j d_j²  ≥  2α(A + B) − Σ_j max(A² u_j, B² u_j − w_j (B u_j − q_j)_+²)    for all A, B ≥ 0:

the two are what w_j d_j² falls below 2A d_j at most as a gain, and below 2B |d_j| as a loss of at
most q_j. The second, divided by u_j, is B² − (B − q_j w_j)_+², which grows with q_j w_j. So at the
best multipliers *the answers that lose are those with the largest q_j w_j*, and the hardest
departure is the best of the splits of the answers in that order, up to the one answer at the split.
If all answers that can lose 2αu_j/Σu have half of all u, then A = B = 2α/Σu, the bound is that of
Cauchy and Schwarz, 4α²/Σu, and which of those answers gain does not matter. For uniform q this is
every half of the answers: Paninski's alternatives (IEEE Trans. Inf. Theory 54, 2008).

**Public coins** add up the answers of a bin. On average over the coins the signal is Σ_j w_j d_j²,
w_j being the mean weight of the bin of j, and terms of pairs d_i d_j in one bin. These are positive
if rare answers gain and frequent ones lose, since bins with more frequent answers weigh less. So it
can be harder to notice if a part of the frequent answers gains too: a family of splits is tried.
And a bin may cancel what it adds up. If one answer loses what another one gains, nothing at all is
seen of it, whatever n, by the coins that put both into one bin; so that is tried as well.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from shoal.testing.scores import Departure, Spread
from shoal.values import Array

GAINING = (0.0, 0.25, 0.5)  # of the answers that can lose
_ROUNDING = 1e-12


def predicted(null: Spread, departure: Departure, *, people: float, level: float) -> Array:
    """The probability to reject where people depart like this, for each of these departures."""
    freedom = null.freedom
    threshold = null.scale * (special.chdtri(freedom, level) - freedom)
    signal, noise = departure.signal, departure.noise
    slope = np.divide(noise, signal, out=np.zeros_like(noise), where=signal > 0)
    second = departure.spread.square + 2 * people * noise
    third = departure.spread.square * departure.spread.scale + 3 * people * noise * slope
    shape = second**3 / third**2
    above = (threshold - people * signal) * np.sqrt(shape / second)
    return special.chdtrc(shape, np.maximum(shape + above, 0.0))


def largest(n: int, *, distance: float, level: float) -> float:
    """No test has more power: level + 1 − (1 − α)^n.

    n people of either distribution can be drawn so that they all agree with probability (1 − α)^n.
    """
    return min(1.0, level - math.expm1(n * math.log1p(-distance)))


def effective(n: int, other: int | None = None) -> float:
    """What n people are worth: n − 1, or 1/(1/n + 1/n') beside another batch."""
    return n - 1 if other is None else 1 / (1 / n + 1 / other)


# ------------------------------------------------------------------------- the hardest alternatives


def alternatives(reference: Array, distance: float, *, weights: Array, public: bool) -> Array:
    """Alternatives at exactly this distance among which the hardest is sought, as rows."""
    gaining = GAINING[:: 1 if public else 2] if np.ptp(reference) else GAINING[-1:]  # or all alike
    rows = [hardest(reference, distance, weights=weights, gaining=part) for part in gaining]
    return np.array([*rows, concentrated(reference, distance)] if public else rows)


def hardest(reference: Array, distance: float, *, weights: Array, gaining: float = 0.0) -> Array:
    """The alternative of least Σ w d² where the answers up to some q w gain, and some beyond it.

    ``gaining`` is the fraction of those beyond that gain, evenly spread over them; none do if
    the rest of them cannot lose so much.
    """
    order = np.argsort(reference * weights, kind="stable")
    mass, reach = reference[order], 1 / weights[order]
    rank = np.arange(mass.size)[::-1]
    losing = np.floor((rank + 1) * gaining) == np.floor(rank * gaining)
    # Beyond a split at m, losses are all there is up to c and B u from there on.
    lost = _before(np.where(losing, mass, 0.0))
    spent = _before(np.where(losing, mass**2 / reach, 0.0))
    reachable = _after(np.where(losing, reach, 0.0))
    gain = _before(reach)[:-1] + _after(np.where(losing, 0.0, reach))[:-1]
    full = lost[:-1] + mass / reach * reachable[:-1]  # lost if everything is up to c; never falls
    places = np.arange(mass.size)
    wanted = distance * (1 - _ROUNDING) + lost[:-1]
    cut = np.maximum(np.searchsorted(full, wanted), places)
    possible = (cut < mass.size) & (gain > 0)
    cut = np.minimum(cut, mass.size - 1)
    rest = distance - (lost[cut] - lost[:-1])
    level = rest / np.where(reachable[cut] > 0, reachable[cut], np.inf)
    cost = spent[cut] - spent[:-1] + level**2 * reachable[cut]
    cost += distance**2 / np.where(gain > 0, gain, np.inf)
    best = int(np.where(possible, cost, np.inf).argmin())
    if not possible[best]:
        if gaining:
            return hardest(reference, distance, weights=weights)
        return concentrated(reference, distance)  # which reaches the largest distance there is
    losing &= places >= best
    losses = np.where(losing, np.where(places < cut[best], mass, level[best] * reach), 0.0)
    gains = np.where(losing, 0.0, reach)
    moved = np.empty_like(mass)
    moved[order] = distance * (gains / gains.sum() - losses / losses.sum())
    return np.maximum(reference + moved, 0.0)


def concentrated(reference: Array, distance: float) -> Array:
    """The most frequent answers lose what they have, as few as can; the next one gains it all."""
    order = np.argsort(-reference, kind="stable")
    mass = reference[order]
    losses = np.clip(distance - _before(mass)[:-1], 0.0, mass)
    moved = -losses
    moved[min(int(np.count_nonzero(losses)), mass.size - 1)] += losses.sum()
    probabilities = reference.copy()
    probabilities[order] += moved
    return probabilities


def _before(values: Array) -> Array:
    """Sums of the values before every place, and of all."""
    return np.concatenate([[0.0], np.cumsum(values)])


def _after(values: Array) -> Array:
    """Sums of the values from every place on, and 0."""
    return _before(values[::-1])[::-1]
