"""What holds for every command: one contract, run over a table of examples.

``--json`` prints what the library returns, a person's output fits into 80 columns, a value that
cannot be read is refused in one line that names its option and leaves no file, and every option
is explained in the help and in docs/reference/commands.md. A command that is in no table fails.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import commands
import shoal
from repository import ROOT
from shoal import learning, testing
from shoal.explain.text import finite
from shoal.network.account import WalkAccountant
from shoal.network.graph import Graph
from shoal.network.walk import Walk
from shoal.network.walk_table import table
from shoal.randomness import simulated
from shoal.service.clock import system_clock
from shoal.service.keyring import Keyring
from shoal.service.ops import backup
from shoal.service.ops.administration import registered
from shoal.service.ops.doctor import examine
from shoal.service.ops.home import Home, opened
from shoal.service.survey import Survey, summary

COMMANDS = dict(commands.leaves())
WIDTH = 80
READ = re.compile(r"WHOLE|NUMBER|[\w-]+(\|[\w-]+)+")  # metavars of what is not just text
FINGERPRINT = "ab" * 32
SURVEY = (
    "--question Colour? --purpose Paint --categories red,green --epsilon 1 --minimum 2000 "
    "--dishonest 0 "
    f"--shuffler https://s.example --shuffler-key {FINGERPRINT} "
    f"--analyzer https://a.example --analyzer-key {FINGERPRINT[::-1]}"
)
KEYS = "keys new ring --role shuffler --cost 10"
RING = Path("ring")
OVER = "--starts 2020-01-01 --days 3"
PARTY = (
    "keys new home/keys --role shuffler --cost 10",
    f"survey new {SURVEY.replace(FINGERPRINT, 'home/keys/index.json')} {OVER} --out it.json",
    "survey add it.json --to home",
)
INVITED = tuple(each.replace("--dishonest 0", "--entitled 2500") for each in PARTY)
HANDED = (*INVITED, "invite make it.json --count 3 --shuffler home")
TOKEN = (*PARTY, "keys token home --label mine")


@dataclass(frozen=True)
class Example:
    """Words of a command, what ``--json`` prints, and what has to be done before."""

    words: str
    library: Callable[[], object] | None = None
    before: tuple[str, ...] = ()
    drawn: tuple[str, ...] = ()  # fields that are random: every run has others
    wide: bool = False  # plain sentences, which the terminal wraps


def solved():
    n = shoal.required_n(epsilon=1, local_epsilon=4)
    return shoal.amplify(local_epsilon=4, n=n).to_dict() | {"solved": "n", "answer": n}


def trained():
    comparison = learning.compare(n=300, noise_multiplier=6, epochs=2, delta=1e-7)
    return comparison.guarantee(None).to_dict() | comparison.to_dict()


def ring():
    return Keyring.open(RING, protection=None)


def home():
    return Home(directory=Path("home"), role="shuffler")


def of_store(read):
    with opened(home()) as store:
        return read(store)


def survey():
    return Survey.from_bytes(Path("it.json").read_bytes())


EXAMPLES = {
    "help": [Example("amplify")],
    "plan": [
        Example(
            "--epsilon 0.5 --n 1e4 --categories 5",
            lambda: shoal.plan(shoal.Choice("answer", 5), epsilon=0.5, n=10_000),
        ),
        Example("--epsilon 0.5 --n 1e4 --bounds 0,10"),
        Example("--epsilon 0.5 --n 1e4 --dimension 8"),
    ],
    "run": [
        Example(
            "data.csv --column color --epsilon 1",
            lambda: shoal.run("data.csv", "color", epsilon=1.0),
            drawn=("estimates", "columns", "stages"),
        )
    ],
    "test": [
        Example(
            "data.csv --column color --distance 0.4 --epsilon 1 --seed 1 --simulations 99",
            lambda: testing.run(
                "data.csv",
                "color",
                distance=0.4,
                epsilon=1.0,
                simulations=testing.Simulations(99, seed=1),
            ),
            drawn=("statistic", "design"),
        )
    ],
    "demo": [Example("--out here")],
    "amplify": [
        Example("--local-epsilon 4 --n 1e5", lambda: shoal.amplify(local_epsilon=4, n=100_000)),
        Example(
            "--local-epsilon 4 --n 1e5 --all",
            lambda: shoal.compare(local_epsilon=4, n=100_000).records(),
        ),
        Example("--solve n --epsilon 1 --local-epsilon 4", solved),
    ],
    "sgd": [Example("--n 300 --noise 6 --epochs 2 --delta 1e-7", trained)],
    "audit": [
        Example(
            "--randomizer grr --k 2 --local-epsilon 1 --n 20 --delta 0.01 --runs 1000 --seed 1",
            lambda: shoal.audit(
                shoal.RandomizedResponse(k=2, epsilon=1.0),
                n=20,
                delta=0.01,
                runs=1000,
                local_epsilon=1.0,
                declared=shoal.RandomizedResponse(k=2, epsilon=1.0),
                randomness=simulated(1),
            ),
        )
    ],
    "walk": [
        Example(
            "graph.txt --rounds 2 --delta 1e-3",
            lambda: table(
                WalkAccountant(Walk(Graph.read(Path("graph.txt"))), local_epsilon=1.0),
                rounds=2,
                delta=1e-3,
            ),
        )
    ],
    "figures": [Example("--list")],
    "peers run": [Example("--peers 12 --rounds 2 --seed 1")],
    "survey new": [Example(SURVEY)],
    "survey show": [
        Example(
            "it.json",
            lambda: summary.to_dict(survey(), system_clock()) | {"warnings": []},
            before=PARTY,
        )
    ],
    "survey check": [
        Example("it.json", lambda: summary.checked(survey(), system_clock())[0], before=PARTY)
    ],
    "survey add": [Example("it.json --to home", before=PARTY[:2], wide=True)],
    "survey list": [
        Example(
            "home",
            lambda: {
                "role": "shuffler",
                "surveys": of_store(registered),
            },
            before=PARTY,
        )
    ],
    "survey remove": [Example("{id} --from home", before=PARTY, wide=True)],
    "survey delete-data": [Example("{id} --from home --yes", before=PARTY, wide=True)],
    "invite make": [
        Example("it.json --count 3 --codes it.codes", before=INVITED[:2], wide=True),
        Example("it.json --count 3 --shuffler home", before=INVITED, wide=True),
    ],
    "invite add": [
        Example(
            "home it.codes",
            before=(*INVITED, "invite make it.json --count 3 --codes it.codes"),
            wide=True,
        )
    ],
    "invite list": [
        Example(
            "home",
            lambda: {
                "surveys": [
                    {
                        "survey": str(survey().id),
                        **of_store(lambda store: store.codes.totals(survey().id)).to_dict(),
                    }
                ]
            },
            before=HANDED,
        )
    ],
    "invite revoke": [
        Example("it.json 2 --csv invitations.csv --codes it.codes", before=HANDED, wide=True)
    ],
    "invite replace": [
        Example("it.json 2 --csv invitations.csv --shuffler home", before=HANDED, wide=True)
    ],
    "keys new": [Example("ring --role shuffler --cost 10")],
    "keys show": [Example("ring", lambda: ring().to_dict(), before=(KEYS,))],
    "keys list": [
        Example(
            "ring",
            lambda: (
                ring().to_dict()
                | {"keys": [key.to_dict() for key in ring().list().keys], "warnings": []}
            ),
            before=(KEYS,),
        )
    ],
    "keys rotate": [Example("ring --dry-run", before=(KEYS,))],
    "keys retire": [
        Example("ring 0", before=(KEYS,)),
        Example("ring 0 --delete", before=(KEYS,)),
        Example("ring 0", before=(KEYS.replace("shuffler", "analyzer"),)),
    ],
    "keys token": [Example("home --label mine", before=PARTY)],
    "keys tokens": [
        Example(
            "home",
            lambda: {
                "tokens": of_store(
                    lambda store: [each.to_dict(system_clock()) for each in store.tokens.listed()]
                ),
            },
            before=TOKEN,
        )
    ],
    "keys revoke": [Example("home mine", before=TOKEN)],
    "doctor": [Example("home", lambda: examine(["home"]), before=PARTY)],
    "backup": [
        Example("home --to kept.tar", before=PARTY),
        Example(
            "--check kept.tar",
            lambda: backup.check(Path("kept.tar")),
            before=(*PARTY, "backup home --to kept.tar"),
        ),
    ],
    "restore": [
        Example("kept.tar --to new --waiting drop", before=(*PARTY, "backup home --to kept.tar"))
    ],
    "submit": [Example("--spent")],
}
# They need servers; their answers are in their own tests.
ELSEWHERE = {"collect", "up", "serve shuffler", "serve worker", "serve analyzer"}
ALL = [(name, each) for name, examples in EXAMPLES.items() for each in examples]
each_example = pytest.mark.parametrize(
    ("name", "example"), ALL, ids=[f"{name} {each.words[:30]}" for name, each in ALL]
)


@pytest.fixture(autouse=True)
def desk(tmp_path, monkeypatch):
    """A table, a graph and a passphrase."""
    rows = ("red", "green", "blue", "red")
    (tmp_path / "data.csv").write_text("color\n" + "\n".join(rows * 500) + "\n")
    edges = (f"{node} {(node + step) % 40}" for node in range(40) for step in (1, 2, 3, 5, 8, 13))
    (tmp_path / "graph.txt").write_text("\n".join(edges) + "\n")
    monkeypatch.chdir(tmp_path)
    free = shutil.disk_usage(tmp_path)  # others use the disk meanwhile
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    monkeypatch.setenv("SHOAL_PASSPHRASE", "correct horse")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def prepared(run, name, example):
    """What comes before, done; the words of the command."""
    for words in example.before:
        assert run(words).status == 0
    return name, example.words.format(id=survey().id if "{id}" in example.words else "")


def test_every_command_is_here():
    assert not set(EXAMPLES) & ELSEWHERE
    assert set(EXAMPLES) | ELSEWHERE == set(COMMANDS)


@each_example
def test_what_people_read_fits_into_80_columns(run, name, example):
    finished = run(*prepared(run, name, example))
    assert finished.status == 0, finished.stderr
    shown = finished.stdout
    assert shown.strip()
    assert "\x1b" not in shown
    assert example.wide or max(map(len, shown.splitlines())) <= WIDTH


@each_example
def test_json_is_what_the_library_returns(run, name, example):
    if not any("--json" in each.opts for each in COMMANDS[name].params):
        assert name in {"help", "demo", "figures"}
        return
    printed = run(*prepared(run, name, example), "--json").json()
    if example.library is None:
        assert printed
        return
    value = example.library()
    expected = json.loads(json.dumps(finite(getattr(value, "to_dict", lambda: value)())))
    for field in example.drawn:
        assert printed.pop(field), field
        assert expected.pop(field), field
    assert printed == expected


@pytest.mark.parametrize("name", COMMANDS)
def test_a_value_that_cannot_be_read_is_refused_and_leaves_nothing(run, desk, name):
    """Numbers, bounds and choices: before anything is looked for or written."""
    before = sorted(desk.iterdir())
    arguments = [each for each in COMMANDS[name].params if not each.opts[0].startswith("-")]
    typed = [each for each in COMMANDS[name].params if READ.fullmatch(each.metavar or "")]
    for option, kind in ((each.opts[-1], each.metavar) for each in typed):
        if option.startswith("-"):
            refusal = run(name, "0 " * len(arguments), option, "nonsense").refusal()
            assert option in refusal
            assert all(choice in refusal for choice in kind.split("|") if "|" in kind)
    if name != "help":
        assert "--no-such-option" in run(name, "--no-such-option").refusal()
    assert sorted(desk.iterdir()) == before


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(run, name):
    shown = run(name, "--help").success()
    assert f" {name} [OPTIONS]" in shown
    assert max(map(len, shown.splitlines())) <= WIDTH
    for each in COMMANDS[name].params:
        if not getattr(each, "hidden", False):
            assert each.help
            assert each.opts[-1] in shown or each.metavar in shown


def test_the_reference_is_what_the_commands_say():
    written = (ROOT / "docs/reference/commands.md").read_text(encoding="utf-8")
    assert written == commands.page(), "run python setup/commands.py > docs/reference/commands.md"
