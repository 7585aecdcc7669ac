"""A shuffler that was brought back from a backup, and an analyzer that knows more than it does."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from service.backup_kit import CROWD, Service
from shoal.service.analyzer import tables as schema
from shoal.service.http.outgoing import NoAnswerError


@pytest.fixture
def service(tmp_path):
    made = Service(tmp_path)
    yield made
    made.close()


@contextmanager
def without(service, name):
    """The batches of the shuffler lack a method for a while."""

    def away(*_words):
        raise NoAnswerError("the shuffler", "it is away")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(service.shuffler.store.batches, name, away)
        yield


def seal(service):
    """A batch that is closed and not mixed, in a backup."""
    service.send(service.reports(CROWD))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(service.shuffler.store.batches, "claim", lambda _lease: None)
        service.open()
    service.back_up("shuffler")
    service.open()
    (batch,) = service.batches().values()
    return batch


def restore(service, **options):
    service.lose("shuffler")
    service.bring_back("shuffler", **({"waiting": "drop"} | options))
    service.open(upkeep=0)


def collected(service):
    (found,) = service.analyzer.store.collections.of(service.survey.id)
    return found


def test_a_batch_that_was_asked_for_is_fetched_though_it_was_mixed_anew(service):
    before = seal(service)
    with without(service, "release"):
        assert list(service.collect().problems) == [before.id]
    assert (collected(service).state, collected(service).digest) == ("REQUESTED", before.digest)
    restore(service)
    after = service.batches()[before.id]
    assert after.digest != before.digest
    done = service.collect()
    assert (done.published, done.problems) == ((before.id,), {})
    assert collected(service).finished
    assert service.results()[before.id]["valid"] == CROWD
    assert service.batches()[before.id].state == "ACKED"


def test_a_batch_that_was_published_is_acknowledged_though_it_was_mixed_anew(service):
    """Its bytes are others there, nobody was given them, and nothing counts again."""
    batch = seal(service)
    with without(service, "acknowledge"):
        assert service.collect().published == (batch.id,)
    results = service.results()
    restore(service)
    assert service.batches()[batch.id].state == "SHUFFLED"
    done = service.collect()
    assert (done.published, done.problems) == ((), {})
    assert service.batches()[batch.id].state == "ACKED"
    assert collected(service).finished
    assert service.results() == results
    assert len(service.analyzer.store.ledger.entries(service.survey.id)) == 1


@pytest.mark.parametrize("moment", ["SHUFFLED", "RELEASED"])
def test_what_was_acknowledged_is_acknowledged_again(service, moment):
    service.send(service.reports(CROWD))
    service.open()
    (batch,) = service.batches()
    if moment == "RELEASED":
        with without(service, "acknowledge"):
            service.collect()
    assert service.batches()[batch].state == moment
    service.back_up("shuffler")
    service.collect()
    assert service.batches()[batch].state == "ACKED"
    results = service.results()
    restore(service)
    assert service.batches()[batch].state == moment
    assert service.collect().problems == {}
    service.open(upkeep=0)
    assert service.batches()[batch].state == "PURGED"
    assert list((service.directory / "shuffler" / "batches").iterdir()) == []
    assert service.results() == results


def test_nobody_is_asked_for_ever_to_delete_what_is_gone(service):
    service.send(service.reports(CROWD - 1))
    service.open()
    service.back_up("shuffler")
    service.send(service.reports(1))
    service.open()
    with without(service, "acknowledge"):
        (batch,) = service.collect().published
    restore(service)
    assert service.batches() == {}
    assert service.collect().problems == {}
    assert collected(service).finished
    assert service.results()[batch]["valid"] == CROWD


def test_what_was_refused_stays_refused_until_it_is_asked_for_again(service):
    batch = seal(service)
    store = service.analyzer.store
    with without(service, "release"):
        service.collect()
    held = store.collections.claim(collected(service))
    store.collections.move(held, schema.REFUSED, reason="it was not what it claimed to be")
    restore(service)
    assert not service.collect()
    assert collected(service).state == schema.REFUSED
    store.collections.again(service.survey.id, batch.id)
    assert service.collect().published == (batch.id,)
