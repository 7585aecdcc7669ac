"""Mixing: what a shuffler does to the messages of everybody."""

from __future__ import annotations

import numpy as np

from shoal.errors import InvalidArgumentError
from shoal.randomizers.base import Reports, source
from shoal.randomness import Randomness
from shoal.values import Batch, Envelopes

RUN_HERE = (
    "randomized here on behalf of the devices: this process saw the true answers, and the "
    "guarantee is about what is published"
)
ORDERLESS = (
    "the reports were counted, and counts do not depend on their order: every permutation "
    "of the reports gives the same result"
)


def shuffle(reports: Reports, *, randomness: Randomness | None = None) -> Batch:
    """The messages in a uniformly random order, from a secure source unless one is given.

    Envelopes are taken apart: the messages of one person do not stay together.

    >>> sorted(shuffle(np.array([3, 1, 2])).messages.tolist())
    [1, 2, 3]
    """
    people = len(reports) if isinstance(reports, Envelopes) else None
    rows = np.asarray(reports.messages if isinstance(reports, Envelopes) else reports)
    if rows.ndim == 0 or not len(rows):
        raise InvalidArgumentError("reports", rows.tolist(), "at least one report")
    return Batch(rows[source(randomness).permutation(len(rows))], people)
