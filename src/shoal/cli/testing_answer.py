"""From what ``shoal test`` was asked to the verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from shoal import testing
from shoal.cli import testing_data
from shoal.cli.testing_asked import AskedTest
from shoal.cli.testing_data import GROUPS_PUBLIC, Groups
from shoal.engines import LocalEngine
from shoal.engines.coding import PUBLIC
from shoal.engines.reading import Codes
from shoal.engines.shuffling import ORDERLESS, RUN_HERE
from shoal.randomness import simulator
from shoal.testing import Design, Tester, Verdict, ranks, splitting
from shoal.testing.overlap import TWICE
from shoal.testing.scores import OneMessage
from shoal.testing.tester import APART
from shoal.values import Array, Counts

Progress = Callable[[int, int], None]

TABLES_APART = "nobody is in both tables: each person makes one report"
ROWS_APART = "each row is one person, so that nobody is in both groups"
TABLES_TWICE = "each row of a table is one person: nobody is in one table twice"
ROWS_TWICE = "nobody has more than one row in each group"
ALIKE = (
    "the p-value takes the two answers of one person as independent; where they tend to be the "
    "same, false alarms are rarer than the level says"
)
INDEPENDENT = "p-value and power take people's answers as independent draws; the guarantee does not"
_PEOPLE = 1 << 16  # randomized at once
_MESSAGES = 1 << 20
_SEEDS = 1 << 62


@dataclass(frozen=True, eq=False)
class Tested:
    """The whole answer. ``null`` has simulated statistics, if they are to be drawn."""

    asked: AskedTest
    groups: Groups
    design: Design
    verdict: Verdict
    notes: tuple[str, ...]
    seed: int
    null: Array | None = None

    @property
    def warnings(self) -> list[str]:
        """What to know before relying on the guarantee."""
        return list(self.verdict.guarantee.warnings)

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        sizes = [codes.size for codes in self.groups.codes]
        return {
            **self.verdict.to_dict(),
            "column": self.asked.column,
            "answers": len(self.groups.answers.labels),
            "groups": [
                {"name": name, "n": size}
                for name, size in zip(self.groups.names, sizes, strict=True)
            ],
            "seed": self.seed,
            "design": self.design.to_dict(),
            "notes": list(self.notes),
            "warnings": self.warnings,
        }


def answer(asked: AskedTest, progress: Progress) -> Tested:
    """Read, design, randomize, count and decide."""
    groups = testing_data.read(asked)
    design = testing.design(
        n=groups.n,
        closeness=asked.closeness,
        overlapping=bool(asked.overlap),
        **asked_about(groups.answers, closeness=asked.closeness),
        **wanted(asked),
    )
    tester = design.tester()
    counts = _collected(tester, groups.codes, progress)
    # A seed that is known, so that what is drawn is what was decided by.
    seed = int(simulator().integers(_SEEDS)) if asked.seed is None else asked.seed
    how = {"simulations": ranks.number(asked.level, asked.simulations), "seed": seed}
    if asked.closeness:
        verdict = tester.compare(counts[0], counts[1], **how)
    else:
        verdict = tester.decide(counts[0], **how)
    return Tested(
        asked=asked,
        groups=groups,
        design=design,
        verdict=_about_public(_about_people(verdict, asked), groups),
        notes=(
            *groups.notes,
            *([ALIKE] if asked.overlap else []),
            INDEPENDENT,
            RUN_HERE,
            ORDERLESS,
        ),
        seed=seed,
        null=_null(asked, tester, counts, how),
    )


def wanted(asked: AskedTest) -> dict[str, Any]:
    """What should be noticed, at what price and how, as keywords of a design."""
    return {
        "epsilon": asked.epsilon,
        "delta": asked.delta,
        "distance": asked.distance,
        "level": asked.level,
        "coin": asked.coin.value,
        "randomizer": asked.randomizer,
        "partitions": asked.partitions,
        "symbols": asked.symbols,
        "messages_cap": asked.messages_cap,
        "honest_fraction": asked.honest_fraction,
    }


def asked_about(answers: testing_data.AnswerList, *, closeness: bool) -> dict[str, Any]:
    """The number of answers, or the probabilities they should have."""
    if answers.probabilities is None or closeness:
        return {"k": len(answers.labels)}
    return {"reference": list(answers.probabilities)}


def _collected(tester: Tester, groups: Sequence[Codes], progress: Progress) -> list[Counts]:
    """What the analyzer gets of each group: randomized, and counted a piece at a time."""
    device = tester.device
    most = max(1, min(_PEOPLE, _MESSAGES // math.ceil(device.messages)))
    total, done = sum(codes.size for codes in groups), 0
    found = []
    for codes in groups:
        parts = []
        for start in range(0, codes.size, most):
            piece = codes[start : start + most]
            parts.append(LocalEngine().count(device, [tester.randomize(piece)]))
            done += piece.size
            progress(done, total)
        found.append(sum(parts[1:], start=parts[0]))
    return found


def _about_people(verdict: Verdict, asked: AskedTest) -> Verdict:
    """The guarantee says of tables or rows what it assumes of the people in two groups."""
    by_row = asked.by is not None
    said = {
        APART: ROWS_APART if by_row else TABLES_APART,
        TWICE: ROWS_TWICE if by_row else TABLES_TWICE,
    }
    known = verdict.guarantee
    assumed = tuple(said.get(text, text) for text in known.assumptions)
    return replace(verdict, guarantee=replace(known, assumptions=assumed))


def _about_public(verdict: Verdict, groups: Groups) -> Verdict:
    """The guarantee says what it takes as public."""
    public = (note for note in groups.notes if note in PUBLIC or note == GROUPS_PUBLIC)
    known = verdict.guarantee
    stated = replace(known, assumptions=(*known.assumptions, *public))
    return replace(verdict, guarantee=stated)


def _null(
    asked: AskedTest, tester: Tester, counts: Sequence[Counts], how: dict[str, int]
) -> Array | None:
    """The simulated statistics that the verdict was found with, if they are to be drawn."""
    if asked.plot is None:
        return None
    if not asked.closeness:
        return tester.null(how["simulations"], seed=how["seed"], n=counts[0].n)
    split = splitting.Split(cast("OneMessage", tester.scores), counts[0], counts[1])
    return split.null(how["simulations"], simulator(how["seed"]))
