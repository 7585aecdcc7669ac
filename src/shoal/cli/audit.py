"""``shoal audit``: run a pipeline many times, and see whether it keeps what is claimed."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from shoal.cli import files
from shoal.cli.app import ACCOUNT, app, printable
from shoal.cli.options import Bounds, Excludes, Needs, Options, Required, command, option
from shoal.cli.render import answer, console, working
from shoal.errors import RefusedError, ShoalError

if TYPE_CHECKING:
    from shoal.auditing import Audit
    from shoal.auditing.subjects import Subject
    from shoal.mechanisms.base import Device

VIOLATED = 1
UNEXPECTED = 70  # as a traceback's own status is 1, which would be a verdict

_DEVICES = "What is declared"
_CODE = "What really runs, if it is yours: one of"
_CLAIM = "What is claimed"
_HOW = "How to audit"
_CODE_OPTIONS = ("callable", "pipeline", "command")
_LOCAL_EPSILON = 1.0
_STYLES = {"consistent": "bold green", "violated": "bold red"}


class Values(tuple[int | float | str, ...]):
    """Values to try as inputs."""

    __slots__ = ()


def read_values(text: str) -> Values:
    """Values by commas: whole numbers if all are, numbers if all are, else words.

    >>> read_values("0,1"), read_values("0,0.5"), read_values("yes, no")
    ((0, 1), (0.0, 0.5), ('yes', 'no'))
    """
    words = [word.strip() for word in text.split(",")]
    if len(set(words)) < 2 or not all(words):
        raise typer.BadParameter(f"expected two or more different values, got {text!r}")
    for kind in (int, float):
        try:
            return Values(map(kind, words))
        except ValueError:
            continue
    return Values(words)


class AuditOptions(Options):
    """What is declared, what really runs, what is claimed, and how to audit."""

    randomizer: str | None = option(
        "A mechanism by name: grr, subset, dummies, …", _DEVICES, "NAME"
    )
    k: int | None = option("Number of answers; for vectors, the dimension.", _DEVICES)
    bounds: Bounds | None = option("Bounds of a mechanism of numbers.", _DEVICES)
    sigma: float | None = option(
        "Standard deviation of gaussian or gaussian-vectors; default: what --epsilon needs.",
        _DEVICES,
    )
    table: Path | None = option(
        "Or its table of probabilities, a row per input (.csv, .npy).", _DEVICES
    )
    callable: str | None = option(
        "A function that takes one value and returns its message.", _CODE, "MODULE:NAME"
    )
    vectorized: bool = option("--callable takes an array of values.", _CODE)
    pipeline: str | None = option(
        "A function that takes everybody's values and returns all messages in order.",
        _CODE,
        "MODULE:NAME",
    )
    command: str | None = option(
        "A program that reads a value per line and writes a message per line.", _CODE, "WORDS"
    )
    timeout: float | None = option(
        "Seconds that the program may take for one block of lines.", _CODE
    )
    values: Values | None = option(
        "Inputs to try: a,b,c.", _CODE, "LIST", parser=read_values, keyword="inputs"
    )
    n: int | None = option("How many people report.", _CLAIM)
    epsilon: float | None = option(
        "Claimed ε of all reports together; default: what is proved.", _CLAIM
    )
    delta: float = option("δ.", _CLAIM, default=1e-6)
    local_epsilon: float | None = option("Claimed ε0 of each report by itself.", _CLAIM)
    runs: int = option("Number of runs on each of the two data sets.", _HOW, default=100_000)
    confidence: float = option(
        "Confidence: the probability, at least, that all lower bounds hold.", _HOW, default=0.999
    )
    seed: int | None = option(
        "Seed for reproducible random numbers; without it they are cryptographically secure.", _HOW
    )
    plot: Path | None = option("Draw the statistic on both data sets (.svg, .png).")

    rules = (
        Excludes("table", ("randomizer",), "--table says what is declared"),
        Needs("k", ("randomizer",), "the randomizer with k answers"),
        Needs("sigma", ("randomizer",), "the randomizer with this noise"),
        Excludes("sigma", ("local_epsilon",), "Gaussian noise has no ε0"),
        Needs("bounds", ("randomizer",), "the randomizer of numbers"),
        Excludes("callable", ("pipeline", "command"), "--callable names the code that runs"),
        Excludes("pipeline", ("command",), "--pipeline names the code that runs"),
        Needs("vectorized", ("callable",), "the function that takes an array"),
        Needs("timeout", ("command",), "the program that the limit is for"),
        Needs("values", _CODE_OPTIONS, "a known randomizer names its own inputs"),
        *(
            rule
            for name in _CODE_OPTIONS
            for rule in (
                Needs(name, ("values", "randomizer", "table"), "the inputs to try"),
                Needs(name, ("epsilon", "local_epsilon", "randomizer", "table"), "a claim"),
            )
        ),
        Required("randomizer", "what to audit", ("table", *_CODE_OPTIONS)),
        Required("n", "how many people report"),
    )


@command(app, ACCOUNT)
def audit(options: AuditOptions) -> None:
    """Whether a pipeline keeps its ε: lower bounds from running it on neighbouring data.

    Exit status 0 if nothing refutes the claims, 1 if a claim is refuted, 2 if the question was,
    70 if shoal itself failed.
    """
    files.check(plot=options.plot)
    with _no_other_verdict():
        with working("auditing") as progress:
            result = _audited(options, progress)
        files.write(files.figure(options.plot, "audit", result))
        document = result.document()
        if not options.json:
            console().print(printable(document.title), style=_STYLES[result.verdict])
        answer(options, result, document, options.plot)
    if result.verdict == "violated":
        raise typer.Exit(VIOLATED)


@contextmanager
def _no_other_verdict() -> Iterator[None]:
    """Whatever else ends the command must not look like the verdict "violated"."""
    try:
        yield
    except (ShoalError, KeyboardInterrupt):
        raise  # refused, or interrupted: each has a status of its own
    except BrokenPipeError:
        raise typer.Exit(UNEXPECTED) from None  # nobody reads the message
    except BaseException:  # noqa: BLE001 - shown in full, and then there is no verdict
        traceback.print_exc()
        sys.stderr.write("error: shoal audit failed unexpectedly; nothing was concluded\n")
        raise typer.Exit(UNEXPECTED) from None


def _audited(options: AuditOptions, progress: Any) -> Audit:  # noqa: ANN401 - done and total
    """Run it. What the audited code prints goes to standard error."""
    import shoal
    from shoal.randomness import simulated

    declared = _declared(options)
    several = getattr(declared, "several", False)
    with redirect_stdout(sys.stderr):
        return shoal.audit(
            _code(options) or declared,
            **options.only("n", "epsilon", "delta", "runs", "confidence", "values"),
            local_epsilon=None if several else options.local_epsilon,
            declared=declared,
            randomness=None if options.seed is None else simulated(options.seed),
            progress=progress,
        )


def _declared(options: AuditOptions) -> object | None:
    from shoal.auditing.subjects import Listed
    from shoal.mechanisms.registry import family, line, noisy

    if options.table is not None:
        return Listed(files.read_table(options.table))
    if options.randomizer is None:
        return None
    if options.sigma is not None:
        return noisy(options.randomizer, **options.only("sigma", "k", "bounds"))
    if not line(options.randomizer).local:
        return _calibrated(options, options.randomizer)
    local = _LOCAL_EPSILON if options.local_epsilon is None else options.local_epsilon
    return family(options.randomizer, k=options.k, bounds=options.bounds)(epsilon=local)


def _calibrated(options: AuditOptions, name: str) -> Device:
    """With the least noise that keeps the claim."""
    from shoal.mechanisms import registry

    itself, shape = f"randomizer={name}", dict[str, Any]()
    options.obey(
        Needs(itself, ("epsilon",), "the ε that its noise is made for"),
        Excludes(itself, ("local_epsilon",), f"{name} has no ε0"),
    )
    known = registry.line(name)
    takes = known.takes
    if takes in {"answers", "vectors"}:
        options.obey(Needs(itself, ("k",), "the number of answers, or the dimension"))
        size = "norm" if known.by_sigma else "bound"
        shape = {"k": options.k} if takes == "answers" else {"dimension": options.k, size: 1.0}
    else:
        options.obey(Excludes(itself, ("k",), f"--randomizer {name} takes no --k"))
    if takes == "numbers":
        low, high = options.bounds or (0.0, 1.0)
        shape = {"low": low, "high": high}
    else:
        options.obey(Excludes(itself, ("bounds",), f"--randomizer {name} takes no numbers"))
    calibrated = registry.calibration(name)
    return calibrated(n=options.n, epsilon=options.epsilon, delta=options.delta, **shape)


def _code(options: AuditOptions) -> Subject | None:
    """What runs that is not Shoal's."""
    from shoal.auditing import Function, Program, WholePipeline

    if options.command is not None:
        return Program(options.command, **options.only("timeout"))
    if options.pipeline is not None:
        return WholePipeline(_loaded("--pipeline", options.pipeline))
    if options.callable is None:
        return None
    device = _loaded("--callable", options.callable)
    method = getattr(device, "randomize", None)
    if method is not None:
        return Function(method, vectorized=True, label=options.callable)
    return Function(device, vectorized=options.vectorized, label=options.callable)


def _loaded(option: str, place: str) -> Any:  # noqa: ANN401 - a function, or an object
    """module:name, looked for in the working directory too."""
    import importlib

    from shoal.auditing.subjects import running

    module, colon, name = place.partition(":")
    if not (module and colon and name):
        raise RefusedError(f"expected {option} MODULE:NAME, got {place!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    with running(f"import {module}"):
        code: Any = getattr(importlib.import_module(module), name, None)
    if not callable(code) and not hasattr(code, "randomize"):
        raise RefusedError(f"{option}: {module} has no function {name!r}")
    if isinstance(code, type):
        raise RefusedError(f"{option}: {place} is a class: name a function, or an object")
    return code
