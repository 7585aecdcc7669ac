"""A ring in its directory: secrets at rest, several processes at once, and processes that die."""

from __future__ import annotations

import json
import os
import signal
import stat
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from shoal.errors import InvalidArgumentError
from shoal.sealing import SUITES, Envelope, SurveyId
from shoal.service.clock import ManualClock
from shoal.service.keyring import (
    DamagedKeyringError,
    KeyGoneError,
    KeyList,
    Keyring,
    KeyringError,
    KeyState,
    Protection,
    Schedule,
    keys,
    secrets,
)
from shoal.service.keyring.secrets import LOWEST_COST

NOW = 1_800_000_000
HOUR, DAY = 3600, 86_400
PENDING, ACTIVE, EXPIRED = KeyState.PENDING, KeyState.ACTIVE, KeyState.EXPIRED


@pytest.fixture
def clock():
    return ManualClock(NOW)


@pytest.fixture
def place(tmp_path):
    return tmp_path / "keys"


@pytest.fixture
def ring(place, clock):
    return made(place, clock)


NONE = Protection.none()


def made(place, clock, protection=NONE, role="shuffler", **options):
    """A new ring."""
    return Keyring.create(place, role=role, protection=protection, clock=clock, **options)


def opened(place, clock, protection=NONE, **options):
    """The ring that is there."""
    return Keyring.open(place, protection=protection, clock=clock, **options)


def guarded(text="correct horse"):
    return Protection.passphrase(text, cost=LOWEST_COST)


def states(ring):
    return {key.number: key.state for key in ring.list().keys}


def current(ring, clock, suite=SUITES[0]):
    """The key a device uses, from the bytes that it fetches."""
    fetched = ring.list().to_bytes()
    found = KeyList.verified(fetched, fingerprint=ring.fingerprint, now=clock(), role=ring.role)
    return found.current(suite, clock())


def test_a_new_ring_is_ready(place, clock):
    ring = made(place, clock, guarded(), "analyzer", suites=SUITES)
    kind = Envelope(survey=SurveyId(bytes(32)), role="inner", capacity=4, suite=SUITES[1])
    key = current(ring, clock, SUITES[1])
    assert kind.open(kind.seal(b"blue", key), ring.pair(key.number)) == b"blue"
    again = opened(place, clock, guarded())
    assert again.fingerprint == ring.fingerprint
    assert again.role == "analyzer"
    assert again.list() == ring.list()
    assert again.pair(0).raw == ring.pair(0).raw
    assert not (place / "lock").exists() or (place / "lock").stat().st_size == 0


def test_nobody_else_may_look(place, ring):
    del ring
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()} == {0o600}


def test_directories_around_a_new_ring_are_its_owners_too(tmp_path, clock):
    tmp_path.chmod(0o755)
    before = os.umask(0o022)
    try:
        place = tmp_path / "parties" / "shuffler" / "keys"
        made(place, clock)
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (place, *place.parents[:3])]
    assert modes == [0o700, 0o700, 0o700, 0o755]


@pytest.mark.parametrize("name", [".", "index.json", "identity", "key-000"])
def test_wider_permissions_are_refused_with_advice(place, ring, clock, name):
    del ring
    path = place / name
    path.chmod(path.stat().st_mode | 0o040)
    with pytest.raises(KeyringError, match=r"chmod [67]00"):
        opened(place, clock).pair(0)


@pytest.mark.parametrize(
    ("owner", "mode", "where", "taken"),
    [
        (None, 0o440, "credentials", True),  # as systemd shows what its list allows the user
        (None, 0o400, "credentials", True),
        (None, 0o400, "elsewhere", True),
        (None, 0o440, "elsewhere", False),
        (None, 0o444, "credentials", False),
        (None, 0o460, "credentials", False),
        (-1, 0o440, "credentials", False),
    ],
)
def test_a_credential_that_systemd_hands_over_is_private(
    tmp_path, monkeypatch, owner, mode, where, taken
):
    monkeypatch.setattr(secrets, "_ROOT", os.getuid() if owner is None else owner)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "credentials"))
    path = tmp_path / where / "passphrase"
    path.parent.mkdir()
    path.write_bytes(b"sesame")
    path.chmod(mode)
    if taken:
        assert secrets.read_private(path) == b"sesame"
    else:
        with pytest.raises(KeyringError, match="is open to other users"):
            secrets.read_private(path)


