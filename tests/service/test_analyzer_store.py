"""The analyzer's tables, on both databases, and what may be asked of them."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from threading import Barrier, BrokenBarrierError, Thread

import numpy as np
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from analyzer_kit import Analyzer, Offer, sealed
from shoal.sealing import SurveyId
from shoal.service.analyzer import schema
from shoal.service.analyzer.life import life_so_far
from shoal.service.analyzer.opened import Admitted
from shoal.service.analyzer.owners import Owner
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.analyzer.verdict import Verdict
from shoal.service.errors import (
    LeaseLostError,
    NotAuthorizedError,
    StoreVersionError,
    SurveyInUseError,
    UnknownBatchError,
    UnknownSurveyError,
)
from shoal.service.store import Database
from shoal.values import Counts

FIRST, SECOND = "11" * 16, "22" * 16
OFFER = Offer(batch=FIRST, digest="cd" * 32, size=100)
NOBODY = SurveyId(bytes(32))


@pytest.fixture(params=["sqlite", "postgresql"])
def analyzer(request, tmp_path):
    url = request.getfixturevalue("postgres_url") if request.param == "postgresql" else None
    made = Analyzer(tmp_path / "analyzer", url=url)
    yield made
    made.close()


def tags(*numbers):
    return np.array([[number] * 16 for number in numbers], dtype=np.uint8).reshape(-1, 16)


def opened(analyzer, held, marks, *, withheld=None):
    found = Admitted(np.zeros((len(marks), 1), np.uint8), marks, {"unopened": 2})
    told = Verdict(len(marks), len(marks), None, withheld)
    counts = Counts(np.array([len(marks), 0, 0]), len(marks))
    return analyzer.store.opened(held, found, told, counts)


def received(analyzer, survey, offer=OFFER, owner="me"):
    held = analyzer.store.claim(analyzer.store.request(survey.id, offer), owner)
    return analyzer.store.received(held, key=3, reports=10, records=10)


def test_the_migrated_tables_are_those_of_the_code(analyzer):
    with analyzer.database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        changes = compare_metadata(context, schema.metadata)
    assert [change[1].name for change in changes] == ["analyzer_revision"]


def test_surveys(analyzer):
    first = analyzer.asking()
    analyzer.store.add_survey(first)
    second = analyzer.asking(name="another")
    assert analyzer.store.surveys() == [first, second]
    assert analyzer.store.survey(second.id) == second
    for ask in (analyzer.store.survey, analyzer.store.collections, analyzer.store.ledger):
        with pytest.raises(UnknownSurveyError):
            ask(NOBODY)


def test_a_survey_is_removed_while_nothing_was_collected(analyzer):
    first, second = analyzer.asking(), analyzer.asking(name="another")
    token = analyzer.store.tokens.add("reader", second.id, 60)
    other = AnalyzerStore(analyzer.database, analyzer.store.incoming.parent, analyzer.store.clock)
    assert other.survey(second.id) == second
    assert analyzer.store.remove_survey(second.id) == 1
    assert analyzer.store.surveys() == other.surveys() == [first]
    with pytest.raises(NotAuthorizedError):
        analyzer.store.tokens.check(token, second.id)
    third = analyzer.asking(name="third")
    assert analyzer.store.collections(third.id) == []
    assert other.survey(third.id) == third
    analyzer.store.remove_survey(third.id)
    with pytest.raises(UnknownSurveyError):
        other.request(third.id, OFFER)  # it has known it, and asks
    assert not analyzer.store.survey_taken(first.id)
    analyzer.store.request(first.id, OFFER)
    assert analyzer.store.survey_taken(first.id)
    with pytest.raises(SurveyInUseError):
        analyzer.store.remove_survey(first.id)
    assert analyzer.store.surveys() == [first]


def test_a_request_is_drawn_once(analyzer):
    survey = analyzer.asking()
    first = analyzer.store.request(survey.id, OFFER)
    again = analyzer.store.request(survey.id, OFFER)
    assert first.request == again.request
    assert len(first.request) == 32
    other = analyzer.store.request(survey.id, Offer(batch=SECOND, digest="cd" * 32, size=1))
    assert other.request != first.request
    with pytest.raises(UnknownBatchError):
        analyzer.store.collection(survey.id, "33" * 16)


def test_tags_are_unique_in_a_survey_and_key(analyzer):
    survey = analyzer.asking()
    held = received(analyzer, survey)
    assert opened(analyzer, held, tags(1, 2)).state == schema.OPENED
    second = received(analyzer, survey, Offer(batch=SECOND, digest="cd" * 32, size=1))
    assert analyzer.store.known(second, tags(1, 2, 5, 2)).tolist() == [True, True, False, True]
    assert opened(analyzer, second, tags(5, 2)) is None
    assert analyzer.store.collection(survey.id, SECOND).state == schema.RECEIVED, "all or nothing"
    assert analyzer.store.known(second, tags(5)).tolist() == [False]
    assert opened(analyzer, second, tags(5)).state == schema.OPENED
    other = analyzer.asking(name="another")
    third = received(analyzer, other)
    assert not analyzer.store.known(third, tags(1, 2, 5)).any()
    assert opened(analyzer, third, tags()).valid == 0


def test_counts_are_kept_unless_withheld(analyzer):
    survey = analyzer.asking()
    kept = opened(analyzer, received(analyzer, survey), tags(1, 2))
    assert kept.counts.cells.tolist() == [2, 0, 0]
    assert kept.rejected == {"unopened": 2}
    second = received(analyzer, survey, Offer(batch=SECOND, digest="cd" * 32, size=1))
    withheld = opened(analyzer, second, tags(3), withheld="too few")
    assert withheld.counts is None
    assert withheld.reason == "too few"


def test_steps_are_taken_once_and_in_order(analyzer):
    survey, store = analyzer.asking(), analyzer.store
    held = received(analyzer, survey)
    done = opened(analyzer, held, tags(1))
    with pytest.raises(LeaseLostError):
        opened(analyzer, held, tags(2))
    told = Verdict(1, 1, None, None)
    debited = store.debited(done, told, delta=1e-6)
    with pytest.raises((LeaseLostError, sa.exc.IntegrityError)):
        store.debited(done, told, delta=1e-6)
    published = store.published(debited, {"batch": FIRST})
    with pytest.raises((LeaseLostError, sa.exc.IntegrityError)):
        store.published(debited, {"batch": FIRST})
    assert len(store.ledger(survey.id)) == len(store.results(survey.id)) == 1
    assert store.acknowledged(published).finished
    stranger = store.claim(published, "stranger")
    assert stranger is None, "still ours"


def test_many_tags_at_once(analyzer, monkeypatch):
    survey = analyzer.asking()
    marks = np.arange(12_000 * 16, dtype=np.uint32).astype(">u4").view(np.uint8)[: 12_000 * 16]
    marks = marks.reshape(-1, 16)
    assert opened(analyzer, received(analyzer, survey), marks).valid == 12_000
    second = received(analyzer, survey, Offer(batch=SECOND, digest="cd" * 32, size=1))
    assert analyzer.store.known(second, marks).all()
    monkeypatch.setattr("shoal.service.store.forgetting.AT_ONCE", 5000)
    written = []
    write = analyzer.database.write
    monkeypatch.setattr(analyzer.database, "write", lambda: written.append(1) or write())
    assert analyzer.store.forget_key(3) == 12_000
    assert len(written) == 3, "others write in between"
    assert not analyzer.store.known(second, marks).any()


def test_the_whole_way(analyzer):
    survey = analyzer.asking()
    analyzer.shuffler.put(survey, sealed(survey, analyzer.keyring, [0] * 60 + [1] * 40))
    assert analyzer.collect(survey).published == (FIRST,)
    found = analyzer.document(survey)
    assert found["epsilon"] == survey.guarantee(100).epsilon
    assert analyzer.store.ledger(survey.id)[0]["epsilon"] == survey.guarantee(100).epsilon
    assert found["life"]["smallest"] == 100


def test_tables_of_another_version_are_refused(tmp_path):
    database = Database(f"sqlite:///{tmp_path / 'store.sqlite'}")
    with pytest.raises(StoreVersionError):
        AnalyzerStore(database, tmp_path, lambda: 0)
    database.migrate("shuffler")
    with pytest.raises(StoreVersionError, match="belongs to the shuffler"):
        AnalyzerStore(database, tmp_path, lambda: 0)
    database.close()


def test_what_arrives_is_for_one_users_eyes(tmp_path):
    made = Analyzer(tmp_path / "analyzer")
    assert made.store.incoming.stat().st_mode & 0o777 == 0o700
    made.close()


def test_two_that_publish_at_once_do_not_miss_each_other(analyzer, monkeypatch):
    survey, store = analyzer.asking(), analyzer.store
    told = Verdict(1, 1, None, None)
    debited = [
        store.debited(
            opened(analyzer, received(analyzer, survey, each), tags(place)), told, delta=1e-6
        )
        for place, each in enumerate([OFFER, Offer(batch=SECOND, digest="cd" * 32, size=1)])
    ]
    both = Barrier(2)

    def life(connection, *words):
        found = life_so_far(connection, *words)
        with suppress(BrokenBarrierError):  # where they wait for each other, none comes
            both.wait(0.5)
        return found

    monkeypatch.setattr("shoal.service.analyzer.store.life_so_far", life)
    publishing = [
        Thread(target=store.published, args=(each, {"batch": each.batch})) for each in debited
    ]
    for thread in publishing:
        thread.start()
    for thread in publishing:
        thread.join(30)
    assert sorted(each["life"]["batches"] for each in store.results(survey.id)) == [1, 2]


def test_what_a_batch_too_small_for_any_guarantee_costs_towards_the_analyzer(analyzer):
    survey, store = analyzer.asking(), analyzer.store
    assert store.life(survey.id)["analyzer_epsilon"] is None
    held = opened(analyzer, received(analyzer, survey), tags(1), withheld="too few")
    store.debited(held, Verdict(1, 1, None, "too few"), delta=1e-6)
    local = survey.device.local_epsilon
    readers = {"epsilon": None, "batches": 0, "smallest": None}
    assert store.life(survey.id) == readers | {"analyzer_epsilon": local, "opened": 1}


def test_the_version_is_another_whenever_results_are(analyzer):
    survey, store = analyzer.asking(), analyzer.store
    seen = [store.version(survey.id)]
    held = opened(analyzer, received(analyzer, survey), tags(1))
    debited = store.debited(held, Verdict(1, 1, None, None), delta=1e-6)
    seen.append(store.version(survey.id))
    store.published(debited, {"batch": FIRST})
    seen.append(store.version(survey.id))
    other = store.claim(
        store.request(survey.id, Offer(batch=SECOND, digest="cd" * 32, size=1)), "me"
    )
    store.refused(other, "this")
    seen.append(store.version(survey.id))
    store.refused(store.claim(store.again(survey.id, SECOND), "me"), "that")
    seen.append(store.version(survey.id))
    assert len(set(seen)) == len(seen)


def test_a_new_owner_never_looks_dead(tmp_path, monkeypatch):
    first = Owner(tmp_path)
    seen = []
    lock = fcntl.flock

    def looked(handle, how):
        if how == fcntl.LOCK_EX:  # the other one's, between making the file and holding it
            seen.append(first.dead())
        lock(handle, how)

    monkeypatch.setattr("shoal.service.analyzer.owners.fcntl.flock", looked)
    second = Owner(tmp_path)
    assert seen == [[]]
    assert first.dead() == []
    os.close(second._handle)  # as if its process had died
    assert first.dead() == [second.name]
    first.bury(first.dead())
    first.close()
    assert not list(tmp_path.iterdir())
