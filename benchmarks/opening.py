"""Envelopes opened per second, beside the cryptographic library alone; and records mixed."""

from __future__ import annotations

import hashlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from cryptography.exceptions import InvalidTag
from result import Result

from shoal.randomness import simulated
from shoal.sealing import SUITES, Envelope, KeyPair, SurveyId
from shoal.sealing.keys import by_name
from shoal.service.opening import Pool
from shoal.service.shuffler.mixing import mix_records
from shoal.service.wire import HEADER_BYTES, Wire

REPORTS = 1500
REPETITIONS = 7
LEAST_SHARE = 85.0  # percent of the library's rate
MIXED = 2 * 10**6
RECORD_BYTES = 62
LEAST_OPENED = 12.0  # thousand envelopes a second
LEAST_MIXED = 1.3  # million records a second
MEMORIES = {"in memory": 1 << 30, "on disk, 16 MiB of memory": 16 << 20}


def everything(*, idle: bool = False) -> Iterator[Result]:
    """Opening by both suites, then mixing.

    An ``idle`` machine has to keep the rate that is asked of the first suite, too; any machine
    has to come close to the library.
    """
    for suite in SUITES:
        collection = _Collection(suite)
        heading = f"one core, {suite} (median of {REPETITIONS})"
        least = LEAST_OPENED if idle and suite == SUITES[0] else None
        yield from _opened(heading, "reports, outer layer", collection.outer, least)
        yield from _opened(heading, "records, inner layer", collection.inner, least)
    yield from _mixing()


@dataclass(frozen=True)
class _Layer:
    """The same envelopes for Shoal and for the library."""

    ours: Callable[[], object]
    bare: Callable[[], object]
    size: int


@dataclass(frozen=True)
class _Collection:
    suite: str

    @cached_property
    def _wire(self) -> Wire:
        return Wire(survey=SurveyId(bytes(32)), shapes=((1, 2),), token_bytes=0, suite=self.suite)

    @cached_property
    def _pairs(self) -> tuple[KeyPair, KeyPair]:
        shuffler, analyzer = (KeyPair.generate(number=i, suite=self.suite) for i in range(2))
        return shuffler, analyzer

    @cached_property
    def _body(self) -> bytes:
        shuffler, analyzer = self._pairs
        rows = simulated(1).words(REPORTS).view(np.uint8).reshape(REPORTS, 1, 8)[:, :, :2]
        return b"".join(
            self._wire.seal(row, analyzer=analyzer.public, shuffler=shuffler.public) for row in rows
        )

    @property
    def outer(self) -> _Layer:
        pair, body, wire = self._pairs[0], self._body, self._wire
        return _layer(wire.outer, pair, body, lambda: Pool(0).open_reports(wire, pair, body))

    @property
    def inner(self) -> _Layer:
        shuffler, pair = self._pairs
        wire = self._wire
        body = Pool(0).open_reports(wire, shuffler, self._body).by_key[pair.public.number]
        return _layer(
            wire.sections[0].inner,
            pair,
            body,
            lambda: Pool(0).open_records(wire.sections[0], pair, body),
        )

    def noise(self) -> None:
        """The library opens nothing."""
        algorithms = by_name(self.suite)
        size, pair = self._wire.report_bytes - HEADER_BYTES, self._pairs[0]
        words = simulated(3).words(-(-REPORTS * size // 8)).tobytes()
        for start in range(0, REPORTS * size, size):
            with suppress(InvalidTag):
                algorithms.hpke.decrypt(words[start : start + size], pair.secret, info=b"")


def _layer(envelope: Envelope, pair: KeyPair, body: bytes, ours: Callable[[], object]) -> _Layer:
    """The library is given each ciphertext by itself, cut out beforehand, and the right info."""
    decrypt, secret = by_name(envelope.suite).hpke.decrypt, pair.secret
    purpose = f"shoal/1 {envelope.role}".encode() + b"\x00"
    info = purpose + envelope.survey.digest + bytes([pair.public.number])
    cut = range(0, len(body), envelope.size)
    sealed = [body[start + HEADER_BYTES : start + envelope.size] for start in cut]

    def library() -> None:
        for ciphertext in sealed:
            decrypt(ciphertext, secret, info=info)

    return _Layer(ours, library, len(sealed))


def _opened(heading: str, what: str, layer: _Layer, least: float | None) -> Iterator[Result]:
    """Both in turns, so that a busy machine disturbs both alike."""
    times = [(_seconds(layer.ours), _seconds(layer.bare)) for _ in range(REPETITIONS)]
    ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
    share = 100 * statistics.median(bare / ours for ours, bare in times)
    rate = layer.size / ours / 1e3
    yield Result(heading=heading, what=what, value=rate, unit="k/s", at_least=least)
    alone = f"{what}: the library alone"
    yield Result(heading=heading, what=alone, value=layer.size / theirs / 1e3, unit="k/s")
    what = f"{what}: share of its rate"
    yield Result(heading=heading, what=what, value=share, unit="%", at_least=LEAST_SHARE)


def rejecting() -> float:
    """Thousand forged reports that the library alone rejects in a processor second."""
    return REPORTS / _seconds(_Collection(SUITES[0]).noise) / 1e3


def _seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def _mixing() -> Iterator[Result]:
    heading = f"{MIXED:.0e} records of {RECORD_BYTES} bytes mixed and hashed (median of 3)"
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        source = directory / "records"
        source.write_bytes(simulated(2).words(MIXED * RECORD_BYTES // 8).tobytes())
        for what, memory in MEMORIES.items():
            speed = MIXED / _mixing_seconds(source, memory) / 1e6
            yield Result(heading=heading, what=what, value=speed, unit="M/s", at_least=LEAST_MIXED)


def _mixing_seconds(source: Path, memory: int) -> float:
    def run() -> None:
        with (source.parent / "mixed").open("wb") as mixed:
            mix_records(
                [source],
                mixed,
                record_bytes=RECORD_BYTES,
                memory=memory,
                scratch=source.parent,
                digest=hashlib.sha256(),
            )

    return statistics.median(_seconds(run) for _ in range(3))
