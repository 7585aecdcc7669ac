"""Every example runs by itself and tells what it was written to tell."""

from __future__ import annotations

import importlib.util
import re
import runpy
import socket
import sys
import warnings

import pytest

from repository import ROOT

EXAMPLES = ROOT / "examples"
LONGEST = 60
# What each one must print, numbers that depend on the noise left open.
TOLD = {
    "answer_a_survey.py": [
        r"Sent\(survey='[0-9a-f]{64}', occasion=1, again=False\)\nafter 2 tries",
        r"the same 107 bytes each time: True",
        r"walking +0\.5 +1e-6 +2\.3022 +1 of 1 +0",
        r"a promised epsilon of 0\.5, the policy allows at most 0\.1; nothing was sent",
    ],
    "bring_your_own_randomizer.py": [
        r"one report by itself: eps0 = 1\.792",
        r"by its own law: +epsilon = 0\.0305, no analysis below 0\.02",
        r"any such randomizer: +epsilon = 0\.0408",
        r"takes about 6,000 people",
    ],
    "age_distribution.py": [
        r"one message: \w+, 1 per person on 1 levels",
        r"several messages: near-central-lean, 4\d\d per person on 2 levels\n  25 % quantile",
        r"  median (4\d|5\d) \(95 % interval \d+ to \d+\)",
        r"  18 to 64: \d\d \%?.*about \d+ people",
        r"in truth: median 4\d",
    ],
    "answers_by_group.py": [
        r"epsilon = 1\.000, \w+\nnorth: (29,[89]|30,[01])\d\d people \(",
        r"  bus +(49\.[5-9]|50\.[0-5]) %",
        r"south: (19,[89]|20,[01])\d\d people .*\n  bus +(19|20)\.\d %",
        r"overseas: (nobody, up to noise: at most )?\d+",
    ],
    "network_mean.py": [
        r"error of the mean at epsilon = +0\.25 +0\.5 +1\n",
        r"no amplification +0\.[5-9]\d\d",
        r"central shuffler +0\.0[4-7]\d",
        r"network, all +0\.0[4-7]\d",
        r"network, single +0\.(0[6-9]|10|11)\d",
    ],
    "plan_a_survey.py": [
        r"Run \w+ with ε0 = [\d.]+: it sends least",
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
        r"lean +1\.549 +2\.9 +\d{1,2}\.\d +\d+ +1\.000",
        r"zero-sum +50\.979 +6\.5 +\d{1,2}\.\d +0 +1\.000",
        r"near-central +1\.006 +1\.5 +\d{1,2}\.\d +- +1\.000",
    ],
    "uniformity_test.py": [
        r"thought of, uniform\? The answers are not uniform: p ≤ 0\.0005",
        r"dealt, uniform\? No departure",
        r"thought of like dealt\? The two groups do not",
        r"partitioned-dummies +public .* power 0\.8",
        r"grr +private .* power 0\.36",
    ],
    "audit_your_randomizer.py": [
        r"declared +consistent +epsilon >= 0\.\d+ \(claimed 0\.226\), eps0 >= 0\.[89]\d",
        r"sloppy +violated .* eps0 >= 1\.[4-6]\d \(claimed 1\.00\)",
        r"forgetful +violated +epsilon >= (0\.[5-9]\d+|1\.00) \(claimed 0\.226\)",
    ],
    "permuted_sgd.py": [
        r"1 epoch\(s\) of 20,000 steps: [89]\d\.\d% right, epsilon = 0\.993 at delta = 1e-06",
        r"permutation +epsilon = 0\.993 \(replace-one",
    ],
    "vector_mean.py": [
        r"privunit, messages each: 1, sum off by 466 km, epsilon = 1\.000",
        r"split-and-mix-vectors, messages each: 24, sum off by 43 km, epsilon = 1\.000",
        r"east +(149[2-9]|150[0-8]) m .*\n +north +(39[2-9]|40[0-8]) m .*\n +up +-?\d m",
        r"in truth: 1500, 400, 0 m",
    ],
    "thirty_rounds.py": [
        r"one day: +epsilon = 0\.0221",
        r"thirty days: epsilon = 0\.1337",
        r"affords eps0 = (5\.9|6\.0) a day",
    ],
}


def test_every_example_is_run_here():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(TOLD)


# Those that take ten seconds and more.
LONG = {
    "heavy_hitters.py",
    "network_mean.py",
    "permuted_sgd.py",
    "several_messages.py",
    "thirty_rounds.py",
}
STORIES = [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in TOLD]


@pytest.mark.parametrize("name", STORIES)
def test_an_example_tells_its_story(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    told = capsys.readouterr()
    assert not told.err
    for pattern in TOLD[name]:
        assert re.search(pattern, told.out), f"{pattern}\n{told.out}"
    assert not list(tmp_path.iterdir()), "an example leaves nothing behind"


@pytest.mark.parametrize("name", TOLD)
def test_an_example_is_short(name):
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) < LONGEST


@pytest.fixture
def serve(monkeypatch):
    """The site that embeds a survey, with these words; whether it ended in one line."""
    spec = importlib.util.spec_from_file_location("embed_serve", EXAMPLES / "embed" / "serve.py")
    site = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(site)

    def run(*words, analyzer=False, until=None):
        monkeypatch.setattr(sys, "argv", ["serve.py", *map(str, words)])
        if analyzer:
            monkeypatch.setattr(site, "filled", lambda _analyzer: None)
        if until is not None:
            monkeypatch.setattr(site.ThreadingHTTPServer, "serve_forever", until)
        site.main()

    return run


def test_the_embedding_site_refuses_in_one_line(serve, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for words, analyzer, told in [
            ((), False, "arguments are required: analyzer"),
            (("http://127.0.0.1:1",), False, "no analyzer answers at http://127.0.0.1:1: "),
            (("nonsense",), False, "no analyzer answers at nonsense: "),
            (("http://127.0.0.1:1", port), True, f"port {port} cannot be used, name another one"),
        ]:
            with pytest.raises(SystemExit) as ended:
                serve(*words, analyzer=analyzer)
            said = capsys.readouterr().err or str(ended.value)
            assert told in said
            assert len(said.splitlines()) == 1
            assert ended.value.code not in (0, None)


def test_the_embedding_site_helps_and_ends(serve, capsys):
    with pytest.raises(SystemExit) as ended:
        serve("--help")
    assert ended.value.code == 0
    assert "python examples/embed/serve.py" in capsys.readouterr().out

    def interrupted(server):
        server.server_close()
        raise KeyboardInterrupt

    serve("http://127.0.0.1:1", 0, analyzer=True, until=interrupted)
    assert capsys.readouterr().out.splitlines()[1:] == ["ended"]
