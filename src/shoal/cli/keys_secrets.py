"""What opens a ring's secrets, as the command line is told: by file, by environment, by hand."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from shoal.cli.options import RefusedError

if TYPE_CHECKING:
    from shoal.service.keyring import Inheritance, Protection

VARIABLE = "SHOAL_PASSPHRASE"
_WAYS = f"set {VARIABLE}, or give --passphrase-file FILE, or run this at a terminal"


class Kind(StrEnum):
    """How secrets are protected."""

    PASSPHRASE = "passphrase"  # noqa: S105 - the word, not one
    KEYFILE = "keyfile"
    NONE = "none"


def for_new(
    kind: Kind, *, passphrase_file: Path | None, key_file: Path | None, cost: int | None
) -> Protection:
    """The protection of secrets that are about to be made; a key file is made too if need be."""
    from shoal.service.keyring import Protection

    _check(kind, passphrase_file, key_file)
    if kind is Kind.NONE:
        return Protection.none()
    if kind is Kind.KEYFILE:
        assert key_file is not None  # noqa: S101 - just checked
        if not key_file.exists():
            _write_key_file(key_file)
        return Protection.key_file(key_file)
    text = _passphrase(passphrase_file, new=True)
    return Protection.passphrase(text) if cost is None else Protection.passphrase(text, cost=cost)


def for_ring(
    directory: Path,
    *,
    passphrase_file: Path | None = None,
    key_file: Path | None = None,
    identity: Path | None = None,
) -> Protection:
    """The protection that a ring was made with."""
    from shoal.service.keyring import Protection
    from shoal.service.keyring.secret_files import protection_kind

    kind = Kind(protection_kind(directory, identity))
    _check(kind, passphrase_file, key_file)
    if kind is Kind.NONE:
        return Protection.none()
    if kind is Kind.KEYFILE:
        assert key_file is not None  # noqa: S101 - just checked
        return Protection.key_file(key_file)
    return Protection.passphrase(_passphrase(passphrase_file, new=False))


def inheritance(identity: Path | None, first_number: int | None) -> Inheritance | None:
    """What is left of a ring that was lost."""
    from shoal.service.keyring import Inheritance

    if identity is None and first_number is None:
        return None
    if identity is None or first_number is None:
        raise RefusedError(
            "--identity and --first-number go together: a number that the lost ring had must not "
            "be another key's"
        )
    return Inheritance(identity=identity, first_number=first_number)


def _check(kind: Kind, passphrase_file: Path | None, key_file: Path | None) -> None:
    if kind is Kind.KEYFILE and key_file is None:
        raise RefusedError("these keys are protected by a key file: give --key-file FILE")
    if kind is not Kind.KEYFILE and key_file is not None:
        raise RefusedError(f"--key-file does not go with keys protected by {kind.value}")
    if kind is not Kind.PASSPHRASE and passphrase_file is not None:
        raise RefusedError(f"--passphrase-file does not go with keys protected by {kind.value}")


def _passphrase(path: Path | None, *, new: bool) -> str:
    if path is not None:
        return _first_line(path)
    given = os.environ.get(VARIABLE)
    if given:
        return given
    if not sys.stdin.isatty():
        unprotected = ", or choose --protection none" if new else ""
        raise RefusedError(f"a passphrase is needed: {_WAYS}{unprotected}")
    asked: str = typer.prompt("Passphrase", hide_input=True, confirmation_prompt=new, err=True)
    return asked


def _first_line(path: Path) -> str:
    from shoal.service.keyring import files

    try:
        lines = files.read_private(path, known="the passphrase").decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise RefusedError(f"cannot read {path}: it is not text in UTF-8") from None
    if not lines or not lines[0]:
        raise RefusedError(f"cannot read {path}: its first line should be a passphrase")
    return lines[0]


def _write_key_file(path: Path) -> None:
    from shoal.service.keyring import files
    from shoal.service.keyring.identity import fresh_bytes
    from shoal.service.keyring.protection import SHORTEST_KEY_FILE

    files.write_private(path, fresh_bytes(SHORTEST_KEY_FILE))
