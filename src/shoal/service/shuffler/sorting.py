"""What is in the body of an upload: whole reports, sorted by the key that opens them.

Nothing is opened here. All reports of a survey have one length, so a body is a table of bytes, and
its first two columns, version and key number, decide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shoal.sealing import Plain
from shoal.service.http.problems import Problem, ProblemError
from shoal.service.store.values import Arrival
from shoal.service.wire import VERSION, Wire

UNKNOWN_VERSION = "unknown_version"
UNKNOWN_KEY = "unknown_key"
_NUMBERS = 256


@dataclass(frozen=True, eq=False)
class Upload:
    """The reports of a body that can be kept, and the places and reasons of the others."""

    reports: int
    arrivals: list[Arrival]
    refused: dict[str, list[int]]

    def document(self) -> dict[str, Plain]:
        """What the sender is told: the same bytes for reports that are new and that came before."""
        refused: list[Plain] = [
            {"index": index, "reason": reason}
            for reason, indices in self.refused.items()
            for index in indices
        ]
        return {"reports": self.reports, "refused": refused}


def sorted_upload(body: bytes, *, wire: Wire, accepts: Callable[[int], bool], most: int) -> Upload:
    """Sort the reports of a body; one that is not a whole number of reports is refused."""
    size = wire.report_bytes
    reports, rest = divmod(len(body), size)
    if rest or not reports:
        raise ProblemError(_wrong_length(len(body), size))
    if reports > most:
        raise ProblemError(_too_many(reports, most))
    if reports == 1 and body[0] == VERSION and accepts(body[1]):
        # One person's report, as most bodies are: it needs no table.
        return Upload(1, [Arrival(wire.survey, body[1], body)], {})
    table = np.frombuffer(body, dtype=np.uint8).reshape(reports, size)
    known = table[:, 0] == VERSION
    numbers = table[:, 1]
    present = np.flatnonzero(np.bincount(numbers[known], minlength=_NUMBERS)).tolist()
    accepted = [number for number in present if accepts(number)]
    if len(accepted) == 1 and len(present) == 1 and known.all():
        return Upload(reports, [Arrival(wire.survey, accepted[0], body)], {})
    taken = known & np.isin(numbers, accepted)
    arrivals = [
        Arrival(wire.survey, number, table[taken & (numbers == number)].tobytes())
        for number in accepted
    ]
    refused = {UNKNOWN_VERSION: _places(~known), UNKNOWN_KEY: _places(known & ~taken)}
    return Upload(reports, arrivals, {name: found for name, found in refused.items() if found})


def _places(mask: npt.NDArray[np.bool_]) -> list[int]:
    found: list[int] = np.flatnonzero(mask).tolist()
    return found


def _wrong_length(given: int, size: int) -> Problem:
    return Problem(
        kind="wrong_length",
        status=400,
        detail=f"the body has {given} bytes; reports of this survey have {size} bytes each",
        extra={"report_bytes": size},
    )


def _too_many(given: int, most: int) -> Problem:
    return Problem(
        kind="too_large",
        status=413,
        detail=f"{given} reports in one body; send at most {most} at a time",
        extra={"limit": most},
    )
