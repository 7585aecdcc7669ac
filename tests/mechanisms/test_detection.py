"""What detectors miss and let pass, against enumeration of everything that people may hold."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy
from scipy import stats

from shoal.mechanisms.detection import Background, Channel, Ladder, worst_passing
from shoal.mechanisms.prefixes import Alphabet, PrefixDummies, PrefixResponse, PrefixTree

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def partitions(n, most):
    """All ways to split n people into groups of ``most`` at most."""
    if not n:
        yield ()
    for first in range(1, min(n, most) + 1):
        for rest in partitions(n - first, first):
            yield first, *rest


class Exact:
    """The joint law of the counts in one cell of each table, by its generating function.

    Nothing is Poisson here. Everybody sends a message to one of the tables with probability
    ``sent``, and there is noise in each cell: dummies of probability 1/cells, or else lies in place
    of the message.
    """

    def __init__(self, channel, *, lies):
        self.channel = channel
        dummies = 0 if lies else round(channel.noise * channel.cells)
        self.lie = channel.noise / channel.n if lies else 0.0
        roots = np.arange(channel.n + dummies + 1) / (channel.n + dummies + 1)
        roots = np.exp(-2j * np.pi * roots)
        self.turns = np.meshgrid(*[roots - 1] * channel.tables, indexing="ij")
        self.noise = (1 + sum(self.turns) / channel.cells) ** dummies

    def group(self, holders, hits):
        """People whose text has these cells in the tables ``hits``."""
        own = self.channel.sent / self.channel.tables * sum(self.turns[table] for table in hits)
        return (1 + self.lie * sum(self.turns) + own) ** holders

    def others(self, holders):
        """People whose text has other cells, but for chance."""
        tables, hit = self.channel.tables, 1 / self.channel.buckets
        return sum(
            hit ** len(hits) * (1 - hit) ** (tables - len(hits)) * self.group(holders, hits)
            for size in range(tables + 1)
            for hits in itertools.combinations(range(tables), size)
        )

    @staticmethod
    def law(generating):
        return np.fft.ifftn(generating).real

    def passing(self, detector, law):
        """The probability that the scores reach the limit."""
        scores = detector.scored(np.arange(len(law))).astype(int)
        total = sum(np.meshgrid(*[scores] * self.channel.tables, indexing="ij"))
        return float(law[total >= detector.least].sum())


def small_channels(tables, n, seed):
    generator = np.random.default_rng(seed)
    for sent in (0.3, 0.6, 1.0):
        buckets = 1 << int(generator.integers(1, 6))
        cells = int(generator.integers(10, 60))
        noise = int(generator.integers(1, 20)) / cells
        yield Channel(tables, buckets, cells, n, noise, sent * (1 - noise / n))


CROWDS = {  # tables, and everything that so many people may hold
    "any": (2, 9, list(partitions(9, 9))),
    "any in three": (3, 7, list(partitions(7, 7))),
    "alike": (2, 40, [(size,) * (40 // size) + (1,) * (40 % size) for size in range(1, 41)]),
}


@pytest.mark.parametrize("lies", [False, True])
@pytest.mark.parametrize("crowd", CROWDS)
def test_no_small_crowd_makes_more_of_nobody_than_the_bound(crowd, lies):
    """By enumeration of all that people may hold, of all hash tables and of all messages."""
    tables, n, held = CROWDS[crowd]
    reached = []
    for channel in small_channels(tables, n, seed=3):
        exact = Exact(channel, lies=lies)
        each = {size: exact.others(size) for size in range(1, n + 1)}
        laws = [
            exact.law(exact.noise * math.prod(each[size] for size in groups)) for groups in held
        ]
        for signal in (1.0, 3.0, 6.0):
            detector = Ladder(channel, 0.1, top=signal).at(signal)
            for least in range(1, tables * detector.largest + 1, 3):
                detector = replace(detector, least=least)
                worst = max(exact.passing(detector, law) for law in laws)
                bound = math.exp(worst_passing(channel, detector))
                assert worst <= bound + 1e-12
                if bound < 1:
                    reached.append(worst / bound)
    assert 0.01 < np.median(reached) < max(reached) < 1


@pytest.mark.parametrize("lies", [False, True])
def test_no_text_is_missed_more_often_than_said(lies):
    """By enumeration of all messages, whichever rung below a text is chosen."""
    shares = []
    for channel in small_channels(2, 120, seed=4):
        exact = Exact(channel, lies=lies)
        for signal in (8.0, 15.0, 25.0):
            missed = 0.2 / signal
            ladder = Ladder(channel, missed, top=signal)
            detectors = [ladder.at(signal / 1.06**down) for down in range(32)]
            holders = math.ceil(signal / channel.sent)
            text = exact.group(holders, range(2)) * exact.group(channel.n - holders, ())
            law = exact.law(text * exact.noise)
            lost = [1 - exact.passing(detector, law) for detector in detectors]
            assert sum(lost) <= missed * signal
            shares.append(sum(lost) / (missed * signal))
    assert max(shares) > 1e-3


def random_channels(count, seed):
    generator = np.random.default_rng(seed)
    for _ in range(count):
        n = int(10 ** generator.uniform(3.5, 6))
        tables, bits = int(generator.integers(5, 20)), int(generator.integers(5, 14))
        noise = float(10 ** generator.uniform(0, 1.7))
        sent = float(generator.choice([0.35, 0.5, 0.75, 1.0]))
        yield Channel(tables, 1 << bits, 2 * tables << bits, n, noise, sent)


def cell_law(channel, holders, *, top):
    """A random cell's count where everybody is in a group of so many; all from ``top`` on in one.

    Noise is Poisson; groups are hashed, and people send, as they do.
    """
    groups, sent = channel.n // holders, channel.sent / channel.tables
    mean = channel.noise + groups * holders * sent / channel.buckets
    spread = math.sqrt(channel.noise + mean * (1 + holders * sent))
    law = whole_law(channel, holders, max(top + 1, mean + 14 * (spread + holders * sent + 1)))
    return np.append(law[:top], law[top:].sum())


@cache
def whole_law(channel, holders, most):
    groups, sent, size = channel.n // holders, channel.sent / channel.tables, 1
    while size < most:
        size *= 2
    turns = np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size) - 1
    group = 1 + (np.exp(holders * np.log(1 + sent * turns)) - 1) / channel.buckets
    generating = np.exp(channel.noise * turns + groups * np.log(group))
    return np.maximum(np.fft.irfft(generating, size), 0.0)


def test_no_size_of_groups_makes_more_of_nobody_than_the_bound():
    """At the size of real collections, where the worst group is some size between."""
    sure = 0
    for channel in random_channels(12, seed=5):
        false = 1e-9
        ladder = Ladder.built(
            channel, false=false, missed=0.05 / channel.n, most=channel.n * channel.sent
        )
        if not ladder.sure:
            continue
        sure += 1
        detector = ladder.at(ladder.top)
        bound = math.exp(worst_passing(channel, detector))
        assert bound <= false
        largest = 2 * ladder.top / channel.sent
        worst = 0.0
        for holders in np.unique(np.geomspace(1, min(largest, channel.n), 40).astype(int)).tolist():
            law = cell_law(channel, holders, top=int(detector.edges[-1]))
            background = Background(((np.arange(law.size), law),) * channel.tables)
            worst = max(worst, detector.passing(background))
        assert worst <= bound
        assert worst >= bound * math.exp(-9)  # a bound, and not an idle one
    assert sure >= 6


def least_missed(held, empty, tables, false):
    """What any test that lets ``false`` of the empty cells pass misses of the held ones, at least.

    For any r, missed + r false >= sum min(held, r empty), and the sum is an average of the
    likelihood ratio, which is rounded down here (Neyman and Pearson).
    """
    step = 0.02
    with np.errstate(divide="ignore"):
        ratios = np.log(held) - np.log(empty)
    units = np.floor(np.clip(ratios, -60, 60) / step).astype(int)
    each = np.bincount(units - units.min(), empty)
    size = tables * (each.size - 1) + 1
    length = scipy.fft.next_fast_len(2 * size, real=True)
    law = np.maximum(np.fft.irfft(np.fft.rfft(each, length) ** tables, length)[:size], 0.0)
    totals = step * (np.arange(size) + tables * units.min())
    likelihood = np.exp(np.minimum(totals, -math.log(false)))
    ratios = np.exp(np.arange(0.0, -math.log(false), 0.5))
    return max(float(law @ np.minimum(likelihood, r)) - r * false for r in ratios)


def needed(channel, *, false, missed):
    """The fewest holders with which any test of these counts keeps both errors.

    At the worst of many sizes of the groups that everybody else is in.
    """
    holders = 2
    for size in np.unique(np.geomspace(2, channel.n / 4, 40).astype(int)).tolist():
        while holders < channel.n:
            mean = channel.noise + holders * channel.sent / channel.tables
            top = math.ceil(mean + 8 * math.sqrt(mean))
            empty = np.maximum(cell_law(channel, size, top=top), 1e-300)
            held = stats.poisson.pmf(np.arange(top), mean)
            held = np.append(held, stats.poisson.sf(top - 1, mean))
            if least_missed(held, empty, channel.tables, false) <= missed * holders:
                break
            holders = math.ceil(1.03 * holders)
    return holders / 1.03


@pytest.mark.parametrize(
    ("tables", "buckets", "noise", "n", "beta"),
    [(6, 128, 42.65, 10_000, 0.05), (9, 128, 18.0, 10_000, 0.01), (13, 256, 42.65, 20_000, 0.05)],
)
def test_a_stated_threshold_is_never_below_what_any_test_needs(tables, buckets, noise, n, beta):
    """Of one level, and with all of beta for each of the errors."""
    tree = PrefixTree(
        alphabet=Alphabet.of(LETTERS, length=4), cuts=(4,), tables=(tables,), buckets=(buckets,)
    )
    protocol = PrefixDummies(tree=tree, dummies=noise * tree.k / n)
    (stated,) = protocol.thresholds(n, beta=beta)
    channel = Channel(tables, buckets, tree.k, n, noise, 1.0)
    candidates = sum(26**size for size in range(5))
    least = needed(channel, false=beta / candidates, missed=beta / n)
    assert least <= stated <= 2.5 * least


def trees():
    alphabet = Alphabet.of(LETTERS, length=8)
    layouts = [((13, 13), (64, 256)), ((6, 12), (1024, 2048)), ((12, 24), (128, 256))]
    for tables, buckets in layouts:
        yield PrefixTree(alphabet=alphabet, cuts=(5, 8), tables=tables, buckets=buckets)


@pytest.mark.parametrize("tree", list(trees()), ids=lambda tree: str(tree.tables))
@pytest.mark.parametrize("single", [False, True])
def test_thresholds_move_as_they_must(tree, single):
    """Within the 1 % that they are known to."""
    protocol = (
        PrefixResponse(tree=tree, epsilon=9.0)
        if single
        else PrefixDummies(tree=tree, dummies=20 * tree.k / 100_000)
    )

    def none_larger(few, many):
        return all(a <= 1.02 * b for a, b in zip(few, many, strict=True))

    usual = protocol.thresholds(100_000, beta=0.01)
    assert math.isfinite(usual[0])
    assert none_larger(protocol.thresholds(100_000, beta=0.1), usual)
    assert none_larger(usual, protocol.thresholds(100_000, beta=0.001))
    assert none_larger(protocol.thresholds(50_000, beta=0.01), usual)
    assert none_larger(usual, protocol.thresholds(110_000, beta=0.01))
    assert none_larger(usual, protocol.thresholds(200_000, beta=0.01))
    assert usual[-1] == protocol.threshold(100_000, beta=0.01) >= usual[0]


class TestDetector:
    def tables(self):
        generator = np.random.default_rng(7)
        tables = [generator.poisson(9.0, 200) for _ in range(2)]
        tables[0][:5] = 90
        return tables

    def ladder(self, top=200.0):
        return Ladder(Channel(2, 200, 800, 10_000, 9.0, 0.05), 1e-4, top=top)

    def test_what_passes_is_what_enumeration_says(self):
        tables = self.tables()
        detector = self.ladder().at(60.0)
        scores = [detector.scored(table).astype(int) for table in tables]
        passed = (scores[0][:, None] + scores[1][None, :] >= detector.least).mean()
        assert 0 < passed < 0.1
        assert detector.passing(Background.of(tables)) == pytest.approx(passed, rel=1e-9)

    def test_what_is_missed_is_what_simulation_says(self):
        ladder = Ladder(Channel(6, 200, 2400, 10_000, 9.0, 0.05), 1e-4, top=200.0)
        detector = ladder.at(120.0)
        seen = np.random.default_rng(8).poisson(9.0 + 20.0, (6, 200_000))
        missed = (detector.scored(seen).sum(axis=0) < detector.least).mean()
        allowed = ladder.missed * 120.0
        assert allowed / 100 < missed <= allowed / 2

    def test_scores_ascend_from_zero(self):
        for signal in (5.0, 60.0, 1e4):
            detector = self.ladder().at(signal)
            assert detector.scores[0] == detector.edges[0] == 0
            assert (np.diff(detector.scores) > 0).all()
            assert (np.diff(detector.edges) > 0).all()
            assert detector.scored(np.arange(10**5))[-1] == detector.largest

    def test_the_data_choose_the_lowest_rung_that_they_allow(self):
        background = Background.of(self.tables())
        for false in (1e-3, 1e-2):
            detector = self.ladder().chosen(background, false=false)
            assert detector.passing(background) <= false
            lower = self.ladder().at(detector.signal / 1.06)
            assert lower.passing(background) > false
        crowded = self.ladder(top=30.0)
        assert crowded.chosen(background, false=1e-3) is None
        assert replace(crowded, sure=True).chosen(background, false=1e-3).signal == 30.0

    def test_what_cannot_be_told_is_not_stated(self):
        channel = Channel(1, 64, 128, 100, 3.0, 1.0)
        ladder = Ladder.built(channel, false=1e-9, missed=1e-4, most=100.0)
        assert not ladder.sure
        assert ladder.signal == math.inf
        assert worst_passing(channel, ladder.at(50.0)) == 0.0
