"""What is asked, of whom, and what is promised: a configuration that names itself."""

from __future__ import annotations

from shoal.questions.kinds import NONE
from shoal.service.admission import Admission, Invited, Open
from shoal.service.survey.document import Batches, Party, Small, Stated, Survey, complaint
from shoal.service.survey.items import Item
from shoal.service.survey.older import VERSION

__all__ = [
    "NONE",
    "VERSION",
    "Admission",
    "Batches",
    "Invited",
    "Item",
    "Open",
    "Party",
    "Small",
    "Stated",
    "Survey",
    "complaint",
]
