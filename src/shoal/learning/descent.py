"""Training linear models privately: permuted examples, clipped gradients, noise, and what it costs.

The guarantee is that of :func:`shoal.learning.account` for ``sampling="permutation"``: replacing
one example changes the law of *all* iterates together by no more than (epsilon, delta). It is a
statement about real arithmetic (see :mod:`shoal.learning.noise`), and about numbers that were
chosen without looking at the data: the radius, the rate, the clipping, and how features are scaled.
Labels that are taken from the answers are an assumption of the guarantee too, and listed there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.learning.accountant import account
from shoal.learning.guarantee import LearningGuarantee
from shoal.learning.losses import Label, Logistic, Loss, numbers
from shoal.learning.steps import Progress, Schedule, Task, Tell, Watch, descend
from shoal.randomizers.base import source
from shoal.randomness import Randomness
from shoal.values import Array

_LOGISTIC = Logistic()
OWN_LOSSES = "the mean losses of the fit, which are the examples' own, are not published"


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """A trained linear model with its guarantee, which covers the iterates too.

    ``losses``, if they were asked for, are the examples' own: the guarantee does not cover them.
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
        if rows.shape[1] != len(self.weights):
            expected = f"{len(self.weights)} features, as in training"
            raise InvalidArgumentError("examples", f"array of shape {rows.shape}", expected)
        return np.asarray(rows @ self.weights + self.intercept, dtype=np.float64)

    def predict(self, examples: npt.ArrayLike) -> npt.NDArray[np.generic]:
        """Labels, or numbers for :class:`~shoal.learning.losses.Ridge`."""
        return self.loss.predicted(self.decision(examples), self.labels)

    def score(self, examples: npt.ArrayLike, answers: npt.ArrayLike) -> float:
        """The share of right labels, or R^2."""
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
    *,
    loss: Loss = _LOGISTIC,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    delta: float = 1e-6,
    epochs: int = 1,
    batch: int = 1,
    clip: float = 1.0,
    radius: float | None = 5.0,
    rate: float | None = None,
    average: bool = True,
    intercept: bool = False,
    drop_last: bool = False,
    keep_iterates: bool = False,
    history: bool = False,
    randomness: Randomness | None = None,
    progress: Tell | None = None,
) -> Fit:
    """Train a linear model by noisy gradient steps over freshly permuted examples.

    ``examples`` is an array (n, d); ``answers`` are two labels for
    :class:`~shoal.learning.losses.Logistic`, numbers for :class:`~shoal.learning.losses.Ridge`.
    Name the labels, ``loss=Logistic(labels=("no", "yes"))``: those that are taken from the answers
    are released without noise, and the guarantee assumes that they are public.
    Exactly one of ``epsilon`` (the least noise that keeps it is found) and ``noise_multiplier``,
    the standard deviation of the noise over ``clip``. Each example's gradient is scaled down to
    the norm ``clip`` if it is longer; noise is added to the sum of a batch.

    theta stays in the ball of this ``radius`` around zero; with ``None`` anywhere, and ``rate`` has
    to be given. It is the same for all T steps; unless it is given it is

        radius/(G sqrt(T)),  G^2 = (clip + l2 radius)^2 + d noise^2/batch^2,

    G^2 being at least the mean square of a step's gradient with its noise. In one pass over
    independent examples the mean of the iterates then has, in expectation, a clipped loss at most
    radius G (1/sqrt(T) + 1/T) above the best in the ball (Nemirovski, Juditsky, Lan, Shapiro,
    "Robust Stochastic Approximation Approach to Stochastic Programming", SIAM J. Optim. 2009,
    Section 2.2). ``average`` returns that mean, otherwise the last iterate.

    ``intercept`` appends a constant feature 1, clipped together with the others. Examples that do
    not fill a batch are refused, or with ``drop_last`` left out, other ones in each epoch. With
    ``keep_iterates`` the fit has every theta, which the guarantee covers; ``history`` fills
    ``losses`` with the mean loss after each epoch, which it does not. ``progress`` is called with
    steps done and all steps.
    """
    checks.positive(clip=clip)
    rows, targets, labels = _read(examples, answers, loss)
    _require_rate(rate, radius, loss.l2)
    guarantee = account(
        n=len(rows),
        noise_multiplier=noise_multiplier,
        epsilon=epsilon,
        epochs=epochs,
        batch=batch,
        delta=delta,
        drop_last=drop_last,
    ).assuming(*loss.assumptions, *([OWN_LOSSES] if history else []))
    if intercept:
        rows = np.column_stack([rows, np.ones(len(rows))])
    noise = guarantee.noise_multiplier * clip
    reach = math.inf if radius is None else radius
    if rate is None:
        shaken = math.sqrt(rows.shape[1]) * noise / guarantee.batch
        rate = _default_rate(clip, shaken, l2=loss.l2, radius=reach, steps=guarantee.steps)
    schedule = Schedule(
        epochs=guarantee.epochs,
        batch=guarantee.batch,
        rate=rate,
        clip=clip,
        noise=noise,
        radius=reach,
    )
    told = Progress(progress, guarantee.steps)
    watch = Watch(iterates=keep_iterates, losses=history, progress=told)
    bits = source(randomness)
    path = descend(Task(rows, targets, loss), schedule, randomness=bits, watch=watch)
    theta = path.average if average else path.last
    return Fit(
        weights=theta[:-1] if intercept else theta,
        intercept=float(theta[-1]) if intercept else 0.0,
        loss=loss,
        labels=labels,
        rate=schedule.rate,
        guarantee=guarantee,
        iterates=path.iterates,
        losses=path.losses,
    )


def _read(
    examples: npt.ArrayLike, answers: npt.ArrayLike, loss: Loss
) -> tuple[Array, Array, tuple[Label, ...]]:
    if not isinstance(loss, Loss):
        raise InvalidArgumentError("loss", loss, "loss to be Logistic(...) or Ridge(...)")
    rows = numbers("examples", examples, dimensions=2)
    _require_as_many(len(rows), answers)
    targets, labels = loss.reading(answers)
    return rows, targets, labels


def _require_as_many(n: int, answers: npt.ArrayLike) -> None:
    shape = np.shape(answers)
    if len(shape) != 1 or shape[0] != n:
        expected = f"{n} answers, one for each example"
        raise InvalidArgumentError("answers", f"array of shape {shape}", expected)


def _require_rate(rate: float | None, radius: float | None, l2: float) -> None:
    if radius is not None:
        checks.positive(radius=radius)
    elif rate is None:
        expected = "a rate if radius=None: the default rate is in proportion to the radius"
        raise InvalidArgumentError("rate", rate, expected)
    if rate is not None:
        checks.positive(rate=rate)
        if rate * l2 > 1:  # theta would be thrown across zero
            raise InvalidArgumentError("rate", rate, f"rate <= 1/l2 = {1 / l2:.6g}")


def _default_rate(clip: float, noise: float, *, l2: float, radius: float, steps: int) -> float:
    """radius/(G sqrt(steps)), where G^2 bounds the mean square of a gradient with its noise."""
    rate = radius / (math.hypot(clip + l2 * radius, noise) * math.sqrt(steps))
    return min(rate, 1 / l2) if l2 else rate
