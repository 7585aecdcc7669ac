"""The figures of amplification: published bounds beside each other and beside a lower bound."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from shoal.accounting import catalog, renyi, repeated
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.errors import OutOfRegimeError
from shoal.explain import plots
from shoal.explain.plots import Axis, Look, tick
from shoal.figures.drawing import Curve, Level, Panel, Row, Value, figure

DELTA = 1e-6
# In the order of the legend.
LOOKS = {
    "efmrtt19": Look("EFMRTT19", plots.PURPLE, plots.DASHED),
    "bkmtt20": Look("BKMTT20 (not checked)", plots.FAINT, plots.DASHED),
    "bbgn19-bennett": Look("BBGN19, Bennett", plots.GREEN, plots.DASHED),
    "bbgn19-hoeffding": Look("BBGN19, Hoeffding", plots.GREEN, plots.DASH_DOT),
    "gddsk21": Look("GDDSK21, via Rényi", plots.ORANGE, plots.DASHED),
    "fmt21-closed": Look("FMT21 closed form", plots.VERMILION, plots.DASHED),
    "fmt22-closed": Look("FMT22 closed form", plots.BLUE, plots.DASHED),
    "clones": Look("clones (FMT21)", plots.VERMILION, plots.SOLID, 2.0),
    "optimal-clones": Look("optimal clones", plots.BLUE, plots.SOLID, 2.6),
    "lower": Look("lower bound", plots.BLACK, plots.DOTTED, 1.8),
}
NAMES = tuple(name for name in LOOKS if name != "lower")
NUMERICAL = frozenset({"clones", "optimal-clones"})


def row(*, local_epsilon: float, n: int, delta: float) -> Row:
    """The settings, then epsilon by every bound that applies, then the lower bound."""
    query = catalog.Query(local_epsilon=local_epsilon, n=n, delta=delta)
    lower = PrivacyProfile(BlanketLaw.generic(local_epsilon), n).lower_epsilon(delta)
    bounds = {name: epsilon(name, query) for name in NAMES}
    return {"local_epsilon": local_epsilon, "n": n, "delta": delta, **bounds, "lower": lower}


def epsilon(name: str, query: catalog.Query) -> Value:
    """The epsilon of one bound, or None where it does not apply or a formula amplifies nothing."""
    try:
        value = catalog.get(name).epsilon(query)
    except OutOfRegimeError:
        return None
    return value if value < query.local_epsilon or name in NUMERICAL else None


# -------------------------------------------------------------------------------------- against n

PEOPLE = (10**5, 10**7)
_AFTER = "ε after shuffling"


def _n_panel(limits: tuple[float, float]) -> Panel:
    people, epsilons = Axis("number of people n", PEOPLE), Axis(_AFTER, limits)
    return Panel("n", people, epsilons, LOOKS, stops=True, shade="lower", names="ends")


def _by_n(points: int, local_epsilon: float) -> Iterator[Row]:
    for n in np.geomspace(*PEOPLE, points):
        yield row(local_epsilon=local_epsilon, n=round(n), delta=DELTA)


@figure(25, _n_panel((3e-5, 2e-2)))
def epsilon_vs_n_small(points: int) -> Iterator[Row]:
    """ε against n, any ε₀-DP randomizers with ε₀ = 0.1.

    ε₀ = 0.1, δ = 10⁻⁶. Solid: evaluated numerically; dashed: published formulas; dotted: a
    lower bound, below which (shaded) no analysis of all randomizers can go. A ring marks where
    a theorem stops applying or says no more than ε₀. Redraws Figure 1(a) of Feldman, McMillan,
    Talwar, “Hiding Among the Clones” (workshop version; arXiv 2012.12803) at its settings.
    """
    return _by_n(points, 0.1)


@figure(25, _n_panel((2e-2, 7.0)))
def epsilon_vs_n_large(points: int) -> Iterator[Row]:
    """ε against n, any ε₀-DP randomizers with ε₀ = 6.

    ε₀ = 6, δ = 10⁻⁶. Solid: evaluated numerically; dashed: published formulas; dotted: a lower
    bound, below which (shaded) no analysis of all randomizers can go. A ring marks where a
    theorem stops applying or says no more than ε₀. Redraws Figure 1(b) of Feldman, McMillan,
    Talwar, “Hiding Among the Clones” (workshop version; arXiv 2012.12803) at its settings.
    """
    return _by_n(points, 6.0)


# --------------------------------------------------------------------------- against local epsilon

_SMALLEST = 0.1
_CROWDS = {10**4: 8.0, 10**6: 12.0}  # and the largest ε₀


def _local_epsilon_panel(n: int, y: Axis, names: str) -> Panel:
    return Panel(
        "local_epsilon",
        Axis("local ε₀", (_SMALLEST, _CROWDS[n])),
        y,
        LOOKS,
        f"n = {tick(n)}",
        {"n": n},
        diagonal=True,
        stops=True,
        shade="lower",
        names=names,
    )


@figure(
    36,
    _local_epsilon_panel(10**4, Axis(_AFTER, (1e-3, 10.0)), ""),
    _local_epsilon_panel(10**6, Axis("", (1e-4, 15.0)), "beside"),
)
def epsilon_vs_local_epsilon(points: int) -> Iterator[Row]:
    """ε after shuffling against ε₀ before, any ε₀-DP randomizers.

    n = 10⁴ (left) and 10⁶ (right), δ = 10⁻⁶. Settings chosen by us. Solid: evaluated
    numerically; dashed: published formulas; dotted: a lower bound, below which (shaded) no
    analysis of all randomizers can go. A ring marks where a theorem stops applying or says no
    more than ε₀. After Figure 2(c) of Feldman, McMillan, Talwar, “Hiding Among the Clones”,
    FOCS 2021, arXiv 2012.12803.
    """
    # Evenly on a logarithmic scale up to 1, on a linear one, which the jump needs, beyond.
    few = max(2, points // 3)
    for n, largest in _CROWDS.items():
        above = np.linspace(1.0, largest, points - few + 1)[1:]
        for local_epsilon in [*np.geomspace(_SMALLEST, 1.0, few).tolist(), *above.tolist()]:
            yield row(local_epsilon=local_epsilon, n=n, delta=DELTA)


# ---------------------------------------------------------------------------- Rényi against order

_RENYI = {
    "gddsk21": replace(LOOKS["gddsk21"], label="GDDSK21"),
    **{name: LOOKS[name] for name in ("clones", "optimal-clones", "lower")},
}
_SETTINGS = ((1.0, 10**3, 2048), (4.0, 10**4, 256))  # ε₀, n, largest order


def _renyi_panel(setting: int, y: Axis, names: str) -> Panel:
    local_epsilon, n, largest = _SETTINGS[setting]
    return Panel(
        "order",
        Axis("order α", (2, largest)),
        y,
        _RENYI,
        f"ε₀ = {local_epsilon:g}, n = {tick(n)}",
        {"local_epsilon": local_epsilon},
        [Level(local_epsilon, "ε₀: no amplification")],
        stops=True,
        shade="lower",
        names=names,
    )


@figure(
    17,
    _renyi_panel(0, Axis("Rényi divergence", (8e-4, 2.0)), ""),
    _renyi_panel(1, Axis("", (3e-3, 8.0)), "beside"),
)
def renyi_vs_order(points: int) -> Iterator[Row]:
    """Rényi divergence of shuffled reports, any ε₀-DP randomizers.

    ε₀ = 1, n = 10³ (left); ε₀ = 4, n = 10⁴ (right). Settings chosen by us. Solid: the defining
    sum of the clone pair, evaluated; dashed: formula of Girgis et al., CCS 2021, arXiv
    2105.05180 (GDDSK21), up to where it reaches ε₀ (ring); dotted: shuffled binary randomized
    response, below which (shaded) no analysis can go. No δ is involved. After Figure 3(a) of
    Feldman, McMillan, Talwar, “Hiding Among the Clones”, FOCS 2021, arXiv 2012.12803.
    """
    # The bounds at whole orders (the only ones the published formula has).
    for local_epsilon, n, largest in _SETTINGS:
        clones = PrivacyProfile(BlanketLaw.clones(local_epsilon), n)
        optimal = PrivacyProfile(BlanketLaw.generic(local_epsilon), n)
        for order in sorted({round(a) for a in np.geomspace(2, largest, points)}):
            known = {"local_epsilon": local_epsilon, "n": n, "order": order}
            published = catalog.gddsk21.renyi(**known)
            yield known | {
                "gddsk21": published if published < local_epsilon else None,
                "clones": clones.renyi(order),
                "optimal-clones": optimal.renyi(order),
                "lower": renyi.binary_response_divergence(**known),
            }


# --------------------------------------------------------------------------------- against rounds

_ROUNDS, _TOGETHER = Axis("adaptive rounds", (1, 1000)), Axis("ε of all rounds", (0.08, 200))
_COMPOSED = {
    "gddsk21-renyi": LOOKS["gddsk21"],
    "advanced": Look("optimal clones,\nadvanced composition", plots.SKY),
    "renyi": Look("optimal clones, Rényi", plots.GREEN),
    "pld": Look("optimal clones, PLD", plots.BLUE, plots.SOLID, 2.6),
    "lower": LOOKS["lower"],
}


@figure(7, Panel("rounds", _ROUNDS, _TOGETHER, _COMPOSED, shade="lower", names="ends"))
def epsilon_vs_rounds(points: int) -> Iterator[Row]:
    """ε of many shuffled rounds, composed in three ways.

    ε₀ = 4, n = 10⁵, δ = 10⁻⁶ in total. Settings chosen by us. Any ε₀-DP randomizers, adaptively
    chosen rounds. PLD: privacy loss distributions; Rényi: converted by Canonne, Kamath, Steinke
    2020; advanced: Kairouz, Oh, Viswanath 2015; dotted: ternary randomized response, below
    which (shaded) no analysis can go. After Figure 3(b) of Feldman, McMillan, Talwar, “Hiding
    Among the Clones”, FOCS 2021, arXiv 2012.12803.
    """
    # Every way of composing, at numbers of rounds spread evenly on a logarithmic scale.
    local_epsilon, n = 4.0, 10**5
    orders = sorted({round(a) for a in np.geomspace(2, 256, 40)})
    published = [
        (catalog.gddsk21.renyi(local_epsilon=local_epsilon, n=n, order=order), order)
        for order in orders
    ]
    profile = PrivacyProfile(BlanketLaw.generic(local_epsilon), n)
    for rounds in sorted({round(k) for k in np.geomspace(*_ROUNDS.limits, points)}):
        known = {"rounds": rounds, "local_epsilon": local_epsilon, "n": n, "delta": DELTA}
        composed = profile * rounds
        yield known | {
            "gddsk21-renyi": min(renyi.to_epsilon(rounds * d, a, DELTA) for d, a in published),
            "advanced": composed.epsilon(DELTA, method="advanced"),
            "renyi": composed.epsilon(DELTA, method="renyi"),
            "pld": composed.epsilon(DELTA, method="pld"),
            "lower": repeated.epsilon(profile.law, n=n, rounds=rounds, delta=DELTA),
        }


# ------------------------------------------------------------------------------- the transition

TAIL_N = 10**4
DELTAS = {1e-80: plots.BLUE, 1e-20: plots.VERMILION, 1e-5: plots.GREEN}
LOCAL_EPSILONS = {4.0: plots.BLUE, 5.0: plots.VERMILION, 6.0: plots.GREEN}
_LARGEST = 9.0


def transition(delta: float) -> float:
    """The local epsilon at which delta is about the probability of having no clone at all."""
    return math.log(TAIL_N / math.log(1 / delta))


_RESPONSE = Look("binary response", plots.QUIET, width=1.8)
_CLONES = Look("clones (FMT21)", plots.QUIET, plots.DASHED, 1.3)


def _tail_curves(column: str, values: dict[float, str]) -> list[Curve]:
    return [
        Curve(name, replace(look, color=color), {column: value})
        for value, color in values.items()
        for name, look in (("binary-response", _RESPONSE), ("clones", _CLONES))
    ]


@figure(
    51,
    Panel(
        "local_epsilon",
        Axis("local ε₀", (0, _LARGEST), log=False),
        Axis(_AFTER, (0, _LARGEST), log=False),
        _tail_curves("delta", DELTAS),
        "against ε₀, for three δ",
        {"panel": 0},
        [Level(transition(d), "", c, plots.DOTTED, "upright") for d, c in DELTAS.items()],
        diagonal=True,
        names="upper left",
        legend=[
            *(Look(f"δ = {tick(delta)}", color) for delta, color in DELTAS.items()),
            _RESPONSE,
            _CLONES,
            Look("log(n / log(1/δ))", plots.QUIET, plots.DOTTED, 1.1),
        ],
    ),
    Panel(
        "delta",
        Axis("δ", (1e-100, 0.1), ticks={10.0**e: tick(10.0**e) for e in range(-100, 0, 20)}),
        Axis("", (0, 7), log=False),
        _tail_curves("local_epsilon", LOCAL_EPSILONS),
        "against δ, for three ε₀",
        {"panel": 1},
        [Level(e, f"ε₀ = {e:g}", c, plots.DOTTED) for e, c in LOCAL_EPSILONS.items()],
    ),
)
def privacy_loss_tail(points: int) -> Iterator[Row]:
    """Where amplification ends: the sharp transition of ε from far below ε₀ to ε₀.

    n = 10⁴. Settings chosen by us. Solid: shuffled binary randomized response, all others on
    one answer; dashed: clones, an upper bound for any ε₀-DP randomizers. Dotted: ε₀ = log(n /
    log(1/δ)) (left), ε = ε₀ (right; grey, left). δ = 10⁻⁸⁰, 10⁻²⁰ and 10⁻⁵ (left). Steps are
    real: counts are whole. After Figure 4 (Appendix B) of Feldman, McMillan, Talwar, “Hiding
    Among the Clones”, FOCS 2021, arXiv 2012.12803.
    """
    # Appendix B of FMT21: is the condition under which their closed form holds an artefact of the
    # proof? Shuffled binary randomized response says no, up to a constant: its epsilon jumps to the
    # local one near eps0 = log(n / log(1/delta)).
    # First the sweeps over the local epsilon, one per delta, then those over delta.
    grid = np.linspace(0.25, _LARGEST, points).tolist()
    depths = np.linspace(-100, -1, points).tolist()
    settings = [(0, eps, delta) for delta in DELTAS for eps in grid]
    settings += [(1, eps, 10.0**depth) for eps in LOCAL_EPSILONS for depth in depths]
    for panel, local_epsilon, delta in settings:
        binary = BlanketLaw.randomized_response(k=2, epsilon=local_epsilon)
        clones = BlanketLaw.clones(local_epsilon)
        known = {"panel": panel, "n": TAIL_N, "local_epsilon": local_epsilon, "delta": delta}
        yield known | {
            "binary-response": PrivacyProfile(binary, TAIL_N).lower_epsilon(delta),
            "clones": PrivacyProfile(clones, TAIL_N).epsilon(delta),
        }


# ------------------------------------------------------------------------------ known randomizers

_N = 10**5
_LOCAL = Axis("local ε₀", (0.25, 8.0))
_ANSWERS = {2: plots.VERMILION, 10: plots.ORANGE, 100: plots.GREEN, 1000: plots.PURPLE}
_ANY = Look("any randomizer: optimal clones", plots.BLUE, plots.SOLID, 4.5)
_OWN = {f"k{k}": Look(f"k = {k}", color, width=2.2) for k, color in _ANSWERS.items()}
_CLOSED = Look("closed form (FMT21, Corollary 4.2)", plots.QUIET, plots.DASHED, 1.4)
_BELOW = Look("lower bound", plots.BLACK, plots.DOTTED, 1.2)


@figure(
    25,
    Panel(
        "local_epsilon",
        _LOCAL,
        Axis(_AFTER, (4e-5, 12)),
        {"optimal-clones": _ANY, **_OWN}
        | {f"k{k}-closed": replace(_CLOSED, color=color) for k, color in _ANSWERS.items()}
        | {f"k{k}-lower": _BELOW for k in _ANSWERS},
        diagonal=True,
        stops=True,
        names="lower right",
        legend=[_ANY, *_OWN.values(), _CLOSED, _BELOW],
    ),
)
def randomizers(points: int) -> Iterator[Row]:
    """k-ary randomized response by its own law, against the bound for any randomizer.

    n = 10⁵, δ = 10⁻⁶. Settings chosen by us. Solid: blanket laws, evaluated (Balle, Bell,
    Gascón, Nissim, CRYPTO 2019, arXiv 1903.02837); dashed: Corollary 4.2 of Feldman, McMillan,
    Talwar, FOCS 2021, arXiv 2012.12803, up to where its condition ends (ring; never met for k =
    1000); dotted: lower bounds from explicit data sets. Only k = 2 meets the bound for any
    randomizer.
    """
    # Per local epsilon: the generic bound, and each k's own law, closed form and lower bound.
    for local_epsilon in np.geomspace(*_LOCAL.limits, points).tolist():
        generic = PrivacyProfile(BlanketLaw.generic(local_epsilon), _N)
        row: Row = {"local_epsilon": local_epsilon, "n": _N, "delta": DELTA}
        row["optimal-clones"] = generic.epsilon(DELTA)
        for k in _ANSWERS:
            own = PrivacyProfile(BlanketLaw.randomized_response(k=k, epsilon=local_epsilon), _N)
            query = catalog.Query(local_epsilon=local_epsilon, n=_N, delta=DELTA, k=k)
            row[f"k{k}"] = own.epsilon(DELTA)
            row[f"k{k}-closed"] = epsilon("krr-closed", query)
            row[f"k{k}-lower"] = own.lower_epsilon(DELTA)
        yield row
