"""A database and a directory that belong together, and know it.

Files are deleted because the database does not mention them, and reports are given up because the
disk does not have them. Either is right only if the two are each other's: a wrong address, a
forgotten variable or a disk that is not mounted must not look like either. So the database has a
name, drawn when its tables were made, and the directory has a file with the same name.

The file is written once. Until that is known to have happened (``bound``), it may be missing; from
then on a directory without it is the wrong one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from shoal.service.db import files
from shoal.service.db.database import Database
from shoal.service.db.tables import store
from shoal.service.errors import StoreVersionError

FILE = "store-id"
_LONGEST = 100


@dataclass(frozen=True)
class StoreId:
    """A directory, and the database that says what is in it."""

    database: Database
    directory: Path

    def settle(self, *, holds: bool, refers: bool) -> None:
        """Refuse a directory that is not this database's; make a new one its own.

        ``holds`` says whether the directory has files of a store, ``refers`` whether the database
        refers to any. Where neither has a name yet, both do or none does.
        """
        name, label = self._names()
        bound = self.is_bound()
        if label is None and not bound and holds == refers:
            self._write(name)
        elif label != name:
            raise self._refusal(label, useless=label is None and not bound and holds)
        if not bound:
            with self.database.write() as connection:
                connection.execute(store.update().values(bound=True))

    def check(self) -> None:
        """Refuse a directory that is not this database's any more: a disk may be gone.

        A database whose own files are gone is as little to be relied on, though it still answers.
        """
        name, label = self._names()
        self.database.check_files("looking at the store")
        if label != name:
            raise self._refusal(label)

    def is_bound(self) -> bool:
        """Whether the directory was given the database's name."""
        with self.database.read() as connection:
            return bool(connection.scalar(sa.select(store.c.bound)))

    def _names(self) -> tuple[str, str | None]:
        """The database's name, and the one in the directory."""
        with self.database.read() as connection:
            name: str = connection.execute(sa.select(store.c.id)).scalar_one()
        with files.disk("reading the name of the store"):
            try:
                with (self.directory / FILE).open(encoding="utf-8", errors="replace") as file:
                    return name, file.read(_LONGEST).strip()
            except FileNotFoundError:
                return name, None

    def _write(self, name: str) -> None:
        """Whole or not at all; two who do it at once write the same."""
        draft = self.directory / f"{FILE}.{files.fresh_name()}"
        with files.disk("naming the store"):
            files.write_durably(draft, f"{name}\n".encode())
            draft.replace(self.directory / FILE)
            files.sync_directory(self.directory)

    def _refusal(self, label: str | None, *, useless: bool = False) -> StoreVersionError:
        """``useless``: the directory has files, and the database would not need any of them."""
        what = f"a database that does not belong to {self.directory}"
        expected = "the one whose files are there"
        why = f"it has no {FILE} of this database" if label is None else f"its {FILE} is another's"
        advice = (
            f"{why}: check --store and SHOAL_STORE, and that the right disk is mounted; "
            "nothing was changed"
        )
        if useless:
            advice += (
                "; if it is the right one, it needs no file in segments, parts and batches: "
                "move them elsewhere"
            )
        return StoreVersionError(what, expected, advice)
