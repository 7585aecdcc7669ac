"""What is measured: solving for epsilon, the rival, composition, imports."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from result import Result
from rival import Rival

from shoal.accounting.gaussian import Normal
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile

LOCAL_EPSILONS = (1.0, 4.0)
SIZES = (10**3, 10**6, 10**9, 10**12)
SMALL_DELTA = 1e-12  # so that epsilon is above 0 for every size
DELTA = 1e-6
SLOWEST = 20.0
SLOWEST_DENSITY = 50.0
DENSITY_SIZES = (10**4, 10**5, 10**6)
SLOWEST_COMMAND = 1000.0
SLOWEST_PLAN = 500.0  # above what its --help takes
FIRST_EPSILON = 1.5  # times what importing the libraries below it takes
GROWTH = 2.0
# How many times faster than the rival, by the number of people, and how often to run the rival.
DUELS = {10**6: (20.0, 3), 10**8: (100.0, 1)}
AGREEMENT = 1e-3
ROUNDS = 100
COMPOSED = (4.0, 10**4)


def everything() -> Iterator[Result]:
    """All measurements, in the order of the table."""
    yield from _imports()
    yield from _solves()
    yield from _densities()
    yield from _duels()
    yield from _compositions()


def _profile(local_epsilon: float, n: int, repetition: int) -> PrivacyProfile:
    """A profile that no earlier one equals: caches of the library cannot help."""
    return PrivacyProfile(BlanketLaw.generic(local_epsilon * (1 + 1e-9 * repetition)), n)


def _milliseconds(run: Callable[[int], object], *, repetitions: int, warm: bool = True) -> float:
    """Median processor time of ``run(1)``, ``run(2)``, ...; ``run(0)`` warms up."""
    if warm:
        run(0)
    times = []
    for repetition in range(1, repetitions + 1):
        start = time.process_time()
        run(repetition)
        times.append(time.process_time() - start)
    return 1e3 * statistics.median(times)


def _solves() -> Iterator[Result]:
    heading = f"one epsilon, any randomizers, delta = {SMALL_DELTA:g} (median of 21, new law each)"
    for local_epsilon in LOCAL_EPSILONS:
        times = {n: _solve(local_epsilon, n, SMALL_DELTA) for n in SIZES}
        for n, found in times.items():
            answer = _profile(local_epsilon, n, 0).epsilon(SMALL_DELTA)
            yield Result(
                heading=heading,
                what=f"eps0 = {local_epsilon:g}, n = {n:.0e}",
                value=found,
                at_most=SLOWEST,
                note=f"epsilon = {answer:.6g}",
            )
        yield Result(
            heading=heading,
            what=f"eps0 = {local_epsilon:g}, time at {SIZES[-1]:.0e} / time at {SIZES[0]:.0e}",
            value=times[SIZES[-1]] / times[SIZES[0]],
            unit="x",
            at_most=GROWTH,
        )


def _solve(local_epsilon: float, n: int, delta: float) -> float:
    return _milliseconds(lambda i: _profile(local_epsilon, n, i).epsilon(delta), repetitions=21)


def _densities() -> Iterator[Result]:
    heading = f"one epsilon, Gaussian noise sigma = 1 on [0, 1], delta = {DELTA:g} (median of 11)"
    for n in DENSITY_SIZES:

        def solve(i: int, n: int = n) -> float:
            law = BlanketLaw.from_density(Normal(1 + 1e-9 * i), low=0, high=1)
            return PrivacyProfile(law, n).epsilon(DELTA)

        yield Result(
            heading=heading,
            what=f"n = {n:.0e}, law included",
            value=_milliseconds(solve, repetitions=11),
            at_most=SLOWEST_DENSITY,
            note=f"epsilon = {solve(0):.4g}",
        )


def _duels() -> Iterator[Result]:
    heading = (
        f"the same by incomplete beta functions (9 sigma, <= 40 bisections), delta = {DELTA:g}"
    )
    for n, (factor, repetitions) in DUELS.items():
        for local_epsilon in LOCAL_EPSILONS:
            what = f"eps0 = {local_epsilon:g}, n = {n:.0e}"
            ours = _solve(local_epsilon, n, DELTA)
            theirs = _milliseconds(
                lambda i, n=n, eps=local_epsilon: _rival(eps, n, i),  # type: ignore[misc]
                repetitions=repetitions,
                warm=False,
            )
            epsilon, steps = _rival(local_epsilon, n, 0)
            answer = _profile(local_epsilon, n, 0).epsilon(DELTA)
            yield Result(heading=heading, what=f"{what}: shoal", value=ours, at_most=SLOWEST)
            note = f"{steps} bisections, epsilon {answer / epsilon - 1:+.1e} apart"
            yield Result(heading=heading, what=f"{what}: rival", value=theirs, note=note)
            agrees = abs(answer / epsilon - 1) < AGREEMENT
            yield Result(
                heading=heading,
                what=f"{what}: times faster",
                value=theirs / ours if agrees else 0.0,
                unit="x",
                at_least=factor,
                note="" if agrees else "the two answers differ",
            )


def _rival(local_epsilon: float, n: int, repetition: int) -> tuple[float, int]:
    rival = Rival.of(local_epsilon=local_epsilon * (1 + 1e-9 * repetition), n=n)
    return rival.epsilon(DELTA)


def _compositions() -> Iterator[Result]:
    local_epsilon, n = COMPOSED
    heading = f"{ROUNDS} rounds, eps0 = {local_epsilon:g}, n = {n:.0e}, delta = {DELTA:g}"

    def composed(method: str, i: int) -> float:
        return (_profile(local_epsilon, n, i) * ROUNDS).epsilon(DELTA, method=method)  # type: ignore[arg-type]

    known = _profile(local_epsilon, n, 0)
    runs: dict[str, Callable[[int], float]] = {
        "by privacy loss distributions, new curve": lambda i: composed("pld", i),
        "by privacy loss distributions, known curve": lambda i: (known * (ROUNDS + i)).epsilon(
            DELTA
        ),
        "by Rényi divergences, new curve": lambda i: composed("renyi", i),
        "by advanced composition": lambda i: composed("advanced", i),
        "one Rényi divergence, order 8": lambda i: _profile(local_epsilon, n, i).renyi(8),
    }
    for what, run in runs.items():
        note = f"= {run(0):.4g}"
        yield Result(heading=heading, what=what, value=_milliseconds(run, repetitions=3), note=note)


def _imports() -> Iterator[Result]:
    heading = "in a new interpreter (median of 5)"
    question = "shoal.amplify(local_epsilon=1, n=1000)"
    yield Result(heading=heading, what="import shoal", value=_fresh("import shoal"))
    yield Result(
        heading=heading,
        what="import shoal.cli, as every command does",
        value=_fresh("import shoal.cli"),
        at_most=SLOWEST_COMMAND,
    )
    first, floor = _fresh(f"import shoal; {question}"), _fresh("import numpy, scipy.special")
    yield Result(heading=heading, what="import shoal and the first epsilon", value=first)
    yield Result(
        heading=heading,
        what="the same / import numpy, scipy.special",
        value=first / floor,
        unit="x",
        at_most=FIRST_EPSILON,
    )
    planned = _command("plan", "--epsilon", "1", "--n", "1e6", "--categories", "100")
    yield Result(
        heading=heading,
        what="shoal plan: 1e6 people, 100 answers, above --help",
        value=planned - _command("plan", "--help"),
        at_most=SLOWEST_PLAN,
    )


def _command(*arguments: str) -> float:
    """Processor time that a command takes, its start counted."""
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(  # noqa: S603 - a fixed command of our own
            [sys.executable, "-m", "shoal", *arguments], capture_output=True, check=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return 1e3 * statistics.median(times)


def _fresh(code: str) -> float:
    """Processor time that ``code`` takes in a new interpreter, its start not counted."""
    script = f"import time; start = time.process_time(); {code}; print(time.process_time() - start)"
    times = []
    for _ in range(5):
        finished = subprocess.run(  # noqa: S603 - a fixed command of our own
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )
        times.append(float(finished.stdout))
    return 1e3 * statistics.median(times)
