"""Figures that both parties have: the ages of keys, and room on the disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from prometheus_client.core import Metric

from shoal.sealing import SurveyId
from shoal.service.clock import Clock, system_clock
from shoal.service.keyring import Keyring
from shoal.service.running.metrics import gauge, gauges, two_digits

_SHOWN = 12


def short(survey: SurveyId) -> str:
    """The first digits of a survey's name: enough to tell surveys of one service apart."""
    return str(survey)[:_SHOWN]


def key_figures(keyring: Keyring, clock: Clock = system_clock) -> Iterable[Metric]:
    """How old each key is, how long it is still used, and how many would open nothing."""
    now = clock()
    keys = keyring.list().keys
    labels = ["key", "state"]
    named = [([str(key.number), key.at(now).state.value], key) for key in keys]
    yield gauges(
        "key_age_seconds",
        "Seconds since a key was made.",
        labels,
        ((row, max(0, now - key.created)) for row, key in named),
    )
    yield gauges(
        "key_active_seconds_left",
        "Seconds until a key is no longer handed out.",
        labels,
        ((row, max(0, key.expires_at - now)) for row, key in named),
    )
    text = "Keys, not deleted, whose secret is not in its file: they open nothing."
    yield gauge("missing_secrets", text, len(keyring.lacking()))


def disk_figures(directory: Path) -> Iterable[Metric]:
    """Free room, coarse: reports have one length, so bytes would count them."""
    free = two_digits(shutil.disk_usage(directory).free)
    yield gauge("disk_free_bytes", "Room on the disk, to two digits.", free)
