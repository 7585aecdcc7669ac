"""From what ``shoal sgd`` was asked to the accountant of training runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shoal.cli.sgd_asked import Kind, SgdAsked, spoken
from shoal.errors import ShoalError
from shoal.learning import LearningGuarantee, Refused, Sampling, account, noise_for
from shoal.learning.accountant import LARGEST_EPSILON, Run, epsilon_of, usual_neighbouring
from shoal.learning.guarantee import REPLACE, counted

Progress = Callable[[int, int], None]
Outcome = LearningGuarantee | Refused

POINTS = 6
_MOST_PLOTTED = 64
_FEWEST_PLOTTED = 10
_ASKED_ABOUT = (
    *((sampling, usual_neighbouring(sampling)) for sampling in Sampling),
    (Sampling.POISSON, REPLACE),
)
_COMPARED = tuple(sorted(_ASKED_ABOUT, key=lambda pair: list(Sampling).index(pair[0])))


@dataclass(frozen=True)
class Row:
    """One kind of sampling beside the others: its answer, or why it has none."""

    sampling: Sampling
    neighbouring: str
    epsilon: float | None
    noise: float | None
    refused: str = ""
    remark: str = ""

    @classmethod
    def of(cls, outcome: Outcome, given: float | None) -> Row:
        """The noise is the one that was given, or that was found."""
        if isinstance(outcome, Refused):
            said = spoken(outcome.error)
            about = outcome.sampling, outcome.neighbouring
            return cls(*about, None, given, refused=said, remark=outcome.remark)
        about = outcome.sampling, outcome.neighbouring
        return cls(*about, outcome.epsilon, outcome.noise_multiplier)

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
            some = counted(found.n, "example")
            said.append(f"δ is not smaller than 1/n: one of {some} could be printed")
        if found.sampling is Sampling.PERMUTATION and found.theorem.endswith("no amplification"):
            said.append(f"shuffling gains nothing here: {_what_would(found)}")
        return said

    def to_dict(self) -> dict[str, object]:
        """The chosen guarantee, and all kinds of sampling beside each other."""
        compared = [row.to_dict() for row in self.rows]
        return self.guarantee.to_dict() | {"compared": compared, "warnings": self.warnings}


def answer(asked: SgdAsked, progress: Progress) -> Accounted:
    """The chosen guarantee first: what it refuses is refused. Of all, one is enough."""
    plotted = 0 if asked.plot is None else len(_plotted(asked)) * len(Sampling)
    total = 1 + len(_COMPARED) + plotted
    progress(0, total)
    known: dict[tuple[Sampling, str], Outcome] = {}
    if asked.sampling is not Kind.ALL:
        chosen = Sampling(asked.sampling)
        about = chosen, usual_neighbouring(chosen)
        known[about] = _account(asked, *about)
    outcomes = []
    for done, about in enumerate(_COMPARED, start=1):
        progress(done, total)
        outcomes.append(known.get(about) or _outcome(asked, *about))
    found = _explained(asked, outcomes)
    rows = tuple(Row.of(outcome, asked.noise) for outcome in outcomes)
    curves: dict[Sampling, list[tuple[int, float]]] = {}
    if asked.plot is not None:
        done = 1 + len(_COMPARED)
        for sampling in Sampling:
            curves[sampling] = _curve(asked, sampling, found.noise_multiplier)
            done += len(_plotted(asked))
            progress(done, total)
    return Accounted(asked, found, rows, curves)


def _explained(asked: SgdAsked, outcomes: list[Outcome]) -> LearningGuarantee:
    """The chosen guarantee; the first that there is, if all were asked for."""
    for outcome in outcomes:
        wanted = asked.sampling in (Kind.ALL, outcome.sampling.value)
        if wanted and isinstance(outcome, LearningGuarantee):
            return outcome
    raise next(outcome.error for outcome in outcomes if isinstance(outcome, Refused))


def _outcome(asked: SgdAsked, sampling: Sampling, neighbouring: str) -> Outcome:
    try:
        return _account(asked, sampling, neighbouring)
    except ShoalError as error:
        return Refused(sampling=sampling, neighbouring=neighbouring, error=error)


def _account(asked: SgdAsked, sampling: Sampling, neighbouring: str) -> LearningGuarantee:
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
            neighbouring=neighbouring,
        )
    return account(
        noise_multiplier=given,
        n=asked.size,
        epochs=asked.epochs,
        batch=asked.batch,
        delta=asked.delta,
        sampling=sampling,
        drop_last=asked.drop_last,
        neighbouring=neighbouring,
    )


def _what_would(found: LearningGuarantee) -> str:
    if found.n // found.batch == 1:
        return "an epoch is a single step, and there is no order to hide"
    if found.batch == 1:
        return "more noise, or more examples, would"
    return "more noise, or smaller batches, would"


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
            epsilon = epsilon_of(run)
        except ShoalError:
            break
        if epsilon > LARGEST_EPSILON:
            break
        found.append((epochs, epsilon))
    return found
