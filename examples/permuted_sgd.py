"""A logistic model by noisy steps over permuted examples, and what each kind of sampling costs."""

from __future__ import annotations

import numpy as np

from shoal.explain.text import up_to
from shoal.learning import Logistic, account, compare, train
from shoal.randomness import simulator

EXAMPLES, FEATURES, NOISE = 20_000, 10, 1.1


def main() -> None:
    """Train with noise in every step, test on examples nobody has seen, and say what it costs."""
    examples, answers = _made_up(EXAMPLES, seed=1)
    unseen, truth = _made_up(EXAMPLES, seed=2)
    loss = Logistic(labels=("no", "yes"))
    for epochs in (1, 4):
        guarantee = account(n=EXAMPLES, noise_multiplier=NOISE, epochs=epochs)
        fit = train(examples, answers, guarantee, loss=loss)
        print(
            f"{epochs} epoch(s) of {EXAMPLES:,} steps: {fit.score(unseen, truth):.1%} right, "
            f"epsilon = {up_to(guarantee.epsilon, 3)} at delta = {guarantee.delta:g}"
        )
    print(f"one step by itself: epsilon = {up_to(guarantee.local, 1)}")

    print("\nthe same noise and the same steps, one epoch:")
    for row in compare(noise_multiplier=NOISE, n=EXAMPLES):
        print(
            f"  {row.sampling:<12} epsilon = {up_to(row.epsilon, 3)} "
            f"({row.neighbouring}; {row.sampling.loader})"
        )


def _made_up(n: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of norm one, and on which side of a plane they lie; one in fifty is mislabelled."""
    generator = simulator(seed)
    examples = generator.normal(size=(n, FEATURES))
    examples /= np.linalg.norm(examples, axis=1)[:, None]
    sides = examples @ np.linspace(1, 2, FEATURES) > 0
    return examples, np.where(sides ^ (generator.random(n) < 0.02), "yes", "no")


if __name__ == "__main__":
    main()
