"""Every example runs by itself and tells what it was written to tell."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from repository import ROOT, environment

EXAMPLES = ROOT / "examples"
LONGEST = 60
# What each one must print, numbers that depend on the noise left open.
TOLD = {
    "bring_your_own_randomizer.py": [
        r"one report by itself: eps0 = 1\.792",
        r"by its own law: +epsilon = 0\.0305, no analysis below 0\.02",
        r"any such randomizer: +epsilon = 0\.0408",
        r"takes about 6,000 people",
    ],
    "network_mean.py": [
        r"error of the mean at epsilon = +0\.25 +0\.5 +1\n",
        r"no amplification +0\.[5-9]\d\d",
        r"central shuffler +0\.0[4-7]\d",
        r"network, all +0\.0[4-7]\d",
        r"network, single +0\.(0[6-9]|10|11)\d",
    ],
    "plan_a_survey.py": [
        r"recommended: \w+, because",
        r"curator would be off by 12 people, no shuffler by 3,467",
        r"answer  0: .*\(in truth 44,313\), significant",
        r"guarantee: \(0\.500, 1e-07\)-DP",
    ],
    "heavy_hitters.py": [
        r"prefix-dummies: 9\.\d+ messages each",
        r"prefix-grr: 1\.00 messages each",
        r"recall 100%, precision 100%",
    ],
    "private_mean.py": [
        r"mean: (6\.9[89]|7\.0[012])\d hours, .* in truth 7\.000",
        r"epsilon = 1\.000 at delta = 1e-06",
    ],
    "several_messages.py": [
        r"one of 50 answers, 100,000 people",
        r"one message +1\.000 +33\.0 .* [01]\.\d{3}",
        r"dummies +1\.021 +6\.5 +\d{1,2}\.\d +\d+ +1\.000",
        r"zero-sum +50\.979 +6\.5 +\d{1,2}\.\d +0 +1\.000",
        r"near-central +1\.006 +1\.5 +\d{1,2}\.\d +- +1\.000",
    ],
    "thirty_rounds.py": [
        r"one day: +epsilon = 0\.0221",
        r"thirty days: epsilon = 0\.1337",
        r"affords eps0 = (5\.9|6\.0) a day",
    ],
}


def test_every_example_is_run_here():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(TOLD)


@pytest.mark.parametrize("name", TOLD)
def test_an_example_tells_its_story(name, tmp_path):
    finished = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name)],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert not finished.stderr
    for pattern in TOLD[name]:
        assert re.search(pattern, finished.stdout), f"{pattern}\n{finished.stdout}"
    assert not list(tmp_path.iterdir()), "an example leaves nothing behind"


@pytest.mark.parametrize("name", TOLD)
def test_an_example_is_short(name):
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) < LONGEST
