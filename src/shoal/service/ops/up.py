"""A whole collection on this machine: a directory, three processes, and what they published.

The directory is taken up again by the next run, with the same keys, survey, ports and results.

::

    DIR/up.json        the ports, so that the addresses in the survey stay right
    DIR/survey.json    the survey
    DIR/invitations    those that nobody invented has: for whoever tries it out
    DIR/dashboard      the link that logs in to the dashboard
    DIR/shuffler/      the shuffler's keys, store and files
    DIR/analyzer/      the analyzer's, and the token it collects with
    DIR/people/        what invented people have sent, and have not
    DIR/up.unfinished  while it is made; whoever finds it there makes the rest

A directory with anything else in it is somebody else's, and is left as it is.

One person has both parties here, and their keys lie unprotected: this is for trying things out.
Whoever may read the directory can undo the shuffling; what is left then is the local epsilon.

Invented people answer the survey for real: randomized, sealed and sent over HTTP. A few answer one
by one, each with a client of their own, as devices do; the others are sent many at a time, as by
somebody who collected their answers otherwise. What they send is kept until it has arrived: whoever
is interrupted goes on, and nobody is drawn twice.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import httpx

from shoal import checks, randomness
from shoal.accounting.amplification import local_epsilon
from shoal.errors import RefusedError
from shoal.mechanisms.base import Device
from shoal.mechanisms.response import RandomizedResponse
from shoal.questions.kinds import Choice
from shoal.questions.terms import Limits
from shoal.sealing import MalformedError
from shoal.service.admission import Invitation, Invited
from shoal.service.analyzer.results import SurveyResults
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.client import Client, Policy, Queued, Settings
from shoal.service.clock import DAY, Clock, system_clock
from shoal.service.db.key_lists import KeyLists
from shoal.service.http.server import LOOPBACK, address, listen
from shoal.service.keyring import Keyring, Protection, Role
from shoal.service.keyring.key_list import ROLES
from shoal.service.keyring.secrets import TEMPORARY, write_private
from shoal.service.opening import executor
from shoal.service.ops.home import STORE_VARIABLE, Home, opened
from shoal.service.ops.processes import Child, Children
from shoal.service.shuffler.store import ShufflerStore
from shoal.service.survey import Batches, Party, Survey
from shoal.service.survey.design import Design
from shoal.service.survey.older import ANSWER

STATE, SURVEY, TOKEN, DASHBOARD, PEOPLE = "up.json", "survey.json", "token", "dashboard", "people"
UNFINISHED, INVITATIONS = "up.unfinished", "invitations"
VERSION = 1
READY_WITHIN = 120.0
PUBLISHED_WITHIN = 120.0
_LEAST_FRACTION = 0.8  # of the target, below which nothing is released
_LOCAL_EPSILON_CAP = 4.0
_DAYS = 30
_PER_SECOND = 500  # reports, on a slow machine
_PAUSE = "0.2"
_PROCESSES = ("shuffler", "worker", "analyzer")
_TIMEOUT = 5.0
SINGLY = 5
SPARE = 20  # invitations for people who are not invented
_CROWDS = 100  # of invented people, one after the other
_SEED = 2026
_STATE = "job.json"
_MANY = 50_000  # people, from which on sealing has processes of its own
# Invented people allow everything: the survey was made a moment ago, on their machine.
_POLICY = Policy(
    local_epsilon=float("inf"),
    epsilon=float("inf"),
    delta=1.0,
    minimum=2,
    total_epsilon=float("inf"),
    total_delta=float("inf"),
    total_local_epsilon=float("inf"),
)
_SETTINGS = Settings(tries=8, wait=0.2, longest_wait=5.0)

TrialSurvey = Callable[[Party, Party, int], Survey]  # of a shuffler and an analyzer, from now on


def trial_survey(
    shuffler: Party,
    analyzer: Party,
    now: int,
    *,
    question: str,
    answers: tuple[str, ...],
    people: int,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    randomizer: str | None = None,
) -> Survey:
    """A survey whose batches close at so many people, and never below most of them.

    Devices run randomized response with the least noise that keeps the promise, as of a few answers
    the planner recommends nothing else; or the ``randomizer`` that is named.
    """
    checks.refuse(len(answers) < 2, "at least two answers", answers=len(answers))
    minimum = max(2, int(_LEAST_FRACTION * people))
    device: Device | None = None
    if randomizer is None:
        response = partial(RandomizedResponse, k=len(answers))
        cap = _LOCAL_EPSILON_CAP
        local = local_epsilon(response, epsilon=epsilon, delta=delta, n=minimum, cap=cap)
        device = response(epsilon=local)
    design = Design(
        epsilon=epsilon,
        delta=delta,
        batches=Batches(minimum=minimum, target=people, max_age=DAY),
        admission=Invited(entitled=_CROWDS * people + SPARE, dishonest=0),
        questions=(Choice(ANSWER, answers, text=question, choose=randomizer),),
        limits=Limits(messages=math.inf),
        given=device,
    )
    return design.survey(
        name="tried out with shoal up",
        purpose="To try Shoal out on one machine.",
        not_before=now - 60,
        not_after=now + _DAYS * DAY,
        shuffler=shuffler,
        analyzer=analyzer,
    )


@dataclass(frozen=True, kw_only=True)
class Embedded:
    """A directory with both parties in it."""

    directory: Path

    def home(self, role: Role) -> Home:
        """One party's part of it. Neither looks into the other's."""
        return Home(directory=self.directory / role, role=role)

    def ports(self) -> dict[Role, int] | None:
        """The ports of an earlier run, if there was one."""
        path = self.directory / STATE
        try:
            stored = json.loads(path.read_bytes())
            if stored["version"] != VERSION:
                raise self._broken(path, f"version {stored['version']}")
            return {role: int(stored[role]) for role in ROLES}
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

    def _broken(self, path: Path, why: str) -> RefusedError:
        advice = f"{path.name} was not written by shoal up: choose another directory"
        return RefusedError(f"cannot use {self.directory}", why, advice)

    def make(
        self, design: TrialSurvey, ports: Mapping[Role, int], *, clock: Clock = system_clock
    ) -> Survey:
        """Keys, survey, stores and token; the ports last, so that half a directory is made anew.

        Begins in a new or empty directory, or where that was begun before; nowhere else.
        """
        urls = {role: f"http://{LOOPBACK}:{ports[role]}" for role in ROLES}
        # What no survey can be is refused before anything is written, keys included.
        shuffler, analyzer = (
            Party(url=url, fingerprint=f"{place:064x}") for place, url in enumerate(urls.values())
        )
        design(shuffler, analyzer, clock())
        Home(directory=self.directory, role="shuffler").make()
        names = {path.name for path in self.directory.iterdir()}
        if names and names.isdisjoint({STATE, UNFINISHED, UNFINISHED + TEMPORARY}):
            why = f"it has files that shoal up did not make ({min(names)})"
            advice = "nothing was changed: choose a new directory, or an empty one"
            raise RefusedError(f"cannot use {self.directory}", why, advice)
        write_private(self.directory / UNFINISHED, b"")
        parties: list[Party] = []
        for role in ROLES:  # each with keys, which it may have already
            home, protection = self.home(role), Protection.none()
            home.make()
            if home.keys.exists():
                ring = Keyring.open(home.keys, protection=protection)
            else:
                ring = Keyring.create(home.keys, role=role, protection=protection)
            parties.append(Party(url=urls[role], fingerprint=ring.fingerprint))
        shuffler, analyzer = parties
        survey = design(shuffler, analyzer, clock())
        write_private(self.directory / SURVEY, survey.to_bytes())
        with opened(self.home("analyzer"), migrate=True, clock=clock) as store:
            store.surveys.add(survey)
        with opened(self.home("shuffler"), migrate=True, clock=clock) as store:
            store.surveys.add(survey)
            token = store.tokens.add("up", survey.id, survey.not_after - clock() + 30 * DAY)
        write_private(self.directory / "analyzer" / TOKEN, f"{survey.id} {token}\n".encode())
        write_private(self.directory / STATE, json.dumps({"version": VERSION, **ports}).encode())
        (self.directory / UNFINISHED).unlink(missing_ok=True)
        return survey

    def make_login(self, survey: Survey, *, clock: Clock = system_clock) -> None:
        """A token for the dashboard, in a link, unless there was one before.

        It is behind the ``#`` of the address: a browser keeps that part to itself.
        """
        path = self.directory / DASHBOARD
        if path.exists():
            return
        lifetime = max(DAY, survey.not_after - clock() + 30 * DAY)
        with opened(self.home("analyzer"), clock=clock) as store:
            token = store.tokens.add(DASHBOARD, None, lifetime)
        link = f"{survey.analyzer.url}/dashboard/login#{token}\n"
        write_private(path, link.encode())

    def invited(self, survey: Survey, path: Path, people: int) -> list[Invitation] | None:
        """Invitations for so many people, as they are in a file or made now, and registered.

        None for a survey that anybody may answer, as an older version made it.
        """
        if not survey.admission.code_bytes:
            return None
        if not path.exists():
            lines = (f"{invitation}\n" for invitation in Invitation.draw(people))
            write_private(path, "".join(lines).encode())
        invitations = [Invitation.read(line) for line in path.read_text().splitlines()]
        hashes = [
            hashed
            for invitation in invitations
            for hashed in invitation.code_hashes(survey.id, survey.reports_per_person)
        ]
        with opened(self.home("shuffler")) as store:
            assert isinstance(store, ShufflerStore)  # noqa: S101 - of the shuffler's directory
            store.codes.add(survey.id, hashes)
        return invitations

    def bring_up_to_date(self) -> None:
        """The tables of a directory that an older version made."""
        for role in ROLES:
            self.home(role).database(migrate=True).close()


def _undelivered(where: str, waiting: int, why: str) -> RefusedError:
    what = f"{waiting:,} reports did not arrive at {where}"
    return RefusedError(what, why, "run the same command again, it keeps them")


def invented(survey: Survey, people: int) -> list[str]:
    """Made-up answers, earlier ones likelier: the same on every run. The reports are not."""
    weights = range(len(survey.answers) + 1, 1, -1)
    drawn = randomness.simulated(_SEED).weighted(weights, people)
    return [survey.answers[i] for i in drawn]


@dataclass(frozen=True, kw_only=True)
class Job:
    """So many invented people, the how-manieth such crowd, and whether all of them are through.

    ``before`` results were published when they began.
    """

    number: int
    people: int
    before: int
    finished: bool


@dataclass(frozen=True, kw_only=True)
class Local:
    """Both parties on this machine, as processes of their own, and people who answer.

    ``metrics`` has an address for each process. What people send is kept in ``people`` until it has
    arrived.
    """

    embedded: Embedded
    new: bool  # whether the directory was made for this
    survey: Survey
    metrics: dict[str, str]
    people: Path
    children: Children

    def wait_until_ready(self) -> None:
        """Return when both parties answer, and people can have the keys of both.

        The shuffler is not asked for its copy of the analyzer's before a worker has fetched it.
        """
        urls = [f"{each.url}/healthz" for each in (self.survey.shuffler, self.survey.analyzer)]
        with ExitStack() as stack:
            client = stack.enter_context(httpx.Client(timeout=_TIMEOUT, trust_env=False))
            database = stack.enter_context(closing(self.embedded.home("shuffler").database()))
            copies = KeyLists(database, system_clock)

            def ready() -> bool:
                try:
                    started = all(client.get(url).is_success for url in urls)
                except httpx.HTTPError:
                    return False
                copy = copies.find(self.survey.analyzer.fingerprint) if started else None
                return copy is not None and copy.is_usable(system_clock())

            self.children.until(ready, READY_WITHIN, "starting")

    def spare_invitations(self) -> list[Invitation]:
        """For people who are not invented; none if anybody may answer."""
        path = self.embedded.directory / INVITATIONS
        return self.embedded.invited(self.survey, path, SPARE) or []

    def results(self) -> SurveyResults:
        """All that was published so far, as the analyzer has it."""
        home = self.embedded.home("analyzer")
        with closing(home.database()) as database:
            store = AnalyzerStore(database, home.directory, system_clock)
            return store.results.survey(self.survey.id)

    def wait_for_more(self, known: int) -> None:
        """Return when more than ``known`` batches have a result."""
        timeout = PUBLISHED_WITHIN + self.survey.batches.target / _PER_SECOND
        more = "publishing"
        self.children.until(lambda: len(self.results().batches) > known, timeout, more, pause=0.3)

    def job(self) -> Job:
        """The crowd that answered last; it is not finished if it was interrupted."""
        try:
            return Job(**json.loads((self.people / _STATE).read_bytes()))
        except (OSError, ValueError, TypeError):
            return Job(number=0, people=0, before=0, finished=True)

    def begin(self, people: int, *, before: int) -> Job:
        """A new crowd, when so many results were published."""
        self.people.mkdir(mode=0o700, exist_ok=True)
        job = Job(number=self.job().number + 1, people=people, before=before, finished=False)
        write_private(self.people / _STATE, json.dumps(asdict(job)).encode())
        return job

    def send(self, job: Job, progress: Callable[[int, int], None]) -> None:
        """Everybody's report, until the shuffler has all of them."""
        answers = invented(self.survey, job.people)
        client = partial(Client, policy=_POLICY, settings=_SETTINGS)
        path = self.people / f"{job.number}.{INVITATIONS}"
        invitations = self.embedded.invited(self.survey, path, job.people)
        for person, answer in enumerate(answers[:SINGLY]):
            invitation = None if invitations is None else invitations[person]
            with client(self.people / f"{job.number}-{person}") as device:
                sent = device.report(self.survey, answer, invitation=invitation)
            if isinstance(sent, Queued):
                raise _undelivered(self.survey.shuffler.url, 1, sent.reason)
            progress(person + 1, job.people)
        many = answers[SINGLY:]
        processes = 1 if len(many) < _MANY else os.cpu_count() or 1
        with client(self.people / str(job.number)) as sender, executor(processes) as pool:
            delivery = sender.report_many(
                self.survey,
                many,
                job="simulated",
                invitations=None if invitations is None else invitations[SINGLY:],
                pool=pool,
                progress=lambda done, _: progress(SINGLY + done, job.people),
            )
        if not delivery.finished:
            raise _undelivered(self.survey.shuffler.url, delivery.waiting, delivery.reason)
        finished = replace(job, finished=True)
        write_private(self.people / _STATE, json.dumps(asdict(finished)).encode())


