"""Why bytes are no survey, as whoever has them in a file may understand it."""

from __future__ import annotations

from shoal.errors import UnreachableTargetError
from shoal.sealing import MalformedError


class InconsistentSurveyError(MalformedError):
    """A survey whose numbers do not follow from each other; ``unkept``: its promise does not."""

    def __init__(self, error: Exception) -> None:
        super().__init__("the survey", f"values that belong together ({error})")
        self.unkept = isinstance(error, UnreachableTargetError)


def complaint(error: MalformedError, name: str) -> str:
    """What is wrong with the file of this name.

    >>> complaint(MalformedError("the survey", "more"), "x.json").partition(":")[0]
    'x.json is not a survey as it was written'
    """
    if not isinstance(error, InconsistentSurveyError):
        wrong = (
            "is not a survey as it was written: it is another file, or was saved anew by an editor"
        )
    elif error.unkept:
        wrong = "does not keep its promise: it was changed, or badly made"
    else:
        wrong = "contradicts itself: it was changed, or badly made"
    return f"{name} {wrong} ({error})"
