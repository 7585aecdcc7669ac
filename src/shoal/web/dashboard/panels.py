"""What the page of a survey tells everybody who may read its results."""

from __future__ import annotations

import math

from shoal.accounting.guarantee import Guarantee
from shoal.explain.text import plain, up
from shoal.report import charts
from shoal.report.markup import Markup, element
from shoal.report.result import sentences
from shoal.service.analyzer.release_decision import local_epsilon
from shoal.service.survey import Survey
from shoal.web.dashboard import chart, graphs
from shoal.web.dashboard.chart import Order
from shoal.web.dashboard.crowd import Crowd
from shoal.web.dashboard.curve import Curve
from shoal.web.dashboard.files import FILES
from shoal.web.dashboard.parts import address, epsilon, facts, link, note, panel, several, table
from shoal.web.dashboard.progress import Progress
from shoal.web.dashboard.snapshot import Funnel, Snapshot

_PARTS = {
    0: "Less than a quarter of",
    1: "At least a quarter of",
    2: "At least half of",
    3: "At least three quarters of",
    4: "All of",
}


def result(snapshot: Snapshot, order: Order) -> Markup:
    """What was found so far."""
    found, survey = snapshot.result, snapshot.survey
    if found is None:
        return panel("found", "What was found", _nothing_yet(snapshot), wide=True)
    bound = (snapshot.combined or {}).get("bias_bound")
    what = "a share" if survey.answers else "the mean"
    return panel(
        "found",
        "What was found",
        *chart.found(found.only, snapshot.answers, order, address(survey)),
        note(charts.INTERVALS.format(what), kind="remark"),
        note(_shifted(what, bound, survey), kind="remark"),
        wide=True,
    )


def _nothing_yet(snapshot: Snapshot) -> Markup:
    if snapshot.published:
        return note("The counts of the published batches do not add up; see each batch by itself.")
    if snapshot.withheld:
        return note("Nothing is published yet: every batch that came was withheld.")
    return note("Nothing is published yet. The chart appears here with the first batch.")


def _shifted(what: str, bound: float | None, survey: Survey) -> str:
    if bound is None:
        return f"By how much dishonest people can have shifted {what} is not known."
    if not bound:
        return f"The survey counts on no dishonest people. If there are some, they shift {what}."
    size = f"{100 * bound:.3g} percentage points" if survey.answers else f"{bound:.3g}"
    assumed = f"{plain(100 * survey.dishonest)} % at most, as the survey assumes"
    return f"Dishonest people ({assumed}) can have shifted {what} by at most {size}."


def funnel(snapshot: Snapshot) -> Markup:
    """From what came to the crowd that hides each person in it."""
    found = snapshot.funnel
    if not found.received:
        empty = note("Nothing to count before the first batch is published.")
        return panel("funnel", "From reports to the crowd", empty)
    return panel(
        "funnel",
        "From reports to the crowd",
        facts(*_steps(found)),
        note(
            f"Of {several(len(snapshot.published), 'published batch', 'published batches')}. A "
            "batch that is still open is not in it."
        ),
    )


def _steps(found: Funnel) -> list[tuple[str, Markup]]:
    steps = (
        ("received", found.received, "reports in closed batches"),
        ("valid", found.valid, "that open, are possible, and are new"),
        ("honest", found.honest, "that the guarantee counts on"),
    )
    return [
        (
            name,
            element(
                "div",
                graphs.bar(number / found.received, said=f"{number:,} of {found.received:,}"),
                element("strong", f"{number:,}"),
                element("small", f" {text}"),
            ),
        )
        for name, number, text in steps
    ]


def progress(survey: Survey, told: Progress | None, *, waiting: bool) -> Markup:
    """How far the crowd is from the least one, in quarters."""
    if not waiting:
        return note("No batch is open.")
    if told is None:
        return note("The shuffler is being asked.")
    if not told.reachable:
        return note("The shuffler is not reachable.", kind="warning")
    least = f"the smallest crowd of {survey.batches.minimum:,}"
    if told.quarters is None:
        return note(f"Parts of {least} would be a handful of people: nothing is told.")
    said = f"{_PARTS[told.quarters]} {least} is there"
    closing = ""
    if told.closes_in is not None:
        closing = f" It closes in at most {several(told.closes_in, 'hour')}."
    return element(
        "div",
        graphs.quarters(told.quarters, said),
        element("p", f"{said}, as the shuffler tells everybody.{closing}"),
    )


