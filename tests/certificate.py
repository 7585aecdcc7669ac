"""An independent certificate: delta(epsilon) of a law, in ball arithmetic (Arb, by python-flint).

Every number is a ball that is certain to contain the truth, computed from exact rationals with
1,200 bits, so that nothing of ``shoal.accounting`` is used or repeated here: no contour, no
logarithms of factorials, no double precision.

n people draw independently from finitely many values. Leave out the smallest and the largest of
them, a and b: given how often the others were drawn, the number B of b among the remaining m draws
is binomial, and ``E[(c + (m - B) a + B b)_+]`` needs only a tail and one point of that binomial:

    sum_{j >= t} Pr[B = j] = T,    sum_{j >= t} j Pr[B = j] = m q T + t (1 - q) Pr[B = t].

As the other values lie between a and b, the threshold t moves by at most one when m grows by one,
and T and Pr[B = t] follow by recurrences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction

from flint import arb, ctx, fmpq

BITS = 1200
_LOG_OMITTED = -135 * math.log(10)

Value = tuple[arb, arb]  # probability, value


@contextmanager
def precision(bits: int = BITS) -> Iterator[None]:
    before, ctx.prec = ctx.prec, bits
    try:
        yield
    finally:
        ctx.prec = before


def ball(number: float | Fraction) -> arb:
    exact = Fraction(number)
    return arb(fmpq(exact.numerator, exact.denominator))


def table_pairs(table: Sequence[Sequence[float]]) -> dict[tuple[int, int], list[tuple]]:
    """Exact atoms (mass, rho0, rho1) of every ordered pair of rows; mass None: nobody else's."""
    rows = [[Fraction(entry) for entry in row] for row in table]
    rows = [[entry / sum(row) for entry in row] for row in rows]
    blanket = [min(column) for column in zip(*rows, strict=True)]
    pairs = {}
    for x in range(len(rows)):
        for y in range(len(rows)):
            if x != y:
                pairs[x, y] = [
                    (mass, first / mass, second / mass) if mass else (None, first, second)
                    for mass, first, second in zip(blanket, rows[x], rows[y], strict=True)
                ]
    return pairs


def pair_delta(atoms: Sequence[tuple], *, n: int, epsilon: float, bits: int = BITS) -> arb:
    """(1/n) E[(Z_1 + ... + Z_n)_+], and what nobody else can send."""
    with precision(bits):
        x = ball(epsilon).exp()
        lost = sum(
            (
                (ball(first) - x * ball(second)).nonnegative_part()
                for m, first, second in atoms
                if m is None
            ),
            arb(0),
        )
        covered = [atom for atom in atoms if atom[0] is not None and atom[0] > 0]
        rest = 1 - sum(Fraction(mass) for mass, _, _ in covered)
        values = [(ball(mass), ball(first) - x * ball(second)) for mass, first, second in covered]
        if rest > 0:
            values.append((ball(rest), arb(0)))
        return positive_part(values, n) / n + lost


def clone_delta(local_epsilon: float, *, blanket: str, n: int, epsilon: float) -> arb:
    """The same for the clone pairs, whose atoms are no rational numbers."""
    with precision():
        e, x = ball(local_epsilon).exp(), ball(epsilon).exp()
        if blanket == "optimal clones":
            mass, near, far = 1 / (e + 1), arb(1), e
        else:
            mass, near, far = 1 / (2 * e), 2 * e / (e + 1), 2 * e * e / (e + 1)
        values = [(mass, far - x * near), (mass, near - x * far), (1 - 2 * mass, arb(0))]
        return positive_part(values, n) / n


def positive_part(values: Sequence[Value], n: int) -> arb:
    """E[(Z_1 + ... + Z_n)_+] for independent draws from these values."""
    ordered = sorted(values, key=lambda value: float(value[1].mid().str(20, radius=False)))
    if not ordered[-1][1] > ordered[0][1]:
        return n * ordered[0][1].union(ordered[-1][1]).nonnegative_part()
    low, high, *middle = ordered[0], ordered[-1], *ordered[1:-1]
    return _conditional(low, high, middle, n, arb(0), arb(1))


def _conditional(low: Value, high: Value, middle: list[Value], n: int, base: arb, left: arb) -> arb:
    """E[(base + Z_1 + ... + Z_n)_+] given that no value seen before is drawn; ``left`` has mass."""
    if not middle:
        middle = [(arb(0), arb(0))]
    (chance, value), *others = middle
    share = chance / left
    if others:
        total = arb(0)
        weight = (1 - share) ** n
        for count in range(n + 1):
            inner = _conditional(low, high, others, n - count, base + count * value, left - chance)
            total += weight * inner
            if count < n:
                weight = weight * (n - count) * share / ((count + 1) * (1 - share))
        return total
    return _last(low, high, (share, value), n, base, left - chance)


