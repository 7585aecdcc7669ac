"""``python -m shoal.cli``: the same as ``shoal``."""

from __future__ import annotations

from shoal.command import main

main()
