"""What a training run is proved to give away, by which route, and for which kind of sampling."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property

from shoal.accounting import gaussian
from shoal.accounting.search import Side
from shoal.errors import InvalidArgumentError, ShoalError, UnreachableTargetError
from shoal.explain.document import Document, Row, Table
from shoal.explain.text import down, plain, plural, up
from shoal.learning import permuted
from shoal.learning.run import Run, Sampling


@dataclass(frozen=True)
class Route:
    """One way to an epsilon: the number, or None and the reason why there is none."""

    name: str
    epsilon: float | None
    remark: str = ""

    def __str__(self) -> str:
        answer = f"none, {self.remark}" if self.epsilon is None else up(self.epsilon)
        return f"{self.name}: {answer}"


@dataclass(frozen=True, kw_only=True)
class LearningGuarantee(Run):
    """A training run and its (epsilon, delta): an upper bound for all iterates, what it assumes.

    ``local`` is the epsilon, at the same delta, of one step seen by somebody who knows whose
    examples it used. ``lower`` is a number that no better analysis of the same run can go below,
    0 where none is known; it is computed when first asked for.
    """

    epsilon: float
    theorem: str
    local: float
    routes: tuple[Route, ...]
    assumptions: tuple[str, ...]

    @cached_property
    def lower(self) -> float:
        """How far any better analysis of the same run could still go."""
        return min(self.lower_bound(), self.epsilon)

    def lower_bound(self) -> float:
        """What explicit data give away."""
        if self.sampling is Sampling.FIXED:
            mu = 2 * math.sqrt(self.epochs) / self.noise_multiplier
            return gaussian.epsilon(mu, self.delta, side=Side.LOWER)
        if self.sampling is not Sampling.PERMUTATION or self.n % self.batch:
            return 0.0  # an example that is left out at times gives less away than the witnesses do
        return permuted.lower_epsilon(self)

    def assuming(self, *assumptions: str) -> LearningGuarantee:
        """The same guarantee, which rests on these assumptions as well."""
        return replace(self, assumptions=(*self.assumptions, *assumptions))

    @property
    def words(self) -> str:
        """The guarantee in one sentence."""
        run = f"{plural(self.epochs, 'epoch')} over {plural(self.n, 'example')}"
        proved = f"({up(self.epsilon)}, {plain(self.delta)})-differentially private"
        return (
            f"everything published during {run} is {proved} ({self.neighbouring}) if "
            f"{self.sampling.words}"
        )

    def to_dict(self) -> dict[str, object]:
        """Plain values, as the command line's ``--json`` prints them."""
        values = {"epsilon": self.epsilon, "lower": self.lower, "steps": self.steps} | vars(self)
        values |= {
            "sampling": self.sampling.value,
            "routes": [asdict(route) for route in self.routes],
            "assumptions": list(self.assumptions),
            "warnings": list(self.warnings),
        }
        del values["drop_last"]
        return values

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before relying on it."""
        warnings: tuple[str, ...] = ()
        if self.delta >= 1 / self.n:
            some = plural(self.n, "example")
            warnings += (f"δ is not smaller than 1/n: one of {some} could be printed",)
        if self.sampling is Sampling.PERMUTATION and self.theorem.endswith("no amplification"):
            if self.blocks == 1:
                advice = "an epoch is a single step, and there is no order to hide"
            else:
                more = "more examples" if self.batch == 1 else "smaller batches"
                advice = f"more noise, or {more}, would"
            warnings += (f"shuffling gains nothing here: {advice}",)
        return warnings

    @property
    def size(self) -> str:
        """How many examples, in which batches."""
        batches = f" in batches of {self.batch:,}" if self.batch > 1 else ""
        return f"{plural(self.n, 'example')}{batches}"

    def document(self, title: str = "") -> Document:
        """The guarantee put into words."""
        passes = f"{plural(self.epochs, 'epoch')}, {plural(self.steps, 'step')}"
        lower: tuple[tuple[str, str], ...] = ()
        if self.lower > 0:
            gap = f"gap {1 - self.lower / self.epsilon:.1%}"
            lower = (("lower bound", f"{down(self.lower)} ({gap}): no analysis can prove less"),)
        routes = [str(route) for route in self.routes]
        return Document(
            title or f"ε = {up(self.epsilon)} at δ = {plain(self.delta)}",
            facts=(
                ("epsilon", f"{up(self.epsilon)}, a proved upper bound"),
                ("delta", up(self.delta)),
                *lower,
                ("run", f"{self.size}; {passes}"),
                ("noise multiplier", plain(self.noise_multiplier)),
                ("sampling", f"{self.sampling}: {self.sampling.words}"),
                ("theorem", self.theorem),
                ("neighbours", self.neighbouring),
                ("one step alone", f"ε = {up(self.local)} at the same δ, without any sampling"),
                *zip(("routes", *[""] * len(routes)), routes, strict=False),
                *zip(("assumes", *[""] * len(self.assumptions)), self.assumptions, strict=False),
            ),
            warnings=self.warnings,
        )

    def __str__(self) -> str:
        """One readable block."""
        return str(self.document())

    def _repr_html_(self) -> str:
        return self.document().to_html()


@dataclass(frozen=True)
class Refused:
    """A kind of sampling that has no guarantee in a comparison, and the error that says why."""

    sampling: Sampling
    neighbouring: str
    error: ShoalError
    noise_multiplier: float | None = None
    epsilon: None = None

    @property
    def remark(self) -> str:
        """The reason in a few words."""
        if isinstance(self.error, UnreachableTargetError):
            return self.error.reason
        return "the batch does not divide n"

    def __str__(self) -> str:
        return f"{self.sampling}: {self.error}"


@dataclass(frozen=True)
class Comparison:
    """Every kind of sampling beside the others; ``target`` is the epsilon that noise was found for.

    Iterating gives the rows.
    """

    rows: tuple[LearningGuarantee | Refused, ...]
    target: float | None = None

    def __iter__(self) -> Iterator[LearningGuarantee | Refused]:
        return iter(self.rows)

    def guarantee(self, sampling: Sampling | str | None = None) -> LearningGuarantee:
        """That of this kind of sampling; without a kind, the first that there is."""
        error: ShoalError | None = None
        for row in self.rows:
            if sampling in (None, row.sampling.value):
                if isinstance(row, LearningGuarantee):
                    return row
                error = error or row.error
        raise error or InvalidArgumentError("sampling", sampling, "a kind that was compared")

    def to_dict(self) -> dict[str, object]:
        """Plain values, a row each."""
        rows = [
            {
                "sampling": row.sampling.value,
                "neighbouring": row.neighbouring,
                "epsilon": row.epsilon,
                "noise_multiplier": row.noise_multiplier,
                "loader": row.sampling.loader,
                "refused": str(row.error) if isinstance(row, Refused) else None,
            }
            for row in self.rows
        ]
        return {"compared": rows}

    def document(self, sampling: Sampling | str | None = None) -> Document:
        """A table of all; the guarantee of one kind of sampling, if it is named, in full."""
        best = self.guarantee(sampling)
        run = f"{best.size}, {plural(best.epochs, 'epoch')}"
        if self.target is None:
            noise = f"noise multiplier {plain(best.noise_multiplier)}"
            title, headline = f"ε at δ = {plain(best.delta)}: {run}, {noise}", ""
        else:
            title = f"Noise for ε = {plain(self.target)} at δ = {plain(best.delta)}: {run}"
            headline = f"noise multiplier {plain(best.noise_multiplier)} is enough"
        answer = "ε" if self.target is None else "noise"
        table = Table(
            ("sampling", answer, "neighbours", "which loader does it"),
            tuple(Row(self._cells(row), "strong" if row is best else "") for row in self.rows),
            numeric=frozenset({1}),
            title=title,
        )
        document = best.document(headline)
        if sampling is None:
            document = replace(document, facts=())
        return replace(document, table=table, sentences=_KEY)

    def _cells(self, row: LearningGuarantee | Refused) -> tuple[str, str, str, str]:
        if isinstance(row, Refused):
            return row.sampling.value, "–", row.neighbouring, row.remark
        answer = up(row.epsilon) if self.target is None else plain(row.noise_multiplier)
        return row.sampling.value, answer, row.neighbouring, row.sampling.loader


_KEY = (
    "The data loader decides which row holds; no row says anything about another.",
    "Replacing an example costs more than adding or removing it.",
)
