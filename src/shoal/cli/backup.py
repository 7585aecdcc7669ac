"""``shoal backup`` and ``shoal restore``: a party in one file, and brought back from it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from shoal.cli.app import OPERATE, app
from shoal.cli.options import Excludes, Options, Required, command, option
from shoal.cli.party import KEPT, MIGRATE, STORE, SecretOptions
from shoal.cli.render import answer, working
from shoal.errors import RefusedError

_WHAT = "What to do"
_RESTORED = "What is restored"
_LOST = "After a loss"


class BackupOptions(Options):
    """Of what, where to; or a backup to check."""

    directory: Path | None = option(
        "The shuffler's or the analyzer's directory.", name="DIR", default=None
    )
    to: str | None = option(
        "A new file, or a directory for a file named by the time; a directory "
        "that ends with / is created.",
        _WHAT,
        "FILE|DIR/",
    )
    verify: Path | None = option(
        "Only check that an existing backup is complete.", _WHAT, name="--check"
    )
    without_keys: bool = option("Leave the keys and the token out.", KEPT)
    with_waiting: bool = option(
        "Of a shuffler, to move it: with the reports of open batches, and those not opened yet. A "
        "series of such backups tells whose record is whose.",
        KEPT,
    )
    store: str | None = STORE

    rules = (
        Excludes("verify", ("directory", "to"), "--check reads a backup"),
        Required(
            "directory", "give a directory and a target: shoal backup DIR --to FILE", ("verify",)
        ),
        Required("to", "give a directory and a target: shoal backup DIR --to FILE", ("verify",)),
    )


@command(app, OPERATE, server="shoal backup")
def backup(options: BackupOptions) -> None:
    """Copy a shuffler or an analyzer into one file, as of one moment, while it keeps running.

    Needs no passphrase: keys are copied as they are, encrypted. Nothing is overwritten.
    """
    from shoal.service.ops import backup as backups
    from shoal.service.ops.home import home_of

    os.umask(0o077)  # whatever is written is for this user alone
    if options.directory is None or options.to is None:
        with working("reading") as progress:
            made = backups.check(options.verify or Path(), progress)
        document = made.document("is whole")
    else:
        party = home_of(options.directory, options.store)
        target = Path(options.to)
        if options.to.endswith("/"):
            try:
                target.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise RefusedError(
                    f"cannot make the directory {options.to}: {error.strerror or error}; nothing "
                    "was backed up"
                ) from None
        with working("backing up") as progress:
            made = backups.back_up(
                party,
                target,
                keys=not options.without_keys,
                waiting=options.with_waiting,
                progress=progress,
            )
        document = made.document("is a backup")
    answer(options, made, str(document))


class RestoreOptions(SecretOptions, Options):
    """Which backup, where to, and what is known of the loss."""

    backup: Path = option("The backup.", name="FILE")
    to: Path = option(
        "A directory that does not exist yet, or an empty one.",
        _RESTORED,
        "DIR",
        default=...,
        keyword="directory",
    )
    digest: str | None = option(
        "Digest of the backup, as shoal backup printed it: a backup that was changed is refused.",
        _RESTORED,
    )
    waiting: Literal["keep", "drop"] | None = option(
        "For a shuffler: drop the reports that were waiting, because a batch may have "
        "closed since the backup; or keep them, because none has.",
        _LOST,
    )
    first_number: int | None = option(
        "Number of the next key: higher than any number ever used.", _LOST
    )
    store: str | None = STORE
    migrate: bool = MIGRATE


@command(app, OPERATE, server="shoal restore")
def restore(options: RestoreOptions) -> None:
    """Restore a shuffler or an analyzer from a backup, into a new directory.

    Keys that should be deleted by now are deleted, and a new list is signed. Never use the old
    directory again.
    """
    from shoal.service.ops.restore import restore as bring_back

    os.umask(0o077)  # whatever is written is for this user alone
    with working("restoring") as progress:
        restored = bring_back(
            unlock=options.protection,
            progress=progress,
            **options.arguments(bring_back),
        )
    answer(options, restored, str(restored.document()))
