"""Training linear models privately: permuted examples, clipped gradients, noise, and what it costs.

The guarantee is one of :func:`shoal.learning.account`, for permuted examples or for any order:
replacing one changes the law of *all* iterates together by no more than (epsilon, delta). It is a
statement about real arithmetic (see :func:`standard_normals`), and about numbers that were chosen
without looking at the data: the radius, the rate, the clipping, and how features are scaled. Labels
that are taken from the answers are an assumption of the guarantee too, and listed there.

*Descent* is Algorithm 2 of "Hiding Among the Clones". In every epoch the examples are put into a
fresh uniform order and cut into batches of b. A step is

    theta <- P(theta - rate (g/b + l2 theta)),   g = sum over the batch of clip_C(gradient) + N,

with N normal, of standard deviation ``noise`` in each coordinate, and P the projection onto a ball
around zero (Feldman, McMillan, Talwar, FOCS 2021, arXiv 2012.12803, Section 5.2, there with b = 1).
Every theta may be published.

*Clipping.* The loss of a linear model is a function of the score x.theta, so the gradient of an
example is s x, s the slope of the loss in the score, and its norm is |s| |x|. Scaling it down to
norm C is cutting s off at ±C/|x|: nothing of the size of a gradient is ever computed for one
example.

The slope of a convex loss increases with the score, and cut off it still does: clipped gradients
are the gradients of another convex loss, linear where the slope was cut and C-Lipschitz. Descent
with clipping minimizes that one (Song, Steinke, Thakkar, Thakurta, "Evading the Curse of
Dimensionality in Unconstrained Private GLMs", AISTATS 2021, arXiv 2006.06783).

*Losses.* What is minimized is the mean over examples (x, y) of a convex loss of the score. A loss
gives its value and its slope; its slope exists twice, since for one example at a time arrays cost
more than the arithmetic. It reads the answers that it is about (as numbers, and the labels they
stand for, if they do) and names what that takes as public. Half of l2 |theta|^2 may be added: that
term does not depend on the data, so its gradient is neither clipped nor hidden by noise.

Only the sequence of updates is a Python loop: orders, noise and what clipping allows are made for
many steps at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.learning.accountant import LearningGuarantee
from shoal.learning.run import Run
from shoal.randomness import Randomness, secure
from shoal.values import Array

Order = npt.NDArray[np.int64]
Label = object

OWN_LOSSES = "the mean losses of the fit come from the examples themselves, and are not published"
SUMMANDS = 4  # of a normal number
PUBLIC_LABELS = (
    "which two labels there are is treated as public: they were taken from the answers (name them: "
    "Logistic(labels=(first, second)))"
)
LARGEST_NUMBER = 1e100  # squares and sums of what is smaller stay finite
_STEEP = 700.0  # the largest argument whose exponential is finite, about
_TOGETHER = 1 << 18  # numbers of examples, and of noise, that are laid out at once
_UNIT = 2.0**-63
_TURN = 2 * math.pi * _UNIT
_PAIRS = 1 << 12  # of normal numbers, made at once: they stay in the cache


@dataclass(frozen=True, kw_only=True)
class Logistic:
    """The logistic loss log(1 + exp(−y s)) for two labels, y = −1 the first and +1 the second.

    Args:
        l2: Weight of half the squared norm of the parameters, >= 0.
        labels: The two labels, in that order. Without it they are the two that occur, sorted.
            Which they are is then treated as public, and the guarantee of a training run says
            so: where one person alone has a label, leaving that person's answer out is an
            error, not a model.

    Raises:
        InvalidArgumentError: ``l2`` is negative, or there are not two different labels.

    Example:
        >>> loss = Logistic(labels=("no", "yes"))
        >>> loss.reading(["yes", "no"])[0].tolist()
        [1.0, -1.0]
        >>> round(loss.slope(0.0, 1.0), 3)
        -0.5
    """

    l2: float = 0.0
    labels: Sequence[Label] | None = None

    def __post_init__(self) -> None:
        checks.non_negative(l2=self.l2)
        if self.labels is None:
            return
        named = tuple(self.labels)
        wrong = len(named) != 2 or named[0] == named[1]
        checks.refuse(wrong, "two different labels", labels=self.labels)
        object.__setattr__(self, "labels", named)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Labels that were not named are taken from the answers, without noise."""
        return (PUBLIC_LABELS,) if self.labels is None else ()

    def reading(self, y: npt.ArrayLike) -> tuple[Array, tuple[Label, ...]]:
        """Minus and plus one, and the two labels."""
        answers = np.asarray(y)
        named = _two_labels(answers) if self.labels is None else tuple(self.labels)
        first, second = (np.asarray(answers == label, dtype=np.bool) for label in named)
        expected = f"only the labels {named[0]!r} and {named[1]!r}"
        checks.everybody(first | second, expected, answers=answers)
        return np.where(second, 1.0, -1.0), named

    def values(self, scores: Array, targets: Array) -> Array:
        """log(1 + exp(-y s))."""
        return np.logaddexp(0.0, -targets * scores)

    def slopes(self, scores: Array, targets: Array) -> Array:
        """-y/(1 + exp(y s))."""
        return -targets / (1.0 + np.exp(np.minimum(targets * scores, _STEEP)))

    def slope(self, score: float, target: float) -> float:
        """-y/(1 + exp(y s))."""
        return -target / (1.0 + math.exp(min(target * score, _STEEP)))

    def predicted(self, scores: Array, labels: tuple[Label, ...]) -> npt.NDArray[np.generic]:
        """The second label where the score is above zero."""
        return np.asarray(labels)[(scores > 0).astype(np.intp)]

    def score(self, scores: Array, y: npt.ArrayLike, labels: tuple[Label, ...]) -> float:
        """The fraction of answers predicted right."""
        targets, _ = Logistic(labels=labels).reading(y)
        return float(np.mean((scores > 0) == (targets > 0)))


