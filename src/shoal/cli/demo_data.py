"""The survey of ``shoal demo``: 200,000 invented people and what they looked up."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from shoal import randomness

if TYPE_CHECKING:
    import polars as pl

QUESTION = "health topic looked up last"
PEOPLE = 200_000
_SEED = 2026

# The topics and how popular each is among invented people.
TOPICS = MappingProxyType(
    {
        "colds and flu": 2400,
        "back pain": 1650,
        "headache": 1300,
        "sleep": 1150,
        "allergies": 900,
        "diet": 760,
        "skin rash": 620,
        "anxiety": 560,
        "blood pressure": 470,
        "pregnancy": 400,
        "depression": 360,
        "diabetes": 310,
        "knee pain": 270,
        "vaccination": 230,
        "tinnitus": 190,
        "contraception": 170,
        "hair loss": 140,
        "asthma": 120,
        "addiction": 95,
        "migraine": 80,
        "hepatitis": 50,
        "HIV": 38,
        "cancer": 30,
        "epilepsy": 22,
    }
)


def answers() -> pl.DataFrame:
    """Everybody's answer: the same on every run, because it is made up; the reports are not."""
    import polars as pl

    steps = np.cumsum(list(TOPICS.values()))
    drawn = randomness.simulated(_SEED).below(int(steps[-1]), PEOPLE).astype(np.int64)
    codes = np.searchsorted(steps, drawn, side="right")
    return pl.DataFrame({QUESTION: np.array(list(TOPICS))[codes]})
