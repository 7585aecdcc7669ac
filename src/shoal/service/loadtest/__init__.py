"""A load test of one's own shuffler: what is sent, when, and how long the answers take."""

from __future__ import annotations

from shoal.service.loadtest.generator import Load, run
from shoal.service.loadtest.measured import KINDS, Measured
from shoal.service.loadtest.mix import Mix
from shoal.service.loadtest.reports import Reports, fetched_keys

__all__ = [
    "KINDS",
    "Load",
    "Measured",
    "Mix",
    "Reports",
    "fetched_keys",
    "run",
]
