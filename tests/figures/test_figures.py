"""Every figure draws, and the numbers in it obey the laws it is drawn to show."""

from __future__ import annotations

import csv
import itertools
import math

import numpy as np
import pytest
from scipy import stats

import brute
from repository import run_python
from shoal import figures
from shoal.accounting import catalog, repeated
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.errors import InvalidArgumentError
from shoal.explain import plots
from shoal.figures import DRAWINGS, bounds, learning_curves, network, separation
from shoal.figures.drawing import Drawing, Table

# Both sides of a comparison are certified; only the solvers' tolerance may lie between them.
SLACK = 1 + 1e-5


@pytest.fixture(scope="module")
def drawn(tmp_path_factory, numbers):
    """All figures with few points in one directory, what was reported on the way, and the pages."""
    out = tmp_path_factory.mktemp("figures") / "not" / "there" / "yet"
    told, pages, draw = [], {}, Drawing.figure
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            Drawing, "figure", lambda d, table: pages.setdefault(d.name, draw(d, table))
        )
        written = figures.draw_all(out, progress=told.append, points=numbers.points)
    return out, written, told, pages


@pytest.fixture(scope="module")
def tables(drawn):
    """The CSV files as tables: what a reader of the figures gets."""
    return {name: read(drawn[0] / f"{name}.csv") for name in figures.NAMES}


def read(path):
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return Table([{name: float(v) if v else None for name, v in row.items()} for row in rows])


# ------------------------------------------------------------------------------------- the files


def test_every_figure_is_three_files(drawn, numbers):
    out, written, told, _ = drawn
    expected = {f"{name}.{suffix}" for name in figures.NAMES for suffix in ("svg", "png", "csv")}
    assert {path.name for path in written} == expected == {path.name for path in out.iterdir()}
    assert told == list(figures.NAMES)
    for path in written:
        content = path.read_bytes()
        if path.suffix == ".png":
            assert content.startswith(b"\x89PNG")
            assert len(content) > 20_000
        elif path.suffix == ".svg":
            assert content.rstrip().endswith(b"</svg>")
            assert len(content) > 20_000
        else:
            assert content.count(b"\n") > numbers.points


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda drawing: drawing.name)
def test_no_text_is_cut_off_or_on_top_of_another(drawing, drawn):
    from matplotlib.text import Text

    with plots.applied():
        figure = drawn[3][drawing.name]
        page = figure.bbox
        # Of an annotation, the words alone, without the line that leads to them.
        boxes = [(text.get_text(), Text.get_window_extent(text)) for text in _shown_texts(figure)]
    assert drawing.title in {text for text, _ in boxes}
    for text, box in boxes:
        assert page.x0 <= box.x0 <= box.x1 <= page.x1, text
        assert page.y0 <= box.y0 <= box.y1 <= page.y1, text
    for (text, box), (other, another) in itertools.combinations(boxes, 2):
        assert not _overlap(box, another), (text, other)


def _shown_texts(figure):
    """All texts but empty ones and the labels that ticks outside of the limits keep."""
    from matplotlib.text import Text

    hidden = []
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for ticks in (axis.get_major_ticks(), axis.get_minor_ticks()):
            outside = [t for t in ticks if not low / 1.001 <= t.get_loc() <= high * 1.001]
            hidden += [label for tick in outside for label in (tick.label1, tick.label2)]
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]
    return [text for text in texts if text not in hidden]


def _overlap(box, other):
    inner = 1.0  # pixels: touching is allowed
    return (
        box.x0 + inner < other.x1
        and other.x0 + inner < box.x1
        and box.y0 + inner < other.y1
        and other.y0 + inner < box.y1
    )


