"""What goes wrong in the service, beside wrong arguments and bytes that are not what they claim.

::

    ShoalError
    ├── StoreUnavailableError      nothing became durable, so nothing was acknowledged: try again
    │   └── StoreBusyError         others held what was needed for too long
    │       └── OvertakenError     others have written anew what this was to be added to
    ├── StoreVersionError          the store was made by another version, or is not this directory's
    ├── UnreadableError            a file of the store is shorter than the store says
    │   └── MissingFileError       a file of the store is gone
    ├── LeaseLostError             somebody else has taken the work over: drop it
    ├── UnknownError               this service has no such survey, or no such batch
    ├── NotReadyError              what is asked for will exist later
    ├── ConflictError              a survey is closed, a batch another's, a digest the wrong one
    └── NotAuthorizedError         no token that counts, or one for something else

Those that are told to whoever asks over HTTP have the ``kind`` that the problem is called there.
Each carries the values it speaks about, and its one-line message says what to do. None of them
tells how many reports wait in an open batch.
"""

from __future__ import annotations

from typing import Literal

from shoal.errors import ShoalError

_UNKNOWN = {
    "survey": ": this service does not collect for it",
    "batch": "; list the batches that are ready",
}


class StoreUnavailableError(ShoalError):
    """The database or the disk did not do its part; what was asked for did not happen."""

    def __init__(self, doing: str, reason: str) -> None:
        self.doing = doing
        self.reason = reason
        super().__init__(f"the store is unavailable ({doing}: {reason}); try again later")


class StoreBusyError(StoreUnavailableError):
    """Somebody else held a row or table for longer than one waits."""


class OvertakenError(StoreBusyError):
    """Somebody else wrote the parts of an open batch anew, or closed it, meanwhile."""

    def __init__(self, batch: str) -> None:
        self.batch = batch
        super().__init__(f"adding to batch {batch}", "others have written its part anew")


class StoreVersionError(ShoalError):
    """The tables are not those of this version."""

    def __init__(self, found: str, expected: str, advice: str) -> None:
        self.found = found
        self.expected = expected
        self.advice = advice
        super().__init__(f"the store is {found}, expected {expected}; {advice}")


class UnreadableError(ShoalError):
    """A file that the store refers to is not there, or not whole."""

    def __init__(self, name: str, expected: str) -> None:
        self.name = name
        self.expected = expected
        super().__init__(f"{name} is unreadable: expected {expected}")


class MissingFileError(UnreadableError):
    """A file that the store refers to is not there: perhaps its disk is not."""


class UnknownError(ShoalError):
    """A survey or a batch that is not here. People are told so: no advice for operators.

    One that died before it was large enough is such a batch.
    """

    def __init__(self, what: Literal["survey", "batch"], name: str) -> None:
        self.what = what
        self.name = name
        self.kind = f"unknown_{what}"
        super().__init__(f"unknown {what} {name}{_UNKNOWN[what]}")


class LeaseLostError(ShoalError):
    """Work that took longer than its lease, and that somebody else does now."""

    def __init__(self, work: str) -> None:
        self.work = work
        super().__init__(f"the lease on {work} was lost; drop the result, nothing of it was stored")


class NotReadyError(ShoalError):
    """What is asked for does not exist yet."""

    kind = "not_ready"

    def __init__(self, what: str, missing: str, *, retry_after: int) -> None:
        self.what = what
        self.missing = missing
        self.retry_after = retry_after
        super().__init__(f"{what} is not ready: {missing}; try again in {retry_after} s")


class ConflictError(ShoalError):
    """What the state of a survey or a batch does not allow, by its ``kind``."""

    def __init__(self, kind: str, message: str) -> None:
        self.kind = kind
        super().__init__(message)


def survey_closed(survey: str, reason: str) -> ConflictError:
    """A survey takes no reports now."""
    return ConflictError("survey_closed", f"survey {survey} accepts no reports now: {reason}")


def already_collected(batch: str) -> ConflictError:
    """A batch is released to one collection request, once and for all."""
    message = (
        f"batch {batch} was collected by another request; a batch is released once, so "
        "resume the collection that requested it first"
    )
    return ConflictError("already_collected", message)


def wrong_digest(batch: str, given: str) -> ConflictError:
    """A digest that is not that of the batch."""
    message = f"{given} is not the digest of batch {batch}; fetch the batch again"
    return ConflictError("wrong_digest", message)


class NotAuthorizedError(ShoalError):
    """A token is needed, and none that counts was shown; or one for something else: its label."""

    def __init__(self, label: str | None = None) -> None:
        self.label = label
        self.kind = "not_authorized" if label is None else "forbidden"
        other = f"the token {label!r} is for another survey"
        none = "no valid token; make one with 'shoal keys token'"
        super().__init__(none if label is None else other)