@contextmanager
def running(directory: Path, design: TrialSurvey, *, port: int | None = None) -> Iterator[Local]:
    """Everything; all of it ends with this.

    The sockets are opened here, so that a port that is taken is said before anything starts: the
    ports of before, or two in a row from ``port`` on, or any that are free.
    """
    os.umask(0o077)  # whatever is written is for this user alone
    embedded = Embedded(directory=directory)
    before = embedded.ports()
    ports = before or {"shuffler": port or 0, "analyzer": port + 1 if port else 0}
    numbers = [*ports.items(), *((f"{name} metrics", 0) for name in _PROCESSES)]
    with ExitStack() as stack:
        sockets = {}
        for name, number in numbers:
            try:
                sockets[name] = stack.enter_context(listen(LOOPBACK, number))
            except RefusedError:
                if before is None:
                    raise
                why = f"it is already running, or another program has its port {number}"
                advice = "stop that first, or choose another directory"
                raise RefusedError(f"cannot use {directory}", why, advice) from None
        if before is None:
            ports = {role: sockets[role].getsockname()[1] for role in ROLES}
            survey = embedded.make(design, ports)
        else:
            survey = embedded.survey()
            embedded.bring_up_to_date()
        embedded.make_login(survey)
        token = str(directory / "analyzer" / TOKEN)
        words: dict[str, tuple[str, ...]] = {
            "shuffler": (),
            "worker": ("--pause", _PAUSE),
            "analyzer": ("--pause", _PAUSE, "--public-results", "--shuffler-token", token),
        }
        children = []
        for name in _PROCESSES:
            place = directory / ("shuffler" if name == "worker" else name)
            log = ("--log", str(place / f"{name}.log"))
            own = {"--metrics-socket": sockets[f"{name} metrics"]}
            if name in sockets:
                own["--socket"] = sockets[name]
            # Variables meant for other services do not reach these.
            variables = {STORE_VARIABLE: ""}
            command = ("serve", name, str(place), *words[name], *log)
            children.append(Child(name, command, own, variables))
        yield Local(
            embedded=embedded,
            new=before is None,
            survey=survey,
            metrics={name: address(sockets[f"{name} metrics"]) for name in _PROCESSES},
            people=directory / PEOPLE,
            children=stack.enter_context(closing(Children(children, ordered=True))),
        )
