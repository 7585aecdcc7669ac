"""How curves look, the same in every figure.

The colour says whose bound it is (Okabe and Ito's colour-blind-safe palette), the dash what kind of
number: solid is a numerical evaluation, dashed a published formula, dotted a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

PAGE = (9.6, 5.6)  # inches

BLUE = "#0072B2"
SKY = "#56B4E9"
VERMILION = "#D55E00"
GREEN = "#009E73"
ORANGE = "#E69F00"
PURPLE = "#CC79A7"
BLACK = "#000000"
QUIET = "#555555"
FAINT = "#9A9A9A"
FORBIDDEN = "#EDEDED"

Dash = Literal["-"] | tuple[float, tuple[float, ...]]

SOLID: Final = "-"
DASHED: Final = (0.0, (5.0, 2.0))
DASH_DOT: Final = (0.0, (5.0, 1.5, 1.0, 1.5))
DOTTED: Final = (0.0, (1.0, 1.4))

_RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": BLACK,
    "axes.labelsize": 10,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "lines.solid_capstyle": "round",
    "svg.fonttype": "path",
    "svg.hashsalt": "shoal",
    "xtick.color": QUIET,
    "ytick.color": QUIET,
}


@dataclass(frozen=True)
class Look:
    """One curve's label, colour, dash and width."""

    label: str
    color: str
    dash: Dash = SOLID
    width: float = 1.6


LOOKS: Mapping[str, Look] = MappingProxyType(
    {
        "optimal-clones": Look("optimal clones", BLUE, SOLID, 2.6),
        "clones": Look("clones (FMT21)", VERMILION, SOLID, 2.0),
        "fmt22-closed": Look("FMT22 closed form", BLUE, DASHED),
        "fmt21-closed": Look("FMT21 closed form", VERMILION, DASHED),
        "bbgn19-bennett": Look("BBGN19, Bennett", GREEN, DASHED),
        "bbgn19-hoeffding": Look("BBGN19, Hoeffding", GREEN, DASH_DOT),
        "gddsk21": Look("GDDSK21, via Rényi", ORANGE, DASHED),
        "efmrtt19": Look("EFMRTT19", PURPLE, DASHED),
        "bkmtt20": Look("BKMTT20 (recalled)", FAINT, DASHED),
        "lower": Look("lower bound", BLACK, DOTTED, 1.8),
    }
)


@contextmanager
def applied() -> Iterator[None]:
    """Draw in this style, whatever the user's own settings are."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        yield


def legible(color: str) -> str:
    """Light colours are fine for lines and too pale for letters."""
    return {ORANGE: "#A87400", FAINT: "#6E6E6E", PURPLE: "#A85487", SKY: "#2B86B8"}.get(
        color, color
    )
