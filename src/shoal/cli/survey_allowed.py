"""Who can answer a survey: what it asks for beyond the limits that people have by default."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shoal.explain.text import plain, up
from shoal.service.client.policy import Policy
from shoal.service.survey import Survey


@dataclass(frozen=True)
class Beyond:
    """A number of a survey that is refused by default, and what a person has to allow it by."""

    what: str
    limit: str
    option: str

    def __str__(self) -> str:
        return (
            f"{self.what}, and people's limit is {self.limit} unless they say otherwise: it is "
            f"refused without shoal submit {self.option}"
        )


def beyond_default(survey: Survey) -> list[Beyond]:
    """All of them."""
    policy, stated = Policy(), survey.stated
    least, seen = stated.batches.minimum, stated.terms.delta_taking_part
    local = stated.local_epsilon
    found = []
    if least < policy.minimum:
        option = f"--min-crowd {least}"
        found.append(Beyond(f"the minimum is {least:,}", f"at least {policy.minimum}", option))
    if stated.epsilon > policy.epsilon:
        shown = plain(stated.epsilon)
        limit = f"at most {plain(policy.epsilon)}"
        found.append(Beyond(f"ε is {shown}", limit, f"--max-epsilon {shown}"))
    if seen > policy.delta:
        shown, limit = up(seen), f"at most {plain(policy.delta)}"
        found.append(Beyond(f"δ is {shown}", limit, f"--max-delta {shown}"))
    if local == math.inf:
        found.append(Beyond("only the crowd hides an answer", "some ε0", "--any-local-epsilon"))
    elif local > policy.local_epsilon:
        shown, limit = up(local), f"at most {plain(policy.local_epsilon)}"
        found.append(Beyond(f"ε0 is {shown}", limit, f"--max-local-epsilon {shown}"))
    return found


def answering(survey: Survey) -> str:
    """The options with which the survey can be answered, each after a space."""
    return "".join(f" {each.option}" for each in beyond_default(survey))
