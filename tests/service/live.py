"""A whole collection in a directory: both parties, their stores, and real HTTP between them."""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread

import httpx
import numpy as np

import peers_kit
from factories import DAY, Half, example
from http_kit import BYTES
from shoal.mechanisms.response import RandomizedResponse
from shoal.randomness import simulated
from shoal.sealing import Envelope, KeyPair, NotOpenableError
from shoal.service.analyzer.app import AnalyzerPages, analyzer_app, no_pages
from shoal.service.analyzer.collect import AnalyzerWorker
from shoal.service.analyzer.source import HttpSource
from shoal.service.batch_file import BatchFile
from shoal.service.client import Client, Keys, Policy, Settings
from shoal.service.clock import ManualClock, system_clock
from shoal.service.http.limits import Limits
from shoal.service.http.server import address, background, listen
from shoal.service.keyring import KeyList
from shoal.service.opening import Pool
from shoal.service.shuffler.app import shuffler_app
from shoal.service.shuffler.intake import sorted_upload
from shoal.service.shuffler.key_list_fetcher import KeyListFetcher
from shoal.service.shuffler.worker import Pace, ShufflerWorker
from shoal.service.survey import Party, Survey
from shoal.service.wire import Wire

START = 1_800_000_000
HOUR = 3600
LIBERAL = Policy(
    local_epsilon=float("inf"),
    epsilon=float("inf"),
    delta=1.0,
    minimum=2,
    total_epsilon=float("inf"),
)
NOISE = 30.0  # a message is the answer itself, but for a chance of k e^-30
EAGER = Settings(tries=60, wait=0.005, longest_wait=0.02)


def survey_of(shuffler, analyzer, *, now, k=4, local_epsilon=3.0, minimum=60, target=60, **changes):
    """A survey with a promise that any crowd keeps, so that batches may be small."""
    given = {
        "name": "live",
        "device": RandomizedResponse(k=k, epsilon=local_epsilon),
        "answers": tuple(f"answer {number}" for number in range(k)),
        "epsilon": local_epsilon * 1.01,
        "minimum": minimum,
        "target": target,
    }
    parties = {"shuffler": shuffler, "analyzer": analyzer}
    return example(opens=now - DAY, days=366, **parties, **given | changes)


def telling(people, **changes):
    """A survey in which everybody has an answer of their own."""
    return {
        "k": people,
        "device": RandomizedResponse(k=people, epsilon=NOISE),
        "local_epsilon": NOISE,
    } | changes


def counted(service):
    """How often everybody is counted in what is published."""
    total = np.zeros(service.survey.device.k)
    for document in service.results():
        assert document["status"] == "published"
        total += np.round([row["count"] for row in document["estimates"]])
    return total


class _Unencrypted(httpx.AsyncBaseTransport):
    """Plain HTTP, a connection for every request: quick where there is no certificate to check."""

    async def handle_async_request(self, request):
        async with httpx.AsyncHTTPTransport(verify=False) as transport:
            answer = await transport.handle_async_request(request)
            body = await answer.aread()
        return httpx.Response(answer.status_code, headers=answer.headers, content=body)


class _Notarized(ShufflerWorker):
    """A worker that looks after the analyzer's keys in its steps, and not in a thread."""

    def __init__(self, fetcher, *given, **options):
        super().__init__(*given, **options)
        self._each_step = fetcher

    def step(self):
        self._each_step.step()
        return super().step()


