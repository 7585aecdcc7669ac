"""A shuffler that cheats, over real HTTP: the analyzer counts nobody twice, and no other survey's.

It has the reports of real devices, opens its own layer of them, and hands the analyzer whatever
batches it likes. What it cannot be kept from is here too: a crowd that it made up.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import httpx
import numpy as np
import pytest

from http_kit import Lying
from service_site import live
from shoal.service.analyzer.collect import Collector
from shoal.service.analyzer.tables import RECEIVED
from shoal.service.batch_file import BatchHeader
from shoal.service.client import seal_many
from shoal.service.wire import Wire

MINIMUM = 60


class Cheat(Lying):
    """A shuffler with batches of its own making, of any survey, by their names."""

    def __init__(self):
        super().__init__()
        self.batches, self._made = {}, 0

    def answer(self, request, pass_on):
        first, about_batches, rest = request.url.path.partition("/batches")
        if not about_batches or any(map(request.url.path.endswith, self.lies)):
            return super().answer(request, pass_on)
        survey = first.rpartition("/")[2]
        mine = {batch: data for (of, batch), data in self.batches.items() if of == survey}
        batch, _, acknowledged = rest.strip("/").partition("/")
        if acknowledged:
            return httpx.Response(200, json={})
        if batch:
            return httpx.Response(200, content=mine[batch])
        after = request.url.params.get("after", "")
        listed = [
            {
                "batch": name,
                "state": "SHUFFLED",
                "key": 0,
                "digest": sha256(data).hexdigest(),
                "bytes": len(data),
            }
            for name, data in sorted(mine.items())
            if name > after
        ]
        return httpx.Response(200, json={"batches": listed})

    def offer(self, survey, records, *, batch=None, **lies):
        """A batch of these records; ``lies`` are in its header. Its name."""
        self._made += batch is None
        batch = batch or f"{self._made:032x}"
        size = Wire.of(survey).sections[0].record_bytes
        about = {
            "key": records[0][1],
            "reports": len(records),
            "sections": ((len(records), size),),
        } | lies
        header = BatchHeader(survey=survey.id, batch=batch, **about)
        self.batches[str(survey.id), batch] = header.to_bytes() + b"".join(records)
        return batch


class Attack:
    """The cheat, its victims, and the analyzer that it tries to deceive."""

    def __init__(self, service, cheat):
        self.service, self.cheat, self.survey = service, cheat, service.survey
        self.worker = service.analyzer_worker()

    def records(self, people, survey=None):
        """What the shuffler has of so many people: their reports, without its own seal."""
        survey = survey or self.survey
        wire, values = Wire.of(survey), np.arange(people) % 4
        path = f"{survey.shuffler.url}/v1/surveys/{survey.id}/reports"
        reports = seal_many(survey, values, self.service.keys())
        body, kind = b"".join(reports), {"content-type": "application/octet-stream"}
        assert self.service.http.post(path, content=body, headers=kind).status_code == 202
        body, size = self.cheat.asked[-1].content, wire.report_bytes
        pair = self.service.shuffler.keyring.pair(body[1])
        return [wire.open_report(body[at : at + size], pair)[1] for at in range(0, len(body), size)]

    def made_up(self, messages):
        """Records that anybody can make with the public key: of these messages."""
        section, key = Wire.of(self.survey).sections[0], self.service.keys().analyzer
        return [section.seal(np.array([[each]], dtype=np.uint8), key) for each in messages]

    def collect(self):
        """What one pass of the analyzer says of the survey."""
        return self.worker.collect()[str(self.survey.id)]

    def collected(self, records, **lies):
        """The result of a batch of these records."""
        batch = self.cheat.offer(self.survey, records, **lies)
        assert self.collect().published == (batch,)
        return self.service.result(batch)

    def state(self, batch):
        return self.service.analyzer.store.collections.find(self.survey.id, batch)


@pytest.fixture(scope="module")
def attack(tmp_path_factory):
    cheat = Cheat()
    with live(tmp_path_factory.mktemp("cheat"), front=cheat, minimum=MINIMUM) as service:
        yield Attack(service, cheat)


def left_out(result):
    return {reason: count for reason, count in result["rejected"].items() if count}


def sizes(result):
    """How many people are estimated for each answer, before rounding."""
    return [row["count"] for row in result["estimates"]]


# ------------------------------------------------------------------ records of others, or again


def test_a_batch_under_another_name_counts_nobody_again(attack):
    people = attack.records(MINIMUM)
    first = attack.collected(people)
    assert (first["valid"], first["withheld"]) == (MINIMUM, None)
    again = attack.collected(people[::-1])
    assert (again["valid"], left_out(again)) == (0, {"replayed": MINIMUM})
    assert again["estimates"] is None
    assert again["life"]["batches"] == first["life"]["batches"]


def test_records_of_earlier_batches_add_nothing_to_a_new_crowd(attack):
    """Otherwise the difference of two results would be the new people alone, weighted."""
    old, new = attack.records(MINIMUM), attack.records(MINIMUM)
    attack.collected(old)
    mixed = attack.collected(old[:59] + new + new[:7])
    assert left_out(mixed) == {"replayed": 59, "repeated": 7}
    assert (mixed["valid"], round(sum(sizes(mixed)))) == (MINIMUM, MINIMUM)


def test_old_records_do_not_make_a_small_crowd_large(attack):
    old = attack.records(MINIMUM)
    attack.collected(old)
    few = attack.records(5)
    result = attack.collected(old + few)
    assert (result["valid"], result["estimates"]) == (5, None)
    assert "55 fewer than the survey's minimum" in result["withheld"]
    # Nor can the five be dealt out again in a crowd of the cheat's choice.
    later = attack.collected(few + attack.records(MINIMUM))
    assert left_out(later) == {"replayed": 5}


def test_two_surveys_are_not_mixed(attack):
    """The same people, parties, keys and question: what was sealed for one opens in no other."""
    other = replace(attack.survey, name="another survey of the two")
    for half in (attack.service.shuffler, attack.service.analyzer):
        half.store.surveys.add(other)
    theirs, ours = attack.records(40, other), attack.records(MINIMUM)
    result = attack.collected(theirs + ours)
    assert (left_out(result), result["valid"]) == ({"unopened": 40}, MINIMUM)
    # A batch of one survey, offered to the other: its header says whose it is.
    batch = attack.cheat.offer(attack.survey, attack.records(MINIMUM))
    data = attack.cheat.batches.pop((str(attack.survey.id), batch))
    attack.cheat.batches[str(other.id), batch] = data
    passed = attack.worker.collect()[str(other.id)]
    assert passed.refused == (batch,)
    del attack.cheat.batches[str(other.id), batch]


# --------------------------------------------------------------------------- less, or other bytes


def test_a_crowd_that_is_split_is_withheld_in_parts(attack):
    people = attack.records(MINIMUM)
    for half in (people[:30], people[30:]):
        result = attack.collected(half)
        assert (result["valid"], result["estimates"]) == (30, None)
    # And it does not come together again: these records are spent.
    assert attack.collected(people)["valid"] == 0


def test_fewer_records_than_a_header_says_are_refused(attack):
    people = attack.records(MINIMUM)
    size = len(people[0])
    short = attack.cheat.offer(attack.survey, people[:59], reports=59, sections=((60, size),))
    padded = attack.cheat.offer(attack.survey, people, reports=30)
    assert attack.collect().refused == (short, padded)
    reasons = [attack.state(batch).reason for batch in (short, padded)]
    assert "expected 60 records of" in reasons[0]
    assert "expected 1 records per report, got 60 of 30 reports" in reasons[1]


def test_a_batch_that_is_cut_off_on_its_way_is_not_counted(attack):
    batch = attack.cheat.offer(attack.survey, attack.records(MINIMUM + 1))
    whole = attack.cheat.batches[str(attack.survey.id), batch]
    attack.cheat.lies[batch] = httpx.Response(200, content=whole[:-100])
    assert "is not the digest of batch" in attack.collect().problems[batch]
    attack.cheat.lies.clear()
    assert attack.collect().published == (batch,)


def test_other_content_for_a_published_batch_changes_nothing(attack):
    result = attack.collected(attack.records(MINIMUM))
    attack.cheat.offer(attack.survey, attack.records(MINIMUM), batch=result["batch"])
    for _ in range(2):
        passed = attack.collect()
        assert (passed.published, passed.refused, passed.held) == ((), (), ())
    assert attack.service.result(result["batch"]) == result
    ledger = attack.service.analyzer.store.ledger.entries(attack.survey.id)
    assert [each["batch"] for each in ledger].count(result["batch"]) == 1


def test_what_was_received_is_not_exchanged_for_records_of_another_key(attack, monkeypatch):
    """Tags go with the key: under a wrong one they would not keep the records from coming again."""
    service = attack.service
    batch = attack.cheat.offer(attack.survey, attack.records(MINIMUM))
    with monkeypatch.context() as patched:
        patched.setattr(Collector, "_open", lambda *_: 1 / 0)
        attack.collect()
    assert attack.state(batch).state == RECEIVED
    for path in service.analyzer.store.incoming.glob(f"*-{batch}.batch"):
        path.unlink()  # by somebody who cleaned up
    service.analyzer.keyring.rotate()
    service.clock.advance(7200)
    service.analyzer.keyring.tick()
    assert service.fetcher().step() == 1
    people = attack.records(MINIMUM)
    attack.cheat.offer(attack.survey, people, batch=batch)
    assert people[0][1] != attack.state(batch).key
    assert "as when it was received" in attack.collect().problems[batch]
    assert attack.state(batch).state == RECEIVED
    result = attack.collected(people)
    assert (result["valid"], left_out(result)) == (MINIMUM, {})
    again = attack.collected(people)
    assert (again["valid"], left_out(again)) == (0, {"replayed": MINIMUM})
    del attack.cheat.batches[str(attack.survey.id), batch]


# ------------------------------------------------------------------------------------- made up


def test_a_crowd_made_up_without_noise_is_held(attack):
    victim = attack.records(1)
    batch = attack.cheat.offer(attack.survey, attack.made_up([0] * 499) + victim)
    assert attack.collect().held == (batch,)
    assert attack.service.http.get(
        f"{attack.survey.analyzer.url}/v1/surveys/{attack.survey.id}/results/{batch}"
    ).is_error


def test_a_crowd_made_up_by_the_protocol_leaves_one_report_and_its_noise(attack):
    """Nobody can tell it from people: so every result names the shuffler, and states ε₀."""
    messages = attack.survey.device.randomize(np.arange(MINIMUM - 1) % 4)
    victim = attack.records(1)
    result = attack.collected(attack.made_up(messages.tolist()) + victim)
    assert result["valid"] == MINIMUM
    store = attack.service.analyzer.store
    (counts,) = store.collections.find(attack.survey.id, result["batch"]).counts
    alone = counts.cells - np.bincount(messages, minlength=4)
    assert sorted(alone.tolist()) == [0, 0, 0, 1]  # one randomized message, and no more
    assert "shuffler" in result["trust"]
    assert result["local_epsilon"] == attack.survey.local_epsilon
