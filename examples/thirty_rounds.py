"""The same people, asked every day of a month: what all answers together give away."""

from __future__ import annotations

import shoal

PEOPLE = 500_000
DAYS = 30
DELTA = 1e-7


def main() -> None:
    """Compose the rounds, then choose the noise that the whole month can afford."""
    grr = shoal.RandomizedResponse(k=24, epsilon=3.0)
    day = shoal.profile(grr, n=PEOPLE)
    month = day * DAYS
    print(f"one day:     epsilon = {day.epsilon(DELTA):.4f}")
    print(
        f"thirty days: epsilon = {month.epsilon(DELTA):.4f} "
        f"(adding up would say {DAYS * day.epsilon(DELTA / DAYS):.3f})"
    )
    print(f"without a shuffler: epsilon = {DAYS * grr.local_epsilon:.0f}")

    target = 1.0
    low, high = 1.0, 12.0
    while high - low > 0.05:
        middle = (low + high) / 2
        noisy = shoal.RandomizedResponse(k=24, epsilon=middle)
        fits = (shoal.profile(noisy, n=PEOPLE) * DAYS).epsilon(DELTA) <= target
        low, high = (middle, high) if fits else (low, middle)
    print(f"a month of epsilon = {target:g} affords eps0 = {low:.1f} a day")


if __name__ == "__main__":
    main()
