"""All that is kept of a survey until its reports are delivered: where to, sealed for whom, how.

Neither the question nor its answers are in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from shoal.sealing import Plain, SurveyId, canonical, parsed
from shoal.service.keyring.schedule import Role
from shoal.service.survey import Party, Survey
from shoal.service.wire import Wire


@dataclass(frozen=True, kw_only=True)
class Route:
    """The way of a survey's reports."""

    survey: SurveyId
    shuffler: Party
    analyzer: Party
    suite: str
    slots: int
    message_bytes: int
    not_after: int

    @classmethod
    def of(cls, survey: Survey) -> Route:
        """The way of this survey's reports."""
        return cls(
            survey=survey.id,
            shuffler=survey.shuffler,
            analyzer=survey.analyzer,
            suite=survey.suite,
            slots=survey.slots,
            message_bytes=survey.message_bytes,
            not_after=survey.not_after,
        )

    @cached_property
    def wire(self) -> Wire:
        """The envelopes."""
        return Wire(
            survey=self.survey,
            slots=self.slots,
            message_bytes=self.message_bytes,
            token_bytes=0,
            suite=self.suite,
        )

    @property
    def url(self) -> str:
        """Where reports go."""
        return f"{self.shuffler.url}/v1/surveys/{self.survey}/reports"

    def keys(self, role: Role) -> str:
        """Where both parties' lists of keys are: at the shuffler, who shows everybody the same."""
        if role == "shuffler":
            return f"{self.shuffler.url}/v1/keys"
        return f"{self.shuffler.url}/v1/surveys/{self.survey}/keys/analyzer"

    def compared(self, role: Role) -> str:
        """Where the analyzer shows them, to those who do not mind that it sees them ask."""
        if role == "analyzer":
            return f"{self.analyzer.url}/v1/keys"
        return f"{self.analyzer.url}/v1/keys/shuffler?fingerprint={self.shuffler.fingerprint}"

    def to_bytes(self) -> bytes:
        """As it is kept."""
        return canonical(
            {
                "survey": str(self.survey),
                "shuffler": self.shuffler.configuration(),
                "analyzer": self.analyzer.configuration(),
                "suite": self.suite,
                "slots": self.slots,
                "message_bytes": self.message_bytes,
                "not_after": self.not_after,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Route:
        """As it was kept."""
        stored = parsed(data)
        wholes = cast("Mapping[str, int]", stored)
        return cls(
            survey=SurveyId.from_text(str(stored["survey"])),
            shuffler=Party.restored(cast("Mapping[str, Plain]", stored["shuffler"])),
            analyzer=Party.restored(cast("Mapping[str, Plain]", stored["analyzer"])),
            suite=str(stored["suite"]),
            slots=wholes["slots"],
            message_bytes=wholes["message_bytes"],
            not_after=wholes["not_after"],
        )