@dataclass(frozen=True, kw_only=True)
class Ridge:
    """Half the squared residual, (s − y)²/2.

    Args:
        l2: Weight of half the squared norm of the parameters, >= 0.

    Raises:
        InvalidArgumentError: ``l2`` is negative.

    Example:
        >>> Ridge(l2=0.1).slope(3.0, 1.0)
        2.0
    """

    l2: float = 0.0
    assumptions: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        checks.non_negative(l2=self.l2)

    def reading(self, y: npt.ArrayLike) -> tuple[Array, tuple[Label, ...]]:
        """The answers, which must be numbers."""
        return numbers("answers", y, dimensions=1), ()

    def values(self, scores: Array, targets: Array) -> Array:
        """(s - y)^2/2."""
        return 0.5 * np.square(scores - targets)

    def slopes(self, scores: Array, targets: Array) -> Array:
        """s - y."""
        return scores - targets

    def slope(self, score: float, target: float) -> float:
        """s - y."""
        return score - target

    def predicted(self, scores: Array, labels: tuple[Label, ...]) -> npt.NDArray[np.generic]:  # noqa: ARG002
        """The score itself."""
        return scores

    def score(self, scores: Array, y: npt.ArrayLike, labels: tuple[Label, ...]) -> float:  # noqa: ARG002
        """R^2: one minus the fraction of the variance of the answers that is left."""
        targets = numbers("answers", y, dimensions=1)
        spread = float(np.square(targets - targets.mean()).sum())
        expected = "answers that are not all the same"
        checks.refuse(spread == 0, expected, answers=float(targets[0]))
        return 1 - float(np.square(scores - targets).sum()) / spread


Loss: TypeAlias = Logistic | Ridge
_LOGISTIC = Logistic()


