"""Choosing the device and the coin for a test."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Unpack

import numpy.typing as npt

from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.randomizers.base import source
from shoal.randomness import Randomness
from shoal.testing import options as ways
from shoal.testing.options import Option
from shoal.testing.question import Question, Wishes, hypothesis
from shoal.testing.tester import Tester

_ALIKE = 0.02  # of power: what public coins, or more messages, have to gain to be worth it
_HOPELESS = 2.0  # times the level: a power below this says nothing
_COINS = 1 << 48


@dataclass(frozen=True, eq=False)
class Design:
    """Ways to run a test, best first."""

    question: Question
    options: tuple[Option, ...]
    reason: str

    @property
    def recommended(self) -> Option:
        """The first option."""
        return self.options[0]

    def option(self, name: str) -> Option:
        """The option of this name."""
        for found in self.options:
            if found.name == name:
                return found
        expected = f"one of {', '.join(found.name for found in self.options)}"
        raise InvalidArgumentError("option", name, expected)

    def tester(self, option: Option | str | None = None) -> Tester:
        """The test of an option, if it has a chance to notice what it shall notice."""
        chosen = self.option(option) if isinstance(option, str) else option or self.recommended
        made = chosen.tester()
        level = self.question.level
        tried = [chosen] if option else sorted(self.options, key=lambda found: -found.power)
        best = tried[0]
        if best.power < min(_HOPELESS * level, (1 + level) / 2):
            # What is best with few people may never be good: few public bins hide some departures.
            enough = (found.required_n for found in tried)
            needed = next((number for number in enough if number is not None), None)
            advice = "ask for a larger distance"
            if needed is not None:
                advice = f"about {needed:,} people are needed, or a larger distance or epsilon"
            raise UnreachableTargetError(
                f"a distance of {self.question.distance:g}",
                f"{self.question.n:,} people would notice it with probability {best.power:.2f}, "
                f"at level {level:g}",
                advice,
            )
        return made

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return {
            "question": self.question.to_dict(),
            "recommended": self.recommended.name,
            "reason": self.reason,
            "options": [option.to_dict() for option in self.options],
        }


def design(  # noqa: PLR0913 - a façade takes as many keywords as its users need
    *,
    n: int,
    epsilon: float,
    distance: float,
    k: int | None = None,
    reference: npt.ArrayLike | None = None,
    coins: int | None = None,
    closeness: bool = False,
    overlapping: bool = False,
    **wishes: Unpack[Wishes],
) -> Design:
    """The ways to notice a total variation ``distance`` from uniform on k answers, or a reference.

    ``wishes`` are delta (1e-6), level (0.05), coin ("auto", "private" or "public"), messages_cap
    (1), randomizer (a name), partitions, symbols and honest_fraction (1).

    Every way keeps (epsilon, delta) among n people, of whom ``honest_fraction`` follow the
    protocol; they are ranked by their predicted power at ``level``, each against the distribution
    at the distance that is hardest for it to notice. Public coins, or several
    messages (allowed by a ``messages_cap`` above 1; None is no cap), have to gain two points of
    power over something simpler to come first. ``coins`` fixes the public partitions; by default
    they are drawn at random, as they have to be for the power to hold against any distribution.
    ``closeness`` asks whether two batches of n people each agree. Nobody is in both of them, unless
    they are ``overlapping``: epsilon is then what two reports of one person cost together.

    >>> found = design(n=60_000, epsilon=0.25, distance=0.1, k=1024, coin="private")
    >>> found.recommended.name, round(found.recommended.power, 2)
    ('grr', 1.0)
    """
    question = Question(
        n=n,
        epsilon=epsilon,
        distance=distance,
        reference=hypothesis(k, reference),
        coins=fresh_coins() if coins is None else coins,
        closeness=closeness,
        overlapping=overlapping,
        **wishes,
    )
    _ = question.crowd  # refused here: no way to run the test would have an honest person more
    return answered(question)


def fresh_coins(randomness: Randomness | None = None) -> int:
    """Public coins that no distribution can have been made for."""
    return int(source(randomness).below(_COINS, 1)[0])


def answered(question: Question) -> Design:
    """All options of a question, in order."""
    simplest = [ways.option(name, question) for name in ways.names(question)]
    ordered = sorted(simplest, key=lambda option: -option.power)
    alike = [option for option in simplest if option.power >= ordered[0].power - _ALIKE]
    first = next((option for option in alike if option.device is not None), ordered[0])
    rest = [option for option in ordered if option is not first]
    return Design(question, (first, *rest), _reason(first, rest))


def required_n(  # noqa: PLR0913 - a façade takes as many keywords as its users need
    *,
    epsilon: float,
    distance: float,
    power: float = 0.95,
    k: int | None = None,
    reference: npt.ArrayLike | None = None,
    coins: int | None = None,
    closeness: bool = False,
    overlapping: bool = False,
    **wishes: Unpack[Wishes],
) -> int:
    """How many people (in each batch, for closeness) give the best way this predicted power.

    The power is that against the hardest distribution at the distance. Takes the other arguments of
    :func:`design`.

    >>> required_n(k=64, epsilon=1.0, distance=0.1, coin="private")
    2837
    """
    question = Question(
        n=2,
        epsilon=epsilon,
        distance=distance,
        reference=hypothesis(k, reference),
        coins=fresh_coins() if coins is None else coins,
        closeness=closeness,
        overlapping=overlapping,
        **wishes,
    )
    level = question.level
    if not level < power < 1:
        raise InvalidArgumentError("power", power, f"level = {level:g} < power < 1")
    return _fewest(question, power)


def _fewest(question: Question, power: float) -> int:
    """Solve for the way that looks best, then for any that beats it there."""
    pending = list(ways.names(question))
    best = ways.first_guess(question)
    known: int | None = None
    while pending:
        here = replace(question, n=best)
        reached = {name: ways.option(name, here).power for name in pending}
        name = max(pending, key=reached.__getitem__)
        if known is not None and reached[name] <= power:
            break
        pending.remove(name)
        found = ways.least_n(
            lambda n, name=name: ways.option(name, replace(question, n=n)).power,  # type: ignore[misc]
            guess=best,
            target=power,
        )
        if found is not None:
            known = best = found if known is None else min(known, found)
    if known is None:
        raise UnreachableTargetError(
            f"power {power:g} at a distance of {question.distance:g}",
            "not even 10^13 people are enough",
            "ask for a larger distance or epsilon"
            + (", or private coins" if question.coin == "public" else ""),
        )
    return known


def _reason(first: Option, rest: list[Option]) -> str:
    if first.device is None:
        return "none is possible"
    rivals = [option for option in rest if option.device is not None]
    if not rivals:
        return "it is the only one possible"
    second = max(rivals, key=lambda option: option.power)
    gain = first.power - second.power
    if gain < 0:
        return (
            f"{second.name} would gain {max(-gain, 0):.3f} of power only, which is not worth "
            + ("public coins" if second.coin != first.coin else "what it costs")
        )
    if gain <= _ALIKE:
        return f"it is the simplest of those with the most power ({second.name} comes close)"
    return f"its power is the largest: {first.power:.2f}, and {second.name} has {second.power:.2f}"
