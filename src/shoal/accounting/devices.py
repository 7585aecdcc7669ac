"""How many people report, what their devices run as far as it is known, and the profile of both."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Protocol, cast, runtime_checkable

from shoal import checks
from shoal.accounting.approximate import (
    ApproximateProfile,
    Exchange,
    clones_distance,
    optimal_distance,
)
from shoal.accounting.blanket import BallProfile
from shoal.accounting.law import BlanketLaw
from shoal.accounting.noise.profile import NoiseProfile
from shoal.accounting.profile import PrivacyProfile
from shoal.errors import InvalidArgumentError, InvalidTypeError
from shoal.questions.terms import EVERYBODY, NO_LIMITS, Crowd, require

OPTIMAL_CLONES = "optimal-clones"
CLONES = "clones"
ALONE = 1e-6  # relative: an epsilon that is no better than that of one report
_ABSENCE = 1e-12  # what a crowd smaller than counted on may cost of delta


@dataclass(frozen=True)
class People:
    """So many people of a crowd, and how many of them the guarantee counts on.

    Dropped-out and dishonest people hide nobody: ``honest`` are those who are counted on, a
    fraction of the crowd rounded down, or ``honest_n`` if they are known by number.
    """

    n: int
    crowd: Crowd = EVERYBODY
    honest_n: int | None = None
    honest: int = field(init=False)
    participation: float = field(init=False)  # of each person's own coin, unseen by the analyzer

    def __post_init__(self) -> None:
        require(self.crowd, NO_LIMITS)
        vars(self).update(n=checks.count(n=self.n), participation=self.crowd.participation)
        if self.honest_n is not None:
            honest = checks.count(honest_n=self.honest_n)
            checks.refuse(honest > self.n, f"honest_n <= n = {self.n}", honest_n=honest)
            expected = "either honest_n or honest_fraction, not both"
            checks.refuse(self.crowd.honest_fraction != 1.0, expected, honest_n=honest)
        else:
            # The fraction as it was written: 0.9 is nine tenths, not the float next to it.
            fraction = Fraction(repr(float(self.crowd.honest_fraction)))
            honest = min(self.n, math.floor(self.n * fraction))
        object.__setattr__(self, "honest", honest)
        expected = f"at least one honest person among n = {self.n}"
        checks.refuse(honest < 1, expected, honest_fraction=self.crowd.honest_fraction)

    @property
    def present(self) -> int:
        """So many honest people, a fixed one included, take part but for :attr:`absence`."""
        if self.participation == 1:
            return self.honest
        from scipy import stats

        others = stats.binom(self.honest - 1, self.participation)
        return 1 + max(0, int(others.ppf(_ABSENCE)) - 1)

    @property
    def absence(self) -> float:
        """Probability that fewer than :attr:`present` take part."""
        return 0.0 if self.participation == 1 else _ABSENCE

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What these people are taken to be, in words."""
        stated = [f"at least {self.honest:,} of {self.n:,} people follow the protocol"]
        if self.participation < 1:
            coin = f"each takes part with probability {self.participation:g}"
            stated.append(f"{coin}, and nobody sees who did")
        return tuple(stated)


class HasLaw(Protocol):
    """A randomizer, as far as the accountant is concerned."""

    def law(self) -> BlanketLaw:
        """The blanket law of the randomizer as implemented."""


@runtime_checkable
class HasProfile(Protocol):
    """What all honest people send is analysed together: several messages, noise in a ball."""

    def profile(self, n: int) -> NoiseProfile | BallProfile:
        """The curve of n honest people's messages."""


Randomizer = BlanketLaw | HasLaw | HasProfile
Profile = PrivacyProfile | ApproximateProfile | NoiseProfile | BallProfile


def privacy_of(randomizer: Randomizer) -> HasLaw | HasProfile:
    """What the accountant looks at: a part of a mechanism, or the randomizer itself."""
    own = getattr(getattr(randomizer, "parts", None), "privacy", None)
    known = callable(getattr(own, "law", None)) or isinstance(own, HasProfile)
    return cast("HasLaw | HasProfile", own if known else randomizer)


def law_of(randomizer: Randomizer) -> BlanketLaw:
    """The law of a randomizer, or a law itself."""
    if isinstance(randomizer, BlanketLaw):
        return randomizer
    own = privacy_of(randomizer)
    if isinstance(own, HasProfile):
        expected = "a randomizer with a blanket law here (several messages have none)"
        raise InvalidArgumentError("randomizer", randomizer, expected)
    law = own.law()
    if not isinstance(law, BlanketLaw):
        raise InvalidArgumentError("randomizer.law()", law, "law() to return a BlanketLaw")
    return law


def require_randomizer(randomizer: object) -> None:
    """Say what to do with a table, a function or a class where a randomizer is expected."""
    named = (getattr(randomizer, name, None) for name in ("law", "profile"))
    a_class = isinstance(randomizer, type)
    if isinstance(randomizer, BlanketLaw) or (any(map(callable, named)) and not a_class):
        return
    made = f" (make one: {getattr(randomizer, '__name__', '')}(...))"
    expected = "a BlanketLaw or a randomizer with a law() method"
    expected += made if a_class else _instead(randomizer)
    raise InvalidTypeError("randomizer", _described(randomizer), expected)


def member(family: Callable[..., Randomizer], epsilon: float) -> Randomizer:
    """The randomizer of a family that has this epsilon; say what a family is if it is none."""
    try:
        return family(epsilon=epsilon)
    except TypeError as error:
        below = error.__traceback__ and error.__traceback__.tb_next
        if below is not None:  # it was called, and failed in its own code
            raise
        expected = (
            "a family: a callable that takes epsilon= and returns a randomizer or a law, such as "
            f"functools.partial(RandomizedResponse, k=4){_instead(family)}"
        )
        raise InvalidTypeError("family", _described(family), expected) from error