@dataclass(frozen=True, kw_only=True)
class Descent:
    """How θ moves: steps of noisy mean gradients, clipped one by one, projected onto a ball.

    The rate, unless one is given, is for all T steps and d features

        radius/(G √T),  G² = (clip + l2 radius)² + d noise²/batch²,

    G² being at least the mean square of a step's gradient with its noise. In one pass
    over independent examples the mean of the iterates then has, in expectation, a
    clipped loss at most radius G (1/√T + 1/T) above the best in the ball.

    Args:
        clip: The longest gradient of one example, > 0: a longer one is scaled down.
        radius: θ stays in this ball around zero; None for anywhere, with a rate.
        rate: Length of a step, at most 1/l2 if there is an l2.
        average: Whether the model is the mean of the iterates, or the last one.

    Raises:
        InvalidArgumentError: A number is out of its range, or neither a radius nor a
            rate is given.

    References:
        Nemirovski, Juditsky, Lan, Shapiro, "Robust Stochastic Approximation Approach to
        Stochastic Programming", SIAM J. Optim. 2009, Section 2.2, for the rate.

    Example:
        >>> Descent(clip=0.5, radius=None, rate=0.1).reach
        inf
    """

    clip: float = 1.0
    radius: float | None = 5.0
    rate: float | None = None
    average: bool = True

    def __post_init__(self) -> None:
        checks.positive(clip=self.clip)
        if self.radius is not None:
            checks.positive(radius=self.radius)
        else:
            expected = "a rate if radius=None: the default rate is in proportion to the radius"
            checks.refuse(self.rate is None, expected, rate=self.rate)
        if self.rate is not None:
            checks.positive(rate=self.rate)

    @property
    def reach(self) -> float:
        """The radius of the ball, infinite for anywhere."""
        return math.inf if self.radius is None else self.radius

    def deviation(self, run: Run) -> float:
        """Of the noise in each coordinate of the sum of a batch."""
        return run.noise_multiplier * self.clip

    def length(self, loss: Loss, run: Run, features: int) -> float:
        """Length of a step: the rate, or the one that goes with this loss, run and noise."""
        if self.rate is not None:
            if loss.l2:  # theta would be thrown across zero
                expected = f"rate <= 1/l2 = {1 / loss.l2:.6g}"
                checks.refuse(self.rate * loss.l2 > 1, expected, rate=self.rate)
            return self.rate
        shaken = math.sqrt(features) * self.deviation(run) / run.batch
        size = math.hypot(self.clip + loss.l2 * self.reach, shaken)
        rate = self.reach / (size * math.sqrt(run.steps))
        return min(rate, 1 / loss.l2) if loss.l2 else rate


_DESCENT = Descent()


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """A linear model that :func:`shoal.learning.train` fitted, and its guarantee.

    Attributes:
        weights: One for each feature.
        intercept: 0 unless there is one.
        loss: What it was trained for.
        labels: The two labels of :class:`shoal.learning.Logistic`.
        rate: Length of a step.
        guarantee: The (ε, δ) of the training, which covers the iterates too.
        iterates: Every θ, a row a step, the intercept last if there is one; if kept.
        losses: Mean loss after each epoch, filled by ``history``: they are the examples' own,
            and the guarantee does not cover them.

    References:
        :doc:`/theory/permuted-sgd`.
    """

    weights: Array
    intercept: float
    loss: Loss
    labels: tuple[Label, ...]
    rate: float
    guarantee: LearningGuarantee
    iterates: Array | None = None  # (steps, d), the intercept last if there is one
    losses: tuple[float, ...] = ()

    def decision(self, examples: npt.ArrayLike) -> Array:
        """The score of each example."""
        rows = numbers("examples", examples, dimensions=2)
        shape, features = rows.shape, len(self.weights)
        expected = f"{features} features, as in training"
        checks.refuse(shape[1] != features, expected, examples=f"array of shape {shape}")
        return np.asarray(rows @ self.weights + self.intercept, dtype=np.float64)

    def predict(self, examples: npt.ArrayLike) -> npt.NDArray[np.generic]:
        """Labels, or numbers for :class:`Ridge`."""
        return self.loss.predicted(self.decision(examples), self.labels)

    def score(self, examples: npt.ArrayLike, answers: npt.ArrayLike) -> float:
        """The fraction of right labels, or R^2."""
        scores = self.decision(examples)
        _require_as_many(len(scores), answers)
        return self.loss.score(scores, answers, self.labels)

    def __str__(self) -> str:
        kind = type(self.loss).__name__.lower()
        conditions = ", and ".join([self.guarantee.words, *self.loss.assumptions])
        return f"{kind} model of {len(self.weights)} features: {conditions}"


