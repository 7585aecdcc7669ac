"""A whole collection on this machine: a directory, three processes, and what they published.

The directory is taken up again by the next run, with the same keys, survey, ports and results.

::

    DIR/up.json        the ports, so that the addresses in the survey stay right
    DIR/survey.json    the survey
    DIR/dashboard      the link that logs in to the dashboard
    DIR/shuffler/      the shuffler's keys, store and files
    DIR/analyzer/      the analyzer's, and the token it collects with
    DIR/people/        what invented people have sent, and have not (see ``ops.crowd``)
    DIR/up.unfinished  while it is made; whoever finds it there makes the rest

A directory with anything else in it is somebody else's, and is left as it is.

One person has both parties here, and their keys lie unprotected: this is for trying things out.
Whoever may read the directory can undo the shuffling; what is left then is the local epsilon.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.sealing import MalformedError
from shoal.service.analyzer.results import SurveyResults
from shoal.service.clock import Clock, system_clock
from shoal.service.http.server import LOOPBACK, CannotListenError, address, listen
from shoal.service.keyring import Keyring, Protection, Role
from shoal.service.keyring.key_list import ROLES
from shoal.service.keyring.secrets import TEMPORARY, write_private
from shoal.service.ops.children import Child, Children
from shoal.service.ops.crowd import Crowd
from shoal.service.ops.home import STORE_VARIABLE, Home, HomeError, analyzer_store, opened, private
from shoal.service.survey import Batches, Party, Survey
from shoal.service.survey.design import Design

STATE, SURVEY, TOKEN, DASHBOARD, PEOPLE = "up.json", "survey.json", "token", "dashboard", "people"
UNFINISHED = "up.unfinished"
VERSION = 1
DAY = 86_400
READY_WITHIN = 120.0
PUBLISHED_WITHIN = 120.0
_LARGEST_STATE = 4096
_LEAST_FRACTION = 0.8  # of the target, below which nothing is released
_PER_SECOND = 500  # reports, on a slow machine
_PAUSE = "0.2"
_TIMEOUT = 5.0


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is asked, how privately, and of how many people at a time."""

    question: str
    answers: tuple[str, ...]
    people: int
    epsilon: float = 1.0
    delta: float = 1e-6
    local_epsilon_cap: float = 4.0
    days: int = 30

    def __post_init__(self) -> None:
        checks.count(10, people=self.people)
        checks.count(days=self.days)
        if len(self.answers) < 2:
            raise InvalidArgumentError("answers", len(self.answers), "at least two answers")

    def survey(self, shuffler: Party, analyzer: Party, now: int) -> Survey:
        """A survey whose batches close at so many people, and never below most of them."""
        batches = Batches(
            minimum=max(2, int(_LEAST_FRACTION * self.people)), target=self.people, max_age=DAY
        )
        design = Design(
            epsilon=self.epsilon,
            delta=self.delta,
            batches=batches,
            categories=len(self.answers),
            local_epsilon_cap=self.local_epsilon_cap,
        )
        return design.survey(
            name="tried out with shoal up",
            question=self.question,
            purpose="To try Shoal out on one machine.",
            answers=self.answers,
            not_before=now - 60,
            not_after=now + self.days * DAY,
            shuffler=shuffler,
            analyzer=analyzer,
        )


@dataclass(frozen=True, kw_only=True)
class Ports:
    """Where the two parties listen."""

    shuffler: int
    analyzer: int


