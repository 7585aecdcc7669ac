"""Every figure draws, and the numbers in it obey the laws it is drawn to show."""

from __future__ import annotations

import csv
import itertools
import math

import numpy as np
import pytest

from repository import run_python
from shoal import figures
from shoal.accounting import catalog, ternary
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.errors import InvalidArgumentError
from shoal.explain import plots
from shoal.figures import DRAWINGS, bounds
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


def assert_ordered(table, *names):
    """In every row each column is at most the next, where both have a value."""
    for low, high in itertools.pairwise(names):
        pairs = zip(table.column(low), table.column(high), strict=True)
        both = [(a, b) for a, b in pairs if a is not None and b is not None]
        assert both, f"{low} and {high} are never both there"
        assert all(a <= b * SLACK for a, b in both), (low, high, both)


def assert_falls(table, x, y):
    xs, ys = table.curve(x, y)
    assert len(xs) > 1
    assert all(a < b for a, b in itertools.pairwise(xs))
    assert all(b <= a * SLACK for a, b in itertools.pairwise(ys)), (y, ys)


def assert_rises(table, x, y):
    xs, ys = table.curve(x, y)
    assert len(xs) > 1
    assert all(a < b for a, b in itertools.pairwise(xs))
    assert all(a <= b * SLACK for a, b in itertools.pairwise(ys)), (y, ys)


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


def test_a_wrong_name_names_the_right_ones(tmp_path):
    with pytest.raises(InvalidArgumentError, match="epsilon-vs-n-small") as caught:
        figures.draw_all(tmp_path / "never", only="epsilon")
    assert caught.value.name == "only"
    assert not (tmp_path / "never").exists()


def test_too_few_points_are_refused(tmp_path):
    with pytest.raises(InvalidArgumentError, match="points"):
        figures.draw_all(tmp_path, points=1)


def test_matplotlib_is_loaded_only_to_draw():
    code = "import sys; from shoal import figures; print('matplotlib' in sys.modules)"
    assert run_python(code).strip() == "False"


@pytest.mark.parametrize("drawing", DRAWINGS, ids=lambda drawing: drawing.name)
def test_a_caption_says_whose_settings_and_whose_figure(drawing):
    assert ("Settings chosen by us" in drawing.caption) != ("at its settings" in drawing.caption)
    assert "n = 10" in drawing.caption or "n" in drawing.title
    assert "arXiv" in drawing.caption


# ----------------------------------------------------------------------------------- the numbers


@pytest.mark.parametrize("name", ["epsilon-vs-n-small", "epsilon-vs-n-large"])
def test_epsilon_against_n(tables, name):
    table = tables[name]
    assert table.column("n")[0] == 1e5
    assert table.column("n")[-1] == 1e7
    assert set(table.column("delta")) == {1e-6}
    assert_ordered(table, "lower", "optimal-clones", "clones", "fmt21-closed")
    assert_ordered(table, "optimal-clones", "fmt22-closed", "fmt21-closed")
    for column in (*bounds.NAMES, "lower"):
        if len(table.curve("n", column)[0]) > 1:
            assert_falls(table, "n", column)


def test_each_bound_is_somewhere():
    """A curve that no figure shows would be a label without a line."""
    small = bounds.row(local_epsilon=0.1, n=10**6, delta=1e-6)
    assert all(small[name] is not None for name in (*bounds.NAMES, "lower"))


def test_published_values_are_in_the_table():
    row = bounds.row(local_epsilon=4.0, n=10**5, delta=1e-6)
    assert row["optimal-clones"] == pytest.approx(0.118153, rel=1e-4)
    assert row["clones"] == pytest.approx(0.169770, rel=1e-4)
    assert row["fmt21-closed"] == pytest.approx(0.53463, rel=1e-4)
    assert row["lower"] == pytest.approx(0.117026, rel=1e-4)
    assert row["efmrtt19"] is None
    assert row["bkmtt20"] is None


def test_epsilon_against_local_epsilon(tables):
    table = tables["epsilon-vs-local-epsilon"]
    for n in (1e4, 1e6):
        rows = table.where(n=n)
        assert_ordered(rows, "lower", "optimal-clones", "clones", "fmt21-closed")
        assert_ordered(rows, "clones", "local_epsilon")
        for column in ("lower", "optimal-clones", "clones", "fmt21-closed", "fmt22-closed"):
            assert_rises(rows, "local_epsilon", column)
        for formula in set(bounds.NAMES) - bounds.NUMERICAL:
            eps, values = rows.curve("local_epsilon", formula)
            assert all(value < local for local, value in zip(eps, values, strict=True))


