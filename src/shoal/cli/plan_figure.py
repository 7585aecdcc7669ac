"""A plan as a figure: the error of each randomizer, on a logarithmic axis."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.explain.text import plain
from shoal.figures import style
from shoal.planning import Option, Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DOTS_PER_INCH = 160


def draw(plan: Plan, path: Path) -> None:
    """Write the figure; the ending of the name says what kind of file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with style.applied():
        figure = Figure(figsize=(8.0, 1.6 + 0.36 * len(_rows(plan))), layout="constrained")
        FigureCanvasAgg(figure)
        _fill(figure.subplots(), plan)
        figure.savefig(path, dpi=_DOTS_PER_INCH)


def _rows(plan: Plan) -> list[tuple[str, float]]:
    return [
        (f"{option.name}, {_said(option)}", option.errors.l2)
        for option in plan.options
        if option.errors is not None
    ]


def _said(option: Option) -> str:
    if option.local_epsilon is None or math.isinf(option.local_epsilon):
        return f"{option.messages or 1.0:.3g} messages"
    return f"ε₀ = {option.local_epsilon:.2f}"


def _fill(axes: Axes, plan: Plan) -> None:
    names, errors = zip(*_rows(plan), strict=True)
    places = range(len(names))
    colors = [style.BLUE, *[style.FAINT] * (len(names) - 1)]
    for place, error, color in zip(places, errors, colors, strict=True):
        axes.plot([error], [place], "o", color=color, markersize=8)
        text = f"{error:,.3g}"
        axes.annotate(text, (error, place), (9, -3), textcoords="offset points", fontsize=8.5)
    references = (("trusted curator", plan.central), ("no shuffler", plan.local))
    for name, reference in references:
        if reference is not None:
            axes.axvline(reference.l2, color=style.QUIET, linestyle="--", linewidth=1)
            where = (reference.l2, 1.0)
            transform = axes.get_xaxis_transform()
            axes.annotate(name, where, (3, 3), xycoords=transform, textcoords="offset points")
    axes.set_xscale("log")
    axes.set_yticks(list(places), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.margins(x=0.2)
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    question = plan.question
    target = f"ε = {plain(question.epsilon)}, δ = {plain(question.delta)}"
    axes.set_xlabel(
        "expected L2 error of the counts" if question.categories else "error of the sum"
    )
    axes.set_title(f"{question.n:,} people at {target}", pad=22)