@dataclass
class Live:
    """Both parties, listening; whoever sends or asks does so over HTTP."""

    directory: Path
    clock: object
    survey: Survey
    shuffler: Half
    analyzer: Half
    token: str
    http: httpx.Client
    closing: ExitStack = field(repr=False, default_factory=ExitStack)

    @property
    def wire(self):
        return Wire.of(self.survey)

    @property
    def path(self):
        return f"{self.survey.shuffler.url}/v1/surveys/{self.survey.id}"

    def keys(self):
        """The keys to seal with, fetched and verified as a device does."""
        found = {
            role: KeyList.verified(
                self.http.get(url).content,
                fingerprint=party.fingerprint,
                now=self.clock(),
                role=role,
            ).current(self.survey.suite, self.clock())
            for role, party, url in (
                ("shuffler", self.survey.shuffler, f"{self.survey.shuffler.url}/v1/keys"),
                ("analyzer", self.survey.analyzer, f"{self.path}/keys/analyzer"),
            )
        }
        return Keys(found["analyzer"], found["shuffler"])

    def post(self, reports):
        body = reports if isinstance(reports, bytes) else b"".join(reports)
        return self.http.post(f"{self.path}/reports", content=body, headers=BYTES)

    def client(self, name, settings=EAGER):
        """A person's device."""
        found = Client(
            self.directory / "devices" / name,
            policy=LIBERAL,
            settings=settings,
            clock=self.clock,
            transport=httpx.HTTPTransport(verify=False),  # nothing to load for what is not used
        )
        return self.closing.enter_context(found)

    def fetcher(self):
        return KeyListFetcher(self.shuffler.store, self.clock, transport=_Unencrypted())

    def shuffler_worker(self, **pace):
        return _Notarized(
            self.fetcher(),
            self.shuffler.store,
            self.shuffler.keyring,
            Pool(0),
            self.clock,
            pace=Pace(**({"upkeep": 3600, "gather": 0} | pace)),
        )

    def source(self, survey):
        return HttpSource(survey.shuffler.url, survey.id, lambda: self.token)

    def analyzer_worker(self):
        worker = AnalyzerWorker(
            self.analyzer.store, self.analyzer.keyring, self.source, Pool(0), clock=self.clock
        )
        return self.closing.enter_context(worker)

    def result(self, batch):
        """What everybody may read of a batch."""
        url = f"{self.survey.analyzer.url}/v1/surveys/{self.survey.id}/results/{batch}"
        return self.http.get(url).json()

    def results(self):
        """What everybody may read, of all batches."""
        url = f"{self.survey.analyzer.url}/v1/surveys/{self.survey.id}/results"
        return self.http.get(url).json()["batches"]


@contextmanager
def live(
    directory, *, clock=None, front=None, behind=None, schedule=None, pages=no_pages, **survey
):
    """Both parties on ports of their own; ``front`` is put before the shuffler's address.

    ``behind`` is put before the analyzer's. With ``pages``, the analyzer shows them, and results to
    who may read them.
    """
    clock = ManualClock(START) if clock is None else clock
    with ExitStack() as stack:
        sockets = {role: listen("127.0.0.1", 0) for role in ("shuffler", "analyzer")}
        halves = {
            role: Half(role, Path(directory) / role, clock, schedule=schedule) for role in sockets
        }
        for half in halves.values():
            stack.callback(half.close)
        urls = {role: address(listening) for role, listening in sockets.items()}
        for role, between in (("shuffler", front), ("analyzer", behind)):
            if between is not None:
                urls[role] = stack.enter_context(between(urls[role]))
        parties = {
            role: Party(url=urls[role], fingerprint=half.keyring.fingerprint)
            for role, half in halves.items()
        }
        found = survey_of(parties["shuffler"], parties["analyzer"], now=clock(), **survey)
        for half in halves.values():
            half.store.surveys.add(found)
        shuffler, analyzer = halves["shuffler"], halves["analyzer"]
        shown = AnalyzerPages(store=analyzer.store, keyring=analyzer.keyring, limits=Limits())
        apps = {
            "shuffler": shuffler_app(shuffler.store, shuffler.keyring, clock=clock),
            "analyzer": analyzer_app(
                analyzer.store,
                analyzer.keyring,
                public_results=pages is no_pages,
                pages=pages(shown),
            ),
        }
        for role, app in apps.items():
            stack.enter_context(background(app, sockets[role]))
        http = stack.enter_context(httpx.Client(timeout=60, trust_env=False))
        token = shuffler.store.tokens.add("test", found.id, 400 * DAY)
        made = Live(Path(directory), clock, found, shuffler, analyzer, token, http, stack)
        assert made.fetcher().step() == 1
        yield made