def test_renyi_against_order(tables):
    table = tables["renyi-vs-order"]
    for local_epsilon in (1.0, 4.0):
        rows = table.where(local_epsilon=local_epsilon)
        assert_ordered(rows, "lower", "optimal-clones", "clones", "gddsk21")
        for column in ("lower", "optimal-clones", "clones"):
            assert_rises(rows, "order", column)
        assert max(rows.column("clones")) <= local_epsilon
    known = PrivacyProfile(BlanketLaw.generic(1.0), 1000).renyi(2)
    assert table.column("optimal-clones")[0] == pytest.approx(known)
    assert table.column("optimal-clones")[0] == pytest.approx(1.5887e-3, rel=1e-4)


def test_epsilon_against_rounds(tables):
    table = tables["epsilon-vs-rounds"]
    assert table.column("rounds")[0] == 1
    assert table.column("rounds")[-1] == 1000
    assert_ordered(table, "lower", "pld", "renyi", "gddsk21-renyi")
    assert_ordered(table, "pld", "advanced")
    for column in ("lower", "pld", "renyi", "advanced", "gddsk21-renyi"):
        assert_rises(table, "rounds", column)
    lows, highs = table.column("lower"), table.column("pld")
    assert all(high < 1.03 * low for low, high in zip(lows, highs, strict=True))


def test_the_tail(tables):
    table = tables["privacy-loss-tail"]
    assert_ordered(table, "binary-response", "clones", "local_epsilon")
    for delta in bounds.DELTAS:
        rows = table.where(panel=0).where(delta=delta)
        assert_rises(rows, "local_epsilon", "binary-response")
        assert_rises(rows, "local_epsilon", "clones")
    for local_epsilon in bounds.LOCAL_EPSILONS:
        rows = table.where(panel=1).where(local_epsilon=local_epsilon)
        assert_falls(rows, "delta", "binary-response")
        assert_falls(rows, "delta", "clones")


@pytest.mark.parametrize("delta", bounds.DELTAS)
def test_the_transition_is_where_it_is_marked(delta):
    at = bounds.transition(delta)

    def share(local_epsilon):
        law = BlanketLaw.randomized_response(k=2, epsilon=local_epsilon)
        return PrivacyProfile(law, bounds.TAIL_N).lower_epsilon(delta) / local_epsilon

    assert share(at - 0.75) < 0.5
    assert share(at + 0.25) > 0.95


def test_randomizers(tables):
    table = tables["randomizers"]
    for k in (2, 10, 100, 1000):
        assert_ordered(table, f"k{k}-lower", f"k{k}", "optimal-clones", "local_epsilon")
        assert_rises(table, "local_epsilon", f"k{k}")
        if k < 1000:
            assert_ordered(table, f"k{k}", f"k{k}-closed")
    assert_ordered(table, "k1000", "k100", "k10", "k2")
    assert set(table.column("k1000-closed")) == {None}
    generic, binary = table.column("optimal-clones"), table.column("k2")
    assert np.allclose(generic, binary, rtol=1e-5)


# ------------------------------------------------------------------------------ many rounds, below


def test_the_witness_agrees_with_the_integral_after_one_round():
    for local_epsilon, n in ((1.0, 10**4), (4.0, 10**5), (6.0, 10**5)):
        single = ternary.epsilon(local_epsilon=local_epsilon, n=n, rounds=1, delta=1e-6)
        known = PrivacyProfile(BlanketLaw.generic(local_epsilon), n).lower_epsilon(1e-6)
        assert single <= known * SLACK
        assert single == pytest.approx(known, rel=5e-3)


@pytest.mark.parametrize("rounds", [1, 2])
def test_the_witness_never_exceeds_the_truth(rounds):
    """Small enough to list every pair of counts of both rounds."""
    n, local_epsilon, delta = 40, 1.0, 0.05
    truth = math.exp(local_epsilon)
    table = np.full((3, 3), 1.0) + np.eye(3) * (truth - 1)
    table /= table[0].sum()
    others = np.zeros((n + 1, n + 1))
    others[0, 0] = 1.0
    for _ in range(n - 1):
        others = _reported(others, table[2])
    p, q = _reported(others, table[0]).ravel(), _reported(others, table[1]).ravel()
    kept = p + q > 1e-12
    p, q = p[kept], q[kept]
    if rounds == 2:
        p, q = np.outer(p, p).ravel(), np.outer(q, q).ravel()
    found = ternary.epsilon(local_epsilon=local_epsilon, n=n, rounds=rounds, delta=delta)
    true_delta = np.maximum(p - math.exp(found) * q, 0.0).sum()
    assert delta <= true_delta * (1 + 1e-6)
    assert true_delta < 1.1 * delta


def _reported(law, row):
    """Law of the numbers of zeros and ones after one more report."""
    after = row[2] * law
    after[1:, :] += row[0] * law[:-1, :]
    after[:, 1:] += row[1] * law[:, :-1]
    return after


# -------------------------------------------------------------------------------------- the style


def test_what_is_recalled_says_so():
    for name in set(bounds.LOOKS) - {"lower"}:
        recalled = catalog.get(name).status is catalog.Status.RECALLED
        assert ("(not checked)" in bounds.LOOKS[name].label) == recalled, name


def test_no_two_curves_look_the_same():
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
