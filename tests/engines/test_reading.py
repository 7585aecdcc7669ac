"""Every kind of table gives the same column, and what cannot be read is said."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from repository import environment
from shoal.engines import tables as reading
from shoal.engines.counting import Counting, Report
from shoal.engines.files import Files, spooled
from shoal.engines.spark import share
from shoal.errors import InvalidArgumentError, MissingExtraError
from shoal.questions.kinds import NONE, OTHER, Choice, label_of
from shoal.questions.settled import PUBLIC_LIST, Clip, Lookup, Spelled, settle
from shoal.randomness import secure

COLOURS = ["red", "blue", None, "green", "blue", "red", "red", None]
HEIGHTS = [1.5, 2.0, 3.25, -4.0, 0.0, 2.0, 2.0, 1e3]
AGES = [30, 7, 30, 41, 7, 7, 12, 0]
FRAME = pl.DataFrame({"colour": COLOURS, "height": HEIGHTS, "age": AGES})


def compressed(write):
    def written(frame, path):
        plain = io.BytesIO()
        write(frame, plain)
        path.write_bytes(gzip.compress(plain.getvalue(), mtime=0))

    return written


def tabbed(frame, file):
    frame.write_csv(file, separator="\t")


def written(write):
    """The bytes of the file."""
    file = io.BytesIO()
    write(FRAME, file)
    return file.getvalue()


def halves(frame, directory):
    """Two files, one of them in a directory of its own, and what is no part of the table."""
    (directory / "more").mkdir(parents=True)
    frame[:3].write_parquet(directory / "part-0.parquet")
    frame[3:].write_parquet(directory / "more" / "part-1.parquet")
    (directory / "_SUCCESS").touch()
    (directory / ".part-0.parquet.crc").write_bytes(b"crc")


WRITERS = {
    "csv": pl.DataFrame.write_csv,
    "csv.gz": compressed(pl.DataFrame.write_csv),
    "tsv": tabbed,
    "TSV.GZ": compressed(tabbed),
    "jsonl": pl.DataFrame.write_ndjson,
    "ndjson": pl.DataFrame.write_ndjson,
    "jsonl.gz": compressed(pl.DataFrame.write_ndjson),
    "directory": halves,
    "parquet": pl.DataFrame.write_parquet,
    "arrow": pl.DataFrame.write_ipc,
    "ipc": pl.DataFrame.write_ipc,
    "feather": pl.DataFrame.write_ipc,
}
IN_MEMORY = {
    "polars": lambda: FRAME,
    "lazy": FRAME.lazy,
    "pandas": lambda: pd.DataFrame({"colour": COLOURS, "height": HEIGHTS, "age": AGES}),
    "arrow table": lambda: pa.table({"colour": COLOURS, "height": HEIGHTS, "age": AGES}),
    "arrow batch": lambda: IN_MEMORY["arrow table"]().to_batches()[0],
    "arrow reader": lambda: IN_MEMORY["arrow table"]().to_reader(),
    "mapping": lambda: {"colour": COLOURS, "height": np.array(HEIGHTS), "age": pd.Series(AGES)},
    "array": lambda: Capsule(IN_MEMORY["arrow batch"]()),
    "stream": lambda: Stream(IN_MEMORY["arrow table"]()),
    "relation": lambda: relation(IN_MEMORY["arrow table"]()),
}


class Stream:
    """Another library's table: what ``select`` and brackets mean to it is its own affair."""

    def __init__(self, table):
        self.table = table
        self.columns = table.column_names

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)

    def select(self, *columns):
        raise AssertionError(columns)

    __getitem__ = select


class Capsule:
    """What has an Arrow array and no stream."""

    def __init__(self, array):
        self.array = array

    def __arrow_c_array__(self, requested_schema=None):
        return self.array.__arrow_c_array__(requested_schema)


def relation(table):
    """As DuckDB's: a list is a literal to ``select``, and ``project`` takes SQL."""

    def select(_, *columns):
        return Stream(pa.table({f"list_value('{columns[0][0]}')": [columns] * len(table)}))

    def project(_, sql):
        names = [part[1:-1].replace('""', '"') for part in sql.split(", ")]
        assert sql == ", ".join('"' + name.replace('"', '""') + '"' for name in names)
        return Stream(table.select(names))

    members = {"__module__": "_duckdb", "select": select, "project": project}
    return type("DuckDBPyRelation", (Stream,), members)(table)


