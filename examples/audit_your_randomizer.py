"""Does the code keep the epsilon in its documentation? Run it, and see."""

from __future__ import annotations

import math

import numpy as np

import shoal
from shoal.auditing import Audit, Function, WholePipeline, audit
from shoal.randomness import Randomness, secure

PEOPLE, DELTA, RUNS = 100, 1e-3, 10_000
DECLARED = shoal.RandomizedResponse(k=3, epsilon=1.0)
BITS: Randomness = secure()


def sloppy(values: np.ndarray) -> np.ndarray:
    """Meant as the declared one: draws the lie from the other two answers, with the wrong odds."""
    keep = int(2**32 * math.e / (math.e + 1))  # right for two answers only
    lies = (values + 1 + BITS.below(2, values.size).astype(np.int64)) % 3
    return np.where(BITS.below(2**32, values.size) < keep, values, lies)


def forgetful(values: np.ndarray) -> np.ndarray:
    """The declared device, and nobody shuffles."""
    return DECLARED.randomize(values, randomness=BITS)


def show(name: str, found: Audit) -> None:
    """One line per audit."""
    local = ""
    if found.local_lower is not None:
        local = f", eps0 >= {found.local_lower:.2f} (claimed {found.claimed_local:.2f})"
    crowd = f"epsilon >= {found.lower:.3f} (claimed {found.claimed:.3f})"
    print(f"{name:<12} {found.verdict:<11} {crowd}{local}")


def main() -> None:
    """Three devices that all claim to be randomized response among three answers."""
    claim = {"n": PEOPLE, "delta": DELTA, "runs": RUNS}
    show("declared", audit(DECLARED, **claim))
    show("sloppy", audit(Function(sloppy, vectorized=True), declared=DECLARED, **claim))
    show("forgetful", audit(WholePipeline(forgetful), declared=DECLARED, **claim))


if __name__ == "__main__":
    main()
