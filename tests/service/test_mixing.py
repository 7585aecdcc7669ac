"""One order for all records: uniform in memory and on disk, whole, and with nothing left behind."""

from __future__ import annotations

import hashlib
import io
import math
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from shoal import randomness
from shoal.errors import InvalidArgumentError
from shoal.randomness import Randomness
from shoal.sealing import MalformedError
from shoal.service.shuffler import mixing
from shoal.service.shuffler.mixing import mix_records

RARE = 1e-7  # a correct build fails a test at this level once in ten million
SLOW_RARE = 1e-6
WHOLE = 1 << 20  # memory in which everything fits
TINY = 2 * (4 + 40)  # two records of four bytes: everything else goes through buckets
HELD = pytest.mark.usefixtures("held")
PATHS = pytest.mark.parametrize("memory", [WHOLE, TINY], ids=["memory", "disk"])


class Held:
    """A file that is never on a disk: thousands of mixings are quick with it."""

    def __init__(self, rows):
        self.content = np.ascontiguousarray(rows).tobytes()

    def open(self, mode):
        assert mode == "rb"
        return io.BytesIO(self.content)


@pytest.fixture
def held(monkeypatch):
    """Buckets that are never on a disk either."""
    monkeypatch.setattr(mixing, "TemporaryFile", lambda **_: io.BytesIO())


def numbered(n):
    return np.arange(n, dtype=">u4")[:, None].view(np.uint8)


def released(sources, *, memory, source, scratch=None, length=4):
    out = io.BytesIO()
    mix_records(
        sources, out, record_bytes=length, memory=memory, randomness=source, scratch=scratch
    )
    return out.getvalue()


def orders(n, rounds, *, memory, source):
    """The released order of n records, so many times: one row each."""
    file = Held(numbered(n))
    joined = b"".join(released([file], memory=memory, source=source) for _ in range(rounds))
    return np.frombuffer(joined, dtype=">u4").reshape(rounds, n).astype(np.int64)


def codes(rows):
    """Every order of n things as one whole number."""
    n = rows.shape[1]
    return rows @ (n ** np.arange(n))


def chi_square(rows):
    """The p-value of all n! orders being equally likely."""
    seen = np.unique(codes(rows), return_counts=True)[1]
    counts = np.zeros(math.factorial(rows.shape[1]))
    assert seen.size <= counts.size
    counts[: seen.size] = seen
    return stats.chisquare(counts).pvalue


@HELD
@PATHS
def test_all_orders_of_five_are_equally_likely(memory):
    rounds = 30_000 if memory == WHOLE else 5_000
    rows = orders(5, rounds, memory=memory, source=randomness.simulated(memory))
    assert chi_square(rows) > RARE


@PATHS
def test_groups_of_a_large_mixing_are_ordered_uniformly_and_independently(memory, tmp_path):
    # The relative orders of disjoint groups in a uniform order are independent and uniform.
    rows = group_orders(5, 60_000, tmp_path, large=memory == TINY, seed=5)
    assert chi_square(rows) > RARE
    first, second = (codes(part) for part in (rows[::2], rows[1::2]))
    table = np.zeros((120, 120))
    np.add.at(table, (ranked(first), ranked(second)), 1)
    assert stats.chi2_contingency(table).pvalue > RARE


def ranked(values):
    return np.unique(values, return_inverse=True)[1]


def group_orders(size, groups, directory, *, large, seed):
    """How each group of ``size`` neighbours comes out of one mixing: one row of ranks each."""
    source = directory / "records"
    source.write_bytes(numbered(size * groups).tobytes())
    memory = size * groups * 44 // (20 if large else 1)
    with (directory / "mixed").open("wb") as out:
        mix_records(
            [source],
            out,
            record_bytes=4,
            memory=memory,
            randomness=randomness.simulated(seed),
            scratch=directory,
        )
    out = np.fromfile(directory / "mixed", dtype=">u4").astype(np.int64)
    places = np.empty(out.size, dtype=np.int64)
    places[out] = np.arange(out.size)
    return np.argsort(places.reshape(groups, size), axis=1)


