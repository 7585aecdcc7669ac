"""Texts that many hold are found, texts that nobody holds are not, and both as often as said."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from functools import cache

import numpy as np
import polars as pl
import pytest

import shoal
from shoal import open_answers, randomness
from shoal.estimate.hitters import Tables, heavy_hitters, level_cells
from shoal.mechanisms.detection import Detector
from shoal.mechanisms.prefixes import Alphabet, PrefixDummies, PrefixResponse, PrefixTree
from shoal.open_answers import threshold_statement
from shoal.values import Counts

SYMBOLS = "abcdefghijklmnop"
LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
N = 100_000
SLOW = pytest.mark.slow


def words(symbols, shortest, longest, size, seed):
    """Different random texts."""
    generator = np.random.default_rng(seed)
    letters = np.frombuffer(symbols.encode(), dtype=np.uint8)
    drawn = letters[generator.integers(0, len(letters), (2 * size, longest))]
    sizes = generator.integers(shortest, longest + 1, 2 * size)
    drawn[np.arange(longest) >= sizes[:, None]] = 0  # which ends a text
    texts = drawn.view(f"S{longest}").ravel().astype(str)
    return list(dict.fromkeys(texts.tolist()))[:size]


def zipf(n, texts, exponent=1.05):
    """{text: holders}, by Zipf's law."""
    weights = 1 / np.arange(1, len(texts) + 1) ** exponent
    held = np.floor(n * weights / weights.sum()).astype(int)
    held[0] += n - held.sum()
    return Counter(dict(zip(texts, held.tolist(), strict=True)))


def people(truth):
    return np.repeat(np.array(list(truth), dtype=object), list(truth.values()))


@cache
def made(kind, n=N, length=8, alphabet=SYMBOLS, epsilon=2.0):
    return kind.calibrated(n=n, epsilon=epsilon, delta=1e-6, length=length, alphabet=alphabet)


def search(protocol, truth, seed):
    sent = protocol.randomize(people(truth), randomness=randomness.simulated(seed))
    return heavy_hitters(protocol, protocol.tally(sent))


@cache
def searched(kind, seed):
    """What is found among people whose texts follow Zipf's law, and what they hold."""
    truth = zipf(N, words(SYMBOLS, 4, 8, 20_000, seed))
    return search(made(kind), truth, seed), truth


def check(found, truth):
    """Both promises of the list."""
    assert found.complete
    listed = set(found.texts)
    assert len(listed) == len(found)
    assert all(truth[text] > 0 for text in listed)
    least = [found.threshold_of(size) for size in range(max(map(len, truth)) + 1)]
    for text, held in truth.items():
        assert text in listed or held < least[len(text)]


