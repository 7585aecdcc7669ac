"""Run a pipeline many times on neighbouring data sets, and compare with what is claimed."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from shoal import checks
from shoal import randomness as sources
from shoal.accounting.amplification import amplify
from shoal.accounting.devices import HasProfile
from shoal.accounting.law import BlanketLaw
from shoal.auditing import data as datasets
from shoal.auditing import screening
from shoal.auditing.data import Neighbours
from shoal.auditing.knowledge import Knowledge, learned
from shoal.auditing.limits import coin_bounds
from shoal.auditing.result import Audit, Evidence
from shoal.auditing.screening import Screened
from shoal.auditing.subjects import (
    Collection,
    Listed,
    Meter,
    Progress,
    Sampler,
    Subject,
    subject_of,
)
from shoal.auditing.trials import Budget, Stakes, Trial, evaluated, trained_crowd, trained_local
from shoal.errors import InvalidArgumentError
from shoal.randomizers.base import Auditable
from shoal.randomness import Randomness
from shoal.values import Array

FEWEST_RUNS = 1_000
MOST_RUNS = 100_000_000
_LOCAL_PART = 0.25  # of what may go wrong, the part for the local claim
_SINGLES = (2_000, 100_000)  # messages of single devices per input, at least and at most
_SINGLES_PER_RUN = 10  # single messages are cheap, and tell more about epsilon_0


@dataclass(frozen=True)
class Claims:
    """(epsilon, delta) for n people, and the pure local epsilon if there is one."""

    epsilon: float
    delta: float
    local_epsilon: float | None


def audit(
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
    >>> result = audit(device, n=20, delta=1e-3, runs=20_000)
    >>> result.verdict, 1.8 < result.local_lower < 2
    ('consistent', True)
    """
    n = datasets.people(n)
    runs = _checked_runs(runs)
    checks.open_probability(confidence=confidence)
    subject = subject_of(device)
    described = _described(device if declared is None else declared)
    known = described if isinstance(described, Auditable) else Auditable()
    claimed = _claims(described, n=n, epsilon=epsilon, delta=delta, local_epsilon=local_epsilon)
    bits = sources.secure() if randomness is None else randomness
    candidates = _requested(known, n, data, inputs)
    if candidates is None:
        own = declared is None or declared is device
        candidates = _chosen(Sampler(subject, bits, Meter(None, 0)), known, n, own=own)
    pairs, chosen = candidates
    plan = _Plan(subject, known, n, runs, claimed, 1 - confidence, pairs, chosen.inputs)
    crowd, local, unread = plan.carried_out(bits, progress)
    return Audit(
        name=subject.name,
        n=n,
        runs=runs,
        confidence=confidence,
        evidence=crowd,
        local_evidence=local,
        inputs=chosen.inputs,
        screened=chosen.of,
        unread=unread,
    )


@dataclass(frozen=True)
class _Plan:
    """How the runs and the allowance for error are shared out."""

    subject: Subject
    known: Auditable
    n: int
    runs: int
    claims: Claims
    allowance: float
    candidates: Sequence[Neighbours]
    inputs: tuple[Hashable, ...]

    @property
    def _local_claim(self) -> float | None:
        """Of one device by itself, if it can be run by itself and sends one message."""
        alone = self.subject.alone and not self.subject.several
        return self.claims.local_epsilon if alone else None

    @property
    def _budget(self) -> Budget:
        return Budget.of(self.runs, len(self.candidates))

    @property
    def _singles(self) -> int:
        least, most = _SINGLES
        return min(most, max(least, self.runs))

    @property
    def _crowd_stakes(self) -> Stakes:
        part = 1.0 if self._local_claim is None else 1 - _LOCAL_PART
        evaluation = 2 * (self.runs - self._budget.total)
        return Stakes(evaluation, self.claims.delta, part * self.allowance)

    @property
    def _local_stakes(self) -> Stakes:
        runs = self._crowd_stakes.runs * min(self.n, _SINGLES_PER_RUN)
        return Stakes(runs, 0.0, _LOCAL_PART * self.allowance, smooth=False)

    @property
    def _messages(self) -> int:
        """The whole work, for the progress bar."""
        local = 0
        if self._local_claim is not None:
            local = self._singles * len(self.inputs) + self._local_stakes.runs
        crowd = (2 * self._budget.total + self._crowd_stakes.runs) * self.n
        return self._singles * len(self.inputs) + local + crowd

    def carried_out(
        self, randomness: Randomness, progress: Progress | None
    ) -> tuple[Evidence, Evidence | None, float]:
        """Training, then the runs that count: the crowd's evidence, the local one, what is unread.

        The last is the fraction of messages that cannot be told apart, as they never repeat.
        """
        sampler = Sampler(self.subject, randomness, Meter(progress, self._messages))
        known = learned(sampler, self.inputs, self.known, size=self._singles, n=self.n)
        local = self._local(sampler, known)
        trial = trained_crowd(sampler, known, self.candidates, self._crowd_stakes, self._budget)
        crowd = self._counted(sampler, trial, self._crowd_stakes, "crowd", self.claims.epsilon)
        sampler.meter.finish()
        return crowd, local, known.unread

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


