"""Keys as people read them: what each is good for, since when, and what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.table import Table

from shoal.cli.keys_secrets import Kind
from shoal.cli.render import console, print_json
from shoal.explain.text import duration, moment
from shoal.service.keyring import KeyInfo, Keyring, Rotation
from shoal.service.keyring.schedule import CACHE_SECONDS, HOUR
from shoal.service.keyring.words import advice, coming

_LOSSES = {
    "shuffler": "who sent which inner envelope, which stays sealed for the analyzer",
    "analyzer": "randomized answers, and whose they are with the shuffler's help",
}


def made(ring: Keyring, kind: Kind, key_file: Path | None, *, as_json: bool) -> None:
    """What a new ring is, and what to do with it."""
    if as_json:
        print_json(_ring(ring) | {"protection": kind.value})
        return
    page = console()
    page.print(_rows(_summary(ring, kind.value)))
    if kind is Kind.NONE:
        page.print("warning: secrets are on the disk in the clear", style="yellow")
    elif kind is Kind.KEYFILE:
        page.print(f"keep {key_file} apart from {ring.directory}: together they open everything")
    else:
        page.print("keep the passphrase: without it these keys open nothing")
    page.print("put the fingerprint into surveys")
    page.print(f"keep a copy of {ring.directory}/identity elsewhere: surveys end without it")


def shown(ring: Keyring, *, as_json: bool) -> None:
    """What surveys say of the ring."""
    if as_json:
        print_json(_ring(ring))
        return
    console().print(_rows(_summary(ring, ring.protection)))


def listed(ring: Keyring, *, as_json: bool) -> None:
    """Every key that is not deleted."""
    now = ring.now()
    keys = ring.list().keys
    if as_json:
        print_json(_ring(ring) | {"keys": [_key(key) for key in keys], "warnings": advice(ring)})
        return
    page = console()
    page.print(_rows(_summary(ring, ring.protection)))
    page.print(_table(keys, now))
    for warning in advice(ring):
        page.print(f"warning: {warning}", style="yellow")


def rotated(plans: Sequence[Rotation], *, done: bool, as_json: bool) -> None:
    """What a rotation did, or would do."""
    if as_json:
        changes = [
            {"new": _key(plan.new, made=done), "replaced": [_key(key) for key in plan.replaced]}
            for plan in plans
        ]
        print_json({"done": done, "rotations": changes})
        return
    page = console()
    for plan in plans:
        new, will = plan.new, "will be" if done else "would be"
        page.print(
            f"key {new.number} ({new.suite}) {will} in use from {moment(new.active_from)} UTC"
        )
        for key in plan.replaced:
            until = f"opens until {moment(key.deletes_at)} UTC at least"
            page.print(
                f"key {key.number} {'expires' if done else 'would expire'} then, and {until}"
            )
    if not done:
        page.print("nothing was changed")


def retired(ring: Keyring, number: int, instead: KeyInfo, *, as_json: bool) -> None:
    """What retiring a key did, and what it costs."""
    left = next((key for key in ring.list().keys if key.number == number), None)
    if as_json:
        found = None if left is None else _key(left)
        print_json({"retired": number, "left": found, "instead": _key(instead)})
        return
    page = console()
    page.print(f"devices that fetch the list now seal with key {instead.number}")
    if left is None:
        page.print(f"key {number} is shredded: reports sealed with it that wait are lost")
    else:
        # The shuffler's copy of an analyzer's list is up to an hour old when a device takes it.
        hours = CACHE_SECONDS // HOUR + (ring.role == "analyzer")
        page.print(f"devices with an older list use key {number} for up to {hours} hours more;")
        page.print("reports that were sealed before and wait on a device are sent as they are;")
        page.print(f"what arrives is opened until {moment(left.deletes_at)} UTC at least")
        page.print("(--delete would end that now, and lose the reports that wait)")
    page.print(f"whoever has its secret and recorded reports learns {_LOSSES[ring.role]}")


def _table(keys: Sequence[KeyInfo], now: int) -> Table:
    shown = Table(box=box.HORIZONTALS)
    shown.add_column("key", justify="right")
    for name in ("suite", "state", "age", "next"):
        shown.add_column(name, no_wrap=name != "suite")
    for key in keys:
        age = duration(now - key.created)
        shown.add_row(str(key.number), key.suite, key.state.value, age, coming(key, now))
    return shown


def _summary(ring: Keyring, protection: str) -> list[tuple[str, str]]:
    found = ring.list()
    return [
        ("role", ring.role),
        ("fingerprint", ring.fingerprint),
        ("suites", ", ".join(ring.suites)),
        ("list until", f"{moment(found.valid_until)} UTC"),
        ("secrets", {"none": "not protected"}.get(protection, f"protected by a {protection}")),
    ]


def _rows(lines: list[tuple[str, str]]) -> Table:
    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True)
    rows.add_column()
    for label, text in lines:
        rows.add_row(label, text)
    return rows


def _ring(ring: Keyring) -> dict[str, object]:
    found = ring.list()
    return {
        "directory": str(ring.directory),
        "role": ring.role,
        "fingerprint": ring.fingerprint,
        "suites": list(ring.suites),
        "issued": found.issued,
        "valid_until": found.valid_until,
        "numbers_left": ring.numbers_left,
        "identity_here": ring.has_identity,
    }


def _key(key: KeyInfo, *, made: bool = True) -> dict[str, object]:
    values = key.published() | {"state": key.state.value}
    if not made:
        del values["public"]
    return dict(values)
