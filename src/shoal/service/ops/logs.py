"""What the service writes down about itself, and never about a person.

One line of JSON for each event: the time to the second, the level, the event's fixed name, and
fields from a list. A field that is not on the list, or does not have its form, is left out: what
somebody sent cannot get into the log by way of a message, an argument or an exception's text. Of an
exception its type is written, and the place in the code. Requests are not logged at all.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from shoal.errors import InvalidArgumentError

_WORD = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_HEX = re.compile(r"[0-9a-f]{1,64}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,99}")
_PLACE = re.compile(r"[A-Za-z0-9_./:<>-]{1,200}")
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.:\[\]-]{1,200}(/dashboard)?")

# Every field a line may have beside time, level and event; numbers need no form.
FIELDS: Final = {
    "address": _ADDRESS,  # where this process listens
    "attempt": None,
    "batch": _HEX,
    "cause": _NAME,  # the type of the exception behind the exception
    "count": None,
    "errno": re.compile(r"E[A-Z0-9]{1,20}"),
    "error": _NAME,  # the type of an exception
    "key": None,
    "place": _PLACE,  # where in the code
    "reason": re.compile(r"[a-z][a-z0-9_.-]{0,63}|[A-Z][A-Za-z0-9]{0,60}Error"),
    "repeated": None,  # how often the same was left out since it was last written
    "role": _WORD,
    "signal": re.compile(r"SIG[A-Z0-9]{1,10}"),
    "state": re.compile(r"[A-Z]{1,20}"),
    "status": None,
    "survey": _HEX,
}
LEVELS = ("debug", "info", "warning", "error")
_OURS = "shoal"
_MOST_REMEMBERED = 1000
_MINUTE = 60.0
_PACKAGE = Path(__file__).resolve().parents[2]


class JsonLines(logging.Formatter):
    """A record as one line of JSON, with nothing in it that is not on the list."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        line: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
        }
        place = f"{record.module}:{record.lineno}"
        if record.name.split(".")[0] != _OURS:
            # Of a library's message only where it was made: its text may quote a request.
            place = f"{record.name}:{place}"
            line |= {"event": "library", "place": place if _PLACE.fullmatch(place) else "unknown"}
        elif isinstance(record.msg, str) and _WORD.fullmatch(record.msg):
            line["event"] = record.msg
            line |= allowed(vars(record))
        else:
            line |= {"event": "unnamed", "place": place, **allowed(vars(record))}
        if record.exc_info and record.exc_info[1] is not None:
            line |= described(record.exc_info[1])
        return json.dumps(line)


def allowed(values: Mapping[str, object]) -> dict[str, object]:
    """Those of the values that may be written: numbers, and texts of their form, on the list.

    >>> allowed({"reason": "Mozilla/5.0", "survey": "00ff", "agent": 1})
    {'survey': '00ff'}
    """
    written: dict[str, object] = {}
    for name, form in FIELDS.items():
        value = values.get(name)
        fits = isinstance(value, str) and form is not None and form.fullmatch(value) is not None
        if fits or isinstance(value, bool | int | float):
            written[name] = value
    return written


def described(error: BaseException) -> dict[str, object]:
    """The type of an exception, of its cause, and where it was raised; never its text.

    That is the innermost place of our own code, or of anybody's.
    """
    values: dict[str, object] = {"error": type(error).__name__, "place": "unknown"}
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if Path(frame.filename).is_relative_to(_PACKAGE)]
    if frames:
        frame = (inside or frames)[-1]
        path = Path(frame.filename)
        name = str(path.relative_to(_PACKAGE)) if inside else path.name
        values["place"] = f"{name}:{frame.lineno}:{frame.name}"
    cause = error.__cause__ or error.__context__
    if cause is not None:
        values["cause"] = type(cause).__name__
    for each in (error, cause):
        if isinstance(each, OSError) and each.errno is not None:
            values["errno"] = errno.errorcode.get(each.errno, "EUNKNOWN")
    return allowed(values)


class Repeats(logging.Filter):
    """Lets the same warning through once in a minute: what fails all the time fills no disk."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[object, ...], tuple[float, int]] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it is written; if so, with how many like it were not."""
        if record.levelno < logging.WARNING:
            return True
        error = record.exc_info[0] if record.exc_info else None
        about = (getattr(record, "survey", None), getattr(record, "batch", None))
        what = (record.name, record.msg, record.lineno, error, *map(str, about))
        now = time.monotonic()
        with self._lock:
            if len(self._seen) > _MOST_REMEMBERED:
                self._seen.clear()
            since, left_out = self._seen.get(what, (-_MINUTE, 0))
            if now - since < _MINUTE:
                self._seen[what] = (since, left_out + 1)
                return False
            self._seen[what] = (now, 0)
        if left_out:
            record.repeated = left_out
        return True


def configure(*, to: Path | None = None, level: str = "info") -> None:
    """Send this process's log to standard error, or to a file only its owner reads.

    Libraries are heard from warnings on. The server's access log stays off.
    """
    if level not in LEVELS:
        raise InvalidArgumentError("log level", level, f"one of {', '.join(LEVELS)}")
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if to is not None:
        os.close(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        handler = logging.FileHandler(to, encoding="utf-8")
    handler.setFormatter(JsonLines())
    handler.addFilter(Repeats())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("uvicorn.access").disabled = True
    logging.captureWarnings(capture=True)
    logging.raiseExceptions = False  # a full disk must not print the record that did not fit
    # An exception that ends a process or a thread: its type and place, not its text.
    ours = logging.getLogger(_OURS)
    ours.setLevel(level.upper())
    sys.excepthook = lambda _kind, error, _trace: ours.critical("crashed", exc_info=error)
    threading.excepthook = lambda ended: ours.critical("thread_crashed", exc_info=ended.exc_value)


def say(event: str, *, level: int = logging.INFO, **fields: object) -> None:
    """Write an event of the running service down."""
    unknown = [name for name in fields if name not in FIELDS]
    if unknown:
        raise InvalidArgumentError("field", unknown[0], f"one of {', '.join(FIELDS)}")
    logging.getLogger("shoal.ops").log(level, event, extra=fields, stacklevel=2)
