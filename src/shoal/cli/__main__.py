"""``python -m shoal.cli``: the same as ``shoal``."""

from __future__ import annotations

from shoal.cli import main

main()
