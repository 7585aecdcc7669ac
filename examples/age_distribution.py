"""Ages in bins: the median and the working-age population, as good as a curator's.

500 people, a bin for every year. With several messages per person the noise of a bin is hardly more
than that of a trusted curator, whatever the number of bins; the cumulative curve adds it up, and
the median is where it crosses one half.
"""

import numpy as np
import polars as pl

import shoal
from shoal.randomness import simulated

people = simulated(3)
ages = (people.below(50, 500) + people.below(50, 500)).astype(np.int64)
frame = pl.DataFrame({"age": ages})

asked = {"bins": 100, "quantiles": (0.25, 0.5, 0.75), "ranges": [(0, 17), (18, 64), (65, 99)]}
for name, choose in (("one message", None), ("several messages", "near-central-lean")):
    age = shoal.Bins("age", 0, 99, **asked, missing="drop", choose=choose)
    result = shoal.run(frame, age, epsilon=1)
    quantiles, counts = result.only.statistics
    devices = [result.randomizer, *result.only.levels]  # one for each level of a tree of bins
    messages = sum(device.messages for device in devices)
    print(f"{name}: {result.randomizer.name}, {messages:.0f} per person on {len(devices)} levels")
    for statement in (*quantiles, *counts):
        print(f"  {statement}")
working = np.mean((ages >= 18) & (ages <= 64))
print(f"in truth: median {int(np.median(ages))}, {working:.1%} from 18 to 64")
