"""``shoal survey list`` and ``shoal survey remove``: what a party collects for, and a mistake."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.app import printable
from shoal.cli.party_options import Store
from shoal.cli.render import console, print_json

if TYPE_CHECKING:
    from shoal.service.running.registering import Registered

Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


def survey_list(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The shuffler's or the analyzer's directory.")
    ],
    *,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List the surveys that a shuffler or an analyzer collects for."""
    from shoal.service.running.extras import need_party

    need_party("shoal survey list", store)
    from rich import box
    from rich.table import Table

    from shoal.explain.text import moment
    from shoal.service.running import registering

    home = registering.home_of(directory, store)
    found = registering.surveys_of(home)
    if as_json:
        print_json({"role": home.role, "surveys": [_plain(each) for each in found]})
        return
    if not found:
        typer.echo(f"the {home.role} in {directory} collects for no survey: shoal survey add")
        return
    page = Table("survey", "name", "from", "to (UTC)", "taken", box=box.SIMPLE_HEAD)
    for each in found:
        survey = each.survey
        times = (moment(when) for when in (survey.not_before, survey.not_after))
        taken = "yes" if each.taken else "nothing"
        page.add_row(str(survey.id)[:16], printable(survey.name), *times, taken)
    console().print(page)


def survey_remove(
    survey: Annotated[
        str, typer.Argument(metavar="ID", help="The survey's name; its first digits will do.")
    ],
    *,
    directory: Annotated[
        Path,
        typer.Option(
            "--from", metavar="DIR", help="The directory of the shuffler or the analyzer."
        ),
    ],
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Withdraw a survey that was added by mistake, as long as nothing was taken for it."""
    from shoal.service.running.extras import need_party

    need_party("shoal survey remove", store)
    from shoal.service.running import registering

    home = registering.home_of(directory, store)
    name, revoked = registering.remove_survey(home, survey)
    if as_json:
        print_json({"survey": str(name), "role": home.role, "revoked": revoked})
        return
    tokens = f", and {revoked} token{'s' * (revoked != 1)} for it ended" if revoked else ""
    typer.echo(f"the {home.role} in {directory} collects no more for survey {name}{tokens}")
    typer.echo("note: what runs takes nothing for it from now on, and shows it until restarted")


def _plain(found: Registered) -> dict[str, object]:
    survey = found.survey
    return {
        "survey": str(survey.id),
        "name": survey.name,
        "question": survey.question,
        "not_before": survey.not_before,
        "not_after": survey.not_after,
        "taken": found.taken,
    }
