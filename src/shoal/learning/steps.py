"""Descent over permuted examples: Algorithm 2 of "Hiding Among the Clones".

In every epoch the examples are put into a fresh uniform order and cut into batches of b. A step is

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

Only the sequence of updates is a Python loop: orders, noise and what clipping allows are made for
many steps at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from shoal.learning.losses import Loss
from shoal.learning.noise import standard_normals
from shoal.randomness import Randomness
from shoal.values import Array

Tell = Callable[[int, int], None]
_TOGETHER = 1 << 18  # numbers of examples, and of noise, that are laid out at once


@dataclass
class Progress:
    """Tells how many of all steps are made."""

    tell: Tell | None
    total: int
    done: int = 0

    def add(self, steps: int) -> None:
        """So many more are made."""
        self.done += steps
        if self.tell is not None:
            self.tell(self.done, self.total)


@dataclass(frozen=True, eq=False)
class Task:
    """Examples, what they should be scored as, and the loss."""

    examples: Array  # (n, d)
    targets: Array  # (n,)
    loss: Loss

    def mean_loss(self, theta: Array) -> float:
        """The mean loss of all examples; it is theirs, and not private."""
        return float(self.loss.values(self.examples @ theta, self.targets).mean())


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How steps are taken; all of it is public."""

    epochs: int
    batch: int
    rate: float
    clip: float
    noise: float  # standard deviation of each coordinate of what is added to a batch's sum
    radius: float  # of the ball that theta is projected onto, infinite for none

    def steps(self, n: int) -> int:
        """Of one epoch: whole batches only."""
        return n // self.batch


@dataclass(frozen=True, eq=False)
class Path:
    """Where the steps have led."""

    last: Array
    average: Array
    iterates: Array | None
    losses: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Watch:
    """What is recorded on the way, and who is told."""

    iterates: bool = False
    losses: bool = False
    progress: Progress | None = None


def descend(task: Task, schedule: Schedule, *, randomness: Randomness, watch: Watch) -> Path:
    """All epochs, from zero."""
    n, d = task.examples.shape
    theta, total = np.zeros(d), np.zeros(d)
    kept: list[Array] = []
    losses: list[float] = []
    walker = _Walker(task, schedule)
    for _ in range(schedule.epochs):
        order = randomness.permutation(n)
        for taken in _pieces(order, schedule, d):
            rows = len(taken) // schedule.batch
            noise = _noise((rows, d), schedule, randomness)
            iterates = walker.walk(theta, taken, noise)
            theta = iterates[-1]
            total += iterates.sum(axis=0)
            if watch.iterates:
                kept.append(iterates)
            if watch.progress is not None:
                watch.progress.add(rows)
        if watch.losses:
            losses.append(task.mean_loss(theta))
    return Path(
        last=theta.copy(),
        average=total / (schedule.epochs * schedule.steps(n)),
        iterates=np.concatenate(kept) if watch.iterates else None,
        losses=tuple(losses),
    )


def _pieces(
    order: npt.NDArray[np.int64], schedule: Schedule, d: int
) -> Iterator[npt.NDArray[np.int64]]:
    """The order cut into whole batches, as many at once as fit; what is left over is dropped."""
    whole = schedule.steps(len(order)) * schedule.batch
    together = max(1, _TOGETHER // (schedule.batch * d)) * schedule.batch
    for start in range(0, whole, together):
        yield order[start : min(start + together, whole)]


def _noise(shape: tuple[int, int], schedule: Schedule, randomness: Randomness) -> Array:
    """What noise does to theta in each step: it never sees the data, so it is scaled here."""
    if schedule.noise == 0:
        return np.zeros(shape)
    drawn = standard_normals(shape[0] * shape[1], randomness=randomness)
    drawn *= schedule.noise * schedule.rate / schedule.batch
    return drawn.reshape(shape)


@dataclass(frozen=True, eq=False)
class _Walker:
    task: Task
    schedule: Schedule

    @cached_property
    def allowed(self) -> Array:
        return steepest(self.task.examples, clip=self.schedule.clip)

    @property
    def shrink(self) -> float:
        """What the step of the l2 term leaves of theta."""
        return 1 - self.schedule.rate * self.task.loss.l2

    def walk(self, theta: Array, taken: npt.NDArray[np.int64], noise: Array) -> Array:
        """The iterates of the steps over these examples, in this order."""
        examples, targets = self.task.examples[taken], self.task.targets[taken]
        allowed = self.allowed[taken]
        step = self._singly if self.schedule.batch == 1 else self._in_batches
        return step(theta, (examples, targets, allowed), noise)

    def _singly(self, theta: Array, data: tuple[Array, Array, Array], noise: Array) -> Array:
        """One example a step: its score and slope are plain numbers."""
        examples, targets, allowed = data
        slope_of, rate, shrink = self.task.loss.slope, self.schedule.rate, self.shrink
        radius, square = self.schedule.radius, self.schedule.radius**2
        moved = np.empty_like(theta)
        iterates = np.empty_like(noise)
        each = zip(examples, targets.tolist(), allowed.tolist(), noise, iterates, strict=True)
        for x, target, most, shaken, following in each:
            slope = slope_of(float(x.dot(theta)), target)
            np.multiply(x, rate * max(-most, min(slope, most)), out=moved)
            moved += shaken
            if shrink != 1:
                theta = theta * shrink  # a new one: rows of iterates stay as they are
            theta = np.subtract(theta, moved, out=following)
            length = float(theta.dot(theta))
            if length > square:
                theta *= radius / math.sqrt(length)
        return iterates

    def _in_batches(self, theta: Array, data: tuple[Array, Array, Array], noise: Array) -> Array:
        examples, targets, allowed = data
        batch, loss = self.schedule.batch, self.task.loss
        rate, shrink = self.schedule.rate / batch, self.shrink
        radius = self.schedule.radius
        iterates = np.empty_like(noise)
        for number, (shaken, following) in enumerate(zip(noise, iterates, strict=True)):
            here = slice(number * batch, (number + 1) * batch)
            block = examples[here]
            slopes = loss.slopes(block @ theta, targets[here])
            moved = clipped_sum(block, slopes, allowed[here])
            moved *= rate
            moved += shaken
            theta = np.subtract(theta * shrink, moved, out=following)
            length = math.sqrt(float(theta.dot(theta)))
            if length > radius:
                theta *= radius / length
        return iterates


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