def test_secrets_are_not_on_the_disk(place, clock):
    ring = made(place, clock, guarded())
    secrets = [ring.pair(0).raw, ring._secrets.identity().raw]
    stored = b"".join(path.read_bytes() for path in place.iterdir())
    for secret in secrets:
        assert secret not in stored
        assert secret.hex().encode() not in stored
    plain = made(place.with_name("plain"), clock)
    found = (plain.directory / "key-000").read_bytes()
    assert plain.pair(0).raw.hex().encode() in found


def test_the_wrong_passphrase_opens_nothing(place, clock):
    made(place, clock, guarded())
    with pytest.raises(KeyringError, match="not its passphrase"):
        opened(place, clock, guarded("correct house"))
    with pytest.raises(KeyringError, match="protected by passphrase, and none was given"):
        opened(place, clock)
    (place / "identity").unlink()  # kept elsewhere: a key's secret tells as well
    with pytest.raises(KeyringError, match="not its passphrase"):
        opened(place, clock, guarded("correct house"))


def test_scrypt_is_as_costly_as_its_file_says(place, clock):
    made(place, clock, guarded())
    stored = json.loads((place / "identity").read_bytes())
    assert stored["scrypt"]["n"] == 1 << LOWEST_COST
    # Made with the default cost, what was written with another still opens, and new files follow.
    ring = opened(place, clock, Protection.passphrase("correct horse"))
    ring.rotate()
    assert json.loads((place / "key-001").read_bytes())["scrypt"] == stored["scrypt"]


@pytest.mark.parametrize("n", [1, 1 << 30, 3000, "x", None])
def test_other_costs_are_not_even_tried(place, clock, n):
    made(place, clock, guarded())
    stored = json.loads((place / "identity").read_bytes())
    stored["scrypt"]["n"] = n
    secrets.write_private(place / "identity", json.dumps(stored, separators=(",", ":")).encode())
    with pytest.raises(DamagedKeyringError):
        opened(place, clock, guarded())


def test_a_key_file_opens_what_it_closed(place, clock, tmp_path):
    first, second, short = (tmp_path / name for name in ("first", "second", "short"))
    secrets.write_private(first, bytes(range(32)))
    secrets.write_private(second, bytes(range(1, 33)))
    secrets.write_private(short, bytes(31))
    made(place, clock, Protection.key_file(first))
    assert opened(place, clock, Protection.key_file(first)).pair(0)
    with pytest.raises(KeyringError, match="not its key file"):
        opened(place, clock, Protection.key_file(second))
    with pytest.raises(InvalidArgumentError, match="at least 32"):
        Protection.key_file(short)
    first.chmod(0o644)
    with pytest.raises(KeyringError, match="is open to other users"):
        Protection.key_file(first)


def test_secrets_do_not_stand_in_for_each_other(place, clock):
    ring = made(place, clock, guarded())
    ring.rotate()
    clock.advance(HOUR)
    content = (place / "key-000").read_bytes()
    secrets.write_private(place / "key-001", content)
    fresh = opened(place, clock, guarded())
    with pytest.raises(DamagedKeyringError, match="holds key 0"):
        fresh.pair(1)
    secrets.write_private(place / "key-001", content.replace(b"key 0", b"key 1"))
    with pytest.raises(KeyringError, match="cannot open"):
        fresh.pair(1)


def test_another_rings_secret_is_not_the_one_in_the_list(ring, place, clock, tmp_path):
    other = made(tmp_path / "other", clock)
    secrets.write_private(place / "key-000", (other.directory / "key-000").read_bytes())
    with pytest.raises(DamagedKeyringError, match="not the one in the list"):
        ring.pair(0)


