"""The catalog of published bounds in the docs is what ``shoal amplify --all`` says."""

from __future__ import annotations

import re

from repository import ROOT

PAGE = ROOT / "docs/theory/published-bounds.md"
ROW = re.compile(r"^\| `(?P<bound>[\w-]+)` \| (?P<value>[\d.]+|–) \|", re.MULTILINE)
DECIMALS = 4


def test_the_catalog_is_current(run):
    rows = run("amplify --local-epsilon 4 --n 1e5 --delta 1e-6 --all --json").json()
    printed = {row["bound"]: row["epsilon"] for row in rows}
    catalog = dict(ROW.findall(PAGE.read_text(encoding="utf-8")))
    assert set(catalog) == set(printed)
    for bound, value in catalog.items():
        if value == "–":
            assert printed[bound] is None
        else:  # upper bounds are rounded up
            assert 0 <= float(value) - printed[bound] < 10**-DECIMALS
