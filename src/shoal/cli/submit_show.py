"""What became of reports, as people and programs read it."""

from __future__ import annotations

import math
from dataclasses import asdict

from shoal.cli.app import printable
from shoal.cli.render import console
from shoal.cli.submit_answer import Answered, Spending, Wiped
from shoal.explain.text import plain, up
from shoal.service.client import Abstained, Flushed, Queued, Sent, Submitted
from shoal.service.survey import Survey


def to_dict(answered: Answered) -> dict[str, object]:
    """Plain values."""
    found = answered.found
    if isinstance(found, Spending):
        jobs = {} if found.jobs is None else {"jobs": found.jobs.to_dict()}
        return found.own.to_dict() | jobs
    values: dict[str, object] = {"outcome": type(found).__name__.lower(), **asdict(found)}
    if answered.survey is not None:
        values["promise"] = _promise(answered.survey)
    return values


def show(answered: Answered) -> None:
    """For people."""
    page = console()
    for line in _lines(answered):
        page.print(printable(line), soft_wrap=True)


def show_promise(survey: Survey) -> None:
    """What answering costs at most: told before anything is sent."""
    page = console()
    least, terms = survey.batches.minimum, survey.terms
    kept = survey.guarantee(least)
    page.print(printable(f"survey: {survey.name}"), soft_wrap=True)
    page.print(
        f"promised: ε of at most {plain(survey.epsilon)} at δ = {plain(kept.delta)}; in the "
        f"smallest crowd, of {least:,}, it is {up(kept.epsilon)},",
        soft_wrap=True,
    )
    page.print(_alone(survey, kept.local_epsilon), soft_wrap=True)
    if terms.delta_taking_part > terms.delta:
        seen = f"whoever is seen to take part has δ = {up(terms.delta_taking_part)}"
        page.print(seen, soft_wrap=True)


def _alone(survey: Survey, local_epsilon: float) -> str:
    """What is left if everybody else colludes."""
    if math.isfinite(local_epsilon):
        return f"and ε0 = {up(local_epsilon)} whoever colludes"
    reports = survey.reports_per_person
    each = "the report" if reports == 1 else f"one person's {reports:,} reports"
    return f"and nothing if the others collude: {each} may give the answer away"


def _promise(survey: Survey) -> dict[str, object]:
    kept = survey.guarantee(survey.batches.minimum)
    return {
        "epsilon": kept.epsilon,
        "delta": kept.delta,
        "local_epsilon": kept.local_epsilon,
        "minimum": survey.batches.minimum,
        "reports_per_person": survey.reports_per_person,
    }


def _lines(answered: Answered) -> list[str]:
    found = answered.found
    match found:
        case Sent() | Queued() | Abstained():
            return _of_one(found, answered.flushing)
        case Submitted():
            return _of_many(found)
        case Flushed():
            counted = f"{found.sent:,} sent, {found.waiting:,} waiting, {found.given_up:,} given up"
            return [counted, *found.reasons]
        case Spending():
            return _spending(found)
        case Wiped():
            return [_wiped(found)]


def _of_one(found: Sent | Queued | Abstained, flushing: str) -> list[str]:
    match found:
        case Sent():
            return [f"delivered: report {found.occasion}{_before(found)}"]
        case Queued():
            waits = f"kept: report {found.occasion} waits ({found.reason}){_before(found)}"
            return [waits, f"send it with {flushing}"]
        case Abstained():
            return ["not taking part: so said the coin of this machine, and nothing is sent"]


def _before(found: Sent | Queued) -> str:
    """What was answered then is not known here any more: it may be another answer."""
    return "; it was made before, and the answer given now was not used" if found.again else ""


def _wiped(found: Wiped) -> str:
    if found.reports is None:
        return "opted in"
    wiped = "1 report was" if found.reports == 1 else f"{found.reports:,} reports were"
    return f"opted out: {wiped} wiped, nothing more is answered"


def _of_many(found: Submitted) -> list[str]:
    delivered = f"{found.delivered:,} delivered, {found.waiting:,} waiting"
    people = f"{found.asked:,} of {found.people:,} people asked, {found.taking_part:,} took part"
    lines = [f"{delivered}; {people}"]
    if found.again:
        lines.append("all of them had been drawn before, and nobody was drawn again")
    if not found.finished:
        lines += [f"interrupted ({found.reason})", "the same command goes on where it ended"]
    return lines


def _spending(found: Spending) -> list[str]:
    lines = str(found.own).splitlines()
    if found.jobs is not None:
        lines += ["", "each one of the people of tables, at most:", *str(found.jobs).splitlines()]
    return lines
