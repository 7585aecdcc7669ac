"""What do people type most? Words found without a list of words, by several messages and by one."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import shoal
from shoal.estimate.hitters import HeavyHitters, heavy_hitters
from shoal.mechanisms.prefixes import PrefixDummies, PrefixMechanism, PrefixResponse

PEOPLE = 300_000
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def typed() -> Counter[str]:
    """How many people type each of 30,000 made-up words, by Zipf's law."""
    numbers = np.arange(1, 30_001, dtype=np.int64) * 7_368_787 % 26**6
    words = ["".join(LETTERS[n // 26**i % 26] for i in range(4 + n % 3)) for n in numbers.tolist()]
    weights = 1 / np.arange(1, len(words) + 1)
    held = np.floor(PEOPLE * weights / weights.sum()).astype(int)
    return Counter(dict(zip(words, held.tolist(), strict=True)))


def found_by(protocol: PrefixMechanism, truth: Counter[str]) -> HeavyHitters:
    """On everybody's device, then by the shuffler, then by the analyzer."""
    texts = np.repeat(np.array(list(truth)), list(truth.values()))
    return heavy_hitters(protocol, shoal.shuffle(protocol.randomize(texts)))


def main() -> None:
    """Compare what is found with the truth, and draw it."""
    truth = typed()
    asked = {"n": truth.total(), "epsilon": 2.0, "delta": 1e-6, "length": 6, "alphabet": LETTERS}
    axes = plt.subplots(figsize=(7, 4))[1]
    for protocol in (PrefixDummies.calibrated(**asked), PrefixResponse.calibrated(**asked)):
        found = found_by(protocol, truth)
        print(f"{protocol.name}: {protocol.messages:.2f} messages each, {len(found)} words found")
        print(f"  every word of {found.threshold:,.0f} people is sure to be among them")
        for least in (found.threshold, found.threshold / 2, found.threshold / 4):
            frequent = {word for word, held in truth.items() if held >= least}
            listed = {w for w, c in zip(found.texts, found.counts, strict=True) if c >= least}
            recall = len(frequent & set(found.texts)) / len(frequent)
            precision = sum(truth[word] > 0 for word in listed) / max(1, len(listed))
            print(f"  from {least:6,.0f}: recall {recall:4.0%}, precision {precision:4.0%}")
        axes.loglog([truth[w] for w in found.texts], found.counts, ".", label=protocol.name)
    axes.set(xlabel="people who typed the word", ylabel="estimated")
    axes.legend()
    with tempfile.TemporaryDirectory() as folder:
        axes.figure.savefig(Path(sys.argv[1] if len(sys.argv) > 1 else folder) / "words.svg")


if __name__ == "__main__":
    main()
