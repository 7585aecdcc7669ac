"""Which randomizer, at which local epsilon, and how wrong the chart will be."""

from shoal.planning.planner import Option as Option
from shoal.planning.planner import Plan as Plan
from shoal.planning.planner import Question as Question
from shoal.planning.planner import plan as plan
from shoal.planning.planner import required_epsilon_for as required_epsilon_for
from shoal.planning.planner import required_n_for as required_n_for
