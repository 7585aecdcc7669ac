"""The shuffler keeps one copy of each analyzer's list of keys, and shows it to everybody."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from threading import Event, Thread

import httpx
import pytest
import sqlalchemy as sa

from client_kit import DAY, NOW, Owner
from factories import example
from http_kit import client_of, serving
from running_kit import wait_for
from service.stores import migrated_under_load
from service_site import Shuffler
from shoal.sealing import KeyPair
from shoal.service.clock import ManualClock
from shoal.service.db import Database
from shoal.service.db.key_lists import MOST_CONTRADICTIONS, KeyLists
from shoal.service.keyring import ContradictionError, KeyList, KeyListError
from shoal.service.keyring.key_list import Identity, unverified
from shoal.service.shuffler import tables as schema
from shoal.service.shuffler import worker as fetchers
from shoal.service.shuffler.store import ShufflerStore
from shoal.service.shuffler.worker import KeyListFetcher
from shoal.service.survey import Party


class Analyzer:
    """An analyzer at an address: what it answers, and how often it was asked."""

    def __init__(self):
        self.owner = Owner("analyzer")
        self.answer = None
        self.asked = []

    @property
    def party(self):
        return Party(url="https://analyzer.example", fingerprint=self.owner.fingerprint)

    def handle(self, request):
        self.asked.append(str(request.url))
        if callable(self.answer):
            return self.answer(request)
        return httpx.Response(
            200, content=self.owner.document() if self.answer is None else self.answer
        )

    @property
    def transport(self):
        return httpx.MockTransport(self.handle)


@pytest.fixture
def analyzer():
    return Analyzer()


@pytest.fixture
def shuffler(tmp_path, analyzer):
    made = Shuffler.alone(tmp_path / "shuffler", analyzer=analyzer.party)
    yield made
    made.close()


@pytest.fixture
def fetcher(shuffler, analyzer):
    return KeyListFetcher(shuffler.store, shuffler.clock, transport=analyzer.transport)


def personal(owner, number=0, issued=None):
    """A list with another key under a number, signed by the same identity."""
    mine = Owner(owner.role)
    mine.first = mine.newest = number
    mine.issued = owner.issued if issued is None else issued
    pair = KeyPair.generate(number=number)
    mine.pair = lambda _number: pair
    return mine.document(), pair


def shown(shuffler):
    """What a process of the shuffler that just started shows."""
    found = shuffler.store.key_lists.find(shuffler.survey.analyzer.fingerprint)
    return None if found is None else found.document


# ------------------------------------------------------------------------- what it is there for


# ---------------------------------------------------------------------------- over HTTP


def test_devices_wait_until_there_is_a_copy(shuffler, analyzer, fetcher):
    path = f"{shuffler.path}/keys/analyzer"
    with serving(shuffler.app()) as url, client_of(url) as client:
        waiting = client.get(path)
        assert (waiting.status_code, waiting.json()["type"][-11:]) == (503, "no_keys_yet")
        assert int(waiting.headers["retry-after"]) > 0
        assert fetcher.step() == 1
        found = client.get(path)
        assert found.content == analyzer.owner.document()
        assert found.headers["content-type"] == "application/json"
        own = client.get("/v1/keys")
        assert found.headers["cache-control"] == own.headers["cache-control"]
        assert client.head(path).status_code == 200
        assert client.get(f"/v1/surveys/{'0' * 64}/keys/analyzer").status_code == 404
        shuffler.clock.advance(301 * DAY)  # the signature has ended
        assert client.get(path).status_code == 503


# ------------------------------------------------------------------------- which lists count


def test_a_newer_list_takes_the_place_of_an_older_one(shuffler, analyzer, fetcher):
    assert fetcher.step() == 1
    old = analyzer.owner.document()
    analyzer.owner.rotate()
    assert fetcher.step() == 0  # it was asked a moment ago
    assert shown(shuffler) == old
    shuffler.clock.advance(3600)
    assert fetcher.step() == 1
    new = analyzer.owner.document()
    assert shown(shuffler) == new
    analyzer.answer = old
    shuffler.clock.advance(3600)
    assert fetcher.step() == 0
    assert shown(shuffler) == new
    assert shuffler.store.key_lists.contradictions() == []
    assert shuffler.store.key_lists.keys(analyzer.owner.fingerprint) == {0, 1}


def test_two_lists_of_one_moment_convict_the_analyzer(shuffler, analyzer, fetcher, caplog):
    fetcher.step()
    known = analyzer.owner.document()
    # The same keys, and only valid for longer: still two documents.
    changed = unverified(known)
    analyzer.answer = KeyList.signed(
        analyzer.owner.identity,
        changed.keys,
        issued=changed.issued,
        valid_until=changed.valid_until + 1,
    ).to_bytes()
    shuffler.clock.advance(3600)
    assert fetcher.step() == 0
    assert shown(shuffler) == known
    (found,) = shuffler.store.key_lists.contradictions()
    assert "two different lists" in found.reason
    assert (found.known, found.document) == (known, analyzer.answer)
    for document in (found.known, found.document):
        proof = KeyList.verified(document, fingerprint=found.fingerprint, now=NOW, role="analyzer")
        assert proof.issued == analyzer.owner.issued
    assert [record.message for record in caplog.records] == ["contradicting_keys"]
    analyzer.answer = None
    analyzer.owner.rotate()
    shuffler.clock.advance(3600)
    assert fetcher.step() == 1  # an honest list goes on; what was found stays
    assert len(shuffler.store.key_lists.contradictions()) == 1


def test_a_number_is_never_another_key(shuffler, analyzer, fetcher):
    fetcher.step()
    analyzer.owner.rotate()  # key 0 is not listed any more
    shuffler.clock.advance(3600)
    assert fetcher.step() == 1
    known = analyzer.owner.document()
    analyzer.answer, _ = personal(analyzer.owner, number=0, issued=analyzer.owner.issued + 100)
    for _ in range(3):
        shuffler.clock.advance(3600)
        assert fetcher.step() == 0
        assert shown(shuffler) == known
    (found,) = shuffler.store.key_lists.contradictions()
    assert found.reason == "key 0 was a different key before"


def test_a_list_from_clocks_that_were_ahead_gives_way(shuffler, analyzer, fetcher):
    owner = analyzer.owner
    fetcher.step()
    shuffler.clock.advance(20 * DAY)  # here and at the analyzer
    owner.rotate()
    owner.issued = NOW + 20 * DAY
    assert fetcher.step() == 1
    ahead = owner.document()
    shuffler.clock.advance(-20 * DAY + 3600)  # and set right, here first
    assert fetcher.step() == 0
    assert shown(shuffler) == ahead
    owner.issued = NOW + 60
    # What was seen meanwhile counts: its numbers are taken.
    analyzer.answer, _ = personal(owner, number=1)
    shuffler.clock.advance(3600)
    assert fetcher.step() == 0
    (found,) = shuffler.store.key_lists.contradictions()
    assert (found.reason, found.known) == ("key 1 was a different key before", ahead)
    analyzer.answer = None
    shuffler.clock.advance(3600)
    assert fetcher.step() == 1
    right = owner.document()
    assert shown(shuffler) == right
    # From here on there is no way back again.
    for issued in (NOW + 59, NOW + 20 * DAY):
        owner.issued = issued
        shuffler.clock.advance(3600)
        assert fetcher.step() == 0
        assert shown(shuffler) == right
    assert len(shuffler.store.key_lists.contradictions()) == 1


def test_nothing_from_before_its_newest_key_takes_the_place_of_a_list_that_is_ahead(
    shuffler, analyzer
):
    owner, copies = analyzer.owner, shuffler.store.key_lists
    owner.rotate(forget=False)
    first, second = unverified(owner.document()).keys

    def listed(issued, *keys):
        until = NOW + 300 * DAY
        return KeyList.signed(owner.identity, keys, issued=issued, valid_until=until)

    second = replace(second, created=NOW - 100, active_from=NOW - 100)
    meanwhile = replace(second, number=2, created=NOW + 20 * DAY, active_from=NOW + 20 * DAY)
    shuffler.clock.advance(20 * DAY)
    assert copies.keep(listed(NOW + 20 * DAY, first, second, meanwhile))
    shuffler.clock.advance(-20 * DAY)
    with pytest.raises(KeyListError, match="seen before"):  # an old one, played back
        copies.keep(listed(NOW - 101, first))
    assert copies.contradictions() == []
    assert copies.keep(listed(NOW - 100, first, second))


def test_evidence_does_not_fill_the_disk(shuffler, analyzer, fetcher):
    fetcher.step()
    for later in range(MOST_CONTRADICTIONS + 3):
        document, _ = personal(analyzer.owner, issued=analyzer.owner.issued + later)
        with pytest.raises(ContradictionError):
            shuffler.store.key_lists.keep(unverified(document))
    assert len(shuffler.store.key_lists.contradictions()) == MOST_CONTRADICTIONS


def test_of_two_that_come_at_once_one_counts(url, tmp_path):
    """Two workers are shown different lists of one moment: all devices still get one of them."""
    owner = Owner("analyzer")
    document, _ = personal(owner)
    databases = [Database(url, timeout=60) for _ in range(2)]
    databases[0].migrate("shuffler")
    stores = [
        ShufflerStore(each, tmp_path, ManualClock(NOW)) for number, each in enumerate(databases)
    ]

    def keep(store, data):
        try:
            return store.key_lists.keep(unverified(data))
        except ContradictionError:
            return None

    with ThreadPoolExecutor(2) as pool:
        told = list(pool.map(keep, stores, [owner.document(), document]))
    assert sorted(told, key=str) == [None, True]
    kept = {store.key_lists.find(owner.fingerprint).document for store in stores}
    assert kept == {[owner.document(), document][told.index(True)]}
    assert len(stores[0].key_lists.contradictions()) == 1
    for store, database in zip(stores, databases, strict=True):
        store.close()
        database.close()


def _slow(_request):
    async def pieces():
        while True:
            yield b" "
            await asyncio.sleep(0.01)

    return httpx.Response(200, content=pieces())


def _other_identity():
    return Owner("analyzer").document(Identity("analyzer", bytes(32)))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{}",
        b"[" * 60_000,
        b" " * 70_000,
        _other_identity(),
        Owner("shuffler").document(),
        lambda _: httpx.Response(302, headers={"location": "https://elsewhere.example/v1/keys"}),
        lambda _: httpx.Response(
            200, content=Owner("analyzer").document(), headers={"content-encoding": "br"}
        ),
        lambda _: httpx.Response(500, content=Owner("analyzer").document()),
        lambda request: (_ for _ in ()).throw(httpx.ConnectError("away", request=request)),
        _slow,
    ],
    ids=[
        *("empty", "no list", "nested", "long", "other identity", "other role", "redirect"),
        *("encoding", "status", "away", "slow"),
    ],
)
def test_what_is_not_the_analyzers_list_is_not_kept(
    shuffler, analyzer, fetcher, answer, monkeypatch
):
    monkeypatch.setattr(fetchers, "DEADLINE", 0.3)
    analyzer.answer = answer
    assert fetcher.step() == 0
    assert shown(shuffler) is None
    assert analyzer.asked == ["https://analyzer.example/v1/keys"]
    analyzer.answer = None
    shuffler.clock.advance(1)
    assert fetcher.step() == 1


def test_it_asks_soon_again_and_ever_less_often(shuffler, analyzer, fetcher):
    analyzer.answer = lambda _: httpx.Response(503)
    asked = []
    for second in range(2000):
        before = len(analyzer.asked)
        fetcher.step()
        if len(analyzer.asked) > before:
            asked.append(second)
        shuffler.clock.advance(1)
    gaps = [later - sooner for sooner, later in pairwise(asked)]
    assert gaps == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600]


def test_requests_tell_nothing_and_keep_nothing(shuffler, analyzer, fetcher):
    seen = []

    def answer(request):
        seen.append(dict(request.headers))
        content = analyzer.owner.document()
        return httpx.Response(200, content=content, headers={"set-cookie": "who=shuffler"})

    analyzer.answer = answer
    for _ in range(2):
        fetcher.step()
        shuffler.clock.advance(3600)
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert not {"cookie", "authorization", "referer"} & set(seen[1])


def test_surveys_that_are_over_are_left_alone(shuffler, analyzer, fetcher):
    shuffler.clock.advance(31 * DAY)
    assert fetcher.step() == 0
    assert analyzer.asked == []


# ------------------------------------------------------------------------------ beside the work


def test_an_analyzer_that_hangs_holds_nothing_up(shuffler, analyzer, fetcher):
    hanging, free, stop = Event(), Event(), Event()

    def answer(_request):
        hanging.set()
        free.wait(120)
        return httpx.Response(200, content=analyzer.owner.document())

    analyzer.answer = answer
    worker = shuffler.worker(fetcher=fetcher, pause=0.01)
    with serving(shuffler.app()) as url, client_of(url) as client:
        thread = Thread(target=worker.run, args=(stop,))
        thread.start()
        assert hanging.wait(60)
        assert shuffler.post(client, shuffler.reports(3)).status_code == 202
        wait_for(lambda: shuffler.tallies().get("opened"))
        stop.set()
        thread.join(60)
        assert not thread.is_alive()
    free.set()
    time.sleep(0.05)
    assert shown(shuffler) is None  # what comes after the end is not written


def test_a_running_worker_has_the_list_soon(shuffler, analyzer, fetcher):
    stop = Event()
    worker = shuffler.worker(fetcher=fetcher, pause=0.01)
    thread = Thread(target=worker.run, args=(stop,))
    thread.start()
    wait_for(lambda: shown(shuffler))
    stop.set()
    thread.join(60)
    assert shown(shuffler) == analyzer.owner.document()


# ---------------------------------------------------------------------------- older tables


def test_a_live_shuffler_gets_its_tables(url, analyzer, next_step):
    """A process of the version before goes on taking reports in while the tables are made."""
    database, other = Database(url, timeout=60), Database(url, timeout=60)
    survey = example(analyzer=analyzer.party)
    taken = migrated_under_load(database, other, survey, begin=next_step.before)
    database.require("shuffler")
    copies = KeyLists(database)
    assert copies.keep(unverified(analyzer.owner.document()))
    assert copies.find(survey.analyzer.fingerprint).document == analyzer.owner.document()
    with database.read() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(schema.extents)) == taken
    database.close()
    other.close()


def test_an_analyzers_older_copies_give_way(url):
    owner = Owner("shuffler")
    database = Database(url)
    database.migrate("analyzer")
    with database.write() as connection:
        insert = sa.text("INSERT INTO copies (fingerprint, document) VALUES (:name, :document)")
        connection.execute(insert, {"name": owner.fingerprint, "document": b"an older list"})
    copies = KeyLists(database)
    assert copies.all() == {owner.fingerprint: b"an older list"}
    assert copies.keep(unverified(owner.document()))
    assert not copies.keep(unverified(owner.document()))
    with pytest.raises(ContradictionError):
        copies.keep(unverified(personal(owner)[0]))
    assert copies.all() == {owner.fingerprint: owner.document()}
    database.close()
