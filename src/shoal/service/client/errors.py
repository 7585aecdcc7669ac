"""What a client refuses, and what it could not do.

::

    ClientError (ShoalError)
    ├── PolicyError            a survey asks for more than its answerer allows
    ├── SurveyRefusedError     not the survey it says it is, not open, or used up
    ├── KeysRefusedError       keys that are not those of the survey's operators
    ├── OutboxError            the store of the device is full, or cannot be used
    └── DeliveryError          a report that will never be delivered

Wherever a report was not made, the sentence ends by saying so.
"""

from __future__ import annotations

from shoal.errors import ShoalError
from shoal.explain.text import plain, up

NOTHING_SENT = "nothing was sent"


class ClientError(ShoalError):
    """Base of what a client refuses.

    Example:
        >>> issubclass(PolicyError, ClientError)
        True
    """


class PolicyError(ClientError):
    """A number of a survey breaks a limit of the person who is asked; nothing was sent.

    Attributes:
        limit: The limit, a parameter of the policy.
        asked: What the survey asks for.
        allowed: What the person allows.
        what: What it is called in words.
        sentence: What is said of the survey, if it is not the usual.

    Example:
        >>> print(PolicyError("epsilon", asked=3.0, allowed=2.0, what="ε ="))
        the survey has ε = 3, the policy allows epsilon 2; nothing was sent
    """

    def __init__(
        self, limit: str, *, asked: object, allowed: object, what: str, sentence: str | None = None
    ) -> None:
        self.limit = limit
        self.asked = asked
        self.allowed = allowed
        self.what = what
        bound = up(asked) if isinstance(asked, float) else asked
        most = plain(allowed) if isinstance(allowed, float) else allowed
        sentence = sentence or f"the survey has {what} {bound}"
        super().__init__(f"{sentence}, the policy allows {limit} {most}; {NOTHING_SENT}")


class SurveyRefusedError(ClientError):
    """A survey that cannot be answered; nothing was sent.

    Attributes:
        reason: Why not.
        advice: What to do.

    Example:
        >>> print(SurveyRefusedError("it is over", "ask for a new one"))
        it is over; ask for a new one; nothing was sent
    """

    def __init__(self, reason: str, advice: str) -> None:
        self.reason = reason
        self.advice = advice
        super().__init__(f"{reason}; {advice}; {NOTHING_SENT}")


class KeysRefusedError(ClientError):
    """Keys of a party that cannot be trusted: nothing is sealed with them.

    Attributes:
        party: "shuffler" or "analyzer".
        url: Where the keys came from.
        reason: Why they are refused.

    Example:
        >>> print(KeysRefusedError("shuffler", "https://a.example", "the list is not signed"))
        the keys of the shuffler at https://a.example are refused: the list is not signed; ...
    """

    def __init__(self, party: str, url: str, reason: str) -> None:
        self.party = party
        self.url = url
        self.reason = reason
        super().__init__(f"the keys of the {party} at {url} are refused: {reason}; {NOTHING_SENT}")


class OutboxError(ClientError):
    """The store of the device did not take or give what it had to; nothing was sent.

    Attributes:
        place: The directory.
        reason: What happened.

    Example:
        >>> print(OutboxError("/tmp/outbox", "the disk is full"))
        the outbox /tmp/outbox cannot be used: the disk is full; nothing was sent
    """

    def __init__(self, place: str, reason: str) -> None:
        self.place = place
        self.reason = reason
        super().__init__(f"the outbox {place} cannot be used: {reason}; {NOTHING_SENT}")


class DeliveryError(ClientError):
    """A report that will not be sent any more; its occasion is used up.

    Attributes:
        survey: The id of the survey.
        occasion: Which report it was.
        reason: Why it is given up.

    Example:
        >>> print(DeliveryError("0" * 64, 1, "the survey is over"))
        report 1 for survey 0000000000000000 is given up: the survey is over; it is not made ...
    """

    def __init__(self, survey: str, occasion: int, reason: str) -> None:
        self.survey = survey
        self.occasion = occasion
        self.reason = reason
        super().__init__(
            f"report {occasion} for survey {survey[:16]} is given up: {reason}; it is not "
            "made again, because a second one would reveal more than was promised"
        )
