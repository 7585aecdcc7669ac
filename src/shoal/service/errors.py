"""What goes wrong in the service, beside wrong arguments and bytes that are not what they claim.

::

    ServiceError (ShoalError)
    ├── StoreUnavailableError      nothing became durable, so nothing was acknowledged: try again
    │   └── StoreBusyError         others held what was needed for too long
    │       └── OvertakenError     others have written anew what this was to be added to
    ├── StoreVersionError          the store was made by another version, or is not this directory's
    ├── UnreadableError            a file of the store is shorter than the store says
    │   └── MissingFileError       a file of the store is gone
    ├── UnknownSurveyError         this service does not collect for that survey
    ├── SurveyInUseError           something was taken for that survey: it cannot be removed
    ├── SurveyClosedError          the survey has not begun, or is over
    ├── UnknownBatchError          there is no such batch, or it was never released
    ├── LeaseLostError             somebody else has taken the work over: drop it
    ├── NotReadyError              what is asked for will exist later
    ├── AlreadyCollectedError      the batch belongs to another collection
    ├── DigestMismatchError        what was received is not what was released
    ├── NotAuthorizedError         no token, or none that counts
    └── ForbiddenError             a token for something else

Each carries the values it speaks about, and its one-line message says what to do. None of them
tells how many reports wait in an open batch.
"""

from __future__ import annotations

from shoal.errors import ShoalError


class ServiceError(ShoalError):
    """Base of what the service refuses or cannot do now."""


class StoreUnavailableError(ServiceError):
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


class StoreVersionError(ServiceError):
    """The tables are not those of this version."""

    def __init__(self, found: str, expected: str, advice: str) -> None:
        self.found = found
        self.expected = expected
        self.advice = advice
        super().__init__(f"the store is {found}, expected {expected}; {advice}")


class UnreadableError(ServiceError):
    """A file that the store refers to is not there, or not whole."""

    def __init__(self, name: str, expected: str) -> None:
        self.name = name
        self.expected = expected
        super().__init__(f"{name} is unreadable: expected {expected}")


class MissingFileError(UnreadableError):
    """A file that the store refers to is not there: perhaps its disk is not."""


class UnknownSurveyError(ServiceError):
    """A survey that was never added here. People are told so: no advice for operators."""

    def __init__(self, survey: str) -> None:
        self.survey = survey
        super().__init__(f"unknown survey {survey}: this service does not collect for it")


class SurveyInUseError(ServiceError):
    """A survey that something was taken for: whoever answered counts on it to be carried out."""

    def __init__(self, survey: str) -> None:
        self.survey = survey
        super().__init__(f"survey {survey} has reports and cannot be removed; it closes at its end")


class SurveyClosedError(ServiceError):
    """A survey that takes no reports now."""

    def __init__(self, survey: str, reason: str) -> None:
        self.survey = survey
        self.reason = reason
        super().__init__(f"survey {survey} accepts no reports now: {reason}")


class UnknownBatchError(ServiceError):
    """A batch that does not exist, or died before it was large enough."""

    def __init__(self, batch: str) -> None:
        self.batch = batch
        super().__init__(f"unknown batch {batch}; list the batches that are ready")


class LeaseLostError(ServiceError):
    """Work that took longer than its lease, and that somebody else does now."""

    def __init__(self, work: str) -> None:
        self.work = work
        super().__init__(f"the lease on {work} was lost; drop the result, nothing of it was stored")


class NotReadyError(ServiceError):
    """What is asked for does not exist yet."""

    def __init__(self, what: str, missing: str, *, retry_after: int) -> None:
        self.what = what
        self.missing = missing
        self.retry_after = retry_after
        super().__init__(f"{what} is not ready: {missing}; try again in {retry_after} s")


class AlreadyCollectedError(ServiceError):
    """A batch is released to one collection request, once and for all."""

    def __init__(self, batch: str) -> None:
        self.batch = batch
        super().__init__(
            f"batch {batch} was collected by another request; a batch is released once, so "
            "resume the collection that requested it first"
        )


class DigestMismatchError(ServiceError):
    """A digest that is not that of the batch."""

    def __init__(self, batch: str, given: str) -> None:
        self.batch = batch
        self.given = given
        super().__init__(f"{given} is not the digest of batch {batch}; fetch the batch again")


class NotAuthorizedError(ServiceError):
    """A token is needed, and none that counts was shown."""

    def __init__(self) -> None:
        super().__init__("no valid token; make one with 'shoal keys token'")


class ForbiddenError(ServiceError):
    """A token that is valid, for something else."""

    def __init__(self, label: str) -> None:
        self.label = label
        super().__init__(f"the token {label!r} is for another survey")
