"""How a batch gets onto the disk: whole, and only if it is what it claims to be."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from shoal.sealing import MalformedError
from shoal.service.analyzer.collection import Collection
from shoal.service.analyzer.source import BatchSource
from shoal.service.batch_file import BatchFile
from shoal.service.db.files import create, disk, sync_data, sync_directory, write_all
from shoal.service.errors import DigestMismatchError, LeaseLostError, ServiceError
from shoal.service.survey import Survey
from shoal.service.wire import Wire

LARGEST = 16 << 30  # bytes of a batch that is fetched at all


class NoSpaceError(ServiceError):
    """A batch that the disk should not be filled with."""

    def __init__(self, batch: str, size: int, space: int) -> None:
        self.batch = batch
        self.size = size
        self.space = space
        super().__init__(
            f"batch {batch} has {size:,} bytes, and there is room for {space:,} (half of what is "
            f"free, at most {LARGEST:,}); make room, or ask the shuffler's operator"
        )


def path_of(directory: Path, collection: Collection) -> Path:
    """Where a batch is once it is on the disk."""
    return directory / f"{collection.survey}-{collection.batch}.batch"


def download(directory: Path, collection: Collection, source: BatchSource) -> Path:
    """Fetch a batch; what does not have the digest that was announced leaves nothing behind."""
    with disk("looking for space"):
        # Refuse before the first byte what would leave too little for everything else.
        space = min(shutil.disk_usage(directory).free // 2, LARGEST)
    if collection.size > space:
        raise NoSpaceError(collection.batch, collection.size, space)
    path = path_of(directory, collection)
    with disk("receiving a batch"):
        for left in directory.glob(f"{path.stem}.*"):  # by who died
            left.unlink(missing_ok=True)
        draft = path.with_suffix(f".{collection.owner}")
        file = create(draft)
        try:
            with source.fetch(collection.batch, collection.request) as pieces:
                digest = _written(file, pieces, collection.size)
            sync_data(file)
            if digest != collection.digest:
                raise DigestMismatchError(collection.batch, digest)
            try:
                draft.replace(path)
            except FileNotFoundError:  # somebody took this for dead
                raise LeaseLostError(f"batch {collection.batch}") from None
            sync_directory(directory)
        finally:
            os.close(file)
            draft.unlink(missing_ok=True)
    return path


def _written(file: int, pieces: Iterator[bytes], most: int) -> str:
    """The digest of what was written: of no more than was announced."""
    digest, length = sha256(), 0
    for piece in pieces:
        length += len(piece)
        if length > most:
            return "more bytes than were announced"
        digest.update(piece)
        write_all(file, [piece])
    return digest.hexdigest()


def checked(path: Path, collection: Collection, survey: Survey) -> BatchFile:
    """The batch in a file, if it is one of this survey and says no more than it holds."""
    with disk("reading a batch"):
        batch = BatchFile.read(path)
    wire, header = Wire.of(survey), batch.header
    _require(header.survey == survey.id, f"survey {survey.id}", header.survey)
    _require(header.batch == collection.batch, f"batch {collection.batch}", header.batch)
    bytes_each = wire.record_bytes
    _require(
        header.record_bytes == bytes_each, f"records of {bytes_each} bytes", header.record_bytes
    )
    ratio = f"{header.records} of {header.reports} reports"
    _require(
        header.records == header.reports * wire.slots, f"{wire.slots} records per report", ratio
    )
    return batch


def discard(path: Path) -> None:
    """Delete a batch that is not needed here any longer, if it is there."""
    with disk("deleting a batch"):
        path.unlink(missing_ok=True)


def _require(holds: bool, expected: str, got: object) -> None:  # noqa: FBT001 - a condition
    if not holds:
        raise MalformedError("the batch", f"{expected}, got {got}")
