"""What is asked, of whom, and what is promised: a configuration that names itself."""

from __future__ import annotations

from shoal.service.admission import Admission, Invited, Open
from shoal.service.survey.document import (
    VERSION,
    Batches,
    Party,
    Question,
    Small,
    Stated,
    Survey,
    complaint,
)
from shoal.service.survey.texts import NONE

__all__ = [
    "NONE",
    "VERSION",
    "Admission",
    "Batches",
    "Invited",
    "Open",
    "Party",
    "Question",
    "Small",
    "Stated",
    "Survey",
    "complaint",
]
