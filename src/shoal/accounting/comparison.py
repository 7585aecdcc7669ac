"""Every bound side by side, tightest first."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from shoal import checks
from shoal.accounting import catalog
from shoal.accounting.devices import ALONE, Devices, People, Randomizer
from shoal.accounting.guarantee import NEIGHBOURING, delta_warnings
from shoal.accounting.profile import PrivacyProfile
from shoal.accounting.two_outputs import TwoOutputsProfile
from shoal.errors import OutOfRegimeError
from shoal.explain import plots
from shoal.explain.document import Document, Row, Table
from shoal.explain.text import decimals_for, down_to, plain, up_to
from shoal.explain.views import Tabular
from shoal.questions.terms import EVERYBODY, Crowd

# What a number is that is not proved here, as the table and its warning say it.
_KINDS = {
    "quoted": "quoted, its proof not followed",
    "recalled": "constant not checked against the paper",
    "approximation": "approximation",
}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One bound's answer, or why it has none; :func:`shoal.compare` returns a list of them.

    Attributes:
        name: What ``amplify(bound=...)`` takes.
        title: What the bound is called.
        citation: Where it was published.
        status: "proved", "quoted" (as published, its proof not followed), "recalled" (a constant
            that was not checked against the paper) or "approximation".
        scope: Which randomizers it covers.
        epsilon: Its ε, or None if it has no answer here.
        lower: An ε that no analysis of the same claim can go below.
        delta: The δ of both.
        n: The honest people counted on.
        local_epsilon: ε₀ of each report by itself.
        remark: Why there is no answer, or what to know of it.

    References:
        :doc:`/theory/published-bounds`.
    """

    name: str
    title: str
    citation: str
    status: str
    scope: str
    epsilon: float | None
    lower: float
    delta: float
    n: int
    local_epsilon: float
    remark: str

    @property
    def certified(self) -> bool:
        """Whether the number may be used as a guarantee."""
        return self.epsilon is not None and self.status == catalog.Status.PROVED.value

    def line(self, decimals: int) -> Row:
        """The line of a table."""
        epsilon = "–" if self.epsilon is None else up_to(self.epsilon, decimals)
        title = self.title[:1].upper() + self.title[1:]
        remark = f" ({self.remark})" if self.remark else ""
        return Row((self.name, epsilon, title + remark), "" if self.certified else "weak")

    def to_dict(self) -> dict[str, object]:
        """Plain values, as the command line's ``--json`` prints them."""
        return {
            "bound": self.name,
            "epsilon": self.epsilon,
            "lower": self.lower,
            "delta": self.delta,
            "n": self.n,
            "local_epsilon": self.local_epsilon,
            "theorem": self.title,
            "citation": self.citation,
            "neighbouring": NEIGHBOURING,
            "status": self.status,
            "guarantee": self.certified,
            "scope": self.scope,
            "remark": self.remark,
        }


class Comparisons(list[Comparison], Tabular):
    """The list that :func:`shoal.compare` returns: every bound for one question, tightest first."""

    def records(self) -> list[dict[str, object]]:
        """A row for each bound, as plain values."""
        return [row.to_dict() for row in self]

    def document(self) -> Document:
        """One line per bound, tightest first, the lower bound under them."""
        first = self[0]
        answers = [row.epsilon for row in self if row.epsilon]
        decimals = decimals_for(min([first.lower or math.inf, *answers]))
        bounded = math.isfinite(first.local_epsilon)
        local = f"ε0 = {plain(first.local_epsilon)}" if bounded else "reports have no finite ε0"
        setting = f"ε at δ = {plain(first.delta)}, {first.n:,} honest people, {local}"
        lines = tuple(row.line(decimals) for row in self)
        reason = "some data set really loses this much"
        footer = ("lower bound", down_to(first.lower, decimals), reason)
        warnings = delta_warnings(first.delta, first.n)
        if len(self) == 1 and first.status in _KINDS:
            comparison = "for comparison only: not a guarantee"
            warnings = (f"{first.name}: {_KINDS[first.status]}, {comparison}", *warnings)
        return Document(
            setting,
            table=Table(("bound", "ε", "theorem"), lines, frozenset({1}), setting, footer),
            warnings=warnings,
        )

    def plot(self, ax: plots.Axes | None = None) -> plots.Axes:
        """The ε of each bound that has one, between the lower bound and ε0."""
        answered = [row for row in self if row.epsilon]
        decimals = decimals_for(min((row.epsilon or 1.0 for row in answered), default=1.0))
        rows = [
            (
                row.name if row.certified else f"{row.name} (not proved)",
                row.epsilon or 0.0,
                up_to(row.epsilon or 0.0, decimals),
                plots.BLUE if row.certified else plots.FAINT,
            )
            for row in answered
        ]
        first = self[0]
        levels = [("lower bound", first.lower), ("ε₀", first.local_epsilon)]
        with plots.on(ax, 1.5 + 0.3 * len(rows)) as axes:
            known = [(name, x) for name, x in levels if 0 < x < math.inf]
            xlabel = f"ε at δ = {plots.tick(first.delta)}, {first.n:,} people"
            plots.dots(axes, rows, levels=known, xlabel=xlabel)
        return axes


