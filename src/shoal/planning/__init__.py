"""Which randomizer, at which local epsilon, and how wrong the chart will be."""

from shoal.planning.planner import (
    Option,
    Plan,
    Question,
    plan,
    required_epsilon_for,
    required_n_for,
)

__all__ = ["Option", "Plan", "Question", "plan", "required_epsilon_for", "required_n_for"]
