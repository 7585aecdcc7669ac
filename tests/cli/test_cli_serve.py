"""``shoal serve``: what is refused before anything runs, in one line."""

from __future__ import annotations

import json
import os
import sys

import pytest

from running_kit import quick
from service_site import BEFORE, next_step  # noqa: F401 - a fixture
from shoal.errors import RefusedError
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.db import Database
from shoal.service.errors import StoreVersionError
from shoal.service.http.limits import Limits
from shoal.service.http.server import address, listen
from shoal.service.keyring import Keyring, Protection
from shoal.service.keyring.key_list import ROLES
from shoal.service.ops import health, processes
from shoal.service.ops.health import State
from shoal.service.ops.processes import Settings
from shoal.service.ops.up import Embedded
from shoal.service.shuffler.store import ShufflerStore
from shoal.web import assets

KINDS = ["shuffler", "worker", "analyzer"]


@pytest.fixture
def embedded(tmp_path):
    made = Embedded(directory=tmp_path / "both")
    made.make(quick(question="?", answers=("a", "b"), people=300), {"shuffler": 1, "analyzer": 2})
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_directory_is_one_line(run, tmp_path, kind):
    said = run("serve", kind, str(tmp_path / "none")).refusal()
    assert "there is no such directory; create it with shoal keys new" in said


@pytest.mark.parametrize(
    ("kind", "other"), [("shuffler", "analyzer"), ("worker", "analyzer"), ("analyzer", "shuffler")]
)
def test_the_directory_of_the_other_party_is_one_line(run, embedded, kind, other):
    """Before anything in it is looked for, a token for one."""
    said = run("serve", kind, str(embedded.home(other).directory)).refusal()
    assert f"it is the directory of the {other}, not of the " in said
    assert said.endswith(f"or run shoal serve {other}")


@pytest.mark.parametrize("kind", KINDS)
def test_missing_packages_are_one_line(run, tmp_path, monkeypatch, kind):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    said = run("serve", kind, str(tmp_path)).refusal()
    assert said.startswith("shoal serve")
    assert "needs uvicorn: pip install 'uvicorn[standard]>=" in said


def test_a_directory_of_somebody_else_is_one_line(run, embedded, monkeypatch):
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
    said = run("serve worker", str(embedded.home("shuffler").directory)).refusal()
    assert "this user may not write to it" in said


def test_a_worker_needs_the_passphrase_of_its_keys(run, tmp_path, monkeypatch):
    monkeypatch.delenv("SHOAL_PASSPHRASE", raising=False)
    keys = tmp_path / "s" / "keys"
    Keyring.create(keys, role="shuffler", protection=Protection.passphrase("sesame", cost=10))
    said = run("serve worker", str(tmp_path / "s")).refusal()
    assert said.startswith("a passphrase is needed: set SHOAL_PASSPHRASE")


@pytest.mark.parametrize(("kind", "role"), [("worker", "shuffler"), ("analyzer", "analyzer")])
def test_who_opens_is_told_where_the_identity_is(run, tmp_path, monkeypatch, kind, role):
    """With it the keys of a running service change in time; another ring's is refused."""
    for name in ("s", "other"):
        ring = tmp_path / name / "keys"
        Keyring.create(ring, role=role, protection=Protection.none())
    away = tmp_path / "stick"
    (tmp_path / "s" / "keys" / "identity").rename(away)
    words = ("serve", kind, str(tmp_path / "s"), "--identity")
    told = []
    with monkeypatch.context() as patch:
        patch.setattr(processes, f"run_{kind}", lambda settings, **_: told.append(settings))
        assert run(*words, str(away)).status == 0
    ring = told[0].home.keyring(told[0].protection, identity=told[0].identity)
    assert ring.rotate().number == 1
    options = ("--port", "0", "--no-collecting") if kind == "analyzer" else ()
    said = run(*words, str(tmp_path / "other" / "keys" / "identity"), *options).refusal()
    assert "it is the identity of another key ring" in said


def test_an_analyzer_says_that_its_pages_lack_their_scripts(run, embedded, monkeypatch, tmp_path):
    monkeypatch.setattr(processes, "run_analyzer", lambda *_, **__: None)
    monkeypatch.setattr(assets, "BUILT", tmp_path)
    words = ("serve", "analyzer", str(embedded.home("analyzer").directory))
    (line,) = run(*words).stderr.splitlines()
    told = json.loads(line)
    assert (told["event"], told["level"]) == ("browser_scripts_missing", "warning")
    assert told["count"] == 3
    for name in assets.SCRIPTS:
        (tmp_path / name).write_text("/* built */")
    assert run(*words).stderr == ""


def test_a_worker_believes_no_age_when_the_clock_was_set(embedded, monkeypatch):
    class Worker:
        def __init__(self, *_, steady, **__):
            self.steady = steady

        def run(self, _stop):
            seen.append(self.steady())
            monkeypatch.setattr(health, "_NOT_BEFORE", 1 << 40)
            seen.append(self.steady())

    seen = []
    monkeypatch.setattr(processes, "ShufflerWorker", Worker)
    home = embedded.home("shuffler")
    processes.run_worker(Settings(home=home, protection=Protection.none()))
    assert seen == [True, False]


def test_a_directory_that_is_not_the_databases_is_not_ready(embedded):
    home = embedded.home("shuffler")
    for state in (State.OK, State.FAIL):
        with processes.opened_party(Settings(home=home), ShufflerStore) as parts:
            if state is State.FAIL:
                (home.directory / "store-id").unlink()
            found = {finding.check: finding.state for finding in parts.readiness.findings()}
            assert found["store"] is state
            assert set(found) == {"store", "analyzer keys", "key list", "keys", "disk", "clock"}


