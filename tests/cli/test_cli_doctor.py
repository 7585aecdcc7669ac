"""``shoal doctor``: what is not in order is named, with what to do, and nothing is changed."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from email.utils import formatdate

import httpx
import numpy as np
import pytest

from repository import environment
from running_kit import opened, quick, reports
from shoal.explain.text import moment
from shoal.service.clock import system_clock
from shoal.service.keyring import Keyring, Protection
from shoal.service.ops import home as homes
from shoal.service.ops.doctor import Examined, Remote, apart, examine
from shoal.service.ops.health import State, random_source
from shoal.service.ops.up import Embedded
from shoal.service.shuffler.reports import Arrival
from shoal.service.wire import Wire
from shoal.web import assets

DAY = 86_400


@pytest.fixture
def embedded(tmp_path):
    made = Embedded(directory=tmp_path / "both")
    made.make(quick(question="?", answers=("a", "b"), people=300), {"shuffler": 1, "analyzer": 2})
    return made


def findings(target, clock=system_clock):
    found = examine([str(target)], clock=clock)
    return {
        (name.split()[0], finding.check): finding
        for name, listed in found.parts.items()
        for finding in listed
    }


def everything(directory):
    return {
        str(path): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        # The index of the log is written by whoever reads, too.
        if path.is_file() and not path.name.endswith(("-shm", "-wal"))
    }


@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_a_directory_of_another_database_is_named(embedded, role):
    home = embedded.home(role).directory
    assert findings(home)[role, "directory"].state is State.OK
    (home / "store-id").write_text("another's\n")
    found = findings(home)[role, "directory"]
    assert found.state is State.FAIL
    assert "check --store and SHOAL_STORE" in found.advice


def test_this_machine_needs_no_server(run, monkeypatch):
    for name in ("uvicorn", "starlette", "psycopg"):
        monkeypatch.setitem(sys.modules, name, None)
    found = run("doctor --json").json()
    states = {check["check"]: check["state"] for check in found["checks"]}
    assert states == {
        "installed": "ok",
        "server": "warn",
        "postgres": "warn",
        "randomness": "ok",
        "clock": "ok",
    }


def test_both_parties_of_a_directory(run, embedded):
    before = everything(embedded.directory)
    found = json.loads(run("doctor", str(embedded.directory), "--json").stdout)
    assert everything(embedded.directory) == before
    failed = [check for check in found["checks"] if check["state"] == "fail"]
    assert failed == []
    told = {(check["of"].split()[0], check["check"]): check for check in found["checks"]}
    assert told["shuffler", "store"]["detail"].startswith("sqlite, revision ")
    assert told["shuffler", "key 0"]["detail"].startswith("in use")
    assert told["shuffler", "protection"]["state"] == "warn"
    assert told["both", "apart"]["state"] == "warn"
    assert told["shuffler", "http://127.0.0.1:2"]["detail"] == "does not answer"
    assert told["analyzer", "token file"]["state"] == "ok"
    for check in found["checks"]:
        assert (check["state"] == "ok") == (not check["advice"])


def test_people_read_a_line_each_and_the_status_is_1(run, embedded):
    (embedded.home("shuffler").directory / "store.sqlite").chmod(0o644)
    finished = run("doctor", str(embedded.directory))
    assert finished.status == 1
    lines = finished.stdout.splitlines()
    (line,) = [line for line in lines if line.startswith("  fail")]
    assert line.endswith("store.sqlite has mode 0644")
    assert lines[lines.index(line) + 1].strip().startswith("run chmod -R go= ")


def test_a_directory_whose_names_are_seen_is_warned_about(embedded):
    home = embedded.home("analyzer").directory
    assert findings(home)["analyzer", "permissions"].state is State.OK
    home.chmod(0o755)
    assert findings(home)["analyzer", "permissions"].state is State.WARN


def test_an_older_store_a_damaged_one_and_none(embedded):
    home = embedded.home("shuffler")
    path = home.directory / "store.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE shuffler_revision SET version_num = '9999'")
    connection.close()
    found = findings(home.directory)["shuffler", "store"]
    assert (found.state, "9999" in found.detail) == (State.FAIL, True)
    for part in home.directory.glob("store.sqlite*"):
        part.unlink()
    path.write_bytes(b"nothing of the kind" * 1000)
    path.chmod(0o600)
    assert findings(home.directory)["shuffler", "store"].state is State.FAIL
    path.unlink()
    assert findings(home.directory)["shuffler", "store"].detail == "there is none yet"
    assert not path.exists()


def test_keys_that_nobody_tends(embedded):
    home = embedded.home("shuffler")
    soon, late = system_clock() + 12 * DAY, system_clock() + 31 * DAY
    assert findings(home.directory, lambda: soon)["shuffler", "key list"].state is State.WARN
    told = findings(home.directory, lambda: late)
    assert told["shuffler", "key list"].state is State.FAIL
    assert told["shuffler", "key 0"].state is State.WARN
    assert "start the worker" in told["shuffler", "key 0"].advice


def test_an_identity_that_is_elsewhere_has_to_be_brought_in_time(embedded):
    home = embedded.home("analyzer")
    assert findings(home.directory)["analyzer", "identity"].detail == "with the keys"
    (home.keys / "identity").unlink()
    until = moment(Keyring.open(home.keys, protection=None).list().valid_until)
    for days, state in ((0, State.OK), (10, State.OK), (11, State.WARN), (15, State.WARN)):
        now = system_clock() + days * DAY
        found = findings(home.directory, lambda now=now: now)["analyzer", "identity"]
        assert found.state is state
        assert found.detail == f"not in {home.keys}; needed to sign the list before {until} UTC"
    assert "--identity FILE" in found.advice


def test_days_are_counted_as_by_keys_list(run, embedded):
    home = embedded.home("shuffler")
    now = system_clock() + 60
    told = findings(home.directory, lambda: now)
    assert told["shuffler", "key list"].detail == "its signature is valid for 14 days more"
    assert told["shuffler", "key 0"].detail.endswith("for 30 days more")
    assert "expires in 30 days" in run("keys list", str(home.keys)).stdout


def test_tokens_that_end(embedded):
    home = embedded.home("shuffler")
    for days, state in ((0, State.OK), (50, State.WARN), (70, State.WARN)):
        now = system_clock() + days * DAY
        assert findings(home.directory, lambda now=now: now)["shuffler", "token up"].state is state


def test_reports_that_nobody_opens_and_a_batch_that_nobody_closes(embedded):
    home, survey = embedded.home("shuffler"), embedded.survey()
    with homes.opened(home) as store:
        store.reports.receive([Arrival(survey.id, 0, b"".join(reports(embedded, 3)))])
    waiting = findings(home.directory)["shuffler", "opening"]
    assert (waiting.state, waiting.detail) == (
        State.OK,
        "reports wait for more, to be opened together",
    )
    noise = np.random.default_rng(1).bytes(1000 * Wire.of(survey).report_bytes)
    with homes.opened(home) as store:
        store.reports.receive([Arrival(survey.id, 0, noise)])
    waiting = findings(home.directory)["shuffler", "opening"]
    assert (waiting.state, waiting.advice) == (State.WARN, "start a worker: shoal serve worker DIR")
    assert not any(digit in waiting.detail for digit in "0123456789")
    assert opened(embedded)["opened"] == 3
    told = findings(home.directory)
    assert told["shuffler", "opening"].detail == "nothing waits"
    assert not any(check.startswith("batch") for _, check in told)
    later = system_clock() + 3 * DAY
    (late,) = [
        finding
        for (_, check), finding in findings(home.directory, lambda: later).items()
        if check.startswith("batch")
    ]
    assert late.detail.startswith("should have closed ")


def test_a_survey_of_other_keys(embedded):
    home = embedded.home("shuffler")
    shutil.rmtree(home.keys)
    Keyring.create(home.keys, role="shuffler", protection=Protection.none())
    name = f"survey {str(embedded.survey().id)[:12]}"
    assert findings(home.directory)["shuffler", name].detail == "names another shuffler's keys"


def test_a_survey_that_the_analyzer_does_not_know(embedded):
    with homes.opened(embedded.home("shuffler")) as store:
        other = replace(embedded.survey(), name="another")
        store.surveys.add(other)
    name = f"survey {str(other.id)[:12]}"
    told = examine([str(embedded.directory)]).parts["both together"]
    states = {finding.check: finding.state for finding in told}
    assert states == {
        "store": State.OK,
        "keys": State.OK,
        "apart": State.WARN,
        f"survey {str(embedded.survey().id)[:12]}": State.OK,
        name: State.FAIL,
    }


def test_databases_that_were_not_seen_are_not_called_different(embedded):
    (embedded.home("analyzer").directory / "store.sqlite").unlink()
    told = examine([str(embedded.directory)]).parts["both together"]
    (store,) = (finding for finding in told if finding.check == "store")
    assert (store.state, store.detail.partition(":")[0]) == (State.WARN, "not compared")


def test_one_key_or_one_database_for_both(embedded):
    shuffler, analyzer = embedded.home("shuffler"), embedded.home("analyzer")
    ring = Keyring.open(shuffler.keys, protection=None)
    told = apart(
        [
            Examined(shuffler, ring, ()),
            Examined(replace(analyzer, store=shuffler.url), ring, ()),
        ]
    )
    states = {finding.check: finding.state for finding in told}
    assert (states["store"], states["keys"]) == (State.FAIL, State.FAIL)


@pytest.mark.parametrize(
    ("skew", "state"), [(0, State.OK), (-90, State.WARN), (3600, State.FAIL), (None, State.WARN)]
)
def test_the_clock_of_the_other_party(skew, state):
    now = system_clock()
    headers = {} if skew is None else {"Date": formatdate(now + skew, usegmt=True)}
    answer = httpx.Response(200, headers=headers)
    assert Remote("http://h", now).clock(answer).state is state


def test_an_address_that_does_not_answer(run):
    finished = run("doctor http://127.0.0.1:1")
    assert finished.status == 1
    assert "does not answer" in finished.stdout


def test_what_holds_for_all_surveys_of_a_party_is_said_once(embedded, monkeypatch):
    first = embedded.survey()
    others = [replace(first, name=name) for name in ("second", "third")]
    keys = Keyring.open(embedded.home("analyzer").keys, protection=None).list().document
    documents = {f"/v1/surveys/{each.id}": each.to_bytes() for each in (first, *others)}
    asked = []

    def answered(_self, path):
        asked.append(path)
        date = {"Date": formatdate(system_clock(), usegmt=True)}
        return httpx.Response(200, headers=date, content=documents.get(path, keys))

    monkeypatch.setattr(Remote, "_get", answered)
    analyzer, now = first.analyzer, system_clock()
    told = list(Remote(analyzer.url, now).surveys([first, *others], analyzer.fingerprint))
    assert {each.state for each in told} == {State.OK}
    names = [each.check.removeprefix(first.analyzer.url).split()[0] for each in told]
    assert names == ["clock", "keys", "survey", "survey", "survey"]
    assert asked.count("/v1/keys") == 1
    monkeypatch.setattr(Remote, "_get", lambda *_: None)
    told = list(Remote(analyzer.url, now).surveys([first, *others], analyzer.fingerprint))
    assert [each.detail for each in told] == ["does not answer"]


def test_randomness_that_is_none_is_noticed(monkeypatch):
    class Stuck:
        def words(self, size):
            return np.zeros(size, dtype=np.uint64)

    monkeypatch.setattr("shoal.service.ops.health.secure", Stuck)
    assert random_source().state is State.FAIL


def without_server(*words):
    """The command where nothing of the server is installed."""
    blocked = (
        "import sys; from shoal.service.ops.health import POSTGRES, SERVER; "
        "sys.modules.update(dict.fromkeys((*SERVER, *POSTGRES))); "
        "from shoal.cli import app; app()"
    )
    finished = subprocess.run(
        [sys.executable, "-c", blocked, *words],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def test_a_machine_without_the_servers_packages_is_told_so():
    """It is one of the things that the command is there to find out."""
    found = {each["check"]: each["state"] for each in without_server("doctor", "--json")["checks"]}
    assert (found["server"], found["postgres"], found["clock"]) == ("warn", "warn", "ok")


def test_keys_are_looked_at_without_the_servers_packages(embedded):
    home = embedded.home("shuffler")
    listed = without_server("keys", "list", str(home.directory), "--json")
    assert [key["number"] for key in listed["keys"]] == [0]


def test_a_file_is_no_directory(run, tmp_path):
    (tmp_path / "answers.csv").touch()
    said = run("doctor", str(tmp_path / "answers.csv")).refusal()
    assert "answers.csv: it is a file, not a directory; name" in said


def test_pages_without_their_scripts_are_said_where_there_is_an_analyzer(
    run, embedded, monkeypatch, tmp_path
):
    monkeypatch.setattr(assets, "BUILT", tmp_path)
    for targets in ([], [str(embedded.directory)], [str(embedded.directory / "analyzer")]):
        found = {each["check"]: each for each in run("doctor", *targets, "--json").json()["checks"]}
        assert found["pages"]["state"] == "warn"
        assert "without survey.js, offline.js, dashboard.js" in found["pages"]["detail"]
        assert "run make browser in a clone" in found["pages"]["advice"]
    shuffler = run("doctor", str(embedded.directory / "shuffler"), "--json").json()
    assert "pages" not in {each["check"] for each in shuffler["checks"]}
    for name in assets.SCRIPTS:
        (tmp_path / name).write_text("/* built */")
    (told,) = [each for each in run("doctor --json").json()["checks"] if each["check"] == "pages"]
    assert told["state"] == "ok"


# Secrets that are lost


def lose(keys, number=0, damage="gone"):
    path = keys / f"key-{number:03d}"
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(b"" if damage == "empty" else b"no secret")


@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
@pytest.mark.parametrize("damage", ["gone", "empty", "damaged"])
def test_a_key_in_use_without_its_secret_fails(run, embedded, role, damage):
    home = embedded.home(role)
    assert findings(home.directory)[role, "key 0"].state is State.OK
    lose(home.keys, damage=damage)
    found = findings(home.directory)[role, "key 0"]
    assert (found.state, f"active, and its secret is {damage}" in found.detail) == (
        State.FAIL,
        True,
    )
    assert f"{home.keys}/key-000" in found.detail
    assert "restore key-000 from a backup" in found.advice
    (warning,) = run("keys list", str(home.keys), "--json").json()["warnings"]
    assert warning.startswith(f"the secret of key 0 is {damage}")
    # What is advised helps.
    run("keys retire", str(home.keys), "0", "--delete").success()
    told = findings(home.directory)
    assert told[role, "key 1"].state is State.OK
    assert (role, "key 0") not in told


def test_a_ring_without_any_secret_is_told_of(embedded):
    home = embedded.home("shuffler")
    (home.keys / "identity").unlink()
    lose(home.keys, damage="empty")
    told = findings(home.directory)
    assert told["shuffler", "key 0"].state is State.FAIL
    assert told["shuffler", "store"].state is State.OK


def test_keys_to_come_count_and_expired_ones_while_something_waits_for_them(embedded):
    home, survey = embedded.home("shuffler"), embedded.survey()
    arrived = b"".join(reports(embedded, 3))
    now = system_clock()
    ring = Keyring.open(home.keys, protection=Protection.none(), clock=lambda: now)
    ring.rotate()
    lose(home.keys, 1)
    told = findings(home.directory, lambda: now)
    states = [told["shuffler", f"key {number}"].state for number in (0, 1)]
    assert states == [State.OK, State.FAIL]
    ring.retire(1)
    ring.retire(0)
    assert [(key.number, key.state) for key in ring.list().keys] == [(0, "expired"), (2, "active")]
    lose(home.keys)
    told = findings(home.directory, lambda: now)
    assert told["shuffler", "key 0"].state is State.WARN
    assert ("shuffler", "reports for key 0") not in told
    with homes.opened(home) as store:
        store.reports.receive([Arrival(survey.id, 0, arrived)])
    waiting = findings(home.directory, lambda: now)["shuffler", "reports for key 0"]
    assert waiting.state is State.FAIL
    assert waiting.detail == "reports wait for this key, and its secret is gone"


def test_a_deleted_key_needs_no_secret(embedded):
    home = embedded.home("shuffler")
    now = system_clock()
    ring = Keyring.open(home.keys, protection=Protection.none(), clock=lambda: now)
    ring.rotate()
    (home.keys / "identity").rename(home.keys.parent.parent / "identity")
    for _ in range(45):
        now += DAY
        ring.tick()
    assert not (home.keys / "key-000").exists()
    found = findings(home.directory, lambda: now)["shuffler", "key 0"]
    assert (found.state, found.detail.partition(",")[0]) == (State.OK, "deleted")


def test_dead_letters(embedded):
    home, survey = embedded.home("shuffler"), embedded.survey()
    with homes.opened(home) as store:
        store.reports.receive([Arrival(survey.id, 0, b"".join(reports(embedded, 3)))])
        store.reports.dead_letter(store.reports.claim(10, 600))
    letters = findings(home.directory)["shuffler", "dead letters"]
    assert (letters.state, letters.detail) == (
        State.WARN,
        "3 reports were given up after repeated failures",
    )


def test_a_worker_that_failed_is_not_at_it(embedded):
    home, survey = embedded.home("shuffler"), embedded.survey()
    with homes.opened(home) as store:
        store.reports.receive([Arrival(survey.id, 0, b"".join(reports(embedded, 3)))])
    lose(home.keys)
    assert opened(embedded) == {}
    found = findings(home.directory)["shuffler", "opening"]
    assert found.state is State.WARN
    assert "failed to open the waiting reports" in found.detail
    assert "work_failed" in found.advice
    with homes.opened(home) as store:
        assert store.reports.claim(10, 600) is None  # tried again when its lease has run out
