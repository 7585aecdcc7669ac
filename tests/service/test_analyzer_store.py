"""The analyzer's tables, on both databases, and what may be asked of them."""

from __future__ import annotations

from contextlib import suppress
from threading import Barrier, BrokenBarrierError

import numpy as np
import pytest
import sqlalchemy as sa

from service_site import Analyzer, at_once, documents_of, sealed
from shoal.errors import RefusedError
from shoal.sealing import SurveyId
from shoal.service.analyzer import tables as schema
from shoal.service.analyzer.collection import Offer
from shoal.service.analyzer.decode import Admitted
from shoal.service.analyzer.ledger import ReleaseDecision, spent
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.db import tables as common
from shoal.service.errors import (
    LeaseLostError,
    NotReadyError,
    UnknownError,
)
from shoal.values import Counts

FIRST, SECOND = "11" * 16, "22" * 16
OFFER = Offer(batch=FIRST, digest="cd" * 32, size=100)
NOBODY = SurveyId(bytes(32))


@pytest.fixture
def analyzer(url, tmp_path):
    made = Analyzer(tmp_path / "analyzer", url=url)
    yield made
    made.close()


def tags(*numbers):
    return np.array([[number] * 16 for number in numbers], dtype=np.uint8).reshape(-1, 16)


def admitted(marks):
    return Admitted(marks, {"unopened": 2})


def fresh(analyzer, held, marks):
    """The first bytes of the tags that no earlier batch had."""
    return marks[~analyzer.store.collections.replayed(held, marks), 0].tolist()


def opened(analyzer, held, marks, *, withheld=None):
    counts = (Counts(np.array([len(marks), 0, 0]), len(marks)),)
    return analyzer.store.collections.opened(
        held, admitted(marks), counts, valid=len(marks), withheld=withheld
    )


def received(analyzer, survey, offer=OFFER):
    collections = analyzer.store.collections
    held = collections.claim(collections.request(survey.id, offer))
    return collections.move(held, schema.RECEIVED, key=3, reports=10, records=10)


def test_surveys(analyzer):
    first = analyzer.asking()
    analyzer.store.surveys.add(first)
    second = analyzer.asking(name="another")
    assert analyzer.store.surveys.all() == [first, second]
    assert analyzer.store.surveys.get(second.id) == second
    for ask in (
        analyzer.store.surveys.get,
        analyzer.store.collections.of,
        analyzer.store.ledger.entries,
    ):
        with pytest.raises(UnknownError):
            ask(NOBODY)


def test_a_survey_is_removed_while_nothing_was_collected(analyzer):
    first, second = analyzer.asking(), analyzer.asking(name="another")
    other = AnalyzerStore(analyzer.database, analyzer.store.incoming.parent, analyzer.store.clock)
    assert other.surveys.get(second.id) == second
    analyzer.store.surveys.remove(second.id)
    assert analyzer.store.surveys.all() == other.surveys.all() == [first]
    with pytest.raises(UnknownError):
        other.collections.request(second.id, OFFER)  # it has known it, and asks
    assert not analyzer.store.surveys.taken(first.id)
    analyzer.store.collections.request(first.id, OFFER)
    assert analyzer.store.surveys.taken(first.id)
    with pytest.raises(RefusedError):
        analyzer.store.surveys.remove(first.id)


def test_a_request_is_drawn_once(analyzer):
    survey = analyzer.asking()
    first = analyzer.store.collections.request(survey.id, OFFER)
    again = analyzer.store.collections.request(survey.id, OFFER)
    assert first.request == again.request
    assert len(first.request) == 32
    other = analyzer.store.collections.request(
        survey.id, Offer(batch=SECOND, digest="cd" * 32, size=1)
    )
    assert other.request != first.request
    with pytest.raises(UnknownError):
        analyzer.store.collections.find(survey.id, "33" * 16)


