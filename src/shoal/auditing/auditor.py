"""Run a pipeline many times on neighbouring data sets, and compare with what is claimed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from shoal import checks
from shoal import randomness as sources
from shoal.auditing import data as datasets
from shoal.auditing.claims import Claims, claims
from shoal.auditing.data import Neighbours
from shoal.auditing.events import Stakes
from shoal.auditing.knowledge import Knowledge, learned
from shoal.auditing.limits import coin_bounds
from shoal.auditing.result import Audit, Evidence
from shoal.auditing.running import Meter, Progress, Sampler, Trial, evaluated
from shoal.auditing.subjects import Collection, Listed, Subject, subject_of
from shoal.auditing.training import COMPARED, Budget, trained_crowd, trained_local
from shoal.errors import InvalidArgumentError
from shoal.randomizers.base import AnswerMechanism, Mechanism
from shoal.randomness import Randomness

FEWEST_RUNS = 1_000
_MANY_RUNS = 50_000
_LOCAL_SHARE = 0.25  # of what may go wrong, the part for the local claim
_SINGLES = (2_000, 100_000)  # messages of single devices per input, at least and at most
_SINGLES_PER_RUN = 10  # single messages are cheap, and tell more about epsilon_0


def audit(  # noqa: PLR0913 - as many keywords as its users need
    device: object,
    *,
    n: int,
    epsilon: float | None = None,
    delta: float = 1e-6,
    local_epsilon: float | None = None,
    runs: int = 100_000,
    confidence: float = 0.999,
    data: Neighbours | Sequence[Any] | None = None,
    inputs: Sequence[Hashable] | None = None,
    declared: object | None = None,
    randomness: Randomness | None = None,
    progress: Progress | None = None,
) -> Audit:
    """A statistically valid lower bound on epsilon, and whether it refutes what is claimed.

    ``device`` is a mechanism of Shoal, a table R[x, y], an object with a ``randomize`` method, a
    function of one value, or one of :class:`Function`, :class:`WholePipeline`, :class:`Program`.
    It runs ``runs`` times on each of two neighbouring data sets of ``n`` people. Claims that are
    not given are what the accountant proves for the mechanism, or for the one ``declared``.
    ``inputs`` are data worth trying; ``data`` is (x0, x1, what everybody else holds).

    >>> from shoal.randomizers.response import RandomizedResponse
    >>> device = RandomizedResponse(k=2, epsilon=2.0)
    >>> found = audit(device, n=20, delta=1e-3, runs=20_000)
    >>> found.verdict, 1.8 < found.local_lower < 2
    ('consistent', True)
    """
    n = checks.count(n=n)
    runs = checks.count(FEWEST_RUNS, runs=runs)
    checks.open_probability(confidence=confidence)
    subject = subject_of(device)
    known = _known(device) if declared is None else _known(declared)
    told = claims(known, n=n, epsilon=epsilon, delta=delta, local_epsilon=local_epsilon)
    pairs = _candidates(known, n, data, inputs)
    plan = _Plan(subject, known, n, runs, told, 1 - confidence, pairs)
    crowd, local = plan.carried_out(
        sources.secure() if randomness is None else randomness, progress
    )
    return Audit(
        name=subject.name,
        n=n,
        runs=runs,
        confidence=confidence,
        evidence=crowd,
        local_evidence=local,
    )


@dataclass(frozen=True)
class _Plan:
    """How the runs and the allowance for error are shared out."""

    subject: Subject
    known: object
    n: int
    runs: int
    claims: Claims
    allowance: float
    candidates: Sequence[Neighbours]

    @property
    def _local_claim(self) -> float | None:
        """Of one device by itself, if it can be run by itself and sends one message."""
        alone = self.subject.alone and not self.subject.several
        return self.claims.local_epsilon if alone else None

    @property
    def _budget(self) -> Budget:
        """A fifth of the runs to train on, a tenth if there are many."""
        training = self.runs // (10 if self.runs > _MANY_RUNS else 5)
        tried = min(COMPARED, len(self.candidates))
        return Budget(compare=max(100, training // (2 * tried)), settle=training // 2)

    @property
    def _training(self) -> int:
        tried = min(COMPARED, len(self.candidates))
        return self._budget.compare * tried + self._budget.settle

    @property
    def _singles(self) -> int:
        least, most = _SINGLES
        return min(most, max(least, self.runs))

    @property
    def _crowd_stakes(self) -> Stakes:
        share = 1.0 if self._local_claim is None else 1 - _LOCAL_SHARE
        evaluation = 2 * (self.runs - self._training)
        return Stakes(evaluation, self.claims.delta, share * self.allowance)

    @property
    def _local_stakes(self) -> Stakes:
        runs = self._crowd_stakes.runs * min(self.n, _SINGLES_PER_RUN)
        return Stakes(runs, 0.0, _LOCAL_SHARE * self.allowance, smooth=False)

    @property
    def _inputs(self) -> tuple[Hashable, ...]:
        found = [x for pair in self.candidates for x in datasets.inputs_of(pair)]
        return tuple(dict.fromkeys(found))

    @property
    def _messages(self) -> int:
        """The whole work, for the progress bar."""
        local = 0
        if self._local_claim is not None:
            local = self._singles * len(self._inputs) + self._local_stakes.runs
        crowd = (2 * self._training + self._crowd_stakes.runs) * self.n
        return self._singles * len(self._inputs) + local + crowd

    def carried_out(
        self, randomness: Randomness, progress: Progress | None
    ) -> tuple[Evidence, Evidence | None]:
        """Training, then the runs that count: the crowd's evidence and the local one."""
        sampler = Sampler(self.subject, randomness, Meter(progress, self._messages))
        known = learned(sampler, self._inputs, self.known, size=self._singles, n=self.n)
        local = self._local(sampler, known)
        trial = trained_crowd(sampler, known, self.candidates, self._crowd_stakes, self._budget)
        crowd = self._counted(sampler, trial, self._crowd_stakes, "crowd", self.claims.epsilon)
        sampler.meter.finish()
        return crowd, local

    def _local(self, sampler: Sampler, known: Knowledge) -> Evidence | None:
        if self._local_claim is None:
            return None
        alone = dict.fromkeys((pair.first, pair.second) for pair in self.candidates)
        pairs = [Neighbours(first, second, ()) for first, second in alone]
        trial = trained_local(sampler, known, pairs, self._local_stakes, size=self._singles)
        return self._counted(sampler, trial, self._local_stakes, "local", self._local_claim)

    def _counted(
        self,
        sampler: Sampler,
        trial: Trial,
        stakes: Stakes,
        claim: Literal["crowd", "local"],
        claimed: float,
    ) -> Evidence:
        tally = evaluated(sampler, trial, stakes.runs)
        likelier, other = tally.inside[::-1] if trial.event.swapped else tally.inside
        lower = coin_bounds(likelier, other, stakes.runs, delta=stakes.delta, tail=stakes.tail)
        return Evidence(
            claim=claim,
            claimed=claimed,
            lower=float(lower),
            delta=stakes.delta,
            statistic=trial.statistic.name,
            event=trial.event.words,
            threshold=trial.event.threshold,
            at_least=trial.event.at_least,
            swapped=trial.event.swapped,
            data=trial.neighbours.words,
            runs=tally.runs,
            inside=tally.inside,
            edges=trial.edges,
            histograms=tally.histograms,
        )


def _known(device: object) -> object | None:
    """What is known of the messages and their law, if it is anything of ours or like it."""
    if isinstance(device, Collection):
        return device.device
    if isinstance(device, Subject):
        return None
    if isinstance(device, np.ndarray | list | tuple):
        return Listed(device)
    return device


def _candidates(
    known: object,
    n: int,
    data: Neighbours | Sequence[Any] | None,
    inputs: Sequence[Hashable] | None,
) -> list[Neighbours]:
    if data is not None:
        if inputs is not None:
            raise InvalidArgumentError("inputs", list(inputs), "inputs or data, not both")
        return [datasets.given(data, n)]
    if inputs is not None:
        return datasets.candidates(datasets.checked_inputs(inputs), n)
    if isinstance(known, Listed):
        return datasets.candidates(tuple(range(min(len(known.rows), datasets.MOST_INPUTS))), n)
    if isinstance(known, Mechanism):
        ends = not isinstance(known, AnswerMechanism)
        return datasets.candidates(datasets.inputs_for(known), n, ends=ends)
    expected = "the values to try (inputs), as nothing is known of the device"
    raise InvalidArgumentError("inputs", None, expected)
