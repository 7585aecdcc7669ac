"""The device's side of a survey: a report is drawn once, kept, sealed, and sent until it arrives.

Needs httpx (``pip install httpx``), which is imported when a client is made.
"""

from __future__ import annotations

from shoal.service.client.client import AsyncClient, Client, default_directory
from shoal.service.client.errors import (
    ClientError,
    DeliveryError,
    KeysRefusedError,
    OutboxError,
    PolicyError,
    SurveyRefusedError,
)
from shoal.service.client.outbox import Ledger, Spent
from shoal.service.client.policy import Policy
from shoal.service.client.protocol import (
    Abstained,
    Flushed,
    Outcome,
    Queued,
    Sent,
    Settings,
    Submitted,
)
from shoal.service.client.randomize import Keys, seal_many

__all__ = [
    "Abstained",
    "AsyncClient",
    "Client",
    "ClientError",
    "DeliveryError",
    "Flushed",
    "Keys",
    "KeysRefusedError",
    "Ledger",
    "OutboxError",
    "Outcome",
    "Policy",
    "PolicyError",
    "Queued",
    "Sent",
    "Settings",
    "Spent",
    "Submitted",
    "SurveyRefusedError",
    "default_directory",
    "seal_many",
]
