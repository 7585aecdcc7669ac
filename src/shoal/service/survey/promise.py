"""The (epsilon, delta) of one person over a survey's life, from the accountant."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import lru_cache, partial

from shoal.accounting.amplification import amplify, profile
from shoal.accounting.compose import ComposedProfile, Method
from shoal.accounting.guarantee import Guarantee
from shoal.errors import OutOfRegimeError, PrecisionError, UnreachableTargetError
from shoal.explain.text import up
from shoal.mechanisms.base import Device
from shoal.service.admission import Admission, Open

_LARGEST_DELTA = 0.5  # beyond, a smaller delta is asked about: its epsilon holds for the larger one
_LEAST_LOSS_DELTA = 1e-13  # below, loss distributions are never precise enough
_EVERYBODY = Open(dishonest=0)
MADE_UP = (Fraction(1, 100), Fraction(1, 10), Fraction(1, 2))  # of a batch that nobody checked
_OTHERS: tuple[Method, ...] = ("renyi", "advanced")
_MARGIN = 1 + 2**-50  # more than the two functions of taking_part round off


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What is counted on besides the mechanism: how often somebody reports, and who is honest.

    With ``participation`` q below 1 a person reports at all with probability 1 - (1 - q)^R. If not,
    both answers look the same; if so, the crowd hides them as it hides those who always report. So
    epsilon at delta/(1 - (1 - q)^R) is epsilon at delta. No more is counted on: batches close on
    the number of reports, so that whoever knows when one closed may know who took part. The
    promise is made before the coin is tossed. Whoever is seen to take part, as the shuffler sees
    it, has (epsilon, delta/(1 - (1 - q)^R)).
    """

    delta: float
    reports_per_person: int = 1
    admission: Admission = _EVERYBODY
    participation: float = 1.0

    @property
    def trusting(self) -> Terms:
        """The same if nobody were dishonest."""
        return replace(self, admission=_EVERYBODY)

    @property
    def taking_part(self) -> float:
        """Probability that a person reports at all, or a little more."""
        if self.participation == 1 or self.reports_per_person == 1:
            return self.participation
        rough = -math.expm1(self.reports_per_person * math.log1p(-self.participation))
        return min(1.0, rough * _MARGIN)

    @property
    def delta_taking_part(self) -> float:
        """The delta of somebody who reports for sure that is worth ``delta``, never rounded up."""
        largest = max(self.delta, _LARGEST_DELTA)
        if self.delta >= largest * self.taking_part:
            return largest
        delta = self.delta / self.taking_part
        exact = Fraction(self.delta) / Fraction(self.taking_part)
        return delta if delta <= exact else math.nextafter(delta, 0.0)


TERMS = tuple(field.name for field in fields(Terms))


def promised(devices: tuple[Device, ...], terms: Terms, valid: int) -> Guarantee:
    """R adaptive rounds of each device among floor(honest / R) people each.

    For one device and R = 1 it is the accountant's answer.
    """
    reports = terms.reports_per_person
    honest = terms.admission.honest(valid, reports)
    crowd = honest // reports  # people among whom each report hides, the person included
    if crowd < 1:
        raise UnreachableTargetError(
            f"any guarantee with {valid} valid reports",
            f"{honest} honest ones leave nobody to hide {reports} of one person among",
            "ask for a larger minimum or fewer reports per person",
        )
    guarantee = _accounted(devices, crowd, terms.delta_taking_part, reports)
    as_accounted = reports == 1 and terms.taking_part == 1
    assumptions = [
        guarantee.assumptions[0],
        f"at least {honest:,} of {valid:,} valid reports are from people who follow the protocol",
        f"one person sends at most {reports} report{'s' * (reports > 1)} over the survey's life",
        *terms.admission.assumptions,
        "batches of different people do not add up",
    ]
    if terms.participation < 1:
        seen = f"delta = {up(terms.delta_taking_part)}"
        assumptions += [
            f"each person takes part with probability {terms.participation:g}",
            f"for a person who is seen to take part, epsilon holds at {seen}",
        ]
    return replace(
        guarantee,
        n=honest,
        delta=terms.delta,
        assumptions=tuple(assumptions),
        trust=terms.admission.trust,
        # What is claimed for several reports, or for a coin, is another claim than the one below
        # which no analysis can go.
        lower_bound=guarantee.lower_bound if as_accounted else lambda: 0.0,
    )


@dataclass(frozen=True)
class MadeUp:
    """So many reports that hide nobody, and what the ``left`` ones give; None is no guarantee."""

    fraction: Fraction
    reports: int
    left: int
    epsilon: float | None


def if_made_up(
    devices: tuple[Device, ...], terms: Terms, valid: int, fractions: Sequence[Fraction] = MADE_UP
) -> Iterator[MadeUp]:
    """What one person has if these fractions of a batch's reports were made up, and no others."""
    for fraction in fractions:
        reports = math.ceil(fraction * valid)
        try:
            epsilon = promised(devices, terms.trusting, valid - reports).epsilon
        except (UnreachableTargetError, OutOfRegimeError, PrecisionError):
            epsilon = None
        yield MadeUp(fraction, reports, valid - reports, epsilon)


@lru_cache(maxsize=4096)
def _accounted(devices: tuple[Device, ...], crowd: int, delta: float, rounds: int) -> Guarantee:
    if len(devices) > 1:
        return _composed(devices, crowd, delta, rounds)
    account = partial(amplify, devices[0], n=crowd, delta=delta, rounds=rounds)
    if rounds == 1 or delta >= _LEAST_LOSS_DELTA:
        try:
            return account()
        except PrecisionError:  # they are quicker and tighter, but not for every delta
            pass
    guarantees: list[Guarantee] = []
    for composition in _OTHERS:
        try:
            guarantees.append(account(composition=composition))
        except (OutOfRegimeError, UnreachableTargetError):
            if not guarantees and composition == _OTHERS[-1]:
                raise
    return min(guarantees, key=lambda guarantee: guarantee.epsilon)


def _composed(devices: tuple[Device, ...], crowd: int, delta: float, rounds: int) -> Guarantee:
    """Several questions: every device's curve among the same number of people, R times each.

    Each question is mixed by itself with noise of its own, so that given all inputs what comes out
    of one is independent of the others: their curves compose.
    """
    curves = [profile(device, n=crowd) for device in devices]
    composed = ComposedProfile.of((curve, rounds) for curve in curves)
    epsilon, how = composed.tightest(delta)
    theorems = "; ".join(dict.fromkeys(curve.theorem for curve in curves))
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        n=crowd,
        local_epsilon=composed.local_epsilon,
        local_delta=composed.local_delta,
        theorem=f"{theorems}; {len(devices)} questions, {how}",
        rounds=rounds,
        assumptions=("; ".join(dict.fromkeys(curve.scope for curve in curves)),),
        lower_bound=lambda: composed.lower_epsilon(delta),
        profile=composed,
    )