def train(
    examples: npt.ArrayLike,
    answers: npt.ArrayLike,
    guarantee: LearningGuarantee,
    *,
    loss: Loss = _LOGISTIC,
    descent: Descent = _DESCENT,
    intercept: bool = False,
    keep_iterates: bool = False,
    history: bool = False,
    randomness: Randomness | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Fit:
    """Train a linear model by noisy gradient steps over freshly permuted examples.

    Noise is added to the sum of a batch's gradients. The guarantee says how much of it,
    how many epochs and which batches: ask for it first, and train if it will do. If it
    was asked for with ``drop_last``, other examples are left out in each epoch.

    Args:
        examples: An array (n, d).
        answers: Two labels for :class:`shoal.learning.Logistic`, numbers for ``Ridge``.
        guarantee: That of :func:`shoal.learning.account` for these n examples, by
            permutation, or with sampling "fixed", which holds in any order.
        loss: What is minimized. Name the labels, ``Logistic(labels=("no", "yes"))``:
            those that are taken from the answers are released without noise, and the
            guarantee assumes that they are public.
        descent: The clipping norm, the ball, the rate, and whether to average.
        intercept: Append a constant feature 1, clipped together with the others.
        keep_iterates: Keep every θ, which the guarantee covers.
        history: Keep the mean loss after each epoch, which it does not cover.
        randomness: That of a simulation; None is secure.
        progress: Called with the steps done and all.

    Returns:
        A :class:`shoal.learning.Fit`, with the guarantee and what else it assumes.

    Raises:
        InvalidArgumentError: Numbers or shapes that are refused, a rate too long for
            l2, or a guarantee of another number of examples or another sampling.

    References:
        :doc:`/theory/permuted-sgd`.

    Example:
        >>> import numpy as np
        >>> from shoal import learning
        >>> examples = np.array([[1.0, 0.0], [-1.0, 0.0]] * 500)
        >>> labels, loss = ["yes", "no"] * 500, learning.Logistic(labels=("no", "yes"))
        >>> guarantee = learning.account(n=1_000, noise_multiplier=2)
        >>> fit = learning.train(examples, labels, guarantee, loss=loss)
        >>> fit.guarantee == guarantee, fit.weights.shape
        (True, (2,))
    """
    checks.refuse(not isinstance(loss, Loss), "loss to be Logistic(...) or Ridge(...)", loss=loss)
    rows = numbers("examples", examples, dimensions=2)
    _require_as_many(len(rows), answers)
    targets, labels = loss.reading(answers)
    guarantee.require_permuted(len(rows))
    if intercept:
        rows = np.column_stack([rows, np.ones(len(rows))])
    path = descend(
        rows,
        targets,
        loss,
        guarantee,
        descent,
        randomness=secure() if randomness is None else randomness,
        keep_iterates=keep_iterates,
        history=history,
        progress=progress,
    )
    theta = path.average if descent.average else path.last
    return Fit(
        weights=theta[:-1] if intercept else theta,
        intercept=float(theta[-1]) if intercept else 0.0,
        loss=loss,
        labels=labels,
        rate=path.rate,
        guarantee=guarantee.assuming(*loss.assumptions, *([OWN_LOSSES] if history else [])),
        iterates=path.iterates,
        losses=path.losses,
    )


def _require_as_many(n: int, answers: npt.ArrayLike) -> None:
    shape = np.shape(answers)
    expected = f"{n} answers, one for each example"
    checks.refuse(len(shape) != 1 or shape[0] != n, expected, answers=f"array of shape {shape}")


class Path(NamedTuple):
    """Where the steps have led."""

    last: Array
    average: Array
    rate: float
    iterates: Array | None
    losses: tuple[float, ...]


def descend(
    examples: Array,
    targets: Array,
    loss: Loss,
    run: Run,
    descent: Descent,
    *,
    randomness: Randomness,
    keep_iterates: bool = False,
    history: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """All epochs of the run, in whole batches, from zero."""
    n, d = examples.shape
    batch, steps = run.batch, run.epochs * run.blocks
    rate, noise, radius = descent.length(loss, run, d), descent.deviation(run), descent.reach
    theta, total, done = np.zeros(d), np.zeros(d), 0
    pieces: list[Array] = []
    losses: list[float] = []
    allowed = steepest(examples, clip=descent.clip)
    shrink = 1 - rate * loss.l2  # what the step of the l2 term leaves of theta

    def walk(theta: Array, taken: Order, shaken: Array) -> Array:
        """The iterates of the steps over these examples, in this order."""
        iterates = np.empty_like(shaken)
        rows, answers, most = examples[taken], targets[taken], allowed[taken]
        for step, (by_noise, following) in enumerate(zip(shaken, iterates, strict=True)):
            if batch == 1:  # score and slope are plain numbers: arrays of one would take longer
                x, cut = rows[step], float(most[step])
                slope = loss.slope(float(x.dot(theta)), float(answers[step]))
                moved = x * (rate * max(-cut, min(slope, cut)))
            else:
                here = slice(step * batch, (step + 1) * batch)
                slopes = loss.slopes(rows[here] @ theta, answers[here])
                moved = clipped_sum(rows[here], slopes, most[here])
                moved *= rate / batch
            moved += by_noise
            if shrink != 1:
                theta = theta * shrink  # a new one: rows of iterates stay as they are
            theta = np.subtract(theta, moved, out=following)
            length = math.sqrt(float(theta.dot(theta)))
            if length > radius:
                theta *= radius / length
        return iterates

    for _ in range(run.epochs):
        for taken in shuffled(n, batch, randomness, together=_TOGETHER // (batch * d)):
            # Noise never sees the data, so it is scaled for all steps at once.
            shaken = standard_normals(len(taken) // batch * d, randomness=randomness)
            shaken *= noise * rate / batch
            iterates = walk(theta, taken, shaken.reshape(-1, d))
            theta = iterates[-1]
            total += iterates.sum(axis=0)
            done += len(iterates)
            if keep_iterates:
                pieces.append(iterates)
            if progress is not None:
                progress(done, steps)
        if history:
            losses.append(float(loss.values(examples @ theta, targets).mean()))
    every = np.concatenate(pieces) if keep_iterates else None
    return Path(theta.copy(), total / steps, rate, every, tuple(losses))


def shuffled(n: int, batch: int, randomness: Randomness, *, together: int = 1) -> Iterator[Order]:
    """A fresh order cut into whole batches, so many at once; what is left over is dropped."""
    order = randomness.permutation(n)
    whole, size = n // batch * batch, max(1, together) * batch
    for start in range(0, whole, size):
        yield order[start : min(start + size, whole)]


def steepest(examples: Array, *, clip: float) -> Array:
    """C/|x| per example: the steepest slope that is not cut off; infinite for x = 0.

    >>> steepest(np.array([[3.0, 4.0], [0.0, 0.0]]), clip=1.0).tolist()
    [0.2, inf]
    """
    # Relative to the largest entry: the square of a tiny one is zero, its gradient need not be.
    largest = np.abs(examples).max(axis=1, initial=0.0)
    scaled = examples / np.where(largest > 0, largest, 1.0)[:, None]
    norms = largest * np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
    allowed = np.full(len(examples), np.inf)
    np.divide(clip, norms, out=allowed, where=norms > 0)
    return allowed


def clipped_sum(examples: Array, slopes: Array, allowed: Array) -> Array:
    """Sum over a batch of s x, each s cut off at what its example allows."""
    return np.asarray(np.clip(slopes, -allowed, allowed) @ examples, dtype=np.float64)


def standard_normals(size: int, *, randomness: Randomness) -> Array:
    """Independent numbers from the secure source, each normal with mean 0 and variance 1.

    Two uniform words U, V make two independent standard normals, sqrt(-2 log U) cos(2 pi V) and
    sqrt(-2 log U) sin(2 pi V) (Box and Muller, "A Note on the Generation of Random Normal
    Deviates", Annals of Mathematical Statistics 1958). In floating point a single one takes few
    values, and which of them can be reached tells something about what it was added to. So each
    number here is half the sum of four, all of which an attacker would have to guess at once
    (Holohan and Braghin, "Secure Random Sampling in Differential Privacy", ESORICS 2021, arXiv
    2107.10138).

    That is meant to make the known attacks on floating point impractical; it does not prove that
    there is none. Guarantees of training are statements about real arithmetic. None of the four is
    beyond 9.4 standard deviations, where it would be with a probability below 2^-64.

    >>> from shoal.randomness import simulated
    >>> drawn = standard_normals(10_000, randomness=simulated(1))
    >>> bool(abs(drawn.mean()) < 0.05), bool(abs(drawn.std() - 1) < 0.05)
    (True, True)
    """
    half = -(-size // 2)
    drawn = np.empty((2, half))
    for start in range(0, half, _PAIRS):
        pairs = drawn[:, start : start + _PAIRS]
        count = pairs.shape[1]
        words = randomness.words(2 * SUMMANDS * count)
        words >>= np.uint64(1)  # signed words become floats sooner
        radii, angles = words.view(np.int64).astype(np.float64).reshape(2, SUMMANDS, count)
        radii += 0.5  # never the logarithm of zero
        radii *= _UNIT
        np.log(radii, out=radii)
        radii *= -2 / SUMMANDS
        np.sqrt(radii, out=radii)
        angles *= _TURN
        np.einsum("ij,ij->j", radii, np.cos(angles), out=pairs[0])
        np.einsum("ij,ij->j", radii, np.sin(angles), out=pairs[1])
    return drawn.reshape(-1)[:size]


def numbers(name: str, values: npt.ArrayLike, *, dimensions: int) -> Array:
    """An array of finite numbers with so many dimensions; the first one that is not is named."""
    try:
        read = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(name, type(values).__name__, f"{name} of numbers") from error
    if read.ndim != dimensions or not read.size:
        shape = "one number per example" if dimensions == 1 else "one row of numbers per example"
        raise InvalidArgumentError(name, f"array of shape {read.shape}", f"{name} with {shape}")
    strange = ~(np.abs(read) <= LARGEST_NUMBER)
    if strange.any():
        place = tuple(int(part) for part in np.argwhere(strange)[0])
        where = ", ".join(map(str, place))
        expected = f"{name} of finite numbers, at most {LARGEST_NUMBER:g} in size (see [{where}])"
        raise InvalidArgumentError(name, float(read[place]), expected)
    return read


def _two_labels(answers: npt.NDArray[np.generic]) -> tuple[Label, ...]:
    try:
        sorted_labels = np.unique(answers)
    except TypeError as error:
        expected = "labels of one kind; name them: Logistic(labels=(first, second))"
        raise InvalidArgumentError("answers", type(answers[0]).__name__, expected) from error
    if sorted_labels.dtype.kind == "f" and np.isnan(sorted_labels).any():
        raise InvalidArgumentError("answers", math.nan, "labels, none of them missing")
    labels = sorted_labels.tolist()
    if len(labels) != 2:
        shown = ", ".join(map(repr, labels[:4])) + (", …" * (len(labels) > 4))
        expected = (
            "two different labels; if one is missing name both: Logistic(labels=(first, second))"
        )
        raise InvalidArgumentError("answers", f"{len(labels)} labels: {shown}", expected)
    return tuple(labels)
