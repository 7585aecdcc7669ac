"""``shoal survey add``: let a shuffler or an analyzer collect for a survey."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.party_options import Store
from shoal.cli.render import print_json


def survey_add(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The survey.", show_default=False)],
    *,
    to: Annotated[
        Path, typer.Option(metavar="DIR", help="The directory of the shuffler or the analyzer.")
    ],
    store: Store = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Let a shuffler or an analyzer collect for a survey. Both have to be told, each by itself."""
    from shoal.service.running.extras import need_party

    need_party("shoal survey add", store)
    from shoal.cli import survey_answer
    from shoal.cli.survey_show import about_time
    from shoal.service.clock import system_clock
    from shoal.service.running import registering

    survey = survey_answer.read(file)
    home = registering.home_of(to, store)
    new = registering.add_survey(survey, home)
    if as_json:
        print_json({"survey": str(survey.id), "role": home.role, "new": new})
        return
    told = "collects for" if new else "collected already for"
    typer.echo(f"the {home.role} in {to} {told} survey {survey.id}")
    note = about_time(survey, system_clock())
    if note is not None:
        typer.echo(f"note: {note}")
    place = home.directory
    first = {
        "shuffler": f"shoal keys token {place} --survey {str(survey.id)[:8]}, for the analyzer",
        "analyzer": f"put the token of the shuffler's operator into {place}/token (mode 600)",
    }[home.role]
    starts = {
        "shuffler": f"shoal serve shuffler {place} and shoal serve worker {place}",
        "analyzer": f"shoal serve analyzer {place}",
    }[home.role]
    typer.echo(f"next: {first}; then {starts}")