def compare(
    randomizer: Randomizer | None = None,
    *,
    n: int,
    local_epsilon: float | None = None,
    delta: float = 1e-6,
    crowd: Crowd = EVERYBODY,
    honest_n: int | None = None,
) -> Comparisons:
    """Every bound in the catalog for the same question, tightest first.

    Args:
        randomizer: What every device runs. Either this or local_epsilon.
        n: People who report, at least 1.
        local_epsilon: ε₀ > 0 of any randomizers.
        delta: The δ in (0, 1) at which ε is wanted.
        crowd: Which fraction of the people follows the protocol. The guarantee is that
            of the honest people alone.
        honest_n: How many people follow the protocol, in place of a fraction.

    Returns:
        A list of comparisons, each with ``name``, ``epsilon`` (None if the bound has no
        answer, and ``remark`` says why), ``certified`` and ``citation``; those without
        an answer last. It prints itself as a table, and has ``to_polars()`` and
        ``plot()``.

    Raises:
        InvalidArgumentError: A number is out of its range, or two that exclude each
            other are given.
        InvalidTypeError: ``randomizer`` is not one, and has no ``law()``.

    References:
        :doc:`/theory/published-bounds`; :doc:`/theory/lower-bounds`.

    Example:
        >>> import shoal
        >>> shoal.compare(local_epsilon=4, n=100_000)[0].name
        'optimal-clones'
    """
    devices = Devices(randomizer=randomizer, local_epsilon=local_epsilon)
    people = People(n, crowd, honest_n)
    expected = "no participation: published bounds are for people who all report"
    checks.refuse(people.participation < 1, expected, participation=people.participation)
    profile = devices.profile(people)
    local = profile.local_epsilon
    exact: TwoOutputsProfile | None = None
    if isinstance(profile, PrivacyProfile) and profile.law.claim.ends is not None:
        exact = TwoOutputsProfile(profile.law, profile.n)
    row = partial(
        Comparison,
        delta=delta,
        n=people.honest,
        local_epsilon=local,
        lower=(exact or profile).lower_epsilon(delta),
    )
    rows = []
    if randomizer is not None:
        epsilon = profile.epsilon(delta)
        remark = "the randomizer's own law"
        alone = devices.alone(delta) if math.isinf(local) else None
        if alone is not None and epsilon >= alone[0] * (1 - ALONE):
            remark = "no better than a report by itself"
        own = partial(row, status=catalog.Status.PROVED.value, scope=profile.scope, remark=remark)
        if exact is not None:
            title = "Two outputs: the divergence of the worst data"
            exactly = exact.epsilon(delta)
            rows.append(own(name="two-outputs", title=title, citation="Shoal", epsilon=exactly))
        rows.append(
            own(
                name="blanket",
                title="Privacy blanket of the randomizer itself",
                citation="Balle, Bell, Gascón, Nissim 2019, evaluated exactly",
                epsilon=epsilon,
            )
        )
    if math.isfinite(local):
        query = catalog.Query(
            local_epsilon=local, n=people.honest, delta=delta, k=devices.categories
        )
        rows.extend(_published(entry, query, row) for entry in catalog.ENTRIES.values())
    return Comparisons(sorted(rows, key=lambda row: (row.epsilon is None, row.epsilon or 0.0)))


def _published(
    entry: catalog.Entry, query: catalog.Query, row: Callable[..., Comparison]
) -> Comparison:
    epsilon: float | None = None
    remark = "" if entry.certified else f"{_KINDS[entry.status.value]}: not a guarantee"
    try:
        epsilon = entry.epsilon(query)
    except OutOfRegimeError as error:
        remark = f"needs {error.condition}"
    else:
        if epsilon >= query.local_epsilon:
            remark = "no amplification: capped at the local epsilon" + (remark and f"; {remark}")
    return row(
        name=entry.name,
        title=entry.title,
        citation=str(entry.citation),
        status=entry.status.value,
        scope=entry.scope,
        epsilon=epsilon,
        remark=remark,
    )