def test_the_same_numbers_give_the_same_files_whatever_the_users_settings(drawn, numbers, tmp_path):
    import matplotlib as mpl

    with mpl.rc_context({"font.size": 31.0}):
        before = dict(mpl.rcParams)
        written = figures.draw_all(tmp_path, only="randomizers", points=numbers.points)
        assert dict(mpl.rcParams) == before
    assert {path.name for path in written} == {
        f"randomizers.{end}" for end in ("svg", "png", "csv")
    }
    assert sorted(tmp_path.iterdir()) == sorted(written)
    for path in written:
        assert path.read_bytes() == (drawn[0] / path.name).read_bytes(), path.name
    assert b"<dc:date>" not in (tmp_path / "randomizers.svg").read_bytes()


@pytest.mark.parametrize(
    ("asked", "says"), [({"only": "epsilon"}, "epsilon-vs-n-small"), ({"points": 1}, "points")]
)
def test_what_cannot_be_drawn_is_refused_before_anything_is(tmp_path, asked, says):
    with pytest.raises(InvalidArgumentError, match=says) as caught:
        figures.draw_all(tmp_path / "never", **asked)
    assert caught.value.name in asked
    assert not (tmp_path / "never").exists()


def test_matplotlib_is_loaded_only_to_draw():
    code = "import sys; from shoal import figures; print('matplotlib' in sys.modules)"
    assert run_python(code).strip() == "False"


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda drawing: drawing.name)
def test_a_caption_says_whose_settings_and_whose_figure(drawing):
    assert ("Settings chosen by us" in drawing.caption) != ("at its settings" in drawing.caption)
    assert "n = 10" in drawing.caption or "n" in drawing.title
    assert "arXiv" in drawing.caption


# ----------------------------------------------------------------------------------- the numbers

LOCAL, PROVED = "local_epsilon", "lower optimal-clones clones"
TAIL, METHODS = "binary-response clones", "lower pld renyi advanced gddsk21-renyi"


def law(figure, x, *ordered, rises="", falls="", **where):
    """Columns each of which is at most the next, in some rows, and what becomes of them with x."""
    return pytest.param(figure, where, x, ordered, rises, falls, id=figure)


def laws():
    closed = f"{PROVED} fmt21-closed"
    for size in ("small", "large"):
        second = "optimal-clones fmt22-closed fmt21-closed"
        yield law(f"epsilon-vs-n-{size}", "n", closed, second, falls=" ".join(bounds.LOOKS))
    for n in (1e4, 1e6):
        second, rises = f"clones {LOCAL}", f"{closed} fmt22-closed"
        yield law("epsilon-vs-local-epsilon", LOCAL, closed, second, rises=rises, n=n)
    for local in (1.0, 4.0):
        ordered = f"{PROVED} gddsk21", f"clones {LOCAL}"
        yield law("renyi-vs-order", "order", *ordered, rises=PROVED, local_epsilon=local)
    ordered = "lower pld renyi gddsk21-renyi", "pld advanced"
    yield law("epsilon-vs-rounds", "rounds", *ordered, rises=METHODS)
    for delta in bounds.DELTAS:
        rows = {"panel": 0, "delta": delta}
        yield law("privacy-loss-tail", LOCAL, f"{TAIL} {LOCAL}", rises=TAIL, **rows)
    for local in bounds.LOCAL_EPSILONS:
        rows = {"panel": 1, LOCAL: local}
        yield law("privacy-loss-tail", "delta", f"{TAIL} {LOCAL}", falls=TAIL, **rows)
    for k in (2, 10, 100, 1000):
        ordered = [f"k{k}-lower k{k} optimal-clones {LOCAL}"] + [f"k{k} k{k}-closed"] * (k < 1000)
        yield law("randomizers", LOCAL, *ordered, rises=f"k{k}")
    yield law("randomizers", LOCAL, "k1000 k100 k10 k2")
    for graph in network.GRAPHS:
        shares = f"{graph}-median {graph}-worst"
        by_rounds, few, many = (
            f"central {shares} {LOCAL}",
            *(f"{graph}-{t}" for t in network.ROUNDS),
        )
        yield law("network-epsilon-vs-rounds", "rounds", by_rounds, falls=shares)
        between = f"central {many} {few} {LOCAL}"
        yield law("network-epsilon-vs-local-epsilon", LOCAL, between, rises=many)
    between = f"optimal-clones network-19 network-15 {LOCAL}"
    yield law("network-mechanisms", "n", between, falls="subsampling")
    for panel, x in enumerate("dn"):
        ordered = "central dummies zero-sum claim", "single local"
        yield law("separation", x, *ordered, rises="local single", panel=panel)
    for k in separation.RESPONSES:
        yield law("pure-privacy", "digits", f"k{k}-lower k{k} {LOCAL}", rises=f"k{k}")
    for norm in learning_curves.NORMS:
        models = (f"{norm}-{name}" for name in ("non-private", "central", "shuffle", "local"))
        yield law("learning-curves", "n", " ".join(models), rises=LOCAL)


