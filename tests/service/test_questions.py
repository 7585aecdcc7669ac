"""Surveys with several questions: sealed and mixed apart, composed, published as one result."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from importlib.resources import files
from itertools import product

import jsonschema_rs
import numpy as np
import pytest
from scipy import stats

from factories import SHUFFLER, several
from peers_kit import free_sealing
from service_site import START, Analyzer, Batchwise, DirectSource, Shuffler, live, sealed_apart
from shoal.errors import InvalidArgumentError
from shoal.mechanisms.grid import Duchi
from shoal.mechanisms.registry import by_name
from shoal.mechanisms.response import RandomizedResponse
from shoal.questions.kinds import Choice
from shoal.sealing import KeyPair, MalformedError, NotOpenableError, canonical
from shoal.service.admission import Invited, Open
from shoal.service.client import Keys, seal_many
from shoal.service.client.errors import ClientError
from shoal.service.client.randomize import table_values, values_of
from shoal.service.survey import NONE, Batches, Item, Party, Survey
from shoal.service.survey.design import Design, form
from shoal.service.survey.promise import Terms, promised
from shoal.service.wire import Wire
from shoal.web.downloads import FILES

TWICE = (RandomizedResponse(k=3, epsilon=1.0),) * 2
NUMBERS = (RandomizedResponse(k=3, epsilon=1.0), Duchi(low=0.0, high=10.0, epsilon=1.0))
COLUMNS = [[0] * 60 + [1] * 30 + [2] * 10, [2] * 50 + [1] * 50]
BATCH = "11" * 16
CROWDS = 128


def asking(analyzer, devices=TWICE, **changes):
    """A survey with a question for each device that this analyzer collects for."""
    survey = several(
        devices,
        batches=Batches(minimum=50, target=500, max_age=3600),
        opens=START,
        shuffler=Party(url="http://localhost:1", fingerprint="ab" * 32),
        analyzer=Party(url="http://localhost:2", fingerprint=analyzer.keyring.fingerprint),
        **changes,
    )
    analyzer.store.surveys.add(survey)
    return survey


# ------------------------------------------------------------------------------------ the document


def test_a_survey_with_several_questions_reads_back():
    survey = several(NUMBERS)
    stored = json.loads(survey.to_bytes())
    assert stored["version"] == 4
    assert [each["question"]["name"] for each in stored["questions"]] == ["q0", "q1"]
    assert {"question", "answers", "mechanism", "sampler", "slots"}.isdisjoint(stored)
    again = Survey.from_bytes(survey.to_bytes())
    assert again == survey
    assert again.id == survey.id
    with pytest.raises(InvalidArgumentError, match="one question"):
        _ = survey.device


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"questions": ()}, "1 to 20 questions"),
        ({"questions": (several(TWICE).questions * 11)[:21]}, "1 to 20 questions"),
        ({"delta": 9e-10}, "delta >= 1e-09 for several questions"),
        ({"reports_per_person": 501}, "at most 500 reports of one person to 2 questions each"),
        (
            {"questions": (several().questions[0],) * 2},
            "names that differ",
        ),
    ],
)
def test_several_questions_that_make_no_survey_are_refused(change, said):
    with pytest.raises(InvalidArgumentError, match=said):
        replace(several(), **change)


@pytest.mark.parametrize(
    "change",
    [
        lambda stored: stored.update(version=3),
        lambda stored: stored.update(questions=[]),
        lambda stored: stored["questions"][0].update(more=1),
        lambda stored: stored["questions"][0].update(slots=2),
        lambda stored: stored.update(answers=[]),
        lambda stored: stored.update(questions="abc"),
        lambda stored: stored.update(questions=[1, 2]),
        lambda stored: stored["questions"][0]["question"].pop("name"),
        lambda stored: stored["questions"][0]["question"].update(name="a name"),
        lambda stored: stored["questions"][0]["question"].update(kind="scale"),
        lambda stored: stored["questions"][0]["question"].update(missing="refuse"),
        lambda stored: stored["questions"][0]["question"].update(weight=2),
        lambda stored: stored["questions"][0]["question"].pop("other"),
    ],
)
def test_another_document_is_no_survey(change):
    stored = json.loads(several().to_bytes())
    change(stored)
    with pytest.raises(MalformedError):
        Survey.from_bytes(canonical(stored))


# ------------------------------------------------------------------------------------- the promise


def ones(device, answers):
    """The law of how many of the reports are the second answer of two: all that is seen."""
    keep, law = 1 / (1 + math.exp(-device.epsilon)), np.ones(1)
    for answer in answers:
        law = np.convolve(law, [1 - keep, keep] if answer else [keep, 1 - keep])
    return law


def lost(devices, epsilon, *, others, own):
    """The largest delta at this epsilon over all neighbouring tables; ``own`` are one person's."""
    worst = 0.0
    for second in product(range(others + 1), repeat=len(devices)):
        known = [[1] * count + [0] * (others - count) for count in second]
        for mine in product([0, 1], repeat=len(devices)):
            seen, instead = (
                np.outer(
                    *(
                        ones(device, [*rest, *[answer] * own])
                        for device, rest, answer in zip(devices, known, answers, strict=True)
                    )
                )
                for answers in (mine, [1 - answer for answer in mine])
            )
            worst = max(worst, float(np.maximum(seen - math.exp(epsilon) * instead, 0).sum()))
    return worst


