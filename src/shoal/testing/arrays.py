"""Whole tests of arrays, from answers to the verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.engines.shuffling import shuffle
from shoal.questions.terms import EVERYBODY, NO_LIMITS, Crowd, Limits
from shoal.randomness import Randomness
from shoal.testing.designing import designed, with_coins
from shoal.testing.hypothesis import LEVEL, Hypothesis
from shoal.testing.ranks import ENOUGH, Simulations
from shoal.testing.setting import ANY_WAY, DELTA, Setting, Way
from shoal.testing.tester import Tester
from shoal.testing.verdict import Verdict
from shoal.values import Batch, Counts, category_codes


def uniformity(
    values: npt.ArrayLike,
    *,
    k: int,
    epsilon: float,
    distance: float,
    delta: float = DELTA,
    level: float = LEVEL,
    crowd: Crowd = EVERYBODY,
    limits: Limits = NO_LIMITS,
    way: Way = ANY_WAY,
    simulations: Simulations = ENOUGH,
    randomness: Randomness | None = None,
) -> Verdict:
    """Test whether answers 0, ..., k − 1 are equally likely, on their shuffled messages.

    Args:
        values: Everybody's answer.
        k: How many answers there are.
        epsilon: ε > 0 of each person.
        distance: Total variation in (0, 1) that is to be noticed.
        delta: δ in (0, 1).
        level: Probability to reject a hypothesis that is true.
        crowd: Who follows the protocol.
        limits: Messages that one person may send, as for :func:`shoal.testing.design`.
        way: How devices report, where that is not to be chosen.
        simulations: How the null distribution is simulated.
        randomness: That of the messages and public coins; secure unless given.

    Returns:
        A :class:`shoal.testing.Verdict`.

    Raises:
        InvalidArgumentError: A number is out of its range, or an answer is not below k.
        UnreachableTargetError: No way to run the test notices the distance.

    References:
        :doc:`/theory/testing`.

    Example:
        >>> import numpy as np
        >>> from shoal import testing
        >>> answers = np.arange(5_000) % 10
        >>> testing.uniformity(answers, k=20, epsilon=1.0, distance=0.4).rejected
        True
    """
    return _tested(
        {"values": values},
        Hypothesis(k=k, distance=distance, level=level),
        simulations,
        randomness,
        epsilon=epsilon,
        delta=delta,
        crowd=crowd,
        limits=limits,
        way=way,
    )


def identity(
    values: npt.ArrayLike,
    *,
    reference: npt.ArrayLike,
    epsilon: float,
    distance: float,
    delta: float = DELTA,
    level: float = LEVEL,
    crowd: Crowd = EVERYBODY,
    limits: Limits = NO_LIMITS,
    way: Way = ANY_WAY,
    simulations: Simulations = ENOUGH,
    randomness: Randomness | None = None,
) -> Verdict:
    """Test whether answers 0, ..., k − 1 have the probabilities of the reference.

    Args:
        values: Everybody's answer.
        reference: A probability for each answer; they sum to 1.
        epsilon: ε > 0 of each person.
        distance: Total variation in (0, 1) that is to be noticed.
        delta: δ in (0, 1).
        level: Probability to reject a hypothesis that is true.
        crowd: Who follows the protocol.
        limits: Messages that one person may send, as for :func:`shoal.testing.design`.
        way: How devices report, where that is not to be chosen.
        simulations: How the null distribution is simulated.
        randomness: That of the messages and public coins; secure unless given.

    Returns:
        A :class:`shoal.testing.Verdict`.

    Raises:
        InvalidArgumentError: A number is out of its range, or an answer has no
            probability.
        UnreachableTargetError: No way to run the test notices the distance.

    References:
        :doc:`/theory/testing`.

    Example:
        >>> from shoal import testing
        >>> answers = [0] * 4_000 + [1] * 1_000
        >>> fair = [0.5, 0.5]
        >>> testing.identity(answers, reference=fair, epsilon=1, distance=0.2).rejected
        True
    """
    return _tested(
        {"values": values},
        Hypothesis(reference=reference, distance=distance, level=level),
        simulations,
        randomness,
        epsilon=epsilon,
        delta=delta,
        crowd=crowd,
        limits=limits,
        way=way,
    )


def closeness(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    k: int,
    epsilon: float,
    distance: float,
    overlapping: bool = False,
    delta: float = DELTA,
    level: float = LEVEL,
    crowd: Crowd = EVERYBODY,
    way: Way = ANY_WAY,
    simulations: Simulations = ENOUGH,
    randomness: Randomness | None = None,
) -> Verdict:
    """Test whether two groups of people answer alike, each shuffled by itself.

    The noise is made for the smaller group, and so is the guarantee. Nobody may be in
    both, unless they are overlapping. Everybody sends one message.

    Args:
        first: The answers of one group.
        second: The answers of the other.
        k: How many answers there are.
        epsilon: ε > 0 of each person.
        distance: Total variation in (0, 1) that is to be noticed.
        overlapping: Whether people may be in both groups: epsilon is then what two
            reports of one person, one in each batch, cost together.
        delta: δ in (0, 1).
        level: Probability to reject a hypothesis that is true.
        crowd: Who follows the protocol.
        way: How devices report, where that is not to be chosen.
        simulations: How the null distribution is simulated.
        randomness: That of the messages and public coins; secure unless given.

    Returns:
        A :class:`shoal.testing.Verdict`.

    Raises:
        InvalidArgumentError: A number is out of its range, or an answer is not below k.
        UnreachableTargetError: No way to run the test notices the distance.

    References:
        :doc:`/theory/testing`.

    Example:
        >>> from shoal import testing
        >>> men, women = [0] * 4_000 + [1] * 1_000, [0, 1] * 2_500
        >>> testing.closeness(men, women, k=2, epsilon=1.0, distance=0.2).rejected
        True
    """
    alike = {"closeness": True, "overlapping": overlapping}
    return _tested(
        {"first": first, "second": second},
        Hypothesis(k=k, distance=distance, level=level, **alike),
        simulations,
        randomness,
        epsilon=epsilon,
        delta=delta,
        crowd=crowd,
        way=way,
    )


def _tested(
    groups: dict[str, npt.ArrayLike],
    hypothesis: Hypothesis,
    simulations: Simulations,
    randomness: Randomness | None,
    *,
    way: Way,
    **terms: Any,  # noqa: ANN401 - of the setting
) -> Verdict:
    """The verdict on one or two groups; the public coins are drawn before anything else."""
    codes = []
    for name, values in groups.items():
        shape = np.shape(values)
        shown = f"shape {shape}" if shape else type(values).__name__
        expected = "a one-dimensional list of at least two answers (of a table, one column)"
        checks.refuse(len(shape) != 1 or shape[0] < 2, expected, **{name: shown})
        codes.append(category_codes(values, hypothesis.probabilities.size))
    people, drawn = min(each.size for each in codes), with_coins(way, randomness)
    setting = Setting(hypothesis=hypothesis, n=people, way=drawn, **terms)
    tester = designed(setting).tester()
    reports = (tester.randomize(each, randomness=randomness) for each in codes)
    batches = [shuffle(each, randomness=randomness) for each in reports]
    return decided(tester, batches, simulations)


def decided(
    tester: Tester, groups: Sequence[Batch] | Sequence[Counts], simulations: Simulations
) -> Verdict:
    """The verdict on one batch, or on two that are compared."""
    decide: Callable[..., Verdict] = tester.compare if len(groups) > 1 else tester.decide
    return decide(*groups, simulations)
