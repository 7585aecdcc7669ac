"""A histogram whose noise some people carry, in both services: reports that leave slots out."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest

import shoal
from factories import example
from peers_kit import free_sealing
from service_site import Shuffler, live, until_idle
from shoal.mechanisms.carriers import CarrierHistogram
from shoal.randomness import simulated
from shoal.sealing import SUITES, KeyPair, NotOpenableError, canonical
from shoal.service.admission import Invited
from shoal.service.analyzer.collect import _section_checks
from shoal.service.batch_file import BatchFile
from shoal.service.client import Keys, Policy, PolicyError
from shoal.service.client.outbox import Route
from shoal.service.client.randomize import draw, seal
from shoal.service.db.key_lists import KeyLists
from shoal.service.opening import Pool
from shoal.service.shuffler import worker as worker_module
from shoal.service.survey import Survey
from shoal.service.wire import Wire

PEOPLE = 200
DEVICE = CarrierHistogram(
    k=4, central_epsilon=0.9, pairs=30.0, people=PEOPLE, carriers=1 / 16, fewest=1, most=40
)
CROWD = {
    "device": DEVICE,
    "epsilon": 5.0,
    "delta": 1e-4,
    "minimum": PEOPLE,
    "target": PEOPLE,
    "admission": Invited(entitled=PEOPLE, dishonest=0),
}
OPEN = {name: value for name, value in CROWD.items() if name != "admission"}
ANSWERS = np.arange(PEOPLE) % 4
SHUFFLER, ANALYZER = (KeyPair.from_secret(bytes([seed] * 32), number=seed) for seed in (3, 7))


def survey(**changes):
    return example(**CROWD | changes)


def sealed(survey, keys, seed=1):
    """Everybody's report, and the messages in them."""
    drawn = draw(survey, ANSWERS, randomness=simulated(seed))
    envelopes = DEVICE.randomize(ANSWERS, randomness=simulated(seed))
    return seal(Wire.of(survey), drawn.messages, keys), envelopes


def messages(batch, wire, pair):
    """The numbers of the messages in a batch, sorted."""
    (section,) = wire.sections
    opened = (section.open_record(record, pair) for record in section.split(bytes(batch.body)))
    return sorted(int.from_bytes(message, "big") for message in opened)


@pytest.fixture
def service(tmp_path):
    with live(tmp_path, **OPEN) as made:
        yield made


@pytest.fixture
def light(monkeypatch):
    """Thousands of messages that nobody tries to read: the first test seals them for real."""
    free_sealing(monkeypatch)


def mixed(service):
    """The batch that the shuffler has made, as a file."""
    store = service.shuffler.store
    (info,) = store.batches.listed(service.survey.id)
    return BatchFile.read(store.batches.path(info.id, info.digest))


def test_from_devices_to_a_result(service):
    survey, wire = service.survey, service.wire
    device = service.client("one")
    assert device.report(survey, survey.answers[0])
    reports, sent = sealed(survey, service.keys())
    assert {len(report) for report in reports} == {wire.report_bytes}
    assert len(set(sent.sizes.tolist())) > 2  # though some are of many messages
    assert service.post(reports[1:]).status_code == 202
    service.work()
    batch = mixed(service)
    assert batch.header.reports == PEOPLE
    assert batch.header.records == sum(survey.records(PEOPLE))
    assert not list(service.shuffler.store.batches.files_directory.glob("*.filling"))
    # Of the messages that were posted all are there; and of the device's, its answer at least.
    pair = service.analyzer.keyring.pair(batch.header.key)
    found = np.bincount(messages(batch, wire, pair), minlength=DEVICE.outputs)
    posted = np.bincount(sent.messages[int(sent.sizes[0]) :], minlength=DEVICE.outputs)
    assert (found[:-1] >= posted[:-1]).all()
    assert found[0] > posted[0]
    (passed,) = service.analyzer_worker().collect().values()
    assert passed.problems == {}
    (published,) = passed.published
    result = service.result(published)
    assert (result["status"], result["valid"]) == ("published", PEOPLE)
    assert not any(result["rejected"].values())
    assert result["local_epsilon"] is None
    counts = [estimate["count"] for estimate in result["estimates"]]
    assert np.rint(counts).tolist() == (found[:4] - found[4:8]).tolist()
    deviation = np.sqrt(DEVICE.variance(0.25, n=PEOPLE)[()]) * PEOPLE
    assert all(abs(count - PEOPLE / 4) < 7 * deviation for count in counts)


