"""What lies on the desk where a command is run: tables, graphs, references, and somebody's code."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl

from shoal.network.generators import barabasi_albert, random_regular, ring

ROWS = 4000  # of answers.csv
VECTORS = 3000
MEAN = {"x": 1.0, "y": -2.0, "z": 0.5}
PEOPLE = 6000  # whose answers are tested
PEERS = 120
COLORS = ["red"] * 5 + ["green"] * 3 + ["blue"] * 2
LABELS = np.array(list("abcdefgh"))
SKEWED = np.array([8, 7, 6, 5, 4, 3, 2, 1]) / 36
_MODULE = """
import random
import sys
import numpy as np

coins = random.Random(1)

def leave(value):
    sys.exit(1)

class Odd(BaseException):
    pass

def odd(value):
    raise Odd("very odd")

def secret(value):
    return coins.randbytes(8)

def keep(value):
    return value if coins.random() < 0.7 else 1 - value

def blab(value):
    print("hello")
    return value if coins.random() < 0.9 else 1 - value

def all_at_once(values):
    return [blab(int(value)) for value in values]

def fail(value):
    return {}[value]

class Device:
    def randomize(self, values):
        return np.array([keep(value) for value in values])

device = Device()
number = 7
"""


def texts(place: Path, **contents: str) -> None:
    """Files with these texts; what comes after ``__`` in a name is its ending."""
    for name, text in contents.items():
        (place / name.replace("__", ".")).write_text(text)


def tables(place: Path) -> None:
    """Tables of probabilities, and what is none."""
    texts(
        place,
        short__csv="0.5,0.5\n0.4,0.5\n",
        strong__csv="0.9,0.1\n0.1,0.9\n",
        words__csv="yes,no\n0.1,0.9\n",
        ragged__csv="0.5,0.5\n1\n",
        negative__csv="1.5,-0.5\n0.5,0.5\n",
        one_row__csv="0.5,0.5\n",
        empty__csv="\n# nothing\n",
        empty__npy="",
        text__npy="0.5,0.5\n0.5,0.5\n",
        table__txt="0.5,0.5\n0.5,0.5\n",
    )
    (place / "latin.csv").write_bytes(b"0.5,0.5\n0.5,\xe9\n")
    (place / "directory.csv").mkdir()


def answers(place: Path) -> None:
    """One table in three formats, and a list."""
    colors = [COLORS[i % 10] for i in range(ROWS)]
    ages = [20 + i % 41 for i in range(ROWS)]
    frame = pl.DataFrame({"color": colors, "shape": colors[::-1], "age": ages})
    frame.write_csv(place / "answers.csv")
    frame.write_parquet(place / "answers.parquet")
    frame.write_ipc(place / "answers.arrow")
    texts(place, colors__txt="red\n\ngreen\nblue\n")


def vectors(place: Path) -> None:
    """Rows of three coordinates and a word."""
    noise = np.linspace(-0.5, 0.5, VECTORS)
    frame = pl.DataFrame({name: mean + noise for name, mean in MEAN.items()})
    frame.with_columns(word=pl.lit("a")).write_csv(place / "rows.csv")


def graphs(place: Path) -> None:
    """Graphs that mix, that do not, and files that are none."""
    regular = random_regular(30, 8)
    for name, graph, *more in (
        ("regular.txt", random_regular(PEERS, 16)),
        ("hubs.csv", barabasi_albert(80, 3)),
        ("ring.txt", ring(40)),
        ("parts.txt", regular, "100 101", "101 102", "102 100"),
        ("alone.txt", regular, "77 77"),
    ):
        edges = np.column_stack([graph.rows, graph.neighbours])
        lines = [f"{u} {v}" for u, v in edges[edges[:, 0] <= edges[:, 1]].tolist()]
        (place / name).write_text("\n".join([*lines, *more]) + "\n")
    texts(
        place,
        words__txt="hello\nworld\n",
        half__txt="1 2\n3\n",
        empty__txt="# nothing\n",
        broken__npz="no archive",
    )


def reference(path: Path, values: dict, heading: str = "answer,probability") -> None:
    """A file to test against."""
    lines = [f"{label},{value}" for label, value in values.items()]
    path.write_text("\n".join([heading, *lines]) + "\n")


def tested(place: Path) -> None:
    """Made-up tables: everybody's answers are fixed, so that only reports are drawn."""
    even = np.tile(LABELS, PEOPLE // 8)
    skewed = np.repeat(LABELS, np.diff(np.rint(PEOPLE * np.cumsum([0, *SKEWED])).astype(int)))
    group = np.repeat(["old", "young"], PEOPLE // 2)
    pl.DataFrame({"c": even, "group": group}).write_csv(place / "even.csv")
    pl.DataFrame({"c": even, "group": group}).write_parquet(place / "even.parquet")
    three = np.resize(["x", "y", "z"], PEOPLE)
    pl.DataFrame({"c": skewed, "three": three}).write_csv(place / "skewed.csv")
    both, of = np.concatenate([even, skewed]), ["e"] * PEOPLE + ["s"] * PEOPLE
    pl.DataFrame({"c": both, "of": of}).write_csv(place / "both.csv")
    pl.DataFrame({"c": [*even[:-2], None, None]}).write_csv(place / "gaps.csv")
    pl.DataFrame({"c": ["a"] * 50}).write_csv(place / "same.csv")
    for name in ("few_old", "few_new"):
        pl.DataFrame({"c": ["a", "b"] * 10}).write_csv(place / f"{name}.csv")
    reference(place / "skewed_law.csv", dict(zip(LABELS, SKEWED, strict=True)))
    counts = dict(zip(LABELS, (36 * SKEWED).round().astype(int), strict=True))
    reference(place / "counts.csv", counts, "answer,count")
    for name, values in {
        "negative": {"a": 1.5, "b": -0.5},
        "nan": {"a": "nan", "b": 0.5},
        "words": {"a": "half", "b": 0.5},
        "zeros": {"a": 0, "b": 0},
        "sum": {"a": 0.5, "b": 0.4},
        "one": {"a": 1},
        "sure": {"a": 1, "b": 0},
        "nobody": {"a": 0.5, "": 0.5},
        "few": {"a": 0.5, "b": 0.5},
    }.items():
        reference(place / f"{name}.csv", values)
    texts(
        place,
        empty__csv="",
        heading__csv="answer,probability\n",
        bare__csv="a,0.5\nb,0.5\n",
        wide__csv="answer,p\na,0.5,1\n",
        twice__csv="answer,p\na,0.5\na,0.5\n",
    )
    (place / "latin.csv").write_bytes(b"answer,p\n\xe9,1\n")


def audited(place: Path) -> None:
    """Modules and programs to audit."""
    texts(
        place,
        audited_module__py=_MODULE,
        broken_module__py="1 / 0\n",
        leaving_module__py="raise SystemExit(1)\n",
        table__csv="0.7,0.3\n0.3,0.7\n",
        device=f"#!{sys.executable}\nimport random, sys\nrandom.seed(2)\n"
        "for line in sys.stdin: print(int(line) ^ (random.random() < 0.3))\n",
        wrong=f"#!{sys.executable}\nraise SystemExit('out of order')\n",
    )
    for name in ("device", "wrong"):
        (place / name).chmod(0o755)


def empty(_place: Path) -> None:
    """Nothing."""


DESKS = {each.__name__: each for each in (tables, answers, vectors, graphs, tested, audited, empty)}
