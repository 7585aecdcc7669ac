"""The analyzer: pulls batches, opens and counts them, keeps the ledger, publishes results once."""

from __future__ import annotations
