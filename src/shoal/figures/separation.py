"""What several messages buy, and why one message needs a δ: two figures.

The largest error of a histogram, against d and against n:

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
from collections.abc import Iterator
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from shoal import randomness as sources
from shoal.accounting.amplification import local_epsilon
from shoal.accounting.profile import PrivacyProfile
from shoal.explain import plots
from shoal.explain.plots import Axis, Look
from shoal.figures.drawing import Curve, Level, Panel, Row, figure
from shoal.intervals.laws import Withheld
from shoal.mechanisms.base import CategoryRandomizer
from shoal.mechanisms.dummies import UniformDummies
from shoal.mechanisms.estimators import expected_largest
from shoal.mechanisms.hashing import LocalHashing
from shoal.mechanisms.response import RandomizedResponse
from shoal.mechanisms.zero_sum import ZeroSumHistogram
from shoal.planning import errors

EPSILON = 1.0
DELTA = 1e-6
BETA = 0.05
FIXED_N, FIXED_D = 10**6, 10**4
ANSWERS = (64, 10**6)
PEOPLE = (10**5, 10**8)
MOST_SIMULATED = 10**6  # people and answers, in one simulation
RUNS = 16
_LARGEST_LOCAL_EPSILON = 25.0

Whole = npt.NDArray[np.int64]


def people_of(n: int, d: int) -> Whole:
    """How many of n people gave each of d answers."""
    tail = np.floor(0.1 * n * 0.8 ** np.arange(min(d - 1, 128))).astype(np.int64)
    people = np.zeros(d, dtype=np.int64)
    people[1 : 1 + tail.size] = tail
    people[0] = n - tail.sum()
    return people


def single_message(n: int, d: int) -> float:
    """The least largest error with one message each: of randomized response and local hashing.

    About √n buckets balance the two errors of hashing: other answers in the same bucket, and lies
    of those who gave a frequent answer.
    """
    middle = math.log2(n) / 2
    buckets = {2 ** math.floor(middle), 2 ** math.ceil(middle)}
    tried: list[CategoryRandomizer] = [
        RandomizedResponse(k=d, epsilon=_affordable(n, RandomizedResponse, k=d)),
        # The same ε₀ for every number of answers: what is shuffled are functions and buckets.
        *(
            LocalHashing(k=d, buckets=b, epsilon=_affordable(n, LocalHashing, k=b, buckets=b))
            for b in buckets
        ),
    ]
    fractions = people_of(n, d) / n
    return min(expected_largest(n * np.sqrt(r.variance(fractions, n=n))) for r in tried)


@lru_cache(maxsize=32)
def _affordable(n: int, family: type[CategoryRandomizer], **sizes: int) -> float:
    """The largest ε₀ of a randomizer of these sizes."""
    make = partial(family, **sizes)
    return local_epsilon(make, epsilon=EPSILON, delta=DELTA, n=n, cap=_LARGEST_LOCAL_EPSILON)


def by_the_zero_rule(people: Whole, gamma: float) -> float:
    """E max of the errors of independent answers, exactly.

    An answer of s people is off by |B − nγ| if B < s, and by s itself if it is hidden.
    """
    noise = Withheld.of(int(people.sum()), gamma)
    withheld, probabilities = noise.window.counts, noise.window.pmf
    shown = np.abs(withheld - noise.mean)
    sizes, times = np.unique(people[people > 0], return_counts=True)
    off = np.where(withheld < sizes[:, None], shown, sizes[:, None])  # (sizes, withheld)
    steps = np.unique(np.append(off, 0.0))
    within = np.ones(steps.size)
    for errors_of_one, count in zip(off, times, strict=True):
        law = np.bincount(
            np.searchsorted(steps, errors_of_one), weights=probabilities, minlength=steps.size
        )
        within *= np.minimum(np.cumsum(law), 1.0) ** count
    return float((1 - within[:-1]) @ np.diff(steps))


def measured(protocol: ZeroSumHistogram, n: int) -> float | None:
    """The mean of the largest error in a few simulations, where they are cheap."""
    if max(n, 10 * protocol.k) > MOST_SIMULATED:
        return None
    randomness = sources.simulated(n + protocol.k)
    people = people_of(n, protocol.k)
    answers = np.repeat(np.arange(protocol.k), people)
    largest = 0.0
    for _ in range(RUNS):
        counts = protocol.simulate_counts(answers, randomness=randomness)
        largest += np.abs(protocol.estimate(counts).counts - people).max() / RUNS
    return float(largest)


_CURVES = {
    "local": Look("no shuffler", plots.VERMILION),
    "published": Look("zero-sum,\npublished noise", plots.PURPLE, plots.DASHED),
    "single": Look("one message each", plots.BLUE, plots.SOLID, 2.2),
    "claim": Look("zero-sum,\n95 %, any data", plots.PURPLE, plots.DOTTED),
    "zero-sum": Look("zero-sum", plots.PURPLE, plots.SOLID, 2.6),
    "dummies": Look("uniform dummies", plots.ORANGE),
    "central": Look("trusted curator", plots.GREEN),
    "zero-sum-measured": Look("_", plots.PURPLE, plots.NO_LINE, marker="o"),
}
_COUNTS = Axis("", (5, 2e5))


@figure(
    9,
    Panel(
        "d",
        Axis("possible answers d,  n = 10⁶ people", ANSWERS),
        _COUNTS,
        _CURVES,
        "largest error of a count, in people",
        {"panel": 0},
        notes=[(300, 78, "∝ √d", plots.BLUE), (3e4, 8600, "∝ √log d", plots.VERMILION)],
    ),
    Panel(
        "n",
        Axis("people n,  d = 10⁴ possible answers", PEOPLE),
        _COUNTS,
        _CURVES,
        where={"panel": 1},
        notes=[(3e6, 235, r"∝ $n^{1/4}$", plots.BLUE), (3e6, 14_200, "∝ √n", plots.VERMILION)],
        names="ends",
    ),
)
def separation(points: int) -> Iterator[Row]:
    """Zero-sum noise: the largest error does not depend on how many answers there could be.

    ε = 1, δ = 10⁻⁶. Half of the people gave one answer; each further answer has 0.8 times as
    many, down to one person. Settings chosen by us. Lines: expected largest error; marks: means
    of 16 simulations. One message each: the better of randomized response and local hashing.
    Zero-sum: Balcer, Cheu, ITC 2020, arXiv 1911.06879, with the published and the least noise.
    Curator: discrete Laplace noise.
    """
    # The predicted largest errors against d, then against n; zero-sum also measured.
    settings = [(0, FIXED_N, d) for d in sorted({round(d) for d in np.geomspace(*ANSWERS, points)})]
    settings += [(1, n, FIXED_D) for n in sorted({round(n) for n in np.geomspace(*PEOPLE, points)})]
    for panel, n, d in settings:
        target = {"k": d, "n": n, "epsilon": EPSILON, "delta": DELTA}
        exact = ZeroSumHistogram.calibrated(**target)
        published = ZeroSumHistogram.published(**target)
        noise = n * math.sqrt(float(UniformDummies.calibrated(**target).variance(0.0, n=n)))
        unaided = errors.local(2, EPSILON, n).cell
        known = {"panel": panel, "n": n, "d": d, "epsilon": EPSILON, "delta": DELTA}
        yield known | {
            "local": expected_largest(np.full(d, unaided)),
            "single": single_message(n, d),
            "published": by_the_zero_rule(people_of(n, d), published.gamma),
            "claim": n * exact.accuracy(n, BETA),
            "zero-sum": by_the_zero_rule(people_of(n, d), exact.gamma),
            "zero-sum-measured": measured(exact, n),
            "dummies": expected_largest(np.full(d, noise)),
            "central": errors.central(d, min(d - 1, 2), EPSILON).linf,
        }


# ----------------------------------------------------------------------------------- without delta

LOCAL_EPSILON = 2.0
N = 200
DIGITS = (2.0, 300.0)  # delta = 10^-digits
_NOTHING = 1e-9  # below the local epsilon
RESPONSES = {2: plots.VERMILION, 10: plots.BLUE, 100: plots.GREEN}


def response(k: int) -> RandomizedResponse:
    """What everybody runs."""
    return RandomizedResponse(k=k, epsilon=LOCAL_EPSILON)


def truthful_digits(k: int) -> float:
    """−log₁₀ of the probability that all of N people tell the truth."""
    a = math.exp(response(k).local_epsilon)
    return N * (math.log10(a + k - 1) - math.log10(a))


def witnessed(k: int, digits: float) -> float:
    """An ε that no analysis can go below: ε₀ + log(1 − δ/pⁿ), or 0 where that says nothing.

    If everybody holds the same answer, all tell the truth with probability pⁿ, and the likelihood
    ratio of that is e^ε₀ (docs/theory/separation.md).
    """
    left = 1 - 10 ** (truthful_digits(k) - digits) if digits > truthful_digits(k) else 0.0
    return max(0.0, response(k).local_epsilon + math.log(left)) if left > 0 else 0.0


@figure(
    25,
    Panel(
        "digits",
        Axis("δ", (0, 300), log=False, ticks={d: f"$10^{{-{d}}}$" for d in range(50, 301, 50)}),
        Axis("ε after shuffling", (0, 1.12 * LOCAL_EPSILON), log=False),
        [
            Curve(f"k{k}", Look(f"{k} answers", color), ring=truthful_digits(k))
            for k, color in RESPONSES.items()
        ],
        levels=[Level(LOCAL_EPSILON, "ε₀ = 2: what one message reveals by itself")],
        names="lower right",
    ),
)
def pure_privacy(points: int) -> Iterator[Row]:
    """With one message each, a shuffler is worth nothing at δ = 0.

    Randomized response at ε₀ = 2 among n = 200 people, at δ from 10⁻² to 10⁻³⁰⁰. Settings
    chosen by us. Rings: δ is the probability that all tell the truth, if all hold the same
    answer; a little further right no analysis can prove less than ε₀. Balcer, Cheu, “Separating
    Local & Shuffled Differential Privacy via Histograms”, ITC 2020, arXiv 1911.06879.
    """
    # At δ = 0 a shuffler adds nothing to one message each: ε climbs back to ε₀ as δ falls.
    profiles = {k: PrivacyProfile(response(k).law(), N) for k in RESPONSES}
    first, last = DIGITS
    spread = first + (last - first) * np.linspace(0, 1, points) ** 2
    ends = [truthful_digits(k) + beyond for k in RESPONSES for beyond in (0, 2)]
    for digits in sorted({*spread.tolist(), *ends}):
        row: Row = {"digits": digits, "n": N, "local_epsilon": LOCAL_EPSILON}
        for k, profile in profiles.items():
            known = witnessed(k, digits)
            done = profile.local_epsilon - known < _NOTHING
            row[f"k{k}"] = profile.local_epsilon if done else profile.epsilon(10.0**-digits)
            row[f"k{k}-lower"] = known
        yield row
