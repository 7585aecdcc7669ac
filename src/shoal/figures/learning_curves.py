"""What a shuffler is worth to a chart: its error against n, beside a curator's and no shuffler's.

n people draw their answers from a distribution p, and the estimate is compared with p: there is an
error even without privacy. With ``v`` the variance of the estimated fraction of an answer given the
data, its total variance is ``p(1 - p)/n + v``; L2 is the root of their sum, and L1 (twice the
distance in total variation) is ``sqrt(2/pi)`` times the sum of their roots, as all of them are
nearly normal. The largest error is that of the counts of the people who took part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import numpy.typing as npt

from shoal import randomness as sources
from shoal.explain import plots
from shoal.explain.plots import Axis, Look
from shoal.figures.drawing import Curve, Panel, Row, figure
from shoal.mechanisms import registry
from shoal.mechanisms.base import CategoryRandomizer, Wanted
from shoal.mechanisms.estimators import expected_largest
from shoal.planning import errors, plan
from shoal.questions.domains import Cells
from shoal.questions.kinds import Choice
from shoal.randomness import Randomness
from shoal.values import Array

K = 20
EPSILON = 1.0
DELTA = 1e-6
_PEOPLE = Axis("people n", (10**3, 10**6))
RUNS = {10**3: 64, 10**4: 64, 10**5: 16, 10**6: 4}  # simulations, by the number of people

LOOKS = {
    "local": Look("no shuffler", plots.VERMILION),
    "shuffle": Look("shuffled", plots.BLUE, plots.SOLID, 2.6),
    "central": Look("trusted curator", plots.GREEN),
    "non-private": Look("no privacy", plots.BLACK, plots.DOTTED, 1.8),
}
NORMS = ("l1", "l2", "linf")
# The distribution of the answers, in whole numbers: the i-th has about 1/i of the first.
WEIGHTS = np.rint(10**6 / np.arange(1, K + 1)).astype(np.uint64)
TRUTH: Array = WEIGHTS / WEIGHTS.sum()

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Model:
    """Variances of the estimates given the data, their largest error, and a simulation."""

    variances: Array
    largest: float
    estimate: Callable[[Codes, Randomness], Array]


def _best_local(n: int) -> CategoryRandomizer:
    """The randomizer with the least L2 error at a local epsilon of ``EPSILON``."""
    wanted = Wanted(domain=Cells(K), n=n)
    kinds = registry.fitting(wanted.domain, several=False)
    tried = [each for kind in kinds for each in kind.candidates(wanted)]
    families = [each.family for each in tried if each.family]
    made = [cast("CategoryRandomizer", family(epsilon=EPSILON)) for family in families]
    return min(made, key=lambda randomizer: randomizer.estimator.errors(n).l2)


def _reporting(randomizer: CategoryRandomizer, n: int) -> Model:
    """Everybody's device runs the randomizer."""
    variances = randomizer.variance(TRUTH, n=n)

    def estimate(codes: Codes, randomness: Randomness) -> Array:
        messages = randomizer.randomize(codes, randomness=randomness)
        return randomizer.estimate(randomizer.tally(messages)).frequencies

    return Model(variances, expected_largest(n * np.sqrt(variances)), estimate)


def _curator(n: int) -> Model:
    """Discrete Laplace noise on every count; replacing an answer changes two of them by 1."""
    floor = errors.central(K, 2, EPSILON)

    def estimate(codes: Codes, randomness: Randomness) -> Array:
        noise = _geometric(randomness) - _geometric(randomness)
        return _fractions(codes) + noise / codes.size

    return Model(np.full(K, (floor.cell / n) ** 2), floor.linf, estimate)


def _geometric(randomness: Randomness) -> Array:
    """K geometric numbers with ratio e^(-EPSILON/2), good enough for a simulation."""
    uniform = (randomness.below(1 << 53, K) + np.uint64(1)) / 2.0**53
    return np.floor(np.log(uniform) / (-EPSILON / 2))


