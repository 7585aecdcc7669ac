"""Surveys to test with: small, quick to make, one for every mechanism."""

from __future__ import annotations

from shoal.protocols import registry
from shoal.protocols.registry import PROTOCOLS, protocol
from shoal.randomizers import registry as randomizers
from shoal.randomizers.response import RandomizedResponse
from shoal.service.survey import Batches, Party, Survey

SHUFFLER = Party(url="https://shuffler.example", fingerprint="5" * 64)
ANALYZER = Party(url="https://analyzer.example", fingerprint="a" * 64)
BATCHES = Batches(minimum=1000, target=2000, max_age=86_400)
VECTORS = {*randomizers.VECTORS, *registry.VECTORS}
NAMES = tuple(name for name in registry.NAMES if name not in VECTORS)
_SHAPES = {
    "dummies": {"k": 4},
    "sparse": {"k": 4},
    "zero-sum": {"k": 4},
    "hashed-dummies": {"k": 4, "buckets": 2},
    "split-and-mix": {"low": 0.0, "high": 10.0},
    "near-central-sum": {"low": 0.0, "high": 10.0, "levels": 1},
}


def mechanism(name):
    """Of a name: for four answers (or two), or for numbers from 0 to 10."""
    if name in PROTOCOLS:
        made = protocol(name).calibrated
        return made(n=1000, epsilon=2.0, delta=1e-6, **_SHAPES.get(name, {}))
    numbers = name in randomizers.NUMBERS
    shape = {"low": 0.0, "high": 10.0} if numbers else {"k": 4}
    return randomizers.by_name(name)(epsilon=1.0, **shape)


def example(device=None, **fields):
    """A survey that is fine, but for what is changed."""
    device = RandomizedResponse(k=4, epsilon=1.0) if device is None else device
    about = {
        "name": "travel",
        "question": "How did you travel to work?",
        "purpose": "Planning of bus lines",
        "device": device,
        "answers": tuple(("car", "bus", "bike", "foot")[: getattr(device, "k", 0)]),
        "batches": BATCHES,
        "epsilon": 2.5,
        "delta": 1e-6,
        "not_before": 1_893_456_000,
        "not_after": 1_896_048_000,
        "shuffler": SHUFFLER,
        "analyzer": ANALYZER,
    }
    return Survey(**(about | fields))
