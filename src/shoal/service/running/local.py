"""A whole collection on this machine: three processes, addresses, and what they published.

A directory that was used before is taken up again: the same keys, survey, ports and results.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from shoal.service.analyzer.results import SurveyResults, survey_results
from shoal.service.http.server import CannotListenError, address, listen
from shoal.service.running.children import Child, Children
from shoal.service.running.embedded import Embedded, Ports, Wanted
from shoal.service.running.home import STORE_VARIABLE, HomeError, private
from shoal.service.running.people import Crowd
from shoal.service.running.registering import analyzer_store
from shoal.service.running.settings import LOCAL
from shoal.service.survey import Survey

READY_WITHIN = 120.0
PUBLISHED_WITHIN = 120.0
_PER_SECOND = 500  # reports, on a slow machine
_PEOPLE = "people"
_PAUSE = "0.2"
_TIMEOUT = 5.0


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """Where everything is reached."""

    shuffler: str
    analyzer: str
    metrics: dict[str, str]

    @property
    def dashboard(self) -> str:
        """Where people look at it."""
        return f"{self.analyzer}/dashboard"


class Local:
    """Both parties on this machine, as processes of their own."""

    def __init__(
        self, embedded: Embedded, survey: Survey, addresses: Addresses, children: Children
    ) -> None:
        self.directory = embedded.directory
        self.survey = survey
        self.addresses = addresses
        self.login = embedded.login
        self.crowd = Crowd(survey, embedded.directory / _PEOPLE)
        self._children = children
        self._client = httpx.Client(timeout=_TIMEOUT, trust_env=False)

    @property
    def page(self) -> str:
        """Where people answer in a browser."""
        return f"{self.addresses.analyzer}/answer/{self.survey.id}"

    def wait_until_ready(self) -> None:
        """Return when all of them are up, and people can have the keys of both parties."""
        urls = [f"{place}/readyz" for place in self.addresses.metrics.values()]
        urls.append(f"{self.addresses.shuffler}/v1/surveys/{self.survey.id}/keys/analyzer")
        self._children.until(
            lambda: all(self._answers(url) for url in urls), READY_WITHIN, "starting"
        )

    def _answers(self, url: str) -> bool:
        try:
            return self._client.get(url).is_success
        except httpx.HTTPError:
            return False

    def published(self) -> int:
        """How many batches have a result by now."""
        url = f"{self.addresses.analyzer}/v1/surveys/{self.survey.id}/results"
        try:
            answer = self._client.get(url)
            answer.raise_for_status()
            return len(answer.json()["batches"])
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            return 0  # asked again in a moment

    def wait_for_more(self, known: int) -> None:
        """Return when more than ``known`` batches have a result."""
        patience = PUBLISHED_WITHIN + self.survey.batches.target / _PER_SECOND
        self._children.until(lambda: self.published() > known, patience, "publishing", pause=0.3)

    def check(self) -> None:
        """Start again what died."""
        self._children.check()

    def close(self) -> None:
        """Hang up; the services go on."""
        self._client.close()

    def results(self) -> SurveyResults:
        """All that was found so far, as the analyzer has it."""
        home = Embedded(directory=self.directory).home("analyzer")
        with closing(home.database()) as database:
            return survey_results(analyzer_store(home, database), self.survey.id)


@contextmanager
def running(
    directory: Path, wanted: Callable[[], Wanted], *, port: int | None = None
) -> Iterator[tuple[Local, bool]]:
    """Everything, and whether the directory was new; all of it ends with this."""
    private()
    embedded = Embedded(directory=directory)
    with ExitStack() as stack:
        before = embedded.ports()
        embedded.refuse_others()
        try:
            sockets = _opened(stack, before or _asked_for(port))
        except CannotListenError as error:
            if before is None:
                raise
            why = f"it is running already, or another program has its port {error.port}"
            raise HomeError(
                directory, why, "stop that first, or choose another directory"
            ) from None
        if before is None:
            ports = Ports(
                shuffler=sockets["shuffler"].getsockname()[1],
                analyzer=sockets["analyzer"].getsockname()[1],
            )
            survey = embedded.make(wanted(), ports)
        else:
            survey = embedded.survey()
            embedded.bring_up_to_date()
        embedded.make_login(survey)
        children = stack.enter_context(Children(_children(embedded, sockets), ordered=True))
        metrics = {
            role: address(sockets[f"{role} metrics"]) for role in ("shuffler", "worker", "analyzer")
        }
        addresses = Addresses(
            shuffler=address(sockets["shuffler"]),
            analyzer=address(sockets["analyzer"]),
            metrics=metrics,
        )
        services = stack.enter_context(closing(Local(embedded, survey, addresses, children)))
        yield services, before is None


def _asked_for(port: int | None) -> Ports:
    """Two ports in a row, or any that are free."""
    return Ports(shuffler=port or 0, analyzer=port + 1 if port else 0)


def _opened(stack: ExitStack, ports: Ports) -> dict[str, socket.socket]:
    """The sockets are opened here, so that a port that is taken is said before anything starts."""
    wanted = {
        "shuffler": ports.shuffler,
        "analyzer": ports.analyzer,
        "shuffler metrics": 0,
        "worker metrics": 0,
        "analyzer metrics": 0,
    }
    return {name: stack.enter_context(listen(LOCAL, number)) for name, number in wanted.items()}


def _children(embedded: Embedded, sockets: dict[str, socket.socket]) -> list[Child]:
    def child(name: str, role: str, *words: str) -> Child:
        home = embedded.directory / role
        own = [sockets[each] for each in (name, f"{name} metrics") if each in sockets]
        descriptors = tuple(each.fileno() for each in own)
        given = ["--metrics-socket", str(descriptors[-1])]
        if name in sockets:
            given += ["--socket", str(descriptors[0])]
        log = ["--log", str(home / f"{name}.log"), "--with-parent"]
        words = ("serve", name, str(home), *given, *log, *words)
        # Variables meant for other services do not reach these.
        return Child(name, words, descriptors, {STORE_VARIABLE: ""})

    token = str(embedded.token)
    return [
        child("shuffler", "shuffler"),
        child("worker", "shuffler", "--pause", _PAUSE),
        child(
            "analyzer",
            "analyzer",
            *("--pause", _PAUSE, "--public-results", "--shuffler-token", token),
        ),
    ]
