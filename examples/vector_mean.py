"""The mean of everybody's vector: where fifty thousand bicycle trips lead, and nobody's own."""

from __future__ import annotations

import numpy as np
import polars as pl

import shoal

PEOPLE = 50_000
LONGEST = 5.0  # kilometres: public, and chosen before anybody looked


def main() -> None:
    """One message each, then several: both are planned, and the better one is run."""
    trips = _trips()
    trip = shoal.Vector("trip", ["east", "north", "up"], LONGEST)
    for limit in (1, 40):
        result = shoal.run(trips, trip, epsilon=1.0, limits=shoal.Limits(messages=limit))
        device, found = result.randomizer, result.estimate
        best = result.plan.recommended.errors.l2
        print(
            f"{device.name}, messages each: {device.messages:.0f}, sum off by {best:,.0f} km, "
            f"epsilon = {result.guarantee.epsilon:.3f}"
        )
        low, high = found.interval()
        for name, mean, least, most in zip(result.labels, found.mean, low, high, strict=True):
            print(f"  {name:6}{1000 * mean:8.0f} m ({1000 * least:.0f} to {1000 * most:.0f})")
    true = trips.mean().row(0)
    print(f"in truth: {', '.join(f'{1000 * value:.0f}' for value in true)} m")


def _trips() -> pl.DataFrame:
    """Stands for the people: most ride east, and nobody further than the norm."""
    turn = np.arange(PEOPLE)
    return pl.DataFrame(
        {
            "east": 1.5 + 2.0 * np.sin(turn),
            "north": 0.4 + 1.5 * np.cos(1.7 * turn),
            "up": 0.02 * np.sin(0.3 * turn),
        }
    )


if __name__ == "__main__":
    main()
