"""The guarantee in words that need no lecture."""

from __future__ import annotations

import math

from shoal.accounting.guarantee import Guarantee
from shoal.explain.text import down, plain, up

INTERVAL = "95 % interval, of the noise alone"
_DIGITS = 4


def counted(guarantee: Guarantee) -> str:
    """What a collection counts: people, or reports if one person may have sent several."""
    return "people" if guarantee.rounds == 1 else "reports"


def meaning(guarantee: Guarantee) -> str:
    """What the numbers say about one person."""
    return (
        f"Take any one of the people in this collection. Whatever somebody believed about that "
        f"person's answer before, after seeing everything that comes out of the shuffler the odds "
        f"between any two answers have moved by at most a factor of {factor(guarantee.epsilon)} "
        f"(ε = {up(guarantee.epsilon)}), except with a probability of about "
        f"δ = {plain(guarantee.delta)}. It does not matter what else they know, or how clever they "
        "are."
    )


def intervals(what: str) -> str:
    """What an interval is of, and what it leaves out."""
    return (
        f"A 95 % interval is of {what} among those who answered, and counts the noise alone: not "
        "who happened to answer, and not false reports."
    )


def trusted(guarantee: Guarantee) -> str:
    """Who has to keep a promise."""
    promise = f"One promise has to be kept: {guarantee.trust}. And at least {guarantee.n:,} of the"
    if guarantee.rounds > 1:
        return (
            f"{promise} reports must be from people who have followed the protocol, at most "
            f"{guarantee.rounds:,} from each: they are the crowd that hides each of them."
        )
    return (
        f"{promise} people must have followed the protocol: they are the crowd that hides each of "
        "them."
    )


def untrusted(guarantee: Guarantee) -> str:
    """What is left if everybody colludes; each person makes one report per column and round."""
    if not math.isfinite(guarantee.local_epsilon):
        return "Nothing: if the names are kept, a report may give its sender's answer away."
    many = guarantee.rounds * guarantee.columns
    own = "report" if many == 1 else "reports"
    whole = "it" if many == 1 else f"one person's {many} reports together"
    delta = f" and δ0 = {up(guarantee.local_delta)}" if guarantee.local_delta else ""
    return (
        f"If everybody else colludes and the names are kept after all, each person still has the "
        f"noise in their own {own}: ε0 = {up(guarantee.local_epsilon)}{delta} for {whole}, so the "
        f"odds move by at most a factor of {factor(guarantee.local_epsilon)}."
    )


def tightness(guarantee: Guarantee) -> str:
    """How good the proof is."""
    proved = f"A proved upper bound (theorem: {guarantee.theorem})."
    if guarantee.lower <= 0:
        return proved
    if guarantee.columns > 1:
        return (
            f"{proved} Some data really lose at least {down(guarantee.lower)}, by one column alone."
        )
    return (
        f"{proved} No analysis of this collection can prove less than {down(guarantee.lower)}: "
        "some data really lose that much."
    )


def factor(epsilon: float) -> str:
    """e^epsilon, rounded up."""
    return up(math.exp(epsilon), _DIGITS) if epsilon < 500 else "no limit"
