"""Backups that are damaged, in the way, or of something else: one line, and nothing is changed."""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
import tarfile
from pathlib import Path

import pytest

from command_kit import shoal
from shoal.errors import RefusedError
from shoal.service.keyring import Keyring, Protection
from shoal.service.ops import backup as backup_module
from shoal.service.ops.backup import Manifest, check, disk, reading, writing
from shoal.service.ops.home import Home

SESAME = {"SHOAL_PASSPHRASE": "sesame"}
WRONG = {"SHOAL_PASSPHRASE": "wrong"}


def done(*words, **variables):
    return shoal(*words, **variables).success()


def refused(*words, **variables):
    return shoal(*words, **variables).refusal()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A backup of each party, of a ring with a passphrase."""
    directory = tmp_path_factory.mktemp("made")
    for role in ("shuffler", "analyzer"):
        home = Home(directory=directory / role, role=role)
        protection = Protection.passphrase(SESAME["SHOAL_PASSPHRASE"], cost=12)
        Keyring.create(home.keys, role=role, protection=protection)
        home.database().close()
        told = done("backup", home.directory, "--to", directory / f"{role}.tar")
        assert f"the {role}" in told
        assert "unencrypted" not in told
    (directory / "analyzer" / "token").write_text("shoal_secret\n")
    return directory


@pytest.fixture
def backup(made, tmp_path):
    shutil.copy(made / "shuffler.tar", tmp_path / "b.tar")
    return tmp_path / "b.tar"


def test_a_backup_is_made_checked_and_restored(made, tmp_path):
    where = tmp_path / "kept"
    where.mkdir()
    told = shoal("backup", made / "analyzer", "--to", where, "--json").json()
    (path,) = where.iterdir()
    assert told["file"] == str(path)
    assert path.name.startswith("shoal-analyzer-2")
    assert path.stat().st_mode & 0o777 == 0o600
    assert shoal("backup", "--check", path, "--json").json() == told
    assert "is whole" in done("backup", "--check", path)
    back = shoal("restore", path, "--to", tmp_path / "r", "--json", **SESAME).json()
    assert (back["role"], back["digest"]) == ("analyzer", told["digest"])
    assert (tmp_path / "r" / "token").read_text() == "shoal_secret\n"
    wide = [path for path in [tmp_path / "r", *(tmp_path / "r").rglob("*")] if others(path)]
    assert wide == []
    shown = shoal("keys", "show", tmp_path / "r" / "keys", "--json").json()
    assert shown["fingerprint"] == told["fingerprint"]
    assert {path.name for path in tmp_path.iterdir()} == {"kept", "r"}


def others(path):
    return path.stat().st_mode & 0o077


def test_without_keys_there_is_no_secret_in_it(made, tmp_path):
    done("backup", made / "analyzer", "--to", tmp_path / "b.tar", "--without-keys")
    with tarfile.open(tmp_path / "b.tar") as tar:
        assert set(tar.getnames()) <= {"store.sqlite", "store-id", "manifest.json"}
    told = done("restore", tmp_path / "b.tar", "--to", tmp_path / "r")
    assert f"shoal keys new {tmp_path}/r/keys --role analyzer --identity FILE" in told
    assert not (tmp_path / "r" / "keys").exists()


def test_keys_in_the_clear_are_told(tmp_path):
    home = Home(directory=tmp_path / "a", role="analyzer")
    Keyring.create(home.keys, role="analyzer", protection=Protection.none())
    home.database().close()
    assert "unencrypted" in done("backup", home.directory, "--to", tmp_path / "b.tar")


def test_a_full_disk_is_that_of_the_backup(made, tmp_path, monkeypatch):
    def full(_source, copy, _tell, _without):
        copy.touch()
        database = sqlite3.connect(":memory:")
        database.execute("PRAGMA max_page_count = 1")
        database.execute("CREATE TABLE one (two)")

    monkeypatch.setattr(backup_module, "copy_sqlite", full)
    told = refused("backup", made / "shuffler", "--to", tmp_path / "b.tar")
    assert told == (
        f"cannot make the backup: there is no space for a copy of the database in {tmp_path}; "
        "free some space there, or choose another place"
    )
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(made, backup, tmp_path):
    before = backup.read_bytes()
    told = refused("backup", made / "shuffler", "--to", backup)
    advice = "choose another name, or a directory for several backups (a name that ends with /)"
    assert told == f"cannot write {backup}: it exists already; {advice}"
    assert backup.read_bytes() == before
    full = tmp_path / "full"
    full.mkdir()
    (full / "something").touch()
    for place in (full, backup):
        told = refused("restore", backup, "--to", place, "--waiting", "drop", **SESAME)
        assert f"cannot restore to {place}: it is not empty" in told
    assert "there is no directory" in refused("backup", made / "shuffler", "--to", tmp_path / "x/y")
    told = refused("restore", backup, "--to", tmp_path / "x/y", "--waiting", "drop", **SESAME)
    assert "there is no directory" in told
    assert {path.name for path in tmp_path.iterdir()} == {"b.tar", "full"}


def test_a_slash_at_the_end_makes_a_directory(made, tmp_path):
    place = tmp_path / "new" / "below"
    for _ in range(2):
        said = done("backup", made / "shuffler", "--to", f"{place}/")
        name = said.split(" is a backup")[0]
        assert Path(name).parent == place
        assert "is whole" in done("backup", "--check", name)
        Path(name).rename(place / f"kept-{len(list(place.iterdir()))}")  # within the same second
    assert len(list(place.iterdir())) == 2
    (tmp_path / "file").write_text("mine")
    told = refused("backup", made / "shuffler", "--to", f"{tmp_path / 'file'}/")
    assert "cannot make the directory" in told
    assert (tmp_path / "file").read_text() == "mine"
    refused("backup", tmp_path / "nobody", "--to", f"{tmp_path / 'never'}/")
    assert not (tmp_path / "never").exists()


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path):
    target = tmp_path / "b.tar"
    with pytest.raises(RefusedError, match="exists already"), writing(target):
        target.write_text("another's")
    assert target.read_text() == "another's"
    assert list(tmp_path.iterdir()) == [target]


def test_an_empty_directory_will_do(backup, tmp_path):
    (tmp_path / "r").mkdir()
    done("restore", backup, "--to", tmp_path / "r", "--waiting", "drop", **SESAME)
    assert (tmp_path / "r" / "store.sqlite").exists()


def test_every_byte_counts(backup, tmp_path):
    whole = backup.read_bytes()
    with tarfile.open(backup) as tar:
        starts = {member.name: (member.offset_data, member.size) for member in tar.getmembers()}
    for start, size in starts.values():
        for at in (start, start + size - 1):
            changed = bytearray(whole)
            changed[at] ^= 1
            backup.write_bytes(changed)
            with pytest.raises(RefusedError, match=f"cannot use {backup}: .*use another backup"):
                check(backup)
    words = ("restore", backup, "--to", tmp_path / "r", "--waiting", "drop")
    assert refused(*words, **SESAME).startswith(f"cannot use {backup}")
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("kept", [0, 1, 700, -20_000, -11_000])
def test_a_part_of_a_backup_is_none(backup, kept):
    backup.write_bytes(backup.read_bytes()[:kept])
    assert refused("backup", "--check", backup).startswith(f"cannot use {backup}: it")


def rewritten(path, change):
    """The same archive with another manifest."""
    members = {}
    with tarfile.open(path) as tar:
        for member in tar.getmembers():
            members[member.name] = tar.extractfile(member).read()
    plain = json.loads(members["manifest.json"])
    change(plain)
    members["manifest.json"] = json.dumps(plain).encode()
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda plain: plain.update(version=2), "a newer version of Shoal"),
        (lambda plain: plain.update(role="relay"), "not made by a shuffler"),
        (lambda plain: plain.pop("ring"), "its manifest is unreadable"),
        (lambda plain: plain.update(made="now"), "lacks a number"),
        (lambda plain: plain["files"][0].update(path="../../etc/passwd"), "that no party has"),
        (lambda plain: plain["files"][0].update(path="keys/../x"), "that no party has"),
        (lambda plain: plain["files"][0].update(bytes=-1), "lacks a number"),
        (lambda plain: plain["files"][0].update(ranges=[[0, 1]]), "do not add up"),
        (lambda plain: plain["files"].append(plain["files"][0]), "a file twice"),
        (
            lambda plain: plain["files"].append({"path": "token", "bytes": 0, "sha256": "0" * 64}),
            "token is missing",
        ),
    ],
)
def test_a_manifest_that_is_none_is_refused(backup, change, told):
    rewritten(backup, change)
    assert told in refused("backup", "--check", backup)


def test_a_database_that_is_damaged_is_refused(backup, tmp_path):
    """Though its digest is right: it was damaged before the backup was made."""
    with tarfile.open(backup) as tar:
        member = tar.getmember("store.sqlite")
    content = bytearray(backup.read_bytes())
    content[member.offset_data + 4096 : member.offset_data + member.size] = bytes(
        member.size - 4096
    )
    backup.write_bytes(content)
    from hashlib import sha256

    new = sha256(content[member.offset_data :][: member.size]).hexdigest()
    rewritten(backup, lambda plain: plain["files"][0].update(sha256=new))
    assert "is whole" in done("backup", "--check", backup)
    told = refused("restore", backup, "--to", tmp_path / "r", "--waiting", "drop", **SESAME)
    assert "damaged" in told or "malformed" in told
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("backup", "give a directory and a target"),
        ("backup --to x", "give a directory and a target"),
        ("backup DIR --to x --check y", "--check reads a backup: leave out DIR and --to"),
        ("backup --check missing.tar", "cannot read missing.tar: No such file"),
        ("backup --check .", "cannot read .: Is a directory"),
        ("backup missing --to x.tar", "there is no such directory"),
        ("restore missing.tar --to r", "cannot read missing.tar: No such file"),
    ],
)
def test_words_that_do_not_go_together(words, told, made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert told in refused(*words.replace("DIR", str(made / "shuffler")).split())
    assert list(tmp_path.iterdir()) == []


def test_a_shuffler_is_not_restored_without_a_decision(backup, made, tmp_path):
    told = refused("restore", backup, "--to", tmp_path / "r", **SESAME)
    assert "--waiting drop" in told
    assert "--waiting keep, if you know that no batch has closed since" in told
    words = ("restore", made / "analyzer.tar", "--to", tmp_path / "r", "--waiting", "keep")
    assert "leave --waiting out" in refused(*words, **SESAME)


def test_what_opens_the_keys_is_asked_for_first(backup, tmp_path):
    words = ("restore", backup, "--to", tmp_path / "r", "--waiting", "drop")
    assert "SHOAL_PASSPHRASE" in refused(*words)
    assert "passphrase" in refused(*words, **WRONG)
    assert "--key-file does not go with" in refused(*words, "--key-file", backup, **SESAME)
    assert not (tmp_path / "r").exists()


def test_an_identity_that_is_elsewhere_has_to_be_brought(made, tmp_path):
    shutil.copytree(made / "shuffler", tmp_path / "s")
    (tmp_path / "s" / "keys" / "identity").rename(tmp_path / "identity")
    done("backup", tmp_path / "s", "--to", tmp_path / "b.tar")
    words = ("restore", tmp_path / "b.tar", "--to", tmp_path / "r", "--waiting", "drop")
    assert "identity" in refused(*words, **SESAME)
    assert not (tmp_path / "r").exists()
    done(*words, "--identity", tmp_path / "identity", **SESAME)
    assert not (tmp_path / "r" / "keys" / "identity").exists()


def test_another_database_is_refused(backup, tmp_path):
    words = ("restore", backup, "--to", tmp_path / "r", "--waiting", "drop", "--store")
    told = refused(*words, f"sqlite:///{tmp_path}/x.sqlite", **SESAME)
    assert "leave out --store" in told
    told = refused(*words, "postgresql+psycopg://nobody@localhost:1/x", **SESAME)
    assert "leave --store and SHOAL_STORE out" in told


def test_an_older_database_is_migrated_only_if_asked(made, tmp_path, next_step):
    home = Home(directory=tmp_path / "s", role="shuffler")
    shutil.copytree(made / "shuffler" / "keys", home.keys)
    from shoal.service.db import Database

    old = Database(home.url)
    old.migrate("shuffler", next_step.before)
    old.close()
    done("backup", home.directory, "--to", tmp_path / "b.tar")
    words = ("restore", tmp_path / "b.tar", "--to", tmp_path / "r", "--waiting", "drop")
    assert "restore with --migrate" in refused(*words, **SESAME)
    assert not (tmp_path / "r").exists()
    done(*words, "--migrate", **SESAME)
    database = Home(directory=tmp_path / "r", role="shuffler").database()
    assert database.revision("shuffler") == next_step.revision
    database.close()


def test_another_partys_database_is_not_backed_up(made, tmp_path):
    told = refused(
        *("backup", made / "shuffler", "--to", tmp_path / "b.tar"),
        *("--store", f"sqlite:///{made / 'analyzer' / 'store.sqlite'}"),
    )
    assert "this is not the shuffler's database" in told
    assert list(tmp_path.iterdir()) == []


def test_a_directory_of_another_database_is_not_backed_up(made, tmp_path):
    shutil.copytree(made / "analyzer", tmp_path / "a")
    (tmp_path / "a" / "store-id").write_text("another's\n")
    told = refused("backup", tmp_path / "a", "--to", tmp_path / "b.tar")
    assert "belongs to another database; check --store and SHOAL_STORE" in told


def test_a_damaged_database_is_not_backed_up(made, tmp_path):
    shutil.copytree(made / "shuffler", tmp_path / "s")
    path = tmp_path / "s" / "store.sqlite"
    path.write_bytes(path.read_bytes()[:4096] + bytes(path.stat().st_size - 4096))
    told = refused("backup", tmp_path / "s", "--to", tmp_path / "b.tar")
    assert told.endswith("restore an older backup")
    path.write_bytes(b"no database at all" * 100)
    assert "not a database" in refused("backup", tmp_path / "s", "--to", tmp_path / "b.tar")
    assert {each.name for each in tmp_path.iterdir()} == {"s"}


def test_a_disk_that_refuses_is_one_line():
    with pytest.raises(
        RefusedError, match="cannot write x: No space left on device; free some space"
    ):
        _ = _full("x")


def _full(name):
    with disk(f"cannot write {name}"):
        raise OSError(28, "No space left on device")


def test_a_manifest_is_what_it_was(backup):
    with reading(backup) as found:
        assert Manifest.from_bytes(found.manifest.to_bytes()) == found.manifest
