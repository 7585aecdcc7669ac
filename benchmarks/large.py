"""What takes minutes, gigabytes of disk, and a machine that does nothing else.

A permutation of ten million records that does not fit into the memory it may use, and how much
quicker two processes open envelopes than one: that is a matter of the clock.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from result import Result

from shoal.randomness import secure
from shoal.sealing import SUITES, KeyPair, SurveyId
from shoal.service.opening import Pool
from shoal.service.shuffler.mixing import MEMORY, mix_records
from shoal.service.wire import Wire

RECORDS = 10**7
RECORD_BYTES = 112
LONGEST_MIX = 8.0  # processor seconds
LARGEST_MIX = 1000.0  # MB
REPORTS = 20_000
LEAST_SCALING = 0.9  # of twice as fast
_PIECE = 10**6  # records written at once


def everything() -> Iterator[Result]:
    """The permutation, then the processes."""
    yield from _permutation()
    yield from _scaling()


def _permutation() -> Iterator[Result]:
    heading = f"{RECORDS:.0e} records of {RECORD_BYTES} bytes mixed on disk and hashed"
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "records"
        with source.open("wb") as file:
            for _ in range(RECORDS // _PIECE):
                file.write(secure().words(_PIECE * RECORD_BYTES // 8).tobytes())
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_mix, args=(theirs, source))
        process.start()
        theirs.close()  # so that nobody waits for what a process that died would send
        seconds, megabytes = ours.recv()
        process.join()
    what = f"processor time, {MEMORY >> 20} MiB of memory"
    yield Result(heading=heading, what=what, value=seconds, unit="s", at_most=LONGEST_MIX)
    what = "memory of the whole process, at most"
    yield Result(heading=heading, what=what, value=megabytes, unit="MB", at_most=LARGEST_MIX)


def _mix(done: Connection, source: Path) -> None:
    """In a process of its own, whose memory is nobody else's."""
    began = time.process_time()
    with (source.parent / "mixed").open("wb") as mixed:
        mix_records(
            [source],
            mixed,
            record_bytes=RECORD_BYTES,
            scratch=source.parent,
            digest=hashlib.sha256(),
        )
    seconds = time.process_time() - began
    done.send((seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3))


def _scaling() -> Iterator[Result]:
    heading = f"{REPORTS} reports opened, outer layer, by the clock"
    wire = Wire(survey=SurveyId(bytes(32)), shapes=((1, 2),), token_bytes=0, suite=SUITES[0])
    shuffler, analyzer = (KeyPair.generate(number=number) for number in range(2))
    row = np.zeros((1, 2), dtype=np.uint8)
    report = wire.seal(row, analyzer=analyzer.public, shuffler=shuffler.public)
    body = report * REPORTS
    rates = {}
    for processes in (1, 2):
        with Pool(processes) as pool:
            pool.open_reports(wire, shuffler, body[: 4 * len(report)])  # they are started then
            began = time.perf_counter()
            pool.open_reports(wire, shuffler, body)
            rates[processes] = REPORTS / (time.perf_counter() - began) / 1e3
        what = f"{processes} process{'es' * (processes > 1)}"
        yield Result(heading=heading, what=what, value=rates[processes], unit="k/s")
    yield Result(
        heading=heading,
        what="two beside twice one",
        value=rates[2] / (2 * rates[1]),
        unit="x",
        at_least=LEAST_SCALING,
    )
