"""Which devices a test can be built on, and their scores."""

from __future__ import annotations

from shoal.errors import InvalidArgumentError
from shoal.protocols.base import Device
from shoal.protocols.dummies import PartitionedDummies, UniformDummies
from shoal.randomizers.base import CategoryRandomizer, NumberedMessages
from shoal.randomizers.hadamard import HadamardResponse
from shoal.randomizers.partitioned import PartitionedResponse
from shoal.randomizers.response import RandomizedResponse
from shoal.testing.scores import DummiesScores, ListedScores, ResponseScores, Scores
from shoal.testing.scores_hadamard import HadamardScores
from shoal.testing.scores_public import PartitionedDummiesScores, PartitionedScores
from shoal.values import Array

PUBLIC = (PartitionedResponse, PartitionedDummies)
LARGEST_LIST = 2048  # messages whose likeness is listed pair by pair
_KNOWN: dict[type, type[Scores]] = {
    RandomizedResponse: ResponseScores,
    HadamardResponse: HadamardScores,
    UniformDummies: DummiesScores,
    PartitionedResponse: PartitionedScores,
    PartitionedDummies: PartitionedDummiesScores,
}


def scores(device: Device, reference: Array) -> Scores:
    """The scores of a device's messages under the hypothesis."""
    if getattr(device, "k", None) != reference.shape[-1]:
        expected = f"a device for {reference.shape[-1]} answers"
        raise InvalidArgumentError("k", getattr(device, "k", None), expected)
    known = _KNOWN.get(type(device))
    if known is not None:
        return known(device=device, reference=reference)
    if not (isinstance(device, CategoryRandomizer) and isinstance(device, NumberedMessages)):
        expected = "a device whose messages are numbers (grr, hadamard, projective, dummies, ...)"
        raise InvalidArgumentError("device", getattr(device, "name", device), expected)
    if device.outputs > LARGEST_LIST:
        expected = f"at most {LARGEST_LIST} different messages for {device.name}"
        raise InvalidArgumentError("outputs", device.outputs, expected)
    return ListedScores(device=device, reference=reference)


def coin(device: Device) -> str:
    """Whether a device needs coins that everybody knows."""
    return "public" if isinstance(device, PUBLIC) else "private"