class Between:
    """A proxy that passes every request on; ``answer`` says what comes back, None: nothing does.

    ``upstream`` is whom it is for, who may move.
    """

    upstream: str

    def answer(self, request, pass_on):
        """``pass_on`` asks whom it was for."""
        return pass_on(request)

    @contextmanager
    def __call__(self, upstream):
        proxy, self.upstream = self, upstream

        def pass_on(request):
            kept = {
                name: value
                for name, value in request.headers.items()
                if name not in {"host", "connection", "content-length"}
            }
            return client.request(
                request.method, request.url, content=request.content, headers=kept
            )

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def respond(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                url, headers = proxy.upstream + self.path, dict(self.headers.items())
                asked = httpx.Request(self.command, url, content=body, headers=headers)
                answer = proxy.answer(asked, pass_on)
                if answer is None:
                    self.close_connection = True
                    return
                self.send_response(answer.status_code)
                for name in ("Content-Type", "Cache-Control", "Retry-After"):
                    if name in answer.headers:
                        self.send_header(name, answer.headers[name])
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

            do_GET = do_POST = respond  # noqa: N815 - as the library calls them

        with (
            httpx.Client(timeout=60, trust_env=False) as client,
            ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server,
        ):
            server.daemon_threads = True
            thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_address[1]}"
            finally:
                server.shutdown()
                thread.join(60)


class Lossy(Between):
    """A proxy that loses so many of a hundred answers."""

    def __init__(self, percent, seed=1):
        self.percent = percent
        self.lost = self.passed = 0
        self._lock, self._randomness = Lock(), simulated(seed)

    def answer(self, request, pass_on):
        answer = pass_on(request)
        with self._lock:
            lost = int(self._randomness.below(100, 1)[0]) < self.percent
            self.lost += lost
            self.passed += not lost
        return None if lost else answer


class Lying(Between):
    """A party that answers some paths as it is told to; what it was asked for is in ``asked``.

    What a path ends with, and a response, or what gives one from the request, as ``answer`` does.
    """

    def __init__(self):
        self.lies, self.asked = {}, []

    def answer(self, request, pass_on):
        self.asked.append(request)
        for path, lie in self.lies.items():
            if request.url.path.endswith(path):
                return lie(request, pass_on) if callable(lie) else lie
        return pass_on(request)

    def show(self, path, document):
        """Answer with these bytes, to be kept for an hour."""
        self.lies[path] = httpx.Response(
            200, content=document, headers={"cache-control": "max-age=3600"}
        )


def free_sealing(monkeypatch):
    """Sealing that keeps every rule and hides nothing, for statistics over many runs."""
    peers_kit.free_sealing(monkeypatch)

    def open_all(self, body, pair, *, details=b""):
        found = []
        for start in range(0, len(body), self.size):
            try:
                found.append(self.open(body[start : start + self.size], pair, details=details))
            except NotOpenableError:
                found.append(None)
        return found

    monkeypatch.setattr(Envelope, "open_all", open_all)


@contextmanager
def quick_directory():
    """A directory in memory where there is one: nobody pulls the plug of a statistic."""
    memory = Path("/dev/shm")  # noqa: S108 - a directory of a random name in it
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


