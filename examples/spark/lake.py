"""A lake of Parquet files, collected where it is: python examples/spark/lake.py [MASTER]."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from pyspark.sql import SparkSession

import shoal

PEOPLE, FILES = 200_000, 4
ANSWERS = ["bus", "car", "cycle", "walk"]


def main(master: str = "local[2]") -> None:
    """Write a lake, ask how people come to work, and compare with one machine's guarantee."""
    session = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    spark = session.config("spark.log.level", "OFF").getOrCreate()
    with tempfile.TemporaryDirectory() as lake:
        drawn = np.random.default_rng(1).choice(ANSWERS, PEOPLE, p=[0.3, 0.45, 0.15, 0.1])
        people = pl.DataFrame({"commute": drawn})
        for part in range(FILES):
            people[part::FILES].write_parquet(Path(lake) / f"{part}.parquet")

        frame = spark.read.parquet(lake)
        # A public list of answers: the data does not decide, and one pass less is made.
        result = shoal.run(frame, shoal.Choice("commute", ANSWERS), epsilon=0.5)

    (column,) = result.columns
    for label, fraction in zip(column.labels, column.estimate.frequencies, strict=True):
        print(f"{label:<8} {100 * fraction:6.2f} %")
    found = result.guarantee
    print(f"{column.n:,} people: epsilon = {found.epsilon:.3f} at delta = {found.delta:g}")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