def _last(low: Value, high: Value, middle: Value, n: int, base: arb, left: arb) -> arb:
    """Sum over the number of draws of the one value between the two extremes."""
    share, value = middle
    q = high[0] / left
    step = high[1] - low[1]
    least, most = _window(n, share) if share != 0 else (n, n)
    binomial = _Binomial(q)
    total = arb(0)
    # m draws are left for the extremes, n - m were the middle value.
    weight = _point(n, least, 1 - share)
    for m in range(least, most + 1):
        start = base + (n - m) * value + m * low[1]
        threshold = _ceiling(-start / step)
        t = min(max(threshold, 0), m + 1)
        tail, point = binomial.at(m, t)
        total += weight * ((start + m * q * step) * tail + step * t * (1 - q) * point)
        if m < most:
            weight = weight * (n - m) * (1 - share) / ((m + 1) * share)
    if (least, most) in {(0, n), (n, n)}:
        return total
    # (base + S)_+ <= base_+ + sum (Z_i)_+: given one draw, the others leave the window this rarely.
    chances = zip(
        (share, (1 - share) * q, (1 - share) * (1 - q)), (value, high[1], low[1]), strict=True
    )
    gain = sum((chance * size.nonnegative_part() for chance, size in chances), arb(0))
    omitted = (n * gain + base.nonnegative_part()) * arb(2 * math.exp(_LOG_OMITTED))
    return total + arb(0).union(omitted)


class _Binomial:
    """Pr[B >= t] and Pr[B = t] of Bin(m, q), for m and t that grow slowly."""

    def __init__(self, q: arb) -> None:
        self.q = q
        self.place: tuple[int, int] | None = None

    def at(self, m: int, t: int) -> tuple[arb, arb]:
        if self.place is None or not self._near(m, t):
            self._start(m, t)
        while self.place[0] < m:
            self._more_draws()
        while self.place[1] < t:
            self._higher()
        while self.place[1] > t:
            self._lower()
        return self.tail, self.point

    def _near(self, m: int, t: int) -> bool:
        at_m, at_t = self.place
        return at_m <= m <= at_m + 2 and abs(t - at_t) <= 3 and 0 <= at_t <= at_m

    def _start(self, m: int, t: int) -> None:
        self.place = (m, t)
        self.point = _point(m, t, self.q) if t <= m else arb(0)
        if t == 0:
            self.tail = arb(1)
        elif t > m:
            self.tail = arb(0)
        else:
            self.tail = _tail(m, t, self.q, self.point)

    def _more_draws(self) -> None:
        m, t = self.place
        q = self.q
        before = self.point * t * (1 - q) / ((m - t + 1) * q) if t else arb(0)
        self.tail = self.tail + q * before
        self.point = self.point * (m + 1) * (1 - q) / (m + 1 - t)
        self.place = (m + 1, t)

    def _higher(self) -> None:
        m, t = self.place
        self.tail = self.tail - self.point
        self.point = self.point * (m - t) * self.q / ((t + 1) * (1 - self.q))
        self.place = (m, t + 1)

    def _lower(self) -> None:
        m, t = self.place
        if t > m:
            self.point = _point(m, t - 1, self.q)
        else:
            self.point = self.point * t * (1 - self.q) / ((m - t + 1) * self.q)
        self.tail = self.tail + self.point
        self.place = (m, t - 1)


def _point(n: int, k: int, p: arb) -> arb:
    """Pr[Bin(n, p) = k]."""
    return arb.bin_uiui(n, k) * p**k * (1 - p) ** (n - k)


def _tail(m: int, t: int, q: arb, point: arb) -> arb:
    """Pr[Bin(m, q) >= t], summed on the shorter side until the terms are negligible."""
    odds = q / (1 - q)
    upwards = t > m * float(q.mid())
    total, term, j = arb(0), point, t
    if upwards:
        while j <= m:
            total += term
            ratio = (m - j) * odds / (j + 1)
            if term < total * arb(2) ** -ctx.prec and ratio < 0.99:
                return total + arb(0).union(term * 100)
            term = term * ratio
            j += 1
        return total
    while j > 0:
        ratio = j / ((m - j + 1) * odds)
        term = term * ratio
        j -= 1
        total += term
        if term < total * arb(2) ** -ctx.prec and ratio < 0.99:
            total = total + arb(0).union(term * 100)
            break
    return 1 - total


def _window(n: int, share: arb) -> tuple[int, int]:
    """Numbers m of draws that are not the middle value, all but e^-310 of them."""
    if n <= 3000:
        return 0, n
    chances = float((1 - share).mid()), float(share.mid())
    ends = []
    for end in (0, n):
        inside, outside = round(n * chances[0]), end
        while abs(inside - outside) > 1:
            middle = (inside + outside) // 2
            log_tail = -n * _relative_entropy((middle / n, (n - middle) / n), chances)
            far = log_tail < _LOG_OMITTED - 5
            inside, outside = (inside, middle) if far else (middle, outside)
        ends.append(outside)
    return max(0, ends[0] - 2), min(n, ends[1] + 2)


def _relative_entropy(shares: tuple[float, float], chances: tuple[float, float]) -> float:
    pairs = zip(shares, chances, strict=True)
    return sum(share * math.log(share / chance) for share, chance in pairs if share)


def _ceiling(number: arb) -> int:
    """The least integer not below it (where a ball holds one, the term there is 0)."""
    return int(number.mid().ceil().unique_fmpz())
