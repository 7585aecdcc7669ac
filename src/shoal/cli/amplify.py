"""``shoal amplify``: the (epsilon, delta) of shuffled reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from shoal.cli.app import ACCOUNT, app
from shoal.cli.options import Bounds, Excludes, Needs, Options, Required, command, option
from shoal.cli.render import answer, working

if TYPE_CHECKING:
    from shoal.accounting.catalog import Entry
    from shoal.explain.document import Document

_DEVICES = "What each device runs"
_CROWD = "Who takes part"
_QUESTION = "What to compute"


Unknown = Literal["local-epsilon", "n"]  # what ``--solve`` may look for


Composition = Literal["pld", "renyi", "advanced", "best"]  # how rounds are put together


_TARGET = ("epsilon", "delta")
# One round at one delta: what a comparison of bounds does not speak about.
_NOT_COMPARED = (
    *("solve", "epsilon", "rounds", "composition", "participation"),
    *("local_delta", "deletion_epsilon"),
)


class AmplifyOptions(Options):
    """What each device runs, who takes part, and what is asked."""

    local_epsilon: float | None = option(
        "ε0 of each report by itself; with --table, the table is checked against it.", _DEVICES
    )
    local_delta: float | None = option("The δ0 that goes with ε0; default: 0.", _DEVICES)
    deletion_epsilon: float | None = option(
        "Instead of ε0: every report is within this ε of one reference distribution.", _DEVICES
    )
    randomizer: str | None = option(
        "A randomizer by name: grr, hadamard, laplace, … (give --k or --bounds).", _DEVICES, "NAME"
    )
    k: int | None = option("Number of answers; for vectors, the dimension.", _DEVICES)
    bounds: Bounds | None = option("Bounds of a randomizer of numbers; default: 0,1.", _DEVICES)
    sigma: float | None = option(
        "Standard deviation of --randomizer gaussian, or of gaussian-vectors of length 1 (--k).",
        _DEVICES,
    )
    table: Path | None = option(
        "Your own randomizer: probabilities of its outputs, a row per input (.csv, .npy).", _DEVICES
    )
    n: int | None = option("How many people report: 100000 or 1e5.", _CROWD)
    honest_fraction: float | None = option("Fraction of people who follow the protocol.", _CROWD)
    honest_n: int | None = option("Number of people who follow the protocol.", _CROWD)
    participation: float | None = option(
        "Probability that a person takes part; nobody sees who does.", _CROWD
    )
    rounds: int | None = option("Number of times that everybody reports.", _CROWD)
    delta: float | None = option(
        "δ; the answer is ε. Default: the smaller of 1e-6 and 1/(10 n).", _QUESTION
    )
    epsilon: float | None = option("ε; the answer is δ.", _QUESTION)
    solve: Unknown | None = option("Find ε0 or n for the target --epsilon, --delta.", _QUESTION)
    bound: str | None = option(
        "A published bound by name (--all lists them); default: the tightest.", _QUESTION, "NAME"
    )
    all: bool = option("Compare every published bound, tightest first.", _QUESTION)
    composition: Composition | None = option(
        "Method that composes --rounds; default: pld.", _QUESTION
    )
    json: bool = option("Print JSON.", _QUESTION)

    rules = (
        Excludes(
            "all", ("bound", *_NOT_COMPARED), "--all compares bounds for one round at --delta"
        ),
        Excludes(
            "table",
            ("randomizer", "k", "bounds", "deletion_epsilon", "local_delta", "bound"),
            "--table defines the randomizer",
        ),
        Excludes(
            "randomizer",
            ("deletion_epsilon", "local_delta"),
            "--randomizer defines the randomizer",
        ),
        Excludes(
            "deletion_epsilon",
            ("local_epsilon", "k"),
            "--deletion-epsilon describes the randomizers",
        ),
        Excludes(
            "honest_n", ("honest_fraction",), "--honest-n already gives the number of honest people"
        ),
        Excludes("solve", ("bound", "composition"), "--solve uses the tightest bound"),
        Needs("solve", ("epsilon",), "the target (with --delta)"),
        Needs("sigma", ("randomizer",), "the randomizer with this noise"),
        Required(
            "sigma",
            "the standard deviation of its noise",
            unless=("solve=local-epsilon",),
            when=("randomizer=gaussian", "randomizer=gaussian-vectors"),
        ),
        Needs("k", ("randomizer", "bound"), "the randomizer with k answers"),
        Needs("bounds", ("randomizer",), "the randomizer of numbers"),
        Excludes(
            "solve=local-epsilon",
            ("local_epsilon", "deletion_epsilon", "local_delta", "table"),
            "--solve local-epsilon computes ε0, for pure randomizers",
        ),
        Required(
            "local_epsilon",
            "what each report guarantees by itself (or give --deletion-epsilon or --table)",
            unless=("deletion_epsilon", "table", "sigma", "solve=local-epsilon"),
        ),
        Excludes("solve=n", ("n", "honest_n"), "--solve n computes the number of people"),
        Required("n", "how many people report", unless=("solve=n",)),
        Excludes(
            "epsilon",
            ("delta",),
            "give --delta to get ε or --epsilon to get δ, not both (a target for --solve "
            "takes both)",
            unless=("solve",),
        ),
        *(
            Excludes(
                f"composition={name}",
                ("epsilon",),
                f"{name} computes ε, not δ: give --delta instead",
            )
            for name in ("renyi", "advanced", "best")
        ),
        Needs("composition", ("rounds",), "the number of rounds to compose"),
    )

    def people(self) -> dict[str, Any]:
        """Who takes part, as keywords of the accountant."""
        from shoal.questions.terms import Crowd

        crowd = Crowd(**self.only("honest_fraction", "participation"))
        return self.only("n", "honest_n") | {"crowd": crowd}


@command(app, ACCOUNT)
def amplify(options: AmplifyOptions) -> None:
    """How private reports become when they are shuffled.

    Say what each device runs and how many people report. Numbers may be written 1e5.
    """
    if options.sigma is not None:
        _obey_noise(options, options.randomizer or "")
    with working("computing"):
        from shoal.accounting import amplification, catalog
        from shoal.explain.text import plain, up

        entry = None if options.bound is None else catalog.get(options.bound)
        values: object
        if options.all or (entry is not None and not entry.certified):
            values, document = _compared(options, entry)
        elif options.solve is not None:
            values, document = _solved(options)
        else:
            values = guarantee = amplification.amplify(
                **_devices(options),
                **options.people(),
                **options.only(*_TARGET, "rounds", "bound", "composition"),
            )
            delta = f"δ = {up(guarantee.delta)} at ε = {plain(guarantee.epsilon)}"
            document = guarantee.document(delta if options.epsilon is not None else "")
    answer(options, values, document)


def _obey_noise(options: AmplifyOptions, randomizer: str) -> None:
    """--sigma is for randomizers with such noise, and these have no ε0."""
    from shoal.mechanisms.registry import line

    known = line(randomizer)  # or there is no such name
    name = f"randomizer={randomizer}"
    if not known.by_sigma:
        why = f"no --sigma for {randomizer}, but --local-epsilon"
        options.obey(Excludes(name, ("sigma",), why))
    options.obey(
        Excludes(
            name, ("local_epsilon", "bound", "solve=local-epsilon"), "Gaussian noise has no ε0"
        )
    )


def _compared(options: AmplifyOptions, entry: Entry | None) -> tuple[object, Document]:
    """Every bound, or the one that is for comparisons only."""
    from shoal.accounting import catalog
    from shoal.accounting.comparison import Comparisons, compare

    if entry is not None:
        why = f"{entry.name} is for comparisons only, one round at --delta"
        options.obey(Excludes("bound", _NOT_COMPARED, why))
    rows = compare(**_devices(options), **options.people(), **options.only("delta"))
    if entry is None:
        return rows.records(), rows.document()
    row = next(row for row in rows if row.name == entry.name)
    # Where the bound does not apply the row has a remark; the bound itself raises the error.
    entry.epsilon(
        catalog.Query(local_epsilon=row.local_epsilon, n=row.n, delta=row.delta, k=options.k)
    )
    return row, Comparisons([row]).document()


def _solved(options: AmplifyOptions) -> tuple[object, Document]:
    """What reaches the target, and what it guarantees."""
    from shoal.accounting import amplification
    from shoal.explain.text import down

    solution: Any
    target = options.only(*_TARGET, "rounds") | options.people()
    if options.solve == "local-epsilon":
        family = None if options.randomizer is None else _family(options)
        solution = amplification.local_epsilon(family, **target)
        options = replace(options, local_epsilon=solution)
        title = f"ε0 = {down(solution)} on each device is private enough"
    else:
        solution = amplification.required_n(**_devices(options), **target)
        options = replace(options, n=solution)
        title = f"n = {solution:,} people are enough"
    given = options.people() | options.only("delta", "rounds")
    guarantee = amplification.amplify(**_devices(options), **given)
    # The solver has proved the target; inverting the curve once more may come out above it by its
    # rounding.
    guarantee = replace(guarantee, epsilon=min(guarantee.epsilon, target["epsilon"]))
    values = guarantee.to_dict() | {"solved": options.solve, "answer": solution}
    return values, guarantee.document(title)


def _devices(options: AmplifyOptions) -> dict[str, Any]:
    """What the devices run, as keywords: a randomizer, or what is known of any."""
    if options.table is not None:
        from shoal.accounting.law import BlanketLaw
        from shoal.cli.files import read_table

        table = read_table(options.table)
        return {"randomizer": BlanketLaw.from_table(table, local_epsilon=options.local_epsilon)}
    if options.sigma is not None:
        from shoal.mechanisms.registry import noisy

        name = options.randomizer or ""
        return {"randomizer": noisy(name, **options.only("sigma", "k", "bounds"))}
    if options.randomizer is not None or options.k is not None:
        return {"randomizer": _family(options)(epsilon=options.local_epsilon)}
    return options.only("local_epsilon", "local_delta", "deletion_epsilon")


def _family(options: AmplifyOptions) -> Any:  # noqa: ANN401 - whatever takes an epsilon
    """The named randomizers; --k alone, beside a bound, says that the devices run grr."""
    from shoal.mechanisms.registry import family

    return family(options.randomizer or "grr", k=options.k, bounds=options.bounds)
