"""Are numbers that people make up random? A private test, and what it takes before one begins."""

from __future__ import annotations

import numpy as np

from shoal import Limits
from shoal.testing import Hypothesis, decide, design

PEOPLE = 20_000
DISTANCE, PRICE = 0.05, {"epsilon": 0.5, "delta": 1e-6}


def main() -> None:
    """Ten digits, then a thousand answers."""
    # Asked for a random digit, people avoid 0 and 1 and love 7. These people are made up.
    chances = np.array([4, 5, 9, 12, 9, 10, 10, 22, 11, 8]) / 100
    thought = np.repeat(np.arange(10), np.rint(PEOPLE * chances).astype(np.int64))
    dealt = np.arange(PEOPLE) % 10

    even = Hypothesis(k=10, distance=DISTANCE)
    as_expected = Hypothesis(reference=chances, distance=DISTANCE)
    print("thought of, uniform?", decide(even, thought, **PRICE))
    print("dealt, uniform?", decide(even, dealt, **PRICE))
    print("thought of, as expected?", decide(as_expected, thought, **PRICE))
    found = decide(even, thought, dealt, **PRICE)
    print("thought of like dealt?", found)
    kept = found.guarantee
    print(f"each costs epsilon = {kept.epsilon:.3f} at delta = {kept.delta:g}, by {kept.theorem}\n")

    print("1,024 answers, 30,000 people, epsilon = 0.25, distance 0.1:")
    uniform = Hypothesis(k=1024, distance=0.1)
    plan = design(uniform, n=30_000, epsilon=0.25, limits=Limits(messages=10))
    for option in plan.options:
        if option.device is not None:
            said = f"{option.name:20} {option.coin:8} {option.messages:5.2f} messages"
            print(f"  {said}   power {option.power:.2f}")
    print(f"recommended: {plan.recommended.name}, because {plan.reason}")


if __name__ == "__main__":
    main()
