import os
import subprocess
import sys
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from repository import environment
from shoal import randomness
from shoal.errors import InvalidArgumentError

RARE = 1e-7
SOURCES = {"simulated": randomness.simulated(3), "secure": randomness.secure()}


@pytest.fixture(params=["simulated", "secure"])
def source(request):
    return SOURCES[request.param]


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 10, 64, 1000])
def test_integers_are_uniform(source, bound):
    drawn = source.below(bound, 60_000)
    assert drawn.max() < bound
    if bound > 1:
        seen = np.bincount(drawn.astype(int), minlength=bound)
        assert stats.chisquare(seen).pvalue > RARE


def test_a_bound_that_does_not_divide_two_to_the_64_is_not_favoured_at_its_start():
    """Plain remainders would make the first half of 0, ..., 3 * 2^62 - 1 twice as likely."""
    bound = 3 << 61
    drawn = SOURCES["simulated"].below(bound, 100_000)
    thirds = np.bincount((drawn // np.uint64(1 << 61)).astype(int), minlength=3)
    assert stats.chisquare(thirds).pvalue > RARE


@pytest.mark.parametrize("bound", [0, -1, (1 << 63) + 1])
def test_impossible_bounds_are_refused(source, bound):
    with pytest.raises(InvalidArgumentError, match="bound"):
        source.below(bound, 1)


def test_every_order_is_equally_likely(source):
    seen = Counter(tuple(source.permutation(4).tolist()) for _ in range(12_000))
    assert set(seen) == set(permutations(range(4)))
    assert stats.chisquare(list(seen.values())).pvalue > RARE


def test_bits_are_fair_and_as_many_as_asked_for(source):
    bits = source.bits(100_003)
    assert bits.shape == (100_003,)
    assert stats.binomtest(int(bits.sum()), bits.size).pvalue > RARE


def test_a_simulation_repeats_and_security_does_not():
    assert np.array_equal(randomness.simulated(9).words(50), randomness.simulated(9).words(50))
    assert not np.array_equal(randomness.secure().words(50), randomness.secure().words(50))
    one = randomness.secure()
    assert not np.array_equal(one.words(50), one.words(50))


def test_a_forked_child_has_a_stream_of_its_own():
    source = randomness.secure()
    source.words(1)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, source.words(4).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reading, 32)
    assert theirs != source.words(4).tobytes()


def test_nothing_is_a_fine_amount(source):
    assert source.words(0).size == 0
    assert source.below(10, 0).size == 0
    assert source.permutation(0).size == 0


FORKED = """
import os
from shoal import randomness
os.getpid = lambda: 1  # as in containers, and when numbers come back
source = randomness.secure()
ours = source.words(4).tobytes()
read, write = os.pipe()
if not os.fork():
    if not os.fork():
        os.write(write, source.words(4).tobytes())
        os._exit(0)
    os.wait()
    os._exit(0)
os.wait()
theirs = os.read(read, 32)
assert len(theirs) == 32
assert theirs != source.words(4).tobytes()
"""


def test_a_process_with_the_same_number_does_not_repeat_the_stream():
    subprocess.run([sys.executable, "-c", FORKED], env=environment(), check=True)
