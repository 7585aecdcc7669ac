"""Codings: what is read of a row is what plain Python reads of it, and who selects too many labels
keeps a uniform choice of them.
"""

from __future__ import annotations

import bisect
import itertools
import json
import math
from collections import Counter

import numpy as np
import polars as pl
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.engines.counting import bounded, drawn, totals
from shoal.engines.tables import table
from shoal.errors import InvalidArgumentError
from shoal.planning.schemes import sets
from shoal.questions.kinds import (
    NONE,
    OTHER,
    Bins,
    Choice,
    Choices,
    Find,
    Number,
    Scale,
    Text,
    Vector,
)
from shoal.questions.settled import (
    CLAMPED,
    FEWER,
    PUBLIC_GROUPS,
    PUBLIC_LIST,
    PUBLIC_NULLS,
    natural,
    settle,
)
from shoal.randomness import simulated

FALSE_ALARM = 1e-6  # of all that is drawn here together

WORDS = st.sampled_from(["a", "b", "c", "1", "", " a", "x;y"])
CELLS = st.one_of(st.none(), WORDS)
REALS = st.one_of(st.none(), st.floats(-20, 20), st.just(math.nan), st.just(math.inf))
WHOLES = st.one_of(st.none(), st.integers(-20, 20))
MISSING = st.sampled_from(["cell", "drop"])


def columns(**kinds):
    """Rows of a table, column by column."""
    rows = st.lists(st.tuples(*kinds.values()), min_size=1, max_size=12)
    return rows.map(lambda rows: dict(zip(kinds, map(list, zip(*rows, strict=True)), strict=True)))


def frame(data, **kinds):
    """As a table: a column without a value in it has a kind, too."""
    return pl.DataFrame([pl.Series(name, values, kinds[name]) for name, values in data.items()])


def read(question, data, **more):
    """What is read of the rows, one of a row unless it is left out; None if all of them are."""
    place = table(data, list(question.columns))
    try:
        settled = settle(question, place, **more)
    except InvalidArgumentError as error:
        assert "at least one row" in str(error) or "at least two different" in str(error)  # noqa: PT017
        return None, None
    values = np.concatenate(list(place.chunks(settled.coding)))
    assert settled.n == len(values)
    return settled, values.tolist()


