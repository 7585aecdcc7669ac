"""A shuffler that is not what it should be: what it repeats, invents, alters or denies."""

from __future__ import annotations

import itertools
from contextlib import contextmanager

import pytest

from service_site import Instead, sealed
from shoal.errors import InvalidArgumentError
from shoal.service.analyzer import tables as schema
from shoal.service.analyzer.collection import Offer
from shoal.service.batch_file import MAGIC
from shoal.service.errors import UnknownError
from shoal.service.http.outgoing import NoAnswerError

FIRST, SECOND = "11" * 16, "22" * 16
VALUES = [0] * 120 + [1] * 60 + [2] * 20


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ({"reports": 100}, "1 records per report"),
        ({"batch": SECOND}, f"batch {FIRST}"),
    ],
)
def test_headers_that_lie_are_refused(analyzer, lie, said):
    survey = analyzer.asking()
    records = sealed(survey, analyzer.keyring, VALUES)
    analyzer.shuffler.put(survey, records, lies=lie)
    done = analyzer.collect(survey)
    assert done.refused == (FIRST,)
    (refused,) = analyzer.store.results.survey(survey.id).refused
    assert refused.batch == FIRST
    assert said in refused.reason
    with pytest.raises(UnknownError):
        analyzer.store.results.get(survey.id, FIRST)
    assert not analyzer.store.ledger.entries(survey.id)
    assert not list(analyzer.store.incoming.glob("*.batch"))
    assert not analyzer.shuffler.acknowledged(FIRST)
    assert not analyzer.collect(survey), "once is enough"


@pytest.mark.parametrize("cut", [0, len(MAGIC) + 2, 100, -1, -50])
def test_files_that_are_no_batch_are_refused(analyzer, cut):
    survey = analyzer.asking()
    path = analyzer.shuffler.path(analyzer.send(survey, VALUES))
    path.write_bytes(path.read_bytes()[:cut])
    assert analyzer.collect(survey).refused == (FIRST,)


def test_a_batch_that_is_not_the_one_announced_is_fetched_again(analyzer):
    survey = analyzer.asking()
    analyzer.send(survey, VALUES)

    @contextmanager
    def garbled(batch, request):
        with analyzer.shuffler.fetch(batch, request) as pieces:
            yield (piece[::-1] for piece in pieces)

    done = analyzer.collect(survey, Instead(analyzer.shuffler, fetch=garbled))
    assert list(done.problems) == [FIRST]
    assert "fetch the batch again" in done.problems[FIRST]
    (found,) = analyzer.store.collections.of(survey.id)
    assert found.state == schema.REQUESTED
    assert found.owner is None
    assert analyzer.collect(survey).published == (FIRST,)
    requests = {request for _, _, request in analyzer.shuffler.told("fetch")}
    assert requests == {found.request}, "always the same request"


def test_no_more_is_written_than_was_announced(analyzer):
    survey = analyzer.asking()
    analyzer.send(survey, VALUES)
    pulled = itertools.count()

    @contextmanager
    def endless(*_words):
        yield (bytes(1 << 20) for _ in pulled)

    done = analyzer.collect(survey, Instead(analyzer.shuffler, fetch=endless))
    assert list(done.problems) == [FIRST]
    assert next(pulled) == 1
    assert not list(analyzer.store.incoming.iterdir())


def test_one_bad_batch_does_not_keep_the_others_waiting(analyzer):
    survey = analyzer.asking()
    names = [f"{place:032x}" for place in range(3)]
    for seed, name in enumerate(names):
        analyzer.send(survey, VALUES, batch=name, seed=seed)
    analyzer.shuffler.path(names[0]).with_suffix(".request").write_text("somebody else's")
    done = analyzer.collect(survey)
    assert set(done.published) == set(names[1:])
    assert "collected by another request" in done.problems[names[0]]


def test_a_shuffler_that_does_not_answer_leaves_what_is_here_to_be_finished(analyzer):
    survey = analyzer.asking()
    analyzer.send(survey, VALUES)

    def silent(*_words):
        raise NoAnswerError("the shuffler", "no answer")

    done = analyzer.collect(survey, Instead(analyzer.shuffler, acknowledge=silent))
    assert done.published == (FIRST,)
    assert analyzer.document(survey)["status"] == "published"
    assert list(done.problems) == [FIRST]
    assert not list(analyzer.store.incoming.glob("*.batch")), "deleted before it is acknowledged"
    analyzer.collect(survey)
    assert analyzer.shuffler.acknowledged(FIRST)


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "AB" * 16, "11" * 15, "11" * 16 + "\n"])
def test_names_of_batches_are_not_paths(name):
    with pytest.raises(InvalidArgumentError):
        Offer(batch=name, digest="00" * 32, size=1)
