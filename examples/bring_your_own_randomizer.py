"""A randomizer of your own needs nothing but its table of probabilities."""

from __future__ import annotations

import numpy as np

import shoal

PEOPLE = 50_000
# "Yes", "no" and "no comment": who says "no comment" may have meant anything.
TABLE = np.array(
    [
        [0.60, 0.20, 0.20],  # yes
        [0.10, 0.70, 0.20],  # no
        [0.15, 0.15, 0.70],  # no comment
    ]
)


def main() -> None:
    """What shuffling makes of it, beside what is known from its local epsilon alone."""
    law = shoal.BlanketLaw.from_table(TABLE)
    local = float(np.log(TABLE.max(axis=0) / TABLE.min(axis=0)).max())
    print(f"one report by itself: eps0 = {local:.3f}")

    own = shoal.amplify(law, n=PEOPLE, delta=1e-6)
    known_only_by_local_epsilon = shoal.amplify(local_epsilon=local, n=PEOPLE, delta=1e-6)
    print(f"by its own law:       epsilon = {own.epsilon:.4f}, no analysis below {own.lower:.4f}")
    print(f"any such randomizer:  epsilon = {known_only_by_local_epsilon.epsilon:.4f}")

    smaller = next(n for n in range(1_000, PEOPLE, 1_000) if _epsilon(law, n) <= 0.1)
    print(f"epsilon = 0.1 takes about {smaller:,} people")


def _epsilon(law: shoal.BlanketLaw, n: int) -> float:
    return shoal.amplify(law, n=n, delta=1e-6).epsilon


if __name__ == "__main__":
    main()