@pytest.mark.parametrize(("figure", "where", "x", "ordered", "rises", "falls"), [*laws()])
def test_the_numbers_obey_the_laws_that_the_figure_is_drawn_to_show(
    tables, figure, where, x, ordered, rises, falls
):
    rows = tables[figure].where(**where)
    for low, high in (pair for chain in ordered for pair in itertools.pairwise(chain.split())):
        both = [(row[low], row[high]) for row in rows.rows if None not in (row[low], row[high])]
        assert both, f"{low} and {high} are never both there"
        assert all(a <= b * SLACK for a, b in both), (low, high, both)
    for step, columns in ((1, rises), (-1, falls)):
        for column in columns.split():
            xs, ys = rows.curve(x, column)
            assert all(a < b for a, b in itertools.pairwise(xs))
            assert all(a <= b * SLACK for a, b in itertools.pairwise(ys[::step])), (column, ys)


@pytest.mark.parametrize(
    ("name", "column", "ends"),
    [
        ("epsilon-vs-n-small", "n", (1e5, 1e7)),
        ("epsilon-vs-n-large", "n", (1e5, 1e7)),
        ("epsilon-vs-rounds", "rounds", (1, 1000)),
    ],
)
def test_what_is_along_the_axis(tables, name, column, ends):
    values = tables[name].column(column)
    assert (values[0], values[-1]) == ends
    assert set(tables[name].column("delta")) == {1e-6}


def test_each_bound_is_somewhere():
    """A curve that no figure shows would be a label without a line."""
    small = bounds.row(local_epsilon=0.1, n=10**6, delta=1e-6)
    assert all(small[name] is not None for name in (*bounds.NAMES, "lower"))


def test_published_values_are_in_the_table(tables):
    row = bounds.row(local_epsilon=4.0, n=10**5, delta=1e-6)
    known = {"optimal-clones": 0.118153, "clones": 0.169770, "fmt21-closed": 0.53463}
    for name, value in (known | {"lower": 0.117026}).items():
        assert row[name] == pytest.approx(value, rel=1e-4)
    assert row["efmrtt19"] is row["bkmtt20"] is None
    renyi = tables["renyi-vs-order"].column("optimal-clones")[0]
    assert renyi == pytest.approx(1.5887e-3, rel=1e-4)
    assert renyi == pytest.approx(PrivacyProfile(BlanketLaw.generic(1.0), 1000).renyi(2))


def test_a_formula_that_amplifies_nothing_is_not_drawn(tables):
    table = tables["epsilon-vs-local-epsilon"]
    for formula in set(bounds.NAMES) - bounds.NUMERICAL:
        eps, values = table.curve("local_epsilon", formula)
        assert all(value < local for local, value in zip(eps, values, strict=True))


def test_the_best_composition_is_nearly_optimal(tables):
    table = tables["epsilon-vs-rounds"]
    pairs = zip(table.column("lower"), table.column("pld"), strict=True)
    assert all(high < 1.03 * low for low, high in pairs)


