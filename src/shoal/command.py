"""Where ``shoal`` begins: Ctrl-C ends it without a traceback, from before the first long import.

Nothing has been done while modules are loaded and the command is put together, so there is nothing
to tidy up. When the command itself begins, Ctrl-C is a KeyboardInterrupt again.
"""

from __future__ import annotations

import os
import signal
from functools import partial

_INTERRUPTED = 130  # as in shoal.cli.app, which is not loaded yet


def main() -> None:
    """Run the command in ``sys.argv`` and exit with its status."""
    begins = None
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else somebody ignores it
        signal.signal(signal.SIGINT, _end)
        begins = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    from shoal.cli import main as run

    run(begins=begins)


def _end(_number: int, _frame: object) -> None:
    os._exit(_INTERRUPTED)