@pytest.mark.parametrize(("reports", "valid"), [(1, 5), (2, 8)])
@pytest.mark.parametrize("delta", [0.02, 0.1])
def test_the_promise_holds_for_all_questions_together(reports, valid, delta):
    devices = tuple(RandomizedResponse(k=2, epsilon=epsilon) for epsilon in (0.8, 0.5))
    people = {"others": valid - reports, "own": reports}
    terms = Terms(delta=delta, reports_per_person=reports)
    together = promised(devices, terms, valid).epsilon
    assert 0.5 * delta < lost(devices, together, **people) <= delta
    alone = promised(devices[:1], terms, valid).epsilon
    assert alone < together
    if reports == 1:  # for several, the proof divides the crowd and gives more away
        assert lost(devices, alone, **people) > delta


def test_more_questions_and_reports_cost_more_and_a_crowd_helps():
    def epsilon(questions, reports=1, valid=2000):
        terms = Terms(delta=1e-6, reports_per_person=reports)
        return promised(TWICE[:1] * questions, terms, valid).epsilon

    assert epsilon(1) < epsilon(2) < epsilon(3) < 3 * epsilon(1) * 1.05
    assert epsilon(2) < epsilon(2, reports=2)
    assert epsilon(2, valid=8000) < epsilon(2)


def test_a_design_spends_the_whole_budget_by_weight():
    parts = [
        Choice("a", ["x", "y"], text="A?", weight=2.0, choose="grr"),
        Choice("b", ["x", "y"], text="B?", choose="grr"),
    ]
    design = Design(
        epsilon=1.0,
        delta=1e-6,
        batches=Batches(minimum=500, target=1000, max_age=3600),
        admission=Invited(entitled=2000, dishonest=0),
        questions=tuple(parts),
    )
    survey = design.survey(
        name="two",
        purpose="to see",
        not_before=START,
        not_after=START + 86400,
        shuffler=SHUFFLER,
        analyzer=Party(url="https://analyzer.example", fingerprint="a" * 64),
    )
    assert 0.99 <= survey.guarantee(500).epsilon <= 1.0 + 1e-9
    first, second = survey.devices
    assert first.local_epsilon > second.local_epsilon
    assert [each.answers[-1] for each in survey.questions] == [NONE, NONE]
    with pytest.raises(InvalidArgumentError, match="a list of answers for the question a"):
        form([Choice("a", text="A?")])
    with pytest.raises(InvalidArgumentError, match="which is added"):
        form([parts[0], Choice("b", ["x", "(None)"], text="B?")])


# ---------------------------------------------------------------------------------------- the wire


