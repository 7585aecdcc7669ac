"""From what ``shoal sgd`` was asked to the accountant of training runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shoal.cli.sgd_asked import SgdAsked
from shoal.errors import ShoalError
from shoal.learning import LearningGuarantee, Sampling, account, noise_for
from shoal.learning.accountant import LARGEST_EPSILON, Run, epsilon_of, poisson_replace_one
from shoal.learning.guarantee import REPLACE

Progress = Callable[[int, int], None]

POINTS = 6
_MOST_PLOTTED = 64
_FEWEST_PLOTTED = 10


@dataclass(frozen=True)
class Row:
    """One kind of sampling beside the others: its answer, or why it has none."""

    sampling: Sampling
    neighbouring: str
    epsilon: float | None
    noise: float | None
    refused: str = ""

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return {
            "sampling": self.sampling.value,
            "neighbouring": self.neighbouring,
            "epsilon": self.epsilon,
            "noise_multiplier": self.noise,
            "loader": self.sampling.loader,
            "refused": self.refused or None,
        }


@dataclass(frozen=True)
class Accounted:
    """The whole answer."""

    asked: SgdAsked
    guarantee: LearningGuarantee
    rows: tuple[Row, ...]
    curves: dict[Sampling, list[tuple[int, float]]]

    @property
    def solved(self) -> bool:
        """Whether the noise is what was looked for."""
        return self.asked.noise is None

    @property
    def warnings(self) -> list[str]:
        """What to know before relying on it."""
        found = self.guarantee
        said = []
        if found.delta >= 1 / found.n:
            said.append(f"δ is not smaller than 1/n: one of {found.n:,} examples could be printed")
        if found.sampling is Sampling.PERMUTATION and found.theorem.endswith("no amplification"):
            said.append("shuffling gains nothing here: more noise, or smaller batches, would")
        return said

    def to_dict(self) -> dict[str, object]:
        """The chosen guarantee, and all kinds of sampling beside each other."""
        compared = [row.to_dict() for row in self.rows]
        return self.guarantee.to_dict() | {"compared": compared, "warnings": self.warnings}


def answer(asked: SgdAsked, progress: Progress) -> Accounted:
    """The chosen guarantee first: what it refuses is refused."""
    plotted = 0 if asked.plot is None else len(_plotted(asked)) * len(Sampling)
    total = 1 + len(Sampling) + plotted
    progress(0, total)
    found = _account(asked, Sampling(asked.chosen))
    rows: list[Row] = []
    for done, sampling in enumerate(Sampling, start=1):
        progress(done, total)
        known = found if sampling is found.sampling else None
        rows.extend(_rows(asked, sampling, known))
    curves: dict[Sampling, list[tuple[int, float]]] = {}
    if asked.plot is not None:
        done = 1 + len(Sampling)
        for sampling in Sampling:
            curves[sampling] = _curve(asked, sampling, found.noise_multiplier)
            done += len(_plotted(asked))
            progress(done, total)
    return Accounted(asked, found, tuple(rows), curves)


def _account(asked: SgdAsked, sampling: Sampling) -> LearningGuarantee:
    given = asked.noise
    if given is None:
        given = noise_for(
            epsilon=asked.epsilon or 0.0,
            n=asked.size,
            epochs=asked.epochs,
            batch=asked.batch,
            delta=asked.delta,
            sampling=sampling,
            drop_last=asked.drop_last,
        )
    return account(
        noise_multiplier=given,
        n=asked.size,
        epochs=asked.epochs,
        batch=asked.batch,
        delta=asked.delta,
        sampling=sampling,
        drop_last=asked.drop_last,
    )


def _rows(asked: SgdAsked, sampling: Sampling, known: LearningGuarantee | None) -> list[Row]:
    try:
        found = known or _account(asked, sampling)
    except ShoalError as error:
        return [Row(sampling, REPLACE, None, asked.noise, str(error))]
    noise = found.noise_multiplier
    rows = [Row(sampling, found.neighbouring, found.epsilon, noise)]
    if sampling is Sampling.POISSON:
        rows.append(Row(sampling, REPLACE, poisson_replace_one(found), noise))
    return rows


def _plotted(asked: SgdAsked) -> list[int]:
    """Numbers of epochs, evenly spread on a logarithmic scale."""
    last = min(max(asked.epochs, _FEWEST_PLOTTED), max(asked.epochs, _MOST_PLOTTED))
    return sorted({round(last ** (i / (POINTS - 1))) for i in range(POINTS)})


def _curve(asked: SgdAsked, sampling: Sampling, noise: float) -> list[tuple[int, float]]:
    """ε by epochs, as far as there is one that says something."""
    found = []
    for epochs in _plotted(asked):
        try:
            run = Run(
                noise_multiplier=noise,
                n=asked.size,
                epochs=epochs,
                batch=asked.batch,
                delta=asked.delta,
                sampling=sampling,
                drop_last=asked.drop_last,
            )
        except ShoalError:
            break
        if (epsilon := epsilon_of(run)) > LARGEST_EPSILON:
            break
        found.append((epochs, epsilon))
    return found
