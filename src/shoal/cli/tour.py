"""The story that ``shoal demo`` tells: 200,000 people say at what hour they go to bed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table

import shoal
from shoal.accounting.rounding import down, plain, up
from shoal.cli.show import Proved, comparison_table
from shoal.cli.tour_figure import ANSWERS, DELTA, LOCAL_EPSILON, PEOPLE

TARGET = 1.0
NIGHTS = 30

_device = shoal.RandomizedResponse(k=ANSWERS, epsilon=LOCAL_EPSILON)
_amplify = partial(shoal.amplify, delta=DELTA)


def one_device() -> Iterator[RenderableType]:
    """What one report gives away."""
    yield _text(
        f"{PEOPLE:,} people are asked at what hour they go to bed: {ANSWERS} answers. Nobody "
        f"else is to see the true ones, so each phone tells the truth with probability "
        f"{_truth(LOCAL_EPSILON)} and otherwise names one of the other {ANSWERS - 1} hours at "
        f"random: randomized response with ε0 = {plain(LOCAL_EPSILON)}."
    )
    yield _text(
        "Whoever sees your report with your name on it may change their mind about you: the odds "
        f"between two hours move by up to a factor of {_factor(LOCAL_EPSILON)}."
    )


def shuffled() -> Iterator[RenderableType]:
    """What all of them together give away."""
    found = _amplify(_device, n=PEOPLE)
    yield _text("Now a shuffler takes the names off and mixes the reports. What is published:")
    yield Padding(Proved(found).panel(), (1, 0, 0, 0))
    yield _text(
        f"In words: whatever somebody believed about your bedtime, after seeing all {PEOPLE:,} "
        f"reports the odds have moved by at most a factor of {_factor(found.epsilon)}, not "
        f"{_factor(LOCAL_EPSILON)}, except with probability about δ = {plain(DELTA)}. The reports "
        "are as noisy as before: only the names are gone. If the shuffler keeps them after all, "
        f"you are back at ε0 = {plain(LOCAL_EPSILON)}, and never worse."
    )


def bounds() -> Iterator[RenderableType]:
    """Every bound that has an answer."""
    rows = shoal.compare(_device, n=PEOPLE, delta=DELTA)
    answered = tuple(row for row in rows if row.epsilon is not None)
    yield _text(
        "The reports are the same; only the proofs differ. The first line uses all that is known "
        "about this randomizer, and the last one shows that no proof will ever do better than that."
    )
    yield Padding(comparison_table(answered), (1, 0, 0, 0))


def what_if() -> Iterator[RenderableType]:
    """The same collection under other circumstances."""
    cases: tuple[tuple[str, Callable[[], shoal.Guarantee]], ...] = (
        ("as above", partial(_amplify, _device, n=PEOPLE)),
        ("every second person lies or drops out", partial(_one_half, PEOPLE)),
        ("one person in a hundred is asked", partial(_amplify, _device, n=PEOPLE // 100)),
        (
            f"everybody is asked {NIGHTS} nights in a row",
            partial(_amplify, _device, n=PEOPLE, rounds=NIGHTS),
        ),
        (
            "nothing is known about the phones but ε0",
            partial(_amplify, local_epsilon=LOCAL_EPSILON, n=PEOPLE),
        ),
    )
    table = Table(box=box.HORIZONTALS)
    table.add_column("and if …")
    table.add_column("ε", justify="right")
    table.add_column("odds move by", justify="right")
    for what, ask in cases:
        epsilon = ask().epsilon
        table.add_row(what, up(epsilon), f"× {_factor(epsilon)}")
    yield Padding(table, (1, 0, 0, 0))


def turned_round() -> Iterator[RenderableType]:
    """From the privacy wanted to the noise needed."""
    family = partial(shoal.RandomizedResponse, k=ANSWERS)
    local = shoal.local_epsilon(family, epsilon=TARGET, delta=DELTA, n=PEOPLE)
    yield _text(
        f"Suppose ε = {plain(TARGET)} is private enough. Without a shuffler each phone may then "
        f"tell the truth with probability {_truth(TARGET)} only. In this crowd ε0 may be "
        f"{down(local)}, and it tells the truth with probability {_truth(local)}: a far better "
        "chart. The price: that ε0 is all that is left if the shuffler cannot be trusted."
    )


SECTIONS: tuple[tuple[str, Callable[[], Iterator[RenderableType]]], ...] = (
    ("One phone", one_device),
    ("A crowd", shuffled),
    ("What is provable", bounds),
    ("What if", what_if),
    ("The other way round", turned_round),
)


def _one_half(people: int) -> shoal.Guarantee:
    return _amplify(_device, n=people, honest_fraction=0.5)


def _truth(epsilon: float) -> str:
    return f"{shoal.RandomizedResponse(k=ANSWERS, epsilon=epsilon).table()[0, 0]:.1%}"


def _factor(epsilon: float) -> str:
    return up(math.exp(epsilon), 4)


def _text(words: str) -> Padding:
    return Padding(words, (1, 0, 0, 0))
