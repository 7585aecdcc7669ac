"""Sealed reports: what a survey is called, whose keys open what, and envelopes of one size.

Shared by every way of collecting: a report is sealed for the analyzer, and on its way sealed again
for whoever carries it. Nothing here knows time, disk or network.
"""

from __future__ import annotations

from shoal.sealing.envelope import Envelope, key_number, records
from shoal.sealing.errors import MalformedError, NotOpenableError, SealingError
from shoal.sealing.identity import Plain, SurveyId, canonical, parsed
from shoal.sealing.keys import SUITES, KeyPair, PublicKey

__all__ = [
    "SUITES",
    "Envelope",
    "KeyPair",
    "MalformedError",
    "NotOpenableError",
    "Plain",
    "PublicKey",
    "SealingError",
    "SurveyId",
    "canonical",
    "key_number",
    "parsed",
    "records",
]
