"""``shoal run --engine spark``, Spark Connect, and clusters that lack something: as processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from repository import environment
from service_site import collection
from shoal.engines import spark_session
from shoal.engines.files import Files
from shoal.errors import EngineError, InvalidArgumentError

COLORS = ["red"] * 900 + ["green"] * 600 + ["blue"] * 400 + ['"quoted", with a comma'] * 100
ENVIRONMENT = environment() | {
    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    "SPARK_LOCAL_IP": "127.0.0.1",
}


def python(*words, **variables):
    return subprocess.run(
        [sys.executable, *words],
        env=ENVIRONMENT | variables,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def shoal(*words, **variables):
    return python("-m", "shoal", *map(str, words), **variables)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A directory of CSV files; texts with quotes, commas and line breaks, and rows without one."""
    place = tmp_path_factory.mktemp("lake")
    table = pl.DataFrame({"color": [*COLORS, None, "two\nlines"], "n": "07"})
    for part in range(2):
        table[part::2].write_csv(place / f"{part}.csv")
    (place / "_SUCCESS").touch()
    table.write_csv(place.parent / "all.csv")
    return place


def test_the_command_on_spark_is_the_command(lake, tmp_path):
    words = ("--column", "color", "--epsilon", "1", "--json")
    page = tmp_path / "report.html"
    there = shoal("run", lake, *words, "--engine", "spark", "--report", page)
    assert there.returncode == 0, there.stderr
    here = json.loads(shoal("run", lake.parent / "all.csv", *words).stdout)
    found = json.loads(there.stdout)
    assert found["guarantee"] == here["guarantee"]
    labels = ([each["value"] for each in of["columns"][0]["estimates"]] for of in (found, here))
    assert sorted(next(labels)) == sorted(next(labels))
    assert "blue" in page.read_text()
    assert there.stderr == ""  # neither warnings nor Spark's own lines


QUESTIONS = [
    {"kind": "choices", "name": "aids", "labels": ["cane", "glasses"], "at_most": 1},
    {"kind": "scale", "name": "mood", "low": 1, "high": 5, "weight": 2},
    {"kind": "number", "name": "hours", "low": 0, "high": 24, "missing": "cell"},
    {"kind": "choice", "name": "color", "groups": {"column": "n", "labels": ["1", "2"]}},
]


