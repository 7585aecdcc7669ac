"""Where batches come from: a shuffler, however it is reached."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

from shoal.sealing import SurveyId
from shoal.service.analyzer.collection import Offer
from shoal.service.errors import ServiceError

if TYPE_CHECKING:
    from shoal.service.store.shuffler import ShufflerStore

READY = frozenset({"SHUFFLED", "RELEASED"})
_PIECE = 1 << 20
_DIGITS = 16  # of a survey's name, that tell it from others
_FORBIDDEN = 403


class SourceUnavailableError(ServiceError):
    """The shuffler cannot be reached, or answers nothing that makes sense."""

    word = "unavailable"  # for the log, which has no sentences

    def __init__(self, where: str, reason: str, advice: str = "try again later") -> None:
        self.where = where
        self.reason = reason
        self.advice = advice
        super().__init__(f"no batches from {where}: {reason}; {advice}")


class TokenRefusedError(SourceUnavailableError):
    """The shuffler answers, and has nothing for whoever shows this token. Waiting does not help."""

    def __init__(self, where: str, survey: SurveyId, status: int, said: str) -> None:
        self.status = status
        self.word = "token_for_another_survey" if status == _FORBIDDEN else "token_not_valid"
        super().__init__(where, f"the token is refused ({said})", ask_for_token(survey))


def ask_for_token(survey: SurveyId) -> str:
    """What helps where there is no token for a survey."""
    return (
        "ask the shuffler's operator for a token for this survey "
        f"(shoal keys token DIR --survey {str(survey)[:_DIGITS]}), and put it into the token file"
    )


class BatchSource(Protocol):
    """A shuffler, for one survey."""

    def offers(self) -> list[Offer]:
        """All batches that can be collected now, also those that were asked for before."""

    def fetch(self, batch: str, request: str) -> AbstractContextManager[Iterator[bytes]]:
        """The bytes of a batch, in pieces; the same whenever the same request asks."""

    def acknowledge(self, batch: str, request: str, digest: str) -> None:
        """The batch has arrived, and need not be kept."""

    def keys(self) -> bytes | None:
        """The list of keys that the shuffler shows to everybody, if it shows one."""

    def close(self) -> None:
        """Close connections, if there are any."""


class DirectSource:
    """A shuffler's store in this process: for tests and simulations, where nobody is deceived."""

    def __init__(self, store: ShufflerStore, survey: SurveyId) -> None:
        self._store = store
        self._survey = survey

    def offers(self) -> list[Offer]:
        """All batches that can be collected now."""
        return [
            Offer(batch=found.id, digest=found.digest, size=found.bytes, key=found.inner_key)
            for found in self._store.batches(self._survey, None)
            if found.state in READY and found.digest and found.bytes
        ]

    @contextmanager
    def fetch(self, batch: str, request: str) -> Iterator[Iterator[bytes]]:
        """The bytes of a batch, in pieces."""
        with self._store.release(self._survey, batch, request).open("rb") as file:
            yield iter(lambda: file.read(_PIECE), b"")

    def acknowledge(self, batch: str, request: str, digest: str) -> None:
        """The batch has arrived."""
        self._store.acknowledge(self._survey, batch, request, digest)

    def keys(self) -> bytes | None:
        """None: nobody compares."""
        return None

    def close(self) -> None:
        """There is nothing to close."""