def test_bad_arguments(place, clock):
    for wrong in (
        partial(made, place, clock, guarded(), "collector"),
        partial(made, place, clock, guarded(), suites=["rot13"]),
        partial(Protection.passphrase, ""),
        partial(Protection.passphrase, "x", cost=9),
    ):
        with pytest.raises(InvalidArgumentError):
            wrong()
    with pytest.raises(KeyringError, match="shoal keys new"):
        Keyring.open(place, protection=None)
    assert not place.exists()
    place.mkdir()
    (place / "note").write_text("mine")
    with pytest.raises(KeyringError, match="not empty"):
        made(place, clock, guarded())
    assert sorted(path.name for path in place.parent.iterdir()) == ["keys"]


def test_the_list_is_the_same_bytes_until_something_changes(ring, place, clock):
    first = ring.list().to_bytes()
    for _ in range(6):
        clock.advance(DAY)
        ring.tick()
        other = opened(place, clock, None)
        assert ring.list().to_bytes() == other.list().to_bytes() == first
    clock.advance(DAY)  # half of its fourteen days
    ring.tick()
    renewed = ring.list()
    assert renewed.to_bytes() != first
    assert renewed.valid_until == clock() + 14 * DAY
    ring.rotate()
    assert ring.list().to_bytes() != renewed.to_bytes()
    assert ring.list().issued > renewed.issued  # in the same second
    changed = ring.list().to_bytes()
    clock.advance(HOUR)
    assert ring.tick() == []
    assert states(ring) == {0: EXPIRED, 1: ACTIVE}
    assert ring.list().to_bytes() == changed  # that a key takes over was in it already


@pytest.mark.parametrize("days", [365, 8], ids=["next year", "next week, no key changes"])
def test_a_list_of_the_future_is_signed_again(ring, clock, days):
    clock.advance(days * DAY)
    ring.tick()
    clock.advance(-days * DAY)
    with pytest.raises(KeyringError, match="clock"):
        current(ring, clock)
    ring.tick()
    assert ring.list().issued == clock()
    assert current(ring, clock).number == 0


def test_rotation_never_leaves_a_device_without_a_key(ring, clock):
    """Two months, six hours at a time: keys handed out in the last days are accepted."""
    handed = []
    for _ in range(61 * 4):
        clock.advance(6 * HOUR)
        current(ring, clock)  # before anybody looked
        ring.tick()
        handed.append(current(ring, clock).number)
        assert all(ring.accepts(number) for number in set(handed[-13 * 4 :]))
    assert sorted(set(handed)) == [0, 1, 2]
    assert ring.gone() == {0}


def test_a_deleted_key_is_gone(ring, place, clock):
    ring.rotate()
    clock.advance(HOUR)
    ring.tick()
    secret = (place / "key-000").read_bytes()
    assert ring.pair(0).public.number == 0
    deleted = []
    for _ in range(13):
        clock.advance(DAY)
        deleted += ring.tick()
    clock.advance(DAY - 60)
    assert not ring.accepts(0)  # and yet it opens what it took
    assert ring.pair(0).public.number == 0
    clock.advance(60)
    deleted += ring.tick()
    assert [key.number for key in deleted] == [0]
    assert not ring.accepts(0)
    with pytest.raises(KeyGoneError, match="deleted"):
        ring.pair(0)
    assert 0 not in ring._pairs
    assert not (place / "key-000").exists()
    assert secret not in b"".join(path.read_bytes() for path in place.iterdir())
    assert [key.number for key in ring.list().keys] == [1]
    assert ring.tick() == []


def test_shredding_writes_over_the_file_itself(tmp_path):
    path, link = tmp_path / "secret", tmp_path / "link"
    path.write_bytes(b"secret" * 20)
    os.link(path, link)  # another name for the same bytes on the disk
    secrets.shred(path)
    assert not path.exists()
    assert len(link.read_bytes()) == 120
    assert b"secret" not in link.read_bytes()
    secrets.shred(path)


