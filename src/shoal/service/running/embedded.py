"""Everything of a small collection on this machine, in one directory that can be taken up again.

::

    DIR/up.json        the ports, so that the addresses in the survey stay right
    DIR/survey.json    the survey
    DIR/dashboard      the link that logs in to the dashboard
    DIR/shuffler/      the shuffler's keys, store and files
    DIR/analyzer/      the analyzer's, and the token it collects with
    DIR/up.unfinished  while it is made; whoever finds it there makes the rest

A directory with anything else in it is somebody else's, and is left as it is.

One person has both parties here, and their keys lie unprotected: this is for trying things out.
Whoever may read the directory can undo the shuffling; what is left then is the local epsilon.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.sealing import MalformedError
from shoal.service.clock import Clock, system_clock
from shoal.service.keyring import Keyring, Protection, Role
from shoal.service.keyring.key_list import ROLES
from shoal.service.keyring.secrets import TEMPORARY, write_private
from shoal.service.running.home import Home, HomeError
from shoal.service.running.registering import opened
from shoal.service.running.settings import LOCAL
from shoal.service.survey import Batches, Party, Survey
from shoal.service.survey.design import Design

STATE, SURVEY, TOKEN, DASHBOARD = "up.json", "survey.json", "token", "dashboard"
UNFINISHED = "up.unfinished"
VERSION = 1
DAY = 86_400
_LARGEST_STATE = 4096
_LEAST_SHARE = 0.8  # of the target, below which nothing is released


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
            minimum=max(2, int(_LEAST_SHARE * self.people)), target=self.people, max_age=DAY
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

    def ports(self) -> Ports | None:
        """The ports of an earlier run, if there was one."""
        path = self.directory / STATE
        try:
            stored = json.loads(path.read_bytes()[:_LARGEST_STATE])
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise _broken(self.directory, path, type(error).__name__) from None
        try:
            if stored["version"] != VERSION:
                raise _broken(self.directory, path, f"version {stored['version']}")
            return Ports(shuffler=int(stored["shuffler"]), analyzer=int(stored["analyzer"]))
        except (KeyError, TypeError, ValueError) as error:
            raise _broken(self.directory, path, type(error).__name__) from None

    def survey(self) -> Survey:
        """The survey of an earlier run."""
        path = self.directory / SURVEY
        try:
            return Survey.from_bytes(path.read_bytes())
        except (OSError, MalformedError) as error:
            raise _broken(self.directory, path, type(error).__name__) from None

    def make(self, wanted: Wanted, ports: Ports, *, clock: Clock = system_clock) -> Survey:
        """Keys, survey, stores and token; the ports last, so that half a directory is made anew."""
        self._claim()
        parties = {
            role: Party(url=f"http://{LOCAL}:{port}", fingerprint=self._fingerprint(role))
            for role, port in _by_role(ports)
        }
        survey = wanted.survey(parties["shuffler"], parties["analyzer"], clock())
        write_private(self.directory / SURVEY, survey.to_bytes())
        token = self._register(survey, clock)
        write_private(self.token, f"{survey.id} {token}\n".encode())
        stored = {"version": VERSION, "shuffler": ports.shuffler, "analyzer": ports.analyzer}
        write_private(self.directory / STATE, json.dumps(stored).encode())
        (self.directory / UNFINISHED).unlink(missing_ok=True)
        return survey

    def _claim(self) -> None:
        """Begin in a new or empty directory, or where that was begun before; nowhere else."""
        self.refuse_others()
        Home(directory=self.directory, role="shuffler").make()
        write_private(self.directory / UNFINISHED, b"")

    def refuse_others(self) -> None:
        """Refuse a directory with files that are not of ``shoal up``."""
        ours = {STATE, UNFINISHED, UNFINISHED + TEMPORARY}
        try:
            found = {path.name for path in self.directory.iterdir()}
        except FileNotFoundError:
            return
        except OSError as error:
            advice = "choose another directory"
            raise HomeError(self.directory, error.strerror or str(error), advice) from None
        if found and not found & ours:
            why = f"it has files that shoal up did not make ({min(found)})"
            raise HomeError(
                self.directory, why, "nothing was changed: choose a new directory, or an empty one"
            )

    @property
    def login(self) -> Path:
        """The file with the link that logs in to the dashboard."""
        return self.directory / DASHBOARD

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

    def _fingerprint(self, role: Role) -> str:
        home = self.home(role)
        home.make()
        protection = Protection.none()
        if home.keys.exists():
            return Keyring.open(home.keys, protection=protection).fingerprint
        return Keyring.create(home.keys, role=role, protection=protection).fingerprint

    def _register(self, survey: Survey, clock: Clock) -> str:
        """Tell both parties of the survey; the token for the analyzer."""
        with opened(self.home("analyzer"), migrate=True, clock=clock) as store:
            store.surveys.add(survey)
        lifetime = survey.not_after - clock() + 30 * DAY
        with opened(self.home("shuffler"), migrate=True, clock=clock) as store:
            store.surveys.add(survey)
            return store.tokens.add("up", survey.id, lifetime)


def _by_role(ports: Ports) -> tuple[tuple[Role, int], tuple[Role, int]]:
    return ("shuffler", ports.shuffler), ("analyzer", ports.analyzer)


def _broken(directory: Path, path: Path, why: str) -> HomeError:
    advice = f"{path.name} was not written by shoal up: choose another directory"
    return HomeError(directory, why, advice)
