"""Which guarantee a loader may claim. The classes here have PyTorch's and Opacus' names."""

from __future__ import annotations

import pytest

from shoal.errors import InvalidArgumentError
from shoal.learning import Sampling, require, sampling_of


class SequentialSampler:
    def __init__(self, data_source):
        self.data_source = data_source


class RandomSampler:
    def __init__(self, data_source, *, replacement=False, num_samples=None):
        self.data_source = data_source
        self.replacement = replacement
        self.num_samples = len(data_source) if num_samples is None else num_samples


class SubsetRandomSampler:
    def __init__(self, indices):
        self.indices = indices


class WeightedRandomSampler:
    def __init__(self, weights):
        self.weights = weights


class UniformWithReplacementSampler:
    sample_rate = 0.1


class BatchSampler:
    def __init__(self, sampler, batch_size, drop_last):
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last


class DataLoader:
    def __init__(self, sampler, *, batch_size=1, drop_last=False, batch_sampler=None):
        self.sampler = sampler
        self.batch_size = None if batch_sampler else batch_size
        self.drop_last = drop_last
        self.batch_sampler = batch_sampler or BatchSampler(sampler, batch_size, drop_last)


class DPDataLoader(DataLoader):
    pass


DATA = range(100)


@pytest.mark.parametrize(
    ("loader", "sampling"),
    [
        (DataLoader(SequentialSampler(DATA), batch_size=10), "fixed"),
        (DataLoader(RandomSampler(DATA), batch_size=10), "permutation"),
        (DataLoader(RandomSampler(DATA), batch_size=30, drop_last=True), "permutation"),
        (DataLoader(SubsetRandomSampler([1, 2, 3])), "permutation"),
        (DataLoader(RandomSampler(DATA, replacement=True)), "replacement"),
        (
            DataLoader(SequentialSampler(DATA), batch_sampler=UniformWithReplacementSampler()),
            "poisson",
        ),
        (DPDataLoader(SequentialSampler(DATA)), "poisson"),
        (RandomSampler(DATA), "permutation"),
        (BatchSampler(RandomSampler(DATA), 10, drop_last=False), "permutation"),
        (UniformWithReplacementSampler(), "poisson"),
    ],
)
def test_known_loaders(loader, sampling):
    assert sampling_of(loader) is Sampling(sampling)
    require(loader, sampling)
    for other in set(Sampling) - {Sampling(sampling)}:
        with pytest.raises(InvalidArgumentError, match=f"a guarantee for {other} says nothing"):
            require(loader, other)


def test_poisson_numbers_are_refused_for_a_shuffled_loader():
    """The mistake that training code makes most often."""
    with pytest.raises(InvalidArgumentError, match="account with sampling='permutation'") as caught:
        require(DataLoader(RandomSampler(DATA), batch_size=10), "poisson")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("loader", "said"),
    [
        (DataLoader(WeightedRandomSampler([1, 2])), "equal probabilities"),
        (DataLoader(RandomSampler(DATA), batch_size=30), "drop_last=True: 10 of 100 examples"),
        (DataLoader(RandomSampler(DATA, replacement=True), batch_size=5), "batches of one"),
        (DataLoader(RandomSampler(DATA, num_samples=50)), "num_samples to be the 100 examples"),
        (
            DataLoader(RandomSampler(DATA, replacement=True, num_samples=1000)),
            "num_samples to be the 100 examples",
        ),
        (DataLoader(SubsetRandomSampler([0] * 10 + [1, 2])), "some indices are repeated"),
        (iter(DATA), "give it an attribute sampling"),
        (DataLoader(object()), "give it an attribute sampling"),
    ],
)
def test_loaders_without_a_guarantee_are_refused(loader, said):
    with pytest.raises(InvalidArgumentError, match=said):
        sampling_of(loader)


def test_a_loader_of_ones_own_says_what_it_does():
    class Mine:
        sampling = "permutation"

    require(Mine(), Sampling.PERMUTATION)
    Mine.sampling = "shuffled"
    with pytest.raises(InvalidArgumentError, match="one of permutation"):
        sampling_of(Mine())
    with pytest.raises(InvalidArgumentError, match="one of permutation"):
        require(RandomSampler(DATA), "shuffled")