def test_tags_are_unique_in_a_survey_and_key(analyzer):
    survey = analyzer.asking()
    held = received(analyzer, survey)
    assert opened(analyzer, held, tags(1, 2)).state == schema.OPENED
    second = received(analyzer, survey, Offer(batch=SECOND, digest="cd" * 32, size=1))
    assert fresh(analyzer, second, tags(1, 2, 5, 2)) == [5]
    assert opened(analyzer, second, tags(5, 2)) is None
    assert analyzer.store.collections.find(survey.id, SECOND).state == schema.RECEIVED, (
        "all or nothing"
    )
    assert fresh(analyzer, second, tags(5)) == [5]
    assert opened(analyzer, second, tags(5)).state == schema.OPENED
    other = analyzer.asking(name="another")
    third = received(analyzer, other)
    assert fresh(analyzer, third, tags(1, 2, 5)) == [1, 2, 5]
    assert opened(analyzer, third, tags()).valid == 0


def test_counts_are_kept_unless_withheld(analyzer):
    survey = analyzer.asking()
    kept = opened(analyzer, received(analyzer, survey), tags(1, 2))
    assert kept.counts[0].cells.tolist() == [2, 0, 0]
    assert kept.rejected == {"unopened": 2}
    second = received(analyzer, survey, Offer(batch=SECOND, digest="cd" * 32, size=1))
    withheld = opened(analyzer, second, tags(3), withheld="too few")
    assert withheld.counts == ()
    assert withheld.reason == "too few"


def test_steps_are_taken_once_and_in_order(analyzer):
    survey, store = analyzer.asking(), analyzer.store
    held = received(analyzer, survey)
    done = opened(analyzer, held, tags(1))
    with pytest.raises(LeaseLostError):
        opened(analyzer, held, tags(2))
    told = ReleaseDecision(1, 1, None, None)
    debited = store.ledger.debit(done, told)
    with pytest.raises((LeaseLostError, sa.exc.IntegrityError)):
        store.ledger.debit(done, told)
    published = store.results.publish(debited, {"batch": FIRST}, now=0)
    with pytest.raises((LeaseLostError, sa.exc.IntegrityError)):
        store.results.publish(debited, {"batch": FIRST}, now=0)
    assert len(store.ledger.entries(survey.id)) == len(documents_of(store, survey)) == 1
    assert store.collections.claim(published) is None, "still ours"
    finished = store.collections.move(published, schema.PUBLISHED, acknowledged=1)
    assert (finished.finished, finished.owner) == (True, None)


def test_many_tags_at_once(analyzer, monkeypatch):
    survey = analyzer.asking()
    marks = np.arange(12_000 * 16, dtype=np.uint32).astype(">u4").view(np.uint8)[: 12_000 * 16]
    marks = marks.reshape(-1, 16)
    assert opened(analyzer, received(analyzer, survey), marks).valid == 12_000
    second = received(analyzer, survey, Offer(batch=SECOND, digest="cd" * 32, size=1))
    assert fresh(analyzer, second, marks) == []
    monkeypatch.setattr("shoal.service.db.tables.AT_ONCE", 5000)
    written = []
    write = analyzer.database.write
    monkeypatch.setattr(analyzer.database, "write", lambda: written.append(1) or write())
    assert analyzer.store.forget_key(3) == 12_000
    assert len(written) == 3, "others write in between"
    assert len(fresh(analyzer, second, marks)) == 12_000


def test_the_whole_way(analyzer):
    survey = analyzer.asking()
    analyzer.shuffler.put(survey, sealed(survey, analyzer.keyring, [0] * 60 + [1] * 40))
    assert analyzer.collect(survey).published == (FIRST,)
    found = analyzer.document(survey)
    assert found["epsilon"] == survey.guarantee(100).epsilon
    assert analyzer.store.ledger.entries(survey.id)[0]["epsilon"] == survey.guarantee(100).epsilon
    assert found["life"]["smallest"] == 100


def test_what_arrives_is_for_one_users_eyes(tmp_path):
    made = Analyzer(tmp_path / "analyzer")
    assert made.store.incoming.stat().st_mode & 0o777 == 0o700
    made.close()


def test_two_that_publish_at_once_do_not_miss_each_other(analyzer, monkeypatch):
    survey, store = analyzer.asking(), analyzer.store
    told = ReleaseDecision(1, 1, None, None)
    debited = [
        store.ledger.debit(opened(analyzer, received(analyzer, survey, each), tags(place)), told)
        for place, each in enumerate([OFFER, Offer(batch=SECOND, digest="cd" * 32, size=1)])
    ]
    both = Barrier(2)

    def life(connection, *words):
        found = spent(connection, *words)
        with suppress(BrokenBarrierError):  # where they wait for each other, none comes
            both.wait(0.5)
        return found

    monkeypatch.setattr("shoal.service.analyzer.results.spent", life)
    at_once(lambda i: store.results.publish(debited[i], {}, now=0), 2)
    assert sorted(each["life"]["batches"] for each in documents_of(store, survey)) == [1, 2]


