"""``python -m shoal``: the same as ``shoal``."""

from __future__ import annotations

from shoal.command import main

main()
