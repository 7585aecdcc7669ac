"""Edges: neighbouring bins of numbers or dates, in their natural order.

They are fixed before anybody reports: edges as they are given, so many equal bins between public
bounds, or as many as the number of people and epsilon are worth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.errors import InvalidArgumentError

Place = int | float | str | date
Binning = int | str | Sequence[Place] | npt.NDArray[Any]
Quantiles = float | Sequence[float]
Ranges = Sequence[tuple[Place, Place]]

CALENDAR = ("day", "week", "month")
MOST_BINS = 10_000
FEWEST, MOST_AUTOMATIC = 4, 100
_EPOCH = date(1970, 1, 1).toordinal()
_STEPS = (1, 2, 5)  # and ten times as much: widths of bins that nobody has counted out
_DIGITS = 6


@dataclass(frozen=True)
class Edges:
    """Neighbouring intervals: from an edge up to, but not including, the next one.

    Args:
        edges: Numbers in ascending order, or days since 1970 for dates. Of whole numbers the
            last edge is one above the largest; else the largest number is in the last bin.
        labels: What each bin is called.
        whole: Whether the numbers are whole; days are.
        dates: Whether edges are days since 1970.

    Example:
        >>> Edges.of(4, (0, 100), n=1000).labels
        ('0–24', '25–49', '50–74', '75–100')
    """

    edges: tuple[float, ...]
    labels: tuple[str, ...]
    whole: bool = False
    dates: bool = False

    @classmethod
    def of(
        cls,
        bins: Binning,
        bounds: Sequence[Place] | None = None,
        *,
        n: int,
        epsilon: float | None = None,
        real: bool = False,
    ) -> Edges:
        """The bins that are asked for.

        ``bins`` is how many, the edges, "auto", or "day", "week" or "month" of dates. Bounds and
        edges written as whole numbers make bins of whole numbers, unless the column's may be
        ``real``.

        >>> Edges.of(4, (0, 100), n=1000).labels
        ('0–24', '25–49', '50–74', '75–100')
        >>> Edges.of(4, (0.0, 1.0), n=1000).labels
        ('[0, 0.25)', '[0.25, 0.5)', '[0.5, 0.75)', '[0.75, 1]')
        """
        edges: list[float] | None = None
        bins = bins.tolist() if isinstance(bins, np.ndarray) else bins
        if isinstance(bins, str):
            checks.one_of(("auto", *CALENDAR), bins=bins)
        elif isinstance(bins, Sequence):
            edges, dates = _numbers("bins", bins)
        else:
            checks.count(2, bins=bins)
            checks.at_most(MOST_BINS, bins=bins)
        limits = edges
        if bounds is not None:
            limits, of_dates = _numbers("bounds", bounds)
            if edges is not None:
                covers = of_dates == dates and edges[0] <= limits[0] and limits[1] <= edges[-1]
                expected = f"edges that cover the bounds from {bounds[0]} to {bounds[1]}"
                checks.refuse(not covers, expected, bins=f"{bins[0]} to {bins[-1]}")  # type: ignore[index]
            dates = of_dates
        if limits is None:
            expected = f"public bounds (low, high) with bins={bins!r}"
            raise InvalidArgumentError("bounds", None, expected)
        numbers = edges or limits
        whole = dates or (not real and all(isinstance(number, int) for number in numbers))
        if bins in CALENDAR:
            expected = f"bounds that are dates, such as 2024-01-01 and 2024-12-31, for {bins!r}"
            checks.refuse(not dates, expected, bounds=bounds)
            return cls._calendar(str(bins), *map(int, limits))
        if bins == "auto":
            if epsilon is None:
                expected = "a number of bins, or their edges: auto needs epsilon, and there is none"
                raise InvalidArgumentError("bins", bins, expected)
            most = worthwhile(n, epsilon)
            return cls._automatic(limits[0], limits[1], most, whole=whole, dates=dates)
        if edges is None:
            numbers = _equal(limits[0], limits[1], int(bins), whole=whole)  # type: ignore[arg-type]
        return cls._between(numbers, whole=whole, dates=dates)

    @classmethod
    def _automatic(cls, low: float, high: float, most: int, *, whole: bool, dates: bool) -> Edges:
        """At most so many bins of a round width, cut at the bounds."""
        span = high - low + whole
        if dates and span > most:
            return cls._calendar("week" if span <= 7 * most else "month", int(low), int(high))
        exponent = math.floor(math.log10(span / most))
        scales = (Fraction(10) ** (exponent + more) for more in range(3))
        widths = (step * scale for scale in scales for step in _STEPS)
        width = next(w for w in widths if w * most >= Fraction(span) and (w >= 1 or not whole))
        start, end = Fraction(repr(low)), Fraction(repr(high))
        first, last = math.floor(start / width) + 1, math.ceil(end / width)
        # The largest number has a bin of its own where one more in the last would be half as many.
        single = whole and width <= 2 and end % width == 0
        inner = [float(width * place) for place in range(first, last + single)]
        if not inner:  # bounds that one width spans
            inner = _equal(low, high, 2, whole=whole)[1:-1]
        edges = [low, *inner, high]
        return cls._between(edges, whole=whole, dates=dates)

    @classmethod
    def _calendar(cls, unit: str, first: int, last: int) -> Edges:
        """Days, weeks (from Monday on) or months that hold all days from the first to the last."""
        day, edges = date.fromordinal(first + _EPOCH), list[date]()
        if unit == "week":
            day -= timedelta(days=day.weekday())
        elif unit == "month":
            day = day.replace(day=1)
        while day.toordinal() - _EPOCH <= last:
            edges.append(day)
            checks.refuse(len(edges) > MOST_BINS, f"at most {MOST_BINS:,} bins", bins=unit)
            month = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
            day = month if unit == "month" else day + timedelta(days=7 if unit == "week" else 1)
        expected = f"bounds that hold at least two bins of a {unit}"
        checks.refuse(len(edges) < 2, expected, bins=unit)
        labels = tuple(edge.isoformat()[: 7 if unit == "month" else 10] for edge in edges)
        places = tuple(float(edge.toordinal() - _EPOCH) for edge in (*edges, day))
        return cls(places, labels, whole=True, dates=True)

    @classmethod
    def _between(cls, edges: Sequence[float], *, whole: bool, dates: bool) -> Edges:
        """Bins between edges, whose last one includes the last edge."""
        places = [float(edge) for edge in edges]
        if whole:
            places[-1] += 1
        rising = all(low < high for low, high in pairwise(places))
        expected = "rising edges, apart by more than rounding"
        checks.refuse(not rising, expected, bins=", ".join(f"{edge:g}" for edge in places[:4]))
        made = cls(tuple(places), (), whole=whole, dates=dates)
        return replace(made, labels=tuple(made.label(i, i) for i in range(len(places) - 1)))

    def label(self, first: int, last: int) -> str:
        """What the values from one bin to another are called."""
        low, high = self._ends(first, last)
        if not self.whole:
            return f"[{low}, {high}{')' if self._open(last) else ']'}"
        if low == high:
            return low
        return f"{low} – {high}" if self.dates else f"{low}–{high}"

    def words(self, first: int, last: int) -> str:
        """From the least value to the largest, or to what is not reached."""
        low, high = self._ends(first, last)
        return low if low == high else f"{low} to {'below ' * self._open(last)}{high}"

    def _ends(self, first: int, last: int) -> tuple[str, str]:
        if self.whole:
            low, high = self.span(first, last)
            return str(low), str(high)
        return self._names[first], self._names[last + 1]

    def _open(self, last: int) -> bool:
        """Whether the upper edge of a bin is not in it."""
        return not self.whole and last + 2 < len(self.edges)

    @cached_property
    def _names(self) -> list[str]:
        return _shown(self.edges)

    def __len__(self) -> int:
        return len(self.labels)

    def range(self, first: Place, last: Place) -> tuple[int, int]:
        """The first and the last bin of values from one to another, which have to be their ends.

        Of whole numbers and days the last is in the range, too; of others only at the very end.
        """
        text, ends = f"{first} to {last}", (_place(first), _place(last))
        what = "dates" if self.dates else "numbers"
        known = all(end is not None and isinstance(end, date) == self.dates for end in ends)
        checks.refuse(not known, f"ranges of {what}, as the bins are", ranges=text)
        start, stop = (_number(end) for end in ends if end is not None)
        checks.refuse(start > stop, f"ranges of {what}, the lower one first", ranges=text)
        stop += self.whole
        inner = range(1, len(self))  # edges between bins
        i = max((place for place in inner if self.edges[place] <= start), default=0)
        j = min((place for place in inner if self.edges[place] >= stop), default=len(self))
        exact = (self.edges[i], self.edges[j]) == (start, stop)
        nearest = self.words(i, max(i, j - 1))
        below = "" if self.whole else ", up to and not including an edge"
        expected = f"ranges of whole bins{below} (the nearest is {nearest})"
        checks.refuse(not exact or start >= stop, expected, ranges=text)
        return i, j - 1

    def shown(self, place: float) -> int | float | str:
        """A place as the column has it: a number, a whole one, or a date."""
        if not self.whole:
            return place
        return _day(math.floor(place)) if self.dates else math.floor(place)

    def span(self, first: int, last: int) -> tuple[int | float | str, int | float | str]:
        """The least and the largest value from one bin to another."""
        return self.shown(self.edges[first]), self.shown(self.edges[last + 1] - self.whole)


def worthwhile(n: int, epsilon: float) -> int:
    """How many bins n people and ε are worth, whatever the data.

    The error of a cumulative count grows with the bins, and what a bin hides falls with
    them. With noise of about 8/ε people per bin (the error of one message each; a
    curator has 2.8) the middle of k bins is off by 4 √k/(n ε) of the people, and half a
    bin is 1/(2k) of them if they are spread evenly. Both are the same at k = (n
    ε/8)^(2/3).

    Args:
        n: People who report.
        epsilon: ε > 0.

    Returns:
        A number of bins, from 4 to 100.

    Example:
        >>> worthwhile(1_000, 1.0)
        25
    """
    return min(max(round(math.cbrt(n * epsilon / 8) ** 2), FEWEST), MOST_AUTOMATIC)


def _numbers(name: str, values: Sequence[Place]) -> tuple[list[float], bool]:
    """Rising edges or two bounds, and whether they are dates: then days since 1970."""
    least, most = (3, MOST_BINS + 1) if name == "bins" else (2, 2)
    what = f"3 to {most:,} rising edges" if name == "bins" else "two bounds, the lower one first"
    expected = f"{what}: all numbers, or all dates such as 2024-01-31 before the year 9999"
    listed = [] if isinstance(values, str) else [_place(value) for value in values]
    numbers = [_number(place) for place in listed if place is not None]
    fits = least <= len(numbers) <= most and len(numbers) == len(listed)
    dates = {isinstance(place, date) for place in listed}
    rising = len(dates) == 1 and all(low < high for low, high in pairwise(numbers))
    shown = values if isinstance(values, str) else ", ".join(map(str, values[:6]))
    checks.refuse(not fits or not rising, expected, **{name: shown})
    return numbers, True in dates


def _number(place: float | date) -> float:
    return place.toordinal() - _EPOCH if isinstance(place, date) else place


def _place(value: object) -> float | date | None:
    """A finite number or a date, perhaps written as text; None if it is neither."""
    if isinstance(value, datetime):
        return _place(value.date())
    if isinstance(value, date):
        return value if value.year < date.max.year else None  # the next edge is a date, too
    if isinstance(value, str):
        readers: tuple[Callable[[str], object], ...] = (int, float, datetime.fromisoformat)
        for read in readers:
            with suppress(ValueError):
                return _place(read(value.strip()))
        return None
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        return None
    number = int(value) if isinstance(value, int | np.integer) else float(value)
    return number if abs(number) <= checks.LARGEST_RANGE else None  # NaN is not


def written_whole(places: Sequence[Place]) -> bool:
    """Whether all of them are whole numbers, as they are written.

    >>> written_whole((0, "7")), written_whole((0, 7.0)), written_whole(("2024-01-01", 7))
    (True, False, False)
    """
    return all(isinstance(_place(each), int) for each in places)


def _equal(low: float, high: float, bins: int, *, whole: bool) -> list[float]:
    """The edges of so many bins, of whole numbers as equal as they can be."""
    if not whole:
        start, end = Fraction(repr(float(low))), Fraction(repr(float(high)))
        return [float(start + (end - start) * place / bins) for place in range(bins + 1)]
    first, last = int(low), int(high)
    span = last - first if (last - first) % bins == 0 else last - first + 1
    expected = f"at most {last - first + 1:,} bins for the whole numbers from {first} to {last}"
    checks.refuse(bins > last - first + 1, expected, bins=bins)
    return [*(first + span * place // bins for place in range(bins)), last]


def _shown(edges: Sequence[float]) -> list[str]:
    """Edges in as few digits as tell them apart."""
    shown = [f"{edge:.{_DIGITS}g}" for edge in edges]
    return shown if len(set(shown)) == len(shown) else [repr(edge) for edge in edges]


def written(value: float | str) -> str:
    """A number or date as text, numbers to six digits."""
    return f"{value:.{_DIGITS}g}" if isinstance(value, float) else str(value)


def _day(place: int) -> str:
    return date.fromordinal(place + _EPOCH).isoformat()