def test_a_message_opens_in_its_own_section_only():
    survey, pair, shuffler = several(TWICE), KeyPair.generate(number=3), KeyPair.generate(number=1)
    wire = Wire.of(survey)
    rows = [np.array([[number]], dtype=np.uint8) for number in (1, 2)]
    report = wire.seal(*rows, analyzer=pair.public, shuffler=shuffler.public)
    assert len(report) == wire.report_bytes
    _, opened = wire.open_report(report, shuffler)
    first, second = wire.sections
    records = [opened[each.start : each.end] for each in wire.sections]
    assert first.open_record(records[0], pair) == b"\x01"
    assert second.open_record(records[1], pair) == b"\x02"
    for section, record in ((first, records[1]), (second, records[0])):
        with pytest.raises(NotOpenableError):
            section.open_record(record, pair)


# ------------------------------------------------------------------------------------ the shuffler


def test_sections_come_out_in_orders_that_have_nothing_to_do_with_each_other(tmp_path, monkeypatch):
    free_sealing(monkeypatch)
    few, orders = 8, []
    asked = several((RandomizedResponse(k=250, epsilon=1.0),) * 2).questions
    service = Batchwise(tmp_path, few, questions=asked, admission=Open(dishonest=0), epsilon=9)
    for crowd in range(CROWDS):
        keys = service.keys(crowd)
        rows = (np.full((1, 1), person, dtype=np.uint8) for person in range(few))
        service.receive(
            service.wire.seal(row, row, analyzer=keys.analyzer, shuffler=keys.shuffler)
            for row in rows
        )
    for batch in service.files():
        pair = service.analyzers[batch.header.key]
        orders.append(
            [
                [section.open_record(one, pair)[0] for one in section.split(bytes(body))]
                for section, body in zip(service.wire.sections, batch.sections, strict=True)
            ]
        )
    service.close()
    assert len(orders) == CROWDS
    first, second = np.array(orders).transpose(1, 0, 2)
    for order in (first, second):  # each by itself is uniform
        assert stats.chisquare(np.bincount(order[:, 0], minlength=few)).pvalue > 1e-7
    # Where the person at each place of the first section is in the second one.
    places = np.array([np.argsort(two)[one] for one, two in zip(first, second, strict=True)])
    for place in range(few):
        assert stats.chisquare(np.bincount(places[:, place], minlength=few)).pvalue > 1e-8
    # As many people at the same place of both as chance makes: CROWDS on average.
    same = int((places == np.arange(few)).sum())
    assert stats.poisson.sf(same - 1, CROWDS) > 1e-7
    assert stats.poisson.cdf(same, CROWDS) > 1e-7


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_from_sealed_reports_to_one_result(
    tmp_path, store_urls, another_postgres_url, kind, monkeypatch
):
    urls = {"shuffler": store_urls[kind], "analyzer": f"sqlite:///{tmp_path / 'other.sqlite'}"}
    if kind == "postgresql":
        urls["analyzer"] = another_postgres_url
    analyzer = Analyzer(tmp_path / "analyzer", url=urls["analyzer"])
    second = RandomizedResponse(k=2, epsilon=1.0)
    if kind == "sqlite":  # hundreds of slots each, which are not sealed for real as the others are
        free_sealing(monkeypatch)
        second = by_name("near-central").calibrated(n=50, epsilon=2.0, delta=1e-6)
    devices = (TWICE[0], second)
    shuffler = Shuffler.alone(
        tmp_path / "shuffler",
        url=urls["shuffler"],
        questions=several(devices).questions,
        admission=Open(dishonest=0),
        analyzer=analyzer.keyring.fingerprint,
        minimum=50,
        target=60,
        epsilon=9.0,
    )
    survey = shuffler.survey
    analyzer.store.surveys.add(survey)
    answers = [{"q0": "a0"}] * 40 + [{"q1": "a0"}] * 20  # everybody skips one
    keys = Keys(
        analyzer.keyring.list().current(survey.suite, shuffler.clock()),
        shuffler.keyring.list().current(survey.suite, shuffler.clock()),
    )
    shuffler.receive(seal_many(survey, values_of(survey, answers), keys))
    shuffler.work()
    assert shuffler.released() == [60]
    source = DirectSource(shuffler.store, survey.id)
    (batch,) = analyzer.collect(survey, source).published
    found = analyzer.document(survey, batch)
    assert found["reports"] == found["valid"] == 60
    assert found["estimates"] is None
    names = [(each["name"], each["valid"], len(each["estimates"])) for each in found["questions"]]
    assert names == [("q0", 60, 3), ("q1", 60, 2)]
    assert found["questions"][0]["estimates"][-1]["answer"] == NONE
    (debit,) = analyzer.store.ledger.entries(survey.id)
    assert debit["epsilon"] == found["epsilon"] == survey.guarantee(60).epsilon
    results = analyzer.store.results.survey(survey.id)
    assert [each.n for each in results.counts] == [60, 60]
    assert [each.column for each in results.result.columns] == ["Question 0?", "Question 1?"]
    for name in FILES if kind == "sqlite" else ():
        assert FILES[name].make(analyzer.store, results), name
    assert [len(each.ranked) for each in results.result.columns] == [3, 2]
    lines = results.to_csv().splitlines()
    assert lines[0].startswith("batch,status,question,answer,fraction")
    assert len(lines) == 1 + 2 * 5
    shuffler.close()
    analyzer.close()


