"""Every published bound: its reference values, its regime, and that it really is above the truth.

The truth is enumerated by ``shoal.accounting.exact``, which ``test_exact.py`` holds against brute
force: the clone pair, randomized response with everybody else on one symbol, and blanket laws.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import brute
from shoal.accounting import binomial, catalog, renyi
from shoal.accounting.catalog import (
    Query,
    Status,
    bbgn19,
    canonne22,
    clone_lemma,
    fmt21,
    gddsk21,
    variation_ratio,
)
from shoal.accounting.exact import enumerate_law, enumerate_shuffle, two_atom_delta
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.errors import InvalidArgumentError, OutOfRegimeError

FMT21_FAMILY = ("fmt21-closed", "fmt21-workshop", "fmt21-blog", "fmt21-thm41")
CLOSED_FORMS = (*FMT21_FAMILY, "fmt22-closed", "efmrtt19")
BLANKETS = ("bbgn19-hoeffding", "bbgn19-bennett")
CURVES = (bbgn19.hoeffding_log_delta, bbgn19.bennett_log_delta)
QUOTED = ("efmrtt19-general",)
RECALLED = ("bkmtt20", "csuzz19")
APPROXIMATIONS = ("blog-small", "blog-large")
FORMULAS = (*CLOSED_FORMS, "krr-closed", *BLANKETS, "gddsk21", *QUOTED, *RECALLED, *APPROXIMATIONS)

LOCAL_EPSILONS = st.floats(0.01, 9)
DELTAS = st.floats(-12, -0.005).map(lambda exponent: 10**exponent)
COUNTS = st.floats(0, 4.5).map(lambda exponent: round(10**exponent))


def ask(name, local_epsilon, n, delta=1e-6, **more):
    query = Query(local_epsilon=local_epsilon, n=n, delta=delta, **more)
    return catalog.get(name).epsilon(query)


def answer_or_none(name, local_epsilon, n, delta=1e-6, **more):
    try:
        return ask(name, local_epsilon, n, delta, **more)
    except OutOfRegimeError:
        return None


def clone_delta(share, local_epsilon, n, epsilon):
    """δ(ε) of the clone pair."""
    pair = {"local_epsilon": local_epsilon, "clone_probability": share}
    return two_atom_delta(n=n, epsilon=epsilon, **pair)


def optimal_delta(local_epsilon, n, epsilon):
    return clone_delta(2 / (math.exp(local_epsilon) + 1), local_epsilon, n, epsilon)


def shuffled_delta(*rows, n, epsilon):
    """δ(ε) of one report from the first row against the second, all others from the third."""
    return enumerate_shuffle(np.array(rows), others=[2] * (n - 1), x0=0, x1=1, epsilon=epsilon)


def randomized_response_delta(*, k, local_epsilon, n, epsilon):
    """Exact δ(ε) of k-ary randomized response, all others on a third symbol."""
    e, rest = math.exp(local_epsilon), [k - 3] * (k > 3)
    rows = np.array([[e, 1, 1, *rest], [1, e, 1, *rest], [1, 1, e, *rest]]) / (e + k - 1)
    return shuffled_delta(*rows, n=n, epsilon=epsilon)


def blanket_delta(atoms, *, n, epsilon):
    mass, rho0, rho1 = zip(*atoms, strict=True)
    return enumerate_law(mass=mass, rho0=rho0, rho1=rho1, n=n, epsilon=epsilon)


def randomized_response_atoms(k, local_epsilon):
    e = math.exp(local_epsilon)
    scale = e + k - 1
    return [(1 / scale, e, 1), (1 / scale, 1, e), ((k - 2) / scale, 1, 1)]


# --- reference values -----------------------------------------------------------------------------

NONE = None
# n, ε0, fmt21-closed, fmt22-closed, bbgn19-bennett, bbgn19-hoeffding (δ = 1e-6)
TABLE = [
    (10**3, 0.5, 0.27264, 0.24733, 0.31606, 0.18316),
    (10**3, 1, 0.56620, 0.48759, 0.61495, 0.58044),
    (10**3, 2, NONE, 0.94160, NONE, NONE),
    (10**4, 0.5, 0.09387, 0.08450, 0.09065, 0.05400),
    (10**4, 1, 0.21403, 0.18001, 0.16617, 0.16663),
    (10**4, 2, 0.50092, 0.39816, 0.51750, 1.01708),
    (10**4, 4, NONE, 0.95814, NONE, NONE),
    (10**5, 1, 0.07255, 0.06036, 0.04849, 0.04918),
    (10**5, 4, 0.53463, 0.40779, 2.20853, NONE),
    (10**6, 0.1, 0.00164, 0.00160, 0.00300, 0.00062),
    (10**6, 1, 0.02350, 0.01947, 0.01420, 0.01445),
    (10**6, 4, 0.20099, 0.14735, 0.36314, NONE),
    (10**6, 6, 0.48650, 0.36670, NONE, NONE),
]
COLUMNS = ("fmt21-closed", "fmt22-closed", *reversed(BLANKETS))


@pytest.mark.parametrize(("n", "local_epsilon", "values"), [(r[0], r[1], r[2:]) for r in TABLE])
def test_reference_table(n, local_epsilon, values):
    for name, value in zip(COLUMNS, values, strict=True):
        got = answer_or_none(name, local_epsilon, n)
        assert got is None if value is None else got == pytest.approx(value, abs=6e-6)


RECALLED_TABLE = [
    (10**3, 0.5, 0.22923, 0.35175),
    (10**3, 1, 1.30972, 0.63716),
    (10**4, 1, 0.40776, 0.15672),
    (10**5, 1, 0.12830, 0.04567),
    (10**6, 0.1, 0.00064, 0.00125),
    (10**6, 1, 0.04051, 0.01407),
]


@pytest.mark.parametrize(("n", "local_epsilon", "check_ins", "binary"), RECALLED_TABLE)
def test_recalled_reference_values(n, local_epsilon, check_ins, binary):
    query = Query(local_epsilon=local_epsilon, n=n, delta=1e-6)
    assert catalog.get("bkmtt20").evaluate(query) == pytest.approx(check_ins, abs=6e-6)
    assert ask("csuzz19", local_epsilon, n, k=2) == pytest.approx(binary, abs=6e-6)


SINGLE = [
    ("fmt21-closed", {"local_epsilon": 4, "n": 10**5}, 0.534634),
    ("fmt21-closed", {"local_epsilon": 1, "n": 10**6, "delta": 1e-8}, 0.026775),
    ("fmt22-closed", {"local_epsilon": 1, "n": 10**6, "delta": 1e-8}, 0.022193),
    ("krr-closed", {"local_epsilon": 1, "n": 10**4, "k": 10}, 0.11053),
    ("bbgn19-bennett", {"local_epsilon": 1, "n": 10**4, "k": 10}, 0.02804),
    ("efmrtt19", {"local_epsilon": 0.5, "n": 10**4}, 0.22302),
    ("efmrtt19-general", {"local_epsilon": 0.5, "n": 10**4}, 0.1866),
    ("csuzz19", {"local_epsilon": 4, "n": 10**5, "k": 2}, 0.37283),
]


@pytest.mark.parametrize(("name", "query", "value"), SINGLE)
def test_single_reference_values(name, query, value):
    assert ask(name, **query) == pytest.approx(value, rel=3e-4)


def test_printed_formulas_of_the_other_closed_forms():
    e, n, log4 = math.exp(2), 10**5, math.log(4e6)
    pair = 8 * math.sqrt(e * log4 / n) + 8 * e / n
    workshop = math.log(1 + (1 - e**-2) * pair)
    blog = math.log(1 + 16 * (e - 1) / (e + 1) * math.sqrt(e * log4 / n))
    finer = math.log(1 + (e - 1) / (e + 1) * (4 * math.sqrt(2 * log4 * 3 * e / n) + 4 * 3 * e / n))
    assert ask("fmt21-workshop", 2, n) == pytest.approx(workshop, rel=1e-12)
    assert ask("fmt21-blog", 2, n) == pytest.approx(blog, rel=1e-12)
    assert ask("fmt21-thm41", 2, n) == pytest.approx(finer, rel=1e-12)
    assert ask("blog-large", 2, n) == pytest.approx(
        math.log(1 + 8 * math.sqrt(e * log4 / n)), rel=1e-12
    )
    assert ask("blog-small", 0.1, n) == pytest.approx(0.8 * math.sqrt(log4 / n), rel=1e-12)


def test_the_finer_decomposition_loses_the_square_root_of_three_halves():
    ratio = ask("fmt21-thm41", 1, 10**13) / ask("fmt21-closed", 1, 10**13)
    assert ratio == pytest.approx(math.sqrt(1.5), rel=1e-4)


RENYI = [(10**3, 2, 5.886e-3), (10**3, 8, 5.923e-2), (10**3, 32, 1.763e-1), (10**4, 8, 3.646e-3)]


@pytest.mark.parametrize(("n", "order", "value"), RENYI)
def test_renyi_reference_values(n, order, value):
    assert gddsk21.renyi(local_epsilon=1, n=n, order=order) == pytest.approx(value, rel=2e-4)


@pytest.mark.parametrize(
    ("n", "local_epsilon", "epsilon"),
    [
        (10**3, 1, 0.130566),
        (10**4, 2, 0.107666),
        (10**5, 4, 0.117026),
        (10**6, 6, 0.102915),
        (10**6, 8, 0.303640),
    ],
)
def test_ternary_lower_bound_reference_values(n, local_epsilon, epsilon):
    delta = variation_ratio.lower_bound_delta(
        k=3, local_epsilon=local_epsilon, n=n, epsilon=epsilon
    )
    assert delta == pytest.approx(1e-6, rel=2e-3)


# --- the shape of the catalog ---------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(catalog.ENTRIES))
def test_every_entry_is_documented(name):
    entry = catalog.get(name)
    assert entry.name == name
    for text in (entry.title, entry.scope, entry.regime, entry.citation.theorem):
        assert text.strip()
    for part in (entry.citation.authors, entry.citation.title, entry.citation.venue):
        assert part in str(entry.citation)


def test_what_is_not_proved_is_never_an_answer():
    assert not [name for name in catalog.ENTRIES if "variation" in name]
    answers = {entry.name for entry in catalog.ENTRIES.values() if entry.certified}
    assert answers >= {*CLOSED_FORMS, "krr-closed", *BLANKETS, "gddsk21"}
    statuses = dict.fromkeys(RECALLED, Status.RECALLED) | dict.fromkeys(QUOTED, Status.QUOTED)
    statuses |= dict.fromkeys(APPROXIMATIONS, Status.APPROXIMATION)
    for name, status in statuses.items():
        assert name not in answers
        assert catalog.get(name).status is status
    for name in RECALLED:
        assert "constants not checked against the paper" in str(catalog.get(name).citation)


def test_fixed_randomizer_theorems_do_not_claim_adaptivity():
    adaptive = {entry.name for entry in catalog.ENTRIES.values() if "adaptive" in entry.scope}
    assert adaptive.isdisjoint((*BLANKETS, "gddsk21", "csuzz19"))
    assert adaptive >= {*CLOSED_FORMS, "krr-closed"}


def test_an_unknown_name_lists_the_names_and_the_closest():
    with pytest.raises(InvalidArgumentError) as caught:
        catalog.get("fmt21-close")
    assert "did you mean fmt21-closed?" in str(caught.value)
    assert all(name in str(caught.value) for name in catalog.ENTRIES)
    with pytest.raises(InvalidArgumentError) as far:
        catalog.get("zzz")
    assert "did you mean" not in str(far.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"local_epsilon": 0},
        {"local_epsilon": math.inf},
        {"local_epsilon": math.nan},
        {"n": 0},
        {"n": 10.5},
        {"delta": 0},
        {"delta": 1},
        {"k": 1},
        {"mechanism": "gauss"},
        {"mechanism": "grr"},
        {"mechanism": "laplace", "k": 4},
    ],
)
def test_impossible_queries_are_refused(wrong):
    with pytest.raises(InvalidArgumentError):
        ask("fmt21-closed", **({"local_epsilon": 1, "n": 10**5, "delta": 1e-6} | wrong))


def test_a_count_may_be_written_as_a_float():
    assert ask("fmt21-closed", 1, 1e5) == ask("fmt21-closed", 1, 10**5)


# --- regimes --------------------------------------------------------------------------------------


def limit_16(n, delta):
    return math.log(n / (16 * math.log(2 / delta)))


LIMITS = {
    "fmt21-closed": limit_16,
    "fmt21-workshop": limit_16,
    "fmt21-blog": limit_16,
    "blog-large": limit_16,
    "fmt21-thm41": lambda n, delta: math.log(n / (24 * math.log(2 / delta))),
    "fmt22-closed": lambda n, delta: math.log(n / (8 * math.log(2 / delta)) - 1),
}


@pytest.mark.parametrize("name", sorted(LIMITS))
@pytest.mark.parametrize(("n", "delta"), [(10**4, 1e-6), (10**9, 1e-12), (200, 0.3)])
def test_edge_of_the_largest_local_epsilon(name, n, delta):
    edge = LIMITS[name](n, delta)
    assert 0 < ask(name, edge * (1 - 1e-9), n, delta) <= edge
    with pytest.raises(OutOfRegimeError) as caught:
        ask(name, edge * (1 + 1e-9), n, delta)
    error = caught.value
    assert error.bound == name
    assert error.condition == catalog.get(name).regime
    assert error.given == {"local_epsilon": edge * (1 + 1e-9), "n": n, "delta": delta}
    assert error.instead == "optimal-clones"
    for text in (error.condition, f"n={n}", "use optimal-clones instead"):
        assert text in str(error)


PEOPLE = {k: 8 * math.log(2e6) * (k + 1) * (math.exp(1.5) + k - 1) / k for k in (2, 3, 40)}
FEW = [
    ("krr-closed", (1.5, math.ceil(n)), (1.5, math.floor(n)), {"k": k}) for k, n in PEOPLE.items()
]
BITS = math.log(2e4 / (14 * math.log(4e6)) - 1)
SMALL, RULE = (0.5, 1000, 0.0099), (1, 10**5)
EDGES = [
    *((*each, r"n >= 8 log\(2/delta\)") for each in FEW),
    ("krr-closed", None, (1.5, 10**6), {}, "give k"),
    ("efmrtt19", SMALL, (0.5001, 1000), {}, "n >= 1000 and delta < 1/100"),
    ("efmrtt19", SMALL, (0.5, 999), {}, "n >= 1000 and delta < 1/100"),
    ("efmrtt19", SMALL, (0.5, 1000, 0.01), {}, "n >= 1000 and delta < 1/100"),
    ("csuzz19", (BITS - 1e-9, 10**4), (BITS + 1e-9, 10**4), {"k": 2}, r"14 log\(4/delta\)"),
    ("csuzz19", None, (1, 10**6), {}, "k = 2"),
    ("csuzz19", None, (1, 10**6), {"k": 3}, "k = 2"),
    ("blog-small", RULE, (1.001, 10**5), {}, "local_epsilon <= 1"),
    ("blog-small", RULE, (0.5, 100), {}, r"n >= 16 exp"),
    ("blog-large", RULE, (0.999, 10**5), {}, "local_epsilon >= 1"),
]


@pytest.mark.parametrize(("name", "inside", "outside", "shape", "says"), EDGES)
def test_edges_of_the_other_regimes(name, inside, outside, shape, says):
    if inside is not None:
        assert 0 < ask(name, *inside, **shape) <= inside[0]
    with pytest.raises(OutOfRegimeError, match=says):
        ask(name, *outside, **shape)


@pytest.mark.parametrize("name", [*BLANKETS, "gddsk21"])
def test_a_curve_that_says_nothing_below_the_local_epsilon_is_refused(name):
    with pytest.raises(OutOfRegimeError, match="epsilon") as caught:
        ask(name, 4, 100)
    assert caught.value.instead == "optimal-clones"
    smallest = next(n for n in range(100, 4000, 20) if answer_or_none(name, 1, n))
    assert ask(name, 1, smallest) < 1
    with pytest.raises(OutOfRegimeError):
        ask(name, 1, smallest - 20)


def test_a_bound_above_the_local_epsilon_is_capped():
    query = Query(local_epsilon=0.1, n=300, delta=1e-6)
    entry = catalog.get("fmt21-workshop")
    assert entry.evaluate(query) > 0.1
    assert entry.epsilon(query) == 0.1


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("local_epsilon", [1e-200, 1e-9, 1.0, 40.0, 101.0, 5000.0])
def test_extremes_are_answered_or_refused_never_nan(name, local_epsilon):
    shapes = [{}, {"k": 2}, {"k": 10**15}, {"mechanism": "laplace"}]
    used = shapes if name in BLANKETS else shapes[:2] if name in {"krr-closed", "csuzz19"} else [{}]
    for shape, n, delta in itertools.product(used, (1, 2, 10**15), (5e-324, 1e-300, 1 - 1e-12)):
        got = answer_or_none(name, local_epsilon, n, delta, **shape)
        assert got is None or 0 <= got <= local_epsilon


# --- upper bounds are above the truth -------------------------------------------------------------


@settings(deadline=None, derandomize=True, max_examples=100)
@given(LOCAL_EPSILONS, COUNTS, DELTAS)
@example(0.01, 1, 0.9)
@example(9.0, 31_623, 1e-12)
def test_closed_forms_are_above_the_pair_they_come_from(local_epsilon, n, delta):
    for name in CLOSED_FORMS:
        epsilon = answer_or_none(name, local_epsilon, n, delta)
        if epsilon is not None and name in FMT21_FAMILY:
            assert clone_delta(math.exp(-local_epsilon), local_epsilon, n, epsilon) <= delta
        elif epsilon is not None:
            assert optimal_delta(local_epsilon, n, epsilon) <= delta


@settings(deadline=None, derandomize=True, max_examples=80)
@given(st.integers(13, 20_000), DELTAS, st.sampled_from(["fmt21-closed", "fmt22-closed"]))
def test_closed_forms_are_above_their_pair_on_the_boundary(n, delta, name):
    if n <= 16.1 * math.log(2 / delta):
        return
    local_epsilon = LIMITS[name](n, delta) * (1 - 1e-12)
    epsilon = ask(name, local_epsilon, n, delta)
    if name == "fmt21-closed":
        assert clone_delta(math.exp(-local_epsilon), local_epsilon, n, epsilon) <= delta
    else:
        assert optimal_delta(local_epsilon, n, epsilon) <= delta


@settings(deadline=None, derandomize=True, max_examples=80)
@given(st.floats(0.02, 1), st.integers(12, 3000), DELTAS)
def test_the_clone_lemma_holds_wherever_it_says_so(share, n, delta):
    if not clone_lemma.covers(fraction=share, n=n, delta=delta):
        return
    epsilon = clone_lemma.epsilon(weight=1.0, fraction=share, n=n, delta=delta)
    assert clone_delta(share, 700.0, n, epsilon) <= delta  # (1, 0) against (0, 1): no lies


def test_outside_its_condition_the_clone_lemma_would_be_false():
    share, n, delta = 0.01, 20, 0.05
    assert not clone_lemma.covers(fraction=share, n=n, delta=delta)
    x = math.exp(clone_lemma.epsilon(weight=1.0, fraction=share, n=n, delta=delta))
    no_clone = (1 - share) ** (n - 1)  # then (1, 0) against (0, 1): told apart for sure
    assert math.isfinite(x)
    assert no_clone > delta


@settings(deadline=None, derandomize=True, max_examples=60)
@given(LOCAL_EPSILONS, COUNTS, DELTAS)
@example(0.01, 1, 0.9)
@example(9.0, 31_623, 1e-12)
def test_blanket_and_renyi_bounds_are_above_the_truth(local_epsilon, n, delta):
    for name in BLANKETS:
        epsilon = answer_or_none(name, local_epsilon, n, delta)
        if epsilon is not None:  # the blanket of binary randomized response is the optimal pair
            assert optimal_delta(local_epsilon, n, epsilon) <= delta
    epsilon = answer_or_none("gddsk21", local_epsilon, n, delta)
    if epsilon is not None:
        true = variation_ratio.lower_bound_delta(
            k=3, local_epsilon=local_epsilon, n=n, epsilon=epsilon
        )
        assert true <= delta


@settings(deadline=None, derandomize=True, max_examples=60)
@given(LOCAL_EPSILONS, COUNTS, DELTAS, st.sampled_from([3, 4, 10, 1000]))
@example(0.01, 1, 0.9, 3)
@example(9.0, 31_623, 1e-12, 1000)
def test_randomized_response_bounds_are_above_its_lower_bound(local_epsilon, n, delta, k):
    for name in ("krr-closed", *BLANKETS):
        epsilon = answer_or_none(name, local_epsilon, n, delta, k=k)
        if epsilon is not None:
            true = variation_ratio.lower_bound_delta(
                k=k, local_epsilon=local_epsilon, n=n, epsilon=epsilon
            )
            assert true <= delta


@pytest.mark.parametrize(
    ("n", "local_epsilon", "shape", "certified"),
    [
        (10**4, 1, {"mechanism": "laplace"}, 0.037843),
        (10**4, 2, {"mechanism": "laplace"}, 0.094598),
        (10**5, 4, {"mechanism": "laplace"}, 0.095219),
        (10**4, 1, {"k": 10}, 0.023254),
        (10**4, 1, {"k": 100}, 0.007184),
        (10**4, 2, {"k": 100}, 0.029209),
        (10**5, 4, {"k": 100}, 0.068439),
        (10**6, 6, {"k": 1000}, 0.052832),
    ],
)
def test_tail_bounds_are_above_the_blanket_they_bound(n, local_epsilon, shape, certified):
    for name in BLANKETS:
        epsilon = answer_or_none(name, local_epsilon, n, **shape)
        assert epsilon is None or epsilon > certified


def test_the_small_epsilon_theorem_is_above_the_optimal_pair():
    for local_epsilon, n, delta in itertools.product(
        (0.01, 0.25, 0.5), (1000, 1500, 30_000), (0.00999, 1e-6, 1e-40)
    ):
        assert optimal_delta(local_epsilon, n, ask("efmrtt19", local_epsilon, n, delta)) <= delta


def test_the_recalled_binary_number_has_not_been_seen_below_the_exact_one():
    for local_epsilon, n, delta in itertools.product(
        (0.1, 1, 2, 4), (300, 2000, 20_000), (1e-2, 1e-6)
    ):
        epsilon = answer_or_none("csuzz19", local_epsilon, n, delta, k=2)
        if epsilon is not None:
            assert brute.binary_response_delta(n, epsilon, local_epsilon) <= delta


@settings(deadline=None, derandomize=True, max_examples=50)
@given(
    st.floats(0.05, 4),
    st.floats(0.02, 0.98),
    st.integers(1, 7),
    st.integers(2, 12),
)
def test_blanket_curves_are_above_the_enumerated_blanket(local_epsilon, fraction, n, k):
    epsilon = fraction * local_epsilon
    exact = blanket_delta(randomized_response_atoms(k, local_epsilon), n=n, epsilon=epsilon)
    own = bbgn19.randomized_response(local_epsilon=local_epsilon, k=k)
    generic = bbgn19.generic(local_epsilon=local_epsilon)
    for curve in CURVES:
        assert math.exp(curve(epsilon, blanket=own, n=n)) >= exact
        assert math.exp(curve(epsilon, blanket=generic, n=n)) >= exact


def laplace_atoms(local_epsilon, cells):
    """The Laplace blanket law of the pair (0, 1), each cell replaced by its mean: from below."""
    e, edges = math.exp(local_epsilon), np.linspace(0, 0.5, cells + 1)
    atoms = [(0.5 / e, e, 1.0), (0.5 / e, 1.0, e)]
    for low, high in itertools.pairwise(edges):
        mass = 0.5 / e * (math.exp(local_epsilon * high) - math.exp(local_epsilon * low))
        own = 0.5 * (math.exp(-local_epsilon * low) - math.exp(-local_epsilon * high))
        atoms += [(mass, own / mass, 1.0), (mass, 1.0, own / mass)]
    return atoms


@pytest.mark.parametrize("local_epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_laplace_curves_are_above_the_enumerated_blanket(local_epsilon, n):
    atoms = laplace_atoms(local_epsilon, 3)
    assert sum(mass * first for mass, first, _ in atoms) == pytest.approx(1)
    assert sum(mass for mass, _, _ in atoms) == pytest.approx(math.exp(-local_epsilon / 2))
    blanket = bbgn19.laplace(local_epsilon=local_epsilon)
    for fraction, curve in itertools.product((0.1, 0.4, 0.8), CURVES):
        epsilon = fraction * local_epsilon
        bound = math.exp(curve(epsilon, blanket=blanket, n=n))
        assert bound >= blanket_delta(atoms, n=n, epsilon=epsilon)


@pytest.mark.parametrize("local_epsilon", [0.2, 1.0, 4.0])
def test_laplace_constants_cover_every_pair(local_epsilon):
    y = (np.arange(-30_000, 40_000) + 0.5) * 1e-3
    blanket = local_epsilon / 2 * np.exp(-local_epsilon * (np.abs(y - 0.5) + 0.5))
    gamma = math.exp(-local_epsilon / 2)
    epsilon = 0.3 * local_epsilon
    loss = bbgn19.laplace(local_epsilon=local_epsilon).loss(epsilon)
    moments = []
    for a, b in itertools.product(np.linspace(0, 1, 9), repeat=2):
        own, other = (
            local_epsilon / 2 * np.exp(-local_epsilon * np.abs(y - place)) for place in (a, b)
        )
        value = gamma * (own - math.exp(epsilon) * other) / blanket
        assert value.max() <= loss.ceiling * (1 + 1e-9)
        assert np.ptp(value) <= loss.width * (1 + 1e-9)
        moments.append(float((value**2) @ blanket) * 1e-3 / gamma)
    tail = 0.01 if local_epsilon < 1 else 1e-5  # the grid ends where 0.2-DP noise is not yet gone
    assert max(moments) == pytest.approx(loss.second_moment, rel=tail)
    assert max(moments) <= loss.second_moment * (1 + 1e-5)


def test_randomized_response_constants_are_the_printed_ones():
    k, local_epsilon, epsilon = 7, 1.7, 0.4
    e, x = math.exp(local_epsilon), math.exp(epsilon)
    gamma = k / (e + k - 1)
    own = bbgn19.randomized_response(local_epsilon=local_epsilon, k=k)
    loss = own.loss(epsilon)
    assert own.gamma == pytest.approx(gamma)
    assert own.gamma + own.rest == pytest.approx(1)
    assert loss.ceiling == pytest.approx(gamma * (1 - x) + (1 - gamma) * k)
    assert loss.width == pytest.approx((1 - gamma) * k * (x + 1))
    printed = gamma * (2 - gamma) * (x - 1) ** 2 + (1 - gamma) ** 2 * k * (x * x + 1)
    assert loss.second_moment == pytest.approx(printed)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.floats(0.05, 3), st.floats(0.02, 0.98), st.integers(0, 2**32 - 1))
def test_generic_constants_cover_random_randomizers(local_epsilon, fraction, seed):
    rng = np.random.default_rng(seed)
    table = np.exp(local_epsilon / 2 * rng.choice([0, 1, rng.random()], size=(4, 6)))
    table /= table.sum(axis=1, keepdims=True)  # at most doubles the log ratios
    x = math.exp(fraction * local_epsilon)
    least = table.min(axis=0)
    loss = bbgn19.generic(local_epsilon=local_epsilon).loss(fraction * local_epsilon)
    omega = least / least.sum()
    assert least.sum() >= math.exp(-local_epsilon) * (1 - 1e-12)
    for own, other in itertools.permutations(table, 2):
        value = (own - x * other) / omega
        assert value.max() <= loss.ceiling * (1 + 1e-12)
        assert np.ptp(value) <= loss.width * (1 + 1e-12)
        assert float(omega @ value**2) <= loss.second_moment * (1 + 1e-12)


def test_bennett_leaves_out_the_empty_blanket_exactly():
    blanket = bbgn19.generic(local_epsilon=5)
    n, epsilon = 3, 2.0
    loss = blanket.loss(epsilon)
    u = math.expm1(epsilon) * loss.ceiling / loss.second_moment
    s = loss.second_moment / loss.ceiling**2 * ((1 + u) * math.log1p(u) - u)
    someone = (1 - blanket.gamma * (1 - math.exp(-s))) ** n - (1 - blanket.gamma) ** n
    printed = loss.ceiling / (blanket.gamma * n * math.log1p(u)) * someone
    assert math.exp(bbgn19.bennett_log_delta(epsilon, blanket=blanket, n=n)) == pytest.approx(
        printed, rel=1e-10
    )


@pytest.mark.parametrize("u", [1e-9, 1e-4, 9.99e-4, 1.001e-3, 0.5])
def test_the_series_of_bennetts_function_is_from_below(u):
    exact = sum((-1) ** j * u**j / (j * (j - 1)) for j in range(2, 60))
    got = bbgn19._phi(u)
    assert got == pytest.approx(exact, rel=1e-9)
    if u < 1e-3:
        assert got <= exact * (1 + 1e-15)


@pytest.mark.parametrize("shape", [{}, {"k": 5}, {"mechanism": "laplace"}])
@pytest.mark.parametrize(("name", "curve"), list(zip(BLANKETS, CURVES, strict=True)))
def test_the_epsilon_returned_is_verified_and_first(name, curve, shape):
    query = Query(local_epsilon=1.0, n=10**4, delta=1e-6, **shape)
    epsilon = catalog.get(name).epsilon(query)
    blanket = bbgn19.mechanism(query)
    assert curve(epsilon, blanket=blanket, n=10**4) <= math.log(1e-6)
    assert curve(epsilon * (1 - 1e-6), blanket=blanket, n=10**4) > math.log(1e-6)


def test_knowing_the_randomizer_helps():
    for name in BLANKETS:
        for shape in ({"k": 2}, {"k": 20}, {"mechanism": "laplace"}):
            assert ask(name, 1, 10**4, **shape) < ask(name, 1, 10**4)


def test_inversion_takes_the_first_descent_of_a_curve_that_rises_again():
    def curve(epsilon):
        return -20 * epsilon if epsilon < 1 else -20 + 100 * (epsilon - 1)

    found = bbgn19.smallest_epsilon(curve, local_epsilon=2.0, delta=math.exp(-10))
    assert found == pytest.approx(0.5, abs=1e-8)
    assert curve(found) <= -10
    assert bbgn19.smallest_epsilon(curve, local_epsilon=2.0, delta=math.exp(-21)) is None


def test_theorem_41_checks_its_decomposition():
    share, weight = 0.02, 0.3
    expected = math.log(
        1 + weight * (4 * math.sqrt(2 * math.log(4e6) / (share * 10**4)) + 4 / (share * 10**4))
    )
    assert fmt21.closed_form(p=share, q=weight, n=10**4, delta=1e-6) == pytest.approx(expected)
    with pytest.raises(OutOfRegimeError, match=r"p n >= 8 log\(2/delta\)"):
        fmt21.closed_form(p=share, q=weight, n=5000, delta=1e-6)
    for wrong in ({"p": 0.34}, {"p": 0}, {"q": 1.1}, {"q": -0.1}, {"delta": 0}):
        with pytest.raises(InvalidArgumentError):
            fmt21.closed_form(**({"p": 0.02, "q": 0.3, "n": 10**4, "delta": 1e-6} | wrong))


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.floats(0.01, 1 / 3), st.floats(0.01, 1), st.integers(20, 90), st.floats(0.01, 0.9))
def test_theorem_41_is_above_its_multinomial_pair(p, q, n, delta):
    try:
        epsilon = fmt21.closed_form(p=p, q=q, n=n, delta=delta)
    except OutOfRegimeError:
        return
    rest = max(1 - 3 * p, 1e-12)
    others = np.array([p, p, p, rest]) / (3 * p + rest)
    own, neighbour = [q, 0, 1 - q, 0], [0, q, 1 - q, 0]
    assert shuffled_delta(own, neighbour, others, n=n, epsilon=epsilon) <= delta


# --- monotone -------------------------------------------------------------------------------------

MONOTONE = [(name, {}) for name in (*CLOSED_FORMS, *BLANKETS, "gddsk21")]
MONOTONE += [(name, {"k": 6}) for name in ("krr-closed", *BLANKETS)]
MONOTONE += [(name, {"mechanism": "laplace"}) for name in BLANKETS]


@pytest.mark.parametrize(("name", "shape"), MONOTONE)
@settings(deadline=None, derandomize=True, max_examples=15)
@given(
    local_epsilon=st.floats(0.05, 3),
    n=st.integers(1000, 10**7),
    delta=DELTAS,
    factor=st.floats(1.0, 4),
)
def test_bounds_are_monotone(name, shape, local_epsilon, n, delta, factor):
    base = answer_or_none(name, local_epsilon, n, delta, **shape)
    if base is None:
        return
    slack = 1 + 1e-9
    assert ask(name, local_epsilon, math.ceil(n * factor), delta, **shape) <= base * slack
    smaller = answer_or_none(name, local_epsilon / factor, n, delta, **shape)
    if smaller is not None or name not in BLANKETS:  # these may come to nothing below a smaller ε0
        assert smaller <= base * slack
    larger = answer_or_none(name, local_epsilon, n, min(delta * factor, 0.9999), **shape)
    if larger is not None or name != "efmrtt19":
        assert larger <= base * slack


def test_more_categories_amplify_more():
    values = [ask("krr-closed", 1, 10**5, k=k) for k in (2, 3, 10, 100)]
    assert values == sorted(values, reverse=True)


# --- Rényi ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("local_epsilon", "n", "order"), [(1, 1, 2), (0.3, 40, 7), (2, 500, 3)])
def test_renyi_is_the_printed_formula(local_epsilon, n, order):
    e = math.exp(local_epsilon)
    r, clones = e - 1 / e, math.floor((n - 1) / (2 * e)) + 1
    total = 1 + math.comb(order, 2) * (e - 1) ** 2 / (clones * e)
    total += sum(
        math.comb(order, i) * i * math.gamma(i / 2) * (r * r / (2 * clones)) ** (i / 2)
        for i in range(3, order + 1)
    )
    total += ((1 + r) ** order - 1 - order * r) * math.exp(-(n - 1) / (8 * e))
    expected = min(local_epsilon, math.log(total) / (order - 1))
    got = gddsk21.renyi(local_epsilon=local_epsilon, n=n, order=order)
    assert got == pytest.approx(expected, rel=1e-9)


def test_clones_are_rounded_down_at_a_whole_number():
    n = 401
    local_epsilon = math.log((n - 1) / 20)  # (n−1)/(2e) = 10, whatever its floating point says
    just_above = gddsk21.renyi(local_epsilon=local_epsilon + 1e-9, n=n, order=2)
    assert gddsk21.renyi(local_epsilon=local_epsilon, n=n, order=2) >= just_above * (1 - 1e-6)


@pytest.mark.parametrize("order", [2, 3, 8, 20])
@pytest.mark.parametrize(("local_epsilon", "n"), [(0.5, 20), (1, 300), (3, 2000), (5, 50)])
def test_renyi_is_above_shuffled_randomized_response(local_epsilon, n, order):
    e = math.exp(local_epsilon)
    ones = np.arange(n + 1)
    same = binom.pmf(ones, n, 1 / (e + 1))
    lone = binom.pmf(ones - 1, n - 1, 1 / (e + 1)) * e / (e + 1)
    lone = lone + binom.pmf(ones, n - 1, 1 / (e + 1)) / (e + 1)
    seen = (same > 0) & (lone > 0)
    forward = math.log(np.sum(same[seen] * (lone[seen] / same[seen]) ** order)) / (order - 1)
    backward = math.log(np.sum(lone[seen] * (same[seen] / lone[seen]) ** order)) / (order - 1)
    asked = {"local_epsilon": local_epsilon, "n": n, "order": order}
    assert gddsk21.renyi(**asked) >= max(forward, backward)
    assert renyi.binary_response_divergence(**asked) <= max(forward, backward) * (1 + 1e-9)


def test_renyi_refuses_what_it_cannot_sum():
    with pytest.raises(InvalidArgumentError):
        gddsk21.renyi(local_epsilon=1, n=100, order=2.5)
    with pytest.raises(OutOfRegimeError, match="order"):
        gddsk21.renyi(local_epsilon=1, n=100, order=10**6)


def test_the_converted_epsilon_is_one_of_the_orders():
    epsilon = ask("gddsk21", 1, 10**5)
    best = min(
        gddsk21.renyi(local_epsilon=1, n=10**5, order=order)
        + math.log(1 - 1 / order)
        + (math.log(1e6) - math.log(order)) / (order - 1)
        for order in range(400, 700)
    )
    assert best * (1 - 1e-12) <= epsilon <= best * 1.01


# --- the variation-ratio pair ---------------------------------------------------------------------


@pytest.mark.parametrize("k", [3, 4, 5, 9])
@pytest.mark.parametrize(("local_epsilon", "n"), [(0.4, 3), (1, 12), (2.5, 30), (5, 8)])
def test_the_lower_bound_is_below_exact_randomized_response(k, local_epsilon, n):
    for fraction in (0.0, 0.1, 0.5, 0.9):
        epsilon = fraction * local_epsilon
        asked = {"k": k, "local_epsilon": local_epsilon, "n": n, "epsilon": epsilon}
        exact = randomized_response_delta(**asked)
        lower = variation_ratio.lower_bound_delta(**asked)
        assert lower <= exact
        if k == 3:
            assert lower == pytest.approx(exact, rel=1e-7)


def test_the_lower_bound_is_below_the_blanket():
    for k, n, fraction in itertools.product((3, 4, 8), (2, 5), (0.1, 0.5)):
        epsilon = 1.5 * fraction
        upper = blanket_delta(randomized_response_atoms(k, 1.5), n=n, epsilon=epsilon)
        lower = variation_ratio.lower_bound_delta(k=k, local_epsilon=1.5, n=n, epsilon=epsilon)
        assert 0 < lower <= upper


def test_randomized_response_itself_exceeds_the_pair():
    asked = {"k": 5, "local_epsilon": 1, "n": 30, "epsilon": 0.2}
    assert randomized_response_delta(**asked) == pytest.approx(0.0110468, abs=5e-8)
    assert variation_ratio.lower_bound_delta(**asked) == pytest.approx(0.0109974, abs=5e-8)
    hundred = {"k": 100, "local_epsilon": 4, "n": 10**4}
    lower = variation_ratio.lower_bound_delta(epsilon=0.233698, **hundred)
    assert lower == pytest.approx(1e-6, rel=1e-3)


@pytest.mark.parametrize(
    ("local_epsilon", "alpha", "n", "epsilon", "true", "claimed"),
    [
        (1, 0.05, 100, 0.2, 3.125e-6, 1.356e-6),
        (1, 0.05, 100, 0.3, 1.933e-9, 8.26e-11),
        (2, 0.02, 60, 0.3, 3.96e-3, 2.165e-3),
    ],
)
def test_the_counterexample_to_variation_ratio(local_epsilon, alpha, n, epsilon, true, claimed):
    e = math.exp(local_epsilon)
    both, tilted = 1 - (e + 1) * alpha, 1 - 2 * alpha
    u = (tilted - both / e) / (e - 1 / e)
    w = both - u
    own, neighbour = [e * alpha, alpha, w, u], [alpha, e * alpha, w, u]
    others = [alpha, alpha, w / e, u * e]
    for first, second in itertools.permutations((own, neighbour, others), 2):
        assert max(np.array(first) / second) <= e * (1 + 1e-12)
        assert sum(first) == pytest.approx(1)
    exact = shuffled_delta(own, neighbour, others, n=n, epsilon=epsilon)
    pair = variation_ratio.claimed_delta(
        local_epsilon=local_epsilon, total_variation=alpha * (e - 1), n=n, epsilon=epsilon
    )
    assert exact == pytest.approx(true, rel=2e-3)
    assert pair == pytest.approx(claimed, rel=2e-3)
    assert pair < exact / 1.8
    assert exact < optimal_delta(local_epsilon, n, epsilon)
    law = BlanketLaw.from_table([own, neighbour, others], local_epsilon=local_epsilon)
    assert exact <= PrivacyProfile(law, n).delta(epsilon)


def test_at_the_largest_variation_the_pair_is_the_optimal_clones():
    for local_epsilon, n, epsilon in [(1, 500, 0.1), (3, 50, 1.0), (0.2, 2000, 0.01)]:
        pair = variation_ratio.claimed_delta(
            local_epsilon=local_epsilon,
            total_variation=math.tanh(local_epsilon / 2),
            n=n,
            epsilon=epsilon,
        )
        assert pair == pytest.approx(optimal_delta(local_epsilon, n, epsilon), rel=1e-7)


def test_the_pair_refuses_what_it_cannot_mean():
    asked = {"k": 3, "local_epsilon": 1, "n": 10, "epsilon": 0.1}
    assert variation_ratio.lower_bound_delta(**(asked | {"epsilon": 1})) == 0.0
    for wrong in ({"k": 2}, {"epsilon": -1}, {"n": 0}, {"local_epsilon": 0}):
        with pytest.raises(InvalidArgumentError):
            variation_ratio.lower_bound_delta(**(asked | wrong))
    for wrong in ({"n": 10**11}, {"local_epsilon": 101}, {"local_epsilon": 1e-7}):
        with pytest.raises(OutOfRegimeError):
            variation_ratio.lower_bound_delta(**(asked | wrong))
    with pytest.raises(InvalidArgumentError, match="total_variation"):
        variation_ratio.claimed_delta(local_epsilon=1, total_variation=0.5, n=10, epsilon=0.1)


@pytest.mark.parametrize(("n", "share"), [(1, 0.3), (7, 0.5), (1000, 1e-4), (10**9, 0.37)])
def test_binomial_probabilities_keep_their_digits(n, share):
    counts = binomial.window(n=n, probability=share)
    got = np.exp(binomial.log_pmf(counts, n=n, probability=share))
    some = np.unique(np.linspace(0, counts.size - 1, 50).astype(int))
    expected = binom.pmf(counts[some], n, share)
    big = expected > 1e-15
    assert got[some][big] == pytest.approx(expected[big], rel=1e-9)


def test_the_rules_of_thumb_are_no_bounds():
    """Equation (2) lies below the theorem it abbreviates, so it proves nothing."""
    assert ask("blog-large", 6, 10**6) < ask("fmt21-blog", 6, 10**6)
    assert not canonne22.large.certified
