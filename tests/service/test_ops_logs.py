"""The log: one line of JSON for an event, and nothing that anybody sent."""

from __future__ import annotations

import json
import logging
import stat
import sys
import threading
from pathlib import Path

import pytest

from shoal.errors import InvalidArgumentError
from shoal.service.ops import logs

MARK = "MARKED-BY-A-REQUEST"


@pytest.fixture
def lines(tmp_path, monkeypatch):
    """Log into a file; everything is as before afterwards."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(logging, "raiseExceptions", True)
    for handler in before:
        root.removeHandler(handler)
    path = tmp_path / "log.jsonl"
    logs.configure(to=path)

    def read():
        return [json.loads(line) for line in path.read_text().splitlines()]

    yield read
    logging.captureWarnings(capture=False)
    logging.getLogger("uvicorn.access").disabled = False
    logging.getLogger("shoal").setLevel(logging.NOTSET)
    for handler in root.handlers[:]:
        root.removeHandler(handler)
        handler.close()
    for handler in before:
        root.addHandler(handler)
    root.setLevel(level)


def test_an_event_has_its_time_level_name_and_fields(lines, tmp_path):
    logs.say("batch_closed", survey="00ff", batch="ab" * 16, count=3, state="SEALED")
    (line,) = lines()
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "event": "batch_closed",
        "survey": "00ff",
        "batch": "ab" * 16,
        "count": 3,
        "state": "SEALED",
    }
    assert stat.S_IMODE((tmp_path / "log.jsonl").stat().st_mode) == 0o600


def test_what_is_not_on_the_list_is_not_written(lines):
    log = logging.getLogger("shoal.service.anything")
    log.warning("answered %s", MARK)
    log.warning(f"free text {MARK}")  # noqa: G004 - the mistake that must not leak
    log.warning("refused", extra={"agent": MARK, "reason": MARK, "survey": MARK, "count": MARK})
    log.warning("refused", extra={"reason": "unknown_key", "address": f"http://h/{MARK}"})
    logging.getLogger("uvicorn.error").error("Invalid request from %s", MARK)
    logging.getLogger("uvicorn.access").info('%s - "%s"', MARK, MARK)
    logging.getLogger("httpx").info("GET %s", MARK)
    found = lines()
    assert MARK not in json.dumps(found)
    assert [line["event"] for line in found] == [
        "unnamed",
        "unnamed",
        "refused",
        "refused",
        "library",
    ]
    assert found[3]["reason"] == "unknown_key"
    assert found[4]["place"].startswith("uvicorn.error:test_ops_logs:")


def test_an_exception_is_its_type_and_its_place(lines):
    def refuse():
        try:
            Path("/dev/full").write_text(MARK, encoding="utf-8")
        except OSError as error:
            raise InvalidArgumentError(MARK, MARK, MARK) from error

    try:
        refuse()
    except InvalidArgumentError:
        logging.getLogger("shoal.x").exception("failed")
    (line,) = lines()
    assert MARK not in json.dumps(line)
    assert (line["error"], line["cause"], line["errno"]) == (
        "InvalidArgumentError",
        "OSError",
        "ENOSPC",
    )
    assert line["place"].startswith("test_ops_logs.py:")


def test_the_place_is_the_innermost_one_of_this_package(lines):
    try:
        logs.say("event", unknown_field=1)
    except InvalidArgumentError:
        logging.getLogger("shoal.x").exception("failed")
    (line,) = lines()
    assert line["place"].startswith("service/ops/logs.py:")
    assert line["place"].endswith(":say")


def test_what_ends_the_process_or_a_thread_is_not_quoted(lines, capsys):
    sys.excepthook(ValueError, ValueError(MARK), None)
    thread = threading.Thread(target=lambda: {}[MARK])
    thread.start()
    thread.join()
    events = [(line["event"], line["error"]) for line in lines()]
    assert events == [("crashed", "ValueError"), ("thread_crashed", "KeyError")]
    assert MARK not in json.dumps(lines()) + capsys.readouterr().err


def test_a_level_has_to_be_one():
    with pytest.raises(InvalidArgumentError, match="one of debug, info"):
        logs.configure(level="loud")


def test_what_fails_all_the_time_is_written_once_a_minute(lines, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(logs.time, "monotonic", lambda: now[0])
    for second in range(100):
        now[0] = float(second)
        logging.getLogger("shoal.x").warning("store_unavailable")
        logs.say("listening")
    found = lines()
    warnings = [line for line in found if line["event"] == "store_unavailable"]
    assert [line.get("repeated") for line in warnings] == [None, 59]
    assert sum(line["event"] == "listening" for line in found) == 100