# ------------------------------------------------------------------------------------ the analyzer


def test_a_record_of_one_question_is_none_of_another(analyzer):
    survey = asking(analyzer)
    first, second = sealed_apart(survey, analyzer.keyring, COLUMNS)
    second[:10] = first[:10]  # and so they are in the batch twice
    analyzer.shuffler.put(survey, [first, second])
    analyzer.collect(survey)
    found = analyzer.document(survey)
    assert found["rejected"]["unopened"] == 10
    assert [each["valid"] for each in found["questions"]] == [100, 90]
    assert found["valid"] == 90
    assert found["epsilon"] == survey.guarantee(90).epsilon


def test_the_smallest_question_decides(analyzer):
    survey = asking(analyzer)
    first, second = sealed_apart(survey, analyzer.keyring, COLUMNS)
    second[:51] = [bytes(len(second[0]))] * 51
    analyzer.shuffler.put(survey, [first, second])
    analyzer.collect(survey)
    found = analyzer.document(survey)
    assert found["status"] == "withheld"
    assert "questions" not in found
    assert analyzer.store.collections.find(survey.id, BATCH).counts == ()


def test_what_was_counted_is_a_replay_in_every_section(analyzer):
    survey = asking(analyzer)
    sections = sealed_apart(survey, analyzer.keyring, COLUMNS)
    analyzer.shuffler.put(survey, sections)
    analyzer.collect(survey)
    analyzer.shuffler.put(survey, sections, batch="22" * 16)
    analyzer.collect(survey)
    assert analyzer.document(survey, "22" * 16)["rejected"]["replayed"] == 200
    assert len(analyzer.store.ledger.entries(survey.id)) == 2


@pytest.mark.parametrize(
    ("reports", "shapes"),
    [
        (50, [(100, 1), (100, 1)]),  # half of the reports
        (100, [(200, 1)]),  # all in one section
        (50, [(100, 1), (50, 2)]),  # as many bytes, other records
        (50, [(100, 1), (50, 1), (50, 1)]),  # a section too many
        (100, [(100, 1), (200, 1)]),  # more than one record for the second question
    ],
)
def test_sections_of_another_length_are_refused(analyzer, reports, shapes):
    survey = asking(analyzer)
    first, second = sealed_apart(survey, analyzer.keyring, COLUMNS)
    size = Wire.of(survey).sections[0].record_bytes
    lie = {"reports": reports, "sections": tuple((count, times * size) for count, times in shapes)}
    more = second if sum(count * times for count, times in shapes) > 200 else []
    analyzer.shuffler.put(survey, [first, second + more], lies=lie)
    assert analyzer.collect(survey).refused == (BATCH,)
    assert not analyzer.store.ledger.entries(survey.id)


