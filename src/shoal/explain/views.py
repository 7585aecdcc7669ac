"""What results show of themselves: data frames, a notebook's HTML, plots of privacy curves."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from shoal.errors import MissingExtraError, PrecisionError, UnreachableTargetError
from shoal.explain import plots
from shoal.explain.document import Document, Row, Table
from shoal.explain.plots import Axis, Look
from shoal.explain.text import decimals_for, down_to, plain, up_to

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from matplotlib.axes import Axes

DELTAS = (1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12)
_DRAWN = tuple(10 ** (-0.5 * half) for half in range(1, 25))
_UPPER = Look("proved", plots.BLUE, plots.SOLID, 2.4)
_LOWER = Look("lower bound", plots.BLACK, plots.DOTTED, 1.8)


class Explained(ABC):
    """What has a document: as text, and in a notebook."""

    @abstractmethod
    def document(self) -> Document:
        """What it says, in words and tables."""

    def __str__(self) -> str:
        return str(self.document())

    def _repr_html_(self) -> str:
        return self.document().to_html()


class Tabular(Explained):
    """What has a table: as a data frame of Polars or of pandas, too."""

    @abstractmethod
    def records(self) -> list[dict[str, object]]:
        """The rows of the table, as plain values."""

    def _rows(self) -> list[dict[str, object]]:
        """The same with the names that columns of a data frame have."""
        return self.records()

    def to_polars(self) -> pl.DataFrame:
        """The table as a Polars data frame."""
        import polars as pl

        return pl.DataFrame(self._rows(), infer_schema_length=None)

    def to_pandas(self) -> pd.DataFrame:
        """The table as a pandas data frame."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtraError("a pandas data frame", "pandas") from error
        return pd.DataFrame(self._rows())


class CurveViews(Tabular):
    """A privacy curve δ(ε) as a table of some δ, as a plot and in a notebook."""

    @abstractmethod
    def _facts(self) -> tuple[tuple[str, str], ...]:
        """What the curve is of."""

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """The ε proved at this δ."""

    @abstractmethod
    def lower_epsilon(self, delta: float) -> float:
        """An ε that no analysis can go below at this δ."""

    def _points(self, deltas: Sequence[float]) -> list[tuple[float, float, float]]:
        """(δ, ε, lower bound of ε) at those of the deltas for which there is a proof."""
        points = []
        for delta in deltas:
            with suppress(UnreachableTargetError, PrecisionError):
                points.append((delta, float(self.epsilon(delta)), self.lower_epsilon(delta)))
        return points

    def records(self) -> list[dict[str, object]]:
        """ε and its lower bound at a few δ."""
        names = ("delta", "epsilon", "lower")
        return [dict(zip(names, point, strict=True)) for point in self._points(DELTAS)]

    def document(self) -> Document:
        """What the curve is of, and ε at a few δ."""
        points = self._points(DELTAS)
        known = [epsilon for _, epsilon, _ in points if epsilon > 0]
        decimals = decimals_for(min(known, default=1.0))
        rows = tuple(
            Row((plain(delta), up_to(epsilon, decimals), down_to(lower, decimals)))
            for delta, epsilon, lower in points
        )
        table = Table(("δ", "ε, proved", "lower bound"), rows, frozenset({0, 1, 2}))
        return Document("Privacy profile: ε by δ", facts=self._facts(), table=table)

    def plot(self, ax: Axes | None = None) -> Axes:
        """δ against ε on a logarithmic axis, with the lower bound below which no analysis goes."""
        with plots.on(ax) as axes:
            draw_curve(axes, self._points(_DRAWN))
        return axes


def draw_curve(axes: Axes, points: Sequence[tuple[float, float, float]]) -> None:
    """δ against ε, and its lower bound."""
    shown = [point for point in points if point[1] > 0]
    widest = max((epsilon for _, epsilon, _ in shown), default=1.0)
    lowest = min((delta for delta, _, _ in shown), default=1e-12)
    plots.frame(axes, Axis("ε", (0, 1.05 * widest), log=False), Axis("δ", (lowest, 1)))
    deltas = [delta for delta, _, _ in shown]
    plots.plot(axes, ([epsilon for _, epsilon, _ in shown], deltas), _UPPER)
    below = [(lower, delta) for delta, _, lower in shown if 0 < lower < math.inf]
    plots.plot(axes, ([lower for lower, _ in below], [delta for _, delta in below]), _LOWER)
    axes.legend()
