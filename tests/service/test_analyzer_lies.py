"""A shuffler that is not what it should be: what it repeats, invents, alters or denies."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from service_site import sealed
from shoal.errors import InvalidArgumentError
from shoal.service.analyzer import tables as schema
from shoal.service.analyzer.collect import Collector
from shoal.service.analyzer.collection import Offer
from shoal.service.batch_file import MAGIC
from shoal.service.errors import UnknownError
from shoal.service.http.outgoing import NoAnswerError
from shoal.service.opening import Pool

FIRST, SECOND = "11" * 16, "22" * 16
VALUES = [0] * 120 + [1] * 60 + [2] * 20


def test_duplicated_records_count_once(analyzer):
    survey = analyzer.asking()
    records = sealed(survey, analyzer.keyring, VALUES)
    copies = records[::100]
    analyzer.shuffler.put(survey, records + copies)
    analyzer.collect(survey)
    found = analyzer.document(survey)
    assert found["rejected"]["repeated"] == len(copies) == 2
    assert found["valid"] == len(VALUES)
    assert found["epsilon"] == survey.guarantee(len(VALUES)).epsilon


def test_records_of_an_earlier_batch_do_not_count_again(analyzer):
    survey = analyzer.asking()
    old = sealed(survey, analyzer.keyring, VALUES)
    new = sealed(survey, analyzer.keyring, VALUES, seed=2)
    analyzer.shuffler.put(survey, old, batch=FIRST)
    analyzer.collect(survey)
    analyzer.shuffler.put(survey, old[:150] + new[:60], batch=SECOND)
    analyzer.collect(survey)
    found = analyzer.document(survey, SECOND)
    assert found["rejected"]["replayed"] == 150
    assert found["valid"] == 60
    assert analyzer.store.results.survey(survey.id).combined()["valid"] == 260


def test_a_whole_batch_under_another_name_is_worth_nothing(analyzer):
    survey = analyzer.asking()
    records = sealed(survey, analyzer.keyring, VALUES)
    for batch in (FIRST, SECOND):  # in one pass, too
        analyzer.shuffler.put(survey, records, batch=batch)
    analyzer.collect(survey)
    found = [analyzer.document(survey, batch) for batch in (FIRST, SECOND)]
    assert sorted(each["valid"] for each in found) == [0, len(VALUES)]
    assert sorted(each["status"] for each in found) == ["published", "withheld"]


def test_a_withheld_batch_cannot_be_dealt_out_again(analyzer):
    """Else a shuffler could show a crowd twice, with one person left out the second time."""
    survey = analyzer.asking()
    records = sealed(survey, analyzer.keyring, VALUES)
    analyzer.shuffler.put(survey, records[:49], batch=FIRST)
    analyzer.collect(survey)
    analyzer.shuffler.put(survey, records, batch=SECOND)
    analyzer.collect(survey)
    assert analyzer.document(survey, SECOND)["rejected"]["replayed"] == 49


def test_the_same_record_in_two_surveys_is_of_neither_or_one(analyzer):
    survey = analyzer.asking()
    other = analyzer.asking(name="other colours")
    records = sealed(survey, analyzer.keyring, VALUES)
    analyzer.shuffler.put(other, records)
    analyzer.collect(other)
    assert analyzer.document(other)["rejected"]["unopened"] == len(VALUES)


def test_changed_bytes_are_counted_and_left_out(analyzer):
    survey = analyzer.asking()
    records = sealed(survey, analyzer.keyring, VALUES)
    for place in range(0, 40, 2):
        changed = bytearray(records[place])
        changed[place % len(changed)] ^= 1 << (place % 8)
        records[place] = bytes(changed)
    analyzer.shuffler.put(survey, records)
    analyzer.collect(survey)
    assert analyzer.document(survey)["rejected"]["unopened"] == 20
    assert analyzer.document(survey)["valid"] == len(VALUES) - 20


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


def test_a_batch_of_another_survey_is_refused(analyzer):
    survey, other = analyzer.asking(), analyzer.asking(name="other colours")
    analyzer.shuffler.put(
        survey, sealed(survey, analyzer.keyring, VALUES), lies={"survey": other.id}
    )
    assert analyzer.collect(survey).refused == (FIRST,)


@pytest.mark.parametrize("cut", [0, len(MAGIC) + 2, 100, -1, -50])
def test_files_that_are_no_batch_are_refused(analyzer, cut):
    survey = analyzer.asking()
    path = analyzer.shuffler.path(analyzer.send(survey, VALUES))
    path.write_bytes(path.read_bytes()[:cut])
    assert analyzer.collect(survey).refused == (FIRST,)


def test_a_batch_that_is_not_the_one_announced_is_fetched_again(analyzer):
    survey = analyzer.asking()
    analyzer.send(survey, VALUES)
    honest = analyzer.shuffler

    class Garbling:
        offers, acknowledge, keys = honest.offers, honest.acknowledge, honest.keys

        @staticmethod
        @contextmanager
        def fetch(batch, request):
            with honest.fetch(batch, request) as pieces:
                yield (piece[::-1] for piece in pieces)

    done = analyzer.collect(survey, Garbling())
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
    endless = analyzer.shuffler
    pulled = 0

    class Endless:
        offers, acknowledge, keys = endless.offers, endless.acknowledge, endless.keys

        @staticmethod
        @contextmanager
        def fetch(*_words):
            def pieces():
                nonlocal pulled
                while True:
                    pulled += 1
                    yield bytes(1 << 20)

            yield pieces()

    assert list(analyzer.collect(survey, Endless()).problems) == [FIRST]
    assert pulled == 1
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

    class Silent:
        fetch, keys = analyzer.shuffler.fetch, analyzer.shuffler.keys
        offers = analyzer.shuffler.offers

        @staticmethod
        def acknowledge(*_words):
            raise NoAnswerError("the shuffler", "no answer")

    done = analyzer.collect(survey, Silent())
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


def test_keys_that_are_gone_take_their_tags_along(analyzer):
    survey = analyzer.asking()
    analyzer.send(survey, VALUES)
    analyzer.collect(survey)
    assert analyzer.store.forget_key(5) == 0
    assert analyzer.store.forget_key(0) == len(VALUES)


@pytest.mark.slow
def test_one_in_a_hundred_duplicated_in_a_large_batch_by_two_processes(analyzer):
    survey = analyzer.asking(minimum=1000)
    records = sealed(survey, analyzer.keyring, [0, 1, 2, 0] * 25_000)
    copies = records[::100]
    analyzer.shuffler.put(survey, records + copies, batch=FIRST)
    fresh = sealed(survey, analyzer.keyring, [0] * 1000)
    analyzer.shuffler.put(survey, copies + fresh, batch=SECOND)
    with Pool(2) as pool:
        Collector(analyzer.store, analyzer.keyring, survey, analyzer.shuffler, pool).step()
    first, second = (analyzer.document(survey, batch) for batch in (FIRST, SECOND))
    assert first["rejected"]["repeated"] == len(copies) == 1000
    assert first["valid"] == 100_000
    assert second["rejected"]["replayed"] == 1000
    assert second["valid"] == 1000
