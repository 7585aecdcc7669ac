"""The chart of a result as a file: SVG to print, PNG to show."""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Sequence
from threading import Lock
from typing import Any, Literal

from shoal.explain.text import measured, plain, up
from shoal.report.result import Result
from shoal.values import MeanEstimate
from shoal.web.dashboard.answers import Answer

Kind = Literal["svg", "png"]

MOST = 40
_WIDTH = 8.0  # inches
_BAR, _PALE, _INK, _QUIET = "#5a9bd3", "#c3d9ec", "#10263a", "#555555"
_LETTERS = 40
_DOTS = 144  # per inch
_RC: dict[Any, Any] = {
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.edgecolor": _QUIET,
    "svg.fonttype": "none",  # letters stay letters, and are drawn in whatever font has them
    "svg.hashsalt": "shoal",
}
_drawing = Lock()  # settings of the library are everybody's


def picture(result: Result, listed: Sequence[Answer], kind: Kind) -> bytes:
    """The chart, its question above and its guarantee below."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = listed[:MOST]
    estimate = result.estimate
    with _drawing, mpl.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # letters that the font lacks are boxes
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        rows = max(len(shown), 2)
        figure = Figure(figsize=(_WIDTH, 1.9 + 0.26 * rows), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        if isinstance(estimate, MeanEstimate):
            _draw_mean(axes, estimate)
        else:
            _draw_shares(axes, shown)
        title = textwrap.fill(_plain(result.only.column), 80, max_lines=4)
        figure.suptitle(title, fontsize=11, x=0.02, ha="left", parse_math=False)
        figure.supxlabel(_below(result, len(listed) - len(shown)), fontsize=8, color=_QUIET)
        written = io.BytesIO()
        about = {"Date": None} if kind == "svg" else {}
        figure.savefig(written, format=kind, dpi=_DOTS, metadata=about)
    return written.getvalue()


def _below(result: Result, more: int) -> str:
    found = result.guarantee
    what = f"95 % intervals, of the noise alone, among those who answered; {result.n:,} reports"
    rest = f"; {more:,} answers more" if more > 0 else ""
    return f"{what}{rest}; ε = {up(found.epsilon)} at δ = {plain(found.delta)}"


def _draw_shares(axes: Any, shown: Sequence[Answer]) -> None:  # noqa: ANN401 - of the library
    places = range(len(shown))
    colors = [_BAR if answer.significant else _PALE for answer in shown]
    reach = [
        [max(0.0, answer.share - answer.low) for answer in shown],
        [max(0.0, answer.high - answer.share) for answer in shown],
    ]
    axes.barh(places, [answer.share for answer in shown], color=colors, height=0.7)
    axes.errorbar(
        [answer.share for answer in shown],
        places,
        xerr=reach,
        fmt="none",
        ecolor=_INK,
        elinewidth=1,
        capsize=2.5,
    )
    axes.set_yticks(places, [_shortened(answer.label) for answer in shown])
    for label in axes.get_yticklabels():
        label.set_parse_math(False)
    axes.invert_yaxis()
    axes.axvline(0, color=_QUIET, linewidth=0.8)
    axes.set_xlabel("share, %")


def _draw_mean(axes: Any, estimate: MeanEstimate) -> None:  # noqa: ANN401 - of the library
    low, high = estimate.interval()
    axes.errorbar(
        [estimate.mean],
        [0],
        xerr=[[estimate.mean - low], [high - estimate.mean]],
        fmt="o",
        color=_BAR,
        ecolor=_INK,
        capsize=4,
    )
    axes.set_yticks([])
    margin = (high - low) / 2
    mean, first, last = (measured(each, margin) for each in (estimate.mean, low, high))
    axes.set_xlabel(f"mean: {mean}, from {first} to {last}")


def _shortened(label: str) -> str:
    plain = _plain(label)
    return plain if len(plain) <= _LETTERS else f"{plain[: _LETTERS - 1]}…"


def _plain(text: str) -> str:
    """One line of letters; what has no shape is left out."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
