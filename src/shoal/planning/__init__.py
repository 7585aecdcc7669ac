"""What everybody's devices run for every question, and how wrong the charts will be."""

from shoal.planning.planner import Option as Option
from shoal.planning.planner import Ranking as Ranking
from shoal.planning.planner import Setting as Setting
from shoal.planning.plans import Plan as Plan
from shoal.planning.plans import QuestionPlan as QuestionPlan
from shoal.planning.plans import plan as plan
from shoal.planning.required import required_epsilon_for as required_epsilon_for
from shoal.planning.required import required_n_for as required_n_for
