"""The table in README.md is what ``shoal amplify --all`` says."""

from __future__ import annotations

import re

from repository import ROOT

ROW = re.compile(r"^\| [`*](?P<bound>[\w -]+)[`*] \|.*\| (?P<value>.+?) \|$", re.MULTILINE)
SHOWN = 4
DECIMALS = 4


def test_the_table_of_bounds_is_current(run):
    rows = run("amplify --local-epsilon 4 --n 1e5 --delta 1e-6 --all --json").json()
    found = {row["bound"]: row["epsilon"] for row in rows}
    table = ROW.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    answered = {bound: float(value) for bound, value in table if value[0].isdigit()}
    assert float(answered.pop("no bound below")) == round(rows[0]["lower"], DECIMALS)
    assert len(answered) > SHOWN
    for bound, value in answered.items():
        # Upper bounds are rounded up.
        assert 0 <= value - found[bound] < 10**-DECIMALS
    unanswered = [bound for bound, value in table if not value[0].isdigit()]
    assert unanswered
    assert all(found[bound] is None for bound in unanswered)
