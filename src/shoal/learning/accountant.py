"""The questions about a training run: how private it is, how much noise it needs.

FMT21's Algorithm 2 and its relatives: every step adds up the clipped gradients of its examples
(norm at most C each) and Gaussian noise of deviation ``noise_multiplier`` C, and everything the
model becomes may be published. What differs is how a step comes by its examples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context

from scipy import optimize

from shoal import checks
from shoal.accounting import gaussian
from shoal.accounting.search import Side
from shoal.errors import InvalidArgumentError, ShoalError, UnreachableTargetError
from shoal.explain.text import up
from shoal.learning import permuted, sampled
from shoal.learning.guarantee import (
    ADD_OR_REMOVE,
    REPLACE,
    Comparison,
    LearningGuarantee,
    Refused,
    Route,
    Sampling,
    counted,
)
from shoal.learning.permuted import Epochs
from shoal.learning.sampled import Drawn

LARGEST_EPSILON = 50.0
COMPARED = (
    (Sampling.PERMUTATION, REPLACE),
    (Sampling.REPLACEMENT, REPLACE),
    (Sampling.POISSON, ADD_OR_REMOVE),
    (Sampling.POISSON, REPLACE),
    (Sampling.FIXED, REPLACE),
)
_CURVE_POINTS = 6
_FEWEST_EPOCHS = 10  # of a curve
_DEFAULT_DELTA = 1e-6
_CLIPPED = "each example's gradient is clipped to norm C before the sum; noise of deviation z C"
_ALL_ITERATES = "every iterate may be published; sizes of batches and n are public"
_CHOSEN_BLIND = (
    "the clipping norm, the rate and how features are scaled were chosen without looking at the "
    "examples"
)
_ALL_SAMPLED = (
    "every iterate may be published, but not how many examples a step took: sums are divided by "
    "the expected number; the rate and n are public"
)
_MOST_NOISE = 1e9  # more is accounted for as if it were no more: ratios lose their digits
_REAL = "noise of real numbers: what rounding gives away is not counted"
_UPWARDS = Context(prec=6, rounding=ROUND_CEILING)
_TOLERANCE = 1e-4
_FAR_BELOW = 1e-9
_LARGEST_LOG_NOISE = 21.0


@dataclass(frozen=True, kw_only=True)
class Run:
    """A training run."""

    noise_multiplier: float
    n: int
    epochs: int
    batch: int
    delta: float
    sampling: Sampling | str
    drop_last: bool
    neighbouring: str | None = None  # the usual ones of the kind of sampling

    def __post_init__(self) -> None:
        checks.positive(noise_multiplier=self.noise_multiplier)
        checks.open_probability(delta=self.delta)
        n, batch = checks.count(n=self.n), checks.count(batch=self.batch)
        settled = {"n": n, "batch": batch, "epochs": checks.count(epochs=self.epochs)}
        for name, value in settled.items():
            object.__setattr__(self, name, value)
        if batch > n:
            raise InvalidArgumentError("batch", batch, f"batch <= n = {n} examples")
        if self.kind is Sampling.PERMUTATION and n % batch and not self.drop_last:
            left = f"{counted(n % batch, 'example')} would be a crowd apart"
            expected = f"batch to divide n = {n}, or drop_last=True: {left}"
            raise InvalidArgumentError("batch", batch, expected)
        if self.neighbouring is not None:
            _require_covered(self.kind, self.neighbouring)

    @property
    def kind(self) -> Sampling:
        """How steps come by their examples."""
        return sampling_named(self.sampling)

    @property
    def relation(self) -> str:
        """Which data sets count as neighbours."""
        return self.neighbouring or usual_neighbouring(self.kind)

    @property
    def steps(self) -> int:
        """All steps; a batch left over is a step too, unless it is dropped."""
        whole = self.n // self.batch
        return self.epochs * (whole if self.drop_last else -(-self.n // self.batch))

    @property
    def passes(self) -> Epochs:
        """The same as epochs over blocks."""
        return Epochs(
            noise=min(self.noise_multiplier, _MOST_NOISE),
            blocks=self.n // self.batch,
            batch=self.batch,
            epochs=self.epochs,
            delta=self.delta,
        )

    @property
    def drawn(self) -> Drawn:
        """The same as steps that draw their examples anew."""
        return Drawn(
            noise=min(self.noise_multiplier, _MOST_NOISE),
            rate=self.batch / self.n,
            steps=self.steps,
            delta=self.delta,
        )


def account(
    *,
    n: int,
    noise_multiplier: float | None = None,
    epsilon: float | None = None,
    epochs: int = 1,
    batch: int = 1,
    delta: float = _DEFAULT_DELTA,
    sampling: Sampling | str = Sampling.PERMUTATION,
    drop_last: bool = False,
    neighbouring: str | None = None,
) -> LearningGuarantee:
    """The (epsilon, delta) of a training run with this noise, or with the least that keeps epsilon.

    ``noise_multiplier`` is the deviation of the noise over the clipping norm of one example; with
    ``epsilon`` instead it is found as by :func:`noise_for`.
    ``sampling`` says how steps come by their examples: ``"permutation"`` (a fresh random order
    every epoch), ``"replacement"``, ``"poisson"``, or ``"fixed"`` (any order: no amplification). A
    batch that is left over has to be dropped or accounted for as fixed. Neighbouring data sets
    differ in one example that is replaced; for Poisson sampling, by tradition, in one that is
    added or removed, unless ``neighbouring="replace-one"``.

    >>> guarantee = account(noise_multiplier=10, n=10_000)
    >>> up(guarantee.epsilon, 3), guarantee.theorem
    ('0.00832', 'Gaussian blanket')
    """
    if (noise_multiplier is None) == (epsilon is None):
        expected = "exactly one of epsilon and noise_multiplier"
        pair = (epsilon, noise_multiplier)
        raise InvalidArgumentError("(epsilon, noise_multiplier)", pair, expected)
    run = Run(
        noise_multiplier=1.0 if noise_multiplier is None else noise_multiplier,
        n=n,
        epochs=epochs,
        batch=batch,
        delta=delta,
        sampling=sampling,
        drop_last=drop_last,
        neighbouring=neighbouring,
    )
    if epsilon is not None:
        run = replace(run, noise_multiplier=_smallest_noise(run, epsilon))
    return _guarantee(run)


def _guarantee(run: Run) -> LearningGuarantee:
    kind = run.kind
    routes = _ROUTES[kind](run)
    best = min(routes, key=_value)
    epsilon = _value(best)
    if epsilon > LARGEST_EPSILON:
        raise _too_quiet(run, epsilon)
    composed = run.epochs > 1 and best.name in permuted.ROUTES
    return LearningGuarantee(
        epsilon=epsilon,
        delta=run.delta,
        sampling=kind,
        theorem=f"{best.name}, epochs composed" if composed else best.name,
        neighbouring=run.relation,
        n=run.n,
        batch=run.batch,
        epochs=run.epochs,
        steps=run.steps,
        noise_multiplier=float(run.noise_multiplier),
        local=gaussian.epsilon(
            (1 if run.relation == ADD_OR_REMOVE else 2) / run.noise_multiplier, run.delta
        ),
        routes=routes,
        assumptions=(
            _CLIPPED,
            _CHOSEN_BLIND,
            _ALL_SAMPLED if kind is Sampling.POISSON else _ALL_ITERATES,
            _REAL,
        ),
        lower_bound=lambda: _lower(run),
    )


def epsilon_of(run: Run) -> float:
    """The epsilon of :func:`account`, quicker: without the routes that never win."""
    return _QUICK[run.kind](run)


def noise_for(
    *,
    epsilon: float,
    n: int,
    epochs: int = 1,
    batch: int = 1,
    delta: float = _DEFAULT_DELTA,
    sampling: Sampling | str = Sampling.PERMUTATION,
    drop_last: bool = False,
    neighbouring: str | None = None,
) -> float:
    """The smallest noise multiplier that keeps (epsilon, delta), rounded up to six digits.

    >>> z = noise_for(epsilon=0.01, n=10_000)
    >>> account(noise_multiplier=z, n=10_000).epsilon <= 0.01
    True
    """
    run = Run(
        noise_multiplier=1.0,
        n=n,
        epochs=epochs,
        batch=batch,
        delta=delta,
        sampling=sampling,
        drop_last=drop_last,
        neighbouring=neighbouring,
    )
    return _smallest_noise(run, epsilon)


def compare(
    *,
    n: int,
    noise_multiplier: float | None = None,
    epsilon: float | None = None,
    epochs: int = 1,
    batch: int = 1,
    delta: float = _DEFAULT_DELTA,
    drop_last: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """The same steps under every kind of sampling, permutation first: epsilon, or the noise for it.

    A kind that has no guarantee is a :class:`~shoal.learning.guarantee.Refused` that says why, with
    ``epsilon`` None; if none has one, the first error is raised. ``progress`` is called with the
    number of kinds that are done, and of all.
    """
    rows: list[LearningGuarantee | Refused] = []
    for sampling, neighbouring in COMPARED:
        if progress is not None:
            progress(len(rows), len(COMPARED))
        try:
            row: LearningGuarantee | Refused = account(
                noise_multiplier=noise_multiplier,
                epsilon=epsilon,
                n=n,
                epochs=epochs,
                batch=batch,
                delta=delta,
                sampling=sampling,
                drop_last=drop_last,
                neighbouring=neighbouring,
            )
        except ShoalError as error:
            row = Refused(
                sampling=sampling,
                neighbouring=neighbouring,
                error=error,
                noise_multiplier=noise_multiplier,
            )
        rows.append(row)
    comparison = Comparison(tuple(rows), epsilon)
    comparison.guarantee()  # there is one, or its error
    return comparison


def by_epochs(
    *,
    noise_multiplier: float,
    n: int,
    epochs: int = 1,
    batch: int = 1,
    delta: float = _DEFAULT_DELTA,
    sampling: Sampling | str = Sampling.PERMUTATION,
    drop_last: bool = False,
) -> tuple[tuple[int, float], ...]:
    """(epochs, epsilon) of a curve up to ``epochs`` (ten at least), evenly spread on a log scale.

    It ends where there is no epsilon up to 50, above which it guarantees nothing.
    """
    curve = []
    last = max(epochs, _FEWEST_EPOCHS)
    for some in sorted({round(last ** (i / (_CURVE_POINTS - 1))) for i in range(_CURVE_POINTS)}):
        try:
            run = Run(
                noise_multiplier=noise_multiplier,
                n=n,
                epochs=some,
                batch=batch,
                delta=delta,
                sampling=sampling,
                drop_last=drop_last,
            )
            epsilon = epsilon_of(run)
        except ShoalError:
            break
        if epsilon > LARGEST_EPSILON:
            break
        curve.append((some, epsilon))
    return tuple(curve)


def sampling_named(name: Sampling | str) -> Sampling:
    """The kind of sampling, or an error that lists them."""
    try:
        return Sampling(name)
    except ValueError:
        expected = f"sampling to be one of {', '.join(Sampling)}"
        raise InvalidArgumentError("sampling", name, expected) from None


def usual_neighbouring(kind: Sampling) -> str:
    """What is meant unless something else is said."""
    return ADD_OR_REMOVE if kind is Sampling.POISSON else REPLACE


def _require_covered(kind: Sampling, neighbouring: str) -> None:
    covered = (ADD_OR_REMOVE, REPLACE) if kind is Sampling.POISSON else (REPLACE,)
    if neighbouring not in covered:
        expected = f"neighbouring to be {' or '.join(covered)} for sampling '{kind}'"
        raise InvalidArgumentError("neighbouring", neighbouring, expected)


def _fixed_epsilon(run: Run) -> float:
    return permuted.fixed_epsilon(noise=run.noise_multiplier, epochs=run.epochs, delta=run.delta)


def _fixed(run: Run) -> tuple[Route, ...]:
    return (Route(permuted.FIXED, _fixed_epsilon(run), "each example is used once an epoch"),)


def _permuted(run: Run) -> tuple[Route, ...]:
    routes = []
    for name, solve in permuted.ROUTES.items():
        epsilon = solve(run.passes)
        proved = math.isfinite(epsilon)
        remark = "" if proved else permuted.why_none(run.passes)
        routes.append(Route(name, epsilon if proved else None, remark))
    return (*routes, *_fixed(run))


def _replaced(run: Run) -> tuple[Route, ...]:
    composed = sampled.replacement_epsilon(run.drawn)
    published = sampled.published_epsilon(run.drawn)
    return (
        Route("subsampling, composed numerically", composed),
        Route("subsampling, advanced composition", published, "as published in 2014"),
    )


def _poisson(run: Run) -> tuple[Route, ...]:
    return (Route("Poisson subsampling, composed numerically", _poisson_epsilon(run)),)


def _poisson_epsilon(run: Run) -> float:
    if run.relation == REPLACE:
        return sampled.poisson_replaced_epsilon(run.drawn)
    return sampled.poisson_epsilon(run.drawn)


def _lower(run: Run) -> float:
    if run.kind is Sampling.FIXED:
        mu = 2 * math.sqrt(run.epochs) / run.noise_multiplier
        return gaussian.epsilon(mu, run.delta, side=Side.LOWER)
    if run.kind is not Sampling.PERMUTATION or run.n % run.batch:
        return 0.0  # an example that is left out at times gives less away than the witnesses do
    return permuted.lower_epsilon(run.passes)


def _quick_permuted(run: Run) -> float:
    """The two routes that ever win."""
    return min(_fixed_epsilon(run), permuted.blanket_epsilon(run.passes))


def _smallest_noise(run: Run, epsilon: float) -> float:
    """Between a noise that is too small and one that is enough, rounded up."""
    checks.positive(epsilon=epsilon)
    if epsilon > LARGEST_EPSILON:
        expected = f"epsilon <= {LARGEST_EPSILON:g} (more is no guarantee)"
        raise InvalidArgumentError("epsilon", epsilon, expected)

    def excess(log_noise: float) -> float:
        """log of the epsilon reached, over the target; at most 0 if it is kept."""
        reached = epsilon_of(replace(run, noise_multiplier=math.exp(log_noise)))
        return math.log(min(max(reached / epsilon, _FAR_BELOW), 1 / _FAR_BELOW))

    high = 0.0
    while excess(high) > 0:
        high += math.log(2)
        if high > _LARGEST_LOG_NOISE:
            raise UnreachableTargetError(
                f"({epsilon:g}, {run.delta:g})-DP",
                f"not even a noise multiplier of {math.exp(high):.2g} is enough",
                "use fewer epochs, more examples or a weaker target",
            )
    low = high - math.log(2)
    while excess(low) <= 0:
        low, high = low - math.log(2), low
    root = float(optimize.brentq(excess, low, high, xtol=_TOLERANCE, rtol=_TOLERANCE))
    step = _TOLERANCE / 4
    while excess(root) > 0:
        root, step = root + step, 2 * step
    return float(_UPWARDS.create_decimal(repr(math.exp(root))))


def _too_quiet(run: Run, epsilon: float) -> ShoalError:
    reached = up(epsilon) if math.isfinite(epsilon) else "beyond all numbers"
    return UnreachableTargetError(
        f"a guarantee with noise multiplier {run.noise_multiplier:g}",
        f"epsilon would be {reached}, and over {LARGEST_EPSILON:g} it guarantees nothing",
        f"raise it to at least {up(_smallest_noise(run, LARGEST_EPSILON))}",
    )


def _value(route: Route) -> float:
    return math.inf if route.epsilon is None else route.epsilon


_ROUTES: dict[Sampling, Callable[[Run], tuple[Route, ...]]] = {
    Sampling.PERMUTATION: _permuted,
    Sampling.REPLACEMENT: _replaced,
    Sampling.POISSON: _poisson,
    Sampling.FIXED: _fixed,
}
_QUICK: dict[Sampling, Callable[[Run], float]] = {
    Sampling.PERMUTATION: _quick_permuted,
    Sampling.REPLACEMENT: lambda run: sampled.replacement_epsilon(run.drawn),
    Sampling.POISSON: _poisson_epsilon,
    Sampling.FIXED: _fixed_epsilon,
}
