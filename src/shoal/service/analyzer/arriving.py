"""How a batch gets onto the disk: whole, and only if it is what it claims to be."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

from shoal.sealing import MalformedError
from shoal.service.analyzer.collection import Collection
from shoal.service.analyzer.source import BatchSource
from shoal.service.batch_file import BatchFile, BatchHeader
from shoal.service.errors import DigestMismatchError, ServiceError
from shoal.service.store.files import create, disk, sync_data, sync_directory, write_all
from shoal.service.survey import Survey
from shoal.service.wire import Wire

LARGEST = 16 << 30  # bytes of a batch that is fetched at all


class NoRoomError(ServiceError):
    """A batch that the disk should not be filled with."""

    def __init__(self, batch: str, size: int, room: int) -> None:
        self.batch = batch
        self.size = size
        self.room = room
        super().__init__(
            f"batch {batch} has {size:,} bytes, and there is room for {room:,} (half of what is "
            f"free, at most {LARGEST:,}); make room, or ask the shuffler's operator"
        )


def arrived(directory: Path, held: Collection) -> Path:
    """Where a batch is once it is on the disk."""
    return directory / f"{held.survey}-{held.batch}.batch"


def arrive(
    directory: Path, held: Collection, source: BatchSource, alive: Callable[[], None]
) -> Path:
    """Fetch a batch; what does not have the digest that was announced leaves nothing behind."""
    _check_room(directory, held)
    path = arrived(directory, held)
    draft = path.with_suffix(f".{held.owner}")
    draft.unlink(missing_ok=True)
    try:
        with disk("receiving a batch"):
            file = create(draft)
            try:
                with source.fetch(held.batch, held.request) as pieces:
                    digest = _written(file, pieces, held.size, alive)
                sync_data(file)
            finally:
                os.close(file)
            if digest != held.digest:
                raise DigestMismatchError(held.batch, digest)
            draft.replace(path)
            sync_directory(directory)
    finally:
        draft.unlink(missing_ok=True)
    return path


def _check_room(directory: Path, held: Collection) -> None:
    """Refuse before the first byte what would leave too little for everything else."""
    with disk("looking for room"):
        room = min(shutil.disk_usage(directory).free // 2, LARGEST)
    if held.size > room:
        raise NoRoomError(held.batch, held.size, room)


def _written(file: int, pieces: Iterator[bytes], most: int, alive: Callable[[], None]) -> str:
    """The digest of what was written: of no more than was announced."""
    digest, length = sha256(), 0
    for piece in pieces:
        alive()
        length += len(piece)
        if length > most:
            return "more bytes than were announced"
        digest.update(piece)
        write_all(file, [piece])
    return digest.hexdigest()


def checked(path: Path, held: Collection, survey: Survey) -> BatchFile:
    """The batch in a file, if it is one of this survey and says no more than it holds."""
    with disk("reading a batch"):
        found = BatchFile.read(path)
    wire, header = Wire.of(survey), found.header
    _require(header.survey == survey.id, f"survey {survey.id}", header.survey)
    _require(header.batch == held.batch, f"batch {held.batch}", header.batch)
    bytes_each = wire.record_bytes
    _require(
        header.record_bytes == bytes_each, f"records of {bytes_each} bytes", header.record_bytes
    )
    expected = header.reports * wire.slots
    _require(header.records == expected, f"{wire.slots} records per report", _ratio(header))
    return found


def discard(path: Path) -> None:
    """Delete a batch that is not needed here any longer, if it is there."""
    with disk("deleting a batch"):
        path.unlink(missing_ok=True)


def _ratio(header: BatchHeader) -> str:
    return f"{header.records} of {header.reports} reports"


def _require(holds: bool, expected: str, got: object) -> None:  # noqa: FBT001 - a condition
    if not holds:
        raise MalformedError("the batch", f"{expected}, got {got}")
