"""What is asked, of whom, and what is promised: a configuration that names itself."""

from __future__ import annotations

from shoal.service.survey.batches import Batches, Small
from shoal.service.survey.complaints import complaint
from shoal.service.survey.party import Party
from shoal.service.survey.stated import Stated
from shoal.service.survey.survey import VERSION, Survey

__all__ = ["VERSION", "Batches", "Party", "Small", "Stated", "Survey", "complaint"]
