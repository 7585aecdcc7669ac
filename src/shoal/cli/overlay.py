"""``shoal overlay``: which neighbours to give people who pass reports on."""

from __future__ import annotations

from typing import Annotated

from shoal.cli.options import RefusedError, flag, number, whole
from shoal.cli.render import print_json, reporting

_CROWD = "Who takes part"
_WANTED = "What is wanted"
_OUT = "What to make of it"


def overlay(
    *,
    n: Annotated[int | None, whole("How many people: 100000 or 1e5.", _CROWD)] = None,
    degree: Annotated[int, whole("Neighbours that a peer may have.", _CROWD)] = 16,
    epsilon: Annotated[
        float | None,
        number("ε to reach; within 10 % of a central shuffler's if not given.", _WANTED),
    ] = None,
    delta: Annotated[float, number("δ.", _WANTED)] = 1e-6,
    local_epsilon: Annotated[float, number("ε0 of each report by itself.", _WANTED)] = 1.0,
    seed: Annotated[int, whole("Of the random overlays.", _OUT)] = 0,
    as_json: Annotated[bool, flag("--json", "Print JSON.", _OUT)] = False,
) -> None:
    """Compare graphs to pass reports on along: rounds, messages and loads of each.

    Everybody counts (the worst user), against a server that sees final holders only.
    """
    if n is None:
        raise RefusedError("--n is missing: how many people pass reports on")
    with reporting("comparing") as progress:
        from shoal.cli import overlay_show
        from shoal.network.overlays import compare

        found = compare(
            n,
            degree=degree,
            local_epsilon=local_epsilon,
            epsilon=epsilon,
            delta=delta,
            seed=seed,
            progress=progress,
        )
    if as_json:
        print_json(overlay_show.to_dict(found))
    else:
        overlay_show.show(found)
