"""Which directory is meant: a party's, that of its keys, or one of ``shoal up`` with both parties.

Needs nothing of the server, so that keys can be looked at where there is none.
"""

from __future__ import annotations

from pathlib import Path

from shoal.errors import ShoalError

KEYS = "keys"
_PARTIES = ("shuffler", "analyzer")


class BothPartiesError(ShoalError):
    """A directory with both parties in it, where one is meant."""

    def __init__(self, directory: Path) -> None:
        one, other = (directory / role for role in _PARTIES)
        super().__init__(
            f"{directory} is a directory of shoal up, with both parties in it; name one of them: "
            f"{one} or {other}"
        )


def has_both(directory: Path) -> bool:
    """Whether it is a directory of ``shoal up``."""
    parties = [directory / role / KEYS for role in _PARTIES]
    return not (directory / KEYS).exists() and all(keys.exists() for keys in parties)


def refuse_both(directory: Path) -> None:
    """Refuse a directory of ``shoal up``."""
    if has_both(directory):
        raise BothPartiesError(directory)


def ring_directory(directory: Path) -> Path:
    """Where the keys are, of their own directory or of the party's that they are in."""
    refuse_both(directory)
    below = directory / KEYS
    return below if below.is_dir() else directory