def crowd(snapshot: Snapshot, computed: Crowd | None, progressed: Markup) -> Markup:
    """Progress to the smallest crowd, and epsilon as it grows."""
    survey = snapshot.survey
    title = "The crowd, and what it is worth"
    if computed is None:
        drawn = note("The curve is being computed.")
    elif len(computed.curve) < 2:
        drawn = note("There is no curve to draw.")
    else:
        drawn = _curve(snapshot, computed)
    remark = (
        f"A batch closes at {survey.batches.target:,} valid reports. One that is smaller after "
        f"{_age(survey.batches.max_age)} closes with {survey.batches.minimum:,} or more."
    )
    return panel("crowd", title, progressed, drawn, note(remark))


def _age(seconds: int) -> str:
    hours = -(-seconds // 3600)
    return several(hours, "hour") if hours < 48 else several(hours // 24, "day")


def _curve(snapshot: Snapshot, computed: Crowd) -> Markup:
    survey = snapshot.survey
    drawn = Curve(
        points=computed.curve,
        published=[(line.valid, line.epsilon) for line in snapshot.published if line.epsilon],
        marks=(
            (survey.batches.minimum, f"minimum {survey.batches.minimum:,}"),
            (survey.batches.target, f"target {survey.batches.target:,}"),
        ),
        promised=survey.epsilon,
    )
    rows = [(f"{valid:,}", epsilon(value)) for valid, value in computed.curve]
    numbers = table(
        ("valid reports", "ε"), rows, caption="Epsilon as the crowd grows", classes=("n", "n")
    )
    return element(
        "figure",
        element(
            "figcaption",
            "ε over the valid reports of a batch. Dots: published batches. Dashed: promised at "
            "most.",
        ),
        drawn.drawn(),
        element("details", element("summary", "The same as a table"), numbers, id="curve-table"),
        class_="plot",
    )


def budget(snapshot: Snapshot) -> Markup:
    """What is promised to one person over the survey's life, and what was lost so far."""
    survey, life = snapshot.survey, snapshot.life
    readers, analyzer = life["epsilon"], life["analyzer_epsilon"]
    least = survey.guarantee(survey.batches.minimum).epsilon
    largest = max(survey.epsilon, least, readers or 0.0, analyzer or 0.0)

    def row(value: float, said: str, kind: str = "fill") -> Markup:
        drawn = graphs.bar(value / largest, said=said, kind=kind)
        return element("div", drawn, element("strong", said))

    spent = row(readers, f"ε = {up(readers)}") if readers else element("div", "nothing so far")
    if analyzer is not None:
        over = analyzer > survey.epsilon * (1 + 1e-9)
        seen = row(analyzer, f"ε = {up(analyzer)}", "fill over" if over else "fill")
    else:
        none = "no guarantee: a batch that was withheld had too few" if life["opened"] else ""
        seen = element("div", none or "nothing so far")
    return panel(
        "budget",
        "Budget of one person",
        facts(
            (
                "promised at most",
                row(survey.epsilon, f"ε = {plain(survey.epsilon)}", "fill pale"),
            ),
            ("at the smallest crowd", row(least, f"ε = {up(least)}", "fill pale")),
            ("lost towards readers", spent),
            ("lost towards the analyzer", seen),
        ),
        note(
            f"At δ = {plain(survey.delta)}, over the survey's whole life. The survey promises an ε "
            f"of at most {plain(survey.epsilon)}; its noise keeps {up(least)} in a batch of the "
            f"smallest crowd of {survey.batches.minimum:,}. Batches of different people do not add "
            "up: the cost is that of the smallest batch."
        ),
    )


def collusion(survey: Survey, snapshot: Snapshot, computed: Crowd | None) -> Markup:
    """Who would have to work together, and what they get."""
    heads = ("who", "learns", "still guaranteed")
    least = f"ε ≤ {up(survey.guarantee(survey.batches.minimum).epsilon)}"
    rows = [
        (
            "readers of the results",
            "what is on this page",
            f"{least}{_so_far(snapshot, 'epsilon')}",
        ),
        (
            "the analyzer alone",
            "mixed, randomized reports",
            f"{least}{_so_far(snapshot, 'analyzer_epsilon')}{_too_small(snapshot)}",
        ),
        ("the shuffler alone", "who takes part, and when; no answers", "reports stay sealed"),
        ("both together", "whose randomized report is whose", _alone(survey)),
        *_fake_rows(survey, computed),
    ]
    return panel(
        "collusion",
        "Who must collude to hurt you",
        table(heads, rows, caption="What each of them learns", classes=("text",) * 3),
        note(
            f"ε at δ = {plain(survey.delta)}, for one person over the survey's life, in a batch of "
            f"the smallest crowd of {survey.batches.minimum:,}."
        ),
        wide=True,
    )


def _so_far(snapshot: Snapshot, towards: str) -> str:
    """Withheld batches may be smaller than the crowd must be; the analyzer has opened them."""
    reached = snapshot.life[towards]
    return f"; in the batches so far {up(reached)}" if reached else ""


def _too_small(snapshot: Snapshot) -> str:
    """What a withheld batch was too small for: there the smallest crowd's epsilon does not hold."""
    life = snapshot.life
    lost = life["opened"] and life["analyzer_epsilon"] is None
    return "; nothing in a batch that was withheld, with too few people" if lost else ""


def _alone(survey: Survey) -> str:
    local = local_epsilon(survey)
    return "nothing" if math.isinf(local) else f"ε0 = {up(local)}"


def _fake_rows(survey: Survey, computed: Crowd | None) -> list[tuple[str, str, str]]:
    counted = survey.batches.minimum - survey.honest(survey.batches.minimum)
    assumed = f" beside the {counted:,} counted on" if counted else ""
    if computed is None:
        return [("the analyzer and fake people", "a smaller crowd", "being computed")]
    return [
        (
            f"the analyzer and {fakes.people:,} fake people{assumed}",
            f"a crowd of {fakes.left:,} at least",
            f"ε ≤ {up(fakes.epsilon)}" if fakes.epsilon is not None else _alone(survey),
        )
        for fakes in computed.fakes
    ]


def privacy(snapshot: Snapshot) -> Markup:
    """The guarantee in words, and files to take along."""
    found = snapshot.result
    guarantee = (
        found.guarantee if found else snapshot.survey.guarantee(snapshot.survey.batches.minimum)
    )
    begun = "What is published so far" if found else "What is promised before anything is published"
    return panel(
        "privacy",
        "Privacy statement and files",
        element("h3", begun),
        *_statement(guarantee),
        *_notes(snapshot),
        _files(snapshot),
        wide=True,
    )


def _statement(guarantee: Guarantee) -> list[Markup]:
    said = sentences(guarantee)
    return [
        *(element("p", said[name]) for name in ("meaning", "trusted", "untrusted")),
        element(
            "details",
            element("summary", "What it assumes"),
            element("ul", *(element("li", text) for text in guarantee.assumptions)),
            id="assumptions",
        ),
    ]


def _notes(snapshot: Snapshot) -> list[Markup]:
    notes = snapshot.result.notes if snapshot.result else ()
    listed = element("ul", *(element("li", text) for text in notes))
    return [element("h3", "To know"), listed] if notes else []


def _files(snapshot: Snapshot) -> Markup:
    if not snapshot.lines:
        return note("Files can be had from the first batch on.")
    here = address(snapshot.survey)
    return element(
        "ul",
        *(
            element("li", link(name, f"{here}/download/{name}", download=""), f" {file.said}")
            for name, file in FILES.items()
            if snapshot.result is not None or not file.needs_result
        ),
        class_="files",
    )