@pytest.fixture(params=[*WRITERS, "path as text", *IN_MEMORY])
def table(request, tmp_path):
    if request.param in IN_MEMORY:
        return IN_MEMORY[request.param]()
    suffix = "csv" if request.param == "path as text" else request.param
    path = tmp_path / f"people.{suffix}"
    WRITERS[suffix](FRAME, path)
    return str(path) if request.param == "path as text" else path


def answers(data, name):
    """The different answers of a column."""
    return reading.table(data, [name]).answers(name)


def number(name):
    """As numbers within bounds are read."""
    return Clip(name, -1e9, 1e9)


def joined(chunks):
    return np.concatenate(list(chunks))


def choice(data, name, labels=None, **more):
    """A choice, as it is asked of a table."""
    return settle(Choice(name, labels, **more), reading.table(data, [name]))


def codes(data, name, *labels, **more):
    """Everybody's code, sorted."""
    settled = choice(data, name, *labels, **more)
    return sorted(joined(reading.table(data, [name]).chunks(settled.coding)))


def test_every_kind_of_table_is_read_alike(table):
    read = reading.table(table, FRAME.columns)  # once: some can be read only once
    found = read.answers("colour")
    assert (found.rows, found.nulls, found.single) == (8, 2, 1)
    assert found.distinct == ("blue", "green", "red")
    assert read.answers("age").distinct == ("0", "12", "30", "41", "7")
    for none, expected in ((5, [0, 0, 0, 1, 5, 5, 9, 9]), (None, [0, 0, 0, 1, 9, 9])):
        coding = Lookup("colour", ("red", "green"), none, other=9)
        assert sorted(joined(read.chunks(coding))) == expected
    assert read.size(number("height")) == (8, 0)
    assert sorted(joined(read.chunks(number("height")))) == sorted(HEIGHTS)
    with pytest.raises(InvalidArgumentError, match=r"one of the columns colour, height, age"):
        reading.table(read, ["color"])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([True, False, None], ("false", "true")),
        ([1.0, 2.5, float("nan"), None, 7.0], ("1", "2.5", "7")),
        ([3, 20, None], ("20", "3")),
        ([dt.date(2020, 1, 2), None], ("2020-01-02",)),
        (pl.Series(["b", "a", None], dtype=pl.Categorical), ("a", "b")),
    ],
    ids=["booleans", "floats", "whole", "dates", "categorical"],
)
def test_values_are_compared_as_text(values, expected):
    found = answers(pl.DataFrame({"v": values}), "v")
    assert found.distinct == expected
    assert found.nulls == len(values) - len(expected)


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (True, "true"),
        (np.False_, "false"),
        (3, "3"),
        (2.0, "2"),
        (2.5, "2.5"),
        (-0.0, "0"),
        (1e20, "1e+20"),
        ("x", "x"),
    ],
)
def test_public_answers_read_as_the_same_text(value, label):
    assert label_of(value) == label
    table = pl.DataFrame({"v": np.array([value])})
    assert answers(table, "v").distinct == (label,)


def test_text_of_a_csv_is_kept_as_written_and_is_a_number_if_it_looks_like_one(tmp_path):
    path = tmp_path / "codes.csv"
    path.write_text("code,n\n007,1\n7,2\n1.0, 3 \n,\n" + "7,2\n" * 5000 + "7,x\n")
    assert answers(path, "code").distinct == ("007", "1.0", "7")
    numbers = reading.table(path, ["n"])
    assert numbers.size(number("n")) == (5005, 2)
    assert joined(numbers.chunks(number("n"))).tolist()[:4] == [1.0, 2.0, 3.0, 2.0]


def test_columns_may_be_called_anything():
    strange = 'say "hi"'
    assert answers(relation(pa.table({strange: ["a"], "b": [1]})), strange).rows == 1
    numbered = pd.DataFrame([["a", 1], ["b", 2]])  # pandas calls these columns 0 and 1
    assert answers(numbered, "0").distinct == ("a", "b")


@pytest.mark.parametrize("make", [dict, pd.DataFrame])
def test_values_of_two_kinds_are_refused_and_not_shown(make):
    table = make({"age": [31, "jane@example.org"]})
    with pytest.raises(InvalidArgumentError, match="one kind of value in a column") as refused:
        shoal.run(table, shoal.Number("age", 0, 120), epsilon=1, delta=1e-6)
    assert "jane" not in str(refused.value)
    assert refused.value.__suppress_context__


