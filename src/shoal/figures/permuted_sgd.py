"""Private training by how its steps come by examples: ε against n and against the noise."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from shoal.errors import ShoalError
from shoal.explain import plots
from shoal.explain.plots import Axis, Look
from shoal.figures.drawing import Panel, Row, Value, figure
from shoal.learning import account
from shoal.learning.permuted import BLANKET, CLONES, DELETION, FIXED

DELTA = 1e-6
NOISE = 8.0
_EXAMPLES = Axis("number of examples n", (10**3, 10**6))
N = 60_000
_NOISE = Axis("noise multiplier", (1.5, 30.0))
_EPSILON, _SAME = Axis("ε of one epoch", (2e-4, 12.0)), Axis("", (2e-4, 12.0))

LOOKS = {
    "fixed": Look("fixed order", plots.QUIET, plots.DASH_DOT),
    "clones": Look("permuted, clones", plots.VERMILION, plots.DASHED),
    "deletion": Look("permuted, deletion", plots.ORANGE, plots.DASHED),
    "permutation": Look("permuted, blanket", plots.BLUE, plots.SOLID, 2.6),
    "replacement": Look("with replacement", plots.PURPLE),
    "poisson": Look("Poisson (add/remove)", plots.GREEN),
    "lower": Look("permuted, at least", plots.BLACK, plots.DOTTED, 1.8),
}
_ROUTES = {BLANKET: "permutation", DELETION: "deletion", CLONES: "clones", FIXED: "fixed"}


def _epsilon(noise: float, n: int, sampling: str) -> Value:
    try:
        return account(noise_multiplier=noise, n=n, delta=DELTA, sampling=sampling).epsilon
    except ShoalError:
        return None


@figure(
    9,
    Panel("n", _EXAMPLES, _EPSILON, LOOKS, f"noise multiplier {NOISE:g}", {"panel": 0}),
    Panel("noise", _NOISE, _SAME, LOOKS, f"{N:,} examples", {"panel": 1}, names="beside"),
)
def permuted_sgd(points: int) -> Iterator[Row]:
    """Private gradient descent, one epoch in steps of one example.

    δ = 10⁻⁶; replace-one, but for Poisson sampling, which adds or removes one. All iterates are
    published. Dashed: Feldman, McMillan, Talwar (arXiv 2012.12803), Section 5.2, through (ε₀,
    δ₀) of one step. Dotted: what explicit data, permuted, really lose. Settings chosen by us.
    """
    # By n at one noise (panel 0), then by noise at one n (panel 1).
    settings = [(0, NOISE, round(n)) for n in np.geomspace(*_EXAMPLES.limits, points)]
    settings += [(1, float(f"{z:.4g}"), N) for z in np.geomspace(*_NOISE.limits, points)]
    for panel, noise, n in settings:
        permuted = account(noise_multiplier=noise, n=n, delta=DELTA)
        row: Row = {"panel": panel, "n": n, "noise": noise, "delta": DELTA}
        row |= {_ROUTES[route.name]: route.epsilon for route in permuted.routes}
        row["permutation"] = permuted.epsilon
        row |= {name: _epsilon(noise, n, name) for name in ("replacement", "poisson")}
        yield row | {"lower": permuted.lower}
