"""The document of a result: what was found in a batch, how sure that is, and what it costs.

A document is plain values. It holds no more about anybody than the estimates, which are computed
from what came out of the shuffler, and says itself what has to be believed for its guarantee.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from shoal.accounting.guarantee import TRUST
from shoal.protocols.base import MultiMessageMechanism
from shoal.randomizers.base import NumberMechanism
from shoal.report import finite
from shoal.service.analyzer.verdict import Verdict, estimated, local_epsilon
from shoal.service.survey import Survey
from shoal.values import Counts, Estimate, MeanEstimate

Document = dict[str, Any]

VERSION = 1
LEVEL = 0.95
PUBLISHED, WITHHELD = "published", "withheld"
NOT_ENFORCED = "assumed, not enforced"
_HOUR = 3600


def result_document(
    survey: Survey,
    verdict: Verdict,
    counts: Counts | None,
    *,
    received: Mapping[str, Any],
    now: int,
) -> Document:
    """The result of a batch, but for what the survey cost so far.

    ``received`` has the batch's name, the reports it claims and what was left out.
    """
    withheld = verdict.withheld is not None
    reports = int(received["reports"])
    found = {} if withheld or counts is None else estimates(survey, counts)
    spoiled = reports - verdict.valid if survey.slots > 1 else 0
    return {
        "version": VERSION,
        "status": WITHHELD if withheld else PUBLISHED,
        **about(survey),
        "batch": received["batch"],
        "reports": reports,
        "rejected": dict(received["rejected"]),
        **worth(survey, verdict),
        **_empty(),
        **found,
        "bias_bound": None
        if withheld or counts is None
        else bias(survey, counts, verdict, spoiled),
        "withheld": verdict.withheld,
        "published": now - now % _HOUR,
    }


def about(survey: Survey) -> Document:
    """Which survey it is."""
    return {"survey": str(survey.id), "name": survey.name, "question": survey.question}


def worth(survey: Survey, verdict: Verdict) -> Document:
    """What so many valid reports guarantee, and what is assumed for that."""
    found = verdict.guarantee
    return {
        "valid": verdict.valid,
        "honest": verdict.honest,
        "epsilon": None if found is None else found.epsilon,
        "delta": survey.delta,
        "local_epsilon": _known(local_epsilon(survey)),
        "theorem": None if found is None else found.theorem,
        "reports_per_person": survey.reports_per_person,
        "reports_per_person_is": NOT_ENFORCED,
        "participation": survey.participation,
        "dishonest": survey.dishonest,
        "assumptions": [] if found is None else list(found.assumptions),
        "trust": TRUST if found is None else found.trust,
    }


def estimates(survey: Survey, counts: Counts) -> Document:
    """Shares of the answers, or the mean, with limits of 95 % intervals."""
    found = estimated(survey, counts)
    if isinstance(found, Estimate):
        return {"estimates": _shares(survey, found)}
    return {"mean": _mean(found)}


def bias(survey: Survey, counts: Counts, verdict: Verdict, spoiled: int = 0) -> float | None:
    """By how much those who follow no protocol can shift a share, or the mean, at most.

    One of them moves a count, or the sum, by at most its ``influence`` and what an honest report
    in its place would have added. ``spoiled`` reports lack a message, and what is left of them
    counts. None where the mechanism states no bound.
    """
    people = verdict.valid - verdict.honest + spoiled
    device = survey.device
    own = device.high - device.low if isinstance(device, NumberMechanism) else 1.0
    if isinstance(device, MultiMessageMechanism):
        return people * (device.influence + own) / counts.n
    found = estimated(survey, counts)
    step = found.step if isinstance(found, Estimate) else 0.0
    return people * (step + own / counts.n) if step else None


def written(document: Mapping[str, Any]) -> bytes:
    """A document as bytes: strict JSON."""
    text = json.dumps(finite(document), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode()


def _empty() -> Document:
    """Both kinds of estimates are there by name, so that every document has the same members."""
    return {"level": LEVEL, "estimates": None, "mean": None}


def _shares(survey: Survey, found: Estimate) -> list[Document]:
    low, high = found.interval(LEVEL)
    return [
        {
            "answer": answer,
            "share": float(found.frequencies[i]),
            "low": float(low[i]),
            "high": float(high[i]),
            "standard_error": float(found.standard_errors[i]),
            "count": float(found.counts[i]),
        }
        for i, answer in enumerate(survey.answers)
    ]


def _mean(found: MeanEstimate) -> Document:
    low, high = found.interval(LEVEL)
    return {
        "mean": found.mean,
        "low": low,
        "high": high,
        "standard_error": found.standard_error,
        "sum": found.sum,
    }


def _known(value: float) -> float | None:
    return None if math.isinf(value) else value