def test_what_another_library_raises_is_about_the_data():
    class Broken(Stream):
        def __arrow_c_stream__(self, requested_schema=None):
            raise RuntimeError("the connection is closed")

    with pytest.raises(InvalidArgumentError, match=r"the connection is closed.*data='Broken'"):
        reading.table(Broken(pa.table({"v": [1]})), ["v"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.csv", None, "an existing file"),
        ("empty.csv", b"", "at least one row"),
        ("table.xlsx", b"x", r"whose name ends in \.csv, \.tsv"),
        ("table.parquet.gz", b"x", r"whose name ends in \.csv, \.tsv"),
        ("broken.parquet", b"not parquet", r"as Parquet .*broken\.parquet"),
        ("broken.csv.gz", gzip.compress(b"v\na\n", mtime=0)[:-9], r"as CSV .*broken\.csv\.gz"),
        ("broken.jsonl", b'{"v": "a"}\n{"v": "b', r"as JSON lines .*broken\.jsonl"),
        ("numbers.jsonl", b"5\n", "read as JSON lines"),
        ("other.jsonl", b'{"w": 1}\n', "one of the columns w"),
        ("broken.arrow", b"not arrow either", "read as Arrow"),
        ("latin.csv", "v\nêtre\n".encode("latin-1"), r"as CSV in UTF-8 .*latin\.csv"),
        ("semicolons.csv", b"v;w\na;b\n", "not semicolons"),
        ("tabs.csv", b"v\tw\na\tb\n", "--format tsv"),
        ("lines.csv", b'{"v": "a"}\n{"v": "b"}\n', "--format jsonl"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidArgumentError, match=message):
        answers(path, "v")


def test_values_of_json_lines_are_text_whatever_comes_before(tmp_path):
    path = tmp_path / "[v].jsonl"
    values = [1, 1.0, 1.50, True, None, "x", "1", 10**20]
    lines = [json.dumps({"v": value}) for value in values] + ['{"w": 0}', '{"v": {"a": 1}}']
    expected = ["1", "1", "1.5", "true", "", "x", "1", str(10**20), "", '{"a": 1}']
    for order in (1, -1):
        path.write_text("\n".join(lines[::order]) + "\n")
        assert joined(reading.table(path, ["v"]).chunks(Spelled("v"))).tolist() == expected[::order]


def test_a_key_that_comes_late_is_a_column(tmp_path):
    path = tmp_path / "late.jsonl"
    path.write_text('{"w": 0}\n' * 2000 + '{"v": "late"}\n')
    assert answers(path, "v").distinct == ("late",)


def test_several_files_are_one_table(tmp_path):
    one, two = (tmp_path / name for name in ("1.csv", "2.csv"))
    one.write_text("v,w\na,1\n")
    two.write_text("w,v\n2,b\n")  # found by their names
    for places in ([one, two], (str(two), str(one)), str(tmp_path / "?.csv"), tmp_path):
        assert answers(places, "v").distinct == ("a", "b")
    two.write_text("w\n2\n")
    with pytest.raises(InvalidArgumentError, match=r"one of the columns w of .*2\.csv"):
        reading.table(tmp_path, ["v"])


def test_a_name_with_brackets_is_a_name_first(tmp_path):
    (tmp_path / "[ab].csv").write_text("v\nbrackets\n")
    (tmp_path / "a.csv").write_text("v\nletter\n")
    assert answers(tmp_path / "[ab].csv", "v").distinct == ("brackets",)


def test_a_partitioned_directory_has_its_columns(tmp_path):
    for region in ("north", "01"):
        part = tmp_path / f"region={region}" / "part.parquet"
        part.parent.mkdir()
        pl.DataFrame({"v": [1, 2]}).write_parquet(part)
    table = reading.table(tmp_path, ["v", "region"])
    assert table.answers("region").distinct == ("01", "north")
    assert table.answers("v").distinct == ("1", "2")


def test_files_that_are_not_one_table(tmp_path):
    pl.DataFrame({"v": [1]}).write_parquet(tmp_path / "1.parquet")
    pl.DataFrame({"v": ["1"]}).write_parquet(tmp_path / "2.parquet")
    with pytest.raises(InvalidArgumentError, match="the same type in all files"):
        reading.table(tmp_path, ["v"])
    with pytest.raises(InvalidArgumentError, match="every file once"):
        reading.table([tmp_path / "1.parquet", str(tmp_path / "?.parquet")], ["v"])
    (tmp_path / "3.csv").write_text("v\n1\n")
    with pytest.raises(InvalidArgumentError, match="of one format"):
        reading.table(tmp_path, ["v"])
    with pytest.raises(InvalidArgumentError, match="of one format"):
        reading.table([tmp_path / "1.parquet", tmp_path / "3.csv"], ["v"])
    (tmp_path / "nothing").mkdir()
    with pytest.raises(InvalidArgumentError, match="files in it"):
        reading.table(tmp_path / "nothing", ["v"])
    with pytest.raises(InvalidArgumentError, match="files on this machine"):
        reading.table("s3://lake/people", ["v"])


@pytest.mark.parametrize(
    "places",
    [
        ["d", "d/0.csv"],
        ["d/*", "d"],
        ["d/0.csv", "other"],
        ["other", "d"],
        ["linked"],
        ["d", "d/../d/more/1.csv"],
        ["d", "s3a://lake", "s3a://lake/0.csv"],
        ["d/more/1.csv", "file://d/more"],
    ],
)
def test_no_file_counts_again(tmp_path, monkeypatch, places):
    (tmp_path / "d" / "more").mkdir(parents=True)
    for name in ("d/0.csv", "d/more/1.csv"):
        (tmp_path / name).write_text("v\n1\n")
    (tmp_path / "other").symlink_to(tmp_path / "d")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "0.csv").write_text("v\n1\n")
    (tmp_path / "linked" / "1.csv").symlink_to("0.csv")
    monkeypatch.chdir(tmp_path)
    here = [place.replace("file://", f"file://{tmp_path}/") for place in places]
    with pytest.raises(InvalidArgumentError, match=r"every file once \(.*\.csv comes again\)"):
        Files.at(here, elsewhere=True)
    assert len(Files.at(["d", "s3a://lake"], "csv", elsewhere=True).paths) == 2


@pytest.mark.parametrize("series", [pl.Series, pd.Series])
def test_a_series_is_its_only_column(series):
    named = series(name="v", **{"values" if series is pl.Series else "data": COLOURS})
    assert reading.only_column(named) == "v"
    assert answers(named, "v").distinct == ("blue", "green", "red")
    with pytest.raises(InvalidArgumentError, match="one of the columns v"):
        reading.table(named, ["w"])
    assert answers(series(COLOURS), "anything").nulls == 2
    assert reading.only_column(series(COLOURS)) == "value"


def test_an_array_is_a_column():
    for array in (pa.array(COLOURS), pa.chunked_array([COLOURS]), Capsule(pa.array(COLOURS))):
        assert answers(array, "v").distinct == ("blue", "green", "red")


def test_only_series_and_mappings_of_one_have_an_only_column():
    assert reading.only_column({"v": COLOURS}) == "v"
    for several in (FRAME, {"v": [1], "w": [2]}, "people.csv"):
        assert reading.only_column(several) is None


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (FRAME.write_csv().encode(), None),
        (gzip.compress(FRAME.write_csv().encode()), None),
        (FRAME.write_csv(separator="\t").encode(), "tsv"),
        (FRAME.write_ndjson().encode(), "jsonl"),
        (written(pl.DataFrame.write_parquet), None),
        (written(pl.DataFrame.write_ipc), None),
    ],
    ids=["csv", "gzip", "tsv", "jsonl", "parquet", "arrow"],
)
def test_a_stream_is_a_private_file_for_a_while(data, form):
    with spooled(io.BytesIO(data), form) as files:
        (place,) = files.paths
        assert place.parent.stat().st_mode & 0o077 == 0
        found = answers(files, "colour")
        assert (found.rows, found.distinct) == (8, ("blue", "green", "red"))
    assert not place.parent.exists()