@pytest.mark.slow
@HELD
@PATHS
def test_all_orders_of_eight_are_equally_likely_over_millions_of_mixings(memory):
    source, seen = randomness.simulated(8), Counter()
    fitting = WHOLE if memory == WHOLE else 6 * 44  # six of the eight
    for _ in range(100):
        rows = orders(8, 40_000, memory=fitting, source=source)
        found, counts = np.unique(codes(rows), return_counts=True)
        seen.update(dict(zip(found.tolist(), counts.tolist(), strict=True)))
    assert len(seen) == math.factorial(8)
    assert sum(seen.values()) == 4_000_000
    assert stats.chisquare(list(seen.values())).pvalue > SLOW_RARE


@pytest.mark.slow
@PATHS
def test_groups_of_eight_in_a_mixing_of_millions_are_ordered_uniformly(memory, tmp_path):
    rows = group_orders(8, 4_000_000, tmp_path, large=memory == TINY, seed=88)
    assert chi_square(rows) > SLOW_RARE


class Coarse(Randomness):
    """Keys of three bits: most draws for a few records have ties."""

    def __init__(self, seed):
        self._source = randomness.simulated(seed)
        self.drawn = 0

    def words(self, size):
        self.drawn += 1
        return self._source.words(size) & np.uint64(7)


@HELD
@PATHS
def test_ties_are_drawn_again_and_favour_no_order(memory):
    source = Coarse(1)
    rows = orders(4, 2_400, memory=memory, source=source)
    assert source.drawn > 1.5 * 2_400
    assert chi_square(rows) > RARE


@HELD
@PATHS
def test_a_place_says_nothing_about_who_arrived_when(memory):
    n, rounds = 10, 3_000
    rows = orders(n, rounds, memory=memory, source=randomness.simulated(10))
    # The posterior of the arrival given the place: a table of equal counts.
    table = np.zeros((n, n))
    np.add.at(table, (rows, np.broadcast_to(np.arange(n), rows.shape)), 1)
    off = table - rounds / n
    # With rows and columns of fixed sums the statistic has (n-1)^2 degrees of freedom.
    statistic = (off**2).sum() / (rounds / n) * (n - 1) / n
    assert stats.chi2.sf(statistic, (n - 1) ** 2) > RARE
    # Kendall's tau of arrival and release has mean 0 and variance 2(2n+5)/(9n(n-1)).
    first, second = np.triu_indices(n, 1)
    taus = np.sign(rows[:, second] - rows[:, first]).mean(axis=1)
    variance = 2 * (2 * n + 5) / (9 * n * (n - 1))
    assert abs(taus.mean()) < 5.5 * math.sqrt(variance / rounds)
    assert taus.var() == pytest.approx(variance, rel=0.15)


