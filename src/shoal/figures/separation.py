"""What several messages are worth: the largest error of a histogram, against d and against n.

Without a shuffler it grows with √n and with √log d. With one message each it grows with √d or with
n^(1/4), whichever is less, because an answer that many gave is made noisy by all who gave it. With
several messages the noise of a count does not depend on who gave the answer, and the zero rule
reports answers that nobody gave as exactly 0: the largest error depends on neither.

One answer holds half of the people. Each further one has 0.8 times as many as the one before, down
to a single person, so that answers of every size are there; all others were given by nobody. What
else is possible than these data is in the claim for all data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from shoal import randomness as sources
from shoal.accounting.amplification import local_epsilon
from shoal.figures import marks, style
from shoal.figures.drawing import CHOSEN, Drawing
from shoal.figures.style import Look
from shoal.figures.table import Table, Value
from shoal.planning import errors
from shoal.protocols.dummies import UniformDummies
from shoal.protocols.zero_sum import Withheld, ZeroSumHistogram
from shoal.randomizers.base import CategoryRandomizer
from shoal.randomizers.hashing import LocalHashing
from shoal.randomizers.response import RandomizedResponse

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EPSILON = 1.0
DELTA = 1e-6
BETA = 0.05
FIXED_N, FIXED_D = 10**6, 10**4
ANSWERS = (64, 10**6)
PEOPLE = (10**5, 10**8)
MOST_SIMULATED = 10**6  # people and answers, in one simulation
RUNS = 16
_LARGEST_LOCAL_EPSILON = 25.0

LOOKS = {
    "local": Look("no shuffler", style.VERMILION),
    "published": Look("zero-sum,\npublished noise", style.PURPLE, style.DASHED),
    "single": Look("one message each", style.BLUE, style.SOLID, 2.2),
    "claim": Look("zero-sum,\n95 %, any data", style.PURPLE, style.DOTTED),
    "zero-sum": Look("zero-sum", style.PURPLE, style.SOLID, 2.6),
    "dummies": Look("uniform dummies", style.ORANGE),
    "central": Look("trusted curator", style.GREEN),
}

Whole = npt.NDArray[np.int64]


def people_of(n: int, d: int) -> Whole:
    """How many of n people gave each of d answers."""
    tail = np.floor(0.1 * n * 0.8 ** np.arange(min(d - 1, 128))).astype(np.int64)
    given = np.zeros(d, dtype=np.int64)
    given[1 : 1 + tail.size] = tail
    given[0] = n - tail.sum()
    return given


def tabulate(points: int) -> Table:
    """The predicted largest errors against d, then against n; zero-sum also measured."""
    ds = sorted({round(d) for d in np.geomspace(*ANSWERS, points)})
    ns = sorted({round(n) for n in np.geomspace(*PEOPLE, points)})
    return Table.of([_row(0, FIXED_N, d) for d in ds] + [_row(1, n, FIXED_D) for n in ns])


def _row(panel: int, n: int, d: int) -> dict[str, Value]:
    exact = ZeroSumHistogram.calibrated(k=d, n=n, epsilon=EPSILON, delta=DELTA)
    published = ZeroSumHistogram.published(k=d, n=n, epsilon=EPSILON, delta=DELTA)
    dummies = UniformDummies.calibrated(k=d, n=n, epsilon=EPSILON, delta=DELTA)
    noise = n * math.sqrt(float(dummies.variance(0.0, n=n)))
    unaided = errors.local(2, EPSILON, n).cell
    return {
        "panel": panel,
        "n": n,
        "d": d,
        "epsilon": EPSILON,
        "delta": DELTA,
        "local": errors.expected_largest(np.full(d, unaided)),
        "single": single_message(n, d),
        "published": by_the_zero_rule(people_of(n, d), published.gamma),
        "claim": n * exact.accuracy(n, BETA),
        "zero-sum": by_the_zero_rule(people_of(n, d), exact.gamma),
        "zero-sum-measured": measured(exact, n),
        "dummies": errors.expected_largest(np.full(d, noise)),
        "central": errors.central(d, EPSILON).linf,
    }


def single_message(n: int, d: int) -> float:
    """The least largest error with one message each: of randomized response and local hashing.

    About √n buckets balance the two errors of hashing: other answers in the same bucket, and lies
    of those who gave a frequent answer.
    """
    middle = math.log2(n) / 2
    buckets = {2 ** math.floor(middle), 2 ** math.ceil(middle)}
    response = RandomizedResponse(k=d, epsilon=_affordable_response(n, d))
    tried: list[CategoryRandomizer] = [response]
    tried += [LocalHashing(k=d, buckets=b, epsilon=_affordable_hashing(n, b)) for b in buckets]
    shares = people_of(n, d) / n
    return min(errors.expected_largest(n * np.sqrt(r.variance(shares, n=n))) for r in tried)


def _affordable_response(n: int, d: int) -> float:
    return local_epsilon(
        lambda *, epsilon: RandomizedResponse(k=d, epsilon=epsilon),
        epsilon=EPSILON,
        delta=DELTA,
        n=n,
        cap=_LARGEST_LOCAL_EPSILON,
    )


@lru_cache(maxsize=32)
def _affordable_hashing(n: int, buckets: int) -> float:
    """The same for every number of answers: what is shuffled are functions and buckets."""
    return local_epsilon(
        lambda *, epsilon: LocalHashing(k=buckets, buckets=buckets, epsilon=epsilon),
        epsilon=EPSILON,
        delta=DELTA,
        n=n,
        cap=_LARGEST_LOCAL_EPSILON,
    )


def by_the_zero_rule(given: Whole, gamma: float) -> float:
    """E max of the errors of independent answers, exactly.

    An answer of s people is off by |B − nγ| if B < s, and by s itself if it is hidden.
    """
    noise = Withheld.of(int(given.sum()), gamma)
    withheld, chances = noise.window.counts, noise.window.pmf
    shown = np.abs(withheld - noise.mean)
    sizes, times = np.unique(given[given > 0], return_counts=True)
    off = np.where(withheld < sizes[:, None], shown, sizes[:, None])  # (sizes, withheld)
    steps = np.unique(np.append(off, 0.0))
    within = np.ones(steps.size)
    for errors_of_one, count in zip(off, times, strict=True):
        law = np.bincount(
            np.searchsorted(steps, errors_of_one), weights=chances, minlength=steps.size
        )
        within *= np.minimum(np.cumsum(law), 1.0) ** count
    return float((1 - within[:-1]) @ np.diff(steps))


def measured(protocol: ZeroSumHistogram, n: int) -> float | None:
    """The mean of the largest error in a few simulations, where they are cheap."""
    if max(n, 10 * protocol.k) > MOST_SIMULATED:
        return None
    randomness = sources.simulated(n + protocol.k)
    given = people_of(n, protocol.k)
    answers = np.repeat(np.arange(protocol.k), given)
    found = [
        protocol.estimate(protocol.simulate_counts(answers, randomness=randomness)).counts
        for _ in range(RUNS)
    ]
    return float(np.mean([np.abs(counts - given).max() for counts in found]))


def draw(table: Table, axes: Sequence[Axes]) -> None:
    """Left, against the number of answers; right, against the number of people."""
    left, right = axes
    for panel, (axis, x) in enumerate(((left, "d"), (right, "n"))):
        rows = table.where("panel", panel)
        for name, look in LOOKS.items():
            marks.plot(axis, rows.curve(x, name), look)
        _dots(axis, rows.curve(x, "zero-sum-measured"))
        marks.log_y(axis, 5, 2e5)
    marks.log_x(left, *ANSWERS)
    marks.log_x(right, *PEOPLE)
    left.set_title("largest error of a count, in people")
    left.set_xlabel("possible answers d,  n = 10⁶ people")
    right.set_xlabel("people n,  d = 10⁴ possible answers")
    _note(left, (300, 72), "∝ √d", style.BLUE)
    _note(right, (3e6, 220), r"∝ $n^{1/4}$", style.BLUE)
    _note(left, (3e4, 8200), "∝ √log d", style.VERMILION)
    _note(right, (3e6, 13_400), "∝ √n", style.VERMILION)
    marks.label_ends(right, gap=0.075)


def _note(axes: Axes, at: tuple[float, float], text: str, color: str) -> None:
    """How a curve grows, written above it to the left of a point on it."""
    axes.annotate(
        text,
        at,
        xytext=(-2, 3),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=8.5,
        color=color,
    )


def _dots(axes: Axes, points: marks.Points) -> None:
    axes.plot(
        *points,
        "o",
        color=style.PURPLE,
        markersize=5,
        markeredgecolor="white",
        clip_on=False,
        label="_",
    )


DRAWING = Drawing(
    name="separation",
    title="Zero-sum noise: the largest error does not depend on how many answers there could be",
    caption=(
        "ε = 1, δ = 10⁻⁶. Half of the people gave one answer; each further answer has 0.8 times as "
        f"many, down to one person. {CHOSEN} Lines: expected largest error; marks: means of {RUNS} "
        "simulations. One message each: the better of randomized response and local hashing. "
        "Zero-sum: Balcer, Cheu, ITC 2020, arXiv 1911.06879, with the published and the least "
        "noise. Curator: discrete Laplace noise."
    ),
    points=9,
    tabulate=tabulate,
    draw=draw,
    panels=2,
    right=0.84,
)
