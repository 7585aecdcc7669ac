"""Tests whether everybody's answers have the distribution expected, under shuffle privacy.

People's answers are one of k. A :class:`Hypothesis` says that all are equally likely, that they
have the probabilities of a public reference, or that two groups answer alike. :func:`decide` runs
the whole way from answers to a :class:`Verdict`; in a real collection :func:`design` chooses the
device and the coin beforehand, every device runs it, and :meth:`Tester.decide` judges the
shuffled batch. :func:`run` tests a column of a table, :func:`compare` two groups of its rows or
two tables, and a :class:`Study` measures how the power grows with the number of people.

Private coins: every device draws its own noise. Public coins: the answers are first sorted into the
bins of random partitions that everybody knows, which lets a larger part of a departure survive the
noise when answers are many and people are few. The level of every test is exact whatever n; powers
are predicted against the hardest distribution at the distance, and were measured to be so within a
few points.
"""

from shoal.testing import rates as rates
from shoal.testing.answers import read_reference as read_reference
from shoal.testing.arrays import decide as decide
from shoal.testing.designing import Design as Design
from shoal.testing.designing import Option as Option
from shoal.testing.designing import design as design
from shoal.testing.designing import required_n as required_n
from shoal.testing.hypothesis import Hypothesis as Hypothesis
from shoal.testing.ranks import Simulations as Simulations
from shoal.testing.setting import Setting as Setting
from shoal.testing.setting import Way as Way
from shoal.testing.study import Powers as Powers
from shoal.testing.study import Study as Study
from shoal.testing.table import TableTest as TableTest
from shoal.testing.table import compare as compare
from shoal.testing.table import run as run
from shoal.testing.tester import Tester as Tester
from shoal.testing.verdict import Verdict as Verdict