@pytest.mark.parametrize("kind", ["shuffler", "worker"])
def test_keys_that_no_survey_names_are_refused(run, embedded, kind):
    """With them every report would be counted as one that does not open."""
    keys = embedded.home("shuffler").keys
    keys.rename(keys.with_name("lost"))
    Keyring.create(keys, role="shuffler", protection=Protection.none())
    words = ("--port", "0") if kind == "shuffler" else ()
    finished = run("serve", kind, str(keys.parent), *words)
    started, said = finished.stderr.splitlines()
    assert (finished.status, json.loads(started)["event"]) == (2, "starting")
    assert said.startswith("error: the survey names the shuffler with fingerprint ")
    assert said.endswith("or restore the keys that it was made for")


def test_keys_that_others_may_read_are_refused(run, embedded):
    keys = embedded.home("shuffler").keys
    keys.chmod(0o755)
    said = run("serve worker", str(keys.parent)).refusal()
    assert "is open to other users (mode 0755); run chmod 700" in said


def test_a_port_of_metrics_that_is_taken_says_so(embedded):
    with listen("127.0.0.1", 0) as taken:
        home, port = embedded.home("shuffler"), taken.getsockname()[1]
        settings = Settings(home=home, protection=Protection.none(), metrics_port=port)
        with pytest.raises(RefusedError, match="with --metrics-port"):
            processes.run_worker(settings)


@pytest.mark.usefixtures("next_step")
def test_a_directory_of_an_older_version_is_brought_up_to_date(embedded):
    for role in ROLES:
        (embedded.home(role).directory / "store.sqlite").unlink()
        (embedded.home(role).directory / "store-id").unlink()
        older = Database(embedded.home(role).url)
        older.migrate(role, BEFORE[role])
        older.close()
        with pytest.raises(StoreVersionError):
            embedded.home(role).database()
    embedded.bring_up_to_date()
    for role in ROLES:
        embedded.home(role).database().close()


def test_a_port_that_is_taken_says_so():
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert address(taken) == f"http://127.0.0.1:{port}"
        expected = f"cannot listen on 127.0.0.1 port {port}: the port is in use; .* --port"
        with pytest.raises(RefusedError, match=expected):
            listen("127.0.0.1", port)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("203.0.113.1", 0)])
def test_an_address_that_cannot_be_says_so(host, port):
    with pytest.raises(RefusedError, match="choose an address of this machine"):
        listen(host, port)


def test_a_socket_of_a_parent_has_to_be_one():
    with pytest.raises(RefusedError, match="start without --socket"):
        listen("127.0.0.1", 0, descriptor=9999)


@pytest.mark.parametrize("kind", ["intake", "worker", "analyzer"])
def test_without_the_secret_of_a_key_in_use_nothing_is_ready(embedded, caplog, kind):
    """It starts all the same: what is sealed for other keys is still opened and handed out."""
    home = embedded.home("analyzer" if kind == "analyzer" else "shuffler")
    settings = Settings(home=home, protection=None if kind == "intake" else Protection.none())
    store = AnalyzerStore if kind == "analyzer" else ShufflerStore

    def keys():
        with processes.opened_party(settings, store) as parts:
            found = parts.readiness.findings()
            return next(finding for finding in found if finding.check == "keys")

    assert keys().state is State.OK
    (home.keys / "key-000").rename(home.keys / "away")
    found = keys()
    assert found.state is State.FAIL
    assert found.detail.startswith("key 0: active, and its secret is gone")
    errors = [each for each in caplog.records if each.levelname == "ERROR"]
    assert [(each.message, each.key) for each in errors] == [("secret_missing", 0)]
    (home.keys / "away").rename(home.keys / "key-000")
    assert keys().state is State.OK
    ring = Keyring.open(home.keys, protection=Protection.none())
    (home.keys / f"key-{ring.rotate().number:03d}").write_bytes(b"")
    found = keys()  # of a key that is not used yet
    assert found.state is State.WARN
    assert found.detail.startswith("key 1: pending, and its secret is empty")


@pytest.mark.parametrize("kind", ["shuffler", "analyzer"])
def test_what_one_address_may_have_is_said_by_options(run, embedded, monkeypatch, kind):
    told = []
    monkeypatch.setattr(
        processes, f"run_{kind}", lambda settings, **_: told.append(settings.limits)
    )
    words = ("serve", kind, str(embedded.home(kind).directory))
    assert run(*words).status == 0
    assert told.pop() == Limits()
    chosen = [
        "--address-connections",
        "10",
        "--address-requests",
        "5",
        "--address-bytes",
        "9000000",
    ]
    chosen += ["--address-rate", "2.5", "--address-burst", "7", "--limit-loopback"]
    assert run(*words, *chosen).status == 0
    limits = told.pop()
    assert limits == Limits(
        address_connections=10,
        address_requests=5,
        address_bytes=9_000_000,
        address_rate=2.5,
        address_burst=7,
        limit_loopback=True,
    )
    assert run(*words, "--behind-proxy").status == 0
    assert told.pop().address_rate is None
    assert run(*words, "--proxy", "127.0.0.1").status == 0
    assert told.pop() == Limits(proxy="127.0.0.1")
    assert "address or a network" in run(*words, "--proxy", "caddy").refusal()
    assert "names senders" in run(*words, "--proxy", "::1", "--behind-proxy").refusal()
    said = run(*words, "--address-rate", "0").refusal()
    assert "--address-rate" in said
