"""``shoal amplify``: the (epsilon, delta) of shuffled reports."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from shoal.cli.app import ACCOUNT, app
from shoal.cli.options import (
    Bounds,
    Excludes,
    Needs,
    Options,
    RefusedError,
    Required,
    Rule,
    choice,
    command,
    flag,
    leave_out,
    number,
    option,
    read_bounds,
    whole,
)
from shoal.cli.render import print_json, show, working

if TYPE_CHECKING:
    from shoal.accounting.guarantee import Guarantee
    from shoal.explain.document import Document

_DEVICES = "What each device runs"
_CROWD = "Who takes part"
_QUESTION = "What is asked"


class Unknown(StrEnum):
    """What ``--solve`` may look for."""

    LOCAL_EPSILON = "local-epsilon"
    N = "n"


class Composition(StrEnum):
    """How rounds are put together."""

    PLD = "pld"
    RENYI = "renyi"
    ADVANCED = "advanced"
    BEST = "best"


# One round at one delta: what a comparison of bounds does not speak about.
_BEYOND_COMPARISONS = (
    "solve",
    "epsilon",
    "rounds",
    "composition",
    "participation",
    "local_delta",
    "deletion_epsilon",
)


@dataclass(frozen=True, kw_only=True)
class AmplifyOptions(Options):
    """What each device runs, who takes part, and what is asked."""

    local_epsilon: Annotated[
        float | None, number("ε0 of each report by itself. With --table: checked.", _DEVICES)
    ] = None
    local_delta: Annotated[float | None, number("Its δ0, if it has one.", _DEVICES)] = None
    deletion_epsilon: Annotated[
        float | None,
        number("Instead of ε0: every report is this close to one reference.", _DEVICES),
    ] = None
    randomizer: Annotated[
        str | None,
        option(
            "A known randomizer: grr, hadamard, laplace, … (--k or --bounds).", _DEVICES, "NAME"
        ),
    ] = None
    k: Annotated[
        int | None, whole("How many answers there are; for vectors, the dimension.", _DEVICES)
    ] = None
    bounds: Annotated[
        Bounds | None,
        option(
            "Bounds of a randomizer of numbers; 0,1 if not given.",
            _DEVICES,
            "LOW,HIGH",
            read_bounds,
        ),
    ] = None
    table: Annotated[
        Path | None,
        option("Your own: probabilities, a row per input (.csv, .npy).", _DEVICES, "FILE"),
    ] = None
    n: Annotated[int | None, whole("How many people report: 100000 or 1e5.", _CROWD)] = None
    honest_fraction: Annotated[
        float | None, number("The fraction of them that follows the protocol.", _CROWD)
    ] = None
    honest_n: Annotated[int | None, whole("The same, as a number of people.", _CROWD)] = None
    participation: Annotated[
        float | None, number("Each takes part with this probability, unseen.", _CROWD)
    ] = None
    rounds: Annotated[int | None, whole("How often everybody reports.", _CROWD)] = None
    delta: Annotated[
        float | None,
        number("δ; the answer is ε. The smaller of 1e-6 and 1/(10 n) if not given.", _QUESTION),
    ] = None
    epsilon: Annotated[float | None, number("ε; the answer is δ.", _QUESTION)] = None
    solve: Annotated[
        Unknown | None,
        choice("Find ε0 or n for the target --epsilon, --delta.", _QUESTION, Unknown),
    ] = None
    bound: Annotated[
        str | None,
        option("A published bound by name: see --all. The tightest otherwise.", _QUESTION, "NAME"),
    ] = None
    all: Annotated[bool, flag("--all", "Every published bound, tightest first.", _QUESTION)] = False
    composition: Annotated[
        Composition | None,
        choice("How --rounds are composed; pld if not given.", _QUESTION, Composition),
    ] = None
    json: Annotated[bool, flag("--json", "Print JSON.", _QUESTION)] = False

    rules: ClassVar[tuple[Rule, ...]] = (
        Excludes(
            "all", ("bound", *_BEYOND_COMPARISONS), "--all compares bounds for one round at --delta"
        ),
        Excludes(
            "table",
            ("randomizer", "k", "bounds", "deletion_epsilon", "local_delta", "bound"),
            "--table says what the randomizer is",
        ),
        Excludes(
            "randomizer",
            ("deletion_epsilon", "local_delta"),
            "--randomizer says what the randomizer is",
        ),
        Excludes(
            "deletion_epsilon",
            ("local_epsilon", "k"),
            "--deletion-epsilon says what is known of the randomizers",
        ),
        Excludes("honest_n", ("honest_fraction",), "--honest-n says how many are honest"),
        Excludes("solve", ("bound", "composition"), "--solve uses the tightest bound"),
        Needs("solve", ("epsilon",), "the target (with --delta)"),
        Needs("k", ("randomizer", "bound"), "what has k answers"),
        Needs("bounds", ("randomizer",), "what takes numbers between them"),
    )

    def check(self) -> None:
        """The table of rules, and what depends on what is solved for."""
        Options.check(self)
        if self.solve is Unknown.LOCAL_EPSILON:
            why = "--solve local-epsilon is for pure randomizers and looks for their epsilon"
            known = ("local_epsilon", "deletion_epsilon", "local_delta", "table")
            leave_out(self.given, known, why)
        else:
            missing = (
                "what each report guarantees by itself (or say --deletion-epsilon, or --table)"
            )
            Required("local_epsilon", missing, ("deletion_epsilon", "table")).check(self.given)
        if self.solve is Unknown.N:
            why = "--solve n looks for the number of people"
            leave_out(self.given, ("n", "honest_n"), why)
        else:
            Required("n", "how many people report").check(self.given)
        if self.solve is None and self.epsilon is not None:
            if self.delta is not None:
                raise RefusedError(
                    "give --delta to get epsilon or --epsilon to get delta, not both "
                    "(as a target, both go with --solve)"
                )
            if self.composition not in {None, Composition.PLD}:
                raise RefusedError(
                    f"--composition {self.composition} answers with epsilon: give --delta instead"
                )
        elif self.solve is None:
            Needs("composition", ("rounds",), "the number of rounds to compose").check(self.given)


@command(app, ACCOUNT)
def amplify(options: AmplifyOptions) -> None:
    """How private reports become when they are shuffled.

    Say what each device runs and how many people report. Numbers may be written 1e5.
    """
    with working("computing"):
        values, document = _answer(options)
    if options.json:
        print_json(values)
    else:
        show(document)


def _answer(options: AmplifyOptions) -> tuple[object, Document]:
    """As plain values and in words."""
    import shoal
    from shoal.accounting import catalog
    from shoal.accounting.comparison import comparison_document
    from shoal.explain.text import down, plain, up

    honest = ("honest_fraction", "honest_n")
    crowd = ("n", "rounds", "participation", *honest)
    if options.all:
        rows = shoal.compare(**_devices(options), **options.only("n", "delta", *honest))
        return [row.to_dict() for row in rows], comparison_document(rows)
    if options.bound is not None and not catalog.get(options.bound).certified:
        entry = catalog.get(options.bound)
        why = f"{entry.name} is for comparisons only, one round at --delta"
        leave_out(options.given, _BEYOND_COMPARISONS, why)
        rows = shoal.compare(**_devices(options), **options.only("n", "delta", *honest))
        row = next(row for row in rows if row.name == entry.name)
        # Where the bound does not apply the row has a remark; the bound itself raises the error.
        entry.epsilon(
            catalog.Query(local_epsilon=row.local_epsilon, n=row.n, delta=row.delta, k=options.k)
        )
        return row.to_dict(), comparison_document([row])
    solved: dict[str, Any] = {}
    title = ""
    if options.solve is Unknown.LOCAL_EPSILON:
        family = None if options.randomizer is None else _family(options)
        value = shoal.local_epsilon(family, **options.only("epsilon", "delta", *crowd))
        solved = {"local_epsilon": value}
        title = f"ε0 = {down(value)} on each device is private enough"
    elif options.solve is Unknown.N:
        target = ("epsilon", "delta", "rounds", "participation", "honest_fraction")
        people = shoal.required_n(**_devices(options), **options.only(*target))
        solved = {"n": people}
        title = f"n = {people:,} people are enough"
    if solved:
        guarantee = _at_target(options, **solved)
        answer = {"solved": str(options.solve), "answer": next(iter(solved.values()))}
    else:
        guarantee, answer = _guarantee(options), {}
        if options.epsilon is not None:
            title = f"δ = {up(guarantee.delta)} at ε = {plain(guarantee.epsilon)}"
    return guarantee.to_dict() | answer, guarantee.document(title)


def _guarantee(options: AmplifyOptions) -> Guarantee:
    import shoal

    crowd = ("n", "rounds", "participation", "honest_fraction", "honest_n")
    return shoal.amplify(
        **_devices(options), **options.only("epsilon", "delta", *crowd, "bound", "composition")
    )


def _at_target(options: AmplifyOptions, **solution: Any) -> Guarantee:  # noqa: ANN401 - a field
    """The guarantee that the solution keeps.

    The solver has proved the target; inverting the curve once more may come out above it by its
    rounding.
    """
    guarantee = _guarantee(replace(options, epsilon=None, **solution))
    target = guarantee.epsilon if options.epsilon is None else options.epsilon
    return replace(guarantee, epsilon=min(guarantee.epsilon, target))


def _devices(options: AmplifyOptions) -> dict[str, Any]:
    """What the devices run, as keywords: a randomizer, or what is known of any."""
    if options.table is not None:
        from shoal.accounting.law import BlanketLaw
        from shoal.cli.files import read_table

        table = read_table(options.table)
        return {"randomizer": BlanketLaw.from_table(table, local_epsilon=options.local_epsilon)}
    if options.randomizer is not None or options.k is not None:
        return {"randomizer": _family(options)(epsilon=options.local_epsilon)}
    return options.only("local_epsilon", "local_delta", "deletion_epsilon")


def _family(options: AmplifyOptions) -> Any:  # noqa: ANN401 - whatever takes an epsilon
    """The named randomizers; --k alone, beside a bound, says that the devices run grr."""
    from shoal.randomizers.registry import family

    return family(options.randomizer or "grr", k=options.k, bounds=options.bounds)