def test_binary_response_is_as_bad_as_any_randomizer(tables):
    table = tables["randomizers"]
    assert set(table.column("k1000-closed")) == {None}
    assert np.allclose(table.column("optimal-clones"), table.column("k2"), rtol=1e-5)


@pytest.mark.parametrize("delta", bounds.DELTAS)
def test_the_transition_is_where_it_is_marked(delta):
    at = bounds.transition(delta)

    def share(local_epsilon):
        law = BlanketLaw.randomized_response(k=2, epsilon=local_epsilon)
        return PrivacyProfile(law, bounds.TAIL_N).lower_epsilon(delta) / local_epsilon

    assert share(at - 0.75) < 0.5
    assert share(at + 0.25) > 0.95


# ------------------------------------------------------------------------------ many rounds, below


def test_the_witness_agrees_with_the_integral_after_one_round():
    for local_epsilon, n in ((1.0, 10**4), (4.0, 10**5), (6.0, 10**5)):
        single = repeated.epsilon(BlanketLaw.generic(local_epsilon), n=n, rounds=1, delta=1e-6)
        known = PrivacyProfile(BlanketLaw.generic(local_epsilon), n).lower_epsilon(1e-6)
        assert single <= known * SLACK
        assert single == pytest.approx(known, rel=5e-3)


@pytest.mark.parametrize("rounds", [1, 2])
def test_the_witness_never_exceeds_the_truth(rounds):
    """Small enough to list every pair of counts of both rounds."""
    n, local_epsilon, delta = 40, 1.0, 0.05
    table = brute.response(3, local_epsilon)
    others = np.array(
        [
            [stats.multinomial.pmf([a, b, n - 1 - a - b], n - 1, table[2]) for b in range(n)]
            for a in range(n)
        ]
    )
    p, q = (_reported(others, row).ravel() for row in table[:2])
    kept = p + q > 1e-12
    p, q = p[kept], q[kept]
    if rounds == 2:
        p, q = np.outer(p, p).ravel(), np.outer(q, q).ravel()
    found = repeated.epsilon(BlanketLaw.generic(local_epsilon), n=n, rounds=rounds, delta=delta)
    true_delta = np.maximum(p - math.exp(found) * q, 0.0).sum()
    assert delta <= true_delta * (1 + 1e-6)
    assert true_delta < 1.1 * delta


def _reported(law, row):
    """Law of the numbers of zeros and ones after one more report."""
    after = row[2] * np.pad(law, (0, 1))
    after[1:, :-1] += row[0] * law
    after[:-1, 1:] += row[1] * law
    return after


# -------------------------------------------------------------------------------------- the style


def test_what_is_recalled_says_so_and_no_two_curves_look_the_same():
    for name in set(bounds.LOOKS) - {"lower"}:
        recalled = catalog.get(name).status is catalog.Status.RECALLED
        assert ("(not checked)" in bounds.LOOKS[name].label) == recalled, name
    looks = [(look.color, look.dash) for look in bounds.LOOKS.values()]
    assert len(set(looks)) == len(looks)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.001, "0.001"),
        (1e-4, "$10^{-4}$"),
        (2e5, r"$2\cdot10^{5}$"),
        (50, "50"),
        (1e4, "$10^{4}$"),
    ],
)
def test_ticks_are_read_as_they_are_said(value, text):
    assert plots.tick(value) == text


def test_a_table_has_gaps_and_only_its_columns():
    table = Table([{"n": 1, "a": 0.5}, {"n": 2, "a": None}, {"n": 3, "a": 0.25}])
    assert table.csv() == "n,a\n1,0.5\n2,\n3,0.25\n"
    assert table.curve("n", "a") == ([1, 3], [0.5, 0.25])
    assert [*table.where(n=3).rows] == [{"n": 3, "a": 0.25}]
    with pytest.raises(InvalidArgumentError, match="b"):
        table.column("b")
