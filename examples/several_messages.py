"""One survey, five protocols: what further messages per person buy, and what they cost."""

from __future__ import annotations

import numpy as np

import shoal
from shoal.mechanisms.base import Mechanism
from shoal.mechanisms.counts import NearCentralCount
from shoal.mechanisms.dummies import UniformDummies
from shoal.mechanisms.histograms import LeanHistogram
from shoal.mechanisms.zero_sum import ZeroSumHistogram

PEOPLE = 100_000
ANSWERS = 50
TARGET = {"n": PEOPLE, "epsilon": 1.0, "delta": 1e-6}


def main() -> None:
    """Which of fifty answers: half of the people gave the first, nobody one of the last thirty."""
    answers = np.where(np.arange(PEOPLE) % 2, 0, np.arange(PEOPLE) // 2 % 20)
    print(f"one of {ANSWERS} answers, {PEOPLE:,} people, epsilon = 1, delta = 1e-6")
    _head()
    _collect("one message", _planned(ANSWERS), answers)
    _collect("dummies", UniformDummies.calibrated(k=ANSWERS, **TARGET), answers)
    _collect("lean", LeanHistogram.calibrated(k=ANSWERS, **TARGET), answers)
    _collect("zero-sum", ZeroSumHistogram.calibrated(k=ANSWERS, **TARGET), answers)

    print("\nyes or no: 1,000 say yes")
    _head()
    said = np.repeat([0, 1], [PEOPLE - 1_000, 1_000])
    _collect("one message", _planned(2), said)
    _collect("near-central", NearCentralCount.calibrated(**TARGET), said)


def _planned(answers: int) -> Mechanism:
    return shoal.plan(shoal.Choice("answer", answers), **TARGET).randomizer


def _head() -> None:
    print(f"{'':14}{'messages':>9}{'predicted':>11}{'largest':>9}{'nobody':>8}{'epsilon':>9}")


def _collect(title: str, device: Mechanism, answers: np.ndarray) -> None:
    """Randomize, shuffle, estimate; compare with the truth, also where nobody gave the answer."""
    truth = np.bincount(answers, minlength=device.k)
    estimate = device.estimate(shoal.shuffle(device.randomize(answers)))
    off = np.abs(estimate.counts - truth)
    predicted = PEOPLE * np.sqrt(device.variance(truth / PEOPLE, n=PEOPLE).max())
    nobody = f"{off[truth == 0].max():.0f}" if (truth == 0).any() else "-"
    epsilon = shoal.amplify(device, n=PEOPLE, delta=1e-6).epsilon
    print(
        f"{title:14}{device.messages:9.3f}{predicted:11.1f}{off.max():9.1f}{nobody:>8}{epsilon:9.3f}"
    )


if __name__ == "__main__":
    main()
