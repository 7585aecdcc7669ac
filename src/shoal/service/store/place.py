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

from shoal.service.errors import StoreVersionError
from shoal.service.store import files
from shoal.service.store.database import Database

FILE = "store-id"
_LONGEST = 100


def place_table(metadata: sa.MetaData) -> sa.Table:
    """The table with one row, in either tree."""
    return sa.Table(
        "store",
        metadata,
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("bound", sa.Boolean, nullable=False),
    )


@dataclass(frozen=True)
class Place:
    """A directory, and the database that says what is in it."""

    database: Database
    directory: Path
    table: sa.Table

    def settle(self, *, holds: bool, refers: bool) -> None:
        """Refuse a directory that is not this database's; make a new one its own.

        ``holds`` says whether the directory has files of a store, ``refers`` whether the database
        refers to any. Where neither has a name yet, both do or none does.
        """
        with self.database.read() as connection:
            row = connection.execute(sa.select(self.table)).one()
        with files.disk("reading the name of the store"):
            found = self._found()
        if found is None and not row.bound and holds == refers:
            self._write(row.id)
        elif found != row.id:
            raise self._refusal(found, useless=found is None and not row.bound and holds)
        if not row.bound:
            with self.database.write() as connection:
                connection.execute(self.table.update().values(bound=True))

    def check(self) -> None:
        """Refuse a directory that is not this database's any more: a disk may be gone.

        A database whose own files are gone is as little to be relied on, though it still answers.
        """
        with self.database.read() as connection:
            row = connection.execute(sa.select(self.table)).one()
        self.database.check_files("looking at the store")
        with files.disk("reading the name of the store"):
            found = self._found()
        if found != row.id:
            raise self._refusal(found)

    def _found(self) -> str | None:
        try:
            with (self.directory / FILE).open(encoding="utf-8", errors="replace") as file:
                return file.read(_LONGEST).strip()
        except FileNotFoundError:
            return None

    def _write(self, name: str) -> None:
        """Whole or not at all; two who do it at once write the same."""
        draft = self.directory / f"{FILE}.{files.fresh_name()}"
        with files.disk("naming the store"):
            files.write_durably(draft, f"{name}\n".encode())
            draft.replace(self.directory / FILE)
            files.sync_directory(self.directory)

    def _refusal(self, found: str | None, *, useless: bool = False) -> StoreVersionError:
        """``useless``: the directory has files, and the database would not need any of them."""
        what = f"a database that does not belong to {self.directory}"
        expected = "the one whose files are there"
        why = f"it has no {FILE} of this database" if found is None else f"its {FILE} is another's"
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
