"""``shoal keys``: making, looking at, replacing and retiring keys, and every way of refusing."""

from __future__ import annotations

import errno
import json
import os
import re
import time
from types import SimpleNamespace

import pytest

from shoal.service import clock
from shoal.service.keyring import Keyring, KeyState, Protection
from shoal.service.keyring.secrets import LOWEST_COST

DAY = 86_400
HYBRID = "mlkem768x25519-aes128gcm"


@pytest.fixture(autouse=True)
def passphrase(monkeypatch):
    monkeypatch.setenv("SHOAL_PASSPHRASE", "correct horse")


@pytest.fixture
def place(tmp_path):
    return tmp_path / "keys"


@pytest.fixture
def ring(place):
    """One that was made forty days ago and not looked at since."""
    return Keyring.create(
        place,
        role="shuffler",
        protection=Protection.passphrase("correct horse", cost=LOWEST_COST),
        clock=lambda: int(time.time()) - 40 * DAY,
    )


def test_new_keys(run, place):
    made = run(f"keys new {place} --role analyzer --suite {HYBRID} --cost 10 --json").json()
    assert made["role"] == "analyzer"
    assert made["suites"] == [HYBRID]
    assert made["protection"] == "passphrase"
    assert made["identity_here"] is True
    assert re.fullmatch(r"[0-9a-f]{64}", made["fingerprint"])
    shown = run(f"keys show {place}")
    assert made["fingerprint"] in shown.stdout.split()
    assert run(f"keys show {place} --json").json()["fingerprint"] == made["fingerprint"]
    (key,) = run(f"keys list {place} --json").json()["keys"]
    assert key["state"] == "active"
    opened = Keyring.open(place, protection=Protection.passphrase("correct horse"))
    assert opened.pair(0).public.raw.hex() == key["public"]


def test_new_keys_in_words(run, place):
    told = run(f"keys new {place} --role shuffler --cost 10 --active 10 --expired 5").stdout
    assert "keep the passphrase" in told
    (key,) = Keyring.open(place, protection=None).list().keys
    assert key.expires_at - key.active_from == 10 * DAY
    assert key.deletes_at - key.expires_at == 5 * DAY


def test_a_key_file_is_made_and_used(run, place, tmp_path):
    file = tmp_path / "file"
    words = f"--role shuffler --protection keyfile --key-file {file}"
    told = run(f"keys new {place} {words}").stdout
    assert "apart from" in " ".join(told.split())
    assert file.stat().st_size == 32
    assert file.stat().st_mode & 0o777 == 0o600
    content = file.read_bytes()
    assert run(f"keys rotate {place} --key-file {file}").status == 0
    assert run(f"keys new {place}2 {words}").status == 0
    assert file.read_bytes() == content
    assert "--key-file FILE" in run(f"keys rotate {place}").refusal()
    assert (
        "does not go with"
        in run(f"keys rotate {place} --key-file {file} --passphrase-file {file}").refusal()
    )


def test_no_protection_is_asked_for_by_name(run, place, monkeypatch):
    monkeypatch.delenv("SHOAL_PASSPHRASE")
    refused = run(f"keys new {place} --role shuffler").refusal()
    assert "SHOAL_PASSPHRASE" in refused
    assert "--passphrase-file" in refused
    assert "--protection none" in refused
    assert not place.exists()
    told = run(f"keys new {place} --role shuffler --protection none").stdout
    assert "unencrypted" in told
    assert "not protected" in run(f"keys list {place}").stdout
    assert run(f"keys rotate {place}").status == 0
    place.chmod(0o755)
    assert f"chmod 700 {place}" in run(f"keys list {place}").refusal()


def test_passphrases_from_files(run, place, tmp_path, ring, monkeypatch):
    del ring
    monkeypatch.delenv("SHOAL_PASSPHRASE")
    file = tmp_path / "passphrase"
    file.write_text("correct horse\nsecond line\n")
    file.chmod(0o600)
    assert run(f"keys rotate {place} --passphrase-file {file}").status == 0
    file.write_text("correct house")
    refused = run(f"keys rotate {place} --passphrase-file {file}").refusal()
    assert "this is not its passphrase" in refused
    file.chmod(0o644)
    refused = run(f"keys rotate {place} --passphrase-file {file}").refusal()
    assert "chmod 600" in refused
    assert "assume that they know the passphrase" in refused
    assert "retire" not in refused
    file.chmod(0o600)
    file.write_text("\n")
    assert "first line" in run(f"keys rotate {place} --passphrase-file {file}").refusal()
    file.write_bytes(b"\xff\xfe")
    assert "UTF-8" in run(f"keys rotate {place} --passphrase-file {file}").refusal()
    missing = run(f"keys rotate {place} --passphrase-file {file}.no").refusal()
    assert "No such file" in missing


