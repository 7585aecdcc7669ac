"""Which surveys a person answers: whom they send to, what they may cost.

All of it is checked by the device before anything is drawn, whatever a survey says.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urlsplit

from shoal import checks
from shoal.accounting.guarantee import Guarantee
from shoal.explain.text import plain, up
from shoal.service.client.errors import PolicyError, SurveyRefusedError
from shoal.service.client.outbox import Ledger
from shoal.service.survey import Stated, Survey
from shoal.service.survey.document import public
from shoal.values import attributes

Near: TypeAlias = Callable[[str], bool]

_CROWD_ONLY = (
    "only the crowd hides an answer to this survey, because reports have no local epsilon "
    "(to allow that: shoal submit --any-local-epsilon, in Python local_epsilon=math.inf)"
)
_LOGIN = re.compile(r"//[^/]*@")
# Limits of which infinity is none.
_UNLIMITED = ("local_epsilon", "epsilon", "total_epsilon", "total_delta", "total_local_epsilon")


@dataclass(frozen=True)
class Exceeded:
    """A number of a survey beyond a policy, and the option of ``shoal submit`` that allows it."""

    what: str
    limit: str
    option: str

    def __str__(self) -> str:
        return (
            f"{self.what}, but clients allow {self.limit} by default: shoal submit refuses "
            f"it without {self.option}"
        )


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Limits of a person: what breaks one is refused before anything is drawn.

    Args:
        local_epsilon: What all reports of a survey together may lose if everybody colludes.
            Infinity allows surveys without an ε₀.
        epsilon: What the survey may promise, and what they may lose in the smallest batch that
            it releases.
        delta: The δ of somebody who is seen to take part.
        minimum: The fewest reports of a batch.
        total_epsilon: Sum over all surveys (basic composition).
        total_delta: Sum over all surveys.
        total_local_epsilon: Sum over all surveys that have an ε₀.
        hosts: The only machines that may be asked and answered; None is any.
        require_admission: Refuse surveys that anybody may answer, whose crowd is assumed and
            not checked.

    Raises:
        InvalidArgumentError: A limit is out of its range.

    Example:
        >>> Policy(epsilon=0.5).epsilon
        0.5
    """

    local_epsilon: float = 8.0
    epsilon: float = 2.0
    delta: float = 1e-5
    minimum: int = 100
    total_epsilon: float = 10.0
    total_delta: float = 1e-4
    total_local_epsilon: float = 40.0
    hosts: frozenset[str] | None = None
    require_admission: bool = False

    def __post_init__(self) -> None:
        limits = attributes(self, *_UNLIMITED)
        checks.positive(**{name: value for name, value in limits.items() if value != math.inf})
        checks.fraction(delta=self.delta)
        object.__setattr__(self, "minimum", checks.count(minimum=self.minimum))
        text = isinstance(self.hosts, str)
        checks.refuse(text, "a set of host names", hosts=self.hosts)
        if self.hosts is not None:
            object.__setattr__(self, "hosts", frozenset(host.lower() for host in self.hosts))

    def check_stated(self, stated: Stated) -> None:
        """What can be refused before anything is computed: the survey's own numbers."""
        self.check_host(stated.shuffler.url, "the shuffler")
        self.check_host(stated.analyzer.url, "the analyzer")
        admission = stated.admission
        if self.require_admission and not admission.code_bytes:
            sentence = f"the survey is {admission.fact}"
            raise PolicyError(
                "only", asked="open", allowed="people invited", what="", sentence=sentence
            )
        least = stated.batches.minimum
        if least < self.minimum:
            what = "batches with a minimum of"
            raise PolicyError("at least", asked=least, allowed=self.minimum, what=what)
        for what, asked, allowed in (
            ("a delta, for people who take part, of", stated.terms.delta_taking_part, self.delta),
            ("a local_epsilon of", stated.local_epsilon, self.local_epsilon),
            ("a promised epsilon of", float(stated.epsilon), self.epsilon),
        ):
            _check_at_most(asked, allowed, what)

    def check(self, survey: Survey) -> Guarantee:
        """What the survey promises at its smallest batch, if that keeps within the limits.

        The promise is worked out here, from the mechanism; what the survey says of itself is not
        believed.
        """
        self.check_stated(survey)
        least = survey.batches.minimum
        guarantee = survey.guarantee(least)
        local, epsilon = guarantee.local_epsilon, guarantee.epsilon
        _check_at_most(local, self.local_epsilon, "a local_epsilon of")
        _check_at_most(epsilon, self.epsilon, f"an epsilon, in a batch of minimum={least}, of")
        return guarantee

    def exceeded(self, survey: Survey) -> list[Exceeded]:
        """All numbers of a survey beyond the limits, and what a person would allow each by."""
        least, seen = survey.batches.minimum, survey.terms.delta_taking_part
        local = survey.local_epsilon
        rows = []
        if least < self.minimum:
            limit, option = f"at least {self.minimum}", f"--min-crowd {least}"
            rows.append(Exceeded(f"the minimum is {least:,}", limit, option))
        for name, asked, shown, allowed, option in (
            ("ε", survey.epsilon, plain(survey.epsilon), self.epsilon, "--max-epsilon"),
            ("δ", seen, up(seen), self.delta, "--max-delta"),
            ("ε0", local, up(local), self.local_epsilon, "--max-local-epsilon"),
        ):
            if asked == math.inf > allowed:
                what = "only the crowd hides an answer"
                rows.append(Exceeded(what, "some ε0", "--any-local-epsilon"))
            elif asked > allowed:
                limit = f"at most {plain(allowed)}"
                rows.append(Exceeded(f"{name} is {shown}", limit, f"{option} {shown}"))
        return rows

    def check_total(self, spent: Ledger, new: Guarantee) -> None:
        """Sums over all surveys, the new one included."""
        # No sum limits the surveys without a local epsilon.
        local = new.local_epsilon if math.isfinite(new.local_epsilon) else 0.0
        finite = [row.local_epsilon for row in spent.rows if math.isfinite(row.local_epsilon)]
        for name, before, more, allowed in (
            ("epsilon", spent.epsilon, new.epsilon, self.total_epsilon),
            ("delta", spent.delta, new.delta, self.total_delta),
            ("local_epsilon", math.fsum(finite), local, self.total_local_epsilon),
        ):
            if more and not before + more <= allowed:
                what = f"{name} {up(more)}, which with the {up(before)} of other surveys makes"
                raise PolicyError(
                    "in total at most", asked=before + more, allowed=allowed, what=what
                )

    def check_places(self, stated: Stated, *, near: Near) -> None:
        """Refuse to be sent by strangers to machines that only this one can reach.

        A survey that lies on this machine may name it, and one from a near machine any near one.
        """
        for role, party in (("shuffler", stated.shuffler), ("analyzer", stated.analyzer)):
            host = urlsplit(party.url).hostname or ""
            allowed = self.hosts is not None and host in self.hosts
            if not (public(host) or allowed or near(host)):
                reason = f"the {role} of this survey is on {host}, which is not a public address"
                raise SurveyRefusedError(reason, "if you trust it, add it to the policy's hosts")

    def check_host(self, url: str, who: str) -> None:
        """Only machines that may be talked to."""
        host = urlsplit(url).hostname or ""
        if self.hosts is not None and host not in self.hosts:
            allowed = ", ".join(sorted(self.hosts)) or "none"
            raise PolicyError("only", asked=host, allowed=allowed, what=f"{who} on")


def _check_at_most(asked: float, allowed: float, what: str) -> None:
    if not asked <= allowed:
        crowd_only = _CROWD_ONLY if asked == math.inf else None  # no other number may be
        raise PolicyError("at most", asked=asked, allowed=allowed, what=what, sentence=crowd_only)


def without_login(url: str) -> str:
    """An address as it may be shown.

    >>> without_login("http://me:secret@proxy.example:3128")
    'http://…@proxy.example:3128'
    """
    return _LOGIN.sub("//…@", url)
