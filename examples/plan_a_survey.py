"""A survey with twelve answers: which randomizer, how wrong, and then the collection itself."""

from __future__ import annotations

import numpy as np

import shoal
from shoal.estimate import top

PEOPLE = 200_000
ANSWERS = 12


def main() -> None:
    """Plan, collect from simulated people, and say what can be said."""
    plan = shoal.plan(shoal.Choice("answer", ANSWERS), epsilon=0.5, delta=1e-7, n=PEOPLE)
    print(plan)
    print(
        f"a trusted curator would be off by {plan.central.linf:.0f} people, "
        f"no shuffler by {plan.local.linf:,.0f}\n"
    )

    chances = np.arange(ANSWERS, 0, -1) ** 2
    answers = np.repeat(np.arange(ANSWERS), PEOPLE * chances // chances.sum())
    answers = np.append(answers, np.zeros(PEOPLE - answers.size, dtype=np.int64))

    reports = plan.randomizer.randomize(answers)  # on everybody's device
    batch = shoal.shuffle(reports)  # by the shuffler
    estimate = plan.randomizer.estimate(batch)  # by the analyzer

    truth = np.bincount(answers, minlength=ANSWERS)
    low, high = estimate.interval(simultaneous=True)
    for rank in top(estimate, size=3):
        i = rank.index
        print(
            f"answer {i:2}: {PEOPLE * low[i]:7,.0f} to {PEOPLE * high[i]:7,.0f} people "
            f"(in truth {truth[i]:,}), {'significant' if rank.significant else 'maybe noise'}"
        )
    guarantee = plan.guarantee
    print(f"\nguarantee: ({guarantee.epsilon:.3f}, {guarantee.delta:g})-DP by {guarantee.theorem}")


if __name__ == "__main__":
    main()