def _instead(value: object) -> str:
    if isinstance(value, list | tuple) or hasattr(value, "__array__"):
        return " (for a table, Pr[output | input] by rows: BlanketLaw.from_table(table))"
    if callable(value) and not isinstance(value, type):
        return " (a function has no law to compute with: shoal.audit(function, ...) runs it)"
    return ""


def _described(value: object) -> object:
    """What is short as it is, the rest by its kind: arrays and frames fill the screen."""
    if value is None or isinstance(value, str | int | float):
        return value
    shape = getattr(value, "shape", None)
    kind = getattr(value, "__name__", type(value).__name__)
    return f"{kind} of shape {shape}" if isinstance(shape, tuple) else kind


@dataclass(frozen=True)
class Devices:
    """A known randomizer, or any randomizers with a replacement or deletion guarantee."""

    randomizer: Randomizer | None = None
    local_epsilon: float | None = None
    deletion_epsilon: float | None = None
    local_delta: float = 0.0

    def __post_init__(self) -> None:
        either = ("randomizer", "local_epsilon", "deletion_epsilon")
        names = [name for name in either if getattr(self, name) is not None]
        expected = "exactly one of a randomizer, local_epsilon and deletion_epsilon"
        checks.refuse(len(names) != 1, expected, given=", ".join(names) or "none")
        if self.local_delta:
            checks.closed_probability(local_delta=self.local_delta)
        if self.randomizer is not None:
            require_randomizer(self.randomizer)
            expected = "no local_delta with a randomizer (its law says everything)"
            checks.refuse(self.local_delta, expected, local_delta=self.local_delta)

    def profile(self, people: People, *, bound: str | None = None) -> Profile:
        """One round of these people; ``bound`` forces the generic (optimal) clones."""
        expected = f"bound to be {OPTIMAL_CLONES} or {CLONES} for a whole profile"
        checks.refuse(bound not in {None, OPTIMAL_CLONES, CLONES}, expected, bound=bound)
        if self.deletion_epsilon is not None and bound is None:
            return _deletion(self.deletion_epsilon, self.local_delta, people)
        own = None if self.randomizer is None else privacy_of(self.randomizer)
        if isinstance(own, HasProfile):
            return _of_messages(own, people, bound)
        if self.randomizer is not None and bound is None:
            law = law_of(self.randomizer)
            return PrivacyProfile(law.participating(people.participation), people.honest)
        local_epsilon, local_delta = self.replacement_guarantee
        n, q = people.honest, people.participation
        law = (BlanketLaw.clones if bound == CLONES else BlanketLaw.generic)(local_epsilon)
        pure = PrivacyProfile(law.participating(q), n)
        if local_delta == 0:
            return pure
        clones = PrivacyProfile(BlanketLaw.clones(local_epsilon).participating(q), n)
        stretch = {"local_epsilon": local_epsilon, "local_delta": q * local_delta}
        counts = [(clones, clones_distance), (pure, optimal_distance)]
        exchanges = [
            Exchange(exchanged, count(n=n, **stretch), count(n=1, **stretch))
            for exchanged, count in counts[: 1 if bound == CLONES else 2]
        ]
        return ApproximateProfile(tuple(exchanges), local_epsilon, local_delta)

    def alone(self, delta: float) -> tuple[float, float] | None:
        """The (eps0, delta) of one report of a randomizer that has no eps0, if it knows that."""
        known = None if self.randomizer is None else privacy_of(self.randomizer)
        own = getattr(known, "alone", None)
        return None if own is None or not 0 < delta < 1 else (float(own(delta)), delta)

    @property
    def replacement_guarantee(self) -> tuple[float, float]:
        """The (eps0, delta0) that each report has by itself, for replacement of the datum."""
        if self.local_epsilon is not None:
            return self.local_epsilon, self.local_delta
        if self.deletion_epsilon is not None:
            return _two_deletions(self.deletion_epsilon, self.local_delta)
        law = law_of(self.randomizer) if self.randomizer is not None else None
        if law is None or math.isinf(law.local_epsilon):
            expected = "a randomizer with a finite local epsilon for a generic bound"
            raise InvalidArgumentError("local_epsilon", math.inf, expected)
        return law.local_epsilon, 0.0

    @property
    def categories(self) -> int | None:
        """k, if the randomizer is known to be k-ary randomized response."""
        return None if self.randomizer is None else law_of(self.randomizer).claim.categories


def _of_messages(protocol: HasProfile, people: People, bound: str | None) -> Profile:
    expected = "no bound by name here: these messages are accounted for by their noise"
    checks.refuse(bound is not None, expected, bound=bound)
    profile = protocol.profile(people.present)
    # Whether enough others take part does not depend on anybody's datum; with more of them there
    # is more noise, and independent noise never hurts.
    lost = profile.lost + people.absence
    return profile if people.participation == 1 else replace(profile, lost=lost)


def _deletion(epsilon: float, local_delta: float, people: People) -> Profile:
    law = BlanketLaw.deletion(epsilon).participating(people.participation)
    pure = PrivacyProfile(law, people.honest)
    if local_delta == 0:
        return pure
    # FMT21 Lemma 3.7: each randomizer is within local_delta of a pure deletion-DP one.
    each = people.participation * local_delta
    exchange = Exchange(pure, people.honest * people.participation * local_delta, each)
    return ApproximateProfile((exchange,), *_two_deletions(epsilon, local_delta))


def _two_deletions(epsilon: float, local_delta: float) -> tuple[float, float]:
    """From one input to the reference distribution, and from there to the other input."""
    return 2 * epsilon, min(1.0, (1 + math.exp(epsilon)) * local_delta)