@dataclass(frozen=True, kw_only=True)
class Embedded:
    """A directory with both parties in it."""

    directory: Path

    def home(self, role: Role) -> Home:
        """One party's part of it. Neither looks into the other's."""
        return Home(directory=self.directory / role, role=role)

    @property
    def token(self) -> Path:
        """The file with the token that the analyzer collects with."""
        return self.directory / "analyzer" / TOKEN

    @property
    def login(self) -> Path:
        """The file with the link that logs in to the dashboard."""
        return self.directory / DASHBOARD

    def ports(self) -> Ports | None:
        """The ports of an earlier run, if there was one."""
        path = self.directory / STATE
        try:
            stored = json.loads(path.read_bytes()[:_LARGEST_STATE])
            if stored["version"] != VERSION:
                raise self._broken(path, f"version {stored['version']}")
            return Ports(shuffler=int(stored["shuffler"]), analyzer=int(stored["analyzer"]))
        except FileNotFoundError:
            return None
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise self._broken(path, type(error).__name__) from None

    def survey(self) -> Survey:
        """The survey of an earlier run."""
        path = self.directory / SURVEY
        try:
            return Survey.from_bytes(path.read_bytes())
        except (OSError, MalformedError) as error:
            raise self._broken(path, type(error).__name__) from None

    def _broken(self, path: Path, why: str) -> HomeError:
        advice = f"{path.name} was not written by shoal up: choose another directory"
        return HomeError(self.directory, why, advice)

    def refuse_others(self) -> None:
        """Refuse a directory with files that are not of ``shoal up``."""
        ours = {STATE, UNFINISHED, UNFINISHED + TEMPORARY}
        try:
            names = {path.name for path in self.directory.iterdir()}
        except FileNotFoundError:
            return
        except OSError as error:
            advice = "choose another directory"
            raise HomeError(self.directory, error.strerror or str(error), advice) from None
        if names and not names & ours:
            why = f"it has files that shoal up did not make ({min(names)})"
            raise HomeError(
                self.directory, why, "nothing was changed: choose a new directory, or an empty one"
            )

    def make(self, wanted: Wanted, ports: Ports, *, clock: Clock = system_clock) -> Survey:
        """Keys, survey, stores and token; the ports last, so that half a directory is made anew.

        Begins in a new or empty directory, or where that was begun before; nowhere else.
        """
        self.refuse_others()
        Home(directory=self.directory, role="shuffler").make()
        write_private(self.directory / UNFINISHED, b"")
        survey = wanted.survey(
            self._party("shuffler", ports.shuffler),
            self._party("analyzer", ports.analyzer),
            clock(),
        )
        write_private(self.directory / SURVEY, survey.to_bytes())
        with opened(self.home("analyzer"), migrate=True, clock=clock) as store:
            store.surveys.add(survey)
        with opened(self.home("shuffler"), migrate=True, clock=clock) as store:
            store.surveys.add(survey)
            token = store.tokens.add("up", survey.id, survey.not_after - clock() + 30 * DAY)
        write_private(self.token, f"{survey.id} {token}\n".encode())
        stored = {"version": VERSION, "shuffler": ports.shuffler, "analyzer": ports.analyzer}
        write_private(self.directory / STATE, json.dumps(stored).encode())
        (self.directory / UNFINISHED).unlink(missing_ok=True)
        return survey

    def _party(self, role: Role, port: int) -> Party:
        """A party with keys, which it may have already."""
        home, protection = self.home(role), Protection.none()
        home.make()
        if home.keys.exists():
            ring = Keyring.open(home.keys, protection=protection)
        else:
            ring = Keyring.create(home.keys, role=role, protection=protection)
        return Party(url=f"http://{LOOPBACK}:{port}", fingerprint=ring.fingerprint)

    def make_login(self, survey: Survey, *, clock: Clock = system_clock) -> None:
        """A token for the dashboard, in a link, unless there was one before.

        It is behind the ``#`` of the address: a browser keeps that part to itself.
        """
        if self.login.exists():
            return
        lifetime = max(DAY, survey.not_after - clock() + 30 * DAY)
        with opened(self.home("analyzer"), clock=clock) as store:
            token = store.tokens.add(DASHBOARD, None, lifetime)
        link = f"{survey.analyzer.url}/dashboard/login#{token}\n"
        write_private(self.login, link.encode())

    def bring_up_to_date(self) -> None:
        """The tables of a directory that an older version made."""
        for role in ROLES:
            self.home(role).database(migrate=True).close()


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """Where everything is reached."""

    shuffler: str
    analyzer: str
    dashboard: str
    metrics: dict[str, str]


