"""Whether a service is in order: each check is one line, with what to do if not."""

from __future__ import annotations
