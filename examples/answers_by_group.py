"""A chart for each region: how many people it has is an estimate, too."""

from __future__ import annotations

import numpy as np
import polars as pl

import shoal

PEOPLE = 60_000
REGIONS = ["north", "south", "islands", "overseas"]  # public, and chosen before anybody looked
ANSWERS = ["bus", "bicycle", "car"]


def main() -> None:
    """One report each tells region and answer at once; nobody is known to live overseas."""
    commute = shoal.Choice("commute", ANSWERS).by("region", REGIONS)
    result = shoal.run(_people(), commute, epsilon=1.0).only
    print(f"epsilon = {result.guarantee.epsilon:.3f}, {result.randomizer.name}")
    for group in result.groups[: len(REGIONS)]:
        if group.fractions is None:
            print(f"{group.label}: nobody, up to noise: at most {group.high:,.0f}")
            continue
        print(f"{group.label}: {group.count:,.0f} people ({group.low:,.0f} to {group.high:,.0f})")
        limits = zip(ANSWERS, group.fractions, group.lows, group.highs, strict=False)
        for answer, fraction, low, high in limits:
            print(f"  {answer:8}{100 * fraction:5.1f} % ({100 * low:.1f} to {100 * high:.1f})")


def _people() -> pl.DataFrame:
    """Stands for the people: half of them in the north, where most take the bus."""
    turn = np.arange(PEOPLE)
    regions = np.array(["north", "south", "north", "south", "north", "islands"])[turn % 6]
    north = np.array(["bus", "bus", "bicycle", "car"])[turn // 6 % 4]
    others = np.array(["car", "car", "car", "bus", "bicycle"])[turn // 6 % 5]
    return pl.DataFrame({"region": regions, "commute": np.where(regions == "north", north, others)})


if __name__ == "__main__":
    main()
