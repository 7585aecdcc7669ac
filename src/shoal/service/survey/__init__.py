"""What is asked, of whom, and what is promised: a configuration that names itself."""

from __future__ import annotations

from shoal.service.survey.document import VERSION, Batches, Party, Small, Stated, Survey, complaint

__all__ = ["VERSION", "Batches", "Party", "Small", "Stated", "Survey", "complaint"]