@pytest.mark.parametrize(
    ("data", "form", "message"),
    [
        (b"", None, "without any data"),
        (b"v\nred\nbl", None, "no line break"),
        (gzip.compress(b"v\nred\nbl", mtime=0), None, "no line break"),
        (gzip.compress(b"v\nred\nblue\n", mtime=0)[:-1], None, "can be read"),
        (b'v,w\nred,1\nblue,"two\n', None, "opened and not closed"),
        (b"v\tw\nred\t1\nblue\t", "tsv", "no line break"),
        (b'{"v": "red"}\n{"v": "bl', "jsonl", "read as JSON lines"),
        (written(pl.DataFrame.write_parquet)[:-20], None, "read as Parquet .*standard input"),
        (written(pl.DataFrame.write_ipc)[:-20], None, "read as Arrow"),
        (b"v\nred\n", "xlsx", "one of csv"),
    ],
)
def test_a_stream_that_ends_early_is_noticed(data, form, message, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def read():
        with spooled(io.BytesIO(data), form) as files:
            answers(files, "v")

    with pytest.raises(InvalidArgumentError, match=message):
        read()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("data", "name", "coding", "message"),
    [
        ([1, 2], "v", None, "a Polars, pandas or Arrow table"),
        (FRAME, "AGE", None, r"did you mean age\?"),
        (FRAME, "color", None, r"colour, height, age \(did you mean colour\?\)"),
        (pd.DataFrame({"v": [1, "x"], "w": [1, 2]}), "v", None, "one kind of value"),
        (pl.DataFrame({"v": [[1], [2]]}), "v", Spelled("v"), "a column of text, numbers or dates"),
        (pl.DataFrame({"v": [True]}), "v", Clip("v", 0, 1), "a column of numbers"),
    ],
)
def test_what_cannot_be_read_is_refused(data, name, coding, message):
    with pytest.raises(InvalidArgumentError, match=message):
        reading.table(data, [name]).size(coding)