def _predicted(model: Model, n: int) -> tuple[float, float, float]:
    variances = TRUTH * (1 - TRUTH) / n + model.variances
    l1 = math.sqrt(2 / math.pi) * float(np.sqrt(variances).sum())
    return l1, math.sqrt(float(variances.sum())), model.largest


def _measured(models: Mapping[str, Model], n: int) -> Row:
    """The same from a few runs: means, of L2 the root of the mean square."""
    randomness = sources.simulated(n)
    runs: dict[str, list[tuple[float, float, float]]] = {name: [] for name in models}
    for _ in range(RUNS[n]):
        codes = randomness.weighted(WEIGHTS, n)
        for name, model in models.items():
            estimate = model.estimate(codes, randomness)
            off = estimate - TRUTH
            largest = n * float(np.abs(estimate - _fractions(codes)).max())
            runs[name].append((float(np.abs(off).sum()), float(off @ off), largest))
    row: Row = {}
    for name, values in runs.items():
        l1, square, largest = np.mean(values, axis=0).tolist()
        numbers = zip(NORMS, (l1, math.sqrt(square), largest), strict=True)
        row |= {f"{norm}-{name}": value for norm, value in numbers}
    return row


def _fractions(codes: Codes) -> Array:
    return np.asarray(np.bincount(codes, minlength=K) / codes.size)


def _curves(norm: str, marker: str, thin: float = 1.0) -> list[Curve]:
    """Predicted as lines, measured as marks."""
    looks = {
        name: replace(look, width=thin * look.width)
        for name, look in LOOKS.items()
        if norm != "linf" or name != "non-private"
    }
    lines = [Curve(f"{norm}-{name}", look) for name, look in looks.items()]
    return lines + [
        Curve(f"{norm}-{name}-measured", Look("_", look.color, plots.NO_LINE, marker=marker))
        for name, look in looks.items()
    ]


@figure(
    7,
    Panel(
        "n",
        _PEOPLE,
        Axis("", (5e-4, 5)),
        [*_curves("l1", "o"), *_curves("l2", "s", 0.6)],
        "error of the distribution: L1 (thick, ●), L2 (thin, ■)",
    ),
    Panel(
        "n",
        _PEOPLE,
        Axis("", (2, 2e4)),
        _curves("linf", "o"),
        "largest error of a count, in people",
        names="upper left",
        legend=list(LOOKS.values()),
    ),
)
def learning_curves(points: int) -> Iterator[Row]:
    """A good local randomizer and a shuffler learn almost as well as a trusted curator.

    n = 10³ to 10⁶ draws among k = 20 answers, the i-th with probability ∝ 1/i; ε = 1, δ = 10⁻⁶.
    Settings chosen by us. Lines: predicted; marks: means of 4 simulations or more. No shuffler:
    the best randomizer at ε₀ = 1; shuffled: the recommended one; curator: discrete Laplace
    noise. After Section 5.1 of Feldman, McMillan, Talwar, “Hiding Among the Clones”, FOCS 2021,
    arXiv 2012.12803, and Canonne, “Privacy Doona”, differentialprivacy.org.
    """
    # Predicted errors everywhere, measured ones at the powers of ten.
    sizes = {round(n) for n in np.geomspace(*_PEOPLE.limits, points)}
    for n in sorted(sizes | set(RUNS)):
        shuffled = plan(Choice("answer", K), epsilon=EPSILON, delta=DELTA, n=n)
        models = {
            "local": _reporting(_best_local(n), n),
            "shuffle": _reporting(cast("CategoryRandomizer", shuffled.randomizer), n),
            "central": _curator(n),
            "non-private": Model(np.zeros(K), 0.0, lambda codes, _: _fractions(codes)),
        }
        row: Row = {"n": n, "k": K, "epsilon": EPSILON, "delta": DELTA}
        row["local_epsilon"] = shuffled.recommended.local_epsilon
        measured = _measured(models, n) if n in RUNS else {}
        for name, model in models.items():
            for norm, predicted in zip(NORMS, _predicted(model, n), strict=True):
                row[f"{norm}-{name}"] = predicted
                row[f"{norm}-{name}-measured"] = measured.get(f"{norm}-{name}")
        yield row