def test_a_forged_question_holds_the_whole_batch(analyzer):
    survey = asking(analyzer, (RandomizedResponse(k=2, epsilon=1.0),) * 2)
    values = [[0] * 100, [0] * 100]
    first, _ = sealed_apart(survey, analyzer.keyring, values)
    section = Wire.of(survey).sections[1]
    public = analyzer.keyring.list().current(survey.suite, START)
    made_up = [section.seal(np.zeros((1, 1), dtype=np.uint8), public) for _ in range(100)]
    analyzer.shuffler.put(survey, [first, made_up])
    done = analyzer.collect(survey)
    assert done.held == (BATCH,)
    (held,) = analyzer.store.results.survey(survey.id).held
    assert held.reason.startswith("q1: ")


# -------------------------------------------------------------------------------------- the client


def test_answers_by_name_and_skipped_ones(tmp_path):
    survey = several(NUMBERS)
    values = values_of(survey, [{"q0": "a1", "q1": 3}, {"q0": None, "q1": "4.5"}, {"q1": 0}])
    assert values["q0"].tolist() == [1, 2, 2]
    assert values["q1"].tolist() == [3.0, 4.5, 0.0]
    for wrong, said in (
        ({"q0": "a0"}, "which cannot be skipped"),
        ({"q0": "nothing", "q1": 1}, "one of the answers to q0"),
        ({"q2": "a0", "q1": 1}, "with the names of the questions"),
        ("a0", "with the names of the questions"),
        ({"q1": 11}, "a number from 0 to 10"),
    ):
        with pytest.raises(InvalidArgumentError, match=said):
            values_of(survey, [wrong])
    table = tmp_path / "people.csv"
    table.write_text("q0,other,q1\na1,x,3\n,y,4.5\n(none),z,0\n")
    assert (table_values(survey, table) == values).all()
    with pytest.raises(InvalidArgumentError, match="with the names of the questions"):
        table_values(survey, table, "q0")
    table.write_text("q0,q1\na1,3\na0,\n")
    with pytest.raises(ClientError, match="cannot be skipped"):
        table_values(survey, table)


def test_people_answer_over_http(tmp_path):
    asked = several(NUMBERS).questions
    with live(tmp_path, questions=asked, admission=Open(dishonest=0), epsilon=9.0) as service:
        survey = service.client("reader").survey(
            f"{service.survey.shuffler.url}/v1/surveys/{service.survey.id}"
        )
        assert survey == service.survey
        client = service.client("people")
        answers = [{"q0": "a0", "q1": 2.0}] * 40 + [{"q1": 8}] * 19
        client.report_many(survey, answers, job="people")
        outcome = service.client("person").report(survey, {"q0": "a1", "q1": 5})
        assert type(outcome).__name__ == "Sent"
        shuffling, collecting = service.shuffler_worker(), service.analyzer_worker()
        while shuffling.step() or collecting.step():
            pass
        (found,) = service.results()
    described = json.loads(files("shoal.service.analyzer").joinpath("openapi.json").read_text())
    result = jsonschema_rs.validator_for({**described, "$ref": "#/components/schemas/Result"})
    assert result.is_valid(found)
    assert not result.is_valid({**found, "more": 1})
    assert found["valid"] == 60
    mean = found["questions"][1]["mean"]
    assert mean["low"] < 3.95 < mean["high"]
    assert len(found["questions"][0]["estimates"]) == 3


def test_a_question_by_itself_says_what_it_is():
    question = Item(Choice("which", ["a", "b"], text="Which?"), TWICE[0])
    assert question.may_be_skipped
    assert question.answers == ("a", "b", NONE)
    required = Item(Choice("which", ["a", "b", "c"], text="Which?", missing="refuse"), TWICE[0])
    assert not required.may_be_skipped
    assert not several(NUMBERS).questions[1].may_be_skipped
