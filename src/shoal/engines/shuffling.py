"""Mixing: what a shuffler does to the messages of everybody."""

from __future__ import annotations

import numpy as np

from shoal.errors import InvalidArgumentError
from shoal.mechanisms.base import Reports
from shoal.randomness import Randomness, source
from shoal.values import Batch, Envelopes

RUN_HERE = (
    "randomized here on behalf of the devices: the machines that ran this saw the true answers, "
    "and the guarantee is about what is published"
)
ORDERLESS = (
    "the reports were counted, and counts do not depend on their order: every permutation "
    "of the reports gives the same result"
)


def shuffle(reports: Reports, *, randomness: Randomness | None = None) -> Batch:
    """Everybody's reports in a uniformly random order: what the analyzer receives.

    Args:
        reports: What ``randomize`` returned: one message per person, or envelopes of
            several, which are taken apart, and filled up where their number would
            tell something.
        randomness: That of a simulation; None is secure.

    Returns:
        A :class:`shoal.Batch`.

    Raises:
        InvalidArgumentError: There is no report.

    Example:
        >>> import shoal
        >>> device = shoal.RandomizedResponse(k=4, epsilon=2.0)
        >>> shoal.shuffle(device.randomize([0, 1, 2, 3, 0])).n
        5
    """
    people = len(reports) if isinstance(reports, Envelopes) else None
    rows = np.asarray(reports.filled if isinstance(reports, Envelopes) else reports)
    if rows.ndim == 0 or not len(rows):
        raise InvalidArgumentError("reports", rows.tolist(), "at least one report")
    return Batch(rows[source(randomness).permutation(len(rows))], people)
