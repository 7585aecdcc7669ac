"""``shoal keys``: the keys of a shuffler or an analyzer, from the first to the shredded."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.keys_secrets import Kind
from shoal.cli.options import choice, flag, option, whole
from shoal.cli.party_options import SECRETS, IdentityFile, KeyFile, PassphraseFile
from shoal.cli.render import working
from shoal.cli.survey_asked import Suite

if TYPE_CHECKING:
    from shoal.service.keyring import Keyring

_WHAT = "What keys"
_TIMES = "How long"
_LOST = "After a loss"
_OUT = "What to make of it"

keys = typer.Typer(help="Keys of a shuffler or an analyzer: make, rotate, retire, look at them.")


class Role(StrEnum):
    """Who opens with the keys."""

    SHUFFLER = "shuffler"
    ANALYZER = "analyzer"


Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The directory of the keys.")]
Ring = Annotated[
    Path, typer.Argument(metavar="DIR", help="The directory of the keys, or the one they are in.")
]
Chosen = Annotated[Suite | None, choice("Of these algorithms only.", _WHAT, Suite)]
Json = Annotated[bool, flag("--json", "Print JSON.", _OUT)]


@keys.callback()
def _keys() -> None:
    """Keys of a shuffler or an analyzer: make, rotate, retire, look at them."""


@keys.command()
def new(
    directory: Directory,
    *,
    role: Annotated[Role, choice("Who opens with them.", _WHAT, Role)],
    suite: Annotated[
        list[Suite] | None,
        choice("Algorithms of the surveys to come; may be repeated.", _WHAT, Suite),
    ] = None,
    protection: Annotated[
        Kind, choice("What protects secrets on the disk.", SECRETS, Kind)
    ] = Kind.PASSPHRASE,
    passphrase_file: PassphraseFile = None,
    key_file: Annotated[
        Path | None, option("With --protection keyfile; made if missing.", SECRETS, "FILE")
    ] = None,
    cost: Annotated[
        int | None, whole("Of guessing a passphrase, as a power of two; 17.", SECRETS)
    ] = None,
    active: Annotated[int, whole("Days that a key is handed out.", _TIMES)] = 30,
    expired: Annotated[
        int, whole("Days that it still opens; more than any batch waits.", _TIMES)
    ] = 14,
    listed: Annotated[
        int, whole("Days that a signed list is valid; more for an identity offline.", _TIMES)
    ] = 14,
    identity: Annotated[
        Path | None, option("Of a ring that was lost, to go on with its surveys.", _LOST, "FILE")
    ] = None,
    first_number: Annotated[
        int | None, whole("With --identity: above every number the lost ring had.", _LOST)
    ] = None,
    as_json: Json = False,
) -> None:
    """Make the keys of a new shuffler or analyzer, and print what surveys say of them."""
    from shoal.cli import keys_secrets, keys_show
    from shoal.service.keyring import Keyring, Schedule
    from shoal.service.keyring.schedule import DAY

    schedule = Schedule(active=active * DAY, expired=expired * DAY, listed=listed * DAY)
    chosen = suite or [Suite.X25519]
    guarded = keys_secrets.for_new(
        protection, passphrase_file=passphrase_file, key_file=key_file, cost=cost
    )
    with working("making keys"):
        heir_of = keys_secrets.inheritance(identity, first_number)
        ring = Keyring.create(
            directory,
            role=role.value,
            suites=tuple(item.value for item in chosen),
            protection=guarded,
            schedule=schedule,
            heir_of=heir_of,
        )
    keys_show.made(ring, protection, key_file, as_json=as_json)


@keys.command("list")
def listing(directory: Ring, *, as_json: Json = False) -> None:
    """Show the keys: states, ages, and what happens to each next. Needs no passphrase."""
    from shoal.cli import keys_show
    from shoal.service.keyring import Keyring

    keys_show.listed(Keyring.open(_place(directory), protection=None), as_json=as_json)


@keys.command()
def show(directory: Ring, *, as_json: Json = False) -> None:
    """Show the fingerprint, which goes into surveys. Needs no passphrase."""
    from shoal.cli import keys_show
    from shoal.service.keyring import Keyring

    keys_show.shown(Keyring.open(_place(directory), protection=None), as_json=as_json)


@keys.command()
def rotate(
    directory: Ring,
    *,
    suite: Chosen = None,
    dry_run: Annotated[bool, flag("--dry-run", "Only say what would happen.", _WHAT)] = False,
    passphrase_file: PassphraseFile = None,
    key_file: KeyFile = None,
    identity: IdentityFile = None,
    as_json: Json = False,
) -> None:
    """Make new keys that take over within the hour. A running service does so by itself in time."""
    from shoal.cli import keys_show
    from shoal.service.keyring import Keyring

    if dry_run:
        ring = Keyring.open(_place(directory), protection=None)
    else:
        ring = _opened(directory, passphrase_file, key_file, identity)
    suites = ring.suites if suite is None else (suite.value,)
    if dry_run:
        found = ring.planned_rotations(suites)
    else:
        numbers = [ring.rotate(suite=name).number for name in suites]
        found = tuple(ring.rotation(number) for number in numbers)
    keys_show.rotated(found, done=not dry_run, as_json=as_json)


@keys.command()
def retire(
    directory: Ring,
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="The number of the key.")],
    *,
    delete: Annotated[
        bool, flag("--delete", "Shred it now: what waits for it is lost.", _WHAT)
    ] = False,
    passphrase_file: PassphraseFile = None,
    key_file: KeyFile = None,
    identity: IdentityFile = None,
    as_json: Json = False,
) -> None:
    """Take a key out of use at once, because somebody else may have it."""
    from shoal.cli import keys_show

    ring = _opened(directory, passphrase_file, key_file, identity)
    instead = ring.retire(number, delete=delete)
    keys_show.retired(ring, number, instead, as_json=as_json)


def _place(directory: Path) -> Path:
    from shoal.service.running.places import ring_directory

    return ring_directory(directory)


def _opened(
    directory: Path, passphrase_file: Path | None, key_file: Path | None, identity: Path | None
) -> Keyring:
    from shoal.cli import keys_secrets
    from shoal.service.keyring import Keyring

    directory = _place(directory)
    guarded = keys_secrets.for_ring(
        directory, passphrase_file=passphrase_file, key_file=key_file, identity=identity
    )
    with working("opening the keys"):
        return Keyring.open(directory, protection=guarded, identity=identity)
