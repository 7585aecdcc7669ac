"""From a directory to a running service: processes, logs, metrics, health, and how they end."""

from __future__ import annotations