@given(
    st.lists(st.lists(st.binary(min_size=3, max_size=3), max_size=30), max_size=6),
    st.integers(1, 2000),
)
def test_every_record_comes_out_once(parts, memory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(mixing, "TemporaryFile", lambda **_: io.BytesIO())
        files = [Held(np.frombuffer(b"".join(part), dtype=np.uint8)) for part in parts]
        out, digest = io.BytesIO(), hashlib.sha256(b"header")
        count = mix_records(files, out, record_bytes=3, memory=memory, scratch=None, digest=digest)
    body = out.getvalue()
    records = [record for part in parts for record in part]
    assert count == len(records)
    assert Counter(body[i : i + 3] for i in range(0, len(body), 3)) == Counter(records)
    assert digest.digest() == hashlib.sha256(b"header" + body).digest()


@PATHS
def test_secure_mixings_differ(tmp_path, memory):
    path = tmp_path / "part"
    path.write_bytes(numbered(300).tobytes())
    bodies = {
        released([path, path], memory=memory, source=None, scratch=tmp_path) for _ in range(3)
    }
    assert len(bodies) == 3
    assert {Counter(body[i : i + 4] for i in range(0, 2400, 4)).total() for body in bodies} == {600}
    assert [entry.name for entry in tmp_path.iterdir()] == ["part"]


def test_memory_stays_flat_and_the_scratch_empty(tmp_path):
    path = tmp_path / "part"
    rows = np.zeros((150_000, 60), dtype=np.uint8)
    rows[:, :4] = numbered(len(rows))
    path.write_bytes(rows.tobytes())
    memory, scratch = 1 << 20, tmp_path / "scratch"
    scratch.mkdir()
    with (tmp_path / "mixed").open("wb") as out:
        tracemalloc.start()
        try:
            mix_records([path], out, record_bytes=60, memory=memory, scratch=scratch)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert rows.nbytes > 8 * memory
    assert peak < 2 * memory
    assert not list(scratch.iterdir())
    mixed = np.fromfile(tmp_path / "mixed", dtype=np.uint8).reshape(-1, 60)
    assert np.array_equal(np.sort(mixed[:, :4].copy().view(">u4").ravel()), np.arange(150_000))


def test_a_broken_source_is_refused_before_anything_is_written(tmp_path):
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_bytes(bytes(8))
    bad.write_bytes(bytes(7))
    out = io.BytesIO()
    with pytest.raises(MalformedError, match=r"whole records of 4 in .*bad"):
        mix_records([good, bad], out, record_bytes=4, scratch=tmp_path)
    assert out.getvalue() == b""


@HELD
def test_a_source_that_ends_early_is_an_error():
    class Shrinking(io.BytesIO):
        name = "part"

        def seek(self, offset, whence=0):
            return 80 if whence == 2 else super().seek(offset, whence)

    class Lying:
        def open(self, mode):
            del mode
            return Shrinking(bytes(40))

    for memory in (WHOLE, TINY):
        with pytest.raises(MalformedError, match=r"part.* more bytes"):
            released([Lying()], memory=memory, source=randomness.simulated(1))


@pytest.mark.parametrize(("length", "memory"), [(0, 1000), (-1, 1000), (4, 0)])
def test_lengths_and_memory_are_at_least_one(length, memory):
    with pytest.raises(InvalidArgumentError):
        mix_records([], io.BytesIO(), record_bytes=length, memory=memory, scratch=None)


def test_a_file_that_takes_less_than_it_is_given_gets_the_rest():
    class Slow(io.BytesIO):
        def write(self, data):
            return super().write(bytes(data[:3]))

    out, digest = Slow(), hashlib.sha256()
    file = Held(numbered(50))
    assert mix_records([file], out, record_bytes=4, scratch=None, digest=digest) == 50
    assert len(out.getvalue()) == 200
    assert digest.digest() == hashlib.sha256(out.getvalue()).digest()


@HELD
@PATHS
def test_the_place_to_die_is_in_the_middle(monkeypatch, memory):
    out, places = io.BytesIO(), []
    monkeypatch.setattr(mixing, "_BLOCK_BYTES", 16)
    monkeypatch.setattr(
        mixing.failpoints, "reached", lambda name: places.append((name, out.tell()))
    )
    mix_records([Held(numbered(40))], out, record_bytes=4, memory=memory, scratch=None)
    ((name, place),) = places
    assert name == "shuffle.half-written"
    assert 80 < place <= 96


@HELD
@PATHS
def test_one_source_is_open_at_a_time(memory):
    """A batch may have more parts than a process may have files."""
    held = []

    class Counted(Held):
        def open(self, mode):
            held[:] = [file for file in held if not file.closed]
            held.append(super().open(mode))
            assert len(held) == 1
            return held[0]

    sources = [Counted(numbered(1)) for _ in range(50)]
    assert len(released(sources, memory=memory, source=randomness.simulated(1))) == 200
