"""Results draw themselves in one style: on new axes or on the user's own."""

from __future__ import annotations

import itertools
import sys
from functools import cache

import numpy as np
import polars as pl
import pytest

import shoal
from shoal.errors import InvalidArgumentError, MissingExtraError
from shoal.explain import plots
from shoal.explain.plots import Axis, Look
from shoal.explain.views import CurveViews
from shoal.network.account import WalkAccountant
from shoal.network.generators import barabasi_albert, random_regular
from shoal.network.walk import Walk
from shoal.network.walk_table import table


@pytest.fixture(scope="module", autouse=True)
def _no_windows():
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    before = mpl.get_backend()
    plt.switch_backend("Agg")
    yield
    plt.close("all")
    plt.switch_backend(before)


def result():
    frame = pl.DataFrame({"colour": ["red"] * 600 + ["$green$"] * 300 + ["blue"] * 100})
    return shoal.run(frame, "colour", epsilon=1.0)


def walked(graph, rounds):
    return table(WalkAccountant(Walk(graph), local_epsilon=1), rounds=rounds)


DRAWN = {
    "guarantee": lambda: shoal.amplify(local_epsilon=1, n=1_000, delta=1e-6),
    "published": lambda: shoal.amplify(local_epsilon=1, n=1_000, delta=1e-6, bound="fmt22-closed"),
    "profile": lambda: shoal.profile(local_epsilon=1, n=1_000),
    "rounds": lambda: shoal.profile(local_epsilon=1, n=1_000) * 3,
    "comparison": lambda: shoal.compare(local_epsilon=1, n=1_000),
    "plan": lambda: shoal.plan(
        shoal.Choice("c", 20), epsilon=1, n=10_000, limits=shoal.Limits(messages=20)
    ),
    "result": result,
    "audit": lambda: shoal.audit(
        shoal.RandomizedResponse(k=2, epsilon=1), n=10, delta=1e-2, runs=1_000
    ),
    "walk": lambda: walked(random_regular(200, 32), rounds=3),
}


