"""Whether a batch may be published, and what it tells about a person in it.

The guarantee is that of the valid reports, never of those that were sent: what did not open hides
nobody. A batch with fewer than the survey's minimum, or that would cost more than the survey
promises, is withheld: its estimates are not computed into anything, and its counts are not kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

from shoal.accounting.guarantee import Guarantee
from shoal.errors import OutOfRegimeError, PrecisionError, ShoalError, UnreachableTargetError
from shoal.explain.text import plain, up
from shoal.randomizers.base import AnswerMechanism, NumberMechanism
from shoal.service.survey import Survey
from shoal.values import Counts, Estimate, MeanEstimate


@dataclass(frozen=True)
class ReleaseDecision:
    """What so many valid reports are worth; ``withheld`` says why nothing is published, if so.

    ``guarantee`` is None where too few people are left for any.
    """

    valid: int
    honest: int
    guarantee: Guarantee | None
    withheld: str | None


def release_decision(survey: Survey, valid: int, counts: Counts | None) -> ReleaseDecision:
    """The decision on a batch with so many valid reports, and the counts they add up to."""
    guarantee = guaranteed(survey, valid)
    reason = _too_few(survey, valid) or _too_costly(survey, guarantee) or _unusable(survey, counts)
    return ReleaseDecision(valid, survey.honest(valid), guarantee, reason)


def guaranteed(survey: Survey, valid: int) -> Guarantee | None:
    """The survey's guarantee among so many valid reports, if there is any."""
    try:
        return survey.guarantee(valid)
    except (UnreachableTargetError, OutOfRegimeError, PrecisionError):
        return None


def local_epsilon(survey: Survey) -> float:
    """What holds for one person's reports together, whoever colludes (may be infinite)."""
    alone = survey.device.local_epsilon
    return alone if math.isinf(alone) else alone * survey.reports_per_person


def estimated(survey: Survey, counts: Counts) -> Estimate | MeanEstimate:
    """The mechanism's own estimate."""
    return cast("AnswerMechanism | NumberMechanism", survey.device).estimate(counts)


def _too_few(survey: Survey, valid: int) -> str | None:
    least = survey.batches.minimum
    if valid >= least:
        return None
    return f"{valid:,} valid reports, {least - valid:,} fewer than the survey's minimum {least:,}"


def _too_costly(survey: Survey, guarantee: Guarantee | None) -> str | None:
    if guarantee is None:
        return "too few honest people for any guarantee"
    if survey.allows(guarantee.epsilon):
        return None
    return f"epsilon {up(guarantee.epsilon)}, where the survey promises {plain(survey.epsilon)}"


def _unusable(survey: Survey, counts: Counts | None) -> str | None:
    if counts is None:
        return "nothing that could be counted"
    try:
        estimated(survey, counts)
    except ShoalError:
        # Shares that must add up, and do not. What they add up to is nobody's business.
        return "messages that do not fit together: some are missing, forged or altered"
    return None
