"""Where ``shoal`` begins: Ctrl-C ends it without a traceback, from before the first long import.

Nothing has been done while modules are loaded and the command is put together, so there is nothing
to tidy up. When the command itself begins, Ctrl-C is a KeyboardInterrupt again.

What is imported is no garbage: to look for some in it, on the way and once more at the end, would
take a third of the time of a short command.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
from functools import partial

_INTERRUPTED = 130  # as in shoal.cli.app, which is not loaded yet
_OBJECTS = 10_000  # more than are freed, until garbage is looked for


def main() -> None:
    """Run the command in ``sys.argv`` and exit with its status."""
    gc.set_threshold(_OBJECTS)
    atexit.register(gc.freeze)
    begins = None
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else somebody ignores it
        signal.signal(signal.SIGINT, _end)
        begins = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    from shoal.cli import main as run

    run(begins=begins)


def _end(_number: int, _frame: object) -> None:
    os._exit(_INTERRUPTED)
