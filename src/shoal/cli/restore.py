"""``shoal restore``: a party as it was at a backup, made safe to go on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.app import printable
from shoal.cli.options import choice, flag, option, whole
from shoal.cli.party_options import IdentityFile, KeyFile, Migrate, PassphraseFile, Store
from shoal.cli.render import print_json, reporting
from shoal.service.running.waiting import Waiting

if TYPE_CHECKING:
    from shoal.service.keyring import Protection
    from shoal.service.running.backup import Restored

_WHAT = "What is restored"
_LOST = "After a loss"
_OUT = "What to make of it"


def restore(
    backup: Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")],
    *,
    to: Annotated[Path, option("A directory that is not there yet, or empty.", _WHAT, "DIR")],
    waiting: Annotated[
        Waiting | None,
        choice(
            "Of a shuffler: drop the reports that waited, because a batch may have been closed "
            "since the backup; or keep them, because none was.",
            _LOST,
            Waiting,
        ),
    ] = None,
    first_number: Annotated[
        int | None, whole("Of the next key; above every number that was used.", _LOST)
    ] = None,
    store: Store = None,
    migrate: Migrate = False,
    passphrase_file: PassphraseFile = None,
    key_file: KeyFile = None,
    identity: IdentityFile = None,
    as_json: Annotated[bool, flag("--json", "Print JSON.", _OUT)] = False,
) -> None:
    """Bring a shuffler or an analyzer back from a backup, into a directory of its own.

    Keys that should be deleted by now are deleted, and a new list is signed. The old directory
    must never be used again beside it.
    """
    from shoal.service.running.extras import need_party

    need_party("shoal restore", store)
    from shoal.cli import keys_secrets
    from shoal.service.running import backup as backups
    from shoal.service.running import home

    def unlock(keys: Path) -> Protection:
        return keys_secrets.for_ring(
            keys, passphrase_file=passphrase_file, key_file=key_file, identity=identity
        )

    home.private()
    asked = backups.Restoring(
        backup=backup,
        directory=to,
        unlock=unlock,
        store=store,
        waiting=waiting,
        identity=identity,
        first_number=first_number,
        migrate=migrate,
    )
    with reporting("restoring") as progress:
        done = backups.restore(asked, progress=progress)
    if as_json:
        print_json(done.to_dict())
        return
    for line in _told(done):
        typer.echo(line)


def _told(done: Restored) -> Iterator[str]:
    from shoal.explain.text import moment

    role = done.manifest.role
    yield f"the {role} of {moment(done.manifest.made)} UTC is in {done.directory}"
    for batch in done.kept:
        yield f"  batch {batch[:8]} goes on"
    for batch in done.dropped:
        yield f"  batch {batch[:8]} is given up, with all that waited for it"
    if done.revived is None:
        yield "  it has no keys: bring its identity, and make new ones with"
        words = f"--role {role} --identity FILE --first-number {done.next_number}"
        yield f"  shoal keys new {done.directory}/keys {words}"
    else:
        gone, new = _numbered(done.revived.deleted), _numbered(done.revived.made)
        yield f"  {gone} deleted; {new} new; the next one will be key {done.next_number}"
    if done.tokens:
        labels = ", ".join(printable(label) for label in done.tokens)
        yield f"  tokens count as they did then ({labels}): revoke again what was revoked since"
    yield {
        "shuffler": "next: shoal doctor, then start the worker, and the intake after it",
        "analyzer": "next: shoal doctor, then start it; compare with what was published since",
    }[role]


def _numbered(keys: Sequence[int]) -> str:
    if not keys:
        return "no key"
    return f"key{'s' * (len(keys) > 1)} {', '.join(map(str, keys))}"
