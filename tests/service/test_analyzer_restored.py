"""A shuffler that was brought back from a backup, and an analyzer that knows more than it does."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from service_site import CROWD
from shoal.service.analyzer import tables as schema
from shoal.service.http.outgoing import NoAnswerError


@contextmanager
def without(site, name):
    """The batches of the shuffler lack a method for a while."""

    def away(*_words):
        raise NoAnswerError("the shuffler", "it is away")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(site.shuffler.store.batches, name, away)
        yield


def seal(site):
    """A batch that is closed and not mixed, in a backup."""
    site.send(site.reports(CROWD))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(site.shuffler.store.batches, "claim", lambda _lease: None)
        site.work()
    site.back_up("shuffler")
    site.work()
    (batch,) = site.batches().values()
    return batch


def restore(site, **options):
    site.come_back("shuffler", **({"waiting": "drop"} | options))
    site.work(upkeep=0)


def collected(site):
    (found,) = site.analyzer.store.collections.of(site.survey.id)
    return found


def test_a_batch_that_was_asked_for_is_fetched_though_it_was_mixed_anew(site):
    before = seal(site)
    with without(site, "release"):
        assert list(site.collect().problems) == [before.id]
    assert (collected(site).state, collected(site).digest) == ("REQUESTED", before.digest)
    restore(site)
    after = site.batches()[before.id]
    assert after.digest != before.digest
    done = site.collect()
    assert (done.published, done.problems) == ((before.id,), {})
    assert collected(site).finished
    assert site.result(before.id)["valid"] == CROWD
    assert site.batches()[before.id].state == "ACKED"


def test_a_batch_that_was_published_is_acknowledged_though_it_was_mixed_anew(site):
    """Its bytes are others there, nobody was given them, and nothing counts again."""
    batch = seal(site)
    with without(site, "acknowledge"):
        assert site.collect().published == (batch.id,)
    results = site.results()
    restore(site)
    assert site.batches()[batch.id].state == "SHUFFLED"
    done = site.collect()
    assert (done.published, done.problems) == ((), {})
    assert site.batches()[batch.id].state == "ACKED"
    assert collected(site).finished
    assert site.results() == results
    assert len(site.ledger()) == 1


@pytest.mark.parametrize("moment", ["SHUFFLED", "RELEASED"])
def test_what_was_acknowledged_is_acknowledged_again(site, moment):
    site.crowd(CROWD)
    (batch,) = site.batches()
    if moment == "RELEASED":
        with without(site, "acknowledge"):
            site.collect()
    assert site.batches()[batch].state == moment
    site.back_up("shuffler")
    site.collect()
    assert site.batches()[batch].state == "ACKED"
    results = site.results()
    restore(site)
    assert site.batches()[batch].state == moment
    assert site.collect().problems == {}
    site.work(upkeep=0)
    assert site.batches()[batch].state == "PURGED"
    assert list((site.directory / "shuffler" / "batches").iterdir()) == []
    assert site.results() == results


def test_nobody_is_asked_for_ever_to_delete_what_is_gone(site):
    site.crowd(CROWD - 1)
    site.back_up("shuffler")
    site.crowd(1)
    with without(site, "acknowledge"):
        (batch,) = site.collect().published
    restore(site)
    assert site.batches() == {}
    assert site.collect().problems == {}
    assert collected(site).finished
    assert site.result(batch)["valid"] == CROWD


def test_what_was_refused_stays_refused_until_it_is_asked_for_again(site):
    batch = seal(site)
    store = site.analyzer.store
    with without(site, "release"):
        site.collect()
    held = store.collections.claim(collected(site))
    store.collections.move(held, schema.REFUSED, reason="it was not what it claimed to be")
    restore(site)
    assert not site.collect()
    assert collected(site).state == schema.REFUSED
    store.collections.again(site.survey.id, batch.id)
    assert site.collect().published == (batch.id,)
