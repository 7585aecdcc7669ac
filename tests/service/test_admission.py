"""Who may report: documents, invitations and codes, and that each code counts once."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factories import OPENS, early, example
from http_kit import BYTES, refusal_of
from service.stores import rows_of
from service_site import Shuffler
from shoal.errors import InvalidArgumentError, RefusedError, UnreachableTargetError
from shoal.sealing import MalformedError, SurveyId, canonical
from shoal.service.admission import (
    CODE_BYTES,
    CODE_REVOKED,
    CODE_SPENT,
    CODE_UNKNOWN,
    Invitation,
    Invited,
    Open,
    OpenFraction,
    beside,
)
from shoal.service.batch_file import BatchFile
from shoal.service.http.problems import ProblemError
from shoal.service.keyring import Protection
from shoal.service.ops import invitations
from shoal.service.ops.backup import back_up
from shoal.service.ops.facts import store_facts
from shoal.service.ops.health import State
from shoal.service.ops.home import Home
from shoal.service.ops.invitations import CodesFile
from shoal.service.ops.restore import restore
from shoal.service.shuffler import codes as codes_module
from shoal.service.shuffler import tables as schema
from shoal.service.shuffler.intake import sorted_upload
from shoal.service.shuffler.reports import Arrival
from shoal.service.survey import Stated, Survey
from shoal.service.survey.summary import document
from shoal.service.survey.words import promise_document, sentences
from shoal.service.wire import Wire

SECRET = bytes(range(16))
SURVEY = SurveyId(bytes(range(32)))
CLASS = Invited(entitled=1200, dishonest=3)


# -------------------------------------------------------------------------------------- documents


@pytest.mark.parametrize("admission", [Open(dishonest=0), Open(dishonest=25), CLASS], ids=str)
@pytest.mark.parametrize("version", [2, 4])
def test_a_survey_states_its_admission(admission, version):
    survey = example(admission=admission)
    survey = survey if version == 4 else early(survey, version)
    stored = json.loads(survey.to_bytes())
    assert stored["version"] == version
    assert stored["admission"] == admission.to_dict()
    assert "dishonest" not in stored
    assert Survey.from_bytes(survey.to_bytes()) == survey
    assert Stated.from_bytes(survey.to_bytes()).admission == admission


def test_surveys_of_version_1_are_what_they_were():
    survey = example(dishonest=0.1)
    stored = json.loads(survey.to_bytes())
    assert (stored["version"], stored["dishonest"]) == (1, 0.1)
    assert "admission" not in stored
    assert Survey.from_bytes(survey.to_bytes()).admission == OpenFraction(dishonest=0.1)
    assert survey.admission.kind == "open"
    assert survey.honest(1000) == 900


@pytest.mark.parametrize(
    "change",
    [
        {"admission": {"kind": "tokens", "dishonest": 0}},
        {"admission": {"kind": "open"}},
        {"admission": {"kind": "open", "dishonest": 0, "entitled": 5}},
        {"admission": {"kind": "open", "dishonest": 0.5}},
        {"admission": {"kind": "open", "dishonest": -1}},
        {"admission": {"kind": "open", "dishonest": True}},
        {"admission": {"kind": "invited", "dishonest": 0}},
        {"admission": {"kind": "invited", "dishonest": 1000, "entitled": 1000}},
        {"admission": {"kind": "invited", "dishonest": 0, "entitled": 0}},
        {"admission": {"kind": "invited", "dishonest": 0, "entitled": 999}},  # below the minimum
        {"admission": {"kind": "invited", "dishonest": 0, "entitled": 10**11}},
        {"admission": []},
        {"admission": None},
        {"version": 1},
        {"version": 3},
        {"version": True},
        {"dishonest": 0.1},
    ],
    ids=str,
)
def test_what_is_no_admission_is_refused(change):
    for survey in (example(admission=CLASS), early(example(admission=CLASS), 2)):
        with pytest.raises(MalformedError):
            Survey.from_bytes(canonical(json.loads(survey.to_bytes()) | change))


@settings(max_examples=200, deadline=None)
@given(
    valid=st.integers(0, 10**9),
    more=st.integers(0, 1000),
    reports=st.integers(1, 50),
    dishonest=st.integers(0, 10**6),
)
def test_the_laws_of_counting_on_people(valid, more, reports, dishonest):
    """Nobody counts who is not there; more reports never hurt, more dishonest people do."""
    anybody, few = Open(dishonest=dishonest), Invited(dishonest=dishonest, entitled=10**7)
    honest = anybody.honest(valid, reports)
    assert honest == few.honest(valid, reports) == max(0, valid - reports * dishonest)
    assert anybody.honest(valid + more, reports) >= honest
    assert Open(dishonest=dishonest + more).honest(valid, reports) <= honest
    assert Open(dishonest=0).honest(valid, reports) == valid
    for admission in (anybody, OpenFraction(dishonest=(dishonest % 999) / 1000)):
        least = admission.least_valid(more, reports)
        assert admission.honest(least, reports) >= more
    least = anybody.least_valid(more, reports)
    assert more == 0 or anybody.honest(least - 1, reports) < more


def test_the_crowd_is_what_is_left_divided_by_the_reports_of_one():
    fields = {"reports_per_person": 2, "epsilon": 2.4}
    survey = example(admission=Invited(entitled=3000, dishonest=100), **fields)
    guarantee = survey.guarantee(1000)
    assert guarantee.n == survey.honest(1000) == 800
    trusted = example(admission=Invited(entitled=3000, dishonest=0), **fields)
    assert guarantee.epsilon == trusted.guarantee(800).epsilon > trusted.guarantee(1000).epsilon
    with pytest.raises(UnreachableTargetError, match="leave nobody"):
        survey.guarantee(201)


@pytest.mark.parametrize(
    ("admission", "words", "not_words"),
    [
        (Open(dishonest=5), "crowd assumed, not checked", "invites"),
        (OpenFraction(dishonest=0.1), "crowd assumed, not checked", "invites"),
        (CLASS, "made-up people", "not checked"),
    ],
    ids=str,
)
def test_every_rendering_says_whether_the_crowd_is_checked(admission, words, not_words):
    survey = example(admission=admission)
    guarantee = survey.guarantee(1000)
    said = {
        "assumptions": " ".join(guarantee.assumptions),
        "guarantee": str(guarantee.document()),
        "statements": " ".join(each.text for each in sentences(survey).statements),
    }
    for text in said.values():
        assert words in text
        assert not_words not in text
    for each in (document(survey, OPENS), promise_document(survey)):
        assert admission.fact in str(each)
    assert ("makes up no people for the analyzer" in guarantee.trust) == (admission is CLASS)
    assert "tokens" not in said["assumptions"]


# ------------------------------------------------------------------------- invitations and codes


RECORDED = json.loads((Path(__file__).parent / "vectors" / "admission_v1.json").read_text())


@pytest.mark.parametrize("case", RECORDED["invitations"], ids=lambda case: case["secret"][:6])
def test_recorded_invitations_are_read_and_give_their_codes(case):
    invitation = Invitation(bytes.fromhex(case["secret"]))
    assert str(invitation) == case["spellings"][0]
    for text in case["spellings"]:
        assert Invitation.read(text) == invitation
    for text in case["mistyped"]:
        with pytest.raises(InvalidArgumentError, match="typo"):
            Invitation.read(text)
    for each in case["codes"]:
        survey = SurveyId.from_text(each["survey"])
        assert invitation.code(survey, each["occasion"]).hex() == each["code"]


def test_recorded_surveys_of_version_2_keep_their_ids():
    for case in RECORDED["surveys"]:
        survey = Survey.from_bytes(case["survey"].encode())
        assert str(survey.id) == case["id"]
        honest = survey.honest(survey.batches.minimum)
        assert (honest, honest // survey.reports_per_person) == (case["honest"], case["crowd"])


@settings(max_examples=200, deadline=None)
@given(secret=st.binary(min_size=16, max_size=16), data=st.data())
def test_an_invitation_is_read_however_it_is_written(secret, data):
    written = str(Invitation(secret))
    assert len(written) == 28 + 6
    lower = data.draw(st.lists(st.booleans(), min_size=len(written), max_size=len(written)))
    typed = "".join(
        letter.lower() if low else letter for letter, low in zip(written, lower, strict=True)
    )
    if data.draw(st.booleans()):
        typed = typed.replace("-", data.draw(st.sampled_from(["", " ", "--", "\n"])))
    typed = typed.replace("1", data.draw(st.sampled_from("1IlL"))).replace("0", "o")
    link = f"https://analyzer.example/answer/{SURVEY}#{typed}"
    assert Invitation.read(typed) == Invitation.read(link) == Invitation(secret)


@settings(max_examples=200, deadline=None)
@given(text=st.one_of(st.text(), st.text("0123456789ABCDEFGHJKMNPQRSTVWXYZ-", max_size=40)))
def test_anything_else_is_refused_and_not_repeated(text):
    with pytest.raises(InvalidArgumentError, match="typo") as caught:
        Invitation.read(text)
    assert len(text) < 20 or text not in str(caught.value)


def test_a_mistyped_invitation_is_found_locally():
    """Every letter in every other place, and every two neighbours exchanged: hardly any pass."""
    written, passed, tried = str(Invitation(SECRET)).replace("-", ""), 0, 0
    changed = [
        written[:at] + letter + written[at + 1 :]
        for at in range(len(written))
        for letter in "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
        if letter != written[at]
    ]
    changed += [
        written[:at] + written[at + 1] + written[at] + written[at + 2 :]
        for at in range(len(written) - 1)
        if written[at] != written[at + 1]
    ]
    for text in changed:
        tried += 1
        try:
            Invitation.read(text)
        except InvalidArgumentError:
            continue
        passed += 1
    assert tried > 850
    assert passed <= 3
    for text in (written[1:], written + "0", written.replace(written[4], "U"), ""):
        with pytest.raises(InvalidArgumentError):
            Invitation.read(text)


def test_invitations_differ():
    drawn = Invitation.draw(2000)
    assert len(drawn) == len(set(drawn)) == 2000


# ---------------------------------------------------------------------------------- the wire


def test_a_body_of_reports_and_codes_is_a_table_of_bytes():
    wire = Wire.of(example(admission=CLASS))
    reports = [bytes([1, key]) + bytes(wire.report_bytes - 2) for key in (5, 9, 5, 7)]
    codes = [bytes([number]) * CODE_BYTES for number in range(4)]
    body = beside(b"".join(reports), b"".join(codes))
    assert body == b"".join(a + b for a, b in zip(reports, codes, strict=True))
    upload = sorted_upload(body, wire=wire, accepts={5, 7}.__contains__, most=9, code_bytes=16)
    assert [(each.key, each.reports, each.codes) for each in upload.arrivals] == [
        (5, reports[0] + reports[2], codes[0] + codes[2]),
        (7, reports[3], codes[3]),
    ]
    assert upload.refused == {"unknown_key": [1]}
    upload.refuse([{CODE_SPENT: [1]}, {CODE_UNKNOWN: [0]}])
    assert upload.refused == {"unknown_key": [1], CODE_SPENT: [2], CODE_UNKNOWN: [3]}
    for wrong in (body[:-1], b"".join(reports), b""):
        with pytest.raises(ProblemError, match="16 more with the code of an invitation"):
            sorted_upload(wrong, wire=wire, accepts={5}.__contains__, most=9, code_bytes=16)


# ----------------------------------------------------------------------------------- the intake


class Class(Shuffler):
    """A shuffler, and people invited to its survey."""

    @classmethod
    def of(cls, directory, people=60, *, url=None, **survey):
        admission = Invited(entitled=people, dishonest=0)
        made = cls.alone(directory, url=url, admission=admission, **survey)
        made.invitations = Invitation.draw(people)
        made.store.codes.add(made.survey.id, made.hashes(made.invitations))
        return made

    def hashes(self, invitations):
        reports = self.survey.reports_per_person
        return [
            hashed for each in invitations for hashed in each.code_hashes(self.survey.id, reports)
        ]

    def code(self, person, occasion=1):
        return self.invitations[person].code(self.survey.id, occasion)

    def bodies(self, people):
        """Sealed reports of people, each with its code."""
        people = list(people)
        reports = self.reports(len(people))
        return [report + self.code(each) for report, each in zip(reports, people, strict=True)]

    def receive(self, bodies):
        """How many are new, and what is refused."""
        size = self.wire.report_bytes
        reports = b"".join(body[:size] for body in bodies)
        codes = b"".join(body[size:] for body in bodies)
        received = self.store.reports.receive([Arrival(self.survey.id, 0, reports, codes)])
        return received.new, (received.refused or [{}])[0]

    def totals(self):
        return self.store.codes.totals(self.survey.id)


@pytest.fixture
def invited(tmp_path):
    made = Class.of(tmp_path)
    yield made
    made.close()


@pytest.fixture
def either(url, tmp_path):
    made = Class.of(tmp_path / "shuffler", url=url, reports_per_person=1)
    yield made
    made.close()


def test_made_up_reports_do_not_count(invited):
    """The attack: 999 made-up reports and an honest one. Of an invited survey one is left."""
    made_up = [report + bytes(CODE_BYTES) for report in invited.reports(9)]
    answer = invited.ask(made_up * 111)
    assert answer.status_code == 202
    refused = answer.json()["refused"]
    assert [each["index"] for each in refused] == list(range(999))
    assert {each["reason"] for each in refused} == {CODE_UNKNOWN}
    assert invited.ask(invited.bodies([0])).json() == {"reports": 1, "refused": []}
    invited.work()
    assert invited.tallies()["opened"] == 1
    assert invited.totals().spent == 1


def test_refusals_are_clear_and_the_same_bytes_are_always_safe(invited):
    """One report at a time: a problem document with a status that clients wait after."""
    first, other = invited.bodies([0, 0])
    answers = [invited.ask([first]) for _ in range(3)]
    assert {(each.status_code, each.content) for each in answers} == {
        (202, b'{"reports":1,"refused":[]}')
    }
    another = replace(invited.survey, name="another")
    foreign = invited.invitations[1].code(another.id, 1)
    invited.store.codes.revoke(invited.survey.id, invited.hashes(invited.invitations[2:3]))
    report = invited.wire.report_bytes
    for body, kind in (
        (other, CODE_SPENT),
        (other[:report] + bytes(16), CODE_UNKNOWN),
        (other[:report] + foreign, CODE_UNKNOWN),
        (other[:report] + invited.code(1, occasion=2), CODE_UNKNOWN),
        (other[:report] + invited.code(2), CODE_REVOKED),
    ):
        answer = invited.ask(body)
        assert refusal_of(answer) == (403, kind)
        assert "no report was accepted" in answer.json()["detail"]
    for body in (first[:report], first + b"x", b""):
        answer = invited.ask(body)
        assert refusal_of(answer) == (400, "wrong_length")
        assert answer.json()["code_bytes"] == 16
    mixed = invited.ask([first, other, *invited.bodies([3])])
    assert mixed.json() == {"reports": 3, "refused": [{"index": 1, "reason": CODE_SPENT}]}
    assert invited.totals().spent == 2
    kinds = {reason for name, _, reason in invited.observed if name == "refused_reports"}
    assert kinds == {CODE_SPENT, CODE_UNKNOWN, CODE_REVOKED}


def test_before_and_after_the_survey_reports_are_kept_for_later(invited):
    """A clock that is wrong loses nothing: the code is not spent."""
    body = invited.bodies([0])
    for days in (-40, 80):
        invited.clock.advance(days * 86_400)
        assert refusal_of(invited.ask(body)) == (403, "survey_closed")
    assert invited.totals().spent == 0


def test_an_address_may_send_any_number_for_people_invited_and_few_wrong_codes(invited):
    """Nobody limits a class; a hundred an hour is what anybody has for a survey that is open."""
    limits = {"address_reports": 5, "address_refusals": 3, "address_burst": 10}
    there = {"app": invited.app(**limits), "address": "203.0.113.9"}
    bodies = invited.bodies(range(30))
    assert invited.ask(bodies[:25], **there).status_code == 202
    wrong = [report + bytes([each]) * 16 for each, report in enumerate(invited.reports(4))]
    assert invited.ask(wrong[:3], **there).status_code == 202
    for one in (wrong[3], wrong, wrong[3] + bodies[29]):
        answer = invited.ask(one, **there)
        assert refusal_of(answer) == (429, "too_many")
        assert "wrong codes" in answer.json()["detail"]
        assert answer.json()["retry_after"] <= 1200, "until one more may be wrong"
    assert invited.ask(bodies[29], **there).status_code == 202
    elsewhere = invited.ask(wrong[3], **there | {"address": "203.0.113.10"})
    assert refusal_of(elsewhere) == (403, CODE_UNKNOWN)


def test_one_request_of_wrong_codes_shuts_nobody_out(either, monkeypatch):
    """The attack: 10,000 wrong codes in a body, twelve of them at once, from a school's address."""
    looked_up = []
    registered = codes_module._states

    def counted(connection, survey, hashes):
        looked_up.append(len(hashes))
        return registered(connection, survey, hashes)

    monkeypatch.setattr(codes_module, "_states", counted)
    reports, (mine, next_one) = either.forged(10_000), either.bodies([0, 1])
    wrong = np.random.default_rng(1).bytes(10_000 * CODE_BYTES)
    app, body = either.app(), beside(reports, wrong)

    async def at_once():
        transport = httpx.ASGITransport(app, client=("203.0.113.9", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            path = f"{either.path}/reports"
            sending = [client.post(path, content=body, headers=BYTES) for _ in range(12)]
            answers = await asyncio.gather(*sending)
            return answers, await client.post(path, content=mine, headers=BYTES)

    answers, pupil = asyncio.run(at_once())
    assert pupil.status_code == 202
    # Whichever is answered first: the others may be told to come again later.
    assert {403} <= {answer.status_code for answer in answers} <= {403, 429}
    assert all(int(answer.headers.get("retry-after", 0)) <= 4 for answer in answers)
    refused = next(answer for answer in answers if answer.status_code == 403)
    assert "no report was accepted" in refused.json()["detail"]
    assert 12 * 100 <= sum(looked_up) <= 12 * 500 + 20, "no further than to the hundredth of each"
    assert either.ask(next_one, address="203.0.113.9").status_code == 202
    assert either.totals().spent == 2


def test_codes_that_there_are_are_never_held_against_anybody(invited):
    there = {"app": invited.app(address_refusals=3), "address": "203.0.113.9"}
    assert invited.ask(invited.bodies([0]), **there).status_code == 202
    spent = invited.bodies([0] * 50)
    for _ in range(2):
        answer = invited.ask(spent, **there)
        assert {each["reason"] for each in answer.json()["refused"]} == {CODE_SPENT}
    stranger = invited.reports(1)[0] + bytes(CODE_BYTES)
    assert invited.ask(stranger, **there).status_code == 403, "and not yet 429"


def test_a_few_wrong_codes_among_many_keep_the_others_from_nothing(invited):
    bodies = invited.bodies(range(40))
    reports = invited.reports(99)
    strangers = [report + bytes([each]) * CODE_BYTES for each, report in enumerate(reports)]
    answer = invited.ask(bodies + strangers)
    assert answer.status_code == 202
    assert [each["index"] for each in answer.json()["refused"]] == list(range(40, 139))
    one_more = strangers[0][:-1] + b"x"
    answer = invited.ask([*strangers, one_more, *bodies])
    assert refusal_of(answer) == (403, CODE_UNKNOWN)


def test_an_open_survey_takes_a_hundred_reports_an_hour_of_one_address(shuffler):
    there = {"app": shuffler.app(), "address": "203.0.113.9"}
    forged = shuffler.forged(101)
    size = shuffler.wire.report_bytes
    assert shuffler.ask(forged, **there).status_code == 429
    assert shuffler.ask(forged[: 60 * size], **there).status_code == 202
    assert shuffler.ask(forged[60 * size : 100 * size], **there).status_code == 202
    answer = shuffler.ask(forged[100 * size :], **there)
    assert answer.status_code == 429
    assert "anybody may answer" in answer.json()["detail"]
    assert 30 <= answer.json()["retry_after"] <= 40


# ------------------------------------------------------------------------------------ the store


def test_a_code_counts_once_whatever_comes_with_it(either):
    bodies = either.bodies(range(20))
    assert either.receive(bodies) == (20, {})
    assert either.receive(bodies) == (0, {})
    others = either.bodies(range(20))
    assert either.receive(others) == (0, {CODE_SPENT: list(range(20))})
    # In one body: the first one wins, and its own bytes again are nothing new.
    first, second = either.bodies([30, 30])
    assert either.receive([first, second, first]) == (1, {CODE_SPENT: [1]})
    either.work()
    assert either.receive(bodies) == (0, {})
    assert either.receive(others)[1] == {CODE_SPENT: list(range(20))}
    assert either.totals().spent == 21
    assert either.tallies()["opened"] == 21
    assert rows_of(either.database, schema.waiting_codes) == 0


def test_one_persons_bytes_under_another_persons_code_are_nothing_new(either):
    (body,) = either.bodies([0])
    report = body[: either.wire.report_bytes]
    assert either.receive([body, report + either.code(1)]) == (1, {})
    assert either.receive([report + either.code(2)]) == (0, {})
    assert either.totals().spent == 1
    assert either.receive(either.bodies([1, 2])) == (2, {})  # they have lost nothing
    either.work()
    assert either.totals().spent == 3


def test_what_does_not_open_has_spent_its_code(either):
    forged = either.forged(2)
    size = either.wire.report_bytes
    bodies = [forged[at * size : (at + 1) * size] + either.code(at) for at in range(2)]
    assert either.receive(bodies) == (2, {})
    either.work()
    assert either.tallies()["rejected"] == 2
    assert rows_of(either.database, schema.tags) == 0  # noise must not fill the table
    assert either.receive(bodies) == (0, {})
    assert either.receive(either.bodies([0])) == (0, {CODE_SPENT: [0]})
    assert either.receive(either.bodies([2])) == (1, {})
    claim = either.store.reports.claim(10, 600)
    either.store.reports.dead_letter(claim)
    assert either.receive(either.bodies([2])) == (0, {CODE_SPENT: [0]})
    assert either.totals().spent == 3


def test_a_replacement_has_the_place_of_what_it_replaces(either):
    """Neither totals nor answers to whoever replaces tell who had answered."""
    answered, waiting, silent = 0, 1, 2
    early = either.bodies([answered, waiting, silent])
    either.receive(early[:1])
    either.work()
    either.receive(early[1:2])
    before = either.totals()
    fresh = Invitation.draw(3)
    old = either.hashes(either.invitations[:3])
    pairs = dict(zip(old, either.hashes(fresh), strict=True))
    either.store.codes.replace(either.survey.id, pairs)
    after = either.totals()
    assert (after.registered, after.spent) == (before.registered, before.spent) == (60, 2)
    assert (after.revoked, after.replaced) == (0, 3)
    invited, either.invitations = either.invitations, fresh + either.invitations[3:]
    assert either.receive(early) == (0, {CODE_REVOKED: [2]})  # the others had come before
    assert either.receive(either.bodies([0, 1, 2])) == (1, {CODE_SPENT: [0, 1]})
    either.work()
    assert either.totals().spent == 3
    with pytest.raises(InvalidArgumentError, match="not replaced before"):
        either.store.codes.replace(either.survey.id, {old[0]: bytes(16)})
    with pytest.raises(InvalidArgumentError, match="new codes"):
        either.store.codes.replace(either.survey.id, {either.hashes(invited[3:4])[0]: old[0]})


def test_there_are_never_more_codes_than_the_survey_entitles_people_to(either):
    more = Invitation.draw(1)
    assert either.store.codes.add(either.survey.id, either.hashes(either.invitations)) == 0
    with pytest.raises(InvalidArgumentError, match="at most 60"):
        either.store.codes.add(either.survey.id, either.hashes(more))
    # What was revoked keeps its place: or else who knows whether it was spent?
    gone = either.hashes(either.invitations[:1])
    either.store.codes.revoke(either.survey.id, gone)
    with pytest.raises(InvalidArgumentError, match="at most 60"):
        either.store.codes.add(either.survey.id, either.hashes(more))
    either.store.codes.replace(either.survey.id, {gone[0]: either.hashes(more)[0]})
    either.invitations[0] = more[0]
    assert either.receive(either.bodies([0])) == (1, {})
    with pytest.raises(InvalidArgumentError, match="registered here"):
        either.store.codes.revoke(either.survey.id, [bytes(16)])
    with pytest.raises(InvalidArgumentError, match="hashes of 16 bytes"):
        either.store.codes.add(either.survey.id, [b"short"])
    other = replace(either.survey, admission=Open(dishonest=0))
    either.store.surveys.add(other)
    with pytest.raises(InvalidArgumentError, match="people are invited"):
        either.store.codes.add(other.id, either.hashes(more))


def test_codes_go_with_their_survey(either):
    """Nothing was taken for one survey, which is removed; the other is over, and deleted."""
    never = replace(either.survey, name="never answered")
    either.store.surveys.add(never)
    either.store.codes.add(never.id, [bytes(16)])
    either.store.surveys.remove(never.id)
    assert rows_of(either.database, schema.codes) == 60
    either.receive(either.bodies(range(3)))
    assert either.store.surveys.taken(either.survey.id)
    either.clock.advance(100 * 86_400)
    deleted = either.store.delete_survey(either.survey.id)
    assert deleted.counts["codes"] == 63
    for table in schema.OF_PEOPLE:
        assert rows_of(either.database, table) == 0


def test_the_doctor_says_if_nobody_can_answer(either):
    home = Home(directory=either.store.reports.segments._directory.parent, role="shuffler")
    never = replace(either.survey, name="nobody was invited")
    either.store.surveys.add(never)
    facts = store_facts(home, either.database, None, either.clock)
    (codes,) = [fact for fact in facts if fact.name == "codes"]
    some, none = codes.findings()
    assert (some.state, none.state) == (State.OK, State.WARN)
    assert "60 of 60 registered" in some.detail
    assert "0 of 60 registered: nobody can answer" in none.detail


# ---------------------------------------------------------------------- nothing new to link by


def everything_in(directory):
    """Of every file below, whatever it is."""
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_codes_are_nowhere_once_they_are_spent(invited, tmp_path, caplog):
    """Neither on the shuffler's disk nor in its logs, nor in what the analyzer is handed."""
    caplog.set_level(0)
    bodies = invited.bodies(range(40))
    assert invited.ask(bodies).json()["refused"] == []
    invited.ask(invited.bodies([0]))  # refused
    during = everything_in(tmp_path)
    invited.work()
    assert invited.store.reports.sweep()
    (batch,) = invited.store.batches.listed(invited.survey.id)
    handed = invited.store.batches.release(invited.survey.id, batch.id, "ab" * 16).read_bytes()
    BatchFile.read(handed)
    after = everything_in(tmp_path)
    hashes = invited.hashes(invited.invitations[:40])
    for person in range(40):
        for marked in (invited.code(person), invited.invitations[person].secret):
            for content in (*during.values(), *after.values()):
                assert marked not in content
                assert marked.hex().encode() not in content
            assert marked.hex() not in caplog.text
            assert marked.hex() not in str(invited.observed)
    for hashed in hashes:
        assert hashed not in handed
        assert hashed.hex() not in caplog.text
        for path, content in after.items():
            assert hashed not in content or path.name.startswith("store.sqlite")


# ------------------------------------------------------------------- the files of whoever invites


def test_the_file_of_codes_says_nothing_by_its_order():
    survey = example(admission=CLASS, reports_per_person=2, epsilon=2.4)
    handed = invitations.invite(survey, 30)
    told = invitations.codes_to_add(survey, handed)
    data = told.to_bytes()
    assert CodesFile.from_bytes(data, "x").to_bytes() == data
    listed = json.loads(data)["add"]
    assert listed == sorted(listed)
    assert len(listed) == 60
    assert set(listed) == {hashed.hex() for each in handed for hashed in each.hashes(survey)}
    for wrong in (data[:-1], data.replace(b"codes", b"modes"), b"{}", b"[]", b"\xff", b""):
        with pytest.raises(RefusedError, match="not a file of codes"):
            CodesFile.from_bytes(wrong, "x")


def test_the_table_of_invitations_is_read_as_it_was_written(tmp_path):
    survey = example(admission=CLASS)
    handed, path = invitations.invite(survey, 3, first=7), tmp_path / "invitations.csv"
    path.write_text(invitations.table(survey, handed))
    assert invitations.read_table(path) == handed
    assert invitations.found("8", handed) == handed[1]
    assert invitations.found(str(handed[2].invitation), handed) == handed[2]
    assert invitations.found(str(handed[2].invitation), []).invitation == handed[2].invitation
    for who in ("6", "0000-0000"):
        with pytest.raises(InvalidArgumentError):
            invitations.found(who, handed)
    path.write_text(path.read_text().replace("-", "--U", 1))
    with pytest.raises(RefusedError, match="or was changed"):
        invitations.read_table(path)


def test_a_page_of_qr_codes_has_a_link_for_everybody():
    survey = example(admission=CLASS, question="<script>?")
    handed = invitations.invite(survey, 3)
    page = invitations.qr_page(survey, handed)
    assert page.count("<svg") == 3
    assert "<script>" not in page
    assert all(str(each.invitation) in page for each in handed)


# ---------------------------------------------------------------------------------- backups


@pytest.mark.parametrize("waiting", ["keep", "drop"])
def test_what_was_spent_before_a_backup_is_spent_after_it(tmp_path, waiting):
    """And what was spent later may come again, in another batch than it was in."""
    shuffler = Class.of(tmp_path / "shuffler")
    home = Home(directory=tmp_path / "shuffler", role="shuffler")
    gathered, waits, later = shuffler.bodies([0]), shuffler.bodies([1]), shuffler.bodies([2])
    shuffler.receive(gathered)
    shuffler.work()
    shuffler.receive(waits)
    back_up(home, tmp_path / "b.tar", clock=shuffler.clock, waiting=True)
    shuffler.receive(later)
    shuffler.close()
    restore(
        tmp_path / "b.tar",
        tmp_path / "again",
        unlock=lambda _keys: Protection.none(),
        waiting=waiting,
        clock=shuffler.clock,
    )
    again = Class(tmp_path / "again", shuffler.clock)
    again.survey, again.invitations = shuffler.survey, shuffler.invitations
    assert again.totals().spent == 2
    assert again.receive([*gathered, *waits]) == (0, {})
    assert again.receive(again.bodies([0, 1])) == (0, {CODE_SPENT: [0, 1]})
    assert again.receive(again.bodies([2])) == (1, {})
    assert rows_of(again.database, schema.waiting_codes) == (2 if waiting == "keep" else 1)
    again.close()