def test_pending_and_unknown_keys_open_nothing(ring, clock):
    ring.rotate()
    assert not ring.accepts(1)
    with pytest.raises(KeyGoneError, match="not in use before"):
        ring.pair(1)
    for number in (-1, 2, 255, 1000):
        assert not ring.accepts(number)
        with pytest.raises(KeyGoneError, match="never was"):
            ring.pair(number)
    clock.advance(HOUR - 300)  # a device's clock may be five minutes fast
    assert ring.accepts(1)
    assert ring.pair(1)


def test_a_full_ring_is_not_written_again_and_again(place, clock, tmp_path):
    first = made(place, clock)
    last = made(tmp_path / "last", clock, identity=first.directory / "identity", first_number=255)
    assert last.numbers_left == 0
    clock.advance(30 * DAY - HOUR)
    last.tick()
    stamp = last._seen
    clock.advance(60)
    assert last.tick() == []
    assert last._seen == stamp
    clock.advance(DAY)
    last.tick()
    assert current(last, clock).number == 255
    with pytest.raises(KeyringError, match="make a new key ring"):
        last.rotate()


def test_a_suite_must_be_named_where_there_are_two(place, clock):
    ring = made(place, clock, suites=SUITES)
    with pytest.raises(InvalidArgumentError, match="suite"):
        ring.rotate()
    planned = ring.planned_rotations()
    assert [plan.new.number for plan in planned] == [2, 3]
    assert [[key.number for key in plan.replaced] for plan in planned] == [[1], [0]]
    assert ring.numbers_left == 254
    new = ring.rotate(suite=SUITES[1])
    assert (new.number, new.suite, new.state) == (2, SUITES[1], PENDING)
    assert [key.number for key in ring.rotation(2).replaced] == [1]


def test_retiring(ring, clock):
    instead = ring.retire(0)
    assert instead.number == 1
    assert current(ring, clock).number == 1
    assert states(ring) == {0: EXPIRED, 1: ACTIVE}
    assert ring.accepts(0)
    assert ring.retire(1, delete=True).number == 2
    assert states(ring) == {0: EXPIRED, 2: ACTIVE}
    assert not ring.accepts(1)
    assert ring.gone() == {1}
    with pytest.raises(KeyGoneError):
        ring.retire(1)


def test_a_retired_key_has_all_of_its_time(ring, clock):
    clock.advance(5 * DAY)  # nobody looked
    ring.retire(0)
    assert ring.list().keys[0].deletes_at == clock() + 14 * DAY
    for _ in range(13):
        clock.advance(DAY)
        ring.tick()
    clock.advance(DAY - HOUR - 1)
    assert ring.accepts(0)


def test_a_locked_ring_tells_and_opens_nothing(ring, place, clock):
    front = opened(place, clock, None)
    assert front.list() == ring.list()
    assert front.accepts(0)
    with pytest.raises(KeyringError, match="locked"):
        front.pair(0)
    with pytest.raises(KeyringError, match="locked"):
        front.rotate()
    ring.rotate()
    clock.advance(HOUR)
    assert front.accepts(1)  # it noticed by itself
    assert not front.can_sign


def test_an_identity_kept_elsewhere(ring, place, clock, tmp_path):
    away = tmp_path / "identity"
    (place / "identity").rename(away)
    signed = ring.list().to_bytes()
    worker = opened(place, clock)
    with pytest.raises(KeyringError, match="--identity"):
        worker.rotate()
    with pytest.raises(KeyringError, match="no identity"):
        worker.retire(0)
    clock.advance(8 * DAY)
    worker.tick()
    assert worker.list().to_bytes() == signed
    visit = opened(place, clock, identity=away)
    assert visit.rotate().number == 1
    assert current(worker, clock).number == 0
    for _ in range(15):
        clock.advance(DAY)
        worker.tick()
    assert states(worker) == {0: KeyState.DELETED, 1: ACTIVE}
    assert not worker.accepts(0)
    assert not (place / "key-000").exists()
    visit.tick()  # and now the list says so
    assert states(worker) == {1: ACTIVE}
    other = made(tmp_path / "other", clock)
    with pytest.raises(DamagedKeyringError, match="another key ring"):
        opened(place, clock, identity=other.directory / "identity")


