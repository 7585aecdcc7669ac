"""How many partitions and bins to make where coins are public.

Which layouts are worth a calibration is told by a forecast. The noise for another number of bins
follows from one calibration to leading order: (e − 1)²/(e + L − 1), e being e^ε0, stays what it is
(the variance of the privacy loss), and so do the dummies per bin.
"""

from __future__ import annotations

import math
from functools import partial

from shoal.accounting.amplification import local_epsilon
from shoal.accounting.noise import dummies_rho
from shoal.protocols.base import Device
from shoal.protocols.partitioned import PartitionedDummies
from shoal.randomizers.partitioned import PartitionedResponse
from shoal.testing import power
from shoal.testing.forecast import Shape, Target
from shoal.testing.question import Question
from shoal.testing.scores_public import MOST_CELLS

PARTITIONS = (1, 4)
MOST_SYMBOLS = 1 << 20
_MOST_SHARED = 64  # bins of each of several partitions, unless asked for: one with more sees more
_TRIED = 2  # layouts of the best forecast that are calibrated
_LARGEST_LOCAL_EPSILON = 25.0
_SAMPLE = 16
_ALIKE = 0.02  # of power: not worth more messages


def shapes(question: Question, partitions: tuple[int, ...] = PARTITIONS) -> list[Shape]:
    """The layouts to choose from: powers of two below k, unless they are given."""
    k = question.k
    symbols = [1 << i for i in range(1, min(k, MOST_SYMBOLS).bit_length()) if 1 << i < k] or [k]
    if question.symbols is not None:
        symbols = [question.symbols]
    most = _MOST_SHARED
    if question.partitions is not None:
        partitions, most = (question.partitions,), MOST_CELLS // question.partitions
    found = [Shape(k, many, parts) for parts in partitions for many in symbols]
    fitting = [shape for shape in found if shape.partitions == 1 or shape.symbols <= most]
    return fitting or found[:1]  # what was asked for may be refused later, with a reason


def one_message_devices(question: Question) -> list[Device]:
    """The best layouts, by forecast, of randomized response on partitions."""
    choice = shapes(question)
    if len(choice) > 1:
        sample = min(choice, key=lambda shape: abs(shape.symbols - _SAMPLE))
        growth = math.exp(_calibrated(sample, question))
        constant = (growth - 1) ** 2 / (growth + sample.symbols - 1)
        target = _target(question)
        choice.sort(key=lambda shape: -shape.one_message(_truth(constant, shape.symbols), target))
    return [
        _family(shape, question)(epsilon=_calibrated(shape, question)) for shape in choice[:_TRIED]
    ]


def several_messages_devices(question: Question) -> list[Device]:
    """The best layout, by forecast, of histograms among dummies that keeps the cap.

    One partition unless more are asked for: they send as many times as much for the same power.
    """
    choice = shapes(question, (1,))
    if len(choice) > 1:
        each = {parts: _per_bin(parts, question) for parts in {c.partitions for c in choice}}
        choice = [_fewest_messages(choice, each, question)]
    best = choice[0]
    made = PartitionedDummies.calibrated(
        k=question.k,
        n=question.crowd.honest,
        epsilon=question.batch_epsilon,
        delta=question.delta,
        symbols=best.symbols,
        partitions=best.partitions,
        coins=question.coins,
    )
    return [made]


def _fewest_messages(choice: list[Shape], each: dict[int, float], question: Question) -> Shape:
    """Of the layouts within the cap and nearly the best forecast, the one that sends least."""
    target = _target(question)
    cap = math.inf if question.messages_cap is None else question.messages_cap

    def dummies(shape: Shape) -> float:
        return shape.symbols * each[shape.partitions]

    def messages(shape: Shape) -> float:
        return shape.partitions * (1 + dummies(shape))

    within = [shape for shape in choice if messages(shape) <= cap]
    powers = {shape: shape.several_messages(dummies(shape), target) for shape in within}
    enough = max(powers.values(), default=0.0) - _ALIKE
    # Nothing within the cap: the least there is will be named, and refused.
    alike = [shape for shape in within if powers[shape] >= enough] or choice
    return min(alike, key=messages)


def _target(question: Question) -> Target:
    other = question.n if question.closeness else None
    people = power.effective(question.n, other)
    return Target.of(question.reference, question.distance, people=people, level=question.level)


def _family(shape: Shape, question: Question) -> partial[PartitionedResponse]:
    return partial(
        PartitionedResponse,
        k=shape.k,
        symbols=shape.symbols,
        partitions=shape.partitions,
        coins=question.coins,
    )


def _calibrated(shape: Shape, question: Question) -> float:
    return local_epsilon(
        _family(shape, question),
        epsilon=question.batch_epsilon,
        delta=question.delta,
        n=question.n,
        honest_fraction=question.honest_fraction,
        cap=_LARGEST_LOCAL_EPSILON,
    )


def _truth(constant: float, symbols: int) -> float:
    """λ = y/(y + L) with y² = constant (y + L)."""
    excess = (constant + math.sqrt(constant**2 + 4 * constant * symbols)) / 2
    return excess / (excess + symbols)


def _per_bin(partitions: int, question: Question) -> float:
    """Dummies per person and bin, as for Gaussian noise."""
    bins = min(question.k, _SAMPLE)
    epsilon = question.batch_epsilon / math.sqrt(partitions)
    honest = question.crowd.honest
    return dummies_rho(n=honest, k=bins, epsilon=epsilon, delta=question.delta) / bins