@pytest.mark.usefixtures("light")
def test_how_many_records_a_batch_has_does_not_depend_on_what_was_drawn(service):
    """The same for crowds that sent quite different numbers of messages, and no other message."""
    survey, store, nothing = service.survey, service.shuffler.store, 2 * DEVICE.k
    worker, keys, sent = service.shuffler_worker(), service.keys(), {}
    for seed in (1, 2, 3):
        reports, envelopes = sealed(survey, keys, seed)
        service.post(reports)
        until_idle(worker)
        told = sorted(each for each in envelopes.messages.tolist() if each != nothing)
        sent[tuple(told)] = int(envelopes.sizes.sum())
    pair = service.analyzer.keyring.pair(keys.analyzer.number)
    for info in store.batches.listed(survey.id):
        batch = BatchFile.read(store.batches.path(info.id, info.digest))
        assert batch.header.records == sum(survey.records(PEOPLE)) < PEOPLE * DEVICE.slots
        told = [each for each in messages(batch, service.wire, pair) if each != nothing]
        assert tuple(told) in sent
    assert len(set(sent.values())) == 3


@pytest.mark.usefixtures("light")
def test_more_messages_than_any_honest_crowd_sends_are_filled_up_to_a_multiple(service):
    keys, full = service.keys(), sum(service.survey.records(PEOPLE))
    rows = np.full((PEOPLE, DEVICE.slots, 1), DEVICE.uneven.absent[0], dtype=np.uint8)
    rows[:, : full // PEOPLE + 1] = 2 * DEVICE.k
    rows[:, 0, 0] = ANSWERS
    sealing = {"analyzer": keys.analyzer, "shuffler": keys.shuffler}
    service.post([service.wire.seal(row, **sealing) for row in rows])
    service.work()
    assert mixed(service).header.records == 2 * full
    (passed,) = service.analyzer_worker().collect().values()
    assert passed.problems == {}
    assert passed.published


def test_an_analyzer_refuses_a_batch_of_another_number_of_records():
    (full,), (section,) = survey().records(PEOPLE), Wire.of(survey()).sections
    taken = {}
    for records in (full, 2 * full, full - 1, full + PEOPLE, PEOPLE):
        checks = _section_checks(section, PEOPLE, full, records, section.record_bytes)
        taken[records] = all(fits for fits, _, _ in checks)
    assert [records for records in taken if taken[records]] == [full, 2 * full]


@pytest.mark.usefixtures("light")
def test_what_cannot_be_filled_or_mixed_waits_and_leaves_no_file(service, monkeypatch):
    reports, _ = sealed(service.survey, service.keys())
    service.post(reports)
    worker, batches = service.shuffler_worker(retry=1), service.shuffler.store.batches
    with monkeypatch.context() as patched:  # the analyzer's list of keys has not come yet
        patched.setattr(KeyLists, "public_key", lambda *_: None)
        until_idle(worker)
    assert not list(batches.files_directory.iterdir())

    def fails(*_, **__):
        assert list(batches.files_directory.glob("*.filling"))
        raise OSError(28, "no space left")

    service.clock.advance(5)
    with monkeypatch.context() as patched:
        patched.setattr(worker_module, "mix_records", fails)
        until_idle(worker)
    assert not list(batches.files_directory.iterdir())
    service.clock.advance(5)
    until_idle(worker)
    assert mixed(service).header.records == sum(service.survey.records(PEOPLE))


@pytest.mark.usefixtures("light")
def test_what_a_killed_worker_leaves_is_garbage(service, monkeypatch):
    """Nothing is removed by who dies; the next worker makes the batch anew, and takes it away."""
    reports, _ = sealed(service.survey, service.keys())
    service.post(reports)
    worker, batches = service.shuffler_worker(retry=1), service.shuffler.store.batches

    def dies(name):
        if name == "shuffle.half-written":
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("shoal.service.failpoints.reached", dies)
        patched.setattr("shoal.service.shuffler.worker.files.remove", lambda _: 0)
        with pytest.raises(KeyboardInterrupt):
            until_idle(worker)
    left = {path.suffix for path in batches.files_directory.iterdir()}
    assert left == {".draft", ".filling"}
    service.clock.advance(3600)
    until_idle(worker)
    service.shuffler.store.garbage.collect()
    assert {path.suffix for path in batches.files_directory.iterdir()} == {".batch"}
    assert mixed(service).header.records == sum(service.survey.records(PEOPLE))


@pytest.mark.usefixtures("light")
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_either_database_keeps_how_many_reports_there_are(kind, store_urls, tmp_path, monkeypatch):
    shuffler = Shuffler.alone(tmp_path / "shuffler", url=store_urls[kind], **OPEN)
    monkeypatch.setattr(KeyLists, "public_key", lambda *_: shuffler.analyzer.public)
    key = shuffler.keyring.list().current(shuffler.survey.suite, shuffler.clock())
    reports, sent = sealed(shuffler.survey, Keys(shuffler.analyzer.public, key))
    for start in range(0, PEOPLE, 50):  # several parts
        shuffler.receive(reports[start : start + 50])
        shuffler.work()
    (info,) = shuffler.store.batches.listed(shuffler.survey.id)
    assert (info.reports, info.records) == (PEOPLE, sum(shuffler.survey.records(PEOPLE)))
    batch = BatchFile.read(shuffler.store.batches.path(info.id, info.digest))
    found = messages(batch, shuffler.wire, shuffler.analyzer)
    told = np.bincount(found, minlength=DEVICE.outputs)[:-1]
    assert told.tolist() == DEVICE.cells(sent.messages).tolist()
    shuffler.close()


# The wire


def test_a_report_holds_the_messages_that_are_sent_and_no_others():
    wire = Wire.of(survey())
    (section,) = wire.sections
    for used in (1, 3, DEVICE.slots):
        rows = np.full((DEVICE.slots, 1), DEVICE.uneven.absent[0], dtype=np.uint8)
        rows[:used] = 5
        report = wire.seal(rows, analyzer=ANALYZER.public, shuffler=SHUFFLER.public)
        assert len(report) == wire.report_bytes
        number, found = wire.open_report(report, SHUFFLER)
        assert number == 7
        assert [section.open_record(each, ANALYZER) for each in section.split(found)] == [
            b"\x05"
        ] * used
        opened = Pool(0).open_reports(wire, SHUFFLER, report)
        assert (opened.counts, opened.rejected) == ({7: 1}, 0)
        assert len(opened.by_key[7]) == used * section.record_bytes


def test_reports_of_any_other_length_do_not_open():
    wire = Wire.of(survey())
    (section,) = wire.sections
    row = np.full((1, 1), 5, dtype=np.uint8)
    one = replace(section, slots=1).seal(row, ANALYZER.public)
    mixed_keys = one + replace(section, slots=1).seal(row, replace(ANALYZER.public, number=8))
    good = wire.outer.seal(one * 2, SHUFFLER.public)
    bad = [
        wire.outer.seal(content, SHUFFLER.public)
        for content in (b"", one[:-1], one + b"\x00", mixed_keys, bytes(len(one)))
    ]
    for report in bad:
        with pytest.raises(NotOpenableError):
            wire.open_report(report, SHUFFLER)
    opened = Pool(0).open_reports(wire, SHUFFLER, b"".join([*bad, good]))
    assert (opened.counts, opened.rejected) == ({7: 1}, len(bad))
    assert opened.unopened == b"".join(bad)


def test_a_device_remembers_which_slots_are_not_sent():
    route = Route.of(survey())
    assert Route.from_bytes(canonical(asdict(route))) == route
    assert route.wire == Wire.of(survey())
    assert Route.of(example()).wire == Wire.of(example())


# The survey


def test_a_survey_of_it_is_read_as_it_was_written():
    made = survey()
    again = Survey.from_bytes(made.to_bytes())
    assert again.device == DEVICE
    assert again.records(PEOPLE) == (DEVICE.records(PEOPLE, honest=PEOPLE),)
    assert again.id == made.id


def test_those_who_may_be_dishonest_may_send_all_slots():
    made = survey(admission=Invited(entitled=PEOPLE, dishonest=2), epsilon=5.0)
    assert made.records(PEOPLE) == (DEVICE.records(PEOPLE, honest=PEOPLE - 2),)


def test_another_suite_is_refused():
    with pytest.raises(shoal.InvalidArgumentError, match="near-central-carriers"):
        survey(suite=SUITES[1])


def test_a_device_refuses_it_unless_a_person_allows_what_only_the_crowd_hides():
    usual = Policy(delta=1.0, epsilon=10.0)
    with pytest.raises(PolicyError, match="only the crowd hides an answer"):
        usual.check(survey())
    replace(usual, local_epsilon=float("inf")).check(survey())


def test_several_questions_or_reports_are_refused():
    with pytest.raises(shoal.InvalidArgumentError, match="1 report of a person with"):
        survey(reports_per_person=2, admission=Invited(entitled=PEOPLE, dishonest=0))
