"""The questions about a training run, and their answers: how private it is, the noise it needs.

FMT21's Algorithm 2 and its relatives: every step adds up the clipped gradients of its examples
(norm at most C each) and Gaussian noise of deviation ``noise_multiplier`` C, and everything the
model becomes may be published. What differs is how a step comes by its examples.

A delta that is not chosen is min(1e-6, 1/(10 n)).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from decimal import ROUND_CEILING, Context
from functools import cache, cached_property
from typing import Unpack

from shoal import checks
from shoal.accounting import gaussian
from shoal.accounting.search import Side, root_below
from shoal.errors import InvalidArgumentError, ShoalError, UnreachableTargetError
from shoal.explain.document import Document, Row, Table
from shoal.explain.text import down, plain, plural, up
from shoal.explain.views import Explained
from shoal.learning import permuted, steps
from shoal.learning.run import ADD_OR_REMOVE, REPLACE, Run, RunOptions, Sampling

LARGEST_EPSILON = 50.0
MOST_BLOCKS = 10**12  # steps of an epoch that noise is sought for: each trial takes long
COMPARED = (
    (Sampling.PERMUTATION, REPLACE),
    (Sampling.REPLACEMENT, REPLACE),
    (Sampling.POISSON, ADD_OR_REMOVE),
    (Sampling.POISSON, REPLACE),
    (Sampling.FIXED, REPLACE),
)
_CURVE_POINTS = 6
_FEWEST_EPOCHS = 10  # of a curve
_CHOSEN_BLIND = (
    "the clipping norm, the rate and how features are scaled were chosen without looking at the "
    "examples"
)
_PUBLIC_SIZES = "every iterate may be published; sizes of batches and n are public"
_PUBLIC_RATE = (
    "every iterate may be published, but not how many examples a step took: sums are divided by "
    "the expected number; the rate and n are public"
)
_UPWARDS = Context(prec=6, rounding=ROUND_CEILING)
_TOLERANCE = 1e-4
_FAR_BELOW = 1e-9
_LARGEST_LOG_NOISE = 21.0
_KEY = (
    "The data loader decides which row holds; no row says anything about another.",
    "Replacing an example costs more than adding or removing it.",
)


@dataclass(frozen=True)
class Route:
    """One way to an ε: a row of the ``routes`` of :func:`shoal.learning.account`.

    Attributes:
        name: The theorem.
        epsilon: The ε, or None if there is none.
        remark: The reason why, or what to know.

    References:
        :doc:`/theory/permuted-sgd`.
    """

    name: str
    epsilon: float | None
    remark: str = ""

    def __str__(self) -> str:
        answer = f"none, {self.remark}" if self.epsilon is None else up(self.epsilon)
        return f"{self.name}: {answer}"


@dataclass(frozen=True, kw_only=True)
class LearningGuarantee(Run, Explained):
    """A training run and its (ε, δ), as :func:`shoal.learning.account` proves it.

    An upper bound for all iterates together.

    Attributes:
        noise_multiplier: Deviation of the noise over the clipping norm.
        n: Number of examples.
        epochs: Passes over them.
        batch: Examples of one step.
        delta: δ.
        sampling: How steps come by their examples.
        neighbouring: Which data sets count as neighbours.
        drop_last: Whether examples that do not fill a batch are left out.
        epsilon: ε, rounded up.
        theorem: What proves it.
        local: ε at the same δ of one step, to somebody who knows whose examples it used.
        assumptions: What it takes for granted, in words.

    References:
        :doc:`/theory/permuted-sgd`.
    """

    epsilon: float
    theorem: str
    local: float
    assumptions: tuple[str, ...]

    @cached_property
    def routes(self) -> tuple[Route, ...]:
        """Every way to an epsilon, also those that never win."""
        return tuple(_routes(self, every=True))

    @cached_property
    def lower(self) -> float:
        """How far any better analysis of the same run could still go."""
        return min(self.lower_bound(), self.epsilon)

    def lower_bound(self) -> float:
        """What explicit data give away."""
        if self.sampling is Sampling.FIXED:
            mu = 2 * math.sqrt(self.epochs) / self.noise_multiplier
            return gaussian.epsilon(mu, self.delta, side=Side.LOWER)
        if self.sampling is not Sampling.PERMUTATION or self.n % self.batch:
            return 0.0  # an example that is left out at times gives less away than the witnesses do
        return permuted.lower_epsilon(self)

    def assuming(self, *assumptions: str) -> LearningGuarantee:
        """The same guarantee, which rests on these assumptions as well."""
        every = dict.fromkeys((*self.assumptions, *assumptions))  # a fit's has some already
        return replace(self, assumptions=tuple(every))

    @property
    def words(self) -> str:
        """The guarantee in one sentence."""
        run = f"{plural(self.epochs, 'epoch')} over {plural(self.n, 'example')}"
        proved = f"({up(self.epsilon)}, {plain(self.delta)})-differentially private"
        return (
            f"everything published during {run} is {proved} ({self.neighbouring}) if "
            f"{self.sampling.words}"
        )

    def to_dict(self) -> dict[str, object]:
        """Plain values, as the command line's ``--json`` prints them."""
        values = {"epsilon": self.epsilon, "lower": self.lower, "steps": self.steps} | vars(self)
        values |= {
            "sampling": self.sampling.value,
            "routes": [asdict(route) for route in self.routes],
            "assumptions": list(self.assumptions),
            "warnings": list(self.warnings),
        }
        del values["drop_last"]
        return values

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before relying on it."""
        warnings: tuple[str, ...] = ()
        if self.delta >= 1 / self.n:
            some = plural(self.n, "example")
            instead = f"publishing one of {some}, drawn at random, would pass too"
            warnings += (f"δ is not smaller than 1/n: {instead}",)
        if self.sampling is Sampling.PERMUTATION and self.theorem.endswith("no amplification"):
            if self.blocks == 1:
                advice = "an epoch is a single step, and there is no order to hide"
            else:
                more = "more examples" if self.batch == 1 else "smaller batches"
                advice = f"more noise, or {more}, would"
            warnings += (f"shuffling gains nothing here: {advice}",)
        return warnings

    @property
    def size(self) -> str:
        """How many examples, in which batches."""
        batches = f" in batches of {self.batch:,}" if self.batch > 1 else ""
        return f"{plural(self.n, 'example')}{batches}"

    def document(self, title: str = "") -> Document:
        """The guarantee put into words."""
        passes = f"{plural(self.epochs, 'epoch')}, {plural(self.steps, 'step')}"
        lower: tuple[tuple[str, str], ...] = ()
        if self.lower > 0:
            gap = f"gap {1 - self.lower / self.epsilon:.1%}"
            lower = (("lower bound", f"{down(self.lower)} ({gap}): no analysis can prove less"),)
        routes = [str(route) for route in self.routes]
        return Document(
            title or f"ε = {up(self.epsilon)} at δ = {plain(self.delta)}",
            facts=(
                ("epsilon", f"{up(self.epsilon)}, a proved upper bound"),
                ("delta", up(self.delta)),
                *lower,
                ("run", f"{self.size}; {passes}"),
                ("noise multiplier", plain(self.noise_multiplier)),
                ("sampling", f"{self.sampling}: {self.sampling.words}"),
                ("theorem", self.theorem),
                ("neighbours", self.neighbouring),
                ("one step alone", f"ε = {up(self.local)} at the same δ, without any sampling"),
                *zip(("routes", *[""] * len(routes)), routes, strict=False),
                *zip(("assumes", *[""] * len(self.assumptions)), self.assumptions, strict=False),
            ),
            warnings=self.warnings,
        )


@dataclass(frozen=True)
class Refused:
    """A kind of sampling that has no guarantee in :func:`shoal.learning.compare`, and why.

    Attributes:
        sampling: The kind.
        neighbouring: Which data sets count as neighbours.
        error: Why there is no guarantee.
        noise_multiplier: The noise that was asked about.
        epsilon: None.

    References:
        :doc:`/theory/permuted-sgd`.
    """

    sampling: Sampling
    neighbouring: str
    error: ShoalError
    noise_multiplier: float | None = None
    epsilon: None = None

    @property
    def remark(self) -> str:
        """The reason in a few words."""
        if isinstance(self.error, UnreachableTargetError):
            return self.error.reason
        return "the batch size does not divide n"

    def __str__(self) -> str:
        return f"{self.sampling}: {self.error}"


@dataclass(frozen=True)
class Comparison:
    """Every kind of sampling beside the others, as :func:`shoal.learning.compare` returns them.

    Iterating gives the rows.

    Attributes:
        rows: A guarantee for each kind, or why there is none.
        target: The ε that noise was found for, if one was given.

    References:
        :doc:`/theory/permuted-sgd`.
    """

    rows: tuple[LearningGuarantee | Refused, ...]
    target: float | None = None

    def __iter__(self) -> Iterator[LearningGuarantee | Refused]:
        return iter(self.rows)

    def guarantee(self, sampling: Sampling | str | None = None) -> LearningGuarantee:
        """That of this kind of sampling; without a kind, the first that there is."""
        error: ShoalError | None = None
        for row in self.rows:
            if sampling in (None, row.sampling.value):
                if isinstance(row, LearningGuarantee):
                    return row
                error = error or row.error
        raise error or InvalidArgumentError("sampling", sampling, "a kind that was compared")

    def to_dict(self) -> dict[str, object]:
        """Plain values, a row each."""
        rows = [
            {
                "sampling": row.sampling.value,
                "neighbouring": row.neighbouring,
                "epsilon": row.epsilon,
                "noise_multiplier": row.noise_multiplier,
                "loader": row.sampling.loader,
                "refused": str(row.error) if isinstance(row, Refused) else None,
            }
            for row in self.rows
        ]
        return {"compared": rows}

    def document(self, sampling: Sampling | str | None = None) -> Document:
        """A table of all; the guarantee of one kind of sampling, if it is named, in full."""
        best = self.guarantee(sampling)
        run = f"{best.size}, {plural(best.epochs, 'epoch')}"
        if self.target is None:
            noise = f"noise multiplier {plain(best.noise_multiplier)}"
            title, headline = f"ε at δ = {plain(best.delta)}: {run}, {noise}", ""
        else:
            title = f"Noise for ε = {plain(self.target)} at δ = {plain(best.delta)}: {run}"
            headline = f"noise multiplier {plain(best.noise_multiplier)} is enough"
        answer = "ε" if self.target is None else "noise"
        table = Table(
            ("sampling", answer, "neighbours", "which loader does it"),
            tuple(Row(self._cells(row), "strong" if row is best else "") for row in self.rows),
            numeric=frozenset({1}),
            title=title,
        )
        document = best.document(headline)
        if sampling is None:
            document = replace(document, facts=())
        return replace(document, table=table, sentences=_KEY)

    def _cells(self, row: LearningGuarantee | Refused) -> tuple[str, str, str, str]:
        if isinstance(row, Refused):
            return row.sampling.value, "–", row.neighbouring, row.remark
        answer = up(row.epsilon) if self.target is None else plain(row.noise_multiplier)
        return row.sampling.value, answer, row.neighbouring, row.sampling.loader


# ------------------------------------------------------------------------------ the questions


def account(
    *,
    n: int,
    noise_multiplier: float | None = None,
    epsilon: float | None = None,
    sampling: Sampling | str = Sampling.PERMUTATION,
    neighbouring: str | None = None,
    **options: Unpack[RunOptions],
) -> LearningGuarantee:
    """The (ε, δ) of a training run with this noise, or with the least that keeps ε.

    Args:
        n: Number of examples.
        noise_multiplier: Deviation of the noise over the clipping norm of one example.
        epsilon: The target ε > 0 instead; the noise is found as by
            :func:`shoal.learning.noise_for`.
        sampling: How steps come by their examples: "permutation" (a fresh random order
            every epoch), "replacement", "poisson", or "fixed" (any order: no
            amplification).
        neighbouring: "replace-one", or for Poisson sampling, by tradition and unless
            given, "add-or-remove-one".
        **options: epochs (1), batch (1), delta (min(1e-6, 1/(10 n))), and drop_last
            (False): a batch that is left over has to be dropped or accounted for as
            fixed.

    Returns:
        A :class:`shoal.learning.LearningGuarantee`.

    Raises:
        InvalidArgumentError: A number is out of its range, both or neither of
            noise_multiplier and epsilon are given, or a batch is left over.
        UnreachableTargetError: No ε up to 50 is proved, or no noise keeps it.

    References:
        :doc:`/theory/permuted-sgd`.

    Example:
        >>> from shoal import learning
        >>> guarantee = learning.account(noise_multiplier=10, n=10_000)
        >>> guarantee.epsilon < 0.00833, guarantee.theorem
        (True, 'Gaussian blanket')
    """
    run = Run.of(noise_multiplier, n, sampling, neighbouring, **options)
    return _guarantee(run, noise_multiplier, epsilon)


def noise_for(
    *,
    epsilon: float,
    n: int,
    sampling: Sampling | str = Sampling.PERMUTATION,
    neighbouring: str | None = None,
    **options: Unpack[RunOptions],
) -> float:
    """The smallest noise multiplier that keeps (ε, δ), rounded up to six digits.

    Args:
        epsilon: The target ε > 0.
        n: Number of examples.
        sampling: How steps come by their examples, as for
            :func:`shoal.learning.account`.
        neighbouring: Which data sets count as neighbours, as there.
        **options: epochs, batch, delta and drop_last, as there.

    Returns:
        The deviation of the noise over the clipping norm.

    Raises:
        InvalidArgumentError: A number is out of its range.
        UnreachableTargetError: No noise that is tried keeps the target.

    References:
        :doc:`/theory/permuted-sgd`.

    Example:
        >>> from shoal import learning
        >>> z = learning.noise_for(epsilon=0.01, n=10_000)
        >>> learning.account(noise_multiplier=z, n=10_000).epsilon <= 0.01
        True
    """
    return _smallest_noise(Run.of(None, n, sampling, neighbouring, **options), epsilon)


def compare(
    *,
    n: int,
    noise_multiplier: float | None = None,
    epsilon: float | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Unpack[RunOptions],
) -> Comparison:
    """The same steps under every kind of sampling: ε, or the noise for it.

    Args:
        n: Number of examples.
        noise_multiplier: Deviation of the noise over the clipping norm.
        epsilon: The target ε > 0 instead.
        progress: Called with the kinds done and all.
        **options: epochs, batch, delta and drop_last, as for
            :func:`shoal.learning.account`.

    Returns:
        A :class:`shoal.learning.Comparison`; a kind that has no guarantee is a
        :class:`shoal.learning.Refused` that says why, with epsilon None.

    Raises:
        ShoalError: No kind has a guarantee: the first error.

    References:
        :doc:`/theory/permuted-sgd`.

    Example:
        >>> from shoal import learning
        >>> rows = learning.compare(noise_multiplier=10, n=1_000)
        >>> [str(row.sampling) for row in rows]
        ['permutation', 'replacement', 'poisson', 'poisson', 'fixed']
    """
    rows: list[LearningGuarantee | Refused] = []
    for sampling, neighbouring in COMPARED:
        if progress is not None:
            progress(len(rows), len(COMPARED))
        try:
            run = Run.of(noise_multiplier, n, sampling, neighbouring, **options)
            rows.append(_guarantee(run, noise_multiplier, epsilon))
        except ShoalError as error:
            rows.append(Refused(sampling, neighbouring, error, noise_multiplier))
    comparison = Comparison(tuple(rows), epsilon)
    comparison.guarantee()  # there is one, or its error
    return comparison


def by_epochs(
    *,
    noise_multiplier: float,
    n: int,
    sampling: Sampling | str = Sampling.PERMUTATION,
    **options: Unpack[RunOptions],
) -> tuple[tuple[int, float], ...]:
    """A curve of ε over epochs, evenly spread on a log scale.

    It ends where there is no ε up to 50, above which it guarantees nothing.

    Args:
        noise_multiplier: Deviation of the noise over the clipping norm.
        n: Number of examples.
        sampling: How steps come by their examples, as for
            :func:`shoal.learning.account`.
        **options: epochs (the last point, 10 at least), batch, delta and drop_last.

    Returns:
        Pairs (epochs, ε).

    References:
        :doc:`/theory/permuted-sgd`.

    Example:
        >>> from shoal import learning
        >>> learning.by_epochs(noise_multiplier=10, n=1_000, sampling="fixed")[0][0]
        1
    """
    curve = []
    last = max(options.get("epochs", 1), _FEWEST_EPOCHS)
    for some in sorted({round(last ** (i / (_CURVE_POINTS - 1))) for i in range(_CURVE_POINTS)}):
        try:
            options["epochs"] = some
            epsilon = epsilon_of(Run.of(noise_multiplier, n, sampling, **options))
        except ShoalError:
            break
        if epsilon > LARGEST_EPSILON:
            break
        curve.append((some, epsilon))
    return tuple(curve)


def epsilon_of(run: Run) -> float:
    """The epsilon of :func:`account`."""
    return min(_value(route) for route in _routes(run, every=False))


def _guarantee(
    run: Run, noise_multiplier: float | None, epsilon: float | None
) -> LearningGuarantee:
    pair = {"(epsilon, noise_multiplier)": (epsilon, noise_multiplier)}
    both = (noise_multiplier is None) == (epsilon is None)
    checks.refuse(both, "exactly one of epsilon and noise_multiplier", **pair)
    if epsilon is not None:
        run = replace(run, noise_multiplier=_smallest_noise(run, epsilon))
    best = min(_routes(run, every=False), key=_value)
    reached = _value(best)
    if reached > LARGEST_EPSILON:
        shown = f"{reached:.3g}" if math.isfinite(reached) else "too large for double precision"
        raise UnreachableTargetError(
            f"a guarantee with noise multiplier {run.noise_multiplier:g}",
            f"epsilon would be {shown}, and over {LARGEST_EPSILON:g} it guarantees nothing",
            f"raise it to at least {up(_smallest_noise(run, LARGEST_EPSILON))}",
        )
    composed = run.epochs > 1 and best.name in permuted.ROUTES
    return LearningGuarantee(
        **vars(run),
        epsilon=reached,
        theorem=f"{best.name}, epochs composed" if composed else best.name,
        local=gaussian.epsilon(run.moved / run.noise_multiplier, run.delta),
        assumptions=(
            "each example's gradient is clipped to norm C before the sum; noise of deviation z C",
            _CHOSEN_BLIND,
            _PUBLIC_RATE if run.sampling is Sampling.POISSON else _PUBLIC_SIZES,
            "noise of real numbers: what rounding gives away is not counted",
        ),
    )


def _routes(run: Run, *, every: bool) -> Iterator[Route]:
    """The ways to an epsilon: every one, or those only that ever win."""
    drawn = (run.noise, run.batch / run.n, run.steps, run.delta)
    if run.sampling is Sampling.PERMUTATION:
        for name in permuted.ROUTES if every else (permuted.BLANKET,):
            epsilon = permuted.ROUTES[name](run)
            proved = math.isfinite(epsilon)
            yield Route(name, epsilon) if proved else Route(name, None, permuted.why_none(run))
    if run.sampling in (Sampling.PERMUTATION, Sampling.FIXED):
        epsilon = permuted.fixed_epsilon(run.noise_multiplier, run.epochs, run.delta)
        yield Route(permuted.FIXED, epsilon, "each example is used once an epoch")
    elif run.sampling is Sampling.REPLACEMENT:
        epsilon = steps.sampled_epsilon(steps.replacement_laws, run.moved, *drawn)
        yield Route("subsampling, composed numerically", epsilon)
        if every:
            published = steps.published_epsilon(*drawn)
            yield Route("subsampling, advanced composition", published, "as published in 2014")
    else:
        replaced = run.neighbouring == REPLACE
        laws = steps.poisson_replaced_laws if replaced else steps.poisson_laws
        epsilon = steps.sampled_epsilon(laws, run.moved, *drawn)
        yield Route("Poisson subsampling, composed numerically", epsilon)


def _value(route: Route) -> float:
    return math.inf if route.epsilon is None else route.epsilon


def _smallest_noise(run: Run, epsilon: float) -> float:
    """Between a noise that is too small and one that is enough, rounded up."""
    checks.positive(epsilon=epsilon)
    expected = f"epsilon <= {LARGEST_EPSILON:g} (more is no guarantee)"
    checks.refuse(epsilon > LARGEST_EPSILON, expected, epsilon=epsilon)
    if run.sampling is not Sampling.FIXED and run.blocks > MOST_BLOCKS:
        raise UnreachableTargetError(
            f"({epsilon:g}, {run.delta:g})-DP",
            f"noise is not sought for more than {MOST_BLOCKS:.0e} steps an epoch",
            "use larger batches, or choose the noise",
        )

    @cache
    def excess(log_noise: float) -> float:
        """log of the epsilon reached, over the target; at most 0 if it holds."""
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
    log_noise = root_below(excess, low, high, tolerance=_TOLERANCE)
    return float(_UPWARDS.create_decimal(repr(math.exp(log_noise))))
