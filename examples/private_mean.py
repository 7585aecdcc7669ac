"""The mean of a number that nobody wants to tell: hours of sleep."""

from __future__ import annotations

import numpy as np

import shoal

PEOPLE = 100_000


def main() -> None:
    """Plan for numbers between public bounds, collect, and compare with the truth."""
    plan = shoal.plan(shoal.Number("hours", 0.0, 12.0), epsilon=1.0, delta=1e-6, n=PEOPLE)
    randomizer = plan.randomizer
    print(
        f"{randomizer.name} at eps0 = {randomizer.local_epsilon:.2f}, "
        f"{randomizer.message_bits:.1f} bits a report"
    )

    hours = 7 + 1.2 * np.sin(np.arange(PEOPLE))  # stands for the people
    batch = shoal.shuffle(randomizer.randomize(hours))
    found = randomizer.estimate(batch)

    low, high = found.interval(0.95)
    print(
        f"mean: {found.mean:.3f} hours, 95 % between {low:.3f} and {high:.3f}; "
        f"in truth {hours.mean():.3f}"
    )
    print(
        f"without a shuffler eps0 = {plan.guarantee.local_epsilon:.2f}, with it "
        f"epsilon = {plan.guarantee.epsilon:.3f} at delta = {plan.guarantee.delta:g}"
    )


if __name__ == "__main__":
    main()
