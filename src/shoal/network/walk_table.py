"""ε by number of rounds and by fraction of people: what ``shoal walk`` prints.

>>> from shoal.network.generators import random_regular
>>> walked = table(WalkAccountant(Walk(random_regular(500, 16)), local_epsilon=1), rounds=8)
>>> walked.rounds, walked.columns
(8, ('worst', '99 %', '90 %', 'median'))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from shoal import checks
from shoal.accounting.guarantee import Guarantee
from shoal.errors import InvalidArgumentError
from shoal.explain import plots
from shoal.explain.document import Document, Row, Table
from shoal.explain.text import decimals_for, plain, plural, up_to
from shoal.explain.views import Tabular
from shoal.network.account import Cost, WalkAccountant, cost, rounds_for, user_epsilons
from shoal.network.simulation import Simulation, simulate
from shoal.network.walk import Absences, Progress, Walk
from shoal.randomness import simulated
from shoal.values import Record, attributes

NEAR = 1.1  # times a central shuffler's ε is the default target
FRACTIONS = {1.0: "worst", 0.99: "99 %", 0.9: "90 %", 0.5: "median"}
_FEW_FRACTIONS = {1.0: "worst", 0.5: "median"}
_STEPS = (1 / 8, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1.0)  # of the last number of rounds
_FEW_STEPS = (1 / 2, 1.0)  # of adversaries whose accounts take long
_MOST_ABSENCES = 10_000  # people, each with a law of their own
_PATTERN = 10**8  # entries of a pattern of absences
_PER_DELTA = 20  # runs that certify δ = 1/runs, and as many times more
_SAME = 0.02  # of ε: curves closer than this are drawn as one
_MARGIN = 1.35  # above and below the curves
_COLORS = (plots.VERMILION, plots.ORANGE, plots.GREEN, plots.BLUE)
_HUB = 1.01  # times an average peer's messages are worth a line of their own


class WalkRow(NamedTuple):
    """ε after some rounds, by column."""

    rounds: int
    epsilons: dict[str, float]


@dataclass(frozen=True)
class WalkTable(Tabular):
    """What :func:`shoal.network.table` returns: ε by rounds, and what is paid for it.

    Attributes:
        walk: The walk when everybody is there.
        accountant: The reports and the adversary.
        rows: For each number of rounds, ε by fraction of people.
        guarantee: The (ε, δ) after the last row.
        central: The ε of a shuffler.
        cost: Messages, loads and bytes.
        offline: Probability that a peer misses a round.
        goal: What the last number of rounds was searched for, in words.
        user: The person that it is about, as the graph's file calls them; None for everybody.
        simulation: The walk, simulated once, if that was asked for.

    References:
        :doc:`/theory/network`.
    """

    walk: Walk
    accountant: WalkAccountant
    rows: tuple[WalkRow, ...]
    guarantee: Guarantee
    central: float  # ε of a shuffler
    cost: Cost
    offline: float = 0.0
    goal: str = ""
    user: int | None = None
    simulation: Simulation | None = None

    @property
    def rounds(self) -> int:
        """The last number of rounds."""
        return self.rows[-1].rounds

    @property
    def columns(self) -> tuple[str, ...]:
        """Whose ε the rows have."""
        return tuple(self.rows[-1].epsilons)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to the graph, and what to know of the walk."""
        return (*self.walk.graph.notes, *self.walk.notes)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the adversary or the number of runs makes of the last row."""
        runs, delta = self.accountant.runs, self.guarantee.delta
        met = 1 - (1 - float(self.accountant.collusion)) ** self.rounds  # type: ignore[arg-type]
        caught = (
            f"a report meets somebody who works for the server with probability {met:.3g}, "
            "more than δ: fewer rounds or onion layers help, more rounds do not"
        )
        few = (
            f"{runs:,} runs certify no δ much below {_PER_DELTA / runs:.2g}: ask for a larger "
            "delta or more runs"
        )
        unproved = self.accountant.view == "traffic" and runs * delta < _PER_DELTA
        return (caught,) * (met > delta) + (few,) * unproved

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        last, stated = self.rows[-1].epsilons, self.guarantee
        return {
            "rounds": self.rounds,
            "worst": stated.to_dict() if "worst" in last else None,
            "median": {"epsilon": last["median"]} if "median" in last else None,
            "quantiles": {
                str(fraction): last[name] for fraction, name in FRACTIONS.items() if name in last
            },
            "user": None if self.user is None else {"node": self.user, **stated.to_dict()},
            "central": {"epsilon": self.central},
            "local": {"epsilon": stated.local_epsilon, "delta": stated.local_delta},
            "delta": stated.delta,
            "table": self.records(),
            "graph": self.walk.graph.summary(),
            "walk": {"kind": self.walk.kind, "stay": self.walk.stay, "offline": self.offline},
            "adversary": {
                **attributes(self.accountant, "view", "submit", "collusion"),
                "trust": stated.trust,
                "assumptions": list(stated.assumptions),
            },
            "cost": self.cost.to_dict(),
            "simulation": None if self.simulation is None else self.simulation.to_dict(),
            "warnings": [*stated.warnings, *self.notes, *self.remarks],
        }

    def records(self) -> list[Record]:
        """A row for each number of rounds, a column for each fraction of people."""
        return [{"rounds": row.rounds, **row.epsilons} for row in self.rows]

    def document(self) -> Document:
        """The table, the guarantee after its last row, and the cost, put into words."""
        graph, stated = self.walk.graph, self.guarantee.document()
        decimals, width = decimals_for(self.central), len(self.columns)

        def row(name: str, epsilons: Iterable[float], emphasis: str = "") -> Row:
            return Row((name, *(up_to(epsilon, decimals) for epsilon in epsilons)), emphasis)

        rows = [row(f"{rounds:,}", epsilons.values()) for rounds, epsilons in self.rows]
        rows[-1] = replace(rows[-1], emphasis="strong")
        rows.append(row("central shuffler", [self.central] * width, "weak"))
        rows.append(row("no amplification", [self.guarantee.local_epsilon] * width, "weak"))
        if self.user is None:
            headings = self.columns
            others = ", ".join(self.columns[1:])
            key = f"worst: of everybody; {others}: of that fraction, whose reports spread best."
        else:
            headings = (f"node {self.user}",)
            runs = f"{self.accountant.runs:,} simulated runs"
            key = f"Of the report of node {self.user} alone, from {runs}."
        title = f"ε at δ = {plain(self.guarantee.delta)}"
        shown = f"{graph.n:,} people, {graph.edges:,} edges, irregularity {graph.irregularity:.3g}"
        goal = [f"{plural(self.rounds, 'round')}{self.goal}, for everybody"] if self.goal else []
        return replace(
            stated,
            facts=(("graph", shown), *stated.facts, *self._costs()),
            table=Table(("rounds", *headings), tuple(rows), frozenset(range(width + 1)), title),
            sentences=(key, *goal),
            notes=self.notes,
            warnings=(*self.guarantee.warnings, *self.remarks),
        )

    def plot(self, ax: plots.Axes | None = None) -> plots.Axes:
        """ε against rounds, between no amplification and a central shuffler.

        Fractions of the people whose ε differ by less than 2 % everywhere are one curve.
        """
        local, last = self.guarantee.local_epsilon, self.rounds
        curves: dict[str, list[str]] = {}  # the names of all that one stands for
        for name in self.columns:
            first = next((first for first in curves if self._near(first, name)), name)
            curves.setdefault(first, []).append(name)
        xs = [0, *(row.rounds for row in self.rows)]  # nobody has passed anything on: ε is ε0
        lowest = min(self.central, *(min(row.epsilons.values()) for row in self.rows))
        limits = lowest / _MARGIN, local * _MARGIN
        with plots.on(ax) as axes:
            plots.frame(
                axes,
                plots.Axis("rounds", (0, last), log=False),
                plots.Axis(f"ε at δ = {plots.tick(self.guarantee.delta)}", limits),
            )
            axes.xaxis.set_major_locator(plots.whole_numbers())
            plots.level(axes, local, "ε₀: no amplification", plots.QUIET, plots.DASHED, right=True)
            plots.level(axes, self.central, "central shuffler", plots.QUIET, plots.DOTTED)
            for (first, names), color in zip(curves.items(), _COLORS, strict=False):
                ys = [local, *(row.epsilons[first] for row in self.rows)]
                label = _named(names) if self.user is None else f"node {self.user}"
                plots.plot(axes, (xs, ys), plots.Look(label, color, width=2.0, marker="o"))
            axes.legend()
        return axes

    def _near(self, one: str, other: str) -> bool:
        """Whether two columns would be drawn on top of each other."""
        pairs = [(row.epsilons[one], row.epsilons[other]) for row in self.rows]
        return all(abs(a - b) <= _SAME * max(a, b) for a, b in pairs)

    def _costs(self) -> list[tuple[str, str]]:
        price, walked = self.cost, self.simulation
        sent = f"{price.messages:,.0f} messages of {price.report_bytes:,} bytes by each peer"
        size, hub_size = _size(price.bytes_sent), _size(price.most_bytes_sent)
        facts = [("cost", f"{sent} ({size}), {price.load:.0f} report held")]
        if price.most_messages > _HUB * price.messages:
            hub = f"{price.most_messages:,.0f} by the best connected peer ({hub_size})"
            facts.append(("", f"{hub}, {price.most_load:.3g} held on average"))
        if walked is not None:
            dummies = f", {walked.dummies:,} dummies" if walked.submit == "single" else ""
            once = (
                f"{walked.moves:,} messages, {walked.holders:,} holders, at most "
                f"{int(walked.loads.max()):,} reports with one, "
                f"{walked.delivered_share:.1%} of the reports arrive{dummies}"
            )
            facts.append(("simulated once", once))
        return facts


def table(
    accountant: WalkAccountant,
    *,
    rounds: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    user: int | None = None,
    offline: float = 0.0,
    steps: Sequence[float] | None = None,
    report_bytes: int = 1024,
    simulation: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> WalkTable:
    """ε of reports passed on along a walk, by rounds and by fraction of people.

    Args:
        accountant: The reports, their walk, which is the same every round, and the
            adversary.
        rounds: Those of the last row; the fewest that keep epsilon, or with neither the
            fewest that come within 10 % of a central shuffler's ε, unless given.
        epsilon: The target of the last row instead.
        delta: δ; min(1e-6, 1/(10 n)) unless given.
        user: The number of one person that it is about; None for everybody.
        offline: Probability that a peer misses a round: one pattern of absences is
            drawn.
        steps: The rows, as fractions of the last number of rounds.
        report_bytes: Length of one report, for the cost.
        simulation: Walk it once, too.
        seed: That of all that is drawn, unless the accountant has randomness.
        progress: Called with the rows done and all.

    Returns:
        A :class:`shoal.network.WalkTable`, which prints itself.

    Raises:
        InvalidArgumentError: A number is out of its range, or both rounds and epsilon
            are given.
        UnreachableTargetError: The target is not kept within the rounds that are tried.

    References:
        :doc:`/theory/network`.

    Example:
        >>> from shoal import network
        >>> walk = network.Walk(network.complete(30))
        >>> accountant = network.WalkAccountant(walk, local_epsilon=1)
        >>> network.table(accountant, rounds=2).rounds
        2
    """
    checks.closed_probability(offline=offline)
    checks.count(report_bytes=report_bytes)
    checks.count(0, seed=seed)
    if rounds is not None:
        checks.count(1, rounds=rounds)
        checks.refuse(epsilon is not None, "rounds or epsilon, not both", epsilon=epsilon)
    walk = accountant.walk
    if not isinstance(walk, Walk):
        raise InvalidArgumentError("walk", walk, "a walk that is the same every round")
    if offline:
        accountant = replace(accountant, walk=_absences(walk, rounds, offline, seed))
    if accountant.view == "traffic" and accountant.randomness is None:
        accountant = replace(accountant, randomness=simulated(seed))
    delta = accountant.checked_delta(delta)
    central = accountant.reports.central(walk.n).epsilon(delta)
    goal = ""
    if rounds is None:
        target, goal = _target(accountant, epsilon, central)
        rounds = rounds_for(accountant, epsilon=target, delta=delta).rounds
    if accountant.view == "traffic" and user is None:
        user = int(accountant.locations.after(rounds).order[-1])
    parts = steps or (_FEW_STEPS if _takes_long(accountant) else _STEPS)
    lengths = sorted({max(1, round(part * rounds)) for part in parts})
    rows, stated = _rows(accountant, lengths, delta, user, progress)
    if offline:
        pattern = (
            f"absences are those of one pattern, drawn with probability {offline:g} a round "
            f"(seed {seed}); other patterns have other ε"
        )
        stated = replace(stated, assumptions=(*stated.assumptions, pattern))
    walked = None
    if simulation:
        walked = simulate(walk, rounds, seed=seed, submit=accountant.submit, offline=offline)
    return WalkTable(
        walk=walk,
        accountant=accountant,
        rows=rows,
        guarantee=stated,
        central=central,
        cost=cost(accountant, rounds, report_bytes=report_bytes),
        offline=offline,
        goal=goal,
        user=None if user is None else int(walk.graph.labels[user]),
        simulation=walked,
    )


def _absences(walk: Walk, rounds: int | None, offline: float, seed: int) -> Absences:
    """One pattern of absences, as long as may be needed."""
    expected = f"0, as absences are for at most {_MOST_ABSENCES:,} people, not {walk.n:,}"
    checks.refuse(walk.n > _MOST_ABSENCES, expected, offline=offline)
    longest = rounds or _PATTERN // walk.n
    return Absences.drawn(walk, longest, online=1 - offline, randomness=simulated(seed))


def _takes_long(accountant: WalkAccountant) -> bool:
    """Whether it goes through every length of a walk, or every holder."""
    return bool(accountant.collusion) or accountant.submit == "single"


def _rows(
    accountant: WalkAccountant,
    lengths: Sequence[int],
    delta: float,
    user: int | None,
    progress: Progress | None,
) -> tuple[tuple[WalkRow, ...], Guarantee]:
    """ε after each of these numbers of rounds, and the guarantee after the last."""
    names = _FEW_FRACTIONS if _takes_long(accountant) else FRACTIONS
    report = progress or (lambda _, __: None)
    rows, stated = [], None
    for done, length in enumerate(lengths):
        report(done, len(lengths) + 1)
        if user is None:
            reached = user_epsilons(
                accountant, length, delta=delta, fractions=tuple(names), near_local=False
            )
            epsilons = {name: reached.at(fraction) for fraction, name in names.items()}
        else:
            stated = accountant.guarantee(length, delta=delta, user=user)
            epsilons = {"one person": stated.epsilon}
        rows.append(WalkRow(length, epsilons))
    report(len(lengths), len(lengths) + 1)
    stated = stated or accountant.guarantee(lengths[-1], delta=delta, near_local=False)
    return tuple(rows), stated


def _target(accountant: WalkAccountant, epsilon: float | None, central: float) -> tuple[float, str]:
    """The target ε, chosen or near a shuffler's, and which of the two."""
    if epsilon is not None:
        return epsilon, f" for ε = {plain(epsilon)}"
    expected = "rounds, or an epsilon: a central shuffler's ε is 0 at this δ"
    if accountant.view == "traffic" or _takes_long(accountant):
        expected = "rounds, or an epsilon: this adversary's ε has no limit to come close to"
    elif central > 0:
        return NEAR * central, ": within 10 % of a central shuffler's ε"
    raise InvalidArgumentError("rounds", None, expected)


def _named(names: Sequence[str]) -> str:
    """Whose ε a curve is."""
    if len(names) == len(FRACTIONS):
        return "everybody, and any fraction"
    words = {"worst": "everybody", "99 %": "99 % of people", "90 %": "90 % of people"}
    return ", ".join(words.get(name, name) for name in names)


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.3g} {unit}"