@pytest.fixture(scope="module")
def drawn():
    """What is drawn again and again; the points of a curve are computed once."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(CurveViews, "_points", cache(CurveViews._points))
        yield {name: make() for name, make in DRAWN.items()}


def texts(axes):
    """The boxes of all texts in a drawn figure that are not empty, but for hidden ticks."""
    from matplotlib.text import Text

    figure = axes.figure
    figure.canvas.draw()
    hidden = []
    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        hidden += [tick.label1 for tick in ticks if not low <= tick.get_loc() <= high]
    found = [text for text in figure.findobj(Text) if text.get_text() and text not in hidden]
    return [(text.get_text(), Text.get_window_extent(text)) for text in found if text.get_visible()]


@pytest.mark.parametrize("name", DRAWN)
def test_it_draws_on_new_axes_and_no_text_on_another(drawn, name):
    axes = drawn[name].plot()
    boxes = texts(axes)
    assert len(boxes) > 5
    page = axes.figure.bbox
    for text, box in boxes:
        assert page.x0 - 1 <= box.x0 <= box.x1 <= page.x1 + 1, text
    for (text, box), (other, another) in itertools.combinations(boxes, 2):
        apart = (
            box.x1 - 1 <= another.x0
            or another.x1 - 1 <= box.x0
            or box.y1 - 1 <= another.y0
            or another.y1 - 1 <= box.y0
        )
        assert apart, (text, other)
    assert not any("1e" in text for text, _ in boxes)


@pytest.mark.parametrize("name", DRAWN)
def test_it_draws_on_the_axes_it_is_given(drawn, name):
    import matplotlib as mpl
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    before = dict(mpl.rcParams)
    assert drawn[name].plot(ax=axes) is axes
    assert axes.has_data()
    assert dict(mpl.rcParams) == before


def test_plots_of_the_readers_own_have_the_style(drawn):
    from matplotlib import pyplot as plt

    with plt.style.context(plots.STYLE):
        own, drawn_by_us = plt.subplots()[1], drawn["profile"].plot()
        for axes in (own, drawn_by_us):
            assert axes.figure.get_facecolor() == (1, 1, 1, 1)  # legible on dark pages, too
            assert axes.spines["top"].get_visible() is False
            assert axes.xaxis.get_gridlines()[0].get_visible()
        assert own.plot([1])[0].get_color() == plots.BLUE


def test_a_notebook_stays_interactive_after_its_first_figure():
    import matplotlib as mpl

    assert not mpl.is_interactive()
    try:
        with plots.applied():
            mpl.interactive(b=True)  # as a notebook's backend does when it is loaded
        assert mpl.is_interactive()
    finally:
        mpl.interactive(b=False)


def test_a_curve_is_drawn_with_its_lower_bound_and_the_guarantee_on_it(drawn):
    guarantee = drawn["guarantee"]
    lines = {line.get_label(): line.get_xydata() for line in guarantee.plot().get_lines()}
    proved, lower = lines["proved"], lines["lower bound"]
    assert len(proved) > 15
    assert (lower[:, 0] <= proved[-len(lower) :, 0]).all()
    (point,) = (xy for label, xy in lines.items() if label.startswith("ε = "))
    assert point.tolist() == [[guarantee.epsilon, guarantee.delta]]
    assert guarantee.profile.delta(guarantee.epsilon) == pytest.approx(1e-6, rel=1e-3)


def test_a_plan_says_how_many_messages(drawn):
    labels = [label.get_text() for label in drawn["plan"].plot().get_yticklabels()]
    assert labels[0].startswith(drawn["plan"].recommended.name)
    assert any(": 1 message, ε₀ = " in label for label in labels)
    assert not any("1 messages" in label for label in labels)


def test_a_walk_draws_curves_that_can_be_told_apart(drawn):
    same = drawn["walk"].plot().get_legend()
    assert [text.get_text() for text in same.get_texts()] == ["everybody, and any fraction"]
    apart = walked(barabasi_albert(400, 8), rounds=4).plot()
    assert len(apart.get_legend().get_texts()) > 1


def test_a_result_shows_its_intervals(drawn):
    axes = drawn["result"].plot()
    assert [label.get_text() for label in axes.get_yticklabels()][:2] == ["red", "$green$"]
    assert len(axes.collections) == len(drawn["result"].labels)
    several = pl.DataFrame({"a": ["x", "y"] * 300, "b": ["x", "y"] * 300})
    both = shoal.run(several, ["a", "b"], epsilon=1.0)
    with pytest.raises(InvalidArgumentError, match="one column"):
        both.plot()
    assert both["a"].plot().get_title(loc="left") == "a"


def test_without_matplotlib_it_says_what_to_install(drawn, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match="drawing needs matplotlib: pip"):
        drawn["profile"].plot()


def test_a_page_is_written_with_title_and_caption(tmp_path):
    def draw(axes):
        plots.frame(axes, Axis("x", (1, 10)), Axis("y", (1, 10)))
        plots.plot(axes, ([1, 10], [1, 10]), Look("a curve", plots.BLUE))
        plots.label_ends(axes)

    for suffix, magic in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        plots.save(tmp_path / f"page.{suffix}", "A title", draw, caption="A caption.")
        assert (tmp_path / f"page.{suffix}").read_bytes().startswith(magic)


# ------------------------------------------------------------------------------------------ tables


def test_a_profile_is_a_table(drawn):
    profile = drawn["profile"]
    frame = profile.to_polars()
    assert frame.columns == ["delta", "epsilon", "lower"]
    np.testing.assert_allclose(profile.epsilon(frame["delta"].to_numpy()), frame["epsilon"])
    assert (frame["lower"] <= frame["epsilon"]).all()
    assert profile.to_pandas().shape == frame.shape
    assert "lower bound" in profile._repr_html_()
    assert "3, composed" in drawn["rounds"]._repr_html_()


def test_what_cannot_be_reached_is_left_out():
    limited = shoal.profile(local_epsilon=1, local_delta=1e-9, n=1_000)
    deltas = limited.to_polars()["delta"]
    assert 0 < len(deltas) < 6
    assert deltas.min() >= limited.smallest_delta


def test_a_comparison_is_a_list_and_a_table(drawn):
    rows = drawn["comparison"]
    assert isinstance(rows, list)
    frame = rows.to_polars()
    assert frame["bound"].to_list() == [row.name for row in rows]
    assert frame.height == len(rows.to_pandas())
    assert rows[0].name in str(rows)
    assert rows._repr_html_().count("lower bound") == 1


def test_an_audit_draws_the_claim_that_is_refuted_unless_another_is_named():
    claims = {"n": 5, "delta": 0.05, "runs": 3_000, "confidence": 1 - 1e-9}
    leaky = shoal.audit(np.array([[0.9, 0.1], [0.1, 0.9]]), epsilon=9, local_epsilon=1, **claims)
    assert [each.violated for each in leaky.evidences] == [False, True]
    assert "one message by itself" in leaky.plot().get_title(loc="left")
    assert "VIOLATED" in leaky.plot().get_title(loc="left")
    assert "5 people" in leaky.plot(claim="crowd").get_title(loc="left")
    crowd = shoal.audit(lambda bit: bit, inputs=[0, 1], epsilon=9, **claims)
    with pytest.raises(InvalidArgumentError, match="expected 'crowd', got claim='local'"):
        crowd.plot(claim="local")
