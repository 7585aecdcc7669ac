"""``shoal plan``: what each device should run, and how wrong the chart will be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import typer

from shoal.cli import files
from shoal.cli.app import ANALYSE, app
from shoal.cli.options import Excludes, Needs, OneOf, Required, Rule, command, option, read_int
from shoal.cli.readers import read_bins, read_quantiles
from shoal.cli.render import answer, working
from shoal.cli.run import ANSWER, CROWD, WHAT, Asking
from shoal.errors import RefusedError

if TYPE_CHECKING:
    from shoal.questions.kinds import Question


class PlanOptions(Asking):
    """The target, the questions, who takes part, and what to make of the plan."""

    categories: str | None = option(
        "How many answers there are; or the public ones: a,b,c, or a file of lines.", WHAT, "LIST"
    )
    dimension: int | None = option("A vector with this many coordinates.", WHAT)
    n: int | None = option("How many people report: 100000 or 1e5.", CROWD)
    participation: float | None = option(
        "Probability that a person takes part; nobody sees who does.", CROWD
    )
    reports_per_person: int | None = option(
        "How often everybody answers; default: 1.", CROWD, keyword="reports"
    )
    plot: Path | None = option("Draw the options (.svg, .png).")
    save: Path | None = option("Save the plan, for shoal run --plan (.json).")

    rules: ClassVar[tuple[Rule, ...]] = (
        *Asking.rules,
        Required("epsilon", "what the collection may cost each person"),
        Required("n", "how many people report"),
        OneOf(
            ("questions", "categories", "choices", "scale", "bounds", "bins", "dimension"),
            "what people answer",
            unless=("bins",),
        ),
        Excludes("bins", ("categories", "dimension"), "--bins says what people answer"),
        Needs("norm", ("dimension",), "the number of coordinates"),
        Required("groups", "the public groups, as a plan has no table", when=("by",)),
        Excludes("dimension", ("by",), "--by is for charts and means"),
    )

    def check(self) -> None:
        """A plan that is saved has what it asks: where bins are is no part of a plan's errors."""
        counted = self.bins is not None and "," not in self.bins
        if self.save is not None and counted and self.bounds is None:
            raise RefusedError("--bounds is missing: a saved plan says where the bins are")

    def asked(self) -> tuple[Question, ...]:
        """The questions."""
        from shoal.questions.kinds import Vector

        if self.questions is not None:
            return self.listed()
        if self.dimension is not None:
            return (Vector("vector", self.dimension, self.norm, **self.only("choose", "missing")),)
        question = self.shaped(ANSWER)
        if self.by is None:
            return (question,)
        groups: Any = None if self.groups is None else files.read_list(self.groups, "groups")
        return (question.by(self.by, groups),)

    def shaped(self, name: str, **terms: Any) -> Question:  # noqa: ANN401 - of a question
        """As of a table; where so many bins are does not change the plan."""
        bins = None if self.bins is None else read_bins(self.bins)
        if isinstance(bins, int) and self.bounds is None:
            return replace(self, bounds=f"0,{max(bins, 1)}").shaped(name, **terms)
        return super().shaped(name, **terms)

    def answers(self, text: str) -> Any:  # noqa: ANN401 - a list, or how many
        """The public answers, or how many there are."""
        try:
            return read_int(text)
        except typer.BadParameter:
            return super().answers(text)


@command(app, ANALYSE)
def plan(options: PlanOptions) -> None:
    """What each device should run for questions and a target, and what error to expect.

    Every mechanism is tried at the largest ε0 that keeps the target. Numbers may be written 1e5.
    """
    files.check(plot=options.plot, save=options.save)
    with working("planning"):
        import shoal

        target = options.only("epsilon", "delta", "n", "reports_per_person")
        asked = options.asked()
        if options.plot is not None and len(asked) > 1:
            raise RefusedError("--plot draws the options of one question")
        made = shoal.plan(asked, **target, **options.terms())
    values, document = made.to_dict(), made.document()
    if options.quantiles is not None:
        levels = read_quantiles(options.quantiles)
        errors = {level: made.quantile_error(level) for level in levels}
        values["quantile_errors"] = [
            {"quantile": level, "people": error} for level, error in errors.items()
        ]
        lines = (
            f"The count up to the {level:g} quantile will be off by about {error:,.3g} people."
            for level, error in errors.items()
        )
        document = replace(document, sentences=(*document.sentences, *lines))
    files.write(files.figure(options.plot, "plan", made), (options.save, made.save))
    answer(options, values, document)