class TestPromises:
    @pytest.mark.parametrize("kind", [PrefixDummies, PrefixResponse])
    def test_frequent_texts_are_found_and_no_others(self, kind):
        stated = made(kind).thresholds(N)
        for seed in range(3 if kind is PrefixDummies else 1):
            found, truth = searched(kind, seed)
            check(found, truth)
            # What was stated before there were data is no better than what holds for these.
            assert all(a <= b for a, b in zip(found.thresholds, stated, strict=True))
            assert len(found) >= sum(held >= found.threshold for held in truth.values()) >= 5
            if kind is PrefixDummies:
                assert found.threshold < 500

    def test_estimates_are_as_good_as_said(self):
        errors = []
        for seed in range(3):
            found, truth = searched(PrefixDummies, seed)
            true = np.array([truth[text] for text in found.texts])
            sure = true >= found.threshold  # the others are listed if their noise is large only
            errors += ((found.counts - true) / found.standard_errors)[sure].tolist()
            low, high = found.interval()
            assert np.mean((low <= true) & (true <= high)) > 0.75
            assert (np.diff(found.counts) <= 0).all()
        assert len(errors) > 60
        assert abs(np.mean(errors)) < 5 / math.sqrt(len(errors))
        assert 0.7 < np.std(errors) < 1.4

    @pytest.mark.parametrize("others", [None, *(pytest.param(x, marks=SLOW) for x in (4, 8))])
    def test_the_threshold_stated_before_there_are_data_is_one(self, others):
        """For all texts that have just so many holders at once, whatever the others hold.

        One run in twenty may fail: four of five would in one case in thirty thousand.
        """
        n, beta = 20_000, 0.05
        protocol = PrefixDummies.calibrated(
            n=n, epsilon=1.0, delta=1e-6, length=8, alphabet=LETTERS[:26], beta=beta
        )
        stated = math.ceil(protocol.threshold(n, beta=beta))
        successes = 0
        for seed in range(5):
            # As many as there can be; or a few among shorter or equal texts that are too rare.
            frequent = words(LETTERS[:26], 8, 8, n // stated if others is None else 4, seed)
            truth = Counter(dict.fromkeys(frequent, stated))
            size = {None: n, 4: 3 * stated // 8, 8: 3 * stated // 4}[others]
            rest = n - truth.total()
            rare = iter(words(LETTERS[:26], others or 8, others or 8, n, seed + 100))
            while rest:
                truth[next(rare)] += min(size, rest)
                rest -= min(size, rest)
            sent = protocol.randomize(people(truth), randomness=randomness.simulated(seed))
            result = heavy_hitters(protocol, protocol.tally(sent), beta=beta)
            assert result.complete
            assert result.threshold <= stated
            successes += set(frequent) <= set(result.texts) <= set(truth)
        assert successes >= 2

    @pytest.mark.parametrize("size", [50, 150, 400])
    def test_crowds_of_texts_just_too_rare_do_not_make_others(self, size):
        """The worst background: every cell that is not empty may be somebody else's."""
        texts = words(SYMBOLS, 8, 8, N // size, seed=size)
        truth = Counter(dict.fromkeys(texts, size))
        truth["heap"] = 1500
        found = search(made(PrefixDummies), truth, 1)
        check(found, truth)
        assert "heap" in found.texts

    def test_where_all_differ_nothing_is_found(self):
        truth = Counter(dict.fromkeys(words(SYMBOLS, 8, 8, 50_000, seed=2), 4))
        assert not len(search(made(PrefixDummies), truth, 2))

    def test_where_all_agree_one_text_is_found(self):
        for text in ("abcdefgh", "ab", ""):
            found = search(made(PrefixDummies), Counter({text: N}), 3)
            assert found.texts == (text,)
            assert abs(found.counts[0] - N) < 5 * found.standard_errors[0] + 1e-6

    def test_any_text_of_any_length_is_found(self):
        protocol = made(PrefixDummies, n=100_000, length=12, alphabet=None)
        texts = ["", "a", "ö", "日本語", "a fish", "grüße", "ääääää", "🐟", "=1+1", "12345678901"]
        truth = Counter({text: 6000 + 100 * place for place, text in enumerate(texts)})
        truth["a text that is cut because it is long"] = 8000
        found = search(protocol, truth, 4)
        assert set(found.texts) == {*texts, "a text that "}

    def test_more_prefixes_than_can_be_followed_are_told(self, monkeypatch):
        monkeypatch.setattr("shoal.mechanisms.prefixes.MOST_TRIED", 3 * len(SYMBOLS) ** 2)
        truth = zipf(N, words(SYMBOLS, 8, 8, 20_000, seed=0))
        found = search(made(PrefixDummies), truth, 0)
        assert not found.complete
        assert 1 <= len(found) <= 3 * 16
        assert "none is sure to be found" in threshold_statement(found)

    @pytest.mark.parametrize("wrong", [0.0, 1.0, math.nan])
    def test_what_is_no_chance_is_refused(self, wrong):
        protocol = made(PrefixDummies)
        sent = protocol.tally(protocol.randomize(["a"], randomness=randomness.simulated(1)))
        with pytest.raises(shoal.InvalidArgumentError, match="beta"):
            heavy_hitters(protocol, sent, beta=wrong)
        with pytest.raises(shoal.InvalidArgumentError, match="cells"):
            heavy_hitters(protocol, Counts(np.zeros(5, dtype=np.int64), 5))

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("kind", "largest"), [(PrefixDummies, 600), (PrefixResponse, 2500)], ids=["many", "one"]
    )
    def test_a_million_people_twenty_times(self, kind, largest):
        protocol = made(kind, n=10**6, alphabet=LETTERS)
        for seed in range(20):
            truth = zipf(10**6, words(LETTERS, 6, 8, 100_000, seed))
            found = search(protocol, truth, seed)
            check(found, truth)
            assert found.threshold <= min(largest, protocol.threshold(10**6))


class TestCandidates:
    @pytest.mark.parametrize("added", [0, 1, 3])
    @pytest.mark.parametrize("level", [0, 1])
    def test_the_search_finds_what_trying_everything_finds(self, level, added, monkeypatch):
        monkeypatch.setattr("shoal.estimate.hitters._MOST_TAILS", 9)
        monkeypatch.setattr("shoal.estimate.hitters._PIECE", 20)
        tree = PrefixTree(
            alphabet=Alphabet.of("abc", length=5),
            cuts=(added + 2, 5) if added < 3 else (4, 5),
            tables=(3, 4),
            buckets=(16, 32),
        )
        if level == 0 and tree.cuts[0] != added + 2:
            added = tree.cuts[0] - 2
        cells = np.random.default_rng(added).integers(0, 40, tree.k)
        found = Detector(np.arange(41), np.arange(41), 70 + 20 * level, 1.0)
        parents = tree.alphabet.pack(["ab", "ca", "bb"])[:, :2]
        rows, scores = Tables(tree, level, level_cells(tree, level, cells), found).passing(
            parents, added
        )
        tried = [
            base + "".join(tail)
            for base in ("ab", "ca", "bb")
            for tail in itertools.product("abc", repeat=added)
        ]
        packed = tree.alphabet.pack(tried)
        total = np.zeros(len(tried), dtype=np.int64)
        for table in range(tree.tables[level]):
            at = np.full(len(tried), tree.firsts[level] + table)
            total += cells[tree.cell_of(packed, at)]
        expected = {
            text: score for text, score in zip(tried, total, strict=True) if score >= found.least
        }
        whole = np.pad(rows, ((0, 0), (0, 5 - rows.shape[1])))
        got = dict(zip(tree.alphabet.texts(whole), scores.tolist(), strict=True))
        assert got == expected
        assert 0 < len(got) < len(tried) or len(tried) <= 3


def answers():
    truth = zipf(60_000, words("abcdefg", 1, 5, 500, seed=1))
    truth["=cmd"] = 4000
    return truth


def frequent(data, *question, **changes):
    asked = {"epsilon": 2.0, "randomness": randomness.simulated(8)} | changes
    return open_answers.heavy_hitters(data, *question, **asked)


WORDS = shoal.Text("word", length=6)


@pytest.fixture(scope="module")
def table():
    return pl.DataFrame({"word": list(people(answers())) + [None] * 5000})


@pytest.fixture(scope="module")
def told():
    """What is told while the result is computed."""
    return []


@pytest.fixture(scope="module")
def result(table, told):
    progress = lambda done, total: told.append((done, total))  # noqa: E731
    return frequent(table, WORDS, top=10, compare_truth=True, progress=progress)


def test_any_number_of_messages_is_refused():
    endless = shoal.Limits(messages=math.inf)
    with pytest.raises(shoal.InvalidArgumentError, match="a finite number of messages with texts"):
        open_answers.heavy_hitters(["no"] * 9, epsilon=1, limits=endless)


class TestOpenAnswers:
    def test_a_column_of_a_table(self, result, told, tmp_path):
        truth = answers()
        assert told[-1] == (69_000, 69_000)
        assert len(result.items) == 10
        assert result.contains_truth
        assert result.missed == ()
        assert {"(empty)", "=cmd"} <= {item.label for item in result.items}
        for item in result.items:
            wanted = 5000 if item.label == "(empty)" else truth[item.label]
            assert item.truth == wanted
            reach = (item.high - item.low) * result.n
            assert abs(item.count - wanted) < 3 * reach
            assert item.share == pytest.approx(item.count / 69_000)
        assert result.guarantee.epsilon <= 2 * (1 + 1e-7)
        assert result.guarantee.delta == 1e-6
        assert result.guarantee.lower == 0.0
        json.dumps(result.to_dict())
        result.to_csv(tmp_path / "found.csv")
        lines = (tmp_path / "found.csv").read_text(encoding="utf-8").splitlines()
        assert len(lines) == 11
        assert any(line.startswith("'=cmd,") for line in lines)
        assert "every answer of at least" in str(result)
        assert any("not private" in note for note in result.notes)

    def test_the_terminal_shows_bars_and_what_is_sure(self, result, capsys):
        from shoal.cli.render import show_result

        show_result(result)
        printed = capsys.readouterr().out
        assert all(mark in printed for mark in "█◆±")
        assert "NOT PRIVATE" in printed
        assert "0 of the answers above their threshold were missed" in printed

    def test_fewer_honest_people_need_more_noise(self, table, result):
        half = frequent(table, WORDS, crowd=shoal.Crowd(honest_fraction=0.5))
        assert half.guarantee.n == 34_500
        assert half.guarantee.epsilon <= 2 * (1 + 1e-7)
        assert half.mechanism.noise(69_000) > 1.9 * result.mechanism.noise(69_000) * 0.99

    def test_a_list_with_one_message_each(self):
        asked = shoal.Text("word", length=6, alphabet="abcdefg=cmd")
        found = frequent(list(people(answers())), asked, limits=shoal.Limits(messages=1))
        assert found.mechanism.messages == 1
        assert not found.contains_truth
        assert math.isfinite(found.guarantee.local_epsilon)
        assert "=cmd" in found.found.texts

    @pytest.mark.parametrize(
        ("data", "column", "said"),
        [
            (pl.DataFrame({"age": [1, 2]}), "age", "column of text"),
            (pl.DataFrame({"age": ["1", "2"]}), None, "name of a column"),
            (pl.DataFrame({"age": ["1", "2"]}), "aeg", "did you mean age"),
            (pl.DataFrame({"age": ["1", "2"]}), shoal.Choice("age"), "name of a column"),
            ([1, 2], None, "texts only"),
            ([], None, "at least one row"),
            ("abc", None, "name of a column"),
        ],
    )
    def test_what_cannot_be_read_is_refused(self, data, column, said):
        with pytest.raises(shoal.ShoalError, match=said):
            frequent(data, column, epsilon=50.0, delta=0.5)


def test_texts_listed_below_their_threshold_are_marked(tmp_path):
    """Of texts that are mostly not listed, those that are had luck: a mark and a note say so."""
    few = [first + second for first, second in zip("acegikmoqsuw", "bdfhjlnprtvx", strict=True)]
    held = ["zzzz"] * 2000 + [text * 2 for text in few for _ in range(200)]
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    single = (f"{a}{b}{c}q" for a in alphabet for b in alphabet for c in alphabet)
    answers = [*held, *(text for text, _ in zip(single, range(15_000), strict=False))]
    asked, bits = shoal.Text("word", length=4, alphabet=alphabet), randomness.simulated(2)
    result = open_answers.heavy_hitters(answers, asked, epsilon=1, randomness=bits)
    (threshold,) = result.found.thresholds
    marked = [item for item in result.items if item.below_threshold]
    assert len(result.items) > len(marked) > 0
    assert {item.count < threshold for item in marked} == {True}
    assert not result.items[0].below_threshold
    assert result.items[0].count > threshold
    assert any(note.startswith(f"{len(marked)} listed with fewer") for note in result.notes)
    result.to_csv(tmp_path / "texts.csv")
    header, first, *_ = (tmp_path / "texts.csv").read_text(encoding="utf-8").splitlines()
    assert header.endswith("below_threshold")
    assert first.endswith("False")