def test_other_columns_may_hold_anything():
    table = pd.DataFrame({"v": ["a", "b"], "w": [1, "x"]})
    assert answers(table, "v").distinct == ("a", "b")


def test_a_table_that_needs_a_missing_library_says_so(monkeypatch):
    class Table:
        columns = ("v",)

        def __getitem__(self, _):
            return self

        def __arrow_c_stream__(self, requested_schema=None):
            raise ImportError

    with pytest.raises(MissingExtraError, match=r"needs pandas, pyarrow: pip install 'pandas>="):
        reading.table(Table(), ["v"])
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # the other one is there
    with pytest.raises(MissingExtraError, match=r"table needs pyarrow: pip install 'pyarrow>="):
        reading.table(Table(), ["v"])


WITHOUT_PYARROW = """\
import sys
class NotInstalled:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "pyarrow":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NotInstalled())
import pandas as pd
from shoal.engines import tables
from shoal.errors import InvalidArgumentError
for values in (
    ["a", "b", None, "a"],
    ["a", float("nan")],
    pd.Categorical(["b", "a", None]),
    pd.array(["x", None], dtype="string"),
    pd.array([3, 1, None], dtype="Int64"),
    [True, None],
    [2, 2, 1],
):
    table = pd.DataFrame({"v": values, "w": ["x", *[1] * (len(values) - 1)]})
    for data in (table, table["v"]):
        read = tables.table(data, ["v"]).answers("v")
        print(*read.distinct, read.nulls)
try:
    tables.table(table, ["w"])
except InvalidArgumentError as error:
    print(error)
"""


def test_text_of_pandas_does_not_need_pyarrow():
    shown = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYARROW],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    expected = ["a b 1", "a 1", "a b 1", "x 1", "1 3 1", "true 1", "1 2 0"]
    assert shown[:-1] == [line for line in expected for _ in range(2)]
    assert "one kind of value in a column" in shown[-1]


def test_an_answer_in_two_chunks_is_not_single(monkeypatch):
    monkeypatch.setattr(reading, "CHUNK", 10)
    values = [*range(25), *range(20)]
    assert answers(pl.DataFrame({"v": values}), "v").single == 5


def test_identifiers_are_refused(monkeypatch):
    monkeypatch.setattr("shoal.questions.settled.MOST_LABELS", 100)
    few = pl.DataFrame({"v": np.arange(100)})
    assert len(answers(few, "v").distinct) == 100
    with pytest.raises(InvalidArgumentError, match="at most 100 different answers"):
        answers(pl.DataFrame({"v": np.arange(101)}), "v")


@pytest.mark.parametrize(
    ("values", "refused"),
    [
        ([0.5, 1.0, 1.5], "not whole"),
        (["0.5", " 1", "1e-3"], "not whole"),  # as a text file has them
        ([1.0, 2.0, float("nan")], None),  # whole numbers, as pandas has them beside missing ones
        (["1.0", "2.50", "n/a"], None),
        (["1", "20"], None),
        ([f"{i % 200}" for i in range(400)], None),
        ([f"{i % 201}" for i in range(402)], "at most 200 different answers, not 201"),
    ],
)
def test_lists_taken_from_the_data_are_short_and_not_measured(values, refused, tmp_path):
    frame = pl.DataFrame({"v": values})
    frame.write_csv(tmp_path / "v.csv")
    frame.write_ndjson(tmp_path / "v.jsonl")
    for data in (frame, tmp_path / "v.csv", tmp_path / "v.jsonl"):
        if refused is None:
            assert choice(data, "v", missing="drop").known >= 2
        else:
            with pytest.raises(InvalidArgumentError, match=refused) as refusal:
                choice(data, "v", missing="drop")
            for way in ("--bins", "--open", "--categories FILE", "--public-list"):
                assert way in str(refusal.value)
        insisted = choice(data, "v", missing="drop", public=True)
        assert PUBLIC_LIST in insisted.assumptions
        assert choice(data, "v", values[:2], missing="drop").known == 2