def test_the_list_says_what_comes_next(run, place, ring):
    del ring
    before = run(f"keys list {place}").stdout
    assert "active" in before
    assert "40 days" in before
    assert "expires when its successor is in use" in before
    assert "key 0 is overdue" in before
    assert "no longer valid" in before
    run(f"keys rotate {place}")
    after = run(f"keys list {place}").stdout
    assert re.search(r"pending +less than a minute +in use in (59 minutes|1 hour)", after)
    assert re.search(r"active +40 days +expires in (59 minutes|1 hour)", after)
    assert "warning" not in after
    found = run(f"keys list {place} --json").json()
    assert [key["state"] for key in found["keys"]] == ["active", "pending"]
    assert found["warnings"] == []
    assert found["keys"][0]["expires_at"] == found["keys"][1]["active_from"]


def test_the_list_says_where_the_identity_is_not(run, place, ring, tmp_path):
    del ring
    away = tmp_path / "away"
    (place / "identity").rename(away)
    assert "the identity is not here" in run(f"keys list {place}").stdout
    assert "--identity FILE" in run(f"keys rotate {place}").refusal()
    assert run(f"keys rotate {place} --identity {away}").status == 0
    assert "no longer valid" not in run(f"keys list {place}").stdout


def test_a_dry_run_changes_nothing_and_tells_the_same(run, place, ring):
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    told = run(f"keys rotate {place} --dry-run").stdout
    assert "would be in use" in told
    assert "nothing was changed" in told
    planned = run(f"keys rotate {place} --dry-run --json").json()
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before
    done = run(f"keys rotate {place} --json").json()
    assert (planned["done"], done["done"]) == (False, True)
    ((plan,), (change,)) = planned["rotations"], done["rotations"]
    assert plan["new"]["number"] == change["new"]["number"] == 1
    assert "public" not in plan["new"]
    assert [key["number"] for key in change["replaced"]] == [0]
    assert abs(plan["new"]["active_from"] - change["new"]["active_from"]) < 60
    assert ring.list().keys[1].public.raw.hex() == change["new"]["public"]


def test_retiring_says_what_it_costs(run, place, ring):
    told = " ".join(run(f"keys retire {place} 0").stdout.split())
    assert "now use key 1" in told
    assert "for up to 24 hours more" in told
    assert "stays sealed for the analyzer" in told
    assert ring.list().keys[0].state is KeyState.EXPIRED
    found = run(f"keys retire {place} 1 --delete --json").json()
    assert found["left"] is None
    assert found["instead"]["number"] == 2
    assert not (place / "key-001").exists()
    assert "key 1 cannot decrypt here" in run(f"keys retire {place} 1").refusal()


def test_an_heir_needs_a_number_of_its_own(run, place, ring, tmp_path):
    words = f"keys new {tmp_path}/heir --role shuffler --identity {place}/identity"
    assert "needs --" in run(words).refusal()
    made = run(f"{words} --first-number 5 --json").json()
    assert made["fingerprint"] == ring.fingerprint
    assert made["numbers_left"] == 250
    words = words.replace("heir --role shuffler", "another --role analyzer")
    said = run(f"{words} --first-number 5").refusal()
    assert "it is the identity of the shuffler, and the role here is analyzer" in said
    assert "backup" not in said


def test_what_cannot_be_written_is_named_as_it_was_asked_for(run, place, monkeypatch):
    def full(_handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    said = run(f"keys new {place} --role shuffler --cost 10").refusal()
    assert said == f"cannot write {place}/identity: No space left on device"
    assert list(place.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("keys new {place} --role shuffler", "is not empty"),
        ("keys new {place}2", "--role"),
        ("keys new {place}2 --role shuffler --cost 9", "10 <= --cost <= 20"),
        ("keys new {place}2 --role shuffler --active 0", "active"),
        ("keys new {place}2 --role shuffler --protection keyfile", "--key-file FILE"),
        ("keys list {place}2", "shoal keys new"),
        ("keys rotate {place}2", "shoal keys new"),
        ("keys retire {place} 9", "this key ring has keys 0"),
    ],
)
def test_refusals(run, place, ring, words, said):
    del ring
    assert said in run(words.format(place=place)).refusal()
    assert not place.with_name("keys2").exists()


@pytest.fixture
def now(monkeypatch):
    """A clock that stands still, for what would be another answer a second later."""
    moment = time.time()
    monkeypatch.setattr(clock, "time", SimpleNamespace(time=lambda: moment))


@pytest.mark.usefixtures("now", "ring")
def test_a_partys_directory_will_do_where_keys_are_there(run, tmp_path, place):
    for words in ("list {}", "show {}", "rotate {} --dry-run"):
        assert run(f"keys {words.format(tmp_path)} --json").success() == (
            run(f"keys {words.format(place)} --json").success()
        )
    run(f"keys rotate {tmp_path}").success()
    run(f"keys retire {tmp_path} 0").success()
    states = {key.number: key.state for key in Keyring.open(place, protection=None).list().keys}
    assert states[0] is KeyState.EXPIRED
    assert KeyState.ACTIVE in states.values()


def test_secrets_are_never_printed(run, place, ring):
    run(f"keys rotate {place}")
    secrets = [ring.pair(0).raw.hex(), ring._secrets.identity().raw.hex(), "correct horse"]
    for words in ("list {} --json", "show {} --json", "rotate {} --json", "retire {} 0 --json"):
        printed = run(f"keys {words.format(place)}").stdout
        assert json.loads(printed)
        assert not any(secret in printed for secret in secrets)
