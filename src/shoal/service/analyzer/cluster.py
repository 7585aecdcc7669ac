"""Batches opened and counted by the executors of Spark, a range of records each.

An executor reads the batch and the analyzer's keys where it sees them: in a directory that is
mounted there. Neither a key nor a record is in a job's arguments, its plan or its log. What opens
the keys is in the executor's own environment, or in a file that it sees.

Executors hash all records first; the analyzer, who alone knows which were ever counted, says which
are to be opened; then executors open those, and return which of them count, and one vector of
counts for each task. A task that is repeated gives the same again: nothing here is random.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from shoal.engines import spark
from shoal.errors import EngineError, RefusedError
from shoal.mechanisms.base import Device
from shoal.sealing import KeyPair
from shoal.service.analyzer.decode import Cells, LocalRecords, Mask, Opened
from shoal.service.batch_file import BatchFile, BatchHeader
from shoal.service.keyring import Keyring, Protection
from shoal.service.keyring.secrets import VARIABLE, protection_kind, read_passphrase
from shoal.service.opening import TAG_BYTES, Pool, Rows
from shoal.service.survey import Survey
from shoal.service.wire import Section, Wire

KEYS = "keys"
RECORDS = 100_000  # of a task: some seconds of work
_SECRET_SETTING = f"spark.executorEnv.{VARIABLE}"
_TOGETHER = 1 << 28  # bytes that the driver receives of one job

_ADVICE = "executors need the analyzer's directory (--executor-dir) and its keys"

Work = Callable[[BatchFile, int, int], spark.Data]  # of a file, records from and up to


@dataclass(frozen=True)
class Mount:
    """The analyzer's directory as executors see it, and the files that open its keys."""

    directory: Path
    passphrase_file: Path | None = None
    key_file: Path | None = None

    def pair(self, fingerprint: str, number: int) -> KeyPair:
        """The key of this number, if the keys are those of the analyzer with this fingerprint."""
        keyring = _keyring(self)
        if keyring.fingerprint != fingerprint:
            expected = f"the keys in {self.directory / KEYS} are of {keyring.fingerprint}"
            raise RefusedError(f"{expected}, and not of the analyzer {fingerprint}")
        return keyring.pair(number)

    def protection(self) -> Protection:
        """What opens the keys, as they were made."""
        kind = protection_kind(self.directory / KEYS, None)
        if kind == "keyfile":
            if self.key_file is None:
                raise RefusedError("the keys are protected by a key file: give --key-file FILE")
            return Protection.key_file(self.key_file)
        if kind != "passphrase":
            return Protection.none()
        if self.passphrase_file is not None:
            return Protection.passphrase(read_passphrase(self.passphrase_file))
        if not os.environ.get(VARIABLE):
            raise RefusedError(f"no passphrase: set {VARIABLE} there, or give --passphrase-file")
        return Protection.passphrase(os.environ[VARIABLE])


@cache
def _keyring(mount: Mount) -> Keyring:
    """Once in a process: a passphrase takes its time."""
    return Keyring.open(mount.directory / KEYS, protection=mount.protection())


@dataclass(frozen=True)
class Cluster:
    """A session of Spark whose executors see the analyzer's ``directory`` at a mount."""

    session: Any
    directory: Path
    mount: Mount
    records_of_task: int = RECORDS

    def __post_init__(self) -> None:
        if self.session.conf.get(_SECRET_SETTING, None) is not None:
            reason = (
                f"the passphrase is in Spark's settings ({_SECRET_SETTING}), and Spark logs them"
            )
            advice = "set it in the executors' own environment, or give --passphrase-file"
            raise EngineError("Spark", reason, advice)
        with spark.translated():
            spark.require_executors(self.session)

    def records(
        self, survey: Survey, number: int, header: BatchHeader, path: Path
    ) -> ClusterRecords:
        """The records of a section of a batch file in the directory."""
        place = self.mount.directory / path.relative_to(self.directory)
        section, fingerprint = Wire.of(survey).sections[number], survey.analyzer.fingerprint
        opener = Opener(survey.devices[number], number, section, self.mount, fingerprint)
        return ClusterRecords(self.session, opener, header, place, self.records_of_task)


