"""What a device is said to do is what it does: the odds are those of the sampler."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest

from factories import NAMES, example, several
from shoal.mechanisms.bits import SubsetSelection, UnaryEncoding
from shoal.mechanisms.carriers import CarrierHistogram
from shoal.mechanisms.counts import FairCoins, NearCentralCount, NearCentralSum
from shoal.mechanisms.dummies import HashedDummies, UniformDummies
from shoal.mechanisms.grid import Duchi, Laplace, Piecewise, RoundedResponse
from shoal.mechanisms.hashing import LocalHashing
from shoal.mechanisms.histograms import LeanHistogram, RobustHistogram
from shoal.mechanisms.response import (
    HadamardResponse,
    ProjectiveGeometryResponse,
    RandomizedResponse,
)
from shoal.mechanisms.split_and_mix import SplitAndMixSum
from shoal.mechanisms.zero_sum import SparseHistogram, ZeroSumCount, ZeroSumHistogram
from shoal.randomness import simulated
from shoal.service.survey.words import cases, sentences

TARGET = {"n": 2000, "epsilon": 1.0, "delta": 1e-6}
BOUNDS = {"low": 0, "high": 120}


def survey_of(device):
    epsilon = max(1.1, min(device.local_epsilon * 1.1, 20))
    return example(device, minimum=2000, epsilon=epsilon)


def said(device):
    """The chances in the sentence on what leaves the device, and in the rest."""
    words = sentences(survey_of(device))
    return [_chances(words.leaves), _chances(words.steps[0])]


def _chances(text):
    found = re.findall(r"([\d,]+) of ([\d,]+) cases", text)
    return [int(part.replace(",", "")) / int(whole.replace(",", "")) for part, whole in found]


def likelier(device, row=0):
    """Probability of a message that the answer, or the level, makes likelier."""
    chances = device.table()[row]
    return float(chances[chances > chances.min() * 1.01].sum())


@pytest.mark.parametrize(
    "device",
    [
        RandomizedResponse(k=2, epsilon=1.0),
        RandomizedResponse(k=7, epsilon=3.0),
        RandomizedResponse(k=2, epsilon=8.0),
        HadamardResponse(k=20, epsilon=1.0),
        ProjectiveGeometryResponse(k=13, epsilon=1.0),
        SubsetSelection(k=6, epsilon=0.5),
        SubsetSelection(k=4, epsilon=3.0, size=1),
        Duchi(**BOUNDS, epsilon=1.0),
        Piecewise(**BOUNDS, epsilon=2.0, levels=64),
        RoundedResponse(**BOUNDS, epsilon=2.0, levels=8),
    ],
    ids=lambda device: device.name,
)
def test_the_chance_of_the_truth_is_that_of_the_table(device):
    leaves, how = said(device)
    (truth,) = leaves or how[:1]
    expected = likelier(device)
    assert truth == pytest.approx(expected, abs=min(0.005, (1 - expected) / 4))


def test_unary_has_two_chances():
    device = UnaryEncoding(k=3, epsilon=1.0)
    ((true, false), _) = said(device)
    bits = np.unpackbits(device.randomize([0] * 20_000, randomness=simulated(1)), axis=1)[:, :3]
    found = bits.mean(axis=0)
    assert true == pytest.approx(found[0], abs=0.02)
    assert false == pytest.approx(found[1], abs=0.02)


def test_hashing_tells_of_its_groups():
    device = LocalHashing(k=10, epsilon=1.0)
    response = RandomizedResponse(k=device.integers["buckets"], epsilon=1.0)
    ((truth,), _) = said(device)
    assert truth == pytest.approx(likelier(response), abs=0.005)


@pytest.mark.parametrize(
    ("epsilon", "levels"), [(0.5, 2), (1.0, 3), (1.0, 256), (2.0, 61), (4.0, 8), (8.0, 40)]
)
def test_noise_moves_every_number_that_far(epsilon, levels):
    device = Laplace(**BOUNDS, epsilon=epsilon, levels=levels)
    words = sentences(survey_of(device)).leaves
    far, chance = float(re.search(r"by ([\d.]+) or more", words)[1]), _chances(words)[0]
    place = np.linspace(0, 120, levels)
    away = np.abs(place[:, None] - place) >= far * (1 - 1e-9)
    really = (device.table() * away).sum(axis=1)
    assert chance == pytest.approx(really.min(), abs=0.02)


@pytest.mark.parametrize("dummies", [0.25, 1.0, 3.5])
def test_dummies_are_as_many_as_said(dummies):
    device = UniformDummies(k=4, dummies=dummies)
    words = sentences(survey_of(device.__class__(k=4, dummies=dummies + 20))).steps[0]
    always = re.search(r"([\d,]+) made-up one", words)
    assert int(always[1]) == int(dummies) + 20
    if dummies % 1:
        assert _chances(words) == [dummies % 1]


def test_coins_lie_half_as_often_as_they_are_tossed():
    device = FairCoins(coins=0.2)
    leaves, how = said(device)
    assert leaves == [0.9]
    assert how == [0.2]


def devices():
    yield from (
        RandomizedResponse(k=3, epsilon=1.0),
        HadamardResponse(k=20, epsilon=1.0),
        ProjectiveGeometryResponse(k=13, epsilon=1.0),
        SubsetSelection(k=6, epsilon=0.5),
        UnaryEncoding(k=3, epsilon=1.0),
        LocalHashing(k=10, epsilon=1.0),
        Laplace(**BOUNDS, epsilon=1.0, levels=8),
        Duchi(**BOUNDS, epsilon=1.0),
        Piecewise(**BOUNDS, epsilon=1.0),
        RoundedResponse(**BOUNDS, epsilon=1.0),
        UniformDummies.calibrated(k=5, **TARGET),
        SparseHistogram.calibrated(k=5, **TARGET),
        ZeroSumHistogram.calibrated(k=5, **TARGET),
        HashedDummies.calibrated(k=5, **TARGET),
        LeanHistogram.calibrated(k=5, **TARGET, inflation=2.0),
        RobustHistogram.calibrated(k=5, **TARGET),
        CarrierHistogram.calibrated(k=5, **TARGET),
        NearCentralCount.calibrated(**TARGET),
        ZeroSumCount.calibrated(**TARGET),
        FairCoins.calibrated(**TARGET),
        SplitAndMixSum.calibrated(**BOUNDS, **TARGET),
        NearCentralSum.calibrated(high=1, **TARGET),
    )


def test_every_mechanism_of_a_survey_has_words():
    made = {device.name: device for device in devices()}
    assert set(made) == set(NAMES)
    for device in made.values():
        words = sentences(survey_of(device))
        assert words.leaves.endswith(".")
        assert words.leaves.count(". ") == 0  # one sentence
        hidden = device.local_epsilon < float("inf")
        assert ("prove from it what you said" in words.steps[0]) == hidden
        assert not re.search(r"[{}]|\bNone\b", " ".join((words.leaves, *words.steps)))


def test_several_questions_have_one_sentence_together_and_one_each():
    devices = (RandomizedResponse(k=3, epsilon=1.0), ZeroSumCount(gamma=0.3))
    words = sentences(several(devices, epsilon=40.0, delta=0.3))
    assert words.leaves.count(".") == 1
    assert _chances(words.each[0]) == _chances(words.steps[0]) != []
    assert "“I prefer not to say”" in words.each[1]
    assert sentences(example()).each == ()


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (Fraction(1, 4), "25 of 100 cases"),
        (Fraction(55, 10_000), "about 6 of 1,000 cases"),
        (Fraction(1, 3), "about 33 of 100 cases"),
        (Fraction(999_999, 1_000_000), "999,999 of 1,000,000 cases"),
        (Fraction(1, 10**20), "hardly any cases"),
        (1 - Fraction(1, 10**20), "almost all cases"),
    ],
)
def test_chances_are_said_to_a_quarter_of_the_rarer_case(share, words):
    assert cases(share) == words