def test_insisting_on_a_list_does_not_make_identifiers_public():
    data = pl.DataFrame({"v": [f"id{i}" for i in range(300)]})
    for insisted in (False, True):
        with pytest.raises(InvalidArgumentError, match="as identifiers are") as refusal:
            choice(data, "v", public=insisted)
        assert "--public-list" not in str(refusal.value)


def test_the_list_is_fixed_whatever_the_data_has():
    assert choice(FRAME, "age", [7, 12.0, 99]).labels == ("7", "12", "99", NONE, OTHER)
    assert codes(FRAME, "age", [7, 12.0, 99]) == [0, 0, 0, 1, 4, 4, 4, 4]
    dropped = choice(FRAME, "age", [7, 12, 99], missing="drop")
    assert dropped.labels == ("7", "12", "99", OTHER)
    assert codes(FRAME, "age", [7, 12, 99], missing="drop") == [0, 0, 0, 1, 3, 3, 3, 3]


def test_the_names_of_the_added_answers_are_taken():
    for taken in (NONE, OTHER):
        with pytest.raises(InvalidArgumentError, match="no answer called"):
            choice(FRAME, "colour", ["red", taken])
    table = pl.DataFrame({"v": [NONE, None, "x"]})
    with pytest.raises(InvalidArgumentError, match="no answer called"):
        choice(table, "v")
    assert choice(table, "v", missing="drop").labels == (NONE, "x")


def test_data_that_changes_between_readings_is_noticed():
    found = choice({"v": ["a", "b"]}, "v")
    counting = Counting(found.coding, (Report(shoal.RandomizedResponse(k=2, epsilon=1.0)),))
    for later in (["a", "c"], ["a"], ["a", "b", "b"]):
        with pytest.raises(InvalidArgumentError, match="does not change"):
            counting.total(reading.table({"v": later}, ["v"]), 2, secure())


MEASURED = """
import resource, sys
from shoal.engines import tables
from shoal.questions.settled import Lookup
def read(path):
    table = tables.table(path, ["v"])
    rows = table.answers("v").rows
    assert sum(map(len, table.chunks(Lookup("v", ("a",), None, 1)))) == rows
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = read(sys.argv[2])
print(read(sys.argv[1]) - before)
"""


def test_memory_does_not_grow_with_the_file(tmp_path):
    small, large = tmp_path / "small.csv", tmp_path / "large.csv"
    text = "answer-" + "x" * 60
    lines = "".join(f"{text}{i % 10}\n" for i in range(300_000))
    for path, times in ((small, 8), (large, 24)):
        with path.open("w") as file:
            file.write("v\n")
            for _ in range(times):
                file.write(lines)
    grown = subprocess.run(
        [sys.executable, "-c", MEASURED, large, small],
        env=environment() | {"POLARS_MAX_THREADS": "2"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    # Kilobytes. What is read ahead is 150 to 300 MB; read at once, the larger file takes 750 more.
    assert int(grown) < 400_000


@given(
    st.lists(st.sampled_from(["a", "b", "c", "x", None]), min_size=1, max_size=60),
    st.integers(1, 7),
    st.integers(1, 9),
    st.sampled_from([None, 3]),
)
def test_people_by_their_answers_are_the_people_of_the_rows(values, tasks, chunk, none):
    table = reading.Local(pl.LazyFrame({"v": values}, schema={"v": pl.String}))
    coding = Lookup("v", ("a", "b", "c"), none, other=4)
    expected = np.sort(np.concatenate([[], *table.chunks(coding)]))
    tallied = table.answers("v")  # once: their order is any
    ends = [len(expected) * task // tasks for task in range(tasks + 1)]
    pieces = [
        piece
        for first, last in pairwise(ends)
        for piece in share(coding, tallied, first, last, chunk)
    ]
    assert all(len(piece) <= chunk for piece in pieces)
    assert np.array_equal(np.sort(np.concatenate([[], *pieces])), expected)