@pytest.mark.parametrize(
    "words",
    [
        ("--questions", "questions.json"),
        ("--column", "aids", "--choices", "cane,glasses"),
        ("--column", "hours", "--bounds", "0,24", "--drop-nulls", "--by", "n", "--groups", "1,2"),
    ],
    ids=["a file", "choices", "means by group"],
)
def test_questions_on_spark_are_those_of_the_command(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("questions.json").write_text(json.dumps(QUESTIONS))
    aids, hours = ["cane", "cane;glasses", None, "; glasses"], ["7.5", None, "none", "8"]
    table = {"aids": aids * 500, "hours": hours * 500, "color": COLORS}
    people = pl.DataFrame(table).with_columns(
        mood=1 + pl.int_range(pl.len()) % 5, n=1 + pl.int_range(pl.len()) % 2
    )
    Path("people").mkdir()
    for part in range(2):
        people[part::2].write_csv(f"people/{part}.csv")
    words = (*words, "--epsilon", "2", "--json", "--compare-truth")
    there, here = (shoal("run", "people", *words, *more) for more in (("--engine", "spark"), ()))
    assert there.returncode == 0, there.stderr
    found, known = (json.loads(done.stdout) for done in (there, here))
    assert found["guarantee"] == known["guarantee"]
    for one, two in zip(found["columns"], known["columns"], strict=True):
        truths = (
            {str(row.get("value", row.get("group"))): row["truth"] for row in each["estimates"]}
            for each in (one, two)
        )
        assert next(truths) == pytest.approx(next(truths))


def test_what_cannot_be_is_one_line(lake, tmp_path):
    words = ("--column", "color", "--epsilon", "1", "--engine", "spark")
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    old.chmod(0o755)
    for refused, line in (
        (shoal("run", tmp_path / "gone", *words), "existing file or directory"),
        (shoal("run", tmp_path, *words), ".parquet, .csv"),
        (shoal("run", lake, *words, JAVA_HOME=str(tmp_path / "none")), "apt-get install"),
        (shoal("run", lake, *words, JAVA_HOME=str(tmp_path)), "is version 11"),
    ):
        assert refused.returncode == 2
        assert refused.stdout == ""
        assert line in refused.stderr
        assert len(refused.stderr.splitlines()) == 1


def test_formats_are_those_of_spark(lake, tmp_path):
    pl.DataFrame({"v": [1]}).write_parquet(tmp_path / "v.parquet")
    formats = tuple(spark_session.FORMATS)
    assert Files.at([tmp_path], formats=formats).format == "parquet"
    with pytest.raises(InvalidArgumentError, match="one format"):
        Files.at([tmp_path, lake], formats=formats)
    pl.DataFrame({"v": [1]}).write_ipc(tmp_path / "v.arrow")
    with pytest.raises(InvalidArgumentError, match=r"ends in \.parquet, \.csv"):
        Files.at([tmp_path / "v.arrow"], formats=formats)


def test_without_java_there_is_a_line(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match=r"Java 17 or newer, and there is none on the PATH"):
        spark_session.require_java()


CONNECT = """
import os, sys, tempfile, warnings
warnings.simplefilter("ignore")
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
import polars as pl, shoal
from shoal.errors import InvalidArgumentError

people = pl.read_csv(sys.argv[1], infer_schema=False)
people = people.with_columns(who=pl.int_range(pl.len()) // 2)
settings = {"spark.ui.enabled": "false", "spark.log.level": "OFF"}
builder = SparkSession.builder.remote("local[2]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
frame = spark.createDataFrame(people.to_pandas()).repartition(3)
assert "connect" in type(frame).__module__
there, here = (shoal.run(data, "color", epsilon=1.0) for data in (frame, people))
assert there.guarantee == here.guarantee, (there.guarantee, here.guarantee)
assert there.columns[0].labels == here.columns[0].labels
assert there.columns[0].n == here.columns[0].n
own = {"epsilon": 1.0, "person": shoal.Person("who", reports=2)}
there, here = (shoal.run(data, "color", **own) for data in (frame, people))
assert there.guarantee == here.guarantee, (there.guarantee, here.guarantee)
assert (there.n, there.labels) == (here.n, here.labels)
many = frame.crossJoin(spark.range(10))
found = shoal.heavy_hitters(many, shoal.Text("color", length=5), epsilon=2.0)
assert [item.label for item in found.items][:2] == ["red", "green"]

place = tempfile.mkdtemp()

def leaking(batches):
    for batch in batches:
        open(f"{place}/{os.urandom(16).hex()}", "x").close()
        yield batch.slice(len(os.listdir(place)))  # every time more is lost

other = frame.mapInArrow(leaking, frame.schema)
for bad, asked in ((frame, "colour"), (other, shoal.Number("n", 0, 10))):
    try:
        shoal.run(bad, asked, epsilon=1.0)
    except InvalidArgumentError as error:
        assert "\\n" not in str(error)
        print(error)
    else:
        raise AssertionError(asked)
spark.stop()
"""


def test_connect_is_spark(lake, tmp_path):
    script = tmp_path / "connect.py"
    script.write_text(CONNECT)
    done = python(script, lake.parent / "all.csv")
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = done.stdout.splitlines()
    assert "did you mean color" in first
    assert "data that does not change while it is read" in second


BARE = """
import json, os, sys, warnings
sys.path[:] = json.loads(sys.argv[1])
warnings.simplefilter("ignore")
from pyspark.sql import SparkSession
import shoal
from shoal.errors import EngineError

for python, missing in json.loads(sys.argv[2]):
    os.environ["PYSPARK_PYTHON"] = python
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.log.level", "OFF").getOrCreate()
    try:
        shoal.run(spark.range(100).selectExpr("id % 2 as v"), "v", epsilon=1.0)
    except EngineError as error:
        assert f"has no {missing};" in str(error), str(error)
        assert "\\n" not in str(error) and "install shoal[spark]" in str(error), str(error)
    else:
        raise AssertionError(python)
    spark.stop()
"""


def test_executors_without_shoal(tmp_path):
    """A Python with nothing in it, and one that has everything but Shoal."""
    pythons = []
    for name in ("nothing", "others"):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / name], check=True)
        (site,) = (tmp_path / name / "lib").glob("python*/site-packages")
        pythons.append(str(tmp_path / name / "bin" / "python"))
    for directory in map(Path, sys.path):
        for entry in directory.iterdir() if "site-packages" in directory.parts else ():
            if "shoal" not in entry.name and not (site / entry.name).exists():
                (site / entry.name).symlink_to(entry)
    script = tmp_path / "bare.py"
    script.write_text(BARE)
    paths = [path for path in sys.path if path]
    asked = [(pythons[0], "pyarrow"), (pythons[1], "shoal")]
    done = subprocess.run(
        [sys.executable, script, json.dumps(paths), json.dumps(asked)],
        env={key: value for key, value in ENVIRONMENT.items() if key != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_collecting_on_spark(tmp_path):
    """From a shuffler that runs, with a passphrase in the environment of executors."""
    with collection(tmp_path) as parties:
        words = ("collect", parties.directory, "--json")
        refused = shoal(*words, "--engine", "spark", "--executor-dir", tmp_path / "elsewhere")
        (waiting,) = json.loads(refused.stdout)["surveys"]
        (problem,) = waiting["pass"]["problems"]
        assert "--executor-dir" in problem["reason"]
        done = shoal(*words, "--engine", "spark", "--master", "local[2]")
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        (found,) = json.loads(done.stdout)["surveys"]
        assert found["combined"]["valid"] == 500
        assert len(found["pass"]["published"]) == 1
        again = json.loads(shoal(*words).stdout)["surveys"][0]
        assert again["batches"] == found["batches"]
    refused = shoal("collect", tmp_path, "--master", "local[2]")
    assert "--engine spark" in refused.stderr
