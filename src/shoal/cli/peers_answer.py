"""From what ``shoal peers run`` was asked to peers, an estimate and a guarantee."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import stats

from shoal import checks
from shoal.accounting.guarantee import Guarantee
from shoal.cli.options import RefusedError
from shoal.cli.peers_asked import PeersAsked
from shoal.cli.randomizers import family
from shoal.cli.run_asked import listed
from shoal.engines.coding import PUBLIC, Choices
from shoal.network.generators import random_regular
from shoal.network.graph import Graph
from shoal.randomizers.base import CategoryRandomizer
from shoal.randomness import simulated
from shoal.service.peers import Conditions, PeerRun, PeerSurvey, run_peers
from shoal.service.peers.accounting import KnownConditions, Whereabouts, estimate, guarantee
from shoal.values import Array, Estimate

_PEOPLE, _ANSWERS = 100, 4
_MOST_PEOPLE = 2000
_IN_TIME = 0.99  # of the paths, where the number of hops is not given
MADE_UP = "the answers are made up, the same for the same seed"


@dataclass(frozen=True, eq=False)
class Question:
    """Everybody's answer, and what the answers are called."""

    values: npt.NDArray[np.int64]
    labels: tuple[str, ...]
    made_up: bool
    notes: tuple[str, ...]

    @property
    def truth(self) -> Array:
        """The true shares."""
        return np.bincount(self.values, minlength=len(self.labels)) / len(self.values)


@dataclass(frozen=True, eq=False)
class Answer:
    """What came of it."""

    asked: PeersAsked
    question: Question
    graph: Graph
    survey: PeerSurvey
    run: PeerRun
    estimate: Estimate
    guarantee: Guarantee
    seconds: float


def answer(asked: PeersAsked) -> Answer:
    """Start the peers, and account for what they did."""
    question = _question(asked)
    people = len(question.values)
    checks.count(4, peers=people)
    if people > _MOST_PEOPLE:
        raise RefusedError(
            f"at most {_MOST_PEOPLE:,} peers fit on one machine's sockets, got {people:,}: "
            "shoal walk --simulate walks millions of reports"
        )
    randomizer = family(asked.randomizer, k=len(question.labels))(epsilon=asked.local_epsilon)
    if not isinstance(randomizer, CategoryRandomizer):
        raise RefusedError(f"--randomizer {asked.randomizer} is not for answers")
    graph = random_regular(people, asked.degree, seed=asked.seed)
    survey = _survey(asked)
    drawn = Conditions(offline=asked.offline, processes=asked.processes)
    conditions = KnownConditions.drawn(drawn, people, survey)
    began = time.monotonic()
    run = run_peers(
        question.values, randomizer=randomizer, graph=graph, survey=survey, conditions=conditions
    )
    seconds = time.monotonic() - began
    known = Whereabouts.of(graph, survey, conditions)
    public = [note for note in question.notes if note in PUBLIC]
    proved = guarantee(run, known, survey=survey, randomizer=randomizer, delta=asked.delta)
    return Answer(
        asked=asked,
        question=question,
        graph=graph,
        survey=survey,
        run=run,
        estimate=estimate(run, known, survey=survey, randomizer=randomizer),
        guarantee=replace(proved, assumptions=(*proved.assumptions, *public)),
        seconds=seconds,
    )


def _survey(asked: PeersAsked) -> PeerSurvey:
    hops = asked.hops
    if asked.mode == "onion" and hops is None:
        both = (1 - asked.offline) ** 2
        hops = max(1, int(stats.binom.ppf(1 - _IN_TIME, asked.rounds, both)))
    return PeerSurvey(
        rounds=asked.rounds,
        mode=asked.mode,
        hops=hops,
        cover=asked.cover,
        submit=asked.submit,
        submission_rounds=asked.submission_rounds,
    )


def _question(asked: PeersAsked) -> Question:
    if asked.data is not None:
        return _from_file(asked)
    labels = (
        tuple(f"answer {number}" for number in range(checks.count(2, k=asked.k or _ANSWERS)))
        if asked.categories is None
        else tuple(listed(asked.categories))
    )
    if len(labels) < 2:
        raise RefusedError("--categories has to list at least two answers")
    # Shares fall like 1, 1/2, 1/3, ...
    steps = np.cumsum([10**6 // (place + 1) for place in range(len(labels))])
    people = _PEOPLE if asked.people is None else asked.people
    drawn = simulated(asked.seed).below(int(steps[-1]), people).astype(np.int64)
    codes = np.searchsorted(steps, drawn, side="right")
    return Question(codes, labels, made_up=True, notes=(MADE_UP,))


def _from_file(asked: PeersAsked) -> Question:
    from shoal.engines import reading

    column = reading.column(asked.data, asked.column or "")
    if asked.categories is None:
        coded = Choices.found(column, drop_nulls=False)
    else:
        coded = Choices.listed(column, listed(asked.categories), drop_nulls=False)
    values = np.concatenate([np.asarray(part, dtype=np.int64) for part in coded.chunks()])
    return Question(values, coded.labels, made_up=False, notes=coded.notes)
