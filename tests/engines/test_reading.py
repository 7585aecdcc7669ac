"""Every kind of table gives the same column, and what cannot be read is said."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repository import environment
from shoal.engines import columns as reading
from shoal.engines.columns import NONE, OTHER, Amounts, Choices, Column, Tallied
from shoal.errors import InvalidArgumentError, MissingExtraError

COLOURS = ["red", "blue", None, "green", "blue", "red", "red", None]
HEIGHTS = [1.5, 2.0, 3.25, -4.0, 0.0, 2.0, 2.0, 1e3]
AGES = [30, 7, 30, 41, 7, 7, 12, 0]
FRAME = pl.DataFrame({"colour": COLOURS, "height": HEIGHTS, "age": AGES})

WRITERS = {
    "csv": pl.DataFrame.write_csv,
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


def joined(chunks):
    return np.concatenate(list(chunks))


def test_every_kind_of_table_has_the_same_answers(table):
    both = reading.table(table, ["age", "colour"])  # once: some can be read only once
    answers = reading.column(both, "colour").answers()
    assert (answers.rows, answers.nulls, answers.single) == (8, 2, 1)
    assert answers.distinct == ("blue", "green", "red")
    assert reading.column(both, "age").answers().distinct == ("0", "12", "30", "41", "7")


def test_every_kind_of_table_has_the_same_codes(table):
    column = reading.column(table, "colour")
    codes = column.codes(["red", "green"], none=5, other=9)
    assert sorted(joined(codes)) == [0, 0, 0, 1, 5, 5, 9, 9]
    dropped = column.codes(["red", "green"], none=None, other=9)
    assert sorted(joined(dropped)) == [0, 0, 0, 1, 9, 9]


def test_every_kind_of_table_has_the_same_numbers(table):
    column = reading.column(table, "height")
    assert column.numeric_size() == (8, 0)
    assert sorted(joined(column.numbers())) == sorted(HEIGHTS)


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
    answers = reading.column(pl.DataFrame({"v": values}), "v").answers()
    assert answers.distinct == expected
    assert answers.nulls == len(values) - len(expected)


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
    assert reading.label_of(value) == label
    table = pl.DataFrame({"v": np.array([value])})
    assert reading.column(table, "v").answers().distinct == (label,)


def test_text_of_a_csv_is_kept_as_written(tmp_path):
    path = tmp_path / "codes.csv"
    path.write_text("code,n\n007,1\n7,2\n1.0, 3 \n,\n")
    assert reading.column(path, "code").answers().distinct == ("007", "1.0", "7")
    numbers = reading.column(path, "n")
    assert numbers.numeric_size() == (4, 1)
    assert joined(numbers.numbers()).tolist() == [1.0, 2.0, 3.0]


def test_late_text_in_a_numeric_csv_is_an_answer_like_any_other(tmp_path):
    path = tmp_path / "late.csv"
    path.write_text("v\n" + "1\n" * 5000 + "x\n")
    assert reading.column(path, "v").answers().distinct == ("1", "x")
    assert reading.column(path, "v").numeric_size() == (5001, 1)


def test_a_missing_column_names_the_others(table):
    with pytest.raises(
        InvalidArgumentError, match=r"colour, height, age \(did you mean colour\?\)"
    ):
        reading.column(table, "color")


def test_columns_may_be_called_anything():
    strange = 'say "hi"'
    assert reading.column(relation(pa.table({strange: ["a"], "b": [1]})), strange).size() == (1, 0)
    numbered = pd.DataFrame([["a", 1], ["b", 2]])  # pandas calls these columns 0 and 1
    assert reading.column(numbered, "0").answers().distinct == ("a", "b")


def test_what_another_library_raises_is_about_the_data():
    class Broken(Stream):
        def __arrow_c_stream__(self, requested_schema=None):
            raise RuntimeError("the connection is closed")

    with pytest.raises(InvalidArgumentError, match=r"the connection is closed.*data='Broken'"):
        reading.column(Broken(pa.table({"v": [1]})), "v")


def test_a_column_in_other_letters_is_suggested():
    with pytest.raises(InvalidArgumentError, match=r"did you mean age\?"):
        reading.column(FRAME, "AGE")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.csv", None, "an existing file"),
        ("empty.csv", b"", "at least one row"),
        ("table.xlsx", b"x", "whose name ends in .csv, .parquet"),
        ("broken.parquet", b"not parquet", "readable data"),
        ("broken.arrow", b"not arrow either", "readable data"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidArgumentError, match=message):
        reading.column(path, "v").answers()


def test_bytes_that_are_not_text_are_said(tmp_path):
    path = tmp_path / "latin.csv"
    path.write_bytes("v\nêtre\n".encode("latin-1"))
    with pytest.raises(InvalidArgumentError, match="readable data"):
        reading.column(path, "v").answers()


def test_other_things_are_not_tables():
    with pytest.raises(InvalidArgumentError, match="a Polars, pandas or Arrow table"):
        reading.column([1, 2], "v")


def test_mixed_objects_are_refused():
    with pytest.raises(InvalidArgumentError, match="one kind of value"):
        reading.column(pd.DataFrame({"v": [1, "x"], "w": [1, 2]}), "v")


def test_other_columns_may_hold_anything():
    table = pd.DataFrame({"v": ["a", "b"], "w": [1, "x"]})
    assert reading.column(table, "v").answers().distinct == ("a", "b")


def test_a_table_that_needs_a_missing_library_says_so():
    class Table:
        columns = ("v",)

        def __getitem__(self, _):
            return self

        def __arrow_c_stream__(self, requested_schema=None):
            raise ImportError

    with pytest.raises(MissingExtraError, match=r"\.\[pandas\]"):
        reading.column(Table(), "v")


def test_lists_are_not_answers():
    with pytest.raises(InvalidArgumentError, match="a column of text, numbers or dates"):
        reading.column(pl.DataFrame({"v": [[1], [2]]}), "v").answers()


def test_booleans_are_not_numbers():
    with pytest.raises(InvalidArgumentError, match="a column of numbers"):
        reading.column(pl.DataFrame({"v": [True]}), "v").numeric_size()


def test_an_answer_in_two_chunks_is_not_single(monkeypatch):
    monkeypatch.setattr(reading, "CHUNK", 10)
    values = [*range(25), *range(20)]
    assert reading.column(pl.DataFrame({"v": values}), "v").answers().single == 5


def test_identifiers_are_refused(monkeypatch):
    monkeypatch.setattr(reading, "MOST_ANSWERS", 100)
    few = pl.DataFrame({"v": np.arange(100)})
    assert len(reading.column(few, "v").answers().distinct) == 100
    with pytest.raises(InvalidArgumentError, match="at most 100 different answers"):
        reading.column(pl.DataFrame({"v": np.arange(101)}), "v").answers()


def test_the_list_is_fixed_whatever_the_data_has():
    column = reading.column(FRAME, "age")
    listed = Choices.of(column, [7, 12.0, 99], drop_nulls=False)
    assert listed.labels == ("7", "12", "99", NONE, OTHER)
    assert sorted(joined(listed.chunks())) == [0, 0, 0, 1, 4, 4, 4, 4]
    dropped = Choices.of(column, [7, 12, 99], drop_nulls=True)
    assert dropped.labels == ("7", "12", "99", OTHER)
    assert sorted(joined(dropped.chunks())) == [0, 0, 0, 1, 3, 3, 3, 3]


def test_without_a_list_missing_answers_are_one_only_if_there_are_any():
    assert Choices.of(reading.column(FRAME, "age"), drop_nulls=False).labels[-1] == "7"
    found = Choices.of(reading.column(FRAME, "colour"), drop_nulls=False)
    assert found.labels == ("blue", "green", "red", NONE)
    assert sorted(joined(found.chunks())) == [0, 0, 1, 2, 2, 2, 3, 3]


@pytest.mark.parametrize("taken", [NONE, OTHER])
def test_the_names_of_the_added_answers_are_taken(taken):
    with pytest.raises(InvalidArgumentError, match="no answer called"):
        Choices.of(reading.column(FRAME, "colour"), ["red", taken], drop_nulls=False)


def test_a_value_called_none_beside_missing_ones_is_refused():
    table = pl.DataFrame({"v": [NONE, None, "x"]})
    with pytest.raises(InvalidArgumentError, match="no answer called"):
        Choices.of(reading.column(table, "v"), drop_nulls=False)
    assert Choices.of(reading.column(table, "v"), drop_nulls=True).labels == (NONE, "x")


@pytest.mark.parametrize("categories", [[], "red", ["red", "red"], [1, 1.0], ["red", None]])
def test_bad_lists(categories):
    with pytest.raises(InvalidArgumentError):
        Choices.of(reading.column(FRAME, "colour"), categories, drop_nulls=False)


@pytest.mark.parametrize(
    "bounds", [(1, 1), (2, 1), (0, float("inf")), (0, float("nan")), (1,), "ab"]
)
def test_bad_bounds(bounds):
    with pytest.raises(InvalidArgumentError, match="low < high"):
        Amounts.bounded(reading.column(FRAME, "age"), bounds, drop_nulls=False)


def test_data_that_changes_between_readings_is_noticed():
    values = {"v": ["a", "b"]}
    column = reading.Column("v", pl.DataFrame(values).lazy().rename({"v": "value"}))
    found = Choices.of(column, drop_nulls=False)
    later = reading.Column("v", pl.DataFrame({"value": ["a", "c"]}).lazy())
    changed = replace(found, source=later)
    with pytest.raises(InvalidArgumentError, match="stays the same"):
        list(changed.chunks())


MEASURED = """
import resource, sys
from shoal.engines import columns as reading
def read(path):
    column = reading.column(path, "v")
    rows = column.answers().rows
    assert sum(len(c) for c in column.codes(["a"], none=None, other=1)) == rows
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
    column = Column("v", pl.LazyFrame({"value": values}, schema={"value": pl.String}))
    words = {"labels": ["a", "b", "c"], "none": none, "other": 4}
    expected = np.sort(np.concatenate([[], *column.codes(**words)]))
    whole, n = Tallied("v", column.answers(), chunk=chunk), len(expected)
    parts = [
        replace(whole, first=n * task // tasks, last=n * (task + 1) // tasks)
        for task in range(tasks)
    ]
    pieces = [piece for part in parts for piece in part.codes(**words)]
    assert all(len(piece) <= chunk for piece in pieces)
    assert np.array_equal(np.sort(np.concatenate([[], *pieces])), expected)