class Batchwise:
    """The shuffler's store and worker, with many small batches on their way at once.

    A batch holds reports for one of the analyzer's keys, and numbers of keys are one byte: up to
    256 crowds are sent, opened, mixed and released together, and never meet.
    """

    def __init__(self, directory, people, **survey):
        self.half = Half("shuffler", directory, system_clock)
        party = Party(url="http://localhost:1", fingerprint=self.half.keyring.fingerprint)
        self.people = people
        self.survey = survey_of(
            party,
            replace(party, fingerprint="a" * 64),
            now=system_clock(),
            minimum=people,
            target=people,
            **survey,
        )
        self.half.store.surveys.add(self.survey)
        self.wire = Wire.of(self.survey)
        self.analyzers = [KeyPair.generate(number=number) for number in range(256)]
        self.shuffler = self.half.keyring.list().current(self.survey.suite, system_clock())
        # An analyzer with so many keys, whose list the shuffler has.
        self.half.store.key_lists.keys = lambda _fingerprint: frozenset(range(256))
        self.worker = ShufflerWorker(
            self.half.store, self.half.keyring, Pool(0), pace=Pace(upkeep=3600, gather=0)
        )

    def keys(self, crowd):
        return Keys(self.analyzers[crowd].public, self.shuffler)

    def receive(self, reports):
        """Reports as they come with a request."""
        upload = sorted_upload(
            b"".join(reports), wire=self.wire, accepts=self.half.keyring.accepts, most=10**6
        )
        assert not upload.refused
        self.half.store.reports.receive(upload.arrivals)

    def batches(self):
        """What there is for an analyzer once the shuffler has done all: crowd -> its messages.

        The files are read where they are, and are gone then.
        """
        while self.worker.step():
            pass
        found = {}
        for path in (self.half.directory / "batches").glob("*.batch"):
            batch = BatchFile.read(path.read_bytes())
            path.unlink()
            crowd = batch.header.key
            assert crowd not in found
            found[crowd] = self.wire.sections[0].inner.open_all(
                bytes(batch.body), self.analyzers[crowd]
            )
        return found

    def close(self):
        self.half.close()


# Processes


class Workers:
    """Two workers of either party as processes, which work when they are told to.

    They are forked from one that has imported everything and done nothing. Signals are files.
    """

    ROLES = ("shuffler", "shuffler", "analyzer", "analyzer")

    def __init__(self, service, forks):
        self._signals = service.directory / "signals"
        self._signals.mkdir()
        place = {"directory": str(service.directory), "token": service.token}
        asked = [place | {"number": each, "role": role} for each, role in enumerate(self.ROLES)]
        self._pool = ThreadPoolExecutor(1)
        self._ended = self._pool.submit(forks.run, "service.live.work", *asked)
        for number in range(len(self.ROLES)):
            self._wait(f"ready {number}")

    def _wait(self, name):
        while not (self._signals / name).exists():
            assert not self._ended.done(), "a worker died"
            time.sleep(0.01)

    def go(self):
        (self._signals / "go").touch()

    def finish(self):
        """Let the shuffler's finish, then the analyzer's; the batches that each of them did."""
        (self._signals / "stop shuffler").touch()
        for number in (0, 1):
            self._wait(f"done {number}")
        (self._signals / "stop analyzer").touch()
        ended = self._ended.result(60)
        assert [status for status, _ in ended] == [0] * len(self.ROLES)
        return [[batches for _, batches in ended[start : start + 2]] for start in (0, 2)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in ("go", "stop shuffler", "stop analyzer"):
            (self._signals / name).touch()
        self._pool.shutdown()


def _mix(half, stop, done):
    """Open and mix until told to stop, and then whatever is left."""
    worker = ShufflerWorker(half.store, half.keyring, Pool(0), pace=Pace(reports=7, gather=0))
    original = half.store.batches.finish

    def finish(batch, digest):
        original(batch, digest)
        done.append(batch.header.batch)

    half.store.batches.finish = finish
    stopped = False
    while not stopped:
        stopped = stop.exists()
        while worker.step():
            pass
        time.sleep(0.01)


def _collect(half, stop, done, token):
    def source(survey):
        return HttpSource(survey.shuffler.url, survey.id, lambda: token)

    with AnalyzerWorker(half.store, half.keyring, source, Pool(0)) as worker:
        stopped = False
        while not stopped:
            stopped = stop.exists()
            went_on = True
            while went_on:
                passes = worker.collect().values()
                done += [batch for passed in passes for batch in passed.published]
                went_on = any(passes)
            time.sleep(0.01)


def work(directory, token, number, role):
    """What a worker does; the batches that it did."""
    signals, done = Path(directory) / "signals", []
    half = Half(role, Path(directory) / role, system_clock)
    (signals / f"ready {number}").touch()
    while not (signals / "go").exists():
        time.sleep(0.005)
    stop = signals / f"stop {role}"
    if role == "shuffler":
        _mix(half, stop, done)
    else:
        _collect(half, stop, done, token)
    half.close()
    (signals / f"done {number}").touch()
    return done