def test_secrets_that_are_lost_are_known_without_opening_any(place, clock):
    ring = made(place, clock, guarded())
    for _ in range(4):
        ring.rotate()
    locked = opened(place, clock, None)
    assert locked.lacking() == {}
    (place / "key-001").unlink()
    (place / "key-002").write_bytes(b"")
    (place / "key-003").write_bytes((place / "key-000").read_bytes())
    (place / "key-004").chmod(0o644)
    told = locked.lacking()
    assert {number: why.partition(" (")[0] for number, why in told.items()} == {
        1: "is gone",
        2: "is empty",
        3: "is damaged",
        4: "cannot be read",
    }
    with pytest.raises(KeyringError, match="the secret of key 1 is not in"):
        locked.check_secret(1)
    locked.check_secret(0)


def test_a_lost_secret_does_not_lock_the_others_up(ring, place, clock, tmp_path):
    """Not even where the identity, which is looked at first, is elsewhere."""
    ring.rotate()
    (place / "identity").rename(tmp_path / "identity")
    (place / "key-001").write_bytes(b"")
    assert opened(place, clock).pair(0)
    (place / "key-000").write_bytes(b"")
    with pytest.raises(KeyringError):
        opened(place, clock)


def test_what_is_left_of_a_lost_ring_goes_on(place, clock, tmp_path):
    lost = made(place, clock, guarded())
    lost.rotate()
    kept = tmp_path / "identity"
    (place / "identity").rename(kept)
    heir = made(tmp_path / "heir", clock, guarded(), identity=kept, first_number=2)
    assert heir.fingerprint == lost.fingerprint
    assert current(heir, clock).number == 2
    assert heir.rotate().number == 3
    for first in (0, 256):
        with pytest.raises(InvalidArgumentError, match="first_number"):
            Keyring.create(
                tmp_path / "more",
                role="shuffler",
                protection=guarded(),
                identity=kept,
                first_number=first,
            )


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda _: b"[]",
        lambda content: b"\xff" + content,
        lambda content: content[: len(content) // 2],
        lambda content: content.replace(b'"issued":18', b'"issued":17'),
        lambda content: content.replace(b'"active"', b'"asleep"'),
        lambda content: content.replace(b'"counted":0', b'"counted":"x"'),
        lambda content: content.replace(b'"pending":3600', b'"pending":0'),
        lambda content: content.replace(b'"version":1}', b'"version":2}'),
    ],
)
def test_a_damaged_index_is_noticed(ring, place, damage):
    content = (place / "index.json").read_bytes()
    assert damage(content) != content
    secrets.write_private(place / "index.json", damage(content))
    with pytest.raises(DamagedKeyringError, match="restore it from a backup"):
        ring.document()


# What other processes do; they share nothing but the directory.
HERE = "service.test_keyring_secrets"


def change(place, act, now):
    """The numbers of the keys that were made or deleted."""
    ring = Keyring.open(place, protection=Protection.none(), clock=lambda: now)
    changed = [ring.rotate()] if act == "rotate" else ring.tick()
    return [key.number for key in changed]


@pytest.fixture
def together(forks, place):
    def run(act, now, count=3):
        """The numbers that so many processes report, started at one moment."""
        asked = {"place": str(place), "act": act, "now": now}
        ended = forks.run(f"{HERE}.change", *[asked] * count)
        assert [status for status, _ in ended] == [0] * count
        return sorted(number for _, numbers in ended for number in numbers)

    return run


def test_processes_that_rotate_at_once_make_different_keys(ring, together):
    assert together("rotate", NOW) == [1, 2, 3]
    assert states(ring) == {0: ACTIVE} | dict.fromkeys([1, 2, 3], PENDING)


def succeeded(place, clock):
    """A ring whose first key is expired, and the second in use."""
    schedule = Schedule(believed=10**9)
    ring = made(place, clock, schedule=schedule)
    ring.rotate()
    clock.advance(HOUR)
    ring.tick()
    return ring


def test_of_processes_that_tick_at_once_one_deletes(place, clock, together):
    succeeded(place, clock)
    assert together("tick", clock() + 14 * DAY) == [0]
    assert not (place / "key-000").exists()


