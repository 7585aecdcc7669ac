"""What a survey says of itself, before anything is computed from it.

The promise of a survey may take seconds to compute. What a person or an operator does not allow
anyway can be refused by these numbers alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from shoal import checks
from shoal.errors import InvalidArgumentError, ShoalError
from shoal.protocols.base import Device
from shoal.protocols.registry import restored
from shoal.randomizers.grid import Laplace
from shoal.sealing import MalformedError, Plain, parsed
from shoal.service.survey.batches import Batches
from shoal.service.survey.complaints import InconsistentSurveyError
from shoal.service.survey.party import Party
from shoal.service.survey.promise import Terms
from shoal.service.survey.room import check_described

LEAST_DELTA = 1e-30
MOST_REPORTS = 1000  # of one person: composing more takes long, and promises nothing
MOST_LEVELS = 8  # of Laplace noise in several reports: its law has many atoms of many sizes
LARGEST_LOCAL = 5.0  # of each of several reports, for the same reason; one alone is quick


@dataclass(frozen=True, kw_only=True)
class Stated:
    """The numbers and addresses by which a survey may be refused at once."""

    device: Device
    batches: Batches
    epsilon: float
    terms: Terms
    shuffler: Party
    analyzer: Party

    def __post_init__(self) -> None:
        checks.positive(epsilon=self.epsilon)
        checks.open_probability(delta=self.terms.delta)
        checks.closed_probability(dishonest=self.terms.dishonest)
        checks.share(participation=self.terms.participation)
        if self.terms.delta < LEAST_DELTA:
            raise InvalidArgumentError("delta", self.terms.delta, f"delta >= {LEAST_DELTA:g}")
        reports = checks.count(reports_per_person=self.terms.reports_per_person)
        if reports > MOST_REPORTS:
            expected = f"at most {MOST_REPORTS} reports of one person"
            raise InvalidArgumentError("reports_per_person", reports, expected)
        self._check_local()
        if self.shuffler.fingerprint == self.analyzer.fingerprint:
            # The role is in what is hashed: no two parties share one, not even with one key.
            expected = (
                "the analyzer's fingerprint to differ from the shuffler's, as each party has its "
                "own (shoal keys show prints it)"
            )
            raise InvalidArgumentError("fingerprint", self.analyzer.fingerprint, expected)

    def _check_local(self) -> None:
        each = self.device.local_epsilon
        if self.terms.reports_per_person == 1:
            return
        if LARGEST_LOCAL < each < math.inf:
            expected = f"at most {LARGEST_LOCAL:g} for each of several reports of one person"
            raise InvalidArgumentError("local_epsilon", each, expected)
        if isinstance(self.device, Laplace) and self.device.levels > MOST_LEVELS:
            expected = (
                f"at most {MOST_LEVELS} for several reports of one person by {self.device.name} "
                "(or take piecewise)"
            )
            raise InvalidArgumentError("levels", self.device.levels, expected)

    @property
    def local_epsilon(self) -> float:
        """What one person's reports reveal together, whoever colludes."""
        return self.terms.reports_per_person * self.device.local_epsilon

    @classmethod
    def from_bytes(cls, data: bytes) -> Stated:
        """From a survey's bytes: quickly, and without knowing whether the rest makes sense."""
        stored = parsed(data)
        try:
            return cls.restored(stored)
        except (KeyError, TypeError, AttributeError) as error:
            raise MalformedError("the survey", f"all of its fields ({error})") from None
        except (ShoalError, ArithmeticError) as error:
            raise InconsistentSurveyError(error) from None

    @classmethod
    def restored(cls, stored: Mapping[str, Plain]) -> Stated:
        """From plain values."""
        numbers = cast("Mapping[str, float]", stored)
        mechanism = cast("Mapping[str, object]", stored["mechanism"])
        check_described(mechanism, len(cast("list[str]", stored["answers"])))
        return cls(
            device=restored(mechanism),
            batches=Batches.restored(cast("Mapping[str, Plain]", stored["batches"])),
            epsilon=numbers["epsilon"],
            terms=Terms(
                delta=numbers["delta"],
                reports_per_person=cast("int", stored["reports_per_person"]),
                dishonest=numbers["dishonest"],
                participation=numbers["participation"],
            ),
            shuffler=Party.restored(cast("Mapping[str, Plain]", stored["shuffler"])),
            analyzer=Party.restored(cast("Mapping[str, Plain]", stored["analyzer"])),
        )