def test_what_a_batch_too_small_for_any_guarantee_costs_towards_the_analyzer(analyzer):
    survey, store = analyzer.asking(), analyzer.store
    assert store.ledger.spent(survey.id)["analyzer_epsilon"] is None
    held = opened(analyzer, received(analyzer, survey), tags(1), withheld="too few")
    store.ledger.debit(held, ReleaseDecision(1, 1, None, "too few"))
    local = survey.device.local_epsilon
    readers = {"epsilon": None, "batches": 0, "smallest": None}
    assert store.ledger.spent(survey.id) == readers | {"analyzer_epsilon": local, "opened": 1}


def test_the_version_is_another_whenever_results_are(analyzer):
    survey, store = analyzer.asking(), analyzer.store
    seen = [store.results.version(survey.id)]
    held = opened(analyzer, received(analyzer, survey), tags(1))
    debited = store.ledger.debit(held, ReleaseDecision(1, 1, None, None))
    seen.append(store.results.version(survey.id))
    store.results.publish(debited, {"batch": FIRST}, now=0)
    seen.append(store.results.version(survey.id))
    other = store.collections.claim(
        store.collections.request(survey.id, Offer(batch=SECOND, digest="cd" * 32, size=1))
    )
    store.collections.move(other, schema.REFUSED, reason="this")
    seen.append(store.results.version(survey.id))
    other = store.collections.claim(store.collections.again(survey.id, SECOND))
    store.collections.move(other, schema.REFUSED, reason="that")
    seen.append(store.results.version(survey.id))
    assert len(set(seen)) == len(seen)


def test_the_data_of_a_survey_that_is_over_is_deleted(analyzer):
    survey, other, store = analyzer.asking(), analyzer.asking(name="another"), analyzer.store
    store.tokens.add("reader", survey.id, 400 * 86_400)
    analyzer.shuffler.put(survey, sealed(survey, analyzer.keyring, [0] * 60 + [1] * 40))
    analyzer.collect(survey)
    left = store.incoming / f"{store.surveys.row(survey.id).number}-{SECOND}.batch"
    left.write_bytes(b"not opened yet")
    kept = store.incoming / f"{store.surveys.row(other.id).number}-{SECOND}.batch"
    kept.write_bytes(b"another's")
    with pytest.raises(NotReadyError, match="not over"):
        store.delete_survey(survey.id)
    analyzer.clock.advance(40 * 86_400)
    deleted = store.delete_survey(survey.id)
    counts = {"tags": 100, "results": 1, "ledger": 1, "collections": 1, "tokens": 1, "files": 1}
    assert deleted.counts == counts
    assert "what readers have downloaded" in deleted.left
    assert store.surveys.all() == [other]
    assert [path.name for path in store.incoming.iterdir()] == [kept.name]
    with analyzer.database.read() as connection:
        for table in (*schema.TRACES, common.tokens):
            assert connection.execute(table.select()).first() is None
    with pytest.raises(UnknownError):
        store.results.survey(survey.id)


def test_results_without_estimates_say_the_same_as_the_documents(analyzer):
    survey, results = analyzer.asking(), analyzer.store.results
    analyzer.send(survey, [0] * 60 + [1] * 40)
    analyzer.send(survey, [0] * 20, batch=SECOND, seed=2)
    assert len(analyzer.collect(survey).published) == 2
    whole, light = results.survey(survey.id), results.survey(survey.id, documents=False)
    assert light.batches == whole.batches
    for document, batch in zip(whole.documents, light.batches, strict=True):
        assert vars(batch) == {name: document[name] for name in vars(batch)}
        assert batch.withheld is None or batch.batch == SECOND
    assert light.documents == ()
    assert (light.life, light.refused) == (whole.life, whole.refused)
    assert light.combined() == whole.combined()
    assert light.result.notes == whole.result.notes
