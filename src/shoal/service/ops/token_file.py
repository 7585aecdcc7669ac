"""The file with the tokens that an analyzer collects with, and the shufflers they are for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from shoal.errors import ShoalError
from shoal.service.analyzer.collection import Offer
from shoal.service.analyzer.source import (
    BatchSource,
    HttpSource,
    SourceUnavailableError,
    Timeouts,
    ask_for_token,
)
from shoal.service.keyring.secrets import exposed
from shoal.service.survey import Survey

_LARGEST = 1 << 16
_BOTH = 2  # words of a line that says whom its token is for
_DIGITS = re.compile(r"[0-9a-f]{4,64}")
_NONE = "there is no token for this survey"
_SEVERAL = (
    "the line that fits this survey fits surveys of another shuffler too, and a token is for one"
)
_TRIAL = 5.0  # seconds


class TokenFileError(ShoalError):
    """A file of tokens that cannot be used."""

    def __init__(self, path: Path, why: str, advice: str) -> None:
        super().__init__(f"cannot use the tokens in {path}: {why}; {advice}")


class NoTokenError(SourceUnavailableError):
    """A survey without a token of its shuffler's: nobody is asked."""

    word = "no_token"


@dataclass(frozen=True)
class TokenFile:
    """Lines with a token, and before it whom it is for; read when needed.

    That is a shuffler's address, or a survey's first digits. A line with a token alone is for
    every survey that has no line of its own. A token goes to one address only, or one shuffler
    would be handed what opens another's batches: a line that fits surveys of two shufflers is used
    for neither.
    """

    path: Path

    def check(self) -> None:
        """Refuse a file that is not there, that others may read, or without a token."""
        if not self._lines():
            advice = "put what shoal keys token printed into it"
            raise TokenFileError(self.path, "there is none", advice)

    def token(self, survey: Survey, known: Sequence[Survey]) -> str:
        """The token for a survey; ``known`` are all that there are."""
        lines = self._lines()
        own = [words for words in lines if len(words) == _BOTH and _fits(words[0], survey)]
        fitting = [*own, *(words for words in lines if len(words) == 1)]
        if not fitting:
            raise NoTokenError(survey.shuffler.url, _NONE, ask_for_token(survey.id))
        for words in fitting:
            meant = [each for each in known if len(words) == 1 or _fits(words[0], each)]
            if all(each.shuffler.url == survey.shuffler.url for each in meant):
                return words[-1]
        advice = f"write the shuffler's address before the token in {self.path}"
        raise NoTokenError(survey.shuffler.url, _SEVERAL, advice)

    def _lines(self) -> list[list[str]]:
        try:
            mode = exposed(self.path)
            if mode is not None:
                advice = f"run chmod 600 {self.path}, and make a new one if others could read it"
                raise TokenFileError(self.path, f"others may read it (mode {mode:04o})", advice)
            with self.path.open("rb") as file:
                text = file.read(_LARGEST).decode()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            advice = "shoal keys token prints one: put it into a file with mode 600"
            raise TokenFileError(self.path, str(why), advice) from None
        return [words for line in text.splitlines() if (words := line.split())]


def _fits(word: str, survey: Survey) -> bool:
    if _DIGITS.fullmatch(word):
        return str(survey.id).startswith(word)
    return word.rstrip("/") == survey.shuffler.url.rstrip("/")


@dataclass(frozen=True)
class _NoToken:
    """The shuffler of a survey that there is no token for: it says so, and the others go on."""

    why: SourceUnavailableError

    def offers(self) -> list[Offer]:
        raise self.why

    def fetch(self, batch: str, request: str) -> AbstractContextManager[Iterator[bytes]]:
        del batch, request

        @contextmanager
        def refused() -> Iterator[Iterator[bytes]]:
            raise self.why
            yield iter(())

        return refused()

    def acknowledge(self, batch: str, request: str, digest: str) -> None:
        del batch, request, digest
        raise self.why

    def keys(self) -> bytes | None:
        return None

    def close(self) -> None:
        """There is nothing to close."""


def sources(
    tokens: TokenFile, known: Callable[[], Sequence[Survey]], survey: Survey
) -> BatchSource:
    """Where the batches of a survey come from; ``known`` gives all surveys of this analyzer."""
    try:
        token = tokens.token(survey, known())
    except SourceUnavailableError as error:
        return _NoToken(error)
    return HttpSource(survey.shuffler.url, survey.id, token)


def try_token(tokens: TokenFile, known: Sequence[Survey], survey: Survey) -> None:
    """Refuse a token for which the shuffler of a survey gives no list of batches."""
    token = tokens.token(survey, known)
    timeouts = Timeouts(silence=_TRIAL, listing=_TRIAL)
    with closing(HttpSource(survey.shuffler.url, survey.id, token, timeouts=timeouts)) as source:
        source.check()
