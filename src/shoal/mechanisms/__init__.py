"""What a device runs: one message or several, each mechanism knowing its own privacy."""

from __future__ import annotations
