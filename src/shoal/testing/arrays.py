"""A whole test of arrays, from answers to the verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.engines.shuffling import shuffle
from shoal.questions.terms import EVERYBODY, NO_LIMITS, Crowd, Limits
from shoal.randomness import Randomness
from shoal.testing.designing import designed, with_coins
from shoal.testing.hypothesis import Hypothesis
from shoal.testing.ranks import ENOUGH, Simulations
from shoal.testing.setting import ANY_WAY, DELTA, Setting, Way
from shoal.testing.tester import Tester
from shoal.testing.verdict import Verdict
from shoal.values import Batch, Counts, category_codes


def decide(
    hypothesis: Hypothesis,
    *answers: npt.ArrayLike,
    epsilon: float,
    delta: float = DELTA,
    crowd: Crowd = EVERYBODY,
    limits: Limits = NO_LIMITS,
    way: Way = ANY_WAY,
    simulations: Simulations = ENOUGH,
    randomness: Randomness | None = None,
) -> Verdict:
    """Test a hypothesis about answers 0, ..., k − 1, on their shuffled messages.

    Of two groups it is whether they answer alike, each shuffled by itself. The noise is
    then made for the smaller group, and so is the guarantee; nobody may be in both,
    unless the hypothesis says that they are overlapping. Everybody sends one message.

    Args:
        hypothesis: What is tested: a :class:`shoal.testing.Hypothesis`.
        answers: Everybody's answer; or those of one group, and those of the other.
        epsilon: ε > 0 of each person.
        delta: δ in (0, 1).
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
        >>> uniform = testing.Hypothesis(k=20, distance=0.4)
        >>> testing.decide(uniform, answers, epsilon=1.0).rejected
        True
    """
    few = not 1 <= len(answers) <= 2
    checks.refuse(few, "the answers of one group or of two", answers=f"{len(answers)} groups")
    tested = replace(hypothesis, closeness=True) if len(answers) == 2 else hypothesis
    checks.refuse(len(answers) == 1 and tested.closeness, "two groups for closeness", answers="one")
    codes = [_codes(values, tested.probabilities.size) for values in answers]
    people, drawn = min(each.size for each in codes), with_coins(way, randomness)
    setting = Setting(
        hypothesis=tested,
        n=people,
        epsilon=epsilon,
        delta=delta,
        crowd=crowd,
        limits=limits,
        way=drawn,
    )
    tester = designed(setting).tester()
    reports = (tester.randomize(each, randomness=randomness) for each in codes)
    batches = [shuffle(each, randomness=randomness) for each in reports]
    return verdict_on(tester, batches, simulations)


def _codes(values: npt.ArrayLike, k: int) -> npt.NDArray[np.int64]:
    shape = np.shape(values)
    shown = f"shape {shape}" if shape else type(values).__name__
    expected = "a one-dimensional list of at least two answers (of a table, one column)"
    checks.refuse(len(shape) != 1 or shape[0] < 2, expected, answers=shown)
    return category_codes(values, k)


def verdict_on(
    tester: Tester, groups: Sequence[Batch] | Sequence[Counts], simulations: Simulations
) -> Verdict:
    """The verdict on one batch, or on two that are compared."""
    judge: Callable[..., Verdict] = tester.compare if len(groups) > 1 else tester.decide
    return judge(*groups, simulations)