def missing(value):
    """Whether a row has nothing there."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def looked_up(value, labels, *, other=True):
    """The place of a value in a list, then that of none, then that of others."""
    if missing(value):
        return len(labels)
    return labels.index(value) if value in labels else (len(labels) + 1 if other else None)


def left(codes):
    """Without rows that are left out."""
    return [code for code in codes if code is not None]


# ------------------------------------------------------------------------------- each coding


@given(data=columns(c=CELLS), keep=MISSING)
def test_a_value_is_looked_up(data, keep):
    question = Choice("c", ["b", "a", ""], missing=keep)
    settled, codes = read(question, frame(data, c=pl.String))
    kept = [value for value in data["c"] if keep == "cell" or value is not None]
    if settled is None:
        assert not kept
        return
    added = [NONE] * (keep == "cell") + [OTHER]
    assert settled.labels == ("b", "a", "", *added)
    names = [settled.labels[code] for code in codes]
    known = ("b", "a", "")
    assert names == [
        NONE if value is None else value if value in known else OTHER for value in kept
    ]
    assert settled.domain.k == len(settled.labels)


@given(data=columns(c=CELLS))
def test_the_answers_of_the_data_are_a_public_list(data):
    settled, codes = read(Choice("c"), frame(data, c=pl.String))
    there = sorted({value for value in data["c"] if value is not None})
    if settled is None:
        assert len(there) + (None in data["c"]) < 2
        return
    if natural(there):
        there.sort(key=float)
    assert settled.labels == (*there, *[NONE] * (None in data["c"]))
    names = [settled.labels[code] for code in codes]
    assert names == [NONE if value is None else value for value in data["c"]]
    assert PUBLIC_LIST in settled.assumptions


@given(data=columns(x=REALS), keep=MISSING)
def test_a_number_is_cut(data, keep):
    edges = [-5.5, 0.0, 0.25, 7.5]
    question = Bins("x", bins=edges, missing=keep)
    settled, codes = read(question, frame(data, x=pl.Float64))
    expected = []
    for value in data["x"]:
        if not missing(value):
            place = bisect.bisect_right(edges, value) - 1
            expected.append(min(max(place, 0), 2))
        elif keep == "cell":
            expected.append(3)
    if settled is None:
        assert not expected
        return
    assert codes == expected
    assert settled.known == 3
    assert (settled.labels[3:] == (NONE,)) == (keep == "cell")


@given(data=columns(x=WHOLES), keep=MISSING)
def test_a_step_of_a_scale_is_the_nearest(data, keep):
    settled, codes = read(Scale("x", -2, 3, missing=keep), frame(data, x=pl.Int64))
    there = [value for value in data["x"] if keep == "cell" or value is not None]
    if settled is None:
        assert not there
        return
    assert codes == [6 if value is None else min(max(value, -2), 3) + 2 for value in there]
    assert settled.scores == (-2, -1, 0, 1, 2, 3)
    assert settled.cells_of_means == [[0, 1, 2, 3, 4, 5]]


def members(value, labels, separator=";"):
    """Which labels are selected, as a sum."""
    if value is None:
        return 0
    listed = value if isinstance(value, list) else [p.strip(" ") for p in value.split(separator)]
    return sum(1 << i for i, label in enumerate(labels) if label in listed)


@given(
    data=columns(c=st.one_of(st.none(), st.lists(CELLS, max_size=4))),
    keep=MISSING,
)
def test_lists_are_sets_of_labels(data, keep):
    question = Choices("c", ["b", "a", "1"], missing=keep)
    settled, codes = read(question, frame(data, c=pl.List(pl.String)))
    there = [value for value in data["c"] if keep == "cell" or value is not None]
    if settled is None:
        assert not there
        return
    assert codes == [members(value, ["b", "a", "1"]) for value in there]


def test_lines_of_json_hold_lists(tmp_path):
    values = [["a", 1], None, "a", [1.0, True, None], [], "[a", "1;a", ["x"]]
    path = tmp_path / "lists.jsonl"
    path.write_text("".join(json.dumps({"c": value}) + "\n" for value in values))
    lists = table(path, ["c"])
    (codes,) = lists.chunks(settle(Choices("c", ["a", "1", "true"]), lists).coding)
    assert codes.tolist() == [3, 0, 1, 6, 0, 0, 3, 0]


def test_choices_that_nobody_has_are_doubted():
    asked = Choices("c", ["a", "b"])
    said = "does c hold lists, or text with ';' between?"
    for cells, doubted in ((["a|b", "a|b"], True), (["a;b", "a"], False)):
        found = shoal.run({"c": cells * 500}, asked, epsilon=1, randomness=simulated(1))
        assert (said in " ".join(found.warnings)) == doubted


@pytest.mark.parametrize("label", ["a;b", " a", "b "])
def test_a_label_that_no_text_can_hold_is_refused(label):
    question = Choices("c", ["a", label])
    with pytest.raises(InvalidArgumentError, match="answers without ';'"):
        shoal.run({"c": ["a;b", "a"] * 500}, question, epsilon=1)
    found = shoal.run({"c": [["a", label], ["a"]] * 500}, question, epsilon=8)
    assert 0.3 < found.estimate.frequencies[1] < 0.7


@given(data=columns(c=st.one_of(st.none(), st.text("ab1 ;|", max_size=8))), keep=MISSING)
def test_text_with_separators_is_a_set_of_labels(data, keep):
    question = Choices("c", ["b", "a", "1"], separator="|", missing=keep)
    settled, codes = read(question, frame(data, c=pl.String))
    there = [value for value in data["c"] if keep == "cell" or value is not None]
    if settled is None:
        assert not there
        return
    assert codes == [members(value, ["b", "a", "1"], "|") for value in there]


@pytest.mark.parametrize(
    ("inner", "row"),
    [(pl.Float64, [1.0, None, math.nan]), (pl.Int8, [1, None]), (pl.Float64, [2.5, 1.0])],
)
def test_numbers_in_lists_are_labels_as_they_are_in_columns(inner, row):
    question = Choices("c", [1, 2.5, 3.0])
    _, codes = read(question, frame({"c": [row, [3], []]}, c=pl.List(inner)))
    assert codes == [1 + 2 * (2.5 in row), 4, 0]
    whole = pl.DataFrame({"c": pl.Series([row[:1], [3]], dtype=pl.Array(inner, 1))})
    assert read(question, whole)[1] == [1 if row[0] == 1 else 2, 4]


@given(data=columns(c=CELLS, g=CELLS), keep=MISSING)
def test_a_group_and_an_answer_are_one_code(data, keep):
    question = Choice("c", ["b", "a"], missing=keep).by("g", ["1", "c", "a"])
    settled, codes = read(question, frame(data, c=pl.String, g=pl.String))
    labels, groups = ["b", "a"], ["1", "c", "a"]
    width = len(labels) + 1 + (keep == "cell")
    expected = []
    for value, group in zip(data["c"], data["g"], strict=True):
        if keep == "cell" or value is not None:
            answer = looked_up(value, labels)
            answer -= (keep == "drop") and answer == len(labels) + 1
            expected.append(looked_up(group, groups) * width + answer)
    if settled is None:
        assert not expected
        return
    assert codes == expected
    assert len(settled.labels) == settled.domain.k == width * 5
    names = [*groups, NONE, OTHER]
    answers = [*labels, *[NONE] * (keep == "cell"), OTHER]
    assert settled.labels == tuple(f"{g} · {a}" for g in names for a in answers)


@given(data=columns(x=REALS, g=CELLS), keep=MISSING)
def test_a_number_has_a_place(data, keep):
    question = Number("x", 0, 10, missing=keep).by("g", ["b", "a"])
    settled, rows = read(question, frame(data, x=pl.Float64, g=pl.String))
    expected = [
        [looked_up(group, ["b", "a"]), math.nan if missing(value) else value]
        for value, group in zip(data["x"], data["g"], strict=True)
        if keep == "cell" or not missing(value)
    ]
    if settled is None:
        assert not expected
        return
    np.testing.assert_array_equal(rows, expected)
    assert settled.groups.labels == ("b", "a", NONE, OTHER)
    assert CLAMPED in settled.notes


@given(data=columns(x=REALS))
def test_numbers_are_clipped_to_the_bounds(data):
    place = table(frame(data, x=pl.Float64), ["x"])
    there = [value for value in data["x"] if not missing(value)]
    if not there:
        return
    coding = settle(Number("x", -3, 4.5, missing="drop"), place).coding
    (values,) = place.chunks(coding)
    assert values.tolist() == there
    inside = bounded(coding, values, simulated(1)).tolist()
    assert inside == [min(max(value, -3), 4.5) for value in there]
    if len(there) < len(data["x"]):
        with pytest.raises(InvalidArgumentError, match="a number in every row"):
            settle(Number("x", -3, 4.5), place)


@given(data=columns(x=st.floats(-20, 20), y=REALS.filter(lambda v: v != math.inf)))
def test_vectors_are_shortened_to_the_norm(data):
    place = table(frame(data, x=pl.Float64, y=pl.Float64), ["x", "y"])
    there = [pair for pair in zip(data["x"], data["y"], strict=True) if not missing(pair[1])]
    if not there:
        return
    coding = settle(Vector("v", ["x", "y"], 3.0, missing="drop"), place).coding
    (values,) = place.chunks(coding)
    assert [tuple(row) for row in values.tolist()] == there
    for (x, y), short in zip(there, bounded(coding, values, simulated(1)).tolist(), strict=True):
        scale = min(1.0, 3.0 / max(math.hypot(x, y), 1e-300))
        assert short == pytest.approx([x * scale, y * scale], rel=1e-9)


@given(data=columns(c=st.one_of(st.none(), st.lists(WORDS, max_size=3)), x=REALS, g=CELLS))
def test_true_totals_are_sums_of_what_is_read(data):
    lists = table(frame({"c": data["c"]}, c=pl.List(pl.String)), ["c"])
    coding = settle(Choices("c", ["a", "b"]), lists).coding
    chosen = sum(totals(coding, values) for values in lists.chunks(coding)).tolist()
    assert chosen == [sum(label in (each or []) for each in data["c"]) for label in ("a", "b")]
    grouped = {"x": data["x"], "g": data["g"]}
    place = table(frame(grouped, x=pl.Float64, g=pl.String), ["x", "g"])
    question = Number("x", -30, 30, missing="cell").by("g", ["a", "b"])
    coding = settle(question, place).coding
    found = sum(totals(coding, values) for values in place.chunks(coding))
    for i in range(4):
        own = [
            value
            for value, group in zip(data["x"], data["g"], strict=True)
            if looked_up(group, ["a", "b"]) == i and not missing(value)
        ]
        assert found[i] == len(own)
        assert found[4 + i] == pytest.approx(math.fsum(own))


# ------------------------------------------------------------------------ what is filled in


def test_a_number_of_answers_is_enough_to_plan_and_not_to_run():
    assert settle(Choice("c", 3), n=9).domain.k == 3
    with pytest.raises(InvalidArgumentError, match="a number of them is enough for plans only"):
        settle(Choice("c", 3), table({"c": ["a"]}, ["c"]))
    with pytest.raises(InvalidArgumentError, match="a list of answers of c, or how many there are"):
        settle(Choice("c"), n=9)
    with pytest.raises(InvalidArgumentError, match="a list of groups"):
        settle(Choice("c", 3).by("g"), n=9)
    with pytest.raises(InvalidArgumentError, match=r"where Find\(\) would find them"):
        settle(Choice("c", 3).by("g", Find()), n=9)
    with pytest.raises(InvalidArgumentError, match="found by heavy_hitters"):
        settle(Text("t"), n=9)


def test_several_reports_of_a_person_have_no_mean_of_rows_that_are_not_there():
    for question in (Number("x", 0, 1), Vector("v", ["x", "y"], 1.0), Choices("x", ["a"])):
        place = table({"x": [0.5], "y": [0.5]}, list(question.columns))
        with pytest.raises(InvalidArgumentError, match=r"(several|one) reports? per person"):
            settle(question, place, padded=True)


@pytest.mark.parametrize(
    "question",
    [
        Choice("c"),
        Choice("c", missing="drop"),
        Choice("c").by("g"),
        Choice("c", ["a"]).by("g"),
        Bins("x", 0, 10),
        Bins("x", 0, 10).by("g", ["n"]),
        Bins("x", 0.5, 10, bins=3),
        Scale("x", 0, 5).by("g"),
        Number("x", 0, 10, missing="cell").by("g"),
        Choices("c", ["a", "b"], 1),
    ],
)
def test_a_question_is_settled_without_data_as_it_was_with(question):
    data = pl.DataFrame(
        {
            "c": ["b", "a", None, "b", "c"] * 30,
            "g": ["n", "n", "s", None, "s"] * 30,
            "x": [0.5, 2.25, 7.0, 3.0, None] * 30,
        }
    )
    made = settle(question, table(data, list(question.columns)), epsilon=1.0)
    again = settle(made.fixed, n=made.n, epsilon=0.1)
    assert (again.labels, again.domain, again.known) == (made.labels, made.domain, made.known)
    assert (again.groups and again.groups.labels) == (made.groups and made.groups.labels)
    assert (again.scores, again.order, again.n) == (made.scores, made.order, made.n)
    assert again.coding == made.coding


def test_what_is_public_is_noted():
    data = table(pl.DataFrame({"c": ["a", "b", None], "g": ["n", "s", "s"]}), ["c", "g"])
    made = settle(Choice("c", missing="drop").by("g"), data)
    assert set(made.assumptions) == {PUBLIC_LIST, PUBLIC_NULLS, PUBLIC_GROUPS}
    assert made.n == 2
    few = settle(Choices("c", ["a", "b"], 1), data)
    assert FEWER.format(1) in few.notes
    assert not any(FEWER.format(2) in note for note in settle(Choices("c", ["a", "b"]), data).notes)


# --------------------------------------------------------------------- of more than so many labels


class Orders:
    """Every order of k places, once each."""

    def __init__(self, k):
        self.listed = np.array([*itertools.permutations(range(k))], dtype=np.uint64)

    def below(self, _bound, size):
        assert size == self.listed.size
        return self.listed.ravel()


@pytest.mark.parametrize(("k", "most"), [(2, 1), (3, 1), (3, 2), (4, 1), (4, 2), (4, 3), (5, 2)])
def test_all_orders_keep_every_subset_as_often(k, most):
    for members_ in range(1 << k):
        size = members_.bit_count()
        orders = Orders(k)
        kept = Counter(drawn(np.full(len(orders.listed), members_), k, most, orders).tolist())
        if size <= most:
            assert kept == {members_: math.factorial(k)}
            continue
        subsets = [each for each in sets(k, most).tolist() if each.bit_count() == most]
        inside = {each for each in subsets if each & ~members_ == 0}
        assert set(kept) == inside
        assert set(kept.values()) == {math.factorial(k) // math.comb(size, most)}


@pytest.mark.parametrize(("k", "most"), [(3, 1), (4, 2), (5, 3)])
def test_subsets_are_drawn_uniformly(k, most):
    times, bits = 4_000, simulated(7)
    everything = np.repeat(np.arange(1 << k), times)
    kept = drawn(everything, k, most, bits)
    assert np.array_equal(everything, np.repeat(np.arange(1 << k), times))  # not changed in place
    many = [each for each in range(1 << k) if each.bit_count() > most]
    for members_ in range(1 << k):
        own = kept[everything == members_]
        if members_ not in many:
            assert np.all(own == members_)
            continue
        subsets = [s for s in sets(k, most).tolist() if s.bit_count() == most and not s & ~members_]
        seen = Counter(own.tolist())
        assert set(seen) <= set(subsets)
        expected = times / len(subsets)
        square = sum((seen[each] - expected) ** 2 / expected for each in subsets)
        bound = scipy.stats.chi2.isf(FALSE_ALARM / (3 * len(many)), len(subsets) - 1)
        assert square <= bound
    # Those of different people are drawn apart: pairs of neighbours are as frequent as any.
    full = kept[everything == (1 << k) - 1].reshape(-1, 2)
    pairs = Counter(map(tuple, full.tolist()))
    cells = math.comb(k, most) ** 2
    expected = len(full) / cells
    square = sum((n - expected) ** 2 / expected for n in pairs.values())
    square += (cells - len(pairs)) * expected
    assert square <= scipy.stats.chi2.isf(FALSE_ALARM / 3, cells - 1)


def test_a_run_draws_of_too_many():
    data = table(pl.DataFrame({"c": ["a;b;c"] * 500}), ["c"])
    coding = settle(Choices("c", ["a", "b", "c"], 2), data).coding
    (values,) = data.chunks(coding)
    assert set(values.tolist()) == {7}
    kept = bounded(coding, values, simulated(3))
    assert set(kept.tolist()) == {3, 5, 6}