@dataclass(frozen=True)
class Opener:
    """What a task needs to open records: nothing of it is secret."""

    device: Device
    number: int
    section: Section
    mount: Mount
    fingerprint: str

    def tags(self, batch: BatchFile, start: int, stop: int) -> spark.Data:
        """The tags of a range, once it is known that its records can be opened here."""
        return (self._part(batch, start, stop).tags().tobytes(),)

    def opened(
        self, wanted: bytes, first: int, batch: BatchFile, start: int, stop: int
    ) -> spark.Data:
        """What counts of a range; ``wanted`` has a bit for every record from the ``first`` on."""
        bits = np.unpackbits(np.frombuffer(wanted, dtype=np.uint8))[start - first : stop - first]
        opened = self._part(batch, start, stop).opened(bits.astype(bool))
        flags = np.packbits(np.concatenate([opened.opens, opened.counts])).tobytes()
        cells = b"" if opened.cells is None else opened.cells.astype("<i8").tobytes()
        return zlib.compress(flags, 1), zlib.compress(cells, 1)

    def _part(self, batch: BatchFile, start: int, stop: int) -> LocalRecords:
        """A range, and what opens it here."""
        pair, size = self.mount.pair(self.fingerprint, batch.header.key), self.section.record_bytes
        body = batch.sections[self.number][start * size : stop * size]
        return LocalRecords(self.device, self.section, body, pair, Pool(0))


@dataclass(frozen=True, eq=False)
class ClusterRecords:
    """Records of a section of a batch file that executors see at ``path``."""

    session: Any
    opener: Opener
    header: BatchHeader
    path: Path
    of_task: int

    @property
    def records(self) -> int:
        """How many there are."""
        return self.header.sections[self.opener.number][0]

    def tags(self) -> Rows:
        """Of all records, in their order."""
        parts = [tags for tasks in self._jobs() for (tags,) in self._run(tasks, self.opener.tags)]
        return np.frombuffer(b"".join(parts), dtype=np.uint8).reshape(-1, TAG_BYTES)

    def opened(self, wanted: Mask) -> Opened:
        """Those that are wanted, a range each task."""
        opens_and_counts = np.zeros((2, len(wanted)), dtype=bool)
        total: Cells | None = None
        for tasks in self._jobs():
            first, last = tasks.start * self.of_task, tasks.stop * self.of_task
            bits = np.packbits(wanted[first:last]).tobytes()
            returned = self._run(tasks, partial(self.opener.opened, bits, first))
            for task, (packed, summed) in zip(tasks, returned, strict=True):
                part = opens_and_counts[:, task * self.of_task : (task + 1) * self.of_task]
                flags = np.frombuffer(zlib.decompress(packed), dtype=np.uint8)
                part[:] = np.unpackbits(flags, count=part.size).reshape(part.shape)
                cells = np.frombuffer(zlib.decompress(summed), dtype="<i8").astype(np.int64)
                if len(cells):
                    total = cells if total is None else total + cells
        opens, counts = opens_and_counts
        return Opened(opens, counts, total)

    def _jobs(self) -> Iterator[range]:
        """Ranges of tasks, of as many as the driver may receive hashes of at once.

        Counts are less: the answers of a survey fit into its document.
        """
        every = range(-(-self.records // self.of_task))
        together = max(1, _TOGETHER // (TAG_BYTES * self.of_task))
        return (every[start : start + together] for start in every[::together])

    def _run(self, tasks: range, work: Work) -> list[spark.Data]:
        """One job, a range of records each task; what they return, in the order of the records."""
        task = partial(_of_range, self.header, self.records, self.path, self.of_task, work)
        return spark.over_ranges(self.session, tasks, task, advice=_ADVICE)


def _of_range(
    header: BatchHeader, records: int, path: Path, size: int, work: Work, task: int
) -> Iterator[spark.Data]:
    """In a task: what is made of its records."""
    file = BatchFile.read(path)
    if file.header != header:
        raise RefusedError(f"{path} is another batch on the executor")
    yield work(file, task * size, min((task + 1) * size, records))
