"""What each batch tells about a person in it: decided, and entered before anybody is told.

The guarantee is that of the valid reports, never of those that were sent: what did not open hides
nobody. A batch with fewer than the survey's minimum, or that would cost more than the survey
promises, is withheld: its estimates are not computed into anything, and its counts are not kept.

One whose estimates no honest crowd gives has a warning, and is held until the operator releases it:
somebody made reports up, and then the crowd may be smaller than the guarantee counts on.

A store that was restored from a backup does not know what was opened and published since. What that
can have cost has an entry under a name that no batch has, ``LOST``: towards readers the ε of the
smallest batch that is ever published, towards the analyzer the local one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypedDict, cast

import sqlalchemy as sa

from shoal.accounting.guarantee import Guarantee
from shoal.errors import OutOfRegimeError, PrecisionError, ShoalError, UnreachableTargetError
from shoal.explain.text import plain, up
from shoal.intervals.estimates import Estimate, MeanEstimate
from shoal.sealing import SurveyId
from shoal.service.analyzer.collection import Collection, Collections, Opened
from shoal.service.analyzer.tables import BUDGETED, ledger, results
from shoal.service.db.database import Database
from shoal.service.db.surveys import SurveyRow, Surveys
from shoal.service.survey import Item, Survey
from shoal.values import Counts

LOST = "lost"  # instead of a batch's name: all that was opened since a backup that was restored
RARE = 1e-6  # the probability that a batch of honest people is held, at most


@dataclass(frozen=True)
class ReleaseDecision:
    """What so many valid reports are worth; ``withheld`` says why nothing is published, if so.

    ``guarantee`` is None where too few people are left for any. ``warning`` says why no honest
    crowd can have sent the reports, if so.
    """

    valid: int
    honest: int
    guarantee: Guarantee | None
    withheld: str | None
    warning: str | None = None


def release_decision(
    survey: Survey, valid: int, counts: tuple[Counts, ...], *, reports: int
) -> ReleaseDecision:
    """The decision on a batch with so many valid reports, and the counts of each question.

    What is left of the ``reports`` that lack a message is in the counts, too.
    """
    guarantee, least, withheld = guaranteed(survey, valid), survey.batches.minimum, None
    warning = None
    if valid < least:
        missing = f"{least - valid:,} fewer than the survey's minimum {least:,}"
        withheld = f"{valid:,} valid reports, {missing}"
    elif guarantee is None:
        withheld = "too few honest people for any guarantee"
    elif not survey.allows(guarantee.epsilon):
        promised = f"where the survey promises {plain(survey.epsilon)}"
        withheld = f"epsilon {up(guarantee.epsilon)}, {promised}"
    elif not counts:
        withheld = "nothing that can be counted"
    else:
        try:
            signs = []
            for question, each in zip(survey.questions, counts, strict=True):
                lacking, rare = spoiled(question, each, reports), RARE / len(counts)
                sign = signs_of_forgery(question, each, spoiled=lacking, rare=rare)
                named = f"{question.name}: " if survey.several else ""
                signs += [] if sign is None else [f"{named}{sign}"]
            warning = "; ".join(signs) or None
        except ShoalError:
            # Shares that must add up, and do not. What they add up to is nobody's business.
            withheld = "messages that do not fit together: some are missing, forged or altered"
    return ReleaseDecision(valid, survey.honest(valid), guarantee, withheld, warning)


def spoiled(question: Item, counts: Counts, reports: int) -> int:
    """How many of the reports lack a message; what is left of them is in the counts.

    With one message a report, what does not count is not there at all.
    """
    return reports - counts.n if question.device.slots > 1 else 0


def signs_of_forgery(
    question: Item, counts: Counts, *, spoiled: int = 0, rare: float = RARE
) -> str | None:
    """Why no honest crowd can have sent what adds up to these counts; None if one can.

    A fraction below 0 or above 1, or a mean outside the bounds, by more than noise explains: an
    honest crowd, of any size and whatever it answers, gives one anywhere in the chart with
    probability ``rare`` at most. In a large crowd that is five to six standard errors of the
    crowd whose estimates stray furthest. It is a sign, and no proof of the contrary: whoever
    invents answers and follows the protocol gives none.

    No estimate is in the sentence, nor which answer it is about: readers are told it.
    """
    device = question.device
    estimate = cast("Estimate | MeanEstimate", device.estimate(counts))
    low, high = (0.0, 1.0) if question.answers else question.bounds
    slack = 0.0
    if device.several:  # a spoiled report lacks a message, and counts
        slack = spoiled * ((device.influence or 0.0) + high - low) / counts.n
    below, above = estimate.beyond(rare, bounds=(low - slack, high + slack), reach=device.reach)
    beyond = int((below | above).sum())
    if not beyond:
        return None
    fractions = f"{beyond:,} of {len(question.labels):,} estimated fractions are"
    what = "the estimated mean is" if isinstance(estimate, MeanEstimate) else fractions
    where = f"below {plain(low)} or above {plain(high)}"
    return f"{what} {where} by more than noise explains: no honest crowd gives that"


def guaranteed(survey: Survey, valid: int) -> Guarantee | None:
    """The survey's guarantee among so many valid reports, if there is any."""
    try:
        return survey.guarantee(valid)
    except (UnreachableTargetError, OutOfRegimeError, PrecisionError):
        return None


