"""``shoal backup``: a party's directory and database in one file, while its service runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.options import RefusedError, flag, option
from shoal.cli.party_options import KEPT, Store
from shoal.cli.render import print_json, reporting

if TYPE_CHECKING:
    from shoal.service.running.backup import Made

_WHAT = "What to do"
_OUT = "What to make of it"


def backup(
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="The shuffler's or the analyzer's directory."),
    ] = None,
    *,
    to: Annotated[
        str | None,  # not a path, which forgets the slash at its end
        option(
            "A new file; or a directory, for one named by its time: with / at its end it is made.",
            _WHAT,
            "FILE|DIR/",
        ),
    ] = None,
    check: Annotated[
        Path | None, option("Only read a backup, and see that it is whole.", _WHAT, "FILE")
    ] = None,
    without_keys: Annotated[
        bool, flag("--without-keys", "Leave out the keys and the token.", KEPT)
    ] = False,
    store: Store = None,
    as_json: Annotated[bool, flag("--json", "Print JSON.", _OUT)] = False,
) -> None:
    """Copy a shuffler or an analyzer into one file, as of one moment, while it goes on working.

    Needs no passphrase: keys are copied as they are, encrypted. Nothing is overwritten.
    """
    _check_words(directory, to, check)
    from shoal.service.running.extras import need_party

    need_party("shoal backup", store)
    from shoal.service.running import backup as backups
    from shoal.service.running import home, registering

    home.private()
    if check is not None:
        with reporting("reading") as progress:
            found = backups.check(check, progress)
        _show(found, as_json=as_json, told="is whole")
        return
    assert directory is not None  # noqa: S101 - just checked
    assert to is not None  # noqa: S101 - just checked
    party = registering.home_of(directory, store)
    with reporting("backing up") as progress:
        made = backups.back_up(party, _target(to), keys=not without_keys, progress=progress)
    _show(made, as_json=as_json, told="is a backup")
    if made.manifest.keys and not as_json and _is_plain(party.keys):
        typer.echo("warning: the keys in it are in the clear, as they are in the directory")


def _target(to: str) -> Path:
    """Where to; what ends like a directory becomes one."""
    target = Path(to)
    if to.endswith("/"):
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RefusedError(
                f"cannot make the directory {to}: {error.strerror or error}; nothing was backed up"
            ) from None
    return target


def _check_words(directory: Path | None, to: str | None, check: Path | None) -> None:
    if check is not None and (directory is not None or to is not None):
        raise RefusedError("--check reads a backup: give neither DIR nor --to with it")
    if check is None and (directory is None or to is None):
        raise RefusedError("say of what and where to: shoal backup DIR --to FILE")


def _is_plain(keys: Path) -> bool:
    from shoal.service.keyring.secret_files import protection_kind

    return protection_kind(keys) == "none"


def _show(found: Made, *, as_json: bool, told: str) -> None:
    if as_json:
        print_json(found.to_dict())
        return
    from shoal.explain.text import moment

    listed = found.manifest
    typer.echo(f"{found.path} {told}")
    typer.echo(f"  of       the {listed.role} {listed.ring.fingerprint[:16]}…")
    typer.echo(f"  as of    {moment(listed.made)} UTC")
    typer.echo(f"  holds    {len(listed.entries):,} files, {listed.size:,} bytes")
    typer.echo(f"  keys     {'in it' if listed.keys else 'not in it'}")
    typer.echo(f"  digest   {listed.digest}")