def test_threads_share_a_ring(ring):
    with ThreadPoolExecutor(4) as pool:
        numbers = [key.number for key in pool.map(lambda _: ring.rotate(), range(8))]
    assert sorted(numbers) == list(range(1, 9))


def test_a_lock_that_is_never_freed_is_reported(place, ring):
    del ring
    lock = place / "lock"
    with (
        secrets.locked(lock),
        pytest.raises(KeyringError, match="another process"),
        secrets.locked(lock, timeout=0.05),
    ):
        pass


def dying(place, moment, act, now):
    """A change that the process does not survive."""
    write, shred = secrets.write_private, secrets.shred

    def end():
        os.kill(os.getpid(), signal.SIGKILL)

    def dying_write(path, content):
        if moment == f"before-{path.name}":
            path.with_name(path.name + secrets.TEMPORARY).write_bytes(content[:40])
            end()
        write(path, content)
        if moment == f"after-{path.name}":
            end()

    def dying_shred(path):
        if moment == "before-shred" and path.exists():
            end()
        shred(path)
        if moment == "after-shred" and path.name.startswith("key-0") and path.suffix == "":
            end()

    for module in (keys, secrets):
        module.write_private, module.shred = dying_write, dying_shred
    change(place, act, now)


@pytest.fixture
def die(forks, place):
    def run(moment, act, now):
        """A process is killed in the middle of a change."""
        asked = {"place": str(place), "moment": moment, "act": act, "now": now}
        assert forks.run(f"{HERE}.dying", asked) == [(-signal.SIGKILL, None)]

    return run


@pytest.mark.parametrize("moment", ["before-key-001", "after-key-001", "before-index.json"])
def test_dying_while_rotating_loses_no_secret_and_no_number(ring, place, clock, die, moment):
    before = ring.list().to_bytes()
    die(moment, "rotate", NOW)
    kept = moment != "before-key-001"
    assert (place / "key-001").exists() is kept
    written = (place / "key-001").read_bytes() if kept else None
    survivor = opened(place, clock)
    assert survivor.list().to_bytes() == before
    assert survivor.rotate().number == 1  # the same, finished
    if kept:
        assert (place / "key-001").read_bytes() == written
    assert not list(place.glob("*.new"))
    clock.advance(HOUR)
    assert survivor.pair(1).public == current(survivor, clock)
    assert survivor.rotate().number == 2


def test_half_a_secret_is_shredded_by_the_next_change(ring, place, clock, die):
    die("before-key-001", "rotate", NOW)
    assert (place / "key-001.new").exists()
    clock.advance(7 * DAY)
    ring.tick()  # signs the list again, and makes no key
    assert [key.number for key in ring.list().keys] == [0]
    assert not (place / "key-001.new").exists()


def test_a_tick_finishes_a_rotation_that_died(ring, clock, die):
    die("after-key-001", "rotate", NOW)
    ring.tick()
    assert states(ring) == {0: ACTIVE, 1: PENDING}
    assert ring.pair(0)
    clock.advance(HOUR)
    assert ring.pair(1)


@pytest.mark.parametrize("moment", ["before-index.json", "after-index.json", "after-shred"])
def test_dying_while_deleting_is_finished_later(place, clock, die, moment):
    ring = succeeded(place, clock)
    clock.advance(14 * DAY)
    die(moment, "tick", clock())
    assert (place / "key-000").exists() is (moment != "after-shred")
    assert ring.accepts(1)
    ring.tick()
    assert not (place / "key-000").exists()
    assert not list(place.glob("*.new"))
    assert ring.gone() == {0}
    assert states(ring) == {1: ACTIVE}
    assert ring.rotate().number == 2


def test_a_disk_that_fails_changes_nothing(ring, monkeypatch):
    before = ring.list().to_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(KeyringError, match="No space left"):
        ring.rotate()
    monkeypatch.undo()
    assert ring.list().to_bytes() == before
    assert ring.rotate().number == 1
    assert ring.accepts(0)