class Life(TypedDict):
    """What a survey has cost one person so far: towards readers, and towards the analyzer itself.

    ``epsilon`` is towards readers: of the ``batches`` whose estimates are published, the smallest
    of which has so many valid reports. ``analyzer_epsilon`` is towards the analyzer, who has
    ``opened`` withheld ones too. Where those are too small for any guarantee the local one is left;
    None if that is infinite.
    """

    epsilon: float | None
    batches: int
    smallest: int | None
    analyzer_epsilon: float | None
    opened: int


@dataclass(frozen=True)
class Ledger:
    """The ledger of all surveys, one entry for each batch that was opened."""

    database: Database
    surveys: Surveys
    collections: Collections

    def debit(self, collection: Opened, decision: ReleaseDecision) -> Collection:
        """Enter what the batch tells about a person."""
        entry = {
            "survey": collection.survey,
            "batch": collection.batch,
            "epsilon": None if decision.guarantee is None else decision.guarantee.epsilon,
            "delta": self.surveys.numbered(collection.survey).survey.delta,
            "valid": decision.valid,
            "honest": decision.honest,
            "released": int(decision.withheld is None and decision.warning is None),
        }
        with self.database.write() as connection:
            connection.execute(sa.insert(ledger).values(entry))
            return self.collections.move_in(connection, collection, BUDGETED)

    def enter_lost(self) -> None:
        """Enter what every survey can have cost since the backup that this store is from."""
        for survey in self.surveys.all():
            least = survey.batches.minimum
            entry = {
                "survey": self.surveys.row(survey.id).number,
                "batch": LOST,
                "epsilon": survey.guarantee(least).epsilon,
                "delta": survey.delta,
                "valid": least,
                "honest": survey.honest(least),
                "released": 1,
            }
            with self.database.write() as connection:
                add = self.database.insert(ledger).values(entry)
                connection.execute(add.on_conflict_do_nothing())

    def entries(self, name: SurveyId) -> list[dict[str, Any]]:
        """What every batch tells about a person in it."""
        mine = sa.and_(ledger.c.survey == self.surveys.row(name).number, ledger.c.batch != LOST)
        columns = [column for column in ledger.c if column.name != "survey"]
        query = sa.select(*columns).where(mine).order_by(ledger.c.batch)
        with self.database.read() as connection:
            rows = connection.execute(query).mappings().all()
        return [{**row, "released": bool(row["released"])} for row in rows]

    def spent(self, name: SurveyId) -> Life:
        """What the survey cost so far."""
        with self.database.read() as connection:
            return spent(connection, self.surveys.row(name))


def spent(connection: sa.Connection, row: SurveyRow, batch: str = "") -> Life:
    """What a survey cost so far, ``batch`` being published, too.

    What may be ``LOST`` counts as opened, and as the smallest batch, but not as one of the batches.
    """
    entry, done = ledger.c, results.c
    published = sa.select(done.batch).where(done.survey == row.number)
    released = sa.select(
        sa.func.max(entry.epsilon),
        sa.func.count().filter(entry.batch != LOST),
        sa.func.min(entry.valid),
    ).where(
        entry.survey == row.number,
        entry.released == 1,
        sa.or_(entry.batch.in_((batch, LOST)), entry.batch.in_(published)),
    )
    epsilon, batches, smallest = connection.execute(released).one()
    local = row.survey.local_epsilon
    known = sa.case((entry.batch != LOST, entry.epsilon))
    every = sa.select(sa.func.max(sa.func.coalesce(known, local)), sa.func.count())
    worst, opened = connection.execute(every.where(entry.survey == row.number)).one()
    return {
        "epsilon": epsilon,
        "batches": batches,
        "smallest": smallest,
        "analyzer_epsilon": None if worst is None or math.isinf(worst) else worst,
        "opened": opened,
    }
