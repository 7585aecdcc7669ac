"""Surveys in files, and the fingerprints of parties from files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from shoal.errors import ShoalError
from shoal.sealing import MalformedError, SurveyId, parsed
from shoal.sealing.identity import LARGEST_CONFIGURATION
from shoal.service.keyring.key_list import Role, fingerprint
from shoal.service.keyring.keys import INDEX
from shoal.service.survey.complaints import complaint
from shoal.service.survey.survey import Survey

_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_KEY_BYTES = 32


class SurveyFileError(ShoalError):
    """A file that is not what it should be, or must not be written over."""


def read_survey(path: Path, name: str | None = None) -> Survey:
    """The survey in a file; with a name, only the one that has it."""
    try:
        survey = Survey.from_bytes(_bytes_of(path))
    except MalformedError as error:
        message = f"{complaint(error, str(path))}; ask for the original"
        raise SurveyFileError(message) from None
    if name is not None and SurveyId.from_text(name) != survey.id:
        raise SurveyFileError(f"{path} is another survey: its name is {survey.id}")
    return survey


def refuse_overwriting(path: Path, survey: Survey) -> None:
    """Refuse to write over another survey: its file is all there is of it."""
    if not path.exists():
        return
    data = _bytes_of(path)
    try:
        stored = parsed(data)
    except MalformedError:
        return
    if stored.get("kind") == "survey" and data != survey.to_bytes():
        raise SurveyFileError(f"{path} holds another survey: write to another file, or delete it")


def party_fingerprint(role: Role, key: str) -> str:
    """The fingerprint as it is, or from a file: itself, or the list of keys that it names.

    A directory stands for the list in it, or in its directory of keys.
    """
    if _FINGERPRINT.fullmatch(key):
        return key
    given = Path(key)
    path = next((p for p in (given, given / INDEX, given / "keys" / INDEX) if p.is_file()), None)
    if path is None:
        raise SurveyFileError(
            f"expected --{role}-key to be 64 hexadecimal digits or a file with them, or the "
            f"{role}'s list of keys (its directory of keys will do), got {key!r}"
        )
    data = _bytes_of(path)
    text = data.decode("ascii", errors="replace").strip()
    if _FINGERPRINT.fullmatch(text):
        return text
    try:
        document = parsed(data)
        public = bytes.fromhex(str(document.get("identity", "")))
    except (MalformedError, ValueError):
        document, public = {}, b""
    if len(public) != _KEY_BYTES:
        raise SurveyFileError(f"{path} holds neither a fingerprint nor a list of keys")
    listed = document.get("list")
    whose = listed.get("role", role) if isinstance(listed, Mapping) else role
    if whose != role:
        raise SurveyFileError(f"--{role}-key {path} has the keys of the {whose}, not of the {role}")
    return fingerprint(role, public)


def _bytes_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_CONFIGURATION + 1)
    except OSError as error:
        raise SurveyFileError(f"cannot read {path}: {error.strerror or error}") from error