class Local:
    """Both parties on this machine, as processes of their own."""

    def __init__(
        self, embedded: Embedded, survey: Survey, addresses: Addresses, children: Children
    ) -> None:
        self.directory = embedded.directory
        self.survey = survey
        self.addresses = addresses
        self.login = embedded.login
        self.page = f"{addresses.analyzer}/answer/{survey.id}"  # where people answer in a browser
        self.crowd = Crowd(survey, embedded.directory / PEOPLE)
        self._home = embedded.home("analyzer")
        self._children = children
        self._client = httpx.Client(timeout=_TIMEOUT, trust_env=False)

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
        timeout = PUBLISHED_WITHIN + self.survey.batches.target / _PER_SECOND
        self._children.until(lambda: self.published() > known, timeout, "publishing", pause=0.3)

    def check(self) -> None:
        """Start again what died."""
        self._children.check()

    def close(self) -> None:
        """Hang up; the services go on."""
        self._client.close()

    def results(self) -> SurveyResults:
        """All that was found so far, as the analyzer has it."""
        with closing(self._home.database()) as database:
            return analyzer_store(self._home, database).results.survey(self.survey.id)


@contextmanager
def running(
    directory: Path, wanted: Callable[[], Wanted], *, port: int | None = None
) -> Iterator[tuple[Local, bool]]:
    """Everything, and whether the directory was new; all of it ends with this.

    The sockets are opened here, so that a port that is taken is said before anything starts: the
    ports of before, or two in a row from ``port`` on, or any that are free.
    """
    private()
    embedded = Embedded(directory=directory)
    before = embedded.ports()
    embedded.refuse_others()
    ports = before or Ports(shuffler=port or 0, analyzer=port + 1 if port else 0)
    numbers = {"shuffler": ports.shuffler, "analyzer": ports.analyzer}
    numbers |= {f"{name} metrics": 0 for name in ("shuffler", "worker", "analyzer")}
    with ExitStack() as stack:
        try:
            sockets = {
                name: stack.enter_context(listen(LOOPBACK, number))
                for name, number in numbers.items()
            }
        except CannotListenError as error:
            if before is None:
                raise
            why = f"it is running already, or another program has its port {error.port}"
            advice = "stop that first, or choose another directory"
            raise HomeError(directory, why, advice) from None
        if before is None:
            shuffler, analyzer = (sockets[role].getsockname()[1] for role in ROLES)
            survey = embedded.make(wanted(), Ports(shuffler=shuffler, analyzer=analyzer))
        else:
            survey = embedded.survey()
            embedded.bring_up_to_date()
        embedded.make_login(survey)
        children = stack.enter_context(Children(_children(embedded, sockets), ordered=True))
        addresses = Addresses(
            shuffler=address(sockets["shuffler"]),
            analyzer=address(sockets["analyzer"]),
            dashboard=f"{address(sockets['analyzer'])}/dashboard",
            metrics={
                name: address(sockets[f"{name} metrics"])
                for name in ("shuffler", "worker", "analyzer")
            },
        )
        services = stack.enter_context(closing(Local(embedded, survey, addresses, children)))
        yield services, before is None


def _children(embedded: Embedded, sockets: dict[str, socket.socket]) -> list[Child]:
    """The three processes, each with the sockets that are its own."""

    def child(name: str, role: Role, *words: str) -> Child:
        directory = embedded.directory / role
        metrics = sockets[f"{name} metrics"].fileno()
        words = (*words, "--metrics-socket", str(metrics))
        descriptors: tuple[int, ...] = (metrics,)
        if name in sockets:
            own = sockets[name].fileno()
            words = (*words, "--socket", str(own))
            descriptors = (own, metrics)
        log = ("--log", str(directory / f"{name}.log"), "--with-parent")
        # Variables meant for other services do not reach these.
        return Child(
            name, ("serve", name, str(directory), *words, *log), descriptors, {STORE_VARIABLE: ""}
        )

    collecting = ("--public-results", "--shuffler-token", str(embedded.token))
    return [
        child("shuffler", "shuffler"),
        child("worker", "shuffler", "--pause", _PAUSE),
        child("analyzer", "analyzer", "--pause", _PAUSE, *collecting),
    ]