def _described(device: object) -> object | None:
    """What is known of the messages and their law, if it is anything of ours or like it."""
    if isinstance(device, type):
        raise InvalidArgumentError("declared", device, "a mechanism, not a class of mechanisms")
    if isinstance(device, Collection):
        return device.device
    if isinstance(device, Subject):
        return None
    if isinstance(device, np.ndarray | list | tuple):
        return Listed(device)
    return device


def _checked_runs(runs: float) -> int:
    count = checks.count(FEWEST_RUNS, runs=runs)
    if count > MOST_RUNS:
        raise InvalidArgumentError("runs", count, f"runs <= {MOST_RUNS:,}")
    return count


_Candidates = tuple[list[Neighbours], Screened]


def _requested(
    known: Auditable,
    n: int,
    data: Neighbours | Sequence[Any] | None,
    inputs: Sequence[Hashable] | None,
) -> _Candidates | None:
    """The data sets that somebody asked for."""
    if data is not None:
        if inputs is not None:
            raise InvalidArgumentError("inputs", list(inputs), "inputs or data, not both")
        pair = datasets.neighbours(data, n)
        for value in pair.inputs:
            known.check_input(value)
        return [pair], Screened(pair.inputs, len(pair.inputs))
    if inputs is None:
        return None
    listed = datasets.checked_inputs(inputs)
    for value in listed:
        known.check_input(value)
    return datasets.candidates(listed, n), Screened(listed, len(listed))


def _chosen(sampler: Sampler, known: Auditable, n: int, *, own: bool) -> _Candidates:
    """The data sets that are worth trying on a mechanism that is known."""
    chosen = screening.screened(sampler, known, n=n, own=own)
    return datasets.candidates(chosen.inputs, n, ends=known.ends_first), chosen


def _claims(
    declared: object, *, n: int, epsilon: float | None, delta: float, local_epsilon: float | None
) -> Claims:
    """The claims that were stated; else what the accountant proves for the mechanism declared."""
    if epsilon is None:
        checks.open_probability(delta=delta)
    else:
        checks.closed_probability(delta=delta)
        checks.non_negative(epsilon=epsilon)
    if local_epsilon is not None:
        checks.positive(local_epsilon=local_epsilon)
    local = _local(declared) if local_epsilon is None else local_epsilon
    if epsilon is None:
        law = _accounted(declared)
        if law is not None:
            epsilon = amplify(law, n=n, delta=delta).epsilon
        elif local is not None:
            epsilon = amplify(local_epsilon=local, n=n, delta=delta).epsilon
        else:
            expected = "a claim to audit: epsilon, local_epsilon, or a declared mechanism"
            raise InvalidArgumentError("epsilon", epsilon, expected)
    return Claims(epsilon, delta, local)


def _accounted(declared: object) -> BlanketLaw | HasProfile | None:
    """What the accountant takes, if the mechanism has it."""
    if isinstance(declared, Listed):
        return BlanketLaw.from_table(declared.rows)
    if isinstance(declared, BlanketLaw | HasProfile):
        return declared
    law = getattr(declared, "law", None)
    return law() if callable(law) else None


def _local(declared: object) -> float | None:
    local: object = getattr(declared, "local_epsilon", None)
    if isinstance(declared, Listed):
        local = _steepest(declared.rows)
    elif local is None and isinstance(law := _accounted(declared), BlanketLaw):
        local = law.local_epsilon
    return local if isinstance(local, float | int) and math.isfinite(local) else None


def _steepest(rows: Array) -> float:
    """The largest log-ratio of two inputs' probabilities of one message."""
    largest, least = rows.max(axis=0), rows.min(axis=0)
    seen = largest > 0
    if not least[seen].all():
        return math.inf
    return float(np.log(largest[seen] / least[seen]).max())
