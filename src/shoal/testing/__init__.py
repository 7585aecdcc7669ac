"""Tests whether everybody's answers have the distribution expected, under shuffle privacy.

People's answers are one of k. :func:`uniformity` asks whether all answers are equally likely,
:func:`identity` whether they have the probabilities of a public reference, :func:`closeness`
whether two groups answer alike. Each runs the whole way from answers to a :class:`Verdict`; in a
real collection :func:`design` chooses the device and the coin beforehand, every device runs it, and
:meth:`Tester.decide` judges the shuffled batch. :func:`run` tests a column of a table, and a
:class:`Study` measures how the power grows with the number of people.

Private coins: every device draws its own noise. Public coins: the answers are first sorted into the
bins of random partitions that everybody knows, which lets a larger part of a departure survive the
noise when answers are many and people are few. The level of every test is exact whatever n; powers
are predicted against the hardest distribution at the distance, and were measured to be so within a
few points.
"""

from __future__ import annotations

from shoal.testing import rates
from shoal.testing.designing import Design, Option, design, required_n
from shoal.testing.question import Question
from shoal.testing.study import Powers, Study
from shoal.testing.table import TableTest, closeness, identity, read_reference, run, uniformity
from shoal.testing.tester import Tester
from shoal.testing.verdict import Verdict

__all__ = [
    "Design",
    "Option",
    "Powers",
    "Question",
    "Study",
    "TableTest",
    "Tester",
    "Verdict",
    "closeness",
    "design",
    "identity",
    "rates",
    "read_reference",
    "required_n",
    "run",
    "uniformity",
]
